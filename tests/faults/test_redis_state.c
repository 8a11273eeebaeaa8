/* The server keeps running, or runs again, but has lost what it knew: the lock is LOST within one
 * renewal period, stale writes are refused, and tokens go on rising. */
#include "resource.h"
#include "seeker.h"
#include "stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static stage s;
static int64_t ttl_ms;
static dlock_client *holder, *rival;
static dlock_lock *held, *wanted;
static resource *shelf;

/* Before the lease would end. */
static int64_t renewal_ms(void)
{
    return ttl_ms / 3 * 110 / 100 + ttl_ms / 2;
}

static bool set_up(const char *config)
{
    const char *ttl = getenv("DLK_TEST_SLOW") ? "6000" : "1500";
    ttl_ms = atoll(ttl);
    if (!stage_set(&s, config))
        return false;
    shelf = resource_new();
    dlock_client **clients[] = {&holder, &rival};
    for (int i = 0; i < 2; i++)
        *clients[i] = stage_open(s.uri, "lock.ttl_ms", ttl, "client.timeout_ms", "500",
                                 "client.poll_ms", "100", "client.backoff_min_ms", "5",
                                 "client.backoff_max_ms", "50", NULL);
    if (!holder || !rival)
        return false;
    held = stage_lock(holder, "L");
    wanted = stage_lock(rival, "L");
    return true;
}

static void tear_down(void)
{
    verdict v = resource_judge(shelf, RESOURCE_STATE_LOST);
    harness_note("%" PRId64 " stays, %" PRId64 " writes, %" PRId64 " refused", v.stays,
                 v.accepted, v.refused);
    CHECK_EQ_INT(v.lost_updates, 0);
    CHECK_EQ_INT(v.old_tokens, 0);
    dlock_lock_free(held);
    dlock_lock_free(wanted);
    dlock_client_free(holder);
    dlock_client_free(rival);
    resource_free(shelf);
    CHECK(stage_clear(&s, ttl_ms));
}

static void tell(const char *command)
{
    const char *answer = redis_server_call(&s.server, "%s", command);
    if (answer[0] == '-' || strcmp(answer, "(gone)") == 0)
        (void)harness_str(__FILE__, __LINE__, command, answer, "a good answer");
}

/* ---- The faults ---- */

static void wipe(void)
{
    tell("FLUSHALL");
}

static void delete (void)
{
    tell("DEL L");
}

static void delete_with_counter(void)
{
    tell("DEL L redisson_lock_token:{L}");
}

static void expire(void)
{
    tell("PEXPIRE L 1");
}

static void give_away(void)
{
    tell("DEL L");
    tell("HSET L somebody-else:1 1");
    tell("PEXPIRE L 50");
}

static void restart_empty(void)
{
    (void)redis_server_restart(&s.server); /* fails the test, if it does */
}

/* Fills the memory with what lives longer than the lock. */
static void evict(void)
{
    char filler[1025];
    memset(filler, 'x', sizeof(filler) - 1);
    filler[sizeof(filler) - 1] = '\0';
    for (int i = 0;
         i < 30000 && strcmp(redis_server_call(&s.server, "EXISTS L"), "1") == 0; i++)
        redis_server_call(&s.server, "SETEX fill:%d 100000 %s", i, filler);
    (void)harness_str(__FILE__, __LINE__, "evicted",
                      redis_server_call(&s.server, "EXISTS L"), "0");
}

static void overwrite(void)
{
    tell("SET L something");
}

/* ---- What happens then ---- */

static void check_refused(int64_t token)
{
    int64_t seen;
    CHECK(!resource_look(shelf, token, &seen));
    CHECK(!resource_write(shelf, token, seen));
}

/* The rival gets the lock before the holder knows that it is lost. */
static void lose_by(void (*fault)(void), int rounds)
{
    int64_t last = 0, seen;
    for (int i = 0; i < rounds; i++) {
        dlock_hold *hold = stage_take(held);
        CHECK(hold != NULL);
        int64_t token = dlock_hold_token(hold);
        CHECK(token > last);
        stay *at = resource_enter(shelf, hold);
        CHECK(resource_look(shelf, token, &seen));
        CHECK(resource_write(shelf, token, seen));
        fault();
        int64_t struck = awake_now_ns();
        CHECK(!harness_failed());
        seeker other = {.lock = wanted, .resource = shelf, .wait_ms = patience_ms()};
        CHECK(seeker_start(&other));
        while (resource_still(at, hold) == DLOCK_OK &&
               awake_now_ns() < struck + renewal_ms() * STAGE_MS)
            nap_ms(1);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
        CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_LOST);
        CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
        resource_leave(at);
        seeker_join(&other);
        CHECK_EQ_INT(other.code, DLOCK_OK);
        CHECK(other.admitted);
        CHECK(other.token > token);
        last = other.token;
        check_refused(token);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
        dlock_hold_free(hold);
    }
}

static void survive(const char *config, void (*fault)(void), int rounds)
{
    if (!set_up(config))
        return;
    lose_by(fault, rounds);
    if (!harness_failed())
        tear_down();
}

TEST(a_deleted_lock_is_lost_within_one_renewal)
{
    survive(NULL, delete, 2);
}

TEST(a_lock_deleted_with_its_counter_is_lost_and_tokens_rise)
{
    survive(NULL, delete_with_counter, 2);
}

TEST(a_wiped_server_loses_the_lock_and_tokens_rise)
{
    survive(NULL, wipe, 2);
}

TEST(an_expired_lock_is_lost_and_not_created_again)
{
    survive(NULL, expire, 2);
}

TEST(a_lock_that_went_to_somebody_else_is_lost)
{
    survive(NULL, give_away, 2);
}

TEST(a_server_restarted_empty_loses_the_lock_and_tokens_rise)
{
    survive(NULL, restart_empty, 2);
}

TEST(an_evicted_lock_is_lost)
{
    if (!set_up("maxmemory 3mb\nmaxmemory-policy volatile-ttl"))
        return;
    lose_by(evict, 1);
    tell("FLUSHALL"); /* what it was filled with */
    if (!harness_failed())
        tear_down();
}

TEST(a_lock_overwritten_by_another_type_is_lost_and_a_conflict_afterwards)
{
    if (!set_up(NULL))
        return;
    dlock_hold *hold = stage_take(held), *none = NULL;
    CHECK(hold != NULL);
    int64_t token = dlock_hold_token(hold);
    overwrite();
    AWAIT_MS(dlock_hold_check(hold) == DLOCK_ELOST, renewal_ms());
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    dlock_hold_free(hold);
    dlock_error *err = NULL;
    CHECK_ERR(dlock_lock_acquire(held, 5000, &none, &err), DLOCK_ECONFLICT, err);
    CHECK_CONTAINS(dlock_error_text(err), "another type");
    CHECK_ERR(dlock_lock_acquire(wanted, 0, &none, &err), DLOCK_ECONFLICT, err);
    dlock_error_free(err);
    CHECK_STR(redis_server_call(&s.server, "GET L"), "something"); /* not ours to touch */
    tell("DEL L");
    hold = stage_take(wanted);
    CHECK(hold != NULL);
    CHECK(dlock_hold_token(hold) > token);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    tear_down();
}

TEST(verify_knows_before_the_next_renewal)
{
    if (!set_up(NULL))
        return;
    dlock_hold *hold = stage_take(held);
    CHECK(hold != NULL);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    wipe();
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    CHECK_EQ_INT(api_stat(holder, "losses"), 1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    dlock_hold_free(hold);
    tear_down();
}

TEST(a_lost_lock_is_told_once)
{
    enum { TAG = 7 };
    if (!set_up(NULL))
        return;
    dlock_hold *hold = stage_take(held);
    CHECK(hold != NULL);
    CHECK_OK(dlock_hold_notify(hold, TAG), NULL);
    delete ();
    AWAIT_MS(dlock_hold_check(hold) == DLOCK_ELOST, renewal_ms());
    nap_ms(ttl_ms / 3); /* time for a second one */
    int told = 0;
    dlock_event *event;
    while ((event = dlock_client_next_event(holder))) {
        if (dlock_event_what(event) == DLOCK_EVENT_LOST &&
            dlock_event_tag(event) == TAG) {
            told++;
            CHECK_EQ_INT(dlock_event_token(event), dlock_hold_token(hold));
        }
        dlock_event_free(event);
    }
    CHECK_EQ_INT(told, 1);
    dlock_hold_free(hold);
    tear_down();
}
