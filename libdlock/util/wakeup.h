/*
 * How a thread that sleeps on descriptors is woken, by a descriptor of ours among them: an eventfd on
 * Linux, the ends of a pipe elsewhere. And the sleep.
 *
 * Nothing here but the sleep is a cancellation point: whoever rings may have a mutex.
 */
#ifndef DLK_UTIL_WAKEUP_H
#define DLK_UTIL_WAKEUP_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dlk_wakeup {
    int fd;     /* readable from a ring until it is quieted; -1: there is none */
    int ringer; /* where to ring: of an eventfd the same */
} dlk_wakeup;

#define DLK_WAKEUP_NONE                                                                  \
    {                                                                                    \
        .fd = -1, .ringer = -1                                                           \
    }

/* False, and errno: no descriptor is left, or no memory. */
bool dlk_wakeup_open(dlk_wakeup *wakeup);
/* Again is fine, by any thread, and in signal handlers. */
void dlk_wakeup_ring(const dlk_wakeup *wakeup);
void dlk_wakeup_quiet(const dlk_wakeup *wakeup);
/* -1 is fine. */
void dlk_wakeup_close(dlk_wakeup *wakeup);

/* As poll(2), until then (boot clock, ns); DLK_NEVER: for ever. */
int dlk_poll_until(struct pollfd *items, nfds_t count, int64_t until);

#endif
