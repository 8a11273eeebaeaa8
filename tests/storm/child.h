/* What a fork's child does with what it inherited. */
#ifndef TESTS_STORM_CHILD_H
#define TESTS_STORM_CHILD_H

#include <dlock/dlock.h>

#include <stdbool.h>

/* What the parent had when it forked; each may be NULL. */
typedef struct inheritance {
    dlock_client *client;
    dlock_lock *lock;
    dlock_hold *hold;
    dlock_op *op;
    int event_fd;
} inheritance;

typedef enum child_way {
    CHILD_CALLS,  /* calls everything */
    CHILD_FREES,  /* frees and closes everything, in some order */
    CHILD_OPENS,  /* a client of its own */
    CHILD_EXECS,  /* and looks there which descriptors came along */
    CHILD_LEAVES, /* at once */
    CHILD_WAYS,
} child_way;

/* In the child; doesn't return. The exit status is 0 when all was as promised. */
void child_live(child_way way, const inheritance *from, unsigned seed)
    __attribute__((noreturn));

#endif
