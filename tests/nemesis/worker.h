/* What worker.c (a process and its clients) and player.c (one thread's doings) share. */
#ifndef TESTS_NEMESIS_WORKER_H
#define TESTS_NEMESIS_WORKER_H

#include "harness/time.h"
#include "histories/history.h"
#include "histories/oracle.h"

#include <dlock/dlock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MS             INT64_C(1000000) /* ns */

#define WORKER_CLIENTS 32
#define WORKER_THREADS 8
#define WORKER_LOCKS   16

/* This process. All but the atomics is written before the threads start. */
typedef struct worker {
    const char *uri, *path, *page, *socket;
    uint32_t id, locks, clients, threads;
    uint16_t first; /* number of the lock n0 */
    int64_t ttl_ms;
    uint64_t seed, records;
    history history;
    oracle oracle;
    _Atomic uint64_t ops;
    _Atomic bool ending; /* finish what you do, and no more */
    _Atomic bool over;   /* all clients are closed */
} worker;

extern worker self;

/* A client and its handles. Only a crew of one thread replaces its client. */
typedef struct crew {
    uint16_t number;
    dlock_client *client;
    dlock_lock *locks[WORKER_LOCKS];
} crew;

typedef struct player {
    crew *crew;
    uint16_t number;
    uint64_t dice;
    pthread_t thread;
} player;

/* Plays until the process is ending; for pthread_create. */
void *worker_play(void *player);

bool worker_is_ending(void);
bool worker_open(crew *c);
void worker_close(crew *c);
/* 0 … sides - 1 */
uint64_t worker_roll(player *p, uint64_t sides);

#endif
