/* One server, one connected backend and one key of it: what most tests here need, each its own. */
#ifndef TESTS_BACKENDS_REDIS_SINGLE_H
#define TESTS_BACKENDS_REDIS_SINGLE_H

#include "harness/redis_server.h"
#include "world.h"

extern redis_server server;
extern world w;
extern dlk_key *key;

/* With these lines in its redis.conf, or NULL. False: the test is skipped, or a check has failed. */
bool single_start(const char *config);
/* To the server that runs, for a lock of this kind and name; then as world_connect. */
bool single_connect(dlock_kind kind, const char *name, ...);
/* Both, for the mutex "L" on a server like any other. */
#define single_set_up(...)                                                               \
    (single_start(NULL) && single_connect(DLOCK_MUTEX, "L", __VA_ARGS__))
void single_disconnect(void);
/* And ends the server. */
void single_tear_down(void);

/* What may stand where the counter of tokens should be. */
typedef struct poison {
    const char *command;
    dlock_err code; /* of an acquire then */
} poison;
extern const poison poisons[];
extern const int poison_count;

#endif
