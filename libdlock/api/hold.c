/* Holds: what a grant gives, asked without any I/O, and its end. */
#include "api/handles.h"
#include "util/clock.h"

static const dlk_grant *grant_of(const dlock_hold *hold)
{
    return hold->hold.grant;
}

/* ---- is it ours? ---- */

/* The clock says it is over, and what it says is final: make it so before anybody hears of it. */
static dlock_err settle(const dlock_hold *hold)
{
    dlk_engine *engine = hold->engine;
    if (!dlk_engine_enter(engine))
        return DLOCK_EFORKED;
    int64_t now = dlk_clock_now();
    dlk_core_tick(&engine->core, now);
    bool held = dlk_grant_settle(&engine->core, hold->hold.grant, now);
    dlk_engine_digest(engine, now);
    dlk_engine_send(engine);
    dlock_err code = held ? DLOCK_OK : DLOCK_ELOST;
    if (!held && dlk_grant_state(grant_of(hold)) == DLOCK_RELEASED)
        code = DLOCK_ENOTHELD;
    dlk_engine_leave(engine);
    return code;
}

/* Without the mutex while all is well: the end of validity only ever moves away while a grant is
 * held, so what was valid a moment ago by an older end is valid. */
static dlock_err check(const dlock_hold *hold, int64_t *left_ns)
{
    *left_ns = 0;
    if (dlk_engine_forked(hold->engine))
        return DLOCK_EFORKED;
    if (atomic_load_explicit(&hold->hold.released, memory_order_acquire))
        return DLOCK_ENOTHELD;
    const dlk_grant *grant = grant_of(hold);
    dlock_state state = dlk_grant_state(grant);
    if (state == DLOCK_LOST)
        return DLOCK_ELOST;
    if (state == DLOCK_RELEASED)
        return DLOCK_ENOTHELD;
    int64_t left =
        atomic_load_explicit(&grant->ends_at, memory_order_acquire) - dlk_clock_now();
    if (left <= 0) {
        dlock_err code = settle(hold);
        if (code != DLOCK_OK)
            return code;
        left =
            atomic_load_explicit(&grant->ends_at, memory_order_acquire) - dlk_clock_now();
        left = left > 0 ? left : 0;
    }
    *left_ns = left;
    return DLOCK_OK;
}

dlock_err dlock_hold_check(const dlock_hold *hold)
{
    int64_t left;
    return hold ? check(hold, &left) : DLOCK_EINVAL;
}

int64_t dlock_hold_remaining_ms(const dlock_hold *hold)
{
    int64_t left;
    return hold && check(hold, &left) == DLOCK_OK ? left / DLK_NS_PER_MS : 0;
}

int64_t dlock_hold_token(const dlock_hold *hold)
{
    return hold && !dlk_engine_forked(hold->engine) ? grant_of(hold)->token : 0;
}

int64_t dlock_hold_member_token(const dlock_hold *hold, size_t index)
{
    return index == 0 ? dlock_hold_token(hold) : 0;
}

dlock_state dlock_hold_state(const dlock_hold *hold)
{
    int64_t left;
    if (!hold)
        return DLOCK_LOST;
    switch ((int)check(hold, &left)) {
    case DLOCK_OK:
        return dlk_grant_state(grant_of(hold));
    case DLOCK_ENOTHELD:
        return DLOCK_RELEASED;
    default:
        return DLOCK_LOST;
    }
}

const char *dlock_hold_owner(const dlock_hold *hold)
{
    return hold ? dlk_engine_owner(hold) : "";
}

const char *dlock_hold_name(const dlock_hold *hold)
{
    return hold ? grant_of(hold)->name->key.name + hold->engine->prefix_size : "";
}

/* ---- keeping it ---- */

dlock_err dlock_hold_feed(dlock_hold *hold)
{
    if (!hold)
        return DLOCK_EINVAL;
    int64_t left;
    dlock_err code = check(hold, &left);
    if (code != DLOCK_OK)
        return code;
    if (!dlk_engine_enter(hold->engine))
        return DLOCK_EFORKED;
    int64_t now = dlk_clock_now();
    dlk_grant_feed(&hold->engine->core, hold->hold.grant, now);
    dlk_engine_digest(hold->engine, now);
    dlk_engine_send(hold->engine);
    dlk_engine_leave(hold->engine);
    return DLOCK_OK;
}

dlock_err dlock_hold_notify(dlock_hold *hold, uint64_t tag)
{
    if (!hold)
        return DLOCK_EINVAL;
    dlk_engine *engine = hold->engine;
    int64_t left;
    dlock_err code = check(hold, &left);
    if (code != DLOCK_OK)
        return code;
    if (!dlk_engine_enter(engine))
        return DLOCK_EFORKED;
    if (dlk_grant_lives(grant_of(hold))) {
        hold->slot.tag = tag;
        hold->slot.armed = true;
    } else {
        code = DLOCK_ELOST;
    }
    dlk_engine_leave(engine);
    return code;
}

static dlock_op *hold_query(dlock_hold *hold, dlk_verb verb, int64_t ttl_ms)
{
    int64_t left;
    dlock_err code = check(hold, &left);
    if (code == DLOCK_EFORKED)
        return dlk_op_static(code);
    if (code != DLOCK_OK)
        return dlk_op_answered(hold->engine, code,
                               code == DLOCK_ELOST ? "lost" : "this hold was released");
    if (verb == DLK_RENEW && left >= ttl_ms * DLK_NS_PER_MS)
        return dlk_op_answered(hold->engine, DLOCK_OK, ""); /* it lasts longer already */
    dlock_op *refused, *op = dlk_query_op(hold->engine, verb, &refused);
    if (!op)
        return refused;
    op->u.query.grant = hold->hold.grant;
    op->u.query.name = hold->hold.grant->name;
    op->u.query.ask.ttl_ms = ttl_ms;
    return dlk_query_go(hold->engine, op, hold->engine->core.limits.timeout_ms);
}

dlock_op *dlock_hold_verify_start(dlock_hold *hold)
{
    return hold ? hold_query(hold, DLK_VERIFY, 0) : dlk_op_static(DLOCK_EINVAL);
}

dlock_err dlock_hold_verify(dlock_hold *hold, dlock_error **err)
{
    return dlk_op_await(dlock_hold_verify_start(hold), NULL, NULL, err);
}

dlock_op *dlock_hold_extend_start(dlock_hold *hold, int64_t ttl_ms)
{
    const dlk_key_spec *ttl = dlk_settings_spec(DLK_KEY_LOCK_TTL_MS);
    if (!hold)
        return dlk_op_static(DLOCK_EINVAL);
    if (ttl_ms < ttl->min || ttl_ms > ttl->max)
        return dlk_op_answered(hold->engine, DLOCK_EINVAL,
                               "a lease has 100 ms to 30 days");
    return hold_query(hold, DLK_RENEW, ttl_ms);
}

dlock_err dlock_hold_extend(dlock_hold *hold, int64_t ttl_ms, dlock_error **err)
{
    return dlk_op_await(dlock_hold_extend_start(hold, ttl_ms), NULL, NULL, err);
}

/* ---- changing hands: not there yet ---- */

static dlock_err not_yet(dlock_hold *hold, const char *what, dlock_error **err)
{
    if (!hold)
        return dlk_error_set(err, DLOCK_EINVAL, "there is no hold");
    int64_t left;
    dlock_err code = check(hold, &left);
    if (code != DLOCK_OK)
        return dlk_error_set(err, code, "it isn't held any more");
    return dlk_error_set(err, DLOCK_ENOTSUP, "%s", what);
}

dlock_err dlock_hold_downgrade(dlock_hold *hold, dlock_error **err)
{
    return not_yet(hold, "only a write hold can be downgraded", err);
}

dlock_err dlock_hold_export(dlock_hold *hold, const char **ret_ticket, dlock_error **err)
{
    (void)ret_ticket;
    return not_yet(hold, "hand-off isn't supported by this version", err);
}

/* ---- the end ---- */

dlock_err dlock_hold_release(dlock_hold *hold, dlock_error **err)
{
    if (!hold)
        return dlk_error_set(err, DLOCK_EINVAL, "there is no hold to release");
    return dlk_engine_release(hold, err);
}

dlock_op *dlock_hold_release_start(dlock_hold *hold)
{
    if (!hold)
        return dlk_op_static(DLOCK_EINVAL);
    dlk_engine *engine = hold->engine;
    if (!dlk_engine_enter(engine))
        return dlk_op_static(DLOCK_EFORKED);
    int64_t now = dlk_clock_now();
    dlock_op *op = dlk_op_new(engine, DLK_OP_WAIT);
    if (op)
        op->u.waiter.op = op;
    /* Without memory for an op it is released all the same. */
    dlk_release_start(&engine->core, &hold->hold, op ? &op->u.waiter.wait : NULL,
                      dlk_clock_after(now, engine->core.limits.timeout_ms), now);
    dlk_engine_digest(engine, now);
    dlk_engine_send(engine);
    dlk_engine_leave(engine);
    return op ? op : dlk_op_static(DLOCK_ENOMEM);
}

void dlock_hold_free(dlock_hold *hold)
{
    if (!hold || dlk_engine_forked(hold->engine))
        return; /* a fork's child leaks it on purpose */
    dlk_engine *engine = hold->engine;
    /* The common case must not cost the mutex once more. An armed hold may lie in the queue. */
    if (atomic_load_explicit(&hold->hold.released, memory_order_acquire) &&
        !hold->slot.armed) {
        dlk_engine_shed_hold(engine, hold);
        dlk_engine_unref(engine);
        return;
    }
    (void)dlk_engine_enter(engine);
    dlk_engine_drop_hold(engine, hold);
    dlk_engine_send(engine);
    dlk_engine_leave(engine);
    dlk_engine_unref(engine);
}
