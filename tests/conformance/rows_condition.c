/* Conditions beside the column's lock, which is given back while somebody waits and had again. Whether
 * there are any the library's features say, and its own words why not. */
#include "grid.h"

#include <stdio.h>
#include <string.h>

#define LOCK "L"
#define COND "C"

/* Ends the cell with what the library says where a hold of this lock can't be given back for a signal. */
#define NEEDS_CONDITION()                                                                \
    do {                                                                                 \
        NEEDS(CAN_CALL);                                                                 \
        if (!has_condition())                                                            \
            return;                                                                      \
    } while (0)

static dlock_err wait_for_no_time(dlock_client *client, dlock_error **err)
{
    DLOCK_AUTO(dlock_cond) cond = NULL;
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, LOCK, NULL);
    dlock_err code = dlock_cond_new(client, COND, NULL, &cond, err);
    bool said = api_has(client, "kinds.condition");
    (void)harness_check(__FILE__, __LINE__, said == (code == DLOCK_OK),
                        "its features say so");
    if (code != DLOCK_OK)
        return code;
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_hold) again = NULL;
    return dlock_cond_wait(cond, hold, 0, &again, err);
}

static bool has_condition(void)
{
    static char why[200];
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    dlock_err code = wait_for_no_time(client, &err);
    if (code == DLOCK_ENOTSUP) {
        snprintf(why, sizeof(why), "%s", dlock_error_text(err));
        grid_cannot(why);
        return false;
    }
    return harness_err(__FILE__, __LINE__, "a wait of no time", code, DLOCK_ETIMEDOUT,
                       err);
}

/* On Redis a signal waits so long for one who is busy for a moment, before it goes to the next. */
static party *come(int64_t ttl_ms)
{
    char settings[64];
    bool redis = strncmp(getenv("DLK_TEST_BACKEND"), "redis", 5) == 0;
    snprintf(settings, sizeof(settings), "lock.ttl_ms=%d%s", (int)ttl_ms,
             redis ? " redis.claim_ms=5000" : "");
    return party_new(NULL, settings);
}

#define COMES(name) PARTY(name) = come(10000)

static bool has_it(party *p)
{
    return party_take(p, LOCK, patience_ms()) == DLOCK_OK;
}

/* The lock goes back when the place in the line is confirmed, so whoever gets it then knows. */
static bool line_up(party *waiter, party *other)
{
    if (!has_it(waiter))
        return false;
    party_wait(waiter, COND, DLOCK_FOREVER);
    return has_it(other) && party_give_back(other) == DLOCK_OK;
}

static bool wakes(party *waiter)
{
    return party_answer(waiter) == DLOCK_OK && party_still(waiter) == DLOCK_OK;
}

ROW(S1, a_signal_wakes_one_with_the_lock,
    "a signal wakes the first in the line, who has the lock again, under a larger token")
{
    NEEDS_CONDITION();
    COMES(waiter);
    COMES(other);
    CHECK(line_up(waiter, other));
    CHECK(has_it(other));
    CHECK_EQ_INT(party_signal(other, COND, 1), 1);
    MUST(!party_answered(waiter));
    CHECK_EQ_INT(party_give_back(other), DLOCK_OK);
    CHECK(wakes(waiter));
    MUST(world_try(LOCK) == DLOCK_EBUSY);
    CHECK(grid_rises(party_token(other), party_token(waiter)));
    CHECK_EQ_INT(party_give_back(waiter), DLOCK_OK);
    CHECK(grid_settles());
}

ROW(S2, signals_go_to_the_first,
    "signals go to those who wait in their order, and to all")
{
    NEEDS_CONDITION();
    COMES(other);
    COMES(first);
    COMES(second);
    COMES(third);
    COMES(fourth);
    party *const waiters[] = {first, second, third, fourth};
    for (int i = 0; i < 4; i++)
        CHECK(line_up(waiters[i], other));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(party_signal(other, COND, 1), 1);
        CHECK(wakes(waiters[i]));
        CHECK_EQ_INT(party_give_back(waiters[i]), DLOCK_OK);
        MUST(!party_answered(waiters[i + 1]));
    }
    CHECK_EQ_INT(party_signal(other, COND, 9), 2);
    for (int left = 2; left > 0; left--) { /* who has the lock first, nobody knows */
        AWAIT(party_answered(third) || party_answered(fourth));
        party *one = party_answered(third) ? third : fourth;
        CHECK(wakes(one));
        CHECK_EQ_INT(party_give_back(one), DLOCK_OK);
    }
    CHECK(grid_settles());
}

ROW(S3, a_wait_has_a_limit,
    "a signal without waiters is lost; a wait ends ETIMEDOUT, with the lock, not before "
    "its "
    "time")
{
    NEEDS_CONDITION();
    COMES(waiter);
    CHECK(has_it(waiter));
    int64_t token = party_token(waiter);
    CHECK_EQ_INT(party_signal(waiter, COND, 1), 0);
    int64_t began = now_ms();
    party_wait(waiter, COND, 300);
    CHECK_EQ_INT(party_answer(waiter), DLOCK_ETIMEDOUT);
    MUST(now_ms() - began >= 300);
    CHECK_EQ_INT(party_still(waiter), DLOCK_OK);
    CHECK(grid_rises(token, party_token(waiter)));
    CHECK_EQ_INT(party_signal(waiter, COND, 1), 0);
    CHECK_EQ_INT(party_give_back(waiter), DLOCK_OK);
    CHECK(grid_settles());
}

/* Somebody wants the lock, which is held: whoever was signalled has heard of it. Where no waiters are
 * shown it may not have. */
static bool is_wanted(void)
{
    CLIENT_WITH_LOCK(client, lock, LOCK, NULL);
    return AWAITED(world_seen(lock, "waiters") != 0);
}

ROW(S4, who_gives_up_loses_no_signal,
    "giving up, in the line or when it is signalled, leaves nothing and loses no signal")
{
    NEEDS_CONDITION();
    COMES(other);
    COMES(first);
    COMES(second);
    COMES(third);
    CHECK(line_up(first, other));
    CHECK(line_up(second, other));
    CHECK(line_up(third, other));
    CHECK_EQ_INT(party_give_up(first), DLOCK_ECANCELED);
    CHECK_EQ_INT(party_still(first), DLOCK_ENOTHELD);
    CHECK(has_it(other));
    CHECK_EQ_INT(party_signal(other, COND, 1), 1);
    CHECK(is_wanted());
    CHECK_EQ_INT(party_give_up(second), DLOCK_ECANCELED);
    CHECK_EQ_INT(party_give_back(other), DLOCK_OK);
    CHECK(wakes(third));
    CHECK_EQ_INT(party_give_back(third), DLOCK_OK);
    CHECK(grid_settles());
}

ROW(S5, no_signal_is_missed, "no signal of whoever has the lock next is missed")
{
    enum { ROUNDS = 30 };
    NEEDS_CONDITION();
    COMES(waiter);
    COMES(other);
    CHECK(has_it(waiter));
    for (int i = 0; i < ROUNDS; i++) {
        party_ask(other, LOCK, DLOCK_FOREVER);
        party_wait(waiter, COND, DLOCK_FOREVER);
        CHECK_EQ_INT(party_answer(other), DLOCK_OK);
        MUST(party_signal(other, COND, 1) == 1);
        CHECK_EQ_INT(party_give_back(other), DLOCK_OK);
        CHECK(wakes(waiter));
    }
    CHECK_EQ_INT(party_give_back(waiter), DLOCK_OK);
    CHECK(grid_settles());
}

ROW(S6, a_dead_waiter_passes_its_signal_on, "the waiter that was signalled dies")
{
    NEEDS(CAN_PROCESSES);
    NEEDS_CONDITION();
    COMES(other);
    COMES(second);
    PARTY(first) = come(1000);
    CHECK(line_up(first, other));
    CHECK(line_up(second, other));
    CHECK(has_it(other));
    CHECK_EQ_INT(party_signal(other, COND, 1), 1);
    CHECK(is_wanted());
    party_kill(first);
    CHECK_EQ_INT(party_give_back(other), DLOCK_OK);
    CHECK(wakes(second));
    CHECK_EQ_INT(party_give_back(second), DLOCK_OK);
}

ROW(S7, close_ends_waits, "close: waits for a signal end ECLOSED and leave nothing")
{
    NEEDS_CONDITION();
    DLOCK_AUTO(dlock_cond) cond = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, LOCK, NULL);
    CHECK_EQ_INT(dlock_cond_new(client, COND, NULL, &cond, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_op) op = dlock_cond_wait_start(cond, hold, DLOCK_FOREVER);
    AWAIT(dlock_hold_state(hold) == DLOCK_RELEASED);
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    ENDS(op, DLOCK_ECLOSED);
    CHECK(!dlock_op_take_hold(op));
    CHECK(grid_settles());
}
