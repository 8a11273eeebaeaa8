/* Several Redis servers of our own that belong together: a master and replicas watched by three
 * Sentinels, or a Cluster. Nothing fails over by itself unless a test asks for that, so that a
 * machine that stands still changes nothing. */
#ifndef HARNESS_REDIS_TOPOLOGY_H
#define HARNESS_REDIS_TOPOLOGY_H

#include "harness/redis_server.h"
#include "harness/time.h"

/* As long as it may take on a machine that others use. */
#define TOPOLOGY_AWAIT(condition) AWAITED_BY(nap_ms(20), condition, 60000)

/* ---- Sentinel: the service is called "service" ---- */

#define TRIO_REPLICAS 2

typedef struct redis_trio {
    redis_server redis[1 + TRIO_REPLICAS]; /* the first begins as the master */
    redis_server sentinel[3];
    char uri[160];                /* redis+sentinel://… */
    int ports[1 + TRIO_REPLICAS]; /* where others reach them */
} redis_trio;

typedef struct trio_options {
    int down_after_ms;  /* 0: no Sentinel takes a master for dead by itself */
    const char *config; /* of each Redis */
    const char *sentinel_config;
    /* What stands before each Redis: the port that the others are to use for @p port; or NULL. */
    int (*before)(void *user, int port);
    void *user;
} trio_options;

/* False after a failed check; stop it all the same. */
bool redis_trio_start(redis_trio *trio, const trio_options *options);
void redis_trio_stop(redis_trio *trio);
/* The index of the master, as the sentinel of this index says; -1: none of them. */
int redis_trio_master(redis_trio *trio, int sentinel);
/* Has another one made the master, and waits until all sentinels say so. */
bool redis_trio_fail_over(redis_trio *trio);

/* ---- Cluster ---- */

#define CLUSTER_NODES 6
#define CLUSTER_SLOTS 16384

typedef struct redis_cluster {
    /* masters, then as many replicas, in the same order */
    redis_server node[CLUSTER_NODES];
    int masters, count;
    char uri[160]; /* redis+cluster://… of the masters */
    char id[CLUSTER_NODES][41];
} redis_cluster;

/* @p replicas: of each master, 0 or 1. @p timeout_ms: when nodes take one for dead, 0: never. */
bool redis_cluster_start(redis_cluster *cluster, int masters, int replicas,
                         int timeout_ms, const char *config);
void redis_cluster_stop(redis_cluster *cluster);
int redis_cluster_slot(redis_cluster *cluster, const char *name);
/* The node that has the slot, as the node @p asked says; -1: nobody. */
int redis_cluster_owner(redis_cluster *cluster, int asked, int slot);
/* Moving a slot as redis-cli does: from where it is; all steps, or the first and the last ones. */
bool redis_cluster_move(redis_cluster *cluster, int slot, int to);
bool redis_cluster_begin_move(redis_cluster *cluster, int slot, int to);
bool redis_cluster_end_move(redis_cluster *cluster, int slot, int to);
/* The replica takes its master's place, which may be dead. */
bool redis_cluster_take_over(redis_cluster *cluster, int replica);

#endif
