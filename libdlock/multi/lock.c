/* The caller's handle of a multi-lock. */
#include "api/conf.h"
#include "api/handles.h"
#include "multi/inner.h"

#include <stdlib.h>

/* ---- what the API speaks with it by ---- */

static dlk_multi *of(dlk_group *group)
{
    return DLK_LIST_ITEM(group, dlk_multi, group);
}

static dlock_err acquire(dlk_group *group, int64_t wait_ms, dlock_hold **ret,
                         dlock_error **err)
{
    return dlk_multi_acquire(of(group), wait_ms, ret, err);
}

static dlock_op *acquire_start(dlk_group *group, int64_t wait_ms)
{
    return dlk_multi_acquire_start(of(group), wait_ms);
}

static void unref(dlk_group *group)
{
    dlk_multi_unref(of(group));
}

static const dlk_group_type multi_type = {
    .acquire = acquire,
    .acquire_start = acquire_start,
    .unref = unref,
};

/* ---- making ---- */

/* Of the caller's handle, who may free it. */
static dlock_err add_member(dlk_multi *multi, size_t index, const dlock_lock *lock,
                            dlock_error **err)
{
    if (!lock)
        return dlk_error_set(err, DLOCK_EINVAL, "member %zu of the multi-lock is NULL",
                             index);
    if (lock->group)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "member %zu of the multi-lock is a multi-lock itself",
                             index);
    dlk_member member = {.engine = lock->engine,
                         .name = lock->name,
                         .terms = lock->terms,
                         .owner = lock->owner};
    member.terms.keep_ms = 0; /* several are given back together */
    if (!dlk_multi_add(multi, index, &member))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the client belongs to the parent process");
    return DLOCK_OK;
}

static dlock_err check_multi_conf(const dlk_engine *first, const dlock_conf *conf,
                                  dlock_error **err)
{
    dlk_settings *settings = NULL;
    dlock_err code = dlk_settings_for_lock(first->settings, conf ? conf->settings : NULL,
                                           &settings, err);
    dlk_settings_free(settings);
    return code;
}

dlock_err dlock_multi_new(dlock_lock *const *locks, size_t count, const dlock_conf *conf,
                          dlock_lock **ret_lock, dlock_error **err)
{
    if (!locks || !ret_lock || count < 1 || count > DLK_MULTI_MAX)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_multi_new needs 1 to %d locks and a place for the "
                             "lock",
                             DLK_MULTI_MAX);
    dlk_multi *multi = dlk_multi_new(count);
    dlock_lock *lock = calloc(1, sizeof(*lock));
    dlock_err code = multi && lock ? DLOCK_OK : dlk_error_nomem(err);
    for (size_t i = 0; i < count && code == DLOCK_OK; i++)
        code = add_member(multi, i, locks[i], err);
    if (code == DLOCK_OK)
        code = check_multi_conf(multi->members[0].engine, conf, err);
    if (code == DLOCK_OK)
        code = dlk_multi_finish(multi, err);
    if (code != DLOCK_OK) {
        if (multi)
            dlk_multi_unref(multi);
        free(lock);
        return code;
    }
    multi->group.type = &multi_type;
    *lock = (dlock_lock){.engine = multi->members[0].engine, .group = &multi->group};
    dlk_engine_ref(lock->engine);
    *ret_lock = lock;
    return dlk_error_clear(err);
}
