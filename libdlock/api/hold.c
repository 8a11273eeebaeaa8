/* Holds: what a grant gives, asked without any I/O, and its end. */
#include "api/handles.h"
#include "util/clock.h"

static const dlk_group_hold_type *group_of(const dlock_hold *hold)
{
    return hold->more->group;
}

static const dlk_grant *grant_of(const dlock_hold *hold)
{
    return hold->hold.grant;
}

/* ---- is it ours? ---- */

/* The clock says it is over, and what it says is final: make it so before anybody hears of it. */
static dlock_err settle(const dlock_hold *hold)
{
    dlk_stay stay;
    dlk_engine *engine = hold->engine;
    if (!dlk_engine_enter(engine, &stay))
        return DLOCK_EFORKED;
    int64_t now = dlk_clock_now();
    dlk_core_tick(&engine->core, now);
    bool held = dlk_grant_settle(&engine->core, hold->hold.grant, now);
    dlk_engine_digest(engine, now);
    dlk_engine_send(engine);
    dlock_err code = held ? DLOCK_OK : DLOCK_ELOST;
    if (atomic_load(&hold->hold.released) ||
        (!held && dlk_grant_state(grant_of(hold)) == DLOCK_RELEASED))
        code = DLOCK_ENOTHELD;
    dlk_engine_leave(engine, &stay);
    return code;
}

/* Without the mutex while all is well: the end of validity only ever moves away while a grant is
 * held, so what was valid a moment ago by an older end is valid. */
static dlock_err check(const dlock_hold *hold, int64_t *left_ns)
{
    *left_ns = 0;
    if (dlk_hold_is_group(hold))
        return group_of(hold)->check(hold, left_ns);
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
    int64_t left = dlk_lease_end(&grant->lease) - dlk_clock_now();
    if (left <= 0) {
        dlock_err code = settle(hold);
        if (code != DLOCK_OK)
            return code;
        left = dlk_lease_end(&grant->lease) - dlk_clock_now();
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

int64_t dlock_hold_ttl_ms(const dlock_hold *hold)
{
    dlk_stay stay;
    if (hold && dlk_hold_is_group(hold))
        return group_of(hold)->ttl_ms(hold);
    if (!hold || !dlk_engine_enter(hold->engine, &stay))
        return 0;
    int64_t ttl_ms = grant_of(hold)->terms.ttl_ms; /* an extension changes it */
    dlk_engine_leave(hold->engine, &stay);
    return ttl_ms;
}

int64_t dlock_hold_token(const dlock_hold *hold)
{
    if (!hold || dlk_hold_is_group(hold) || dlk_engine_forked(hold->engine))
        return 0;
    return hold->hold.token;
}

int64_t dlock_hold_member_token(const dlock_hold *hold, size_t index)
{
    if (hold && dlk_hold_is_group(hold))
        return dlock_hold_token(group_of(hold)->member(hold, index));
    return index == 0 ? dlock_hold_token(hold) : 0;
}

dlock_state dlock_hold_state(const dlock_hold *hold)
{
    int64_t left;
    if (!hold)
        return DLOCK_LOST;
    if (dlk_hold_is_group(hold))
        return group_of(hold)->state(hold);
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
    if (hold && dlk_hold_is_group(hold))
        return dlk_engine_owner(group_of(hold)->member(hold, 0));
    return hold ? dlk_engine_owner(hold) : "";
}

const char *dlock_hold_name(const dlock_hold *hold)
{
    if (hold && dlk_hold_is_group(hold))
        return hold->more->group_name;
    return hold ? grant_of(hold)->name->key.name + hold->engine->prefix_size : "";
}

/* ---- keeping it ---- */

dlock_err dlock_hold_feed(dlock_hold *hold)
{
    dlk_stay stay;
    if (!hold)
        return DLOCK_EINVAL;
    int64_t left;
    dlock_err code = check(hold, &left);
    if (code != DLOCK_OK)
        return code;
    if (dlk_hold_is_group(hold))
        return group_of(hold)->feed(hold);
    if (!dlk_engine_enter(hold->engine, &stay))
        return DLOCK_EFORKED;
    int64_t now = dlk_clock_now();
    if (atomic_load(&hold->hold.released)) /* meanwhile: another may have the grant */
        code = DLOCK_ENOTHELD;
    else
        dlk_grant_feed(&hold->engine->core, hold->hold.grant, now);
    dlk_engine_digest(hold->engine, now);
    dlk_engine_send(hold->engine);
    dlk_engine_leave(hold->engine, &stay);
    return code;
}

dlock_err dlock_hold_notify(dlock_hold *hold, uint64_t tag)
{
    dlk_stay stay;
    if (!hold)
        return DLOCK_EINVAL;
    dlk_engine *engine = hold->engine;
    int64_t left;
    dlock_err code = check(hold, &left);
    if (code != DLOCK_OK)
        return code;
    if (dlk_hold_is_group(hold))
        return group_of(hold)->notify(hold, tag);
    if (!dlk_engine_enter(engine, &stay))
        return DLOCK_EFORKED;
    dlk_hold_more *more = dlk_hold_need(hold);
    if (atomic_load(&hold->hold.released)) {
        code = DLOCK_ENOTHELD;
    } else if (!dlk_grant_lives(grant_of(hold))) {
        code = DLOCK_ELOST;
    } else if (!more) {
        code = DLOCK_ENOMEM;
    } else {
        more->slot.tag = tag;
        more->slot.armed = true;
        dlk_event_listen(engine, more);
        dlk_engine_send(engine);
    }
    dlk_engine_leave(engine, &stay);
    return code;
}

/* An op that says why nothing can be asked about it any more; NULL while it is held. */
static dlock_op *refuse(dlock_hold *hold, int64_t *left_ns)
{
    dlock_err code = check(hold, left_ns);
    if (code == DLOCK_OK)
        return NULL;
    if (code == DLOCK_EFORKED)
        return dlk_op_static(code);
    return dlk_op_answered(hold->engine, code,
                           code == DLOCK_ELOST ? "lost" : "this hold was released");
}

/* The same for every member of a multi-lock, if it is held as a whole. */
static dlock_op *each_valid(dlock_hold *hold, dlk_group_start *start, int64_t argument)
{
    int64_t left;
    dlock_op *refused = refuse(hold, &left);
    if (refused)
        return refused;
    return group_of(hold)->each(hold, start, argument);
}

static dlock_op *hold_query(dlock_hold *hold, dlk_verb verb, int64_t ttl_ms)
{
    int64_t left;
    dlock_op *refused = refuse(hold, &left);
    if (refused)
        return refused;
    /* However much is left: whoever may extend learns it by the first try, not by a later one. */
    if (verb == DLK_RENEW && hold->engine->core.limits.session)
        return dlk_op_answered(hold->engine, DLOCK_ENOTSUP,
                               "the lease is that of the client's session there: one "
                               "lock's can't be made longer");
    if (verb == DLK_RENEW && left >= ttl_ms * DLK_NS_PER_MS)
        return dlk_op_answered(hold->engine, DLOCK_OK, ""); /* it lasts longer already */
    dlk_stay stay;
    dlock_op *op = dlk_query_op(hold->engine, verb, &stay, &refused);
    if (!op)
        return refused;
    op->u.query.hold = &hold->hold;
    op->u.query.grant = hold->hold.grant;
    op->u.query.name = hold->hold.grant->name;
    op->u.query.ask.ttl_ms = ttl_ms;
    return dlk_query_go(hold->engine, op, hold->engine->core.limits.timeout_ms, &stay);
}

static dlock_op *verify_member(dlock_hold *member, int64_t unused)
{
    (void)unused;
    return dlock_hold_verify_start(member);
}

dlock_op *dlock_hold_verify_start(dlock_hold *hold)
{
    if (hold && dlk_hold_is_group(hold))
        return each_valid(hold, verify_member, 0);
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
    if (dlk_hold_is_group(hold))
        return each_valid(hold, dlock_hold_extend_start, ttl_ms);
    return hold_query(hold, DLK_RENEW, ttl_ms);
}

dlock_err dlock_hold_extend(dlock_hold *hold, int64_t ttl_ms, dlock_error **err)
{
    return dlk_op_await(dlock_hold_extend_start(hold, ttl_ms), NULL, NULL, err);
}

/* ---- from write to read ---- */

static dlock_err downgrade(dlock_hold *hold, int64_t now, dlock_error **err)
{
    dlk_grant *grant = hold->hold.grant;
    if (atomic_load(&hold->hold.released))
        return dlk_error_set(err, DLOCK_ENOTHELD, "this hold was released");
    if (!dlk_grant_settle(&hold->engine->core, grant, now))
        return dlk_error_set(err, DLOCK_ELOST, "it was lost");
    if (grant->name->key.kind != DLOCK_WRITE || hold->hold.shared)
        return dlk_error_set(err, DLOCK_ENOTSUP, "only a write hold can be downgraded");
    if (grant->write_holds > 1)
        return dlk_error_set(err, DLOCK_EBUSY, "this owner has %d more write holds of it",
                             (int)grant->write_holds - 1);
    hold->hold.shared = true;
    grant->write_holds = 0;
    dlk_grant_turn(&hold->engine->core, grant, now);
    return DLOCK_OK;
}

dlock_err dlock_hold_downgrade(dlock_hold *hold, dlock_error **err)
{
    dlk_stay stay;
    if (!hold)
        return dlk_error_set(err, DLOCK_EINVAL, "there is no hold");
    int64_t left;
    dlock_err code = check(hold, &left);
    if (code != DLOCK_OK)
        return dlk_error_set(err, code, "it isn't held any more");
    if (dlk_hold_is_group(hold))
        return dlk_error_set(err, DLOCK_ENOTSUP, "a multi-lock can't be downgraded");
    dlk_engine *engine = hold->engine;
    if (!dlk_engine_enter(engine, &stay))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the hold belongs to the parent process");
    int64_t now = dlk_clock_now();
    code = downgrade(hold, now, err);
    dlk_engine_digest(engine, now);
    dlk_engine_send(engine);
    dlk_engine_leave(engine, &stay);
    return code == DLOCK_OK ? dlk_error_clear(err) : code;
}

/* ---- the end ---- */

dlock_err dlock_hold_release(dlock_hold *hold, dlock_error **err)
{
    if (!hold)
        return dlk_error_set(err, DLOCK_EINVAL, "there is no hold to release");
    if (dlk_hold_is_group(hold))
        return group_of(hold)->release(hold, err);
    return dlk_engine_release(hold, err);
}

dlock_op *dlock_hold_release_start(dlock_hold *hold)
{
    dlk_stay stay;
    if (!hold)
        return dlk_op_static(DLOCK_EINVAL);
    if (dlk_hold_is_group(hold))
        return group_of(hold)->release_start(hold);
    dlk_engine *engine = hold->engine;
    if (!dlk_engine_enter(engine, &stay))
        return dlk_op_static(DLOCK_EFORKED);
    dlock_op *op = dlk_engine_release_start(engine, &hold->hold);
    dlk_engine_leave(engine, &stay);
    return op ? op : dlk_op_static(DLOCK_ENOMEM);
}

void dlock_hold_free(dlock_hold *hold)
{
    dlk_stay stay;
    if (!hold || dlk_engine_forked(hold->engine))
        return; /* a fork's child leaks it on purpose */
    if (dlk_hold_is_group(hold)) {
        group_of(hold)->free(hold);
        return;
    }
    dlk_engine *engine = hold->engine;
    /* The common case must not cost the mutex once more. One with more may lie in the queue. */
    if (atomic_load_explicit(&hold->hold.released, memory_order_acquire) && !hold->more) {
        dlk_engine_shed_hold(engine, hold);
        dlk_engine_unref(engine);
        return;
    }
    (void)dlk_engine_enter(engine, &stay);
    dlk_engine_drop_hold(engine, hold);
    dlk_engine_send(engine);
    dlk_engine_leave(engine, &stay);
    dlk_engine_unref(engine);
}
