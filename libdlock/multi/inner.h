/* What the files of the multi-lock share among themselves. */
#ifndef DLK_MULTI_INNER_H
#define DLK_MULTI_INNER_H

#include "multi/multi.h"

#include "util/error.h"

void dlk_multi_ref(dlk_multi *multi);

/* ---- each.c ---- */
dlock_op *dlk_multi_each(dlock_hold *hold, dlk_group_start *start, int64_t argument);

/* ---- op.c: what the caller has while it goes on ---- */
typedef struct dlk_multi_op {
    dlk_compound compound; /* of the first member's engine */
    dlk_multi *multi;      /* referenced */
} dlk_multi_op;

/* Makes the op of @p whole, which may be called off from here on. False: *ret_op says why not. */
bool dlk_multi_op_begin(dlk_multi_op *whole, dlk_multi *multi,
                        dlk_compound_end *end_early, dlock_op **ret_op);
/* Nothing of it is under way any more, and the caller has been told. */
void dlk_multi_op_close(dlk_multi_op *whole);

/* ---- closing.c: hearing that any member's client is closed ---- */
typedef struct dlk_closing dlk_closing;
/* Mutex of the first member's engine held. */
typedef void dlk_closing_heard(void *user, dlock_err code);
bool dlk_multi_closes(const dlk_multi *multi);
/* Tells @p user so, once, as soon as it does. NULL without memory. */
dlk_closing *dlk_closing_listen(dlk_multi *multi, dlk_closing_heard *heard, void *user);
/* Nobody wants to hear of it any more. */
void dlk_closing_end(dlk_closing *closing);

/* ---- hold.c ---- */
typedef struct dlk_multi_hold dlk_multi_hold;
/* One member's hold, and its changes. */
typedef struct dlk_member_hold {
    dlock_hold *hold;
    dlk_hold_watch watch; /* under the member's mutex */
    dlk_multi_hold *of;
} dlk_member_hold;

struct dlk_multi_hold {
    dlock_hold hold; /* what the caller has; belongs to the first member's engine */
    dlk_hold_more more;
    dlk_multi *multi;
    _Atomic int refs; /* the caller's, and one for each job that is queued */
    _Atomic bool released;
    bool listens;         /* to its members, since somebody wanted to be told */
    bool freed;           /* under the first member's mutex */
    dlock_state reported; /* the same */
    dlk_member_hold members[];
};

static inline dlk_multi_hold *dlk_multi_hold_of(const dlock_hold *hold)
{
    return DLK_LIST_ITEM(hold, dlk_multi_hold, hold);
}

/* NULL where there is none. */
static inline dlock_hold *dlk_multi_member(const dlock_hold *hold, size_t index)
{
    const dlk_multi_hold *whole = dlk_multi_hold_of(hold);
    return index < whole->multi->count ? whole->members[index].hold : NULL;
}

/* Without members yet; NULL without memory. */
dlk_multi_hold *dlk_multi_hold_new(dlk_multi *multi);
/* The place of a member's hold, NULL while there is none. */
dlock_hold **dlk_multi_hold_place(dlk_multi_hold *whole, size_t index);
void dlk_multi_hold_drop_member(dlk_multi_hold *whole, size_t index);
/* All members are there: what the caller gets. */
dlock_hold *dlk_multi_hold_give(dlk_multi_hold *whole);
/* It has got no members, or none any more. */
void dlk_multi_hold_discard(dlk_multi_hold *whole);

#endif
