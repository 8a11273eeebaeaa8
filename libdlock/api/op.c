/* Operations as the caller sees them; how they complete is the engine's business. */
#include "engine/circle.h"
#include "engine/engine.h"

#include "util/clock.h"

void dlock_op_cancel(dlock_op *op)
{
    if (op && op->engine && !dlk_engine_forked(op->engine))
        dlk_op_request_cancel(op);
}

/* Static ops, and all in a fork's child, are only read. True when @p op is live and locked. */
static bool enter(const dlock_op *op, dlk_stay *stay)
{
    return op->engine && dlk_engine_enter(op->engine, stay);
}

static dlock_err settled(const dlock_op *op)
{
    return op->over ? DLOCK_OK : DLOCK_EPENDING;
}

dlock_err dlock_op_notify(dlock_op *op, uint64_t tag)
{
    dlk_stay stay;
    if (!op)
        return DLOCK_EINVAL;
    if (!op->engine)
        return DLOCK_OK;
    if (!enter(op, &stay))
        return DLOCK_EFORKED;
    dlk_engine *engine = op->engine;
    dlock_err code = settled(op);
    if (code == DLOCK_EPENDING) {
        op->slot.tag = tag;
        if (!op->slot.armed)
            engine->attended++;
        op->slot.armed = true;
    }
    dlk_engine_leave(engine, &stay);
    return code;
}

/* Does the calling thread wait for what it acquires itself, behind somebody of its client? Mutex held. */
static bool is_own_wait(const dlock_op *op)
{
    if (op->kind != DLK_OP_WAIT)
        return false;
    const dlk_wait *wait = &op->u.waiter.wait;
    return !wait->releasing && !wait->importing && dlk_circle_concerns(wait) &&
           wait->owner == dlk_thread_number();
}

/* Mutex held before and after. */
static void await_end(dlk_engine *engine, dlock_op *op, int64_t until)
{
    dlk_sleeper me;
    dlk_blocked blocked;
    bool own = is_own_wait(op);
    op->refs++;
    if (own)
        dlk_circle_begin(engine, &blocked, &op->u.waiter.wait);
    dlk_sleeper_init(&me);
    dlk_list_append(&op->sleepers, &me.mates);
    dlk_engine_await(engine, &me, &op->over, until);
    dlk_list_remove(&me.mates);
    if (own)
        dlk_circle_end(&blocked);
}

dlock_err dlock_op_wait(dlock_op *op, int64_t wait_ms)
{
    dlk_stay stay;
    if (!op || wait_ms < DLOCK_FOREVER)
        return DLOCK_EINVAL;
    if (!op->engine)
        return DLOCK_OK;
    if (!enter(op, &stay))
        return DLOCK_EFORKED;
    dlk_engine *engine = op->engine;
    dlock_err code = settled(op);
    if (code == DLOCK_EPENDING && wait_ms != 0) {
        await_end(engine, op, dlk_clock_after(dlk_clock_now(), wait_ms));
        code = op->over ? DLOCK_OK : DLOCK_EPENDING;
        dlk_op_unref(op);
    }
    dlk_engine_leave(engine, &stay);
    return code;
}

dlock_err dlock_op_result(const dlock_op *op)
{
    dlk_stay stay;
    if (!op)
        return DLOCK_EINVAL;
    if (!op->engine)
        return op->code;
    if (!enter(op, &stay))
        return DLOCK_EFORKED;
    dlock_err code = settled(op) == DLOCK_OK ? op->code : DLOCK_EPENDING;
    dlk_engine_leave(op->engine, &stay);
    return code;
}

const dlock_error *dlock_op_error(const dlock_op *op)
{
    dlk_stay stay;
    if (!op)
        return NULL;
    if (!op->engine)
        return op->error;
    if (!enter(op, &stay))
        return dlk_op_static(DLOCK_EFORKED)->error;
    const dlock_error *error = settled(op) == DLOCK_OK ? op->error : NULL;
    dlk_engine_leave(op->engine, &stay);
    return error;
}

/* True: it is over, and locked; else neither, or there is nothing in it. */
static bool enter_over(const dlock_op *op, dlk_stay *stay)
{
    if (!op || !enter(op, stay))
        return false;
    bool over = op->over;
    if (!over)
        dlk_engine_leave(op->engine, stay);
    return over;
}

dlock_hold *dlock_op_take_hold(dlock_op *op)
{
    dlk_stay stay;
    if (!enter_over(op, &stay))
        return NULL;
    dlock_hold *hold = op->hold;
    op->hold = NULL;
    dlk_engine_leave(op->engine, &stay);
    return hold;
}

dlock_info *dlock_op_take_info(dlock_op *op)
{
    dlk_stay stay;
    if (!enter_over(op, &stay))
        return NULL;
    dlock_info *info = op->info;
    op->info = NULL;
    dlk_engine_leave(op->engine, &stay);
    return info;
}

void dlock_op_free(dlock_op *op)
{
    dlk_stay stay;
    if (!op || !enter(op, &stay))
        return; /* static, or in a fork's child: leaked on purpose */
    dlk_engine *engine = op->engine;
    int64_t now = dlk_clock_now();
    dlk_op_cancel_now(engine, op, now);
    dlk_event_withdraw(engine, &op->slot);
    dlock_hold *group = op->hold && dlk_hold_is_group(op->hold) ? op->hold : NULL;
    bool had_hold = op->hold && !group;
    if (had_hold)
        dlk_engine_drop_hold(engine, op->hold);
    op->hold = NULL;
    dlk_op_unref(op);
    dlk_engine_digest(engine, now);
    dlk_engine_send(engine);
    dlk_engine_leave(engine, &stay);
    if (group)
        group->more->group->free(group); /* it enters the engines of its members */
    if (had_hold)
        dlk_engine_unref(engine);
    dlk_engine_unref(engine);
}
