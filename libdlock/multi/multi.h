/*
 * Several locks, of several clients perhaps, as one: all or nothing.
 *
 * taking.h decides which member is asked when, and sum.h what the members come to together; both
 * are pure. The other files carry that out on the members' engines. A multi-lock belongs to the
 * client of its first member: that one's engine has its operations and events; its mutex guards
 * what is marked so below.
 *
 * A member's engine never enters another one: it leaves a job behind (engine.h), which runs when
 * its mutex has been let go.
 */
#ifndef DLK_MULTI_MULTI_H
#define DLK_MULTI_MULTI_H

#include "engine/engine.h"
#include "multi/taking.h"

/* What the caller's handle of it says, with references of its own. */
typedef struct dlk_member {
    dlk_engine *engine;
    dlk_name *name;
    dlk_terms terms;
    int owner; /* DLK_OWNER_… */
} dlk_member;

typedef struct dlk_multi dlk_multi;
struct dlk_multi {
    dlk_group group;
    _Atomic int refs;
    size_t count;
    bool several;                 /* clients */
    uint8_t order[DLK_MULTI_MAX]; /* the places of `members` in the order of taking */
    char *name;                   /* all names, with '+' between them */
    dlk_member members[];
};

/* Without members yet; NULL without memory. */
dlk_multi *dlk_multi_new(size_t count);
void dlk_multi_unref(dlk_multi *multi);
/* References what @p member says. False in a fork's child. */
bool dlk_multi_add(dlk_multi *multi, size_t index, const dlk_member *member);
/* The members are there: finds their order and the name. EINVAL for one that is there twice. */
dlock_err dlk_multi_finish(dlk_multi *multi, dlock_error **err);

dlock_err dlk_multi_acquire(dlk_multi *multi, int64_t wait_ms, dlock_hold **ret,
                            dlock_error **err);
dlock_op *dlk_multi_acquire_start(dlk_multi *multi, int64_t wait_ms);
#endif
