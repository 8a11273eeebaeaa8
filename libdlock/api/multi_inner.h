/* What the files of the multi-lock share among themselves. */
#ifndef DLK_API_MULTI_INNER_H
#define DLK_API_MULTI_INNER_H

#include "api/multi.h"
#include "util/error.h"
#include "util/point.h"

#define dlk_multi_too_late "a member's lease was over before the last member was granted"

void dlk_multi_ref(dlk_multi *multi);
/* What is left of the wait for the next member. */
int64_t dlk_multi_time_left(int64_t wait_ms, int64_t until);
uint64_t dlk_multi_owner(const dlk_member *member, bool blocking);
bool dlk_multi_all_valid(const dlk_multi *multi, dlock_hold *const *holds);
/* Gives back what there is, last first. */
void dlk_multi_undo(dlk_multi *multi, dlock_hold **holds);
dlk_multi *dlk_multi_of(const dlock_hold *hold);
/* Takes the holds over; NULL without memory. */
dlock_hold *dlk_multi_hold_new(dlk_multi *multi, dlock_hold *const *holds);

#endif
