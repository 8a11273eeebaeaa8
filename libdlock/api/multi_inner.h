/* What the files of the multi-lock share among themselves. */
#ifndef DLK_API_MULTI_INNER_H
#define DLK_API_MULTI_INNER_H

#include "api/multi.h"
#include "util/error.h"
#include "util/point.h"

/* One acquire, in a call that waits or as an op: who asks differs, what an answer means doesn't. */
typedef struct dlk_taking {
    dlk_multi *multi;
    int64_t wait_ms, until;
    size_t next; /* the place in the order */
    dlock_hold *holds[DLK_MULTI_MAX];
} dlk_taking;

void dlk_multi_ref(dlk_multi *multi);
uint64_t dlk_multi_owner(const dlk_member *member, bool blocking);

void dlk_taking_begin(dlk_taking *taking, dlk_multi *multi, int64_t wait_ms);
/* The place in `members` of the one to ask next. */
static inline size_t dlk_taking_index(const dlk_taking *taking)
{
    return taking->multi->order[taking->next];
}
/* What is left of the wait, for the next member. */
int64_t dlk_taking_left(const dlk_taking *taking);
/* The member that was asked has answered @p *code, with @p got or an error. True: the next one is to
 * be asked. False: it is over with the @p *code that is there now; then it has the whole in @p *ret,
 * or everything has been given back. */
bool dlk_taking_answered(dlk_taking *taking, dlock_hold *got, dlock_err *code,
                         dlock_hold **ret, dlock_error **err);

/* Gives back what there is, last first. */
void dlk_multi_undo(dlk_multi *multi, dlock_hold **holds);
dlk_multi *dlk_multi_of(const dlock_hold *hold);
/* Takes the holds over; NULL without memory. */
dlock_hold *dlk_multi_hold_new(dlk_multi *multi, dlock_hold *const *holds);

#endif
