/* Questions and orders beside acquire and release: verify, extend, break, inspect, wait_idle, and
 * waiting for a connection. */
#include "harness/harness.h"
#include "world.h"

#include "util/error.h"
#include "util/info.h"

#include <stdlib.h>
#include <string.h>

static dlk_wait a;
static dlk_query q;

static void start(dlk_query query, int64_t wait_ms)
{
    dlk_error_clear(&q.error); /* of one before, which is over */
    q = query;
    dlk_query_start(&w.core, &q, dlk_clock_after(w.now, wait_ms), w.now);
}

static void inspect(int64_t wait_ms)
{
    start((dlk_query){.ask = {.verb = DLK_INSPECT}, .name = w.name}, wait_ms);
}

static void wait_idle(int64_t wait_ms, bool once)
{
    start((dlk_query){.ask = {.verb = DLK_INSPECT},
                      .name = w.name,
                      .kind = once ? DLK_QUERY_IDLE_NOW : DLK_QUERY_IDLE},
          wait_ms);
}

/* Of the grant that `a` has. */
static void extend(dlk_verb verb, int64_t ttl_ms, int64_t wait_ms)
{
    start((dlk_query){.ask = {.verb = verb, .ttl_ms = ttl_ms}, .grant = a.grant},
          wait_ms);
}

static void says(const char *held)
{
    dlock_info *info = dlk_info_new();
    dlk_info_add_text(info, "mutex", "kind");
    dlk_info_add_text(info, held, "held");
    world_asked(DLK_INSPECT)->info = info;
    world_answer(DLK_INSPECT, DLK_YES);
}

static bool hold(void)
{
    world_acquire(&a, 1, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    return a.over && a.code == DLOCK_OK;
}

/* It has this result, has told so once, and is nobody's any more. */
static bool ended(dlock_err code)
{
    return dlk_query_is_over(&q) && q.code == code && w.queries_over == 1 &&
           w.queries_freed == 1;
}

static bool has_error(const char *text)
{
    return q.error && strcmp(q.error->text, text) == 0;
}

static void end(void)
{
    dlk_core_close(&w.core, w.now);
    dlk_error_clear(&q.error);
    dlk_info_free(q.info);
    world_forget(&a);
    a = (dlk_wait){0};
    world_close();
    q = (dlk_query){0};
}

/* ---- one answer ---- */

TEST(an_answer_ends_the_question_with_what_was_asked_for)
{
    world_open();
    int refs = w.name->refs;
    inspect(5000);
    CHECK_EQ_INT(w.name->refs, refs + 1);
    CHECK(!dlk_query_is_over(&q));
    CHECK_EQ_INT(q.ask.deadline, dlk_clock_after(w.now, 3000)); /* the time-out */
    says("true");
    CHECK(ended(DLOCK_OK));
    CHECK(q.info && !q.ask.info && !q.error);
    CHECK_EQ_INT(w.name->refs, refs);
    CHECK_EQ_INT(dlk_core_next(&w.core), DLK_NEVER);
    end();
}

static const char *text_of(const dlock_info *info, const char *key)
{
    for (size_t i = 0; info && i < info->count; i++)
        if (strcmp(info->entries[i].key, key) == 0)
            return info->entries[i].text;
    return NULL;
}

/* The backend has left them out. */
TEST(an_inspection_counts_those_who_wait_here)
{
    static dlk_wait waits[2];
    world_open();
    CHECK(hold());
    for (uint64_t i = 0; i < 2; i++)
        world_acquire(&waits[i], 2 + i, 5000);
    for (int known = 0; known < 2; known++) {
        inspect(5000);
        dlock_info *info = dlk_info_new();
        if (known)
            dlk_info_add_int(info, 3, "waiters");
        dlk_info_add_int(info, 1, "held");
        world_asked(DLK_INSPECT)->info = info;
        world_answer(DLK_INSPECT, DLK_YES);
        CHECK(ended(DLOCK_OK));
        CHECK_STR(text_of(q.info, "waiters"), known ? "5" : "2");
        dlk_info_free(q.info);
        q = (dlk_query){0};
        w.queries_over = w.queries_freed = 0;
    }
    dlk_core_close(&w.core, w.now);
    for (int i = 0; i < 2; i++)
        world_forget(&waits[i]);
    end();
}

TEST(a_question_is_not_asked_for_longer_than_it_may_wait)
{
    world_open();
    inspect(1200);
    CHECK_EQ_INT(q.ask.deadline, dlk_clock_after(w.now, 1200));
    end();
}

TEST(what_is_broken_or_asked_for_is_told_when_nobody_has_it)
{
    const dlk_verb verbs[] = {DLK_BREAK, DLK_REVOKE};
    for (int i = 0; i < 2; i++) {
        world_open();
        start((dlk_query){.ask = {.verb = verbs[i]}, .name = w.name}, 5000);
        world_answer(verbs[i], DLK_NOT_OURS);
        CHECK(ended(DLOCK_ENOTHELD));
        CHECK(has_error("n: nobody holds it, or another than was named"));
        end();
    }
}

TEST(a_break_without_an_answer_is_unknown_at_once_and_not_repeated)
{
    world_open();
    start((dlk_query){.ask = {.verb = DLK_BREAK}, .name = w.name}, 5000);
    world_answer(DLK_BREAK, DLK_UNKNOWN);
    CHECK(ended(DLOCK_EUNKNOWN));
    CHECK(has_error("n: sent, and not answered"));
    end();
}

TEST(a_break_that_was_not_sent_is_tried_again)
{
    world_open();
    start((dlk_query){.ask = {.verb = DLK_BREAK}, .name = w.name}, 5000);
    world_answer(DLK_BREAK, DLK_NOT_SENT);
    CHECK(!dlk_query_is_over(&q));
    world_move(100);
    world_answer(DLK_BREAK, DLK_YES);
    CHECK(ended(DLOCK_OK));
    end();
}

TEST(a_final_refusal_ends_the_question_and_one_for_now_does_not)
{
    world_open();
    inspect(5000);
    world_refuse(DLK_INSPECT, DLOCK_EUNAVAIL);
    CHECK(!dlk_query_is_over(&q));
    CHECK(!world_asked(DLK_INSPECT));
    world_move(100); /* the first retry comes within 50 ms and a third of it */
    world_refuse(DLK_INSPECT, DLOCK_EACCES);
    CHECK(ended(DLOCK_EACCES));
    CHECK(has_error("refused"));
    end();
}

/* ---- without an answer ---- */

TEST(a_question_without_an_answer_is_asked_again_later_each_time_and_ends_unknown)
{
    world_open();
    inspect(2000);
    int64_t began = w.now;
    int64_t last = 0;
    for (int i = 0; i < 4; i++) {
        world_answer(DLK_INSPECT, DLK_UNKNOWN);
        CHECK(!dlk_query_is_over(&q) && !world_asked(DLK_INSPECT));
        int64_t pause = dlk_core_next(&w.core) - w.now;
        CHECK(pause > last && pause <= (INT64_C(50) << i) * MS * 4 / 3);
        last = (INT64_C(50) << i) * MS * 2 / 3;
        w.now += pause;
        dlk_core_tick(&w.core, w.now);
        CHECK(world_asked(DLK_INSPECT));
    }
    world_answer(DLK_INSPECT, DLK_UNKNOWN);
    world_move(2000 - (w.now - began) / MS + 1);
    CHECK(dlk_query_is_over(&q)); /* its last request is on its way yet */
    CHECK_EQ_INT(q.code, DLOCK_EUNKNOWN);
    CHECK(has_error("n: no answer in time"));
    end();
}

TEST(a_question_that_nothing_was_sent_of_is_unavailable)
{
    world_open();
    world_cut();
    inspect(2000);
    CHECK(!dlk_query_is_over(&q));
    world_move(1999);
    CHECK(!dlk_query_is_over(&q));
    world_move(1);
    CHECK(ended(DLOCK_EUNAVAIL));
    CHECK(has_error("n: cut")); /* what the link said */
    end();
}

TEST(a_question_goes_out_with_the_link)
{
    world_open();
    world_cut();
    inspect(60000);
    world_back();
    says("false");
    CHECK(ended(DLOCK_OK));
    end();
}

TEST(a_question_that_got_no_answer_once_is_unknown_though_the_link_is_down)
{
    world_open();
    inspect(2000);
    world_cut();
    world_move(2000);
    CHECK(ended(DLOCK_EUNKNOWN));
    end();
}

TEST(without_a_majority_that_is_what_the_question_ends_with)
{
    world_open();
    inspect(120); /* over before a third try */
    world_refuse(DLK_INSPECT, DLOCK_EQUORUM);
    CHECK(!dlk_query_is_over(&q));
    world_move(67);
    q.ask.error = dlk_error_make(DLOCK_EQUORUM, "1 of 3");
    world_answer(DLK_INSPECT, DLK_UNKNOWN);
    world_move(53);
    CHECK_EQ_INT(q.code, DLOCK_EQUORUM);
    CHECK(has_error("n: 1 of 3"));
    end();
}

TEST(what_was_said_to_an_earlier_request_is_not_said_of_the_last)
{
    world_open();
    inspect(500);
    world_refuse(DLK_INSPECT, DLOCK_EQUORUM);
    world_move(500);
    CHECK_EQ_INT(q.code, DLOCK_EUNKNOWN);
    CHECK(has_error("n: no answer in time"));
    end();
}

TEST(a_link_that_is_down_for_good_ends_questions_with_its_reason)
{
    dlock_error *why = dlk_error_make(DLOCK_EACCES, "no password");
    world_open();
    world_cut();
    inspect(5000); /* one that waits for the link, … */
    dlk_core_link(&w.core, false, why, w.now);
    CHECK(ended(DLOCK_EACCES));
    CHECK(has_error("no password"));
    dlk_error_clear(&q.error);
    w.queries_over = w.queries_freed = 0;
    inspect(5000); /* … and one that comes later */
    CHECK(ended(DLOCK_EACCES));
    dlk_error_clear(&why);
    end();
}

TEST(a_link_that_is_down_for_now_ends_no_question)
{
    dlock_error *why = dlk_error_make(DLOCK_EUNAVAIL, "again");
    world_open();
    world_cut();
    inspect(5000);
    dlk_core_link(&w.core, false, why, w.now);
    CHECK(!dlk_query_is_over(&q));
    dlk_error_clear(&why);
    end();
}

/* ---- who gives up ---- */

TEST(a_cancelled_question_ends_at_once_and_is_kept_until_its_answer)
{
    world_open();
    inspect(5000);
    dlk_query_cancel(&w.core, &q, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(q.code, DLOCK_ECANCELED);
    CHECK(has_error("n: cancelled"));
    CHECK_EQ_INT(w.queries_freed, 0);
    CHECK_EQ_INT(dlk_core_next(&w.core), DLK_NEVER);
    dlk_query_cancel(&w.core, &q, DLOCK_ECLOSED, w.now); /* changes nothing */
    CHECK_EQ_INT(q.code, DLOCK_ECANCELED);
    says("true"); /* whose list nobody wants */
    CHECK(ended(DLOCK_ECANCELED));
    CHECK(!q.info && !q.ask.info);
    end();
}

TEST(a_client_that_closes_ends_questions_and_takes_no_more)
{
    world_open();
    inspect(5000);
    dlk_core_close(&w.core, w.now);
    CHECK_EQ_INT(q.code, DLOCK_ECLOSED);
    CHECK(has_error("n: the client was closed"));
    says("true");
    CHECK(ended(DLOCK_ECLOSED));
    dlk_error_clear(&q.error);
    w.queries_over = w.queries_freed = 0;
    inspect(5000);
    CHECK(ended(DLOCK_ECLOSED));
    CHECK(has_error("n: the client is closed"));
    CHECK(!world_asked(DLK_INSPECT));
    end();
}

TEST(a_question_that_nobody_will_answer_any_more_goes_with_the_client)
{
    world_open();
    inspect(5000);
    dlk_list_remove(&world_asked(DLK_INSPECT)->link); /* the backend has stopped */
    dlk_core_close(&w.core, w.now);
    CHECK_EQ_INT(w.queries_freed, 0);
    dlk_core_stop(&w.core);
    CHECK(ended(DLOCK_ECLOSED));
    end();
}

/* ---- of a grant ---- */

TEST(an_extension_lengthens_the_lease_and_is_what_is_renewed_from_then_on)
{
    world_open();
    CHECK(hold());
    world_move(1000);
    int refs = a.grant->refs;
    extend(DLK_RENEW, 60000, 5000);
    CHECK_EQ_INT(a.grant->refs, refs + 1);
    CHECK_EQ_INT(q.ask.number, a.grant->number);
    CHECK_EQ_INT(q.ask.ttl_ms, 60000);
    CHECK_EQ_INT(q.ask.most_ms, 63000); /* a time-out later it may arrive yet */
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(ended(DLOCK_OK));
    CHECK_EQ_INT(a.grant->refs, refs);
    CHECK_EQ_INT(a.grant->terms.ttl_ms, 60000);
    CHECK_EQ_INT(a.grant->lease.ends_at - w.now, (60000 - 600 - 2) * MS);
    /* The next renewal is a third of the new lease away, and its alarm set for that. */
    CHECK(dlk_core_next(&w.core) > w.now + 15000 * MS);
    end();
}

TEST(a_grant_that_the_server_does_not_know_is_lost_by_asking)
{
    world_open();
    CHECK(hold());
    extend(DLK_VERIFY, 0, 5000);
    world_answer(DLK_VERIFY, DLK_NOT_OURS);
    CHECK(ended(DLOCK_ELOST));
    CHECK(has_error("request: the server says it isn't ours"));
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    end();
}

TEST(a_verify_that_says_yes_changes_nothing)
{
    world_open();
    CHECK(hold());
    int64_t ends_at = a.grant->lease.ends_at;
    extend(DLK_VERIFY, 0, 5000);
    CHECK_EQ_INT(q.ask.most_ms, 0);
    world_answer(DLK_VERIFY, DLK_YES);
    CHECK(ended(DLOCK_OK));
    CHECK_EQ_INT(a.grant->lease.ends_at, ends_at);
    CHECK_EQ_INT(a.grant->terms.ttl_ms, 10000);
    end();
}

TEST(nobody_is_asked_about_a_grant_that_is_lost)
{
    dlk_terms terms = world_terms();
    terms.renewal = DLK_RENEW_OFF;
    world_open();
    world_acquire_terms(&a, 1, 0, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    w.now += 11000 * MS;
    extend(DLK_VERIFY, 0, 5000);
    CHECK(ended(DLOCK_ELOST));
    CHECK(has_error("request: lost"));
    CHECK(!world_asked(DLK_VERIFY));
    end();
}

TEST(an_answer_about_a_grant_that_was_lost_meanwhile_is_lost)
{
    dlk_terms terms = world_terms();
    terms.renewal = DLK_RENEW_OFF;
    world_open();
    world_acquire_terms(&a, 1, 0, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(9000);
    extend(DLK_VERIFY, 0, 5000);
    world_move(1000);
    world_answer(DLK_VERIFY, DLK_YES);
    CHECK(ended(DLOCK_ELOST));
    CHECK(has_error("request: lost while the answer was on its way"));
    end();
}

/* ---- until it is free ---- */

TEST(who_waits_for_idle_looks_again_when_told_and_hears_when_it_is_free)
{
    world_open();
    wait_idle(60000, false);
    CHECK_EQ_INT(w.watches, 0);
    says("true");
    CHECK(!dlk_query_is_over(&q));
    CHECK_EQ_INT(w.watches, 1);
    CHECK(!world_asked(DLK_INSPECT));
    dlk_core_notified(&w.core, &w.name->key, w.now);
    CHECK(world_asked(DLK_INSPECT));
    says("1"); /* another one has it now */
    CHECK(!dlk_query_is_over(&q));
    CHECK_EQ_INT(w.watches, 1);
    dlk_core_notified(&w.core, &w.name->key, w.now);
    says("false");
    CHECK(ended(DLOCK_OK));
    CHECK(!q.info && !q.ask.info);
    CHECK_EQ_INT(w.watches, 0);
    CHECK_EQ_INT(w.name->idlers, 0);
    end();
}

TEST(what_is_heard_while_looking_is_looked_at_once_more)
{
    world_open();
    wait_idle(60000, false);
    dlk_core_notified(&w.core, &w.name->key, w.now);
    says("true"); /* from before */
    CHECK(world_asked(DLK_INSPECT));
    says("true");
    CHECK(!world_asked(DLK_INSPECT)); /* but only once */
    end();
}

/* Of the same text: another kind. */
TEST(who_asks_about_another_name_is_not_told)
{
    world_open();
    dlk_name *other = calloc(1, sizeof(*other)), *first = w.name;
    CHECK(other != NULL);
    other->key = (dlk_key){.name = "n", .size = 1, .kind = DLOCK_SEMAPHORE};
    CHECK(dlk_name_add(&w.core, other));
    wait_idle(60000, false);
    says("true");
    other->idlers++; /* somebody waits for that one, too */
    dlk_core_notified(&w.core, &other->key, w.now);
    other->idlers--;
    CHECK(!world_asked(DLK_INSPECT));
    dlk_core_notified(&w.core, &first->key, w.now);
    CHECK(world_asked(DLK_INSPECT));
    dlk_name_unref(&w.core, other);
    w.name = first; /* as the world forgets any name that is freed */
    end();
}

TEST(without_a_word_idle_is_looked_for_by_the_poll)
{
    world_open();
    wait_idle(60000, false);
    says("true");
    int64_t pause = dlk_core_next(&w.core) - w.now;
    CHECK(pause >= 750 * MS && pause <= 1250 * MS);
    world_move(1250);
    CHECK(world_asked(DLK_INSPECT));
    end();
}

TEST(a_line_that_tells_only_who_stands_in_it_is_looked_at_often)
{
    world_open();
    w.name->key.queues = true;
    wait_idle(60000, false);
    says("true");
    int64_t pause = dlk_core_next(&w.core) - w.now;
    CHECK(pause >= 15 * MS && pause <= 25 * MS);
    dlk_query_cancel(&w.core, &q, DLOCK_ECANCELED, w.now);
    dlk_error_clear(&q.error);
    w.name->key.tells_all = true;
    wait_idle(60000, false);
    says("true");
    CHECK(dlk_core_next(&w.core) - w.now >= 750 * MS);
    end();
}

TEST(idle_is_looked_for_when_the_holders_lease_is_over)
{
    world_open();
    wait_idle(60000, false);
    q.ask.wait_ms = 300;
    says("true");
    CHECK_EQ_INT(dlk_core_next(&w.core) - w.now, 301 * MS);
    end();
}

TEST(what_an_inspection_does_not_say_to_be_held_is_idle)
{
    world_open();
    wait_idle(5000, false);
    says(NULL);
    CHECK(ended(DLOCK_OK));
    w.queries_over = w.queries_freed = 0;
    wait_idle(5000, false);
    world_answer(DLK_INSPECT, DLK_YES); /* nothing at all */
    CHECK(ended(DLOCK_OK));
    end();
}

TEST(who_only_looks_whether_it_is_idle_has_one_answer)
{
    world_open();
    wait_idle(5000, true);
    says("true");
    CHECK(ended(DLOCK_EBUSY));
    CHECK(has_error("n: somebody holds it"));
    CHECK_EQ_INT(w.watches, 0);
    end();
}

TEST(a_wait_for_idle_runs_out_with_what_was_known_last)
{
    world_open();
    wait_idle(500, false);
    CHECK_EQ_INT(q.ask.deadline, dlk_clock_after(w.now, 3000)); /* not the wait's */
    says("true");
    world_move(500);
    CHECK(ended(DLOCK_ETIMEDOUT));
    CHECK(has_error("n: held all the time"));
    CHECK_EQ_INT(w.name->idlers, 0);
    CHECK_EQ_INT(w.watches, 0);
    end();

    world_open();
    wait_idle(1500, false); /* the second look gets no answer */
    says("true");
    dlk_core_notified(&w.core, &w.name->key, w.now);
    world_answer(DLK_INSPECT, DLK_UNKNOWN);
    world_cut();
    world_move(1500);
    CHECK(ended(DLOCK_EUNKNOWN));
    end();
}

TEST(who_waits_for_idle_does_not_unwatch_what_others_wait_for)
{
    dlk_wait b;
    world_open();
    world_acquire(&b, 2, 60000);
    world_held(-1);
    CHECK_EQ_INT(w.watches, 1);
    wait_idle(500, false);
    says("true");
    world_move(500);
    CHECK(dlk_query_is_over(&q));
    CHECK_EQ_INT(w.watches, 1);
    wait_idle(60000, false);
    says("true");
    dlk_acquire_cancel(&w.core, &b, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(w.watches, 1); /* nor the other way round */
    world_forget(&b);
    end();
}

/* ---- a connection ---- */

TEST(who_waits_for_a_connection_has_it_with_the_link)
{
    world_open_unconnected();
    start((dlk_query){.kind = DLK_QUERY_CONNECT}, 5000);
    CHECK(!dlk_query_is_over(&q));
    world_move(100);
    world_back();
    CHECK(ended(DLOCK_OK));
    end();
    world_open();
    start((dlk_query){.kind = DLK_QUERY_CONNECT}, 5000);
    CHECK(ended(DLOCK_OK));
    end();
}

TEST(who_waits_for_a_connection_hears_that_a_try_has_failed)
{
    world_open_unconnected();
    start((dlk_query){.kind = DLK_QUERY_CONNECT}, 5000);
    world_cut();
    CHECK(ended(DLOCK_EUNAVAIL));
    CHECK(has_error("cut"));
    end();
}

TEST(who_waits_for_a_connection_waits_as_long_as_it_said)
{
    world_open_unconnected();
    start((dlk_query){.kind = DLK_QUERY_CONNECT}, 5000);
    world_move(4999);
    CHECK(!dlk_query_is_over(&q));
    world_move(1);
    CHECK(ended(DLOCK_EUNAVAIL));
    CHECK(has_error("request: no answer in time"));
    end();
}
