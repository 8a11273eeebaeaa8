/* What is started on a multi-lock and not waited for, whatever it is: an op of the first member's
 * engine, which is told when it is called off. Each file below it has operations of the members'
 * engines under way, and goes on by a job when one is over. */
#include "multi/inner.h"

#include <assert.h>

bool dlk_multi_op_begin(dlk_multi_op *whole, dlk_multi *multi, dlk_multi_end *end_early,
                        dlock_op **ret_op)
{
    dlk_stay stay;
    dlk_engine *engine = multi->members[0].engine;
    if (!dlk_engine_enter(engine, &stay)) {
        *ret_op = dlk_op_static(DLOCK_EFORKED);
        return false;
    }
    dlock_op *op = dlk_op_new(engine, DLK_OP_MULTI);
    if (op) {
        op->u.multi.whole = whole;
        op->u.multi.end = end_early;
        *whole = (dlk_multi_op){.engine = engine, .multi = multi, .op = op};
        dlk_list_append(&engine->multis, &op->link);
        dlk_engine_ref(engine);
        dlk_multi_ref(multi);
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

void dlk_multi_op_end_early(dlk_engine *engine, dlock_op *op, dlock_err code)
{
    assert(!op->over);
    dlk_list_remove(&op->link);
    dlk_op_finish(engine, op, code, dlk_error_make(code, "%s", words_for(code)));
}

void dlk_multi_op_finish(dlk_multi_op *whole, dlock_err code, dlock_error *error)
{
    dlk_list_remove(&whole->op->link);
    dlk_op_finish(whole->engine, whole->op, code, error);
}

void dlk_multi_op_close(dlk_multi_op *whole)
{
    dlk_stay stay;
    if (dlk_engine_enter(whole->engine, &stay)) {
        dlk_op_retire(whole->engine, whole->op);
        dlk_engine_leave(whole->engine, &stay);
    }
    dlk_multi_unref(whole->multi);
    dlk_engine_unref(whole->engine);
}
