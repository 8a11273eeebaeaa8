/* Requests and answers get lost, one by one: what is granted once stays one grant, what is given up
 * goes back, and nothing is left on the server. Leases are long here, so that what is gone soon was
 * given back and has not just run out. */
#include "harness/server.h"
#include "stage.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t ttl_ms = 20000;
static stage s;
static dlock_client *client;
static dlock_lock *lock;

static const struct {
    proxy_deed deed;
    const char *name;
} deeds[] = {
    {PROXY_CUT_BEFORE, "request lost"},
    {PROXY_CUT_AFTER, "cut behind the request"},
    {PROXY_CUT_REPLY, "cut instead of the reply"},
    {PROXY_DROP_REPLY, "silence instead of the reply"},
};
enum { DEEDS = sizeof(deeds) / sizeof(deeds[0]) };

static dlock_client *open_one(const char *uri)
{
    return stage_open(uri, "lock.ttl_ms", "20000", "client.timeout_ms", "250",
                      "client.poll_ms", "1000", "client.backoff_min_ms", "5",
                      "client.backoff_max_ms", "50", NULL);
}

static bool set_up(void)
{
    if (!stage_set(&s, NULL) || !stage_put_proxy(&s))
        return false;
    client = open_one(s.proxied);
    if (client)
        lock = stage_lock(client, "L");
    return lock != NULL;
}

static void tear_down(void)
{
    dlock_lock_free(lock);
    dlock_client_free(client);
    lock = NULL;
    CHECK(stage_clear(&s, 0));
}

/* Nothing of ours is on the server, and nothing of ours is under way. */
static bool is_settled(void)
{
    return stage_keys(&s)[0] == '\0' && api_stat(client, "unconfirmed") == 0;
}

/* Long before the lease could have ended. */
static int64_t soon_ms(void)
{
    return 2000 + stage_slack_ms();
}

static int64_t counter(void)
{
    return atoll(redis_server_call(&s.server, "GET redisson_lock_token:{L}"));
}

TEST(an_acquire_whose_answer_is_lost_is_one_grant_with_one_token)
{
    if (!set_up())
        return;
    for (int i = 0; i < DEEDS; i++) {
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        stage_plan(&s, deeds[i].deed, 1);
        CHECK_OK(dlock_lock_acquire(lock, patience_ms(), &hold, &err), err);
        CHECK_EQ_INT(stage_deeds(&s), i + 1);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_token(hold), counter());
        CHECK_STR(redis_server_call(&s.server, "HKEYS L"), dlock_hold_owner(hold));
        CHECK_STR(redis_server_call(&s.server, "HVALS L"), "1");
        CHECK_OK(dlock_hold_release(hold, &err), err);
        CHECK_STR(redis_server_call(&s.server, "EXISTS L"), "0");
        dlock_hold_free(hold);
        dlock_error_free(err);
    }
    tear_down();
}

TEST(a_single_try_whose_answer_is_lost_is_unknown_and_taken_back)
{
    if (!set_up())
        return;
    for (int i = 0; i < DEEDS; i++) {
        dlock_hold *hold = NULL;
        stage_plan(&s, deeds[i].deed, 1);
        CHECK_EQ_INT(dlock_lock_acquire(lock, 0, &hold, NULL), DLOCK_EUNKNOWN);
        AWAIT(stage_deeds(&s) == i + 1);
        AWAIT_MS(is_settled(), soon_ms());
        AWAIT(api_stat(client, "connected") == 1);
    }
    tear_down();
}

TEST(a_release_whose_answer_is_lost_is_repeated_until_it_is_confirmed)
{
    if (!set_up())
        return;
    for (int i = 0; i < DEEDS; i++) {
        dlock_hold *hold = stage_take(lock);
        CHECK(hold != NULL);
        stage_plan(&s, deeds[i].deed, 1);
        dlock_err code = dlock_hold_release(hold, NULL);
        harness_note("%s: %s", deeds[i].name, dlock_errname(code));
        CHECK(code == DLOCK_OK || code == DLOCK_EUNKNOWN);
        AWAIT(stage_deeds(&s) == i + 1);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
        dlock_hold_free(hold);
        AWAIT_MS(is_settled(), soon_ms());
    }
    tear_down();
}

/* While a release is unconfirmed, the next acquire goes out behind it and is not hit by it. */
TEST(a_late_release_leaves_the_next_grant_alone)
{
    if (!set_up())
        return;
    for (int i = 0; i < DEEDS; i++) {
        dlock_hold *first = stage_take(lock), *second;
        CHECK(first != NULL);
        stage_plan(&s, deeds[i].deed, 1);
        dlock_op *op = dlock_hold_release_start(first);
        second = stage_take(lock);
        CHECK(second != NULL);
        CHECK(dlock_hold_token(second) > dlock_hold_token(first));
        CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
        dlock_op_free(op);
        AWAIT_MS(api_stat(client, "unconfirmed") == 0, soon_ms());
        CHECK_OK(dlock_hold_verify(second, NULL), NULL);
        CHECK_OK(dlock_hold_release(second, NULL), NULL);
        dlock_hold_free(first);
        dlock_hold_free(second);
        AWAIT_MS(is_settled(), soon_ms());
    }
    tear_down();
}

/* The request waits in the network while the client repeats it and goes on. */
TEST(a_release_that_arrives_late_leaves_the_next_grant_alone)
{
    if (!set_up())
        return;
    dlock_hold *first = stage_take(lock);
    CHECK(first != NULL);
    proxy_stall(s.way);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_EUNKNOWN);
    dlock_hold *second =
        stage_take(lock); /* over a new connection, behind the repeated release */
    CHECK(second != NULL);
    CHECK(dlock_hold_token(second) > dlock_hold_token(first));
    int scripts = stage_scripts(&s);
    proxy_pass(s.way);
    AWAIT(stage_scripts(&s) > scripts);
    nap_ms(20); /* it has been forwarded: the server is about to do it */
    CHECK_OK(dlock_hold_verify(second, NULL), NULL);
    CHECK_OK(dlock_hold_release(second, NULL), NULL);
    dlock_hold_free(first);
    dlock_hold_free(second);
    AWAIT_MS(is_settled(), soon_ms());
    tear_down();
}

/* ---- Each request of a whole life ---- */

static bool is_one_of(dlock_err code, dlock_err one, dlock_err other)
{
    return code == DLOCK_OK || code == one || code == other;
}

static void live_with(int i, int k)
{
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    int before = stage_deeds(&s);
    stage_plan(&s, deeds[i].deed, k);
    CHECK_OK(dlock_lock_acquire(lock, patience_ms(), &hold, &err), err);
    dlock_error_free(err);
    /* What gets no answer leaves the state as it was; a connection just cut may not be there. */
    CHECK(is_one_of(dlock_hold_extend(hold, 2 * ttl_ms, NULL), DLOCK_EUNKNOWN,
                    DLOCK_EUNAVAIL));
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK(is_one_of(dlock_hold_verify(hold, NULL), DLOCK_EUNKNOWN, DLOCK_EUNAVAIL));
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK(dlock_hold_remaining_ms(hold) > ttl_ms / 2);
    CHECK(is_one_of(dlock_hold_release(hold, NULL), DLOCK_EUNKNOWN, DLOCK_EUNAVAIL));
    dlock_hold_free(hold);
    AWAIT(stage_deeds(&s) == before + 1); /* of a repeated request, if need be */
    AWAIT_MS(is_settled(), soon_ms());
    AWAIT(api_stat(client, "connected") == 1);
}

TEST(whichever_request_is_hit_the_lock_is_kept_and_given_back)
{
    if (!set_up())
        return;
    for (int i = 0; i < DEEDS; i++)
        for (int k = 1; k <= 4 && !harness_failed(); k++) {
            live_with(i, k);
            if (harness_failed())
                harness_note("%s, at request %d", deeds[i].name, k);
        }
    CHECK(!harness_failed());
    tear_down();
}

TEST(a_renewal_that_is_lost_once_is_repeated_in_time)
{
    enum { TTL = 1500 };
    if (!set_up())
        return;
    dlock_client *brief =
        stage_open(s.proxied, "lock.ttl_ms", "1500", "client.timeout_ms", "400",
                   "client.backoff_min_ms", "5", "client.backoff_max_ms", "50", NULL);
    CHECK(brief != NULL);
    dlock_lock *same = stage_lock(brief, "L");
    dlock_hold *hold = stage_take(same);
    CHECK(hold != NULL);
    for (int i = 0; i < DEEDS; i++) {
        int64_t renewals = api_stat(brief, "renewals");
        stage_plan(&s, deeds[i].deed, 1);
        AWAIT_MS(stage_deeds(&s) == i + 1, TTL);
        AWAIT_MS(api_stat(brief, "renewals") > renewals, TTL);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    }
    CHECK_EQ_INT(api_stat(brief, "losses"), 0);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    dlock_lock_free(same);
    dlock_client_free(brief);
    tear_down();
}

/* ---- Given up ---- */

TEST(an_acquire_cancelled_on_its_way_ends_at_once_and_is_taken_back)
{
    if (!set_up())
        return;
    for (int i = 0; i < 5; i++) {
        server_freeze(s.server.pid);
        dlock_op *op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_op_wait(op, i * 5), DLOCK_EPENDING);
        if (i == 4)
            AWAIT(server_has_unread(s.server.port)); /* so that one has been asked for */
        dlock_op_cancel(op);
        CHECK_EQ_INT(dlock_op_wait(op, stage_slack_ms()),
                     DLOCK_OK); /* the server is still frozen */
        CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECANCELED);
        CHECK(dlock_op_take_hold(op) == NULL);
        dlock_op_free(op);
        server_thaw(s.server.pid);
        AWAIT_MS(is_settled(), soon_ms());
    }
    CHECK(counter() > 0); /* so it had been granted */
    tear_down();
}

/* The request waits in the network while the client gives it up, connects anew and cleans up. */
TEST(an_acquire_that_arrives_after_its_connection_was_given_up_is_taken_back)
{
    if (!set_up())
        return;
    for (int i = 0; i < 2; i++) {
        dlock_hold *hold = NULL;
        int64_t reconnects = api_stat(client, "reconnects");
        proxy_stall(s.way);
        CHECK_EQ_INT(dlock_lock_acquire(lock, i == 0 ? 0 : 100, &hold, NULL),
                     DLOCK_EUNKNOWN);
        AWAIT(api_stat(client, "reconnects") > reconnects);
        CHECK_STR(stage_keys(&s), "");
        int64_t before = counter();
        proxy_pass(s.way);
        AWAIT(counter() > before); /* now it has arrived, and got the lock */
        AWAIT_MS(is_settled(), soon_ms());
    }
    tear_down();
}

/* The next try comes a bit earlier or later, so that they end up around the very moment. */
static void aim(int64_t *us, int64_t change)
{
    *us += change;
    if (*us < 0 || *us > 20000)
        *us -= change;
}

/* Somebody waits and gives up about when the lock gets free: by time-out, or cancelled. */
static void race(bool by_cancel)
{
    enum { ROUNDS = 150 };
    int won = 0;
    int64_t release_us = by_cancel ? 1000 : 3000, cancel_us = 500;
    if (!set_up())
        return;
    dlock_client *other = open_one(s.uri);
    CHECK(other != NULL);
    dlock_lock *theirs = stage_lock(other, "L");
    for (int i = 0; i < ROUNDS; i++) {
        dlock_hold *before = stage_take(theirs);
        CHECK(before != NULL);
        dlock_op *op = dlock_lock_acquire_start(lock, by_cancel ? DLOCK_FOREVER : 5);
        nap_us(release_us);
        CHECK_OK(dlock_hold_release(before, NULL), NULL);
        dlock_hold_free(before);
        if (by_cancel) {
            nap_us(cancel_us);
            dlock_op_cancel(op);
        }
        CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
        dlock_err code = dlock_op_result(op);
        dlock_hold *hold = dlock_op_take_hold(op);
        CHECK(code == DLOCK_OK || code == DLOCK_EUNKNOWN ||
              code == (by_cancel ? DLOCK_ECANCELED : DLOCK_ETIMEDOUT));
        CHECK((hold != NULL) == (code == DLOCK_OK)); /* never both, never neither */
        if (hold) {
            won++;
            CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        }
        aim(by_cancel ? &cancel_us : &release_us,
            (hold != NULL) == by_cancel ? -100 : 100);
        dlock_hold_free(hold);
        dlock_op_free(op);
        /* A lock that leaked would stay for its lease. */
        AWAIT_MS(is_settled(), soon_ms());
    }
    harness_note("%d of %d got it", won, ROUNDS);
    CHECK(won > 0 && won < ROUNDS);
    AWAIT_MS(is_settled(), soon_ms());
    dlock_lock_free(theirs);
    dlock_client_free(other);
    tear_down();
}

TEST(a_time_out_that_races_with_the_grant_leaks_nothing)
{
    race(false);
}

TEST(a_cancel_that_races_with_the_grant_leaks_nothing)
{
    race(true);
}

TEST(a_client_closed_while_answers_are_missing_leaves_nothing)
{
    if (!set_up())
        return;
    dlock_lock_free(lock);
    dlock_client_free(client);
    for (int i = 0; i < DEEDS; i++) {
        client = open_one(s.proxied);
        CHECK(client != NULL);
        lock = stage_lock(client, "L");
        dlock_hold *hold = stage_take(lock);
        CHECK(hold != NULL);
        stage_plan(&s, deeds[i].deed, 1); /* hits the release that close sends */
        CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
        CHECK_STR(stage_keys(&s), "");
        CHECK_EQ_INT(stage_deeds(&s), i + 1);
        dlock_client_free(client);
        dlock_lock_free(lock);
        dlock_hold_free(hold);
    }
    client = NULL;
    lock = NULL;
    tear_down();
}
