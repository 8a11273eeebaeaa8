/*
 * Several locks that the caller has as one: by what the API speaks with whoever made the group, multi/, and
 * knows nothing of it.
 */
#ifndef DLK_ENGINE_GROUP_H
#define DLK_ENGINE_GROUP_H

#include <dlock/dlock.h>

/* Starts something for one member. */
typedef dlock_op *dlk_group_start(dlock_hold *member, int64_t argument);

/* Of the hold of a group: as the functions of dlock.h that are called so. */
typedef struct dlk_group_hold_type {
    dlock_err (*check)(const dlock_hold *hold, int64_t *left_ns);
    dlock_state (*state)(const dlock_hold *hold);
    int64_t (*ttl_ms)(const dlock_hold *hold);
    /* NULL where there is none. */
    dlock_hold *(*member)(const dlock_hold *hold, size_t index);
    dlock_err (*feed)(dlock_hold *hold);
    dlock_err (*notify)(dlock_hold *hold, uint64_t tag);
    dlock_err (*release)(dlock_hold *hold, dlock_error **err);
    dlock_op *(*release_start)(dlock_hold *hold);
    void (*free)(dlock_hold *hold);
    /* Starts the same for each member; the op is over when all are, with the worst of their codes. */
    dlock_op *(*each)(dlock_hold *hold, dlk_group_start *start, int64_t argument);
} dlk_group_hold_type;

/* Of its lock. */
typedef struct dlk_group dlk_group;
typedef struct dlk_group_type {
    dlock_err (*acquire)(dlk_group *group, int64_t wait_ms, dlock_hold **ret,
                         dlock_error **err);
    dlock_op *(*acquire_start)(dlk_group *group, int64_t wait_ms);
    void (*unref)(dlk_group *group);
} dlk_group_type;

/* The beginning of what its maker has of it. */
struct dlk_group {
    const dlk_group_type *type;
};

#endif
