/*
 * What is true of a kind of lock whatever the service: one row for each dlock_kind.
 *
 * A new kind begins in kind.c, whose switch doesn't compile without it; from there the compiler leads
 * on, as whoever does different things for different kinds switches, too. A service has no kind that
 * its traits don't name.
 */
#ifndef DLK_UTIL_KIND_H
#define DLK_UTIL_KIND_H

#include <dlock/dlock.h>

#include <stdbool.h>

/* A condition is kept where locks are, as one more kind, which no lock of a caller's has. */
#define DLK_KIND_CONDITION ((dlock_kind)(DLOCK_ELECTION + 1))
#define DLK_KIND_COUNT     (DLOCK_ELECTION + 2) /* one more than the last; the first is 1 */

typedef struct dlk_kind_traits {
    const char *name;   /* "mutex", as features and inspect have it */
    const char *plural; /* "mutexes", for messages */
    bool apart;         /* each acquire is an owner of its own, whoever calls */
    bool fences;        /* its grants have tokens, where the service has any */
    bool shared;        /* the side of a read/write lock that many hold at a time */
} dlk_kind_traits;

/* NULL: there is no such kind. */
const dlk_kind_traits *dlk_kind_of(int kind);
/* Whether a caller may have a lock of this kind. */
static inline bool dlk_kind_is_lock(int kind)
{
    return kind != (int)DLK_KIND_CONDITION && dlk_kind_of(kind);
}

#endif
