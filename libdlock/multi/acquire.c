/* Carries out what taking.h decides, in a call that waits, or as an op: a chain of operations of
 * the members' engines, where a job goes on when one is over.
 *
 * Only one job of an acquire runs at a time. Of an op the taking, and the member's operation that
 * is cancelled when it is called off, are under the mutex of the first member's engine; the holds
 * that were taken are the running job's. No member's engine is entered with that mutex. */
#include "multi/inner.h"

#include "util/clock.h"

#include <stdlib.h>

typedef struct dlk_acquiring {
    dlk_multi_op whole;
    dlk_taking taking;    /* under the mutex */
    dlk_multi_hold *hold; /* the caller gets it, or it is discarded */
    dlk_job job;
    size_t member;      /* that is asked … */
    dlock_op *asked;    /* … by this, or NULL; changed under the mutex */
    dlock_error *error; /* of the member that can't be had */
    uint64_t owners[DLK_MULTI_MAX];
} dlk_acquiring;

/* ---- for both ---- */

/* Who acquires: the calling thread where the member's setting says so, else 0. */
static uint64_t owner_of(const dlk_member *member, bool blocking)
{
    bool thread = member->owner == DLK_OWNER_THREAD ||
                  (blocking && member->owner == DLK_OWNER_AUTO);
    return thread ? dlk_thread_number() : 0;
}

/* What is done without waiting. */
static dlock_err look_or_release(dlk_multi_hold *hold, const dlk_taking_action *todo)
{
    if (todo->what == DLK_TAKING_LOOK)
        return dlock_hold_check(*dlk_multi_hold_place(hold, todo->member));
    dlk_multi_hold_drop_member(hold, todo->member);
    return DLOCK_OK;
}

/* *err has the member's own words. */
static dlock_err explain(const dlk_multi *multi, const dlk_taking_action *end,
                         dlock_error **err)
{
    const dlk_member *member = &multi->members[end->member];
    if (end->code == DLOCK_OK)
        return dlk_error_clear(err);
    switch (end->why) {
    case DLK_TAKING_MEMBER_SAID:
        break;
    case DLK_TAKING_DEADLINE:
        return dlk_error_set(err, end->code, "%s: held to the deadline",
                             member->name->key.name + member->engine->prefix_size);
    case DLK_TAKING_TOO_LATE:
        return dlk_error_set(
            err, end->code,
            "a member's lease was over before the last member was granted");
    }
    return end->code;
}

/* ---- in a call that waits ---- */

static dlock_err ask(const dlk_multi *multi, const dlk_taking_action *todo,
                     dlock_hold **ret, dlock_error **err)
{
    const dlk_member *member = &multi->members[todo->member];
    return dlk_engine_acquire(member->engine, member->name, &member->terms,
                              owner_of(member, true), todo->wait_ms, ret, err);
}

dlock_err dlk_multi_acquire(dlk_multi *multi, int64_t wait_ms, dlock_hold **ret,
                            dlock_error **err)
{
    dlk_taking taking;
    dlk_multi_hold *hold = dlk_multi_hold_new(multi);
    if (!hold)
        return dlk_error_nomem(err);
    dlk_taking_action todo =
        dlk_taking_begin(&taking, multi->order, multi->count, wait_ms, dlk_clock_now());
    while (todo.what != DLK_TAKING_FINISH) {
        dlock_err result =
            todo.what == DLK_TAKING_ASK
                ? ask(multi, &todo, dlk_multi_hold_place(hold, todo.member), err)
                : look_or_release(hold, &todo);
        todo = dlk_taking_done(&taking, result, dlk_clock_now());
    }
    if (todo.code == DLOCK_OK)
        *ret = dlk_multi_hold_give(hold);
    else
        dlk_multi_hold_discard(hold);
    return explain(multi, &todo, err);
}

/* ---- as an op ---- */

/* Cancelled, or the client closes: the caller is told now, and what was taken goes back. */
static void end_early(dlk_engine *engine, dlock_op *op, dlock_err code)
{
    dlk_acquiring *it = DLK_LIST_ITEM(op->u.multi.whole, dlk_acquiring, whole);
    dlk_multi_op_end_early(engine, op, code);
    if (dlk_taking_call_off(&it->taking) && it->asked)
        dlk_op_request_cancel(it->asked);
}

/* Makes it known to whoever calls it off. */
static void set_asked(dlk_acquiring *it, dlock_op *op)
{
    dlk_stay stay;
    if (!dlk_engine_enter(it->whole.engine, &stay))
        return;
    it->asked = op;
    if (op && it->taking.state == DLK_TAKING_UNWANTED_ASKING)
        dlk_op_request_cancel(op);
    dlk_engine_leave(it->whole.engine, &stay);
}

static dlock_op *start(dlk_acquiring *it, const dlk_taking_action *todo)
{
    const dlk_member *member = &it->whole.multi->members[todo->member];
    it->member = todo->member;
    return dlk_engine_acquire_start(member->engine, member->name, &member->terms,
                                    it->owners[todo->member], todo->wait_ms);
}

/* Takes the member's finished op apart. */
static dlock_err answer_of(dlk_acquiring *it, dlock_op *op)
{
    set_asked(it, NULL);
    dlock_err code = dlock_op_result(op);
    if (code != DLOCK_OK)
        dlk_error_give(&it->error, dlk_error_copy(dlock_op_error(op)));
    *dlk_multi_hold_place(it->hold, it->member) = dlock_op_take_hold(op);
    dlock_op_free(op);
    return code;
}

/* The caller is told with the mutex that decided it: nobody calls it off in between. */
static void tell(dlk_acquiring *it, const dlk_taking_action *end)
{
    (void)explain(it->whole.multi, end, &it->error); /* the code is in `end` */
    if (end->code == DLOCK_OK) {
        it->whole.op->hold = dlk_multi_hold_give(it->hold);
        it->hold = NULL;
    }
    dlk_multi_op_finish(&it->whole, end->code, it->error);
    it->error = NULL;
}

/* What is to be done next, now that this came of the last. */
static dlk_taking_action next(dlk_acquiring *it, dlock_err result)
{
    dlk_stay stay;
    /* In a fork's child, where it can't be entered, there are no others. */
    bool entered = dlk_engine_enter(it->whole.engine, &stay);
    dlk_taking_action todo = dlk_taking_done(&it->taking, result, dlk_clock_now());
    if (entered && todo.what == DLK_TAKING_FINISH)
        tell(it, &todo);
    if (entered)
        dlk_engine_leave(it->whole.engine, &stay);
    return todo;
}

static void close_it(dlk_acquiring *it)
{
    if (it->hold)
        dlk_multi_hold_discard(it->hold);
    dlk_error_clear(&it->error);
    dlk_multi_op_close(&it->whole);
    free(it);
}

/* Goes on as far as it can without waiting. */
static void go_on(dlk_acquiring *it, dlk_taking_action todo)
{
    while (todo.what != DLK_TAKING_FINISH && todo.what != DLK_TAKING_LEAVE) {
        if (todo.what != DLK_TAKING_ASK) {
            todo = next(it, look_or_release(it->hold, &todo));
            continue;
        }
        dlock_op *op = start(it, &todo);
        set_asked(it, op);
        if (dlk_op_then(op, &it->job))
            return; /* it may have gone on already, and be over */
        todo = next(it, answer_of(it, op));
    }
    close_it(it);
}

static void answered(dlk_job *job)
{
    dlk_acquiring *it = DLK_LIST_ITEM(job, dlk_acquiring, job);
    go_on(it, next(it, answer_of(it, it->asked)));
}

/* Closing ends what is under way; what begins later has to see it by itself. */
static void end_if_closed(dlk_acquiring *it)
{
    dlk_stay stay;
    dlk_multi_op *whole = &it->whole;
    if (!dlk_engine_enter(whole->engine, &stay))
        return;
    if (whole->engine->core.closed && !whole->op->over)
        end_early(whole->engine, whole->op, DLOCK_ECLOSED);
    dlk_engine_leave(whole->engine, &stay);
}

dlock_op *dlk_multi_acquire_start(dlk_multi *multi, int64_t wait_ms)
{
    dlock_op *op = dlk_op_static(DLOCK_ENOMEM);
    dlk_acquiring *it = calloc(1, sizeof(*it));
    if (!it)
        return op;
    it->job.run = answered;
    it->hold = dlk_multi_hold_new(multi);
    for (size_t i = 0; i < multi->count; i++)
        it->owners[i] = owner_of(&multi->members[i], false);
    /* Before anybody can call it off. */
    dlk_taking_action first = dlk_taking_begin(&it->taking, multi->order, multi->count,
                                               wait_ms, dlk_clock_now());
    if (it->hold && dlk_multi_op_begin(&it->whole, multi, end_early, &op)) {
        end_if_closed(it);
        go_on(it, first);
        return op;
    }
    if (it->hold)
        dlk_multi_hold_discard(it->hold);
    free(it);
    return op;
}
