/* What the opaque client and lock handles are, and what their files share. */
#ifndef DLK_API_HANDLES_H
#define DLK_API_HANDLES_H

#include "engine/engine.h"

struct dlock_client {
    dlk_engine *engine;
    const dlk_backend_type *type;
};

struct dlock_lock {
    dlk_engine *engine;     /* referenced */
    dlk_name *name;         /* referenced */
    dlk_settings *settings; /* shared; the engine's mutex guards how many do */
    dlk_terms terms;
    int owner;         /* DLK_OWNER_… */
    bool signals_held; /* of a condition: cond.owner */
    /* several, or NULL; then `engine` is the first one's, and no name */
    dlk_group *group;
};

/* What a handle refers to beside the engine is given back: with the engine's mutex. */
static inline void dlk_lock_unref(const dlock_lock *lock)
{
    dlk_label_unref(lock->terms.label);
    dlk_settings_free(lock->settings);
    dlk_name_unref(&lock->engine->core, lock->name);
}

/* The line of a condition is what a lock is: a kind, a name and settings. */
struct dlock_cond {
    dlock_lock line;
};

/* What every handle of a name is filled with; the engine is the caller's to refer to. @p conf may be
 * NULL. */
dlock_err dlk_lock_make(dlk_engine *engine, dlock_kind kind, const char *name,
                        const dlock_conf *conf, dlock_lock *lock, dlock_error **err);
/* The same with settings that are the lock's already. */
dlock_err dlk_lock_init(dlk_engine *engine, dlock_kind kind, const char *name,
                        const dlk_settings *settings, dlock_lock *lock,
                        dlock_error **err);

/* Why a wait of fewer ms than DLOCK_FOREVER is none. */
extern const char dlk_bad_wait[];

/* As dlk_query_op(), about the lock's name; where that fails an op that isn't DLK_OP_QUERY, and the
 * mutex isn't held. */
dlock_op *dlk_lock_query(dlock_lock *lock, dlk_verb verb, const char *text,
                         dlk_stay *stay);

/* Waits for an op and takes it apart; *op is freed. */
dlock_err dlk_op_await(dlock_op *op, dlock_hold **ret_hold, dlock_info **ret_info,
                       dlock_error **err);

/* A query op with this verb, not started yet, with the mutex held; or NULL with the mutex not
 * held and *ret_failed an op that says why. */
dlock_op *dlk_query_op(dlk_engine *engine, dlk_verb verb, dlk_stay *stay,
                       dlock_op **ret_failed);

/* Starts it, sends, lets go of the mutex. */
dlock_op *dlk_query_go(dlk_engine *engine, dlock_op *op, int64_t wait_ms,
                       const dlk_stay *stay);

#endif
