/* Waiting when the news of a release is late or never comes (reliability.md W1 and W2), before a
 * real server: who waits gets the lock when the subscription is up, or at the next look, and never
 * depends on a message. Leases are long, so that no lock gets free by itself. */
#include "stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static stage s;
static dlock_client *holder, *waiter; /* the waiter's way leads through the proxy */
static dlock_lock *held, *wanted;
static dlock_hold *hold;

static dlock_client *open_one(const char *uri, const char *poll_ms)
{
    return stage_open(uri, "lock.ttl_ms", "120000", "client.timeout_ms", "3000",
                      "client.poll_ms", poll_ms, "client.backoff_min_ms", "5",
                      "client.backoff_max_ms", "50", NULL);
}

static bool set_up(const char *poll_ms)
{
    if (!stage_set(&s, NULL) || !stage_put_proxy(&s))
        return false;
    holder = open_one(s.uri, "1000");
    waiter = open_one(s.proxied, poll_ms);
    held = holder ? stage_lock(holder, "L") : NULL;
    wanted = waiter ? stage_lock(waiter, "L") : NULL;
    hold = held && wanted ? stage_take(held) : NULL;
    return hold != NULL;
}

static void tear_down(void)
{
    dlock_hold_free(hold);
    dlock_lock_free(held);
    dlock_lock_free(wanted);
    dlock_client_free(holder);
    dlock_client_free(waiter);
    hold = NULL;
    CHECK(stage_clear(&s, 0));
}

static bool tell(const char *line)
{
    char answer[PROXY_ANSWER_MAX];
    proxy_obey(s.proxy, line, answer);
    return harness_str(__FILE__, __LINE__, line, answer, "ok");
}

static bool is_subscribed(void)
{
    return redis_server_call(&s.server, "PUBSUB CHANNELS redisson_lock__channel:{L}")[0];
}

/* What waits has it long before the lease or a poll of a minute would end, and gives it back. */
static void check_gets_it(dlock_op *op)
{
    int64_t began = awake_now_ns();
    CHECK_EQ_INT(dlock_op_wait(op, 20000), DLOCK_OK);
    harness_note("after %" PRId64 " ms", (awake_now_ns() - began) / STAGE_MS);
    CHECK_ERR(dlock_op_result(op), DLOCK_OK, dlock_op_error(op));
    dlock_hold *theirs = dlock_op_take_hold(op);
    CHECK_OK(dlock_hold_release(theirs, NULL), NULL);
    dlock_hold_free(theirs);
    dlock_op_free(op);
}

/* The release is published before anybody listens: only a look behind the subscription finds it.
 * The next look would be a minute away. */
static void miss_the_news_by(const char *line, bool server_knows)
{
    if (!set_up("60000") || !tell(line))
        return;
    dlock_op *op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
    AWAIT(stage_deeds(&s) == 1);
    AWAIT(is_subscribed() == server_knows);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_EQ_INT(dlock_op_wait(op, 0), DLOCK_EPENDING);
    check_gets_it(op);
    if (!harness_failed())
        tear_down();
}

TEST(W1_released_before_the_subscription_has_reached_the_server)
{
    miss_the_news_by("delay-request 800 1 SUBSCRIBE", false);
}

TEST(W1_released_before_the_subscription_is_confirmed)
{
    miss_the_news_by("delay-reply 800 1 SUBSCRIBE", true);
}

TEST(W1_released_while_the_first_answer_is_on_its_way)
{
    miss_the_news_by("delay-reply 800 1 EVAL* L", false);
}

/* From here on no message arrives, and the lock is found free at the next look. */
TEST(W2_a_subscription_that_stays_silent_costs_one_look)
{
    if (!set_up("400") || !tell("drop-reply 1 SUBSCRIBE"))
        return;
    dlock_op *op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
    AWAIT(stage_deeds(&s) == 1 && is_subscribed());
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    check_gets_it(op);
    if (!harness_failed())
        tear_down();
}

TEST(W2_messages_that_are_lost_cost_one_look_each)
{
    if (!set_up("400"))
        return;
    dlock_op *op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
    AWAIT(is_subscribed());
    nap_ms(50);             /* it is confirmed, too */
    proxy_half_open(s.way); /* nobody is told */
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    /* Its first question goes into the silence as well. */
    check_gets_it(op);
    if (!harness_failed())
        tear_down();
}

/* Subscribed anew it looks again, because the news may have come in between. */
TEST(W2_released_while_the_subscription_is_cut_off)
{
    if (!set_up("60000"))
        return;
    for (int i = 0; i < 5; i++) {
        dlock_op *op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
        AWAIT(is_subscribed());
        redis_server_call(&s.server, "CLIENT KILL TYPE pubsub");
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        check_gets_it(op);
        if (harness_failed())
            return;
        dlock_hold_free(hold);
        hold = stage_take(held);
        CHECK(hold != NULL);
    }
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    tear_down();
}

TEST(W2_without_any_subscription_each_release_is_found_by_looking)
{
    if (!set_up("300") || !tell("cut-before 1+ SUBSCRIBE"))
        return;
    for (int i = 0; i < 3; i++) {
        dlock_op *op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
        AWAIT(stage_deeds(&s) > i); /* it tried to subscribe */
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        check_gets_it(op);
        if (harness_failed())
            return;
        dlock_hold_free(hold);
        hold = stage_take(held);
        CHECK(hold != NULL);
    }
    CHECK(!is_subscribed());
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    tear_down();
}
