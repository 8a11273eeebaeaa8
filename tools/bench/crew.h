/*
 * The threads of `dlock bench`: they take and give back locks of their own names for a while, and what
 * they did is added up.
 *
 * Nothing of it ends the process, and no wait is without end: a lock that doesn't come in PATIENCE_MS
 * is a failure, a signal stops everybody, and who doesn't stop then has his client closed.
 */
#ifndef DLOCK_TOOLS_BENCH_CREW_H
#define DLOCK_TOOLS_BENCH_CREW_H

#include "cli.h"
#include "times.h"

typedef struct crew_scene {
    const char *key;  /* in JSON */
    const char *what; /* for people, after the number of threads */
    bool many;        /* as many threads as asked for, not one */
    bool one_name;    /* all of them take the same lock */
    bool own_clients; /* each by a connection of its own, as processes do */
} crew_scene;

typedef struct crew_result {
    double secs;
    uint64_t pairs;      /* of acquire and release */
    uint64_t hand_overs; /* acquires of a lock that another thread had before */
    double requests,
        requests_ns; /* of the first client meanwhile, and what they took together */
    bench_hist
        times; /* of pairs; of one name: of the waits for it that ended with a hand-over */
} crew_result;

/* Runs it: 0, or the exit status after saying what is wrong; of a signal 128 + n. The client is
 * open; after a failure it may be closed. */
int crew_run(cli_call *cli, const crew_scene *scene, crew_result *ret);

#endif
