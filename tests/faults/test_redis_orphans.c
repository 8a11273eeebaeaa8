/* What somebody leaves behind, or does too late, before a real server (reliability.md A6, A7, A8):
 * a release that fails delays others by one lease at most, never hits the next owner, and a script
 * that breaks off leaves no lock. */
#include "stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *ttl_text;
static int64_t ttl_ms;
static stage s;
static dlock_client *mine, *theirs; /* mine goes through the proxy */
static dlock_lock *lock, *wanted;

static dlock_client *open_one(const char *uri)
{
    return stage_open(uri, "lock.ttl_ms", ttl_text, "client.timeout_ms", "250",
                      "client.poll_ms", "100", "client.backoff_min_ms", "5",
                      "client.backoff_max_ms", "50", "client.close_ms", "300", NULL);
}

static bool set_up(void)
{
    ttl_text = getenv("DLK_TEST_SLOW") ? "4000" : "1000";
    ttl_ms = atoll(ttl_text);
    if (!stage_set(&s, NULL) || !stage_put_proxy(&s))
        return false;
    mine = open_one(s.proxied);
    theirs = open_one(s.uri);
    lock = mine ? stage_lock(mine, "L") : NULL;
    wanted = theirs ? stage_lock(theirs, "L") : NULL;
    return lock && wanted;
}

static void tear_down(void)
{
    dlock_lock_free(lock);
    dlock_lock_free(wanted);
    dlock_client_free(mine);
    dlock_client_free(theirs);
    CHECK(stage_clear(&s, ttl_ms));
}

static void give_back(dlock_hold *hold)
{
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
}

/* ---- A6: the release failed ---- */

static const proxy_deed deeds[] = {PROXY_CUT_BEFORE, PROXY_CUT_AFTER, PROXY_CUT_REPLY,
                                   PROXY_DROP_REPLY, PROXY_TEAR_REQUEST};
enum { DEEDS = sizeof(deeds) / sizeof(deeds[0]) };

static bool plan_at_lock(proxy_deed deed)
{
    proxy_plan its = {.deed = deed, .number = 1, .command = "EVAL*", .word = "L"};
    return harness_check(__FILE__, __LINE__, proxy_add_plan(s.way, its), "a plan");
}

TEST(A6_cut_off_in_the_release_for_good_others_wait_one_lease_at_most)
{
    if (!set_up())
        return;
    for (int i = 0; i < DEEDS; i++) {
        dlock_hold *hold = stage_take(lock);
        CHECK(hold != NULL && plan_at_lock(deeds[i]));
        dlock_op *op = dlock_hold_release_start(hold);
        AWAIT(stage_deeds(&s) == i + 1);
        proxy_refuse(s.way); /* nothing can be repeated */
        proxy_hole(s.way, PROXY_BOTH);
        int64_t began = awake_now_ns();
        dlock_hold *next = stage_take(wanted);
        CHECK(next != NULL);
        CHECK((awake_now_ns() - began) / STAGE_MS <= ttl_ms + stage_slack_ms());
        CHECK(dlock_hold_token(next) > dlock_hold_token(hold));
        give_back(next);
        proxy_pass(s.way);
        CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
        dlock_op_free(op);
        dlock_hold_free(hold);
        AWAIT(api_stat(mine, "unconfirmed") == 0 && api_stat(mine, "connected"));
    }
    tear_down();
}

/* The same once only: it is repeated in the background, long before the lease ends. */
TEST(A6_a_release_that_failed_once_is_repeated_long_before_the_lease_ends)
{
    if (!set_up())
        return;
    dlock_conf *conf = dlock_conf_new();
    dlock_lock *patient = NULL;
    CHECK_OK(dlock_conf_set(conf, "lock.ttl_ms", "120000", NULL), NULL);
    CHECK_OK(dlock_lock_new(mine, DLOCK_MUTEX, "L", conf, &patient, NULL), NULL);
    dlock_conf_free(conf);
    for (int i = 0; i < DEEDS; i++) {
        dlock_hold *hold = stage_take(patient);
        CHECK(hold != NULL && plan_at_lock(deeds[i]));
        dlock_op *op = dlock_hold_release_start(hold);
        AWAIT(stage_deeds(&s) == i + 1);
        dlock_hold *next =
            stage_take(wanted); /* has less patience than the lease lasts */
        CHECK(next != NULL);
        AWAIT(api_stat(mine, "unconfirmed") == 0);
        CHECK_OK(dlock_hold_verify(next, NULL), NULL); /* no repeated one has hit it */
        give_back(next);
        CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
        dlock_op_free(op);
        dlock_hold_free(hold);
    }
    dlock_lock_free(patient);
    tear_down();
}

/* ---- A7: the release comes when another has it ---- */

TEST(A7_released_after_the_lease_the_next_owner_keeps_it)
{
    if (!set_up())
        return;
    dlock_hold *hold = stage_take(lock);
    CHECK(hold != NULL);
    proxy_hole(s.way, PROXY_BOTH);
    dlock_hold *next = stage_take(wanted);
    CHECK(next != NULL);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    proxy_pass(s.way);
    AWAIT(api_stat(mine, "connected") == 1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    AWAIT(api_stat(mine, "unconfirmed") == 0);
    CHECK_OK(dlock_hold_verify(next, NULL), NULL);
    CHECK_STR(redis_server_call(&s.server, "HKEYS L"), dlock_hold_owner(next));
    give_back(next);
    dlock_hold_free(hold);
    tear_down();
}

/* Sent in time, but the network keeps it until another has the lock. */
TEST(A7_a_release_that_arrives_after_the_lease_leaves_the_next_owner_alone)
{
    if (!set_up())
        return;
    dlock_hold *hold = stage_take(lock);
    CHECK(hold != NULL);
    AWAIT(api_stat(mine, "renewals") >= 1);
    proxy_stall(s.way);
    proxy_refuse(s.way); /* else it would be repeated on a new connection */
    int64_t scripts = proxy_requests(s.way, "EVAL*");
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_EUNKNOWN);
    dlock_hold *next = stage_take(wanted);
    CHECK(next != NULL);
    proxy_pass(s.way);
    AWAIT(proxy_requests(s.way, "EVAL*") > scripts);
    AWAIT(api_stat(mine, "unconfirmed") == 0 && api_stat(mine, "connected"));
    CHECK_OK(dlock_hold_verify(next, NULL), NULL);
    CHECK_STR(redis_server_call(&s.server, "HKEYS L"), dlock_hold_owner(next));
    give_back(next);
    dlock_hold_free(hold);
    tear_down();
}

/* ---- A8: the script breaks off ---- */

static const struct {
    const char *ill, *well;
} poisons[] = {
    {"SET redisson_lock_token:{L} gibberish", "DEL redisson_lock_token:{L}"},
    {"LPUSH redisson_lock_token:{L} x", "DEL redisson_lock_token:{L}"},
    {"SET redisson_lock_token:{L} 9223372036854775807", "DEL redisson_lock_token:{L}"},
    {"ACL SETUSER default -hset", "ACL SETUSER default +hset"},
    {"ACL SETUSER default -pexpire", "ACL SETUSER default +pexpire"},
    {"ACL SETUSER default -set", "ACL SETUSER default +set"},
    {"ACL SETUSER default -time", "ACL SETUSER default +time"},
};

TEST(A8_whatever_breaks_the_script_off_leaves_no_lock)
{
    if (!set_up())
        return;
    for (size_t i = 0; i < sizeof(poisons) / sizeof(poisons[0]); i++) {
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        redis_server_call(&s.server, "DEL redisson_lock_token:{L}");
        redis_server_call(&s.server, "%s", poisons[i].ill);
        dlock_err code = dlock_lock_acquire(lock, 0, &hold, &err);
        harness_note("%s: %s: %s", poisons[i].ill, dlock_errname(code),
                     err ? dlock_error_text(err) : "");
        CHECK(code != DLOCK_OK && code != DLOCK_EBUSY && hold == NULL);
        CHECK(code != DLOCK_EUNKNOWN); /* it was answered: surely nothing is held */
        CHECK_STR(redis_server_call(&s.server, "EXISTS L"), "0");
        redis_server_call(&s.server, "%s", poisons[i].well);
        /* An orphan would be in the way for its lease. */
        CHECK_OK(dlock_lock_acquire(wanted, 0, &hold, &err), err);
        give_back(hold);
        dlock_error_free(err);
    }
    tear_down();
}
