/* Which member is asked next and how long, what its answer means, and how it all ends. */
#include "multi/taking.h"

#include "util/clock.h"

#include <assert.h>

static const bool possible[DLK_TAKING_STATES][DLK_TAKING_EVENTS] = {
    [DLK_TAKING_NEW] = {false, false},
    [DLK_TAKING_ASKING] = {[DLK_TAKING_DONE] = true, [DLK_TAKING_CALLED_OFF] = true},
    [DLK_TAKING_LOOKING] = {[DLK_TAKING_DONE] = true, [DLK_TAKING_CALLED_OFF] = true},
    [DLK_TAKING_BEGINNING_ANEW] =
        {[DLK_TAKING_DONE] = true, [DLK_TAKING_CALLED_OFF] = true},
    [DLK_TAKING_GIVING_UP] = {[DLK_TAKING_DONE] = true, [DLK_TAKING_CALLED_OFF] = true},
    [DLK_TAKING_UNWANTED_ASKING] = {[DLK_TAKING_DONE] = true},
    [DLK_TAKING_UNWANTED] = {[DLK_TAKING_DONE] = true},
    [DLK_TAKING_OVER] = {false, false},
};

bool dlk_taking_may(dlk_taking_state state, dlk_taking_event event)
{
    return possible[state][event];
}

/* What is left of the wait, for the next member. */
static int64_t left_ms(const dlk_taking *taking, int64_t now)
{
    if (taking->wait_ms <= 0)
        return taking->wait_ms; /* once, or for ever */
    int64_t left = taking->until - now;
    return left > 0 ? (left + DLK_NS_PER_MS - 1) / DLK_NS_PER_MS : 0;
}

static dlk_taking_action ask(dlk_taking *taking, int64_t now)
{
    taking->state = DLK_TAKING_ASKING;
    return (dlk_taking_action){.what = DLK_TAKING_ASK,
                               .member = taking->order[taking->taken],
                               .wait_ms = left_ms(taking, now)};
}

static dlk_taking_action end(dlk_taking *taking, dlk_taking_action how)
{
    taking->state = DLK_TAKING_OVER;
    return how;
}

/* ---- everything goes back, the last first ---- */

/* Each round that begins anew has lasted as long as a lease, so it takes its time, however often. */
static dlk_taking_action all_are_back(dlk_taking *taking, int64_t now)
{
    if (taking->state == DLK_TAKING_UNWANTED)
        return end(taking, (dlk_taking_action){.what = DLK_TAKING_LEAVE});
    if (taking->state == DLK_TAKING_GIVING_UP)
        return end(taking, taking->end);
    if (left_ms(taking, now) != 0)
        return ask(taking, now);
    return end(taking, (dlk_taking_action){.what = DLK_TAKING_FINISH,
                                           .code = DLOCK_ELOST,
                                           .why = DLK_TAKING_TOO_LATE});
}

static dlk_taking_action give_back(dlk_taking *taking, int64_t now)
{
    if (taking->taken == 0)
        return all_are_back(taking, now);
    taking->taken--;
    return (dlk_taking_action){.what = DLK_TAKING_RELEASE,
                               .member = taking->order[taking->taken]};
}

/* ---- what a result means ---- */

static dlk_taking_action look(dlk_taking *taking)
{
    taking->state = DLK_TAKING_LOOKING;
    return (dlk_taking_action){.what = DLK_TAKING_LOOK,
                               .member = taking->order[taking->looked]};
}

static dlk_taking_action refused(dlk_taking *taking, dlock_err code, int64_t now)
{
    taking->end = (dlk_taking_action){.what = DLK_TAKING_FINISH,
                                      .member = taking->order[taking->taken],
                                      .code = code,
                                      .why = DLK_TAKING_MEMBER_SAID};
    if (code == DLOCK_EBUSY && taking->wait_ms != 0) { /* the last moment is a mere try */
        taking->end.code = DLOCK_ETIMEDOUT;
        taking->end.why = DLK_TAKING_DEADLINE;
    }
    taking->state = DLK_TAKING_GIVING_UP;
    return give_back(taking, now);
}

static dlk_taking_action answered(dlk_taking *taking, dlock_err code, int64_t now)
{
    if (code != DLOCK_OK)
        return refused(taking, code, now);
    taking->taken++;
    if (taking->taken < taking->count)
        return ask(taking, now);
    taking->looked = 0;
    return look(taking);
}

/* Whatever the look says but yes: a lease was over before the last member came. That is no
 * member's answer: a member may answer with any code, ELOST too, and it ends the taking. */
static dlk_taking_action looked(dlk_taking *taking, dlock_err code, int64_t now)
{
    taking->looked++;
    if (code != DLOCK_OK) {
        taking->state = DLK_TAKING_BEGINNING_ANEW;
        return give_back(taking, now);
    }
    if (taking->looked < taking->count)
        return look(taking);
    return end(taking, (dlk_taking_action){.what = DLK_TAKING_FINISH, .code = DLOCK_OK});
}

static dlk_taking_action unwanted_answer(dlk_taking *taking, dlock_err code, int64_t now)
{
    if (code == DLOCK_OK)
        taking->taken++; /* it goes back with the others */
    taking->state = DLK_TAKING_UNWANTED;
    return give_back(taking, now);
}

/* ---- what happens ---- */

dlk_taking_action dlk_taking_begin(dlk_taking *taking, const uint8_t *order, size_t count,
                                   int64_t wait_ms, int64_t now)
{
    assert(count >= 1 && count <= DLK_MULTI_MAX);
    *taking = (dlk_taking){.order = order,
                           .count = count,
                           .wait_ms = wait_ms,
                           .until = dlk_clock_after(now, wait_ms)};
    return ask(taking, now);
}

bool dlk_taking_needs_time(const dlk_taking *taking, dlock_err result)
{
    bool goes_on = taking->state == DLK_TAKING_LOOKING && result == DLOCK_OK;
    return taking->wait_ms > 0 && !goes_on;
}

dlk_taking_action dlk_taking_done(dlk_taking *taking, dlock_err result, int64_t now)
{
    assert(dlk_taking_may(taking->state, DLK_TAKING_DONE));
    switch (taking->state) {
    case DLK_TAKING_OVER: /* this can't be, and there is nothing left to do */
        return end(taking, (dlk_taking_action){.what = DLK_TAKING_LEAVE});
    case DLK_TAKING_ASKING:
        return answered(taking, result, now);
    case DLK_TAKING_LOOKING:
        return looked(taking, result, now);
    case DLK_TAKING_UNWANTED_ASKING:
        return unwanted_answer(taking, result, now);
    case DLK_TAKING_BEGINNING_ANEW:
    case DLK_TAKING_GIVING_UP:
    case DLK_TAKING_UNWANTED:
    case DLK_TAKING_NEW: /* these can't be */
    case DLK_TAKING_STATES:
        break;
    }
    return give_back(taking, now);
}

bool dlk_taking_call_off(dlk_taking *taking)
{
    assert(dlk_taking_may(taking->state, DLK_TAKING_CALLED_OFF));
    bool asking = taking->state == DLK_TAKING_ASKING;
    taking->state = asking ? DLK_TAKING_UNWANTED_ASKING : DLK_TAKING_UNWANTED;
    return asking;
}
