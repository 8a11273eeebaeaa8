/* Locks: a kind, a name and settings, and what can be asked of the name. */
#include "api/conf.h"
#include "api/handles.h"
#include "util/clock.h"
#include "util/kind.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 1024

/* ---- making ---- */

static dlock_err check_kind(const dlk_engine *engine, dlock_kind kind, dlock_error **err)
{
    const dlk_kind_traits *known = dlk_kind_of((int)kind);
    const dlk_backend_type *type = engine->backend->type;
    const dlk_traits *traits = &type->traits;
    if (traits->kinds[kind])
        return DLOCK_OK;
    if (kind == DLK_KIND_CONDITION)
        return dlk_error_set(err, DLOCK_ENOTSUP, "%s: has no conditions%s%s",
                             type->schemes[0], traits->no_conditions ? ": " : "",
                             traits->no_conditions ? traits->no_conditions
                                                   : " in this version");
    return dlk_error_set(err, DLOCK_ENOTSUP, "%s: has no %s locks in this version",
                         type->schemes[0], known->name);
}

/* Prefix and name in one piece, yours to free. */
static dlock_err full_name(const dlk_engine *engine, const char *name, char **ret,
                           dlock_error **err)
{
    const char *prefix = dlk_settings_text(engine->settings, DLK_KEY_CLIENT_PREFIX);
    size_t size = strnlen(name, NAME_MAX_BYTES + 1), before = strlen(prefix);
    if (size == 0)
        return dlk_error_set(err, DLOCK_EINVAL, "a lock's name can't be empty");
    if (before + size > NAME_MAX_BYTES)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "a lock's name, with client.prefix, has at most %d bytes",
                             NAME_MAX_BYTES);
    char *full = malloc(before + size + 1);
    if (!full)
        return dlk_error_nomem(err);
    memcpy(full, prefix, before);
    memcpy(full + before, name, size + 1);
    *ret = full;
    return DLOCK_OK;
}

/* A condition is none, though the client's settings may say it of all its locks. */
static dlock_err check_keep(const dlk_engine *engine, dlock_kind kind,
                            const dlk_settings *settings, dlock_error **err)
{
    const dlk_backend_type *type = engine->backend->type;
    if (dlk_settings_int(settings, DLK_KEY_LOCK_KEEP_MS) == 0 ||
        kind == DLK_KIND_CONDITION)
        return DLOCK_OK;
    if (kind != DLOCK_MUTEX)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "lock.keep_ms: only mutexes are kept, and this is %s lock",
                             kind == DLOCK_ELECTION ? "an election's"
                                                    : "another kind of");
    if (dlk_settings_int(settings, DLK_KEY_LOCK_RENEW) != DLK_RENEW_AUTO)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "lock.keep_ms: with lock.renew=%s nobody would renew what "
                             "is kept: it needs lock.renew=auto",
                             dlk_settings_word(settings, DLK_KEY_LOCK_RENEW));
    const dlk_traits traits = dlk_backend_traits(type, settings);
    if (!traits.keeps)
        return dlk_error_set(err, DLOCK_ENOTSUP, "lock.keep_ms: %s keeps no locks: %s",
                             type->schemes[0],
                             traits.no_keep ? traits.no_keep : "not in this version");
    if (traits.no_keep_tokens &&
        dlk_settings_int(settings, DLK_KEY_CLIENT_REQUIRE) >= DLK_REQUIRE_FENCING)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "lock.keep_ms: client.require=%s, and a lock that %s keeps "
                             "has no fencing token: %s",
                             dlk_settings_word(settings, DLK_KEY_CLIENT_REQUIRE),
                             type->schemes[0], traits.no_keep_tokens);
    return DLOCK_OK;
}

static dlock_err check_settings(const dlk_engine *engine, dlock_kind kind,
                                const dlk_settings *settings, dlock_error **err)
{
    const dlk_traits adapted =
        dlk_backend_traits(engine->backend->type, engine->settings);
    const dlk_traits *traits = &adapted;
    if (dlk_settings_int(settings, DLK_KEY_LOCK_FAIR) && !traits->fair &&
        !traits->fair_asked)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "lock.fair isn't supported by %s: in this version",
                             engine->backend->type->schemes[0]);
    dlock_err code = check_keep(engine, kind, settings, err);
    if (code != DLOCK_OK)
        return code;
    const dlk_kind_traits *known = dlk_kind_of((int)kind);
    if (known->apart && dlk_settings_is_set(settings, DLK_KEY_LOCK_OWNER) &&
        dlk_settings_int(settings, DLK_KEY_LOCK_OWNER) != DLK_OWNER_NONE)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "lock.owner is always none for semaphores and elections");
    if (!known->fences &&
        dlk_settings_int(settings, DLK_KEY_CLIENT_REQUIRE) >= DLK_REQUIRE_FENCING)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "client.require=%s, but a semaphore can't fence: of its "
                             "holders none is the later one",
                             dlk_settings_word(settings, DLK_KEY_CLIENT_REQUIRE));
    int64_t ttl = dlk_settings_int(settings, DLK_KEY_LOCK_TTL_MS);
    if (traits->session && ttl != dlk_settings_int(engine->settings, DLK_KEY_LOCK_TTL_MS))
        return dlk_error_set(err, DLOCK_EINVAL,
                             "%s: the lease is the session's: lock.ttl_ms=%" PRId64
                             " belongs into the client's conf or the URI",
                             engine->backend->type->schemes[0], ttl);
    int64_t permits = dlk_settings_int(settings, DLK_KEY_LOCK_PERMITS);
    int64_t take = dlk_settings_int(settings, DLK_KEY_LOCK_TAKE);
    if (kind == DLOCK_SEMAPHORE && permits > 0 && take > permits)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "lock.take=%" PRId64 " is more than lock.permits=%" PRId64
                             ": it would wait for ever",
                             take, permits);
    return DLOCK_OK;
}

static dlk_terms terms_of(dlock_kind kind, const dlk_settings *settings)
{
    bool permits = kind == DLOCK_SEMAPHORE, kept = kind == DLOCK_MUTEX;
    return (dlk_terms){
        .shared = dlk_kind_of((int)kind)->shared,
        .take = permits ? (int32_t)dlk_settings_int(settings, DLK_KEY_LOCK_TAKE) : 1,
        .ttl_ms = dlk_settings_int(settings, DLK_KEY_LOCK_TTL_MS),
        .max_hold_ms = dlk_settings_int(settings, DLK_KEY_LOCK_MAX_HOLD_MS),
        .keep_ms = kept ? (int32_t)dlk_settings_int(settings, DLK_KEY_LOCK_KEEP_MS) : 0,
        .keep_runs = (uint16_t)dlk_settings_int(settings, DLK_KEY_LOCK_KEEP_RUNS),
        .keep_run_ms = (uint16_t)dlk_settings_int(settings, DLK_KEY_LOCK_KEEP_RUN_MS),
        .renewal = (uint8_t)dlk_settings_int(settings, DLK_KEY_LOCK_RENEW),
        .reentrant = dlk_settings_int(settings, DLK_KEY_LOCK_REENTRANT) != 0,
        .release_async =
            dlk_settings_int(settings, DLK_KEY_LOCK_RELEASE) == DLK_RELEASE_ASYNC,
    };
}

/* Nobody else knows it yet. */
static dlock_err add_label(dlock_lock *lock, const dlk_settings *settings,
                           dlock_error **err)
{
    const char *data = dlk_settings_text(settings, DLK_KEY_LOCK_DATA);
    if (!data[0])
        return DLOCK_OK;
    lock->terms.label = dlk_label_new(data);
    return lock->terms.label ? DLOCK_OK : dlk_error_nomem(err);
}

/* Whoever keeps a lock has to be told when it is wanted; after the end nobody would end the listening.
 * Mutex held. */
static void hear_who_wants(dlk_engine *engine)
{
    if (engine->core.closed)
        return;
    engine->backend->type->listen(engine->backend, dlk_clock_now());
    engine->unsent = true;
    dlk_engine_send(engine);
}

/* What the handle refers to beside the engine, all or nothing. Mutex held. */
static dlock_err take_name(dlk_engine *engine, dlock_kind kind, const char *full,
                           const dlk_settings *settings, dlock_lock *lock,
                           dlock_error **err)
{
    lock->settings = dlk_engine_share_settings(engine, settings);
    if (!lock->settings)
        return dlk_error_nomem(err);
    dlock_err code = dlk_engine_name_get(engine, kind, full, settings, &lock->name, err);
    if (code != DLOCK_OK) {
        dlk_settings_free(lock->settings);
        lock->settings = NULL;
    } else if (lock->terms.keep_ms > 0) {
        hear_who_wants(engine);
    }
    return code;
}

/* Fills *lock but for its references to the engine. */
dlock_err dlk_lock_init(dlk_engine *engine, dlock_kind kind, const char *name,
                        const dlk_settings *settings, dlock_lock *lock, dlock_error **err)
{
    dlk_stay stay;
    char *full = NULL;
    dlock_err code = check_kind(engine, kind, err);
    if (code == DLOCK_OK)
        code = check_settings(engine, kind, settings, err);
    if (code == DLOCK_OK)
        code = full_name(engine, name, &full, err);
    if (code != DLOCK_OK)
        return code;
    lock->terms = terms_of(kind, settings);
    code = add_label(lock, settings, err);
    if (code != DLOCK_OK) {
        free(full);
        return code;
    }
    if (dlk_engine_enter(engine, &stay)) {
        code = take_name(engine, kind, full, settings, lock, err);
        dlk_engine_leave(engine, &stay);
    } else {
        code =
            dlk_error_set(err, DLOCK_EFORKED, "the client belongs to the parent process");
    }
    free(full);
    if (code != DLOCK_OK)
        dlk_label_unref(lock->terms.label);
    lock->engine = engine;
    lock->signals_held = dlk_settings_int(settings, DLK_KEY_COND_OWNER) != 0;
    lock->owner = (int)dlk_settings_int(settings, DLK_KEY_LOCK_OWNER);
    if (dlk_kind_of((int)kind)->apart)
        lock->owner = DLK_OWNER_NONE;
    return code;
}

dlock_err dlk_lock_make(dlk_engine *engine, dlock_kind kind, const char *name,
                        const dlock_conf *conf, dlock_lock *lock, dlock_error **err)
{
    if (dlk_engine_forked(engine))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the client belongs to the parent process");
    if (!conf)
        return dlk_lock_init(engine, kind, name, engine->settings, lock, err);
    dlk_settings *settings = NULL;
    dlock_err code =
        dlk_settings_for_lock(engine->settings, conf->settings, &settings, err);
    if (code == DLOCK_OK)
        code = dlk_lock_init(engine, kind, name, settings, lock, err);
    dlk_settings_free(settings);
    return code;
}

dlock_err dlock_lock_new(dlock_client *client, dlock_kind kind, const char *name,
                         const dlock_conf *conf, dlock_lock **ret_lock, dlock_error **err)
{
    if (!client || !name || !ret_lock)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "dlock_lock_new needs a client, a name and a place for the lock");
    if (!dlk_kind_is_lock((int)kind))
        return dlk_error_set(err, DLOCK_EINVAL, "%d is no kind of lock", (int)kind);
    dlock_lock *lock = calloc(1, sizeof(*lock));
    dlock_err code = lock ? dlk_lock_make(client->engine, kind, name, conf, lock, err)
                          : dlk_error_nomem(err);
    if (code != DLOCK_OK) {
        free(lock);
        return code;
    }
    dlk_engine_ref(lock->engine);
    *ret_lock = lock;
    return dlk_error_clear(err);
}

static void let_go(dlk_engine *engine, const dlock_lock *lock, const dlk_stay *stay)
{
    dlk_lock_unref(lock);
    dlk_engine_leave(engine, stay);
}

void dlock_lock_free(dlock_lock *lock)
{
    dlk_stay stay;
    if (!lock || !dlk_engine_enter(lock->engine, &stay))
        return; /* a fork's child leaks it on purpose */
    dlk_engine *engine = lock->engine;
    if (lock->group) {
        dlk_engine_leave(engine, &stay);
        lock->group->type->unref(lock->group);
    } else {
        let_go(engine, lock, &stay);
    }
    free(lock);
    dlk_engine_unref(engine);
}

/* ---- acquiring ---- */

const char dlk_bad_wait[] = "a wait has 0 ms, more, or is DLOCK_FOREVER (-1)";

static dlock_err refuse_wait(dlock_error **err)
{
    return dlk_error_set(err, DLOCK_EINVAL, "%s", dlk_bad_wait);
}

dlock_err dlock_lock_acquire(dlock_lock *lock, int64_t wait_ms, dlock_hold **ret_hold,
                             dlock_error **err)
{
    if (!lock || !ret_hold)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_lock_acquire needs a lock and a place for the hold");
    if (wait_ms < DLOCK_FOREVER)
        return refuse_wait(err);
    if (lock->group)
        return lock->group->type->acquire(lock->group, wait_ms, ret_hold, err);
    uint64_t owner = lock->owner != DLK_OWNER_NONE ? dlk_thread_number() : 0;
    return dlk_engine_acquire(lock->engine, lock->name, &lock->terms, owner, wait_ms,
                              ret_hold, err);
}

dlock_op *dlock_lock_acquire_start(dlock_lock *lock, int64_t wait_ms)
{
    if (!lock)
        return dlk_op_static(DLOCK_EINVAL);
    if (wait_ms < DLOCK_FOREVER)
        return dlk_op_answered(lock->engine, DLOCK_EINVAL, dlk_bad_wait);
    if (lock->group)
        return lock->group->type->acquire_start(lock->group, wait_ms);
    uint64_t owner = lock->owner == DLK_OWNER_THREAD ? dlk_thread_number() : 0;
    return dlk_engine_acquire_start(lock->engine, lock->name, &lock->terms, owner,
                                    wait_ms);
}

dlock_err dlock_acquire(dlock_client *client, const char *name, int64_t wait_ms,
                        dlock_hold **ret_hold, dlock_error **err)
{
    dlk_stay stay;
    if (!client || !name || !ret_hold)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "dlock_acquire needs a client, a name and a place for the hold");
    if (wait_ms < DLOCK_FOREVER)
        return refuse_wait(err);
    if (dlk_engine_forked(client->engine))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the client belongs to the parent process");
    dlock_lock lock = {0};
    dlock_err code = dlk_lock_init(client->engine, DLOCK_MUTEX, name,
                                   client->engine->settings, &lock, err);
    if (code != DLOCK_OK)
        return code;
    code = dlock_lock_acquire(&lock, wait_ms, ret_hold, err);
    if (dlk_engine_enter(client->engine, &stay))
        let_go(client->engine, &lock, &stay);
    return code;
}

/* ---- asking about the name ---- */

dlock_op *dlk_lock_query(dlock_lock *lock, dlk_verb verb, const char *text,
                         dlk_stay *stay)
{
    if (lock->group)
        return dlk_op_answered(lock->engine, DLOCK_ENOTSUP,
                               "a multi-lock has no state of its own: ask its members");
    dlock_op *failed, *op = dlk_query_op(lock->engine, verb, stay, &failed);
    if (!op)
        return failed;
    op->u.query.name = lock->name;
    if (text && !(op->text = strdup(text))) {
        dlk_query_cancel(&lock->engine->core, &op->u.query, DLOCK_ENOMEM, 0);
    }
    op->u.query.ask.text = op->text;
    return op;
}

dlock_op *dlock_lock_wait_idle_start(dlock_lock *lock, int64_t wait_ms)
{
    if (!lock)
        return dlk_op_static(DLOCK_EINVAL);
    if (wait_ms < DLOCK_FOREVER)
        return dlk_op_answered(lock->engine, DLOCK_EINVAL, dlk_bad_wait);
    dlk_stay stay;
    dlock_op *op = dlk_lock_query(lock, DLK_INSPECT, NULL, &stay);
    if (op->kind != DLK_OP_QUERY)
        return op;
    op->u.query.kind = wait_ms == 0 ? DLK_QUERY_IDLE_NOW : DLK_QUERY_IDLE;
    return dlk_query_go(lock->engine, op,
                        wait_ms ? wait_ms : lock->engine->core.limits.timeout_ms, &stay);
}

dlock_err dlock_lock_wait_idle(dlock_lock *lock, int64_t wait_ms, dlock_error **err)
{
    return dlk_op_await(dlock_lock_wait_idle_start(lock, wait_ms), NULL, NULL, err);
}

dlock_op *dlock_lock_inspect_start(dlock_lock *lock)
{
    if (!lock)
        return dlk_op_static(DLOCK_EINVAL);
    dlk_stay stay;
    dlock_op *op = dlk_lock_query(lock, DLK_INSPECT, NULL, &stay);
    if (op->kind != DLK_OP_QUERY)
        return op;
    return dlk_query_go(lock->engine, op, lock->engine->core.limits.timeout_ms, &stay);
}

dlock_err dlock_lock_inspect(dlock_lock *lock, dlock_info **ret_info, dlock_error **err)
{
    if (!ret_info)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_lock_inspect needs a place for the info");
    return dlk_op_await(dlock_lock_inspect_start(lock), NULL, ret_info, err);
}

dlock_op *dlock_lock_break_start(dlock_lock *lock, const char *owner)
{
    if (!lock)
        return dlk_op_static(DLOCK_EINVAL);
    if (owner && !owner[0]) /* an empty shell variable must not break whatever there is */
        return dlk_op_answered(lock->engine, DLOCK_ENOTHELD, "an empty owner is nobody");
    dlk_stay stay;
    dlock_op *op = dlk_lock_query(lock, DLK_BREAK, owner, &stay);
    if (op->kind != DLK_OP_QUERY)
        return op;
    return dlk_query_go(lock->engine, op, lock->engine->core.limits.timeout_ms, &stay);
}

dlock_err dlock_lock_break(dlock_lock *lock, const char *owner, dlock_error **err)
{
    return dlk_op_await(dlock_lock_break_start(lock, owner), NULL, NULL, err);
}

dlock_op *dlock_lock_revoke_start(dlock_lock *lock)
{
    if (!lock)
        return dlk_op_static(DLOCK_EINVAL);
    dlk_stay stay;
    dlock_op *op = dlk_lock_query(lock, DLK_REVOKE, NULL, &stay);
    if (op->kind != DLK_OP_QUERY)
        return op;
    return dlk_query_go(lock->engine, op, lock->engine->core.limits.timeout_ms, &stay);
}

dlock_err dlock_lock_revoke(dlock_lock *lock, dlock_error **err)
{
    return dlk_op_await(dlock_lock_revoke_start(lock), NULL, NULL, err);
}
