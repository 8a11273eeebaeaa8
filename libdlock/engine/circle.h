/* Threads of this process that wait for each other's locks, in a circle: whoever would close it is told. */
#ifndef DLK_ENGINE_CIRCLE_H
#define DLK_ENGINE_CIRCLE_H

#include "engine/engine.h"

/* A thread waits, in a call of ours, for what it acquires itself, and somebody of its client may be in the
 * way. On that thread's stack. */
typedef struct dlk_blocked {
    /* in its chain of the table; this and the rest under the table's mutex */
    dlk_list link;
    uint64_t thread;
    uint64_t number; /* of this wait: no other one has it */
    dlk_engine *engine;
    const dlk_wait *wait; /* with the engine's mutex, too */
    bool chosen;          /* the circle is broken here: it waits no longer */
} dlk_blocked;

/* The calling thread is about to wait for its own acquire. If that closes a circle the wait is over
 * afterwards. Mutex held, and let go of meanwhile where threads that are in the way wait as well. */
void dlk_circle_begin(dlk_engine *engine, dlk_blocked *me, dlk_wait *wait);
/* It waits no longer. Mutex held. */
void dlk_circle_end(dlk_blocked *me);
/* Is there cause to? Never for a lock that nobody of this client has or waits for. */
static inline bool dlk_circle_concerns(const dlk_wait *wait)
{
    return dlk_wait_is_behind_ours(wait) && dlk_owner_is_thread(wait->owner);
}

/* Around a fork, whose child begins with nobody who waits. */
void dlk_circle_before_fork(void);
void dlk_circle_after_fork(bool child);

#endif
