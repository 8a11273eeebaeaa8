/* Locks that their client keeps (lock.keep_ms), as tests use them through the public API. */
#ifndef TESTS_HARNESS_KEPT_H
#define TESTS_HARNESS_KEPT_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stdint.h>

/* Takes it, within @p wait_ms, and lets go of it; answers its token, -1 after a failed check. */
int64_t kept_pair(dlock_lock *lock, int64_t wait_ms);
/* Until one is kept: once its client can be told that it is wanted. Each pair has @p wait_ms, and a token from
 * @p least on. */
bool kept_begins(dlock_client *client, dlock_lock *lock, int64_t wait_ms, int64_t least);

enum { KEPT_LOCKS = 3 };

typedef struct kept_crowd_seen {
    int overlaps;   /* two were in at once */
    int not_rising; /* tokens that were no larger than the one before */
} kept_crowd_seen;

/* One name by several handles: @p threads of each take it @p rounds times. False after a failed check. */
bool kept_crowd(dlock_lock *const locks[KEPT_LOCKS], int threads, int rounds,
                kept_crowd_seen *ret);

#endif
