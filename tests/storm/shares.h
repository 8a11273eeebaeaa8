/* Who has how much of a lock that several may hold at a time, as those who hold it say themselves:
 * one slot for each thread of the storm, so that a dead one's word can be told from a living one's. */
#ifndef TESTS_STORM_SHARES_H
#define TESTS_STORM_SHARES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHARES_MOST 1024 /* threads */

typedef struct shares {
    _Atomic uint64_t slots[SHARES_MOST]; /* process << 32 | permits; 0: none */
    _Atomic int64_t last_token;          /* of all, and of those who had it alone */
    _Atomic int64_t last_alone;
} shares;

/* The slot's thread has so many of @p size; false: with those of the living it is too much. Counts
 * the dead that it passed. */
bool shares_enter(shares *all, int slot, uint64_t process, int64_t take, int64_t size,
                  bool (*is_dead)(uint64_t process), _Atomic int64_t *dead);
void shares_leave(shares *all, int slot);
/* While it has them: whether the token is larger than those of whoever came before and matters. */
bool shares_token(shares *all, int64_t token, bool alone);

#endif
