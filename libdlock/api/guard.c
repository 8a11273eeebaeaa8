/*
 * The guarded operation: the lock is checked before and after the work and before it is made
 * final, and what was done is undone when it was lost meanwhile. The order is that of patent
 * application CN 201610115208.7; the clock alone decides.
 */
#include "engine/engine.h"

#include <stddef.h>

/* As much of the caller's table as it was compiled with, in ours. */
static bool read_table(const dlock_guarded *from, dlock_guarded *to)
{
    *to = (dlock_guarded){0};
    if (from->size < sizeof(from->size))
        return false;
#define HAS(member) (from->size >= offsetof(dlock_guarded, member) + sizeof(from->member))
    to->prepare = HAS(prepare) ? from->prepare : NULL;
    to->run = HAS(run) ? from->run : NULL;
    to->commit = HAS(commit) ? from->commit : NULL;
    to->undo = HAS(undo) ? from->undo : NULL;
    to->lost = HAS(lost) ? from->lost : NULL;
#undef HAS
    return to->run && to->commit;
}

static dlock_err lost(const dlock_guarded *table, void *user, dlock_error **err,
                      const char *when)
{
    if (table->lost)
        table->lost(user);
    return dlk_error_set(err, DLOCK_ELOST, "the lock was lost %s; nothing was committed",
                         when);
}

static dlock_err failed(const dlock_guarded *table, void *user, dlock_error **err,
                        const char *what, dlock_err code)
{
    if (table->undo)
        table->undo(user);
    return dlk_error_set(err, DLOCK_EUSER, "%s answered %s and was undone", what,
                         dlock_errname(code));
}

static dlock_err guard(dlock_hold *hold, const dlock_guarded *table, void *user,
                       dlock_error **err)
{
    dlock_err code = dlock_hold_check(hold);
    if (code == DLOCK_ELOST)
        return lost(table, user, err, "before the work began");
    if (code != DLOCK_OK)
        return dlk_error_set(err, code, "the hold isn't held: %s", dlock_strerror(code));
    if (table->prepare && (code = table->prepare(user)) != DLOCK_OK)
        return dlk_error_set(err, DLOCK_EUSER, "prepare answered %s",
                             dlock_errname(code));
    if ((code = table->run(user)) != DLOCK_OK)
        return failed(table, user, err, "run", code);
    /* Released by another thread meanwhile is as lost as lost. */
    if (dlock_hold_check(hold) != DLOCK_OK) {
        if (table->undo)
            table->undo(user);
        return lost(table, user, err, "during the work, which was undone");
    }
    code = table->commit(user, dlock_hold_token(hold));
    if (code == DLOCK_ELOST) {
        if (table->undo)
            table->undo(user);
        return lost(table, user, err, "as the resource says, which refused the token");
    }
    if (code != DLOCK_OK)
        return failed(table, user, err, "commit", code);
    return dlk_error_clear(err);
}

dlock_err dlock_hold_guard(dlock_hold *hold, const dlock_guarded *guarded, void *user,
                           dlock_error **err)
{
    dlock_guarded table;
    if (!hold || !guarded || !read_table(guarded, &table))
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "a guard needs a hold, and a table with its size, run and commit");
    return guard(hold, &table, user, err);
}
