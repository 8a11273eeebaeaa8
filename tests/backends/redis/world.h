/* A stand-in for the engine: opens the redis backend, drives it on the test's thread, and keeps
 * what it is told. */
#ifndef TESTS_BACKENDS_REDIS_WORLD_H
#define TESTS_BACKENDS_REDIS_WORLD_H

#include "contract/backend.h"
#include "harness/harness.h"
#include "harness/time.h"
#include "util/clock.h"

#include <stdarg.h>

typedef struct world {
    dlk_host host;
    dlk_kicks kicks;
    dlk_polls polls;
    pthread_mutex_t mutex;
    dlk_rand rand;
    char uuid[DLK_UUID_SIZE];
    char *who; /* "test host:1", of this process */
    dlk_backend *backend;
    dlk_settings *settings;

    bool up;
    int ups, downs;
    dlock_err code;  /* of the last time the link went down */
    char text[1024]; /* and all that was said about it */
    int answers, notices;
    uint64_t revoked; /* the last number that was to be given up */
    uint64_t wanted;  /* the last number whose lock somebody wanted … */
    char lock[64];    /* … and its name */
    dlk_key *noticed; /* the last key told about */
    char log[8192];
} world;

/* Opens and starts: @p uri, and pairs of a key and its value, NULL at the end. */
bool world_open(world *w, const char *uri, ...);
/* The same, and waits until the link is up. */
bool world_connect(world *w, const char *uri, ...);
bool world_connect_with(world *w, const char *uri, va_list pairs);
/* What `open` answers to that; nothing stays open. */
dlock_err world_try(const char *uri, dlock_error **err, ...);
void world_close(world *w);

/* One round of a driver: tick, arm, sleep (50 ms at most), process. */
void world_round(world *w);
/* Rounds until the condition holds; fails the test after a generous time. */
#define ROUNDS_UNTIL(w, condition) AWAIT_BY(world_round(w), condition)
/* The same, and says whether it did. */
#define ROUNDS_REACH(w, condition) AWAITED_BY(world_round(w), condition, patience_ms())
/* Rounds for so long. */
void world_spin(world *w, int64_t ms);

/* A key, of a mutex unless said; world_forget frees it. NULL after a failed check. */
dlk_key *world_key_of(world *w, dlock_kind kind, const char *name);
dlk_key *world_key(world *w, const char *name);
void world_forget(world *w, dlk_key *key);

/* An ask with a deadline of client.timeout_ms; asking and awaiting its reply. */
dlk_ask world_make(world *w, dlk_verb verb, dlk_key *key, uint64_t number);
void world_ask(world *w, dlk_ask *ask);
dlk_reply world_await(world *w, dlk_ask *ask);
/* All at once. The error of a REFUSED stays in `text`, its code in `code`. */
dlk_reply world_do(world *w, dlk_verb verb, dlk_key *key, uint64_t number,
                   int64_t *ret_token);
void world_watch(world *w, dlk_key *key, bool on);

#endif
