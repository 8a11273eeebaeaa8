/* A world for the pure decisions: a clock that only the test moves, and a server that is the test
 * itself. Requests wait in `asked` until the test answers them. */
#ifndef WORLD_H
#define WORLD_H

#include "locks/core.h"
#include "util/clock.h"

#define MS DLK_NS_PER_MS

typedef struct world {
    dlk_core core;
    int64_t now;
    dlk_list asked;                           /* dlk_ask.link */
    int acquires, releases, renewals, others; /* how many were sent */
    int watches;
    int states[5]; /* how often `changed` reported each dlock_state */
    int live_grants, live_holds;
    int attended; /* of the grants, those that somebody has to drive for */
    int queries_over, queries_freed;
    int logged;
    bool found;   /* a YES says no more than that it is ours: not that it lasts */
    bool at_once; /* answer every acquire, release and renewal in the call that asks */
    dlock_err refused; /* the next request is answered so in the call that asks */
    bool tokenless;    /* a YES brings no token */
    int64_t last_token;
    int64_t block; /* tokens to who keeps */
    bool line;     /* … who hears that others wait in it */
    dlk_name *name;
} world;

extern world w;

void world_open(void); /* link up, margin 1 % + 2 ms, time-out 3 s */
void world_open_with(dlk_limits limits);
void world_open_unconnected(void); /* the first connection, of 1 s, is under way */
void world_close(void);            /* frees all; checks that nothing of it is left */
void world_end(
    dlk_wait **waits); /* up to NULL: what still waits is over before; then closes */
void world_move(int64_t ms); /* the clock, and the alarms on the way */
dlk_ask *
world_asked(dlk_verb verb); /* the oldest unanswered request of this kind, or NULL */
void world_answer(dlk_verb verb,
                  dlk_reply reply); /* answers that one; a YES has a new token */
void world_held(int64_t rest_ms);   /* answers the acquire: somebody else, for so long */
void world_refuse(dlk_verb verb, dlock_err code);
void world_cut(void); /* the link goes: requests under way get UNKNOWN */
void world_back(void);

dlk_terms world_terms(void); /* ttl 10 s, auto, reentrant, sync */
void world_acquire(dlk_wait *wait, uint64_t thread,
                   int64_t wait_ms); /* thread 0: of its own */
void world_acquire_terms(dlk_wait *wait, uint64_t thread, int64_t wait_ms,
                         dlk_terms terms);
void world_release(dlk_wait *wait, dlk_hold *hold);
void world_forget(dlk_wait *wait); /* frees the error and hold of a finished wait */
void world_free_hold(dlk_hold *hold);

#endif
