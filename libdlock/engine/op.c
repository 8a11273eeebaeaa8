/*
 * Operations: one thing being waited for, that completes exactly once.
 *
 * References: one is the user's, until dlock_op_free; one is the engine's, while a wait or a query
 * of the op may still be answered. The engine's is given back by dlk_op_retire.
 *
 * Cancelling comes from anywhere, a signal handler included: it marks the op, pushes it on a
 * lock-free stack and kicks the engine's thread. Whoever has the mutex next carries it out.
 */
#include "engine/engine.h"

#include "util/clock.h"
#include "util/point.h"

#include <assert.h>
#include <stdlib.h>

static dlock_error no_memory = {.code = DLOCK_ENOMEM, .text = (char[]){"out of memory"}};
static dlock_error forked = {
    .code = DLOCK_EFORKED, .text = (char[]){"the object belongs to the parent process"}};
static dlock_error invalid = {.code = DLOCK_EINVAL,
                              .text = (char[]){"an argument is missing"}};

dlock_op *dlk_op_static(dlock_err code)
{
    static dlock_op ops[] = {
        {.kind = DLK_OP_DONE, .over = true, .code = DLOCK_ENOMEM, .error = &no_memory},
        {.kind = DLK_OP_DONE, .over = true, .code = DLOCK_EFORKED, .error = &forked},
        {.kind = DLK_OP_DONE, .over = true, .code = DLOCK_EINVAL, .error = &invalid},
    };
    if (code == DLOCK_EFORKED)
        return &ops[1];
    return code == DLOCK_EINVAL ? &ops[2] : &ops[0];
}

dlock_op *dlk_op_new(dlk_engine *engine, dlk_op_kind kind)
{
    dlock_op *op = calloc(1, sizeof(*op));
    if (!op)
        return NULL;
    op->engine = engine;
    op->kind = kind;
    op->refs = 2;
    op->slot.kind = DLK_SLOT_OP;
    dlk_list_init(&op->slot.link);
    dlk_list_init(&op->link);
    dlk_list_init(&op->sleepers);
    if (kind == DLK_OP_QUERY)
        dlk_list_init(&op->u.query.all);
    dlk_engine_ref(engine);
    engine->pending_ops++;
    return op;
}

dlock_op *dlk_op_failed(dlk_engine *engine, dlock_err code, dlock_error *error)
{
    dlock_op *op = dlk_op_new(engine, DLK_OP_DONE);
    if (!op) {
        dlk_error_clear(&error);
        return dlk_op_static(DLOCK_ENOMEM);
    }
    dlk_op_finish(engine, op, code, error);
    dlk_op_retire(engine, op);
    return op;
}

dlock_op *dlk_op_waiting(dlk_engine *engine, int64_t now)
{
    dlock_error *error = NULL;
    dlock_err code = dlk_engine_start(engine, now, &error);
    if (code != DLOCK_OK)
        return dlk_op_failed(engine, code, error);
    dlock_op *op = dlk_op_new(engine, DLK_OP_WAIT);
    if (!op)
        return dlk_op_static(DLOCK_ENOMEM);
    op->u.waiter.op = op;
    return op;
}

dlock_op *dlk_op_answered(dlk_engine *engine, dlock_err code, const char *text)
{
    dlk_stay stay;
    if (!dlk_engine_enter(engine, &stay))
        return dlk_op_static(DLOCK_EFORKED);
    dlock_op *op = dlk_op_failed(
        engine, code, code == DLOCK_OK ? NULL : dlk_error_make(code, "%s", text));
    dlk_engine_leave(engine, &stay);
    return op;
}

void dlk_op_unref(dlock_op *op)
{
    assert(op->refs > 0);
    if (--op->refs > 0)
        return;
    dlk_error_clear(&op->error);
    dlk_info_free(op->info);
    free(op->text);
    free(op);
}

void dlk_op_retire(dlk_engine *engine, dlock_op *op)
{
    (void)engine;
    op->kind = DLK_OP_DONE;
    dlk_op_unref(op);
}

void dlk_op_finish(dlk_engine *engine, dlock_op *op, dlock_err code, dlock_error *error)
{
    assert(!op->over);
    op->over = true;
    op->code = code;
    op->error = error;
    if (code == DLOCK_OK)
        dlk_error_clear(&op->error);
    engine->pending_ops--;
    DLK_LIST_FOR (it, &op->sleepers)
        dlk_engine_wake(engine, DLK_LIST_ITEM(it, dlk_sleeper, mates));
    if (op->slot.armed) {
        engine->attended--;
        dlk_event_push(engine, &op->slot);
    }
    if (op->then)
        dlk_op_run_then(engine, op);
}

void dlk_op_run_then(dlk_engine *engine, dlock_op *op)
{
    engine->attended -= !op->then->awaited;
    dlk_list_append(&engine->jobs, &op->then->link);
    op->then = NULL;
}

static bool is_placed(const dlock_op *op)
{
    return op->kind == DLK_OP_WAIT && op->u.waiter.wait.placed;
}

static bool then(dlock_op *op, dlk_job *job, bool placed)
{
    dlk_stay stay;
    dlk_engine *engine = op->engine;
    if (!engine || !dlk_engine_enter(engine, &stay))
        return false; /* a static one */
    bool waits = !op->over && !(placed && is_placed(op));
    if (waits) {
        dlk_list_init(&job->link);
        op->then = job;
        op->then_placed = placed;
        engine->attended += !job->awaited; /* somebody has to drive for it */
    }
    dlk_engine_leave(engine, &stay);
    return waits;
}

bool dlk_op_then(dlock_op *op, dlk_job *job)
{
    return then(op, job, false);
}

bool dlk_op_then_placed(dlock_op *op, dlk_job *job)
{
    return then(op, job, true);
}

/* A static one stays what it is. */
static dlk_op_outcome outcome_of_static(const dlock_op *op)
{
    return (dlk_op_outcome){.code = op->code, .error = dlk_error_copy(op->error)};
}

dlk_op_outcome dlk_op_end_inside(dlock_op *op)
{
    assert(op->over);
    if (!op->engine)
        return outcome_of_static(op);
    dlk_op_outcome outcome = {.code = op->code, .hold = op->hold, .error = op->error};
    op->hold = NULL;
    op->error = NULL;
    dlk_op_unref(op);
    return outcome;
}

dlk_op_outcome dlk_op_end(dlock_op *op)
{
    dlk_stay stay;
    dlk_engine *engine = op->engine;
    if (!engine)
        return outcome_of_static(op);
    if (!dlk_engine_enter(engine, &stay))
        return outcome_of_static(dlk_op_static(DLOCK_EFORKED));
    dlk_op_outcome outcome = dlk_op_end_inside(op);
    dlk_engine_leave(engine, &stay);
    dlk_engine_unref(engine);
    return outcome;
}

/* ---- cancelling ---- */

static void push_cancelled(dlock_op *op)
{
    dlk_engine *engine = op->engine;
    dlock_op *first = atomic_load(&engine->cancelled);
    do
        op->next_cancelled = first;
    while (!atomic_compare_exchange_weak(&engine->cancelled, &first, op));
}

void dlk_op_cancel_now(dlk_engine *engine, dlock_op *op, int64_t now)
{
    if (op->over)
        return;
    DLK_POINT("cancel.now");
    if (op->kind == DLK_OP_WAIT) {
        dlk_wait *wait = &op->u.waiter.wait;
        if (wait->releasing)
            dlk_release_detach(&engine->core, wait, DLOCK_ECANCELED, now);
        else
            dlk_acquire_cancel(&engine->core, wait, DLOCK_ECANCELED, now);
    } else if (op->kind == DLK_OP_QUERY) {
        dlk_query_cancel(&engine->core, &op->u.query, DLOCK_ECANCELED, now);
    } else if (op->kind == DLK_OP_COMPOUND) {
        op->u.compound.end(engine, op, DLOCK_ECANCELED);
    } else if (op->kind == DLK_OP_CLOSE) {
        dlk_list_remove(&op->link); /* closing goes on */
        dlk_op_finish(
            engine, op, DLOCK_ECANCELED,
            dlk_error_make(DLOCK_ECANCELED, "stopped waiting; the client closes"));
        dlk_op_retire(engine, op);
    }
}

void dlk_ops_drain_cancelled(dlk_engine *engine, int64_t now)
{
    dlock_op *op = atomic_exchange(&engine->cancelled, NULL);
    while (op) {
        dlock_op *next = op->next_cancelled;
        dlk_op_cancel_now(engine, op, now);
        op = next;
    }
}

void dlk_op_request_cancel(dlock_op *op)
{
    if (!op->engine || atomic_exchange(&op->cancelled, true))
        return; /* a static one is over */
    push_cancelled(op);
    DLK_POINT("cancel.asked");
    dlk_engine_kick(op->engine);
}
