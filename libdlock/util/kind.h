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

#define DLK_KIND_COUNT (DLOCK_ELECTION + 1) /* one more than the last; the first is 1 */

typedef struct dlk_kind_traits {
    const char *name;   /* "mutex", as features and inspect have it */
    const char *plural; /* "mutexes", for messages */
    bool apart;         /* each acquire is an owner of its own, whoever calls */
    bool fences;        /* its grants have tokens, where the service has any */
    bool shared;        /* the side of a read/write lock that many hold at a time */
} dlk_kind_traits;

/* NULL: that is no kind of lock. */
const dlk_kind_traits *dlk_kind_of(int kind);

#endif
