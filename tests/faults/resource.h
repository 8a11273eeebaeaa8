/* A fenced resource in memory that processes share, and the judge of who had the lock when.
 *
 * The resource does what a good one does: it keeps the highest token it has seen and refuses what
 * comes with a smaller one, be it a look or a write. The judge knows of each stay from when a
 * client was told that the lock is its own until when the library last said so; one boot clock
 * serves all processes of the machine, so two stays that overlap are a broken promise. */
#ifndef TESTS_FAULTS_RESOURCE_H
#define TESTS_FAULTS_RESOURCE_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct resource resource;
typedef struct stay stay;

/* What came of it. */
typedef struct verdict {
    int64_t stays, accepted, refused;
    int64_t lost_updates; /* writes that overwrote what their writer hadn't seen */
    int64_t overlaps;     /* pairs of stays, by the clock */
    int64_t old_tokens;   /* a later stay with a token that isn't larger */
    int64_t latest_token;
} verdict;

/* Before the processes are forked. Never NULL. */
resource *resource_new(void);
void resource_free(resource *r);

/* The lock has just been granted. */
stay *resource_enter(resource *r, const dlock_hold *hold);
/* Asks the hold how long it is still ours, and notes it. Returns what dlock_hold_check said. */
dlock_err resource_still(stay *at, const dlock_hold *hold);
/* It isn't used any more: about to be released, or lost. */
void resource_leave(stay *at);

/* False: refused, the token is too old. */
bool resource_look(resource *r, int64_t token, int64_t *ret_value);
/* Makes `seen` + 1 of it. */
bool resource_write(resource *r, int64_t token, int64_t seen);

/* What to judge by. When the server's state was lost, overlaps are as they must be. */
typedef enum expectation {
    RESOURCE_STATE_KEPT,
    RESOURCE_STATE_LOST,
    RESOURCE_NO_TOKENS, /* kept, and grants have none */
} expectation;
/* Only when no process uses it any more. The first of the overlaps and old tokens that mustn't be
 * are told. */
verdict resource_judge(const resource *r, expectation by);

#endif
