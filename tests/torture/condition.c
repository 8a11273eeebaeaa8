/* The story of a condition: waiting for a signal, waiting in vain, and being cancelled. */
#include "scenarios.h"
#include "steps.h"

#include <stdio.h>

#define WAIT_ERRORS (ACQUIRE_ERRORS | RELEASE_ERRORS)

static dlock_cond *make_condition(stage *s, dlock_client *client)
{
    char name[64];
    dlock_cond *cond = NULL;
    (void)snprintf(name, sizeof(name), "%s/condition", s->world->name); /* it fits */
    SAYS(DLOCK_OK, MEM_ERRORS, dlock_cond_new(client, name, NULL, &cond, &s->err));
    return cond;
}

/* It holds the lock as before, or again, or not at all. */
static void clear_up(stage *s, dlock_hold *hold, dlock_op *op)
{
    dlock_hold *again = dlock_op_take_hold(op);
    HOLDS(!again || dlock_hold_check(hold) != DLOCK_OK);
    give_back(s, again);
    if (dlock_hold_check(hold) == DLOCK_OK)
        give_back(s, hold);
    else
        dlock_hold_free(hold);
    dlock_op_free(op);
}

/* Taking the lock again has no limit: where the service is gone for good, it has to be cancelled. */
static void come_to_an_end(stage *s, dlock_op *op, dlock_err expected)
{
    if (dlock_op_wait(op, 2 * LONG_MS) != DLOCK_OK) {
        HOLDS(!s->baseline);
        dlock_op_cancel(op);
    }
    FINISHES(expected, OK | WAIT_ERRORS | BIT(DLOCK_ECANCELED), op);
}

/* A wait that has given the lock back, or is over. */
static dlock_op *wait_start(dlock_cond *cond, dlock_hold *hold, int64_t wait_ms)
{
    dlock_op *op = dlock_cond_wait_start(cond, hold, wait_ms);
    while (dlock_op_result(op) == DLOCK_EPENDING && dlock_hold_check(hold) == DLOCK_OK)
        nap_ms(1);
    return op;
}

static void wait_and_signal(stage *s, const pair *two, dlock_cond *const *cond)
{
    dlock_hold *hold = acquire(s, two->lock[0]);
    if (!hold)
        return;
    dlock_op *op = wait_start(cond[0], hold, LONG_MS);
    bool done = false;
    for (int tries = 0; tries < 5 && !done; tries++) {
        dlock_op *signal = dlock_cond_signal_start(cond[1], 1, NULL);
        FINISHES(DLOCK_OK, ASK_ERRORS, signal);
        done = dlock_op_result(signal) == DLOCK_OK;
        if (done)
            read_info(s, dlock_op_take_info(signal));
        dlock_op_free(signal);
    }
    come_to_an_end(s, op, DLOCK_OK);
    clear_up(s, hold, op);
}

static void wait_in_vain(stage *s, const pair *two, dlock_cond *cond)
{
    dlock_hold *hold = acquire(s, two->lock[0]);
    if (!hold)
        return;
    dlock_op *op = dlock_cond_wait_start(cond, hold, SHORT_MS);
    come_to_an_end(s, op, DLOCK_ETIMEDOUT);
    clear_up(s, hold, op);
}

static void wait_until_cancelled(stage *s, const pair *two, dlock_cond *cond)
{
    dlock_hold *hold = acquire(s, two->lock[0]);
    if (!hold)
        return;
    dlock_op *op = wait_start(cond, hold, DLOCK_FOREVER);
    dlock_op_cancel(op);
    FINISHES(DLOCK_ECANCELED, OK | WAIT_ERRORS, op);
    clear_up(s, hold, op);
}

void scenario_signalled(stage *s)
{
    pair two = {0};
    dlock_cond *cond[2] = {NULL, NULL};
    if (open_pair(s, &two))
        for (int i = 0; i < 2; i++)
            cond[i] = make_condition(s, two.client[i]);
    if (cond[0] && cond[1]) {
        wait_and_signal(s, &two, cond);
        wait_in_vain(s, &two, cond[0]);
        wait_until_cancelled(s, &two, cond[0]);
    }
    for (int i = 0; i < 2; i++)
        dlock_cond_free(cond[i]);
    close_pair(s, &two);
}
