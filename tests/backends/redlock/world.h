/* Several Redis servers that know nothing of each other, for the tests of redlock://. */
#ifndef TESTS_REDLOCK_WORLD_H
#define TESTS_REDLOCK_WORLD_H

#include "harness/awake.h"
#include "harness/harness.h"
#include "harness/redis_server.h"

#define NODES 5

typedef struct world {
    redis_server node[NODES];
    int count;
    char uri[512];
} world;

/* @p query: "?key=value&…", or "". False: the test is skipped, or a check has failed. */
bool world_set(world *w, int count, const char *query);
void world_clear(world *w);

dlock_client *world_open(world *w);
dlock_lock *world_lock(dlock_client *client, const char *name);
/* Takes it, or fails a check. */
dlock_hold *world_take(dlock_lock *lock, int64_t wait_ms);
/* Gives it back and frees it; fails a check when that isn't confirmed. */
void world_give(dlock_hold *hold);

/* On how many of the nodes that run the key is there, whoever's. */
int world_keys(world *w, const char *name);
/* How often @p command was carried out on this node. */
int64_t world_calls(world *w, int index, const char *command);

int64_t
world_ms(void); /* boot clock, without the time in which the machine stood still */
int64_t world_patience_ms(void);
void world_nap(int64_t ms);

#define AWAIT(condition)                                                                 \
    do {                                                                                 \
        int64_t await_end = world_ms() + world_patience_ms();                            \
        bool await_met;                                                                  \
        while (!(await_met = (condition)) && world_ms() < await_end)                     \
            world_nap(2);                                                                \
        if (!harness_check(__FILE__, __LINE__, await_met, #condition))                   \
            return;                                                                      \
    } while (0)

#endif
