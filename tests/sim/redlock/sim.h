/*
 * A simulator of Redlock: several clients, each the real code of libdlock/locks on top of the real
 * code of libdlock/backends/redlock, and several modelled servers behind modelled connections that
 * delay, break, lose answers and deliver late. All in one thread, on a clock of its own, driven by
 * one seed: the same seed is the same run.
 */
#ifndef SIM_REDLOCK_SIM_H
#define SIM_REDLOCK_SIM_H

#include "backends/backend.h"
#include "locks/core.h"
#include "util/clock.h"

#define MS      DLK_NS_PER_MS
#define SEC     DLK_NS_PER_SEC
#define CLIENTS 4
#define ACTORS  2 /* a client */
#define SERVERS 5

typedef struct server {
    char owner[64]; /* "" where the key isn't there, or its lease is over */
    int64_t ends, counter, frozen_until;
    bool down;
} server;

typedef struct actor {
    enum { RESTS, WAITS, HOLDS } does;
    dlk_wait wait;
    dlk_hold *hold;
    int64_t until, token;
    bool served; /* since the faults have ended */
} actor;

typedef struct client {
    int index;
    dlk_core core;
    dlk_host host;
    dlk_kicks kicks;
    dlk_polls polls;
    dlk_rand rand;
    dlk_backend *backend;
    dlk_settings *settings;
    dlk_name *name;
    dlk_list answers;
    char uuid[DLK_UUID_SIZE];
    bool link_changed, link_up;
    dlock_error *link_error;
    int64_t wake_at, stopped_until;
    actor actors[ACTORS];
} client;

typedef struct sim {
    uint64_t seed;
    bool fencing, forgets; /* … the nodes do, a minority at a time */
    int servers;
    int64_t ttl_ms, now, ends_at;
    int64_t fast; /* the nodes' clocks are, in millionths of the clients' */
    bool calm;    /* no more faults */
    dlk_rand rand;
    server server[SERVERS];
    client client[CLIENTS];
    int64_t last_token, overlap_since;
    int64_t grants, losses, faults, waits_over;
    const char *broken; /* promise, or NULL */
} sim;

extern sim s;

/* Below @p below, from the run's seed; one in @p many. */
int64_t sim_random(int64_t below);
bool sim_happens(int64_t many);
void sim_break(const char *promise);
/* Calls @p run with @p arg at the time @p at; those of one time in the order of asking. */
void sim_at(int64_t at, void (*run)(void *arg), void *arg);

/* ---- nodes.c; what the seam leads to ---- */
int64_t sim_clock_now(void);
dlock_err sim_open_node(dlk_host *host, const dlk_uri *uri, dlk_backend **ret);
void nodes_reset(void);
bool nodes_keep_nothing(void);
/* Frees the connections, when nothing is on its way any more. */
void nodes_bury(void);

/* ---- clients.c ---- */
void clients_open(void);
void clients_close(void);
/* Everything that one of them has to do by now. */
void client_run(client *c);
/* It has something to do by then. */
void client_wake(client *c, int64_t at);
bool clients_served(void);
bool clients_rest(void);

#endif
