/* The story that the guarded_… examples tell, each about another resource: a first holder pauses
 * in the worst moment, a second one takes over and commits, and the first one's write comes late. */
#ifndef TWO_HOLDERS_H
#define TWO_HOLDERS_H

#include <dlock/dlock.h>

#include <stdint.h>

/* One holder's piece of work: what dlock_hold_guard() hands to the callbacks as `user`. */
struct work {
    const char *who; /* "first" or "second" */
    void *resource;  /* as given to two_holders() */
    int64_t amount;  /* what the work adds to the resource's value */
    int64_t value;   /* for prepare and run to note what they read and made of it */
    /* Called by commit before it writes: a pause between the last check and the write. NULL: none. */
    void (*pause)(struct work *work);
    struct story *story;
};

/* Plays it with the lock @p name at @p url, the work of both done by @p guarded. Returns 0 only if
 * the second holder's write was taken and the first one's, which comes later with the smaller
 * token, was refused and undone. */
int two_holders(const char *url, const char *name, const dlock_guarded *guarded,
                void *resource);

#endif
