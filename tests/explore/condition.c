/* See the header. */
#include "condition.h"

#include "service.h"
#include "stage.h"
#include "strand.h"

#include "api/handles.h"

/* What one client asks arrives in that order: so whoever signals is another. */
static dlock_client *other;
static dlock_lock *others_a;
static dlock_cond *cond, *others_cond;
static bool ready; /* guarded by the lock a */

static dlock_cond *condition_of(dlock_client *of)
{
    dlock_cond *made = NULL;
    if (dlock_cond_new(of, "q", NULL, &made, NULL) != DLOCK_OK)
        explore_fail("no condition");
    return made;
}

void with_a_condition(void)
{
    begin_with("");
    other = open_another();
    ready = false;
    cond = condition_of(client);
    others_cond = condition_of(other);
    if (dlock_lock_new(other, DLOCK_MUTEX, "a", NULL, &others_a, NULL) != DLOCK_OK)
        explore_fail("no lock");
}

void free_condition(void)
{
    dlock_cond_free(cond);
    dlock_cond_free(others_cond);
    dlock_lock_free(others_a);
    dlock_client_free(other);
}

static void has_a(void)
{
    if (taken[0])
        explore_fail("who was woken hasn't the lock alone");
    taken[0] = true;
}

static void signal_one(dlock_cond *at, dlock_hold *hold)
{
    call made = enter(DLOCK_FOREVER, "signal(1)");
    expect(leave(&made, dlock_cond_signal(at, 1, hold, NULL, NULL)), DLOCK_OK, DLOCK_OK);
}

static void give_back_a(dlock_hold *hold)
{
    expect(release(0, hold), DLOCK_OK, DLOCK_OK);
    free_hold(hold);
}

/* Until it has the lock again, which it has at first. */
static dlock_hold *wait_for_signal(dlock_hold *hold)
{
    dlock_hold *again = NULL;
    taken[0] = false;
    call made = enter(DLOCK_FOREVER, "cond_wait()");
    dlock_err code =
        leave(&made, dlock_cond_wait(cond, hold, DLOCK_FOREVER, &again, NULL));
    expect(code, DLOCK_OK, DLOCK_OK);
    has_a();
    free_hold(hold);
    return again;
}

void wait_until_ready(void)
{
    dlock_hold *hold;
    expect(acquire(0, DLOCK_FOREVER, &hold), DLOCK_OK, DLOCK_OK);
    while (!ready)
        hold = wait_for_signal(hold);
    give_back_a(hold);
}

static dlock_hold *take_a_elsewhere(void)
{
    dlock_hold *hold = NULL;
    call made = enter(DLOCK_FOREVER, "acquire(a) by the other client");
    expect(leave(&made, dlock_lock_acquire(others_a, DLOCK_FOREVER, &hold, NULL)),
           DLOCK_OK, DLOCK_OK);
    has_a();
    return hold;
}

void wait_beyond_the_signal(void)
{
    dlock_hold *hold;
    expect(acquire(0, DLOCK_FOREVER, &hold), DLOCK_OK, DLOCK_OK);
    raise_flag(0);
    hold = wait_for_signal(hold);
    if (client->engine->core.stats.spurious_wakes != 1)
        explore_fail("a signal that was lost isn't counted as one wake too many");
    give_back_a(hold);
}

void signal_and_forget(void)
{
    await_flag(0);
    give_back_a(take_a_elsewhere()); /* so the other is in the line */
    service_give_away("a", strands_now() + 15 * DLK_NS_PER_SEC);
    signal_one(others_cond, NULL);
    nap_until(strands_now() + MS); /* it is heard */
    service_forget_signalled("q");
}

void make_ready(void)
{
    dlock_hold *hold = take_a_elsewhere();
    ready = true;
    signal_one(others_cond, hold);
    give_back_a(hold);
}

void wait_and_be_cancelled(void)
{
    dlock_hold *hold;
    expect(acquire(0, DLOCK_FOREVER, &hold), DLOCK_OK, DLOCK_OK);
    taken[0] = false;
    call made = enter(0, "cond_wait_start()");
    dlock_op *op = dlock_cond_wait_start(cond, hold, DLOCK_FOREVER);
    (void)leave(&made, DLOCK_OK);
    cancel(op);
    expect(wait_for(op, DLK_NEVER), DLOCK_OK, DLOCK_ECANCELED);
    dlock_hold *again = dlock_op_take_hold(op);
    if (again) {
        has_a();
        signal_one(cond, again); /* somebody else may have to be woken */
        give_back_a(again);
    }
    if (dlock_hold_check(hold) == DLOCK_OK)
        give_back_a(hold); /* it was cancelled before the lock was given back */
    else
        free_hold(hold);
    free_op(op);
}
