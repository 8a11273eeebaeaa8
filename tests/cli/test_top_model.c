/* What dlock top makes of what it is told, without a terminal and without a service: rows from one
 * look to the next, losses, ages by clocks that disagree, the order, the filter; and texts that are
 * cut into cells. */
#include "harness/harness.h"
#include "top/model.h"
#include "top/text.h"
#include "util/info.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATE INT64_C(1700000000000) /* ours, when the model begins at 0 */

static top_model model;

static top_seen held_by(const char *name, const char *owner, int64_t left)
{
    top_seen seen;
    top_seen_clear(&seen);
    seen.name = name;
    seen.owner = owner;
    seen.left_ms = left;
    seen.held = owner != NULL;
    return seen;
}

static bool list(int64_t now, top_seen *seen, size_t count)
{
    return top_model_list(&model, seen, count, true, now, now) &&
           top_model_view(&model, now);
}

static bool list_one(int64_t now, top_seen seen)
{
    return list(now, &seen, 1);
}

static bool look(int64_t now, top_seen seen)
{
    return top_model_look(&model, &seen, now, now) && top_model_view(&model, now);
}

static const top_row *row(const char *name)
{
    return top_model_find(&model, name);
}

TEST(rows_come_and_go_with_the_list_and_keep_what_they_know)
{
    top_model_begin(&model, 0, DATE);
    top_seen first[] = {held_by("b", "x:1", 30000), held_by("a", NULL, -1),
                        held_by("b", "x:1", 30000)};
    CHECK(list(0, first, 3));
    CHECK_EQ_INT(model.count, 2); /* the same name twice is one */
    top_seen seen = held_by("b", "x:1", 29000);
    seen.kind = "write";
    CHECK(look(1000, seen));
    top_seen second[] = {held_by("c", "y:1", 30000), held_by("b", "x:1", 28000)};
    CHECK(list(2000, second, 2));
    CHECK(row("a") == NULL);
    CHECK_STR(row("b")->kind, "write");
    CHECK_EQ_INT(row("b")->held_ms, 2000);
    CHECK(row("b")->held_at_least); /* was there before us */
    CHECK_EQ_INT(row("c")->held_ms, 0);
    CHECK(!row("c")->held_at_least);
    CHECK_EQ_INT(model.clients, 2);
    CHECK_EQ_INT(model.held, 2);
    CHECK(look(2000, held_by("gone", "z:1", 1)));
    CHECK(list(3000, NULL, 0));
    CHECK_EQ_INT(model.count, 0);
    top_model_end(&model);
}

TEST(a_name_that_a_cut_list_had_no_room_for_is_nothing_new)
{
    top_model_begin(&model, 0, DATE);
    top_seen seen = held_by("a", "x:1", 100);
    CHECK(top_model_list(&model, &seen, 1, false, 0, 0));
    seen = held_by("b", "x:1", 30000);
    CHECK(top_model_list(&model, &seen, 1, false, 1000, 1000));
    CHECK(top_model_view(&model, 1000));
    CHECK(row("b")->held_at_least);
    CHECK_EQ_INT(model.lost, 0);
    top_model_end(&model);
}

TEST(a_lease_that_ran_out_is_a_loss_and_a_release_in_time_is_none)
{
    top_model_begin(&model, 0, DATE);
    CHECK(list_one(0, held_by("a", "x:1", 30000)));
    CHECK(list_one(1000, held_by("a", "y:1", 30000))); /* released in time */
    CHECK_EQ_INT(model.lost, 0);
    CHECK(list_one(15900, held_by("a", "y:1", 14900)));
    CHECK(row("a")->late);
    CHECK(list_one(30500, held_by("a", "y:1", 300)));
    CHECK(list(30700, NULL, 0)); /* released, though late */
    CHECK_EQ_INT(model.lost, 0);
    CHECK(list_one(31000, held_by("a", "z:1", 30000)));
    CHECK(list_one(60500, held_by("a", "z:1", 300)));
    CHECK(list_one(60900, held_by("a", "x:1", 30000))); /* ran out, and another has it */
    CHECK_EQ_INT(model.lost, 1);
    CHECK(list_one(90500, held_by("a", "x:1", 300)));
    CHECK(list(90900, NULL, 0)); /* ran out, and nobody has it */
    CHECK_EQ_INT(model.lost, 2);
    top_model_end(&model);
}

/* Left when the service looked, which was at any time from the request to its answer. */
TEST(how_long_an_answer_took_hides_no_loss)
{
    top_model_begin(&model, 0, DATE);
    CHECK(list_one(0, held_by("a", "x:1", 30000)));
    top_seen late = held_by("a", "x:1", 300);
    CHECK(top_model_list(&model, &late, 1, true, 30000, 30280));
    late = held_by("a", NULL, -1); /* a look at the lock itself, right behind that */
    CHECK(top_model_look(&model, &late, 30280, 30310));
    CHECK_EQ_INT(model.lost, 1);
    CHECK(list_one(31000, held_by("a", "y:1", 30000)));
    late = held_by("a", "y:1", 300);
    CHECK(top_model_look(&model, &late, 61000, 61200));
    CHECK(list(61290, NULL, 0)); /* before it can have run out */
    CHECK_EQ_INT(model.lost, 1);
    top_model_end(&model);
}

TEST(the_same_owner_with_another_token_is_another_hold)
{
    top_model_begin(&model, 0, DATE);
    top_seen seen = held_by("a", "x:1", 30000);
    seen.token = 7;
    CHECK(list_one(0, held_by("a", "x:1", 30000)));
    CHECK(look(1000, seen)); /* a list that told no token told of the same */
    CHECK_EQ_INT(row("a")->held_ms, 1000);
    seen.token = 8;
    CHECK(look(5000, seen));
    CHECK_EQ_INT(row("a")->held_ms, 0);
    top_model_end(&model);
}

/* How far apart the clocks are is learned by a holder that comes while we look. */
TEST(dates_count_by_the_clock_of_the_service)
{
    const int64_t hour = 3600000, ahead[] = {0, 5 * 60000, -5 * 60000};
    for (size_t i = 0; i < sizeof ahead / sizeof *ahead; i++) {
        top_model_begin(&model, 0, DATE);
        top_seen old = held_by("old", "x:1", 30000), new = held_by("new", "y:1", 30000);
        old.since = DATE + ahead[i] - hour;
        CHECK(list_one(0, old));
        CHECK(row("old")->held_ms >= hour - 5 * 60000);
        new.since = DATE + ahead[i] + 900;
        top_seen both[] = {old, new};
        CHECK(list(1000, both, 2));
        int64_t off = row("old")->held_ms - (hour + 1000);
        CHECK(off >= -1000 && off <= 1000);
        CHECK(!row("old")->held_at_least);
        CHECK_EQ_INT(row("new")->held_ms, 0);
        top_model_end(&model);
    }
}

/* On some services a date is of when somebody asked, who may have waited for hours. */
TEST(who_has_waited_says_nothing_of_the_clock)
{
    const int64_t hour = 3600000;
    top_model_begin(&model, 0, DATE);
    top_seen seen[] = {held_by("old", "x:1", 30000), held_by("wanted", "y:1", 30000)};
    seen[0].since = DATE - 5 * hour;
    seen[1].waiters = 1;
    CHECK(list(0, seen, 2));
    CHECK(look(0, seen[1]));
    seen[1] = held_by("wanted", "z:1", 30000);
    seen[1].since = DATE - hour;
    CHECK(look(1000, seen[1]));
    CHECK_EQ_INT(row("old")->held_ms, 5 * hour + 1000);
    CHECK_EQ_INT(row("wanted")->held_ms, 0);
    top_model_end(&model);
}

/* Dates and leases that a service, or who writes there, may have made up. */
TEST(no_number_is_too_large)
{
    static const char *const keys[] = {"holders.0.owner", "holders.0.remaining_ms",
                                       "holders.0.since", "waiting.0.owner",
                                       "waiting.0.since"};
    static const char *const large[] = {"9223372036854775807", "99999999999999999999",
                                        "1125899906842624"};
    char bar[40];
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        top_seen seen;
        dlock_info *info = dlk_info_new();
        for (size_t j = 0; j < sizeof keys / sizeof *keys; j++)
            dlk_info_add_text(info, large[i], "%s", keys[j]);
        dlk_info_add_text(info, "1", "held");
        top_seen_of_lock(&seen, info);
        seen.name = "a";
        seen.waiters = 1;
        CHECK_EQ_INT(seen.since, -1);
        CHECK_EQ_INT(seen.first_since, -1);
        top_model_begin(&model, 0, DATE);
        CHECK(list(0, NULL, 0));
        CHECK(list_one(1000, seen));
        CHECK(look(2000, seen));
        CHECK_EQ_INT(row("a")->held_ms, 1000);
        CHECK_EQ_INT(row("a")->waited_ms, 0);
        top_text_bar(bar, sizeof bar, row("a")->left_ms, row("a")->whole_ms, 8, false);
        CHECK_STR(bar, "########");
        top_model_end(&model);
        dlk_info_free(info);
    }
}

TEST(a_lock_is_of_the_kind_that_it_says)
{
    static const struct {
        const char *says;
        dlock_kind kind;
    } kinds[] = {{NULL, DLOCK_MUTEX},
                 {"mutex", DLOCK_MUTEX},
                 {"read", DLOCK_READ},
                 {"write", DLOCK_WRITE},
                 {"semaphore", DLOCK_SEMAPHORE},
                 {"election", DLOCK_ELECTION},
                 {"other", DLOCK_MUTEX}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        top_model_begin(&model, 0, DATE);
        top_seen seen = held_by("a", "x:1", 30000);
        CHECK(list_one(0, seen));
        seen.kind = kinds[i].says;
        CHECK(look(0, seen));
        CHECK_EQ_INT(top_row_kind(row("a")), kinds[i].kind);
        top_model_end(&model);
    }
}

TEST(a_date_in_the_future_makes_no_age)
{
    top_model_begin(&model, 0, DATE);
    top_seen seen = held_by("a", "x:1", 30000);
    seen.since = DATE + 600000;
    seen.waiters = 1;
    seen.first_waiter = "y:1";
    seen.first_since = DATE + 900000;
    CHECK(list_one(0, seen));
    CHECK(look(100, seen));
    CHECK(look(2100, seen));
    CHECK_EQ_INT(row("a")->held_ms, 2100);
    CHECK(row("a")->held_at_least);
    CHECK_EQ_INT(row("a")->waited_ms, 2000);
    top_model_end(&model);
}

TEST(a_holder_is_its_client_at_its_host_once)
{
    top_model_begin(&model, 0, DATE);
    top_seen seen = held_by("a", "uuid:1", 30000);
    CHECK(list_one(0, seen));
    CHECK_STR(row("a")->who, "uuid:1");
    seen.client = "h:12";
    seen.host = "h";
    seen.pid = 12;
    CHECK(list_one(1, seen));
    CHECK_STR(row("a")->who, "h:12");
    seen.client = "billing";
    CHECK(list_one(2, seen));
    CHECK_STR(row("a")->who, "billing@h:12");
    seen.host = NULL;
    CHECK(list_one(3, seen));
    CHECK_STR(row("a")->who, "billing:12");
    top_model_end(&model);
}

static void fill(void)
{
    top_model_begin(&model, 0, DATE);
    top_seen seen[] = {held_by("free", NULL, -1), held_by("held", "b:1", 30000),
                       held_by("late", "a:1", 30000),
                       held_by("waited for", "c:1", 30000)};
    CHECK(list(0, seen, 4));
    top_seen waited = held_by("waited for", "c:1", 30000);
    waited.waiters = 2;
    CHECK(look(0, waited));
    CHECK(look(20000, held_by("late", "a:1", 10000)));
    CHECK(look(20000, held_by("held", "b:1", 25000)));
}

static const char *in_order(top_order order)
{
    static char names[200];
    size_t used = 0;
    model.order = order;
    if (!top_model_view(&model, 20000))
        return "out of memory";
    for (size_t i = 0; i < model.shown; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                 i > 0 ? ", " : "", model.view[i]->name);
    return names;
}

TEST(each_order_has_its_first)
{
    fill();
    CHECK_STR(in_order(TOP_BY_HURT), "waited for, late, held, free");
    CHECK_STR(in_order(TOP_BY_NAME), "free, held, late, waited for");
    CHECK_STR(in_order(TOP_BY_WAIT), "waited for, free, held, late");
    CHECK_STR(in_order(TOP_BY_LEFT), "late, held, waited for, free");
    CHECK_STR(in_order(TOP_BY_HELD), "held, late, waited for, free");
    CHECK_STR(in_order(TOP_BY_WHO), "late, held, waited for, free");
    CHECK_EQ_INT(model.waiting, 2);
    top_model_end(&model);
}

TEST(the_filter_shows_a_part_and_counts_all)
{
    fill();
    CHECK(top_model_filter(&model, "WAIT"));
    CHECK_STR(in_order(TOP_BY_NAME), "waited for");
    CHECK_EQ_INT(model.held, 3);
    CHECK(top_model_filter(&model, "b:1")); /* a holder's */
    CHECK_STR(in_order(TOP_BY_NAME), "held");
    CHECK(top_model_filter(&model, ""));
    CHECK_STR(in_order(TOP_BY_NAME), "free, held, late, waited for");
    top_model_end(&model);
}

/* However many there are, a look asks for some: those that are seen, then the others in turn. */
TEST(a_hundred_thousand_locks_all_have_their_turn)
{
    enum { MANY = 100000, AT_ONCE = 256, FIRST = 500, SCREEN = 20 };
    top_row *due[AT_ONCE];
    char(*names)[8] = calloc(MANY, sizeof(*names));
    top_seen *seen = calloc(MANY, sizeof(*seen));
    CHECK(names != NULL && seen != NULL);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "%06d", (i * 7919) % MANY);
        seen[i] = held_by(names[i], "x:1", 30000);
    }
    top_model_begin(&model, 0, DATE);
    CHECK(list(0, seen, MANY));
    CHECK_EQ_INT(model.count, MANY);
    CHECK_STR(model.view[0]->name, "000000");
    int64_t now = 1, rounds = MANY / (AT_ONCE - SCREEN) + 1;
    for (int64_t i = 0; i < rounds; i++, now++) {
        size_t count = top_model_due(&model, FIRST, SCREEN, due, AT_ONCE);
        CHECK_EQ_INT(count, AT_ONCE);
        for (size_t j = 0; j < SCREEN; j++)
            CHECK(due[j] == model.view[FIRST + j]);
        for (size_t j = 0; j < count; j++) {
            top_seen one = held_by(due[j]->name, "x:1", 30000);
            CHECK(top_model_look(&model, &one, now, now));
        }
    }
    for (size_t i = 0; i < model.count; i++)
        CHECK(model.rows[i]->asked > 0);
    CHECK_EQ_INT(top_model_due(&model, MANY - 1, SCREEN, due, 5), 5);
    top_model_end(&model);
    free(seen);
    free(names);
}

TEST(what_fails_has_had_its_turn_and_says_why)
{
    top_row *due[1];
    top_model_begin(&model, 0, DATE);
    top_seen seen[] = {held_by("a", NULL, -1), held_by("b", NULL, -1)};
    CHECK(list(0, seen, 2));
    CHECK(top_model_fail(&model, "a", "no right", 5));
    CHECK_EQ_INT(top_model_due(&model, 2, 0, due, 1), 1);
    CHECK_STR(due[0]->name, "b");
    CHECK_STR(row("a")->failed, "no right");
    CHECK(look(6, held_by("a", "x:1", 1)));
    CHECK_STR(row("a")->failed, NULL);
    CHECK(top_model_fail(&model, "gone", "why", 7));
    top_model_end(&model);
}

/* ---- Texts ----------------------------------------------------------------------------- */

static const char *cells(const char *text, int count, bool utf8)
{
    static char out[200];
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    top_text_cells(out, sizeof out, text, count, utf8);
    return out;
}

TEST(a_text_has_exactly_its_cells)
{
    CHECK_STR(cells("abc", 5, true), "abc  ");
    CHECK_STR(cells("abc", 3, true), "abc");
    CHECK_STR(cells("abcd", 3, true), "ab…");
    CHECK_STR(cells("abcd", 3, false), "ab~");
    CHECK_STR(cells("漢字", 4, true), "漢字");
    CHECK_STR(cells("漢字x", 4, true), "漢 …"); /* no half of a wide one */
    CHECK_STR(cells("漢", 1, true), "…");
    CHECK_STR(cells("", 2, true), "  ");
    CHECK_STR(cells("abc", 0, true), "");
    CHECK_STR(cells("abc", -1, true), "");
}

TEST(combining_characters_stay_with_their_base)
{
    CHECK_STR(cells("e\u0301x", 2, true), "e\u0301x");
    CHECK_STR(cells("e\u0301xyz", 3, true), "e\u0301x…");
    CHECK_STR(cells("\u0301x", 2, true), "x ");
    CHECK_STR(cells("e\u0301\u0301\u0301\u0301", 1, true), "e\u0301\u0301");
}

TEST(what_steers_a_terminal_is_a_question_mark)
{
    CHECK_STR(cells("\033[2J\007", 5, true), "?[2J?");
    CHECK_STR(cells("\xc2\x9b"
                    "2J\x9b\xff",
                    5, true),
              "?2J??");
    CHECK_STR(cells("a\u202eb\u200d\ufeff", 5, true), "a?b??");
    CHECK_STR(cells("aé漢", 3, false), "a??");
    CHECK_STR(cells("\xf0\x9f", 3, true), "?? ");
}

TEST(a_small_room_is_never_left)
{
    char out[8];
    for (size_t size = 1; size <= sizeof out; size++) {
        memset(out, 'z', sizeof out);
        top_text_cells(out, size, "漢字漢字", 8, true);
        CHECK(strlen(out) < size);
        memset(out, 'z', sizeof out);
        top_text_bar(out, size, 1, 2, 8, true);
        CHECK(strlen(out) < size);
    }
}

static const char *age(int64_t ms, bool at_least)
{
    static char out[24];
    top_text_age(out, sizeof out, ms, at_least);
    return out;
}

TEST(ages_are_short)
{
    CHECK_STR(age(-1, false), "-");
    CHECK_STR(age(999, false), "0s");
    CHECK_STR(age(59999, true), ">59s");
    CHECK_STR(age(61000, false), "1m01s");
    CHECK_STR(age(3661000, false), "1h01m");
    CHECK_STR(age(INT64_C(90000000), true), ">1d01h");
}

TEST(bars_and_histories_have_their_height)
{
    char out[100];
    top_text_bar(out, sizeof out, 1, 2, 4, true);
    CHECK_STR(out, "██  ");
    top_text_bar(out, sizeof out, 5, 16, 4, true);
    CHECK_STR(out, "█▎  ");
    top_text_bar(out, sizeof out, 9, 3, 4, false); /* more than there ever was */
    CHECK_STR(out, "####");
    top_text_bar(out, sizeof out, 0, 0, 4, false);
    CHECK_STR(out, "....");
    const int64_t values[] = {0, 50, -1, 100};
    top_text_history(out, sizeof out, values, 4, true);
    CHECK_STR(out, "▁▄x█");
    top_text_history(out, sizeof out, values, 4, false);
    CHECK_STR(out, "_~x#");
}
