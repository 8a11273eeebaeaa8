/* A release that takes our next contender with it: what its answer means for that one, whatever has
 * become of it meanwhile. */
#include "harness/harness.h"
#include "world.h"

#include "util/error.h"

#include <string.h>

static dlk_wait a, b, c, release;

static bool lives(const dlk_wait *wait)
{
    return wait->over && wait->code == DLOCK_OK &&
           dlk_grant_settle(&w.core, wait->grant, w.now);
}

/* a has the lock, b waits for it, and a's release is under way. */
static dlk_ask *release_with_heir(void)
{
    world_open();
    w.name->key.passes = w.name->key.queues = true;
    world_acquire(&a, 1, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    dlk_terms terms = world_terms();
    terms.ttl_ms = 7000;
    world_acquire_terms(&b, 2, 60000, terms);
    world_release(&release, a.hold);
    return world_asked(DLK_RELEASE);
}

/* The answer to the release, and what it says of the heir. */
static void answer(dlk_reply reply, dlk_reply next)
{
    dlk_ask *give = world_asked(DLK_RELEASE);
    if (reply == DLK_YES) {
        give->next_reply = next;
        give->token = next == DLK_YES ? ++w.last_token : 0;
    }
    give->wait_ms = 400;
    world_answer(DLK_RELEASE, reply);
}

static void end(void)
{
    dlk_core_close(&w.core, w.now);
    if (release.name)
        dlk_release_detach(&w.core, &release, DLOCK_ECANCELED, w.now);
    world_end((dlk_wait *[]){&a, &b, &c, &release, NULL});
}

/* ---- What each answer means ---- */

TEST(a_release_names_our_next_contender_which_asks_for_nothing_meanwhile)
{
    dlk_ask *give = release_with_heir();
    CHECK(give && give->next != 0 && give->next != give->number);
    CHECK_EQ_INT(give->ttl_ms, 7000);
    CHECK(world_asked(DLK_ACQUIRE) == NULL);
    end();
}

TEST(a_release_names_nobody_where_nobody_waits_or_only_tries)
{
    world_open();
    w.name->key.passes = true;
    world_acquire(&a, 1, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_release(&release, a.hold);
    CHECK_EQ_INT(world_asked(DLK_RELEASE)->next, 0);
    answer(DLK_YES, DLK_PENDING);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    end();
}

TEST(a_lock_that_was_passed_is_held_with_its_token_and_validity_from_before_the_release)
{
    release_with_heir();
    world_move(300);
    answer(DLK_YES, DLK_YES);
    CHECK(release.over && release.code == DLOCK_OK);
    CHECK(lives(&b));
    CHECK_EQ_INT(b.grant->token, 2);
    CHECK_EQ_INT(b.grant->lease.ends_at - w.now, (7000 - 70 - 2 - 300) * MS);
    CHECK_EQ_INT(w.acquires, 1);
    end();
}

TEST(a_lock_that_was_passed_is_not_held_when_the_answer_comes_after_its_lease)
{
    uint64_t heir = release_with_heir()->next;
    world_move(6950);
    answer(DLK_YES, DLK_YES);
    CHECK(!b.over);
    dlk_ask *give = world_asked(DLK_RELEASE);
    CHECK(give && give->number == heir);
    CHECK(world_asked(DLK_ACQUIRE) && world_asked(DLK_ACQUIRE)->number != heir);
    end();
}

TEST(an_heir_in_the_line_claims_with_its_number_when_it_is_told)
{
    uint64_t heir = release_with_heir()->next;
    answer(DLK_YES, DLK_HELD);
    CHECK(!b.over && world_asked(DLK_ACQUIRE) == NULL);
    CHECK_EQ_INT(w.watches, 1);
    dlk_core_notified(&w.core, &w.name->key, w.now);
    CHECK(world_asked(DLK_ACQUIRE) && world_asked(DLK_ACQUIRE)->number == heir);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(lives(&b));
    end();
}

TEST(an_heir_in_the_line_looks_again_when_the_server_said_so)
{
    release_with_heir();
    answer(DLK_YES, DLK_HELD);
    world_move(401);
    CHECK(world_asked(DLK_ACQUIRE) != NULL);
    end();
}

TEST(a_message_that_comes_before_the_answer_is_not_lost)
{
    uint64_t heir = release_with_heir()->next;
    dlk_core_notified(&w.core, &w.name->key, w.now);
    CHECK(world_asked(DLK_ACQUIRE) == NULL);
    answer(DLK_YES, DLK_HELD);
    CHECK(world_asked(DLK_ACQUIRE) && world_asked(DLK_ACQUIRE)->number == heir);
    end();
}

TEST(an_heir_nothing_was_done_about_asks_for_itself_at_once)
{
    static const dlk_reply replies[] = {DLK_YES, DLK_NOT_OURS};
    for (int i = 0; i < 2; i++) {
        uint64_t heir = release_with_heir()->next;
        answer(replies[i], DLK_PENDING);
        CHECK_EQ_INT(release.code, i ? DLOCK_ELOST : DLOCK_OK);
        CHECK(world_asked(DLK_ACQUIRE) && world_asked(DLK_ACQUIRE)->number == heir);
        world_answer(DLK_ACQUIRE, DLK_YES);
        CHECK(lives(&b));
        end();
    }
}

TEST(an_heir_of_an_unanswered_release_asks_again_with_its_number)
{
    uint64_t heir = release_with_heir()->next;
    answer(DLK_UNKNOWN, DLK_PENDING);
    CHECK(!b.over);
    world_move(200);
    CHECK(world_asked(DLK_ACQUIRE) && world_asked(DLK_ACQUIRE)->number == heir);
    dlk_ask *again = world_asked(DLK_RELEASE);
    CHECK(again && again->next == 0);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(lives(&b));
    end();
}

TEST(an_heir_of_a_refused_release_waits_with_it)
{
    release_with_heir();
    world_refuse(DLK_RELEASE, DLOCK_EUNAVAIL);
    CHECK(!b.over && !release.over);
    world_move(200);
    world_answer(DLK_RELEASE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(lives(&b));
    end();
}

/* ---- The heir is given up meanwhile ---- */

TEST(an_heir_that_was_given_up_gives_back_whatever_it_got)
{
    static const struct {
        dlk_reply reply, next;
    } answers[] = {{DLK_YES, DLK_YES},
                   {DLK_YES, DLK_HELD},
                   {DLK_YES, DLK_PENDING},
                   {DLK_NOT_OURS, DLK_PENDING},
                   {DLK_UNKNOWN, DLK_PENDING}};
    static const dlock_err ends[] = {DLOCK_ECANCELED, DLOCK_ETIMEDOUT};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        for (size_t j = 0; j < 2; j++) {
            uint64_t heir = release_with_heir()->next;
            dlk_acquire_cancel(&w.core, &b, ends[j], w.now);
            CHECK(b.over && b.hold == NULL);
            answer(answers[i].reply, answers[i].next);
            dlk_ask *give = world_asked(DLK_RELEASE);
            CHECK(give && give->number == heir && give->next == 0);
            CHECK(world_asked(DLK_ACQUIRE) == NULL);
            end();
        }
}

TEST(what_an_heir_got_goes_to_the_next_when_it_is_given_up)
{
    uint64_t heir = release_with_heir()->next;
    dlk_terms terms = b.terms;
    world_acquire_terms(&c, 3, 60000, terms);
    dlk_acquire_cancel(&w.core, &b, DLOCK_ECANCELED, w.now);
    answer(DLK_YES, DLK_YES);
    CHECK(lives(&c));
    CHECK_EQ_INT(c.grant->number, heir);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(what_an_heir_got_is_given_back_before_another_lease_is_asked_for)
{
    uint64_t heir = release_with_heir()->next;
    world_acquire(&c, 3, 60000); /* with another lease: it needs a number of its own */
    dlk_acquire_cancel(&w.core, &b, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(w.releases, 2);
    CHECK(world_asked(DLK_ACQUIRE) && world_asked(DLK_ACQUIRE)->number != heir);
    answer(DLK_YES, DLK_YES);
    CHECK(!c.over);
    end();
}

TEST(a_client_that_closes_gives_its_heir_back)
{
    static const dlk_reply nexts[] = {DLK_YES, DLK_HELD, DLK_PENDING};
    for (int i = 0; i < 3; i++) {
        uint64_t heir = release_with_heir()->next;
        dlk_core_close(&w.core, w.now);
        CHECK_EQ_INT(b.code, DLOCK_ECLOSED);
        answer(DLK_YES, nexts[i]);
        CHECK(world_asked(DLK_RELEASE) && world_asked(DLK_RELEASE)->number == heir);
        world_answer(DLK_RELEASE, DLK_YES);
        CHECK_EQ_INT((int)dlk_core_unconfirmed(&w.core), 0);
        end();
    }
}

TEST(an_heir_outlives_a_cut_of_the_connection)
{
    uint64_t heir = release_with_heir()->next;
    world_cut();
    CHECK(!b.over);
    world_back();
    dlk_ask *give = world_asked(DLK_RELEASE), *take = world_asked(DLK_ACQUIRE);
    CHECK(give && give->next == 0);
    CHECK(take && take->number == heir);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(lives(&b));
    end();
}

/* ---- All of it at random, beside a model of the server ---- */

enum { LINE = 64 };

static struct {
    uint64_t holder, line[LINE];
    int count;
} model;

static bool leave_line(uint64_t number)
{
    for (int i = 0; i < model.count; i++)
        if (model.line[i] == number) {
            model.line[i] = model.line[--model.count];
            return true;
        }
    return false;
}

static void does_acquire(dlk_ask *one)
{
    if (model.holder == 0)
        model.holder = one->number;
    if (model.holder == one->number) {
        (void)leave_line(one->number);
        one->token = ++w.last_token;
        one->reply = DLK_YES;
        return;
    }
    (void)leave_line(one->number);
    CHECK(model.count < LINE);
    model.line[model.count++] = one->number;
    one->reply = DLK_HELD;
}

/* @p fate chooses what becomes of the next one of ours. */
static void does_release(dlk_ask *one, unsigned fate)
{
    bool was_ours = model.holder == one->number;
    one->reply = was_ours || leave_line(one->number) ? DLK_YES : DLK_NOT_OURS;
    if (!was_ours)
        return;
    model.holder = 0;
    if (one->next && fate % 3 == 0) {
        model.holder = one->next;
        one->token = ++w.last_token;
        one->next_reply = DLK_YES;
    } else if (one->next && fate % 3 == 1 && model.count < LINE) {
        model.line[model.count++] = one->next;
        one->next_reply = DLK_HELD;
    }
}

/* Carries out the oldest request, or loses it, or its answer. */
static void serve(dlk_rand *rand, bool reliable)
{
    dlk_list *first = dlk_list_take_first(&w.asked);
    if (!first)
        return;
    dlk_ask *one = DLK_LIST_ITEM(first, dlk_ask, link);
    unsigned fate = (unsigned)(dlk_rand_next(rand) % 300);
    bool arrives = reliable || fate % 10 != 9;
    one->reply = DLK_YES;
    one->lasts = true;
    one->wait_ms = 500;
    if (arrives && one->verb == DLK_ACQUIRE)
        does_acquire(one);
    if (arrives && one->verb == DLK_RELEASE)
        does_release(one, fate);
    if (!reliable && fate % 10 >= 8)
        one->reply = DLK_UNKNOWN;
    else if (one->verb == DLK_RENEW)
        one->reply = model.holder == one->number ? DLK_YES : DLK_NOT_OURS;
    dlk_core_answered(&w.core, one, w.now);
}

enum { CROWD = 5 };
static dlk_wait crowd[CROWD], releases[CROWD];

static int holding(void)
{
    int count = 0;
    for (int i = 0; i < CROWD; i++)
        count += crowd[i].hold && dlk_grant_lives(crowd[i].grant);
    return count;
}

static void step_of(int i, dlk_rand *rand)
{
    dlk_wait *wait = &crowd[i];
    bool idle = !wait->name || (wait->over && !wait->hold);
    if (idle) {
        if (releases[i].name && !releases[i].over)
            return;
        world_forget(&releases[i]);
        world_forget(wait);
        world_acquire(wait, (uint64_t)i + 1, dlk_rand_next(rand) % 4 ? 60000 : 0);
    } else if (!wait->over) {
        if (dlk_rand_next(rand) % 4 == 0)
            dlk_acquire_cancel(&w.core, wait, DLOCK_ECANCELED, w.now);
    } else {
        world_release(&releases[i], wait->hold);
        world_free_hold(wait->hold);
        wait->hold = NULL;
    }
}

static void end_crowd(dlk_rand *rand)
{
    for (int i = 0; i < CROWD; i++) {
        if (crowd[i].name && !crowd[i].over)
            dlk_acquire_cancel(&w.core, &crowd[i], DLOCK_ECANCELED, w.now);
        world_forget(&crowd[i]);
    }
    for (int i = 0;
         i < 2000 && (!dlk_list_empty(&w.asked) || model.holder || model.count); i++) {
        serve(rand, true);
        world_move(20);
    }
    CHECK_EQ_INT((int)model.holder, 0);
    CHECK_EQ_INT(model.count, 0);
    dlk_core_close(&w.core, w.now);
    for (int i = 0; i < CROWD; i++) {
        if (releases[i].name)
            dlk_release_detach(&w.core, &releases[i], DLOCK_ECANCELED, w.now);
        dlk_error_clear(&releases[i].error);
        releases[i] = crowd[i] = (dlk_wait){0};
    }
    world_close();
}

TEST(whatever_is_lost_and_given_up_one_at_a_time_holds_and_nothing_is_left_behind)
{
    int most = 0, granted = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        dlk_rand rand = {.state = seed};
        memset(&model, 0, sizeof(model));
        world_open();
        w.name->key.passes = w.name->key.queues = true;
        for (int step = 0; step < 400; step++) {
            step_of((int)(dlk_rand_next(&rand) % CROWD), &rand);
            if (dlk_rand_next(&rand) % 3)
                serve(&rand, false);
            if (dlk_rand_next(&rand) % 5 == 0)
                dlk_core_notified(&w.core, &w.name->key, w.now);
            world_move((int64_t)(dlk_rand_next(&rand) % 60));
            int now = holding();
            most = now > most ? now : most;
        }
        granted += (int)w.core.stats.grants;
        end_crowd(&rand);
    }
    harness_note("%d grants", granted);
    CHECK_EQ_INT(most, 1);
    CHECK(granted > 5000);
}
