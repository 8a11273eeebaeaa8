/* What the tests of conditions share: parties that wait, each with a client of its own. */
#ifndef TESTS_API_PARTY_H
#define TESTS_API_PARTY_H

#include "world.h"

#define BEGIN_HERE()                                                                     \
    do {                                                                                 \
        BEGIN();                                                                         \
        DLOCK_AUTO(dlock_client) world_has = world_client(NULL);                         \
        NEED(world_has, "kinds.condition", "it has no conditions");                      \
    } while (0)

/* Somebody with a client of his own who waits, as an op. */
typedef struct party {
    dlock_client *client;
    dlock_lock *lock;
    dlock_cond *cond;
    dlock_hold *hold;
    dlock_op *op;
} party;

/* The condition beside the lock of this name. */
dlock_cond *condition_of(dlock_client *client, const char *test, const char *settings);
/* The lock that has that condition's name: it tells who waits, and its hold is in the way. */
dlock_lock *namesake_of(dlock_client *client, const char *test);
void come(party *one, const char *test, const char *settings);
/* Ends in the line, with the lock given back. */
void line_up(party *one, int64_t wait_ms);
void go(party *one);
/* How many it has signalled; -1 after a failed check. */
int64_t signal_by(party *one, int64_t count);
/* Its wait ends so, with the lock held again, which is given back. */
bool ends_held(party *one, dlock_err code);
bool waits(const party *one);
/* Which ends its wait. */
void close_waiter(party *one);

#endif
