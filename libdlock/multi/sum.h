/* What the members of a multi-lock are and say, put together: their order, and of the whole the
 * code, the state, the lease, and what is told of it. Pure. */
#ifndef DLK_MULTI_SUM_H
#define DLK_MULTI_SUM_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a member is sorted by. */
typedef struct dlk_sum_key {
    const char *name;
    dlock_kind kind;
    const char *uri;
} dlk_sum_key;

/* The members' indices in the order of taking, into @p order. The index of one that is there twice,
 * or @p count. */
size_t dlk_sum_order(const dlk_sum_key *keys, size_t count, uint8_t *order);

/* Of several members' codes, heard one after the other: whether @p code replaces @p than as the
 * code of the whole. */
bool dlk_sum_worse(dlock_err than, dlock_err code);
/* Of those that are valid: the worst of their states. */
dlock_state dlk_sum_state(const dlock_state *of, size_t count);
/* The least of as many. */
int64_t dlk_sum_least(const int64_t *of, size_t count);

/* Of a hold whose members have changed: whether somebody has to be told. */
typedef struct dlk_sum_news {
    bool revoked;      /* that it is asked for */
    bool changed;      /* that it is in another state now: */
    dlock_state state; /* this */
} dlk_sum_news;
/* @p told is the last state that was told. */
dlk_sum_news dlk_sum_tell(dlock_state told, dlock_state now, bool revoked);

#endif
