/* Conditions: waiting for a signal, and signalling. */
#include "api/handles.h"
#include "condition/condition.h"
#include "util/clock.h"
#include "util/kind.h"

#include <stdlib.h>

/* ---- making ---- */

/* Its lease is that of a signal: nobody has to feed it, and nobody's longest hold is meant. */
static void set_terms(dlk_terms *terms)
{
    terms->renewal = DLK_RENEW_AUTO;
    terms->max_hold_ms = 0;
    terms->release_async = false;
}

dlock_err dlock_cond_new(dlock_client *client, const char *name, const dlock_conf *conf,
                         dlock_cond **ret_cond, dlock_error **err)
{
    if (!client || !name || !ret_cond)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "dlock_cond_new needs a client, a name and a place for the condition");
    dlock_cond *cond = calloc(1, sizeof(*cond));
    dlock_err code = cond ? dlk_lock_make(client->engine, DLK_KIND_CONDITION, name, conf,
                                          &cond->line, err)
                          : dlk_error_nomem(err);
    if (code != DLOCK_OK) {
        free(cond);
        return code;
    }
    set_terms(&cond->line.terms);
    dlk_engine_ref(cond->line.engine);
    *ret_cond = cond;
    return dlk_error_clear(err);
}

void dlock_cond_free(dlock_cond *cond)
{
    dlk_stay stay;
    if (!cond || !dlk_engine_enter(cond->line.engine, &stay))
        return; /* a fork's child leaks it on purpose */
    dlk_engine *engine = cond->line.engine;
    dlk_lock_unref(&cond->line);
    dlk_engine_leave(engine, &stay);
    free(cond);
    dlk_engine_unref(engine);
}

/* ---- waiting ---- */

static dlock_op *start_wait(const dlock_cond *cond, const dlock_hold *hold,
                            int64_t wait_ms, bool awaited)
{
    if (!cond)
        return dlk_op_static(DLOCK_EINVAL);
    dlk_engine *engine = cond->line.engine;
    if (wait_ms < DLOCK_FOREVER)
        return dlk_op_answered(engine, DLOCK_EINVAL, dlk_bad_wait);
    if (hold && dlk_hold_is_group(hold))
        return dlk_op_answered(
            engine, DLOCK_ENOTSUP,
            "several locks as one can't be given back for a condition");
    if (hold && hold->engine != engine)
        return dlk_op_answered(engine, DLOCK_EINVAL,
                               "the hold and the condition are of different clients");
    return dlk_condition_wait_start(engine, cond->line.name, &cond->line.terms, hold,
                                    wait_ms, awaited);
}

dlock_op *dlock_cond_wait_start(dlock_cond *cond, dlock_hold *hold, int64_t wait_ms)
{
    return start_wait(cond, hold, wait_ms, false);
}

dlock_err dlock_cond_wait(dlock_cond *cond, dlock_hold *hold, int64_t wait_ms,
                          dlock_hold **ret_hold, dlock_error **err)
{
    if (hold && !ret_hold)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_cond_wait needs a place for the hold");
    return dlk_op_await(start_wait(cond, hold, wait_ms, true), ret_hold, NULL, err);
}

/* ---- signalling ---- */

/* Why this hold doesn't allow it; NULL: it does. */
static dlock_op *refuse(const dlock_cond *cond, const dlock_hold *hold)
{
    if (!hold && !cond->line.signals_held)
        return NULL;
    dlock_err code = hold ? dlock_hold_check(hold) : DLOCK_ENOTHELD;
    if (code == DLOCK_OK)
        return NULL;
    if (code == DLOCK_EFORKED)
        return dlk_op_static(code);
    return dlk_op_answered(cond->line.engine, code,
                           code == DLOCK_ELOST ? "the lock was lost: nothing is signalled"
                           : hold ? "this hold was released: nothing is signalled"
                                  : "with cond.owner=true a signal needs a hold");
}

dlock_op *dlock_cond_signal_start(dlock_cond *cond, int64_t count, dlock_hold *hold)
{
    if (!cond)
        return dlk_op_static(DLOCK_EINVAL);
    if (count < 1)
        return dlk_op_answered(cond->line.engine, DLOCK_EINVAL,
                               "a signal to 0 waiters, or fewer");
    dlock_op *refused = refuse(cond, hold);
    if (refused)
        return refused;
    dlk_stay stay;
    dlock_op *op = dlk_lock_query(&cond->line, DLK_SIGNAL, NULL, &stay);
    if (op->kind != DLK_OP_QUERY)
        return op;
    op->u.query.ask.limit = count;
    dlk_engine *engine = cond->line.engine;
    return dlk_query_go(engine, op, engine->core.limits.timeout_ms, &stay);
}

dlock_err dlock_cond_signal(dlock_cond *cond, int64_t count, dlock_hold *hold,
                            int64_t *ret_count, dlock_error **err)
{
    dlock_info *info = NULL;
    dlock_err code =
        dlk_op_await(dlock_cond_signal_start(cond, count, hold), NULL, &info, err);
    if (code == DLOCK_OK && ret_count)
        *ret_count = dlock_info_int(info, 0); /* `signalled` is all there is */
    dlock_info_free(info);
    return code;
}

dlock_op *dlock_cond_broadcast_start(dlock_cond *cond, dlock_hold *hold)
{
    return dlock_cond_signal_start(cond, INT64_MAX, hold);
}

dlock_err dlock_cond_broadcast(dlock_cond *cond, dlock_hold *hold, int64_t *ret_count,
                               dlock_error **err)
{
    return dlock_cond_signal(cond, INT64_MAX, hold, ret_count, err);
}
