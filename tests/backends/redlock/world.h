/* Several Redis servers that know nothing of each other, for the tests of redlock://. */
#ifndef TESTS_REDLOCK_WORLD_H
#define TESTS_REDLOCK_WORLD_H

/* Five servers take their time. */
#define AWAIT_LIMIT_MS (3 * patience_ms())

#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/time.h"

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

#endif
