/* What lies at a condition is read in two requests, and changes in between: the second one is kept back until the
 * signals that the first one has seen have been used. */
#include "zookeeper_stage.h"

/* A client of its own that waits with the lock, or without. */
typedef struct waiter {
    dlock_client *client;
    dlock_lock *lock;
    dlock_cond *cond;
    dlock_hold *hold;
    dlock_op *op;
} waiter;

static void come(waiter *one, const char *uri, const char *name, const char *lock)
{
    *one = (waiter){.client = stage_open(uri, NULL)};
    CHECK_EQ_INT(dlock_cond_new(one->client, name, NULL, &one->cond, NULL), DLOCK_OK);
    one->lock = stage_lock(one->client, lock);
}

/* Nobody looks by himself. */
static const char *direct(void)
{
    return keeper_uri(KEPT_MS, "&client.poll_ms=60000");
}

static const char *by_way(void)
{
    return keeper_way_uri(KEPT_MS, "&client.poll_ms=60000");
}

/* Until @p number stand in the line of @p path. */
static void line_up(waiter *one, const char *path, int number)
{
    one->op = dlock_cond_wait_start(one->cond, one->hold, DLOCK_FOREVER);
    AWAIT(keeper_count(path) == number);
}

static void wakes(waiter *one)
{
    CHECK_OK(dlock_op_wait(one->op, patience_ms()), NULL);
    DLOCK_AUTO(dlock_hold) again = dlock_op_take_hold(one->op);
    if (again)
        CHECK_OK(dlock_hold_release(again, NULL), NULL);
}

/* Who of them is first in the lock's line is theirs to settle. */
static void both_wake(waiter *one, waiter *other)
{
    AWAIT(dlock_op_wait(one->op, 0) != DLOCK_EPENDING ||
          dlock_op_wait(other->op, 0) != DLOCK_EPENDING);
    bool other_first = dlock_op_wait(one->op, 0) == DLOCK_EPENDING;
    wakes(other_first ? other : one);
    wakes(other_first ? one : other);
}

static void go(waiter *one)
{
    dlock_op_free(one->op);
    dlock_hold_free(one->hold);
    dlock_lock_free(one->lock);
    dlock_cond_free(one->cond);
    dlock_client_free(one->client);
}

/* Requests without an answer; what earlier tests have cut off never has one. */
static int64_t unanswered(void)
{
    proxy_stats now = proxy_get_stats(keeper_way());
    return now.requests - now.answers;
}

/* The next such request for the path stays on its way; those before it are answered. */
static void keep_back(const char *command, const char *path)
{
    const proxy_plan plan = {.deed = PROXY_DELAY_REQUEST,
                             .number = 1,
                             .command = command,
                             .word = path,
                             .delay_ms = 3600000};
    CHECK(proxy_add_plan(keeper_way(), plan));
}

static void await_kept_back(int64_t deeds, int64_t answers, int before)
{
    AWAIT(proxy_get_stats(keeper_way()).deeds > deeds);
    AWAIT(proxy_get_stats(keeper_way()).answers >= answers + before);
}

TEST(who_signals_while_another_signal_is_used_passes_nobody_by)
{
    static const char path[] = "/dlock-conditions/conditions/signal";
    BEGIN();
    (void)keeper_way();
    waiter signalled, next, gives;
    come(&signalled, direct(), "conditions/signal", "conditions/signal-lock");
    come(&next, direct(), "conditions/signal", "conditions/signal-lock");
    come(&gives, by_way(), "conditions/signal", "conditions/signal-lock");
    signalled.hold = stage_take(signalled.lock);
    line_up(&signalled, path, 1);
    DLOCK_AUTO(dlock_hold) held = stage_take(next.lock);
    line_up(&next, path, 2);
    CHECK_EQ_INT(dlock_cond_signal(gives.cond, 1, NULL, NULL, NULL), DLOCK_OK);
    /* It is signalled, and can't use that yet. */
    proxy_stats was = proxy_get_stats(keeper_way());
    keep_back("getChildren*", path);
    gives.op = dlock_cond_signal_start(gives.cond, 1, NULL);
    await_kept_back(was.deeds, was.answers, 2); /* a sync, and the signals */
    CHECK_OK(dlock_hold_release(held, NULL), NULL);
    wakes(&signalled);
    AWAIT(keeper_count(path) == 1);
    proxy_pass(keeper_way());
    CHECK_OK(dlock_op_wait(gives.op, patience_ms()), NULL);
    wakes(&next);
    CHECK_EQ_INT(dlock_op_result(gives.op), DLOCK_OK);
    go(&signalled);
    go(&next);
    go(&gives);
}

TEST(who_looks_while_others_use_their_signals_finds_his_own)
{
    static const char path[] = "/dlock-conditions/conditions/look";
    BEGIN();
    (void)keeper_way();
    waiter first, second, looks, gives;
    come(&first, direct(), "conditions/look", "conditions/look-lock");
    come(&second, direct(), "conditions/look", "conditions/look-lock");
    come(&looks, by_way(), "conditions/look", "conditions/look-lock");
    come(&gives, direct(), "conditions/look", "conditions/look-lock");
    first.hold = stage_take(first.lock);
    line_up(&first, path, 1);
    second.hold = stage_take(second.lock);
    line_up(&second, path, 2);
    int64_t reads = proxy_requests(keeper_way(), "getData"), cut = unanswered();
    line_up(&looks, path, 3);
    AWAIT(proxy_requests(keeper_way(), "getData") == reads + 2 && unanswered() <= cut);
    DLOCK_AUTO(dlock_hold) held = stage_take(gives.lock);
    proxy_stats was = proxy_get_stats(keeper_way());
    keep_back("getData", path);
    CHECK_EQ_INT(dlock_cond_signal(gives.cond, 3, NULL, NULL, NULL), DLOCK_OK);
    await_kept_back(was.deeds, was.answers, 2); /* its own node, and the line */
    CHECK_OK(dlock_hold_release(held, NULL), NULL);
    both_wake(&first, &second);
    AWAIT(keeper_count(path) == 1);
    proxy_pass(keeper_way());
    wakes(&looks);
    go(&first);
    go(&second);
    go(&looks);
    go(&gives);
}
