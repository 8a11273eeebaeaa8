/*
 * How a thread that sleeps on descriptors is woken by others: a count that rises with each kick, and
 * a descriptor of its own among what it polls (util/wakeup.h).
 *
 * Whoever is about to sleep reads the count together with what it decides by (how long to sleep, for
 * one), under the mutex that guards that. Then it says that it polls, and compares. A kick that has
 * come between the two, whatever has happened there, has made the count another one; one that comes
 * later finds the sleeper polling, and rings. So none is lost, and a kick costs a
 * system call only when somebody may be asleep. A ring that comes late ends a later sleep for
 * nothing, which is harmless.
 */
#ifndef DLK_NET_KICKS_H
#define DLK_NET_KICKS_H

#include "net/polls.h"
#include "util/wakeup.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_kicks {
    _Atomic uint32_t count;
    _Atomic bool polls; /* the sleeper does, or is about to */
    dlk_wakeup wakeup;  /* none: nobody polls here */
} dlk_kicks;

#define DLK_KICKS_INIT                                                                   \
    (dlk_kicks)                                                                          \
    {                                                                                    \
        .wakeup = DLK_WAKEUP_NONE                                                        \
    }

/* For who polls; again is fine. False: no descriptor is left. */
bool dlk_kicks_open(dlk_kicks *kicks);
void dlk_kicks_close(dlk_kicks *kicks);
/* Any thread, with or without a mutex, safe in a signal handler. */
void dlk_kick(dlk_kicks *kicks);

static inline uint32_t dlk_kicks_seen(const dlk_kicks *kicks)
{
    return atomic_load(&kicks->count);
}

/* Sleeps until one of the polls is ready, somebody has kicked since the count was @p
 * seen, or polls->until has come; without polls->doze it only looks. Answers whether one
 * of them is ready; if none is, nothing has come to any. */
bool dlk_kicks_poll(dlk_kicks *kicks, dlk_polls *polls, uint32_t seen);
/* Only looks, and hears no kicks: for one who doesn't sleep, while somebody else may. */
bool dlk_polls_look(dlk_polls *polls);

#endif
