/* Operations that are made of others, started and not waited for: each has operations of engines under
 * way, and goes on by a job when one is over. It is told when it is called off. */
#include "engine/engine.h"

#include <assert.h>

bool dlk_compound_begin(dlk_compound *whole, dlk_engine *engine,
                        dlk_compound_end *end_early, dlock_op **ret_op)
{
    dlk_stay stay;
    if (!dlk_engine_enter(engine, &stay)) {
        *ret_op = dlk_op_static(DLOCK_EFORKED);
        return false;
    }
    dlock_op *op = dlk_op_new(engine, DLK_OP_COMPOUND);
    if (op) {
        op->u.compound.whole = whole;
        op->u.compound.end = end_early;
        *whole = (dlk_compound){.engine = engine, .op = op};
        dlk_list_append(&engine->compounds, &op->link);
        dlk_engine_ref(engine);
    }
    dlk_engine_leave(engine, &stay);
    *ret_op = op ? op : dlk_op_static(DLOCK_ENOMEM);
    return op != NULL;
}

static const char *words_for(dlock_err code)
{
    if (code == DLOCK_ECLOSED)
        return "the client was closed";
    return code == DLOCK_ENOMEM ? "out of memory" : "the wait was cancelled";
}

void dlk_compound_end_early(dlk_engine *engine, dlock_op *op, dlock_err code)
{
    assert(!op->over);
    dlk_list_remove(&op->link);
    dlk_op_finish(engine, op, code, dlk_error_make(code, "%s", words_for(code)));
}

void dlk_compound_finish(dlk_compound *whole, dlock_err code, dlock_error *error)
{
    dlk_list_remove(&whole->op->link);
    dlk_op_finish(whole->engine, whole->op, code, error);
}

void dlk_compound_close(dlk_compound *whole)
{
    dlk_stay stay;
    if (dlk_engine_enter(whole->engine, &stay)) {
        dlk_op_retire(whole->engine, whole->op);
        dlk_engine_leave(whole->engine, &stay);
    }
    dlk_engine_unref(whole->engine);
}
