/* The lease of one grant: from when to when we may act on it, by our own clock alone. */
#ifndef DLK_LOCKS_LEASE_H
#define DLK_LOCKS_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What is taken off a lease for the drift of clocks; zero where both sides read one clock. */
typedef struct dlk_margin {
    int percent;
    int64_t ms;
} dlk_margin;

/* All times in ns of the boot clock. */
typedef struct dlk_lease {
    union {
        int64_t
            asked_at; /* until it is granted: the first request that may have got it */
        int64_t suspect_at; /* from then on: half the lease without a success */
    };
    /* Nobody else can have the lock before; from then on we don't. Read by any thread. */
    _Atomic int64_t ends_at;
    int64_t limit; /* lock.max_hold_ms: ends_at never passes it; DLK_NEVER = none */
    int64_t forgotten_at; /* by then the server has surely let go, whatever happened */
} dlk_lease;

/* Granted by a request of @p since. */
void dlk_lease_start(dlk_lease *lease, int64_t since, int64_t ttl_ms, dlk_margin margin,
                     int64_t limit);

/* Renewed by a request of @p since: never shortens. */
void dlk_lease_renew(dlk_lease *lease, int64_t since, int64_t ttl_ms, dlk_margin margin);

/* The end of one that a request of @p since has made last. */
int64_t dlk_lease_reach(int64_t since, int64_t ttl_ms, dlk_margin margin);
/* Another may be the one who holds it, with a limit of its own: nobody does just now. @p whole is the
 * end without any limit. */
void dlk_lease_limit(dlk_lease *lease, int64_t whole, int64_t limit);

/* A request that may set the lease was sent at @p now: the server may keep the lock for
 * @p ttl_ms from when it gets it, which is no later than @p timeout_ms from now. */
void dlk_lease_asked(dlk_lease *lease, int64_t now, int64_t ttl_ms, int64_t timeout_ms);

/* Only ever moves away while somebody holds it. */
static inline int64_t dlk_lease_end(const dlk_lease *lease)
{
    return atomic_load_explicit(&lease->ends_at, memory_order_acquire);
}

static inline bool dlk_lease_over(const dlk_lease *lease, int64_t now)
{
    return now >= dlk_lease_end(lease);
}

#endif
