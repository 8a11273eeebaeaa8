/* What is started on a multi-lock and not waited for: a chain of acquires, or the same for every
 * member at once. Each step is an operation of its member's engine; when it is over a job goes on.
 * Only one job of an acquire runs at a time; the mutex of the first member's engine guards what
 * cancelling looks at. */
#include "api/multi_inner.h"

#include <stdlib.h>

typedef struct dlk_step {
    dlk_job job;
    struct dlk_multi_op *of;
    dlock_op *op;
} dlk_step;

typedef struct dlk_multi_op {
    dlk_engine *engine; /* referenced: of the first member */
    dlk_multi *multi;   /* referenced */
    dlock_op *op;       /* what the caller has */
    bool acquires;      /* else it does the same for every member */
    dlk_taking taking;  /* acquire */
    _Atomic size_t pending;
    dlk_step steps[DLK_MULTI_MAX]; /* acquire: only the first */
    uint64_t owners[DLK_MULTI_MAX];
} dlk_multi_op;

/* ---- its life ---- */

static void end_early(dlk_engine *engine, dlock_op *op, dlock_err code);

static dlk_multi_op *begin(dlk_multi *multi, bool acquires, dlock_op **ret_op)
{
    dlk_stay stay;
    dlk_engine *engine = multi->members[0].engine;
    dlk_multi_op *whole = calloc(1, sizeof(*whole));
    *ret_op = dlk_op_static(DLOCK_ENOMEM);
    if (!whole)
        return NULL;
    if (!dlk_engine_enter(engine, &stay)) {
        *ret_op = dlk_op_static(DLOCK_EFORKED);
        free(whole);
        return NULL;
    }
    dlock_op *op = dlk_op_new(engine, DLK_OP_MULTI);
    if (op) {
        op->u.multi.whole = whole;
        op->u.multi.end = end_early;
        *whole = (dlk_multi_op){
            .engine = engine, .multi = multi, .op = op, .acquires = acquires};
        dlk_list_append(&engine->multis, &op->link);
        dlk_engine_ref(engine);
        dlk_multi_ref(multi);
        *ret_op = op;
    }
    dlk_engine_leave(engine, &stay);
    if (!op) {
        free(whole);
        return NULL;
    }
    return whole;
}

/* Nothing of it is under way any more. */
static void end(dlk_multi_op *whole, dlock_err code, dlock_error *error, dlock_hold *hold)
{
    dlk_stay stay;
    dlk_engine *engine = whole->engine;
    bool unwanted = true;
    if (dlk_engine_enter(engine, &stay)) {
        unwanted = whole->op->over;
        if (!unwanted) {
            whole->op->hold = hold;
            dlk_list_remove(&whole->op->link);
            dlk_op_finish(engine, whole->op, code, error);
        }
        dlk_op_retire(engine, whole->op);
        dlk_engine_leave(engine, &stay);
    }
    if (unwanted) {
        dlk_error_clear(&error);
        dlock_hold_free(hold);
    }
    dlk_multi_unref(whole->multi);
    free(whole);
    dlk_engine_unref(engine);
}

/* Cancelled, or the client closes: the caller is told now, and what was taken goes back. */
static void end_early(dlk_engine *engine, dlock_op *op, dlock_err code)
{
    dlk_multi_op *whole = op->u.multi.whole;
    dlk_list_remove(&op->link);
    if (op->over)
        return;
    dlk_op_finish(engine, op, code,
                  dlk_error_make(code, code == DLOCK_ECLOSED ? "the client was closed"
                                                             : "the wait was cancelled"));
    /* Those of a release or the like go on; there is nobody to hear of it. */
    if (whole->acquires && whole->steps[0].op)
        dlk_op_request_cancel(whole->steps[0].op);
}

/* ---- acquiring ---- */

static bool is_over(dlk_multi_op *whole)
{
    dlk_stay stay;
    bool over = true;
    if (dlk_engine_enter(whole->engine, &stay)) {
        over = whole->op->over;
        dlk_engine_leave(whole->engine, &stay);
    }
    return over;
}

/* Makes the step known to whoever cancels. */
static void set_step(dlk_multi_op *whole, dlock_op *op)
{
    dlk_stay stay;
    if (!dlk_engine_enter(whole->engine, &stay))
        return;
    whole->steps[0].op = op;
    if (op && whole->op->over)
        dlk_op_request_cancel(op);
    dlk_engine_leave(whole->engine, &stay);
}

static dlock_op *start_next(dlk_multi_op *whole)
{
    size_t index = dlk_taking_index(&whole->taking);
    const dlk_member *member = &whole->multi->members[index];
    return dlk_engine_acquire_start(member->engine, member->name, &member->terms,
                                    whole->owners[index],
                                    dlk_taking_left(&whole->taking));
}

/* Takes the finished step apart; false when it was the last word. */
static bool step_done(dlk_multi_op *whole)
{
    dlock_op *op = whole->steps[0].op;
    set_step(whole, NULL);
    dlock_err code = dlock_op_result(op);
    dlock_error *error = code == DLOCK_OK ? NULL : dlk_error_copy(dlock_op_error(op));
    dlock_hold *got = dlock_op_take_hold(op), *hold = NULL;
    dlock_op_free(op);
    if (code == DLOCK_OK && is_over(whole))
        code = DLOCK_ECANCELED; /* nobody hears of it */
    if (dlk_taking_answered(&whole->taking, got, &code, &hold, &error))
        return true;
    end(whole, code, error, hold);
    return false;
}

/* Goes on as far as it can without waiting. */
static void go_on(dlk_multi_op *whole)
{
    for (;;) {
        dlock_op *op = start_next(whole);
        set_step(whole, op);
        if (dlk_op_then(op, &whole->steps[0].job) || !step_done(whole))
            return;
    }
}

static void acquired(dlk_job *job)
{
    dlk_multi_op *whole = DLK_LIST_ITEM(job, dlk_step, job)->of;
    if (step_done(whole))
        go_on(whole);
}

dlock_op *dlk_multi_acquire_start(dlk_multi *multi, int64_t wait_ms)
{
    dlock_op *op;
    dlk_multi_op *whole = begin(multi, true, &op);
    if (!whole)
        return op;
    dlk_taking_begin(&whole->taking, multi, wait_ms);
    whole->steps[0] = (dlk_step){.job = {.run = acquired}, .of = whole};
    for (size_t i = 0; i < multi->count; i++)
        whole->owners[i] = dlk_multi_owner(&multi->members[i], false);
    go_on(whole);
    return op;
}

/* ---- the same for every member ---- */

static void finish_each(dlk_multi_op *whole)
{
    dlock_err worst = DLOCK_OK;
    dlock_error *error = NULL;
    for (size_t i = 0; i < whole->multi->count; i++) {
        dlock_op *op = whole->steps[i].op;
        dlock_err code = dlock_op_result(op);
        if (code != DLOCK_OK && (worst == DLOCK_OK || code == DLOCK_ELOST)) {
            dlk_error_clear(&error);
            worst = code;
            error = dlk_error_copy(dlock_op_error(op));
        }
        dlock_op_free(op);
    }
    end(whole, worst, error, NULL);
}

/* So many less are to come. */
static void some_done(dlk_multi_op *whole, size_t count)
{
    if (atomic_fetch_sub_explicit(&whole->pending, count, memory_order_acq_rel) == count)
        finish_each(whole);
}

static void each_done(dlk_job *job)
{
    some_done(DLK_LIST_ITEM(job, dlk_step, job)->of, 1);
}

dlock_op *dlk_multi_each(dlock_hold *hold, dlk_multi_start *start, int64_t argument)
{
    dlock_op *op;
    dlk_multi *multi = dlk_multi_of(hold);
    dlk_multi_op *whole = begin(multi, false, &op);
    size_t count = multi->count;
    /* Without memory for it all is done all the same, a release at least; nobody hears of it. */
    for (size_t i = count; !whole && i-- > 0;)
        dlock_op_free(start(dlk_multi_member(hold, multi->order[i]), argument));
    if (!whole)
        return op;
    atomic_store(&whole->pending, count + 1);
    size_t done = 1; /* and we are no more in the way */
    for (size_t i = count; i-- > 0;) {
        dlk_step *step = &whole->steps[multi->order[i]];
        *step = (dlk_step){.job = {.run = each_done}, .of = whole};
        step->op = start(dlk_multi_member(hold, multi->order[i]), argument);
        if (!dlk_op_then(step->op, &step->job))
            done++;
    }
    some_done(whole, done);
    return op;
}
