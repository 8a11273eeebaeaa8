/* What the files of api/ share: a question to the service, from its op to its answer. */
#include "api/handles.h"
#include "util/clock.h"
#include "util/error.h"

dlock_err dlk_op_await(dlock_op *op, dlock_hold **ret_hold, dlock_info **ret_info,
                       dlock_error **err)
{
    (void)dlock_op_wait(op, DLOCK_FOREVER); /* a wait without limit ends with the op */
    dlock_err code = dlock_op_result(op);
    dlock_hold *hold = ret_hold ? dlock_op_take_hold(op) : NULL;
    if (hold) /* also behind a wait for a signal that came to nothing */
        *ret_hold = hold;
    if (code == DLOCK_OK) {
        if (ret_info)
            *ret_info = dlock_op_take_info(op);
        dlk_error_clear(err);
    } else {
        const dlock_error *why = dlock_op_error(op);
        dlk_error_give(err, why ? dlk_error_copy(why) : dlk_error_make(code, "failed"));
    }
    dlock_op_free(op);
    return code;
}

dlock_op *dlk_query_op(dlk_engine *engine, dlk_verb verb, dlk_stay *stay,
                       dlock_op **ret_failed)
{
    if (!dlk_engine_enter(engine, stay)) {
        *ret_failed = dlk_op_static(DLOCK_EFORKED);
        return NULL;
    }
    dlock_op *op = dlk_op_new(engine, DLK_OP_QUERY);
    if (!op) {
        dlk_engine_leave(engine, stay);
        *ret_failed = dlk_op_static(DLOCK_ENOMEM);
        return NULL;
    }
    op->u.query.ask.verb = verb;
    return op;
}

dlock_op *dlk_query_go(dlk_engine *engine, dlock_op *op, int64_t wait_ms,
                       const dlk_stay *stay)
{
    int64_t now = dlk_clock_now();
    dlock_error *error = NULL;
    /* Started first, so that what starting finds out reaches it. */
    dlk_query_start(&engine->core, &op->u.query, dlk_clock_after(now, wait_ms), now);
    if (dlk_engine_start(engine, now, &error) != DLOCK_OK && !op->over)
        dlk_query_cancel(&engine->core, &op->u.query, error->code, now);
    dlk_error_clear(&error);
    dlk_engine_digest(engine, now);
    dlk_engine_send(engine);
    dlk_engine_leave(engine, stay);
    return op;
}
