/*
 * A Redis Cluster: several masters, each of which has a part of the 16384 slots. Each node is a
 * backend for one server of its own (backend.c) that is driven with the others; the cluster is its
 * host and stands between it and the engine.
 *
 * The map says which node has which slot. It comes with each greeting, and again whenever a node
 * says that it is wrong (MOVED), is gone, or takes a subscription away. A request goes to the node
 * that the map names; sent on by MOVED or ASK it is the same request once more, whose script looks
 * at the owner there: that a key has moved says nothing of whose it is.
 *
 * The link is up while at least one node of the map is there. What concerns one that isn't is
 * refused for now (EUNAVAIL), so that it is asked again with a pause.
 *
 * Nodes are made only by the driver, in process, and freed only with the cluster: one that has
 * left the map rests, and is used again for another address.
 */
#ifndef DLK_BACKENDS_REDIS_TOPOLOGY_CLUSTER_INNER_H
#define DLK_BACKENDS_REDIS_TOPOLOGY_CLUSTER_INNER_H

#include "backends/redis/asks.h"
#include "backends/redis/subscriber.h"
#include "backends/redis/watch.h"

#define DLK_SLOTS     16384
#define DLK_NODES_MAX 1000

typedef struct dlk_cluster dlk_cluster;

typedef struct dlk_cluster_node {
    dlk_host host; /* what its backend calls */
    dlk_cluster *cluster;
    dlk_redis *redis;
    bool in_map;  /* has slots */
    bool seed;    /* the URI names it */
    bool tried;   /* to connect, and that has ended */
    uint32_t tag; /* a number whose slot was its first one, when it was last asked for */
    dlk_list waiting; /* asks until it is connected */
} dlk_cluster_node;

struct dlk_cluster {
    dlk_backend base;

    /* set by open, never changed */
    dlk_settings *settings;
    char *scheme;           /* of a node */
    dlk_redis *any;         /* a node that always exists */
    dlk_host host_of_nodes; /* what each node's begins as */
    const dlk_redis_cluster *told;
    int64_t timeout_ns;

    dlk_cluster_node **nodes;
    size_t count, capacity;
    uint16_t map[DLK_SLOTS]; /* 1 + the index of the node, 0: nobody has it */
    bool has_map, up, listening, stopped;
    int64_t up_at; /* when to be up although not all nodes have been tried */
    dlock_error *why_down;

    dlk_ask refresh; /* DLK_REDIS_MAP */
    bool refreshing;
    int64_t refresh_at, refreshed_at;
    size_t last_asked; /* node */
    int64_t news_at;
    uint64_t revoked; /* told last, and when */
    int64_t revoked_at;

    /* the driver's, set by arm */
    size_t armed; /* so many nodes take part in the sleep */
    dlk_cluster_node *expects;
};

/* From below to above; none calls one that stands behind it. */

/* ---- cluster_node.c ---- */

/* The node whose host this is. */
static inline dlk_cluster_node *dlk_cluster_node_by(dlk_host *host)
{
    return DLK_LIST_ITEM(host, dlk_cluster_node, host);
}

static inline dlk_link_phase dlk_cluster_phase(const dlk_cluster_node *node)
{
    return node->redis->commands.link.phase;
}

/* The node of this address, a new one if need be; NULL without memory. */
dlk_cluster_node *dlk_cluster_node_at(dlk_cluster *cluster, const char *host,
                                      uint16_t port, dlock_error **err);
dlk_cluster_node *dlk_cluster_node_of(const dlk_cluster *cluster, uint16_t slot);
/* Connects, unless it is connected or about to be. */
void dlk_cluster_begin(dlk_cluster_node *node, int64_t now);
/* Is it about to be connected? */
bool dlk_cluster_is_coming(const dlk_cluster_node *node);
/* Watches the key where it is asked for. */
void dlk_cluster_follow(dlk_cluster_node *node, dlk_key *key, int64_t now);

/* ---- cluster_map.c ---- */

/* The slot of a key, and whether a name's derived keys have the same (EINVAL). */
uint16_t dlk_cluster_slot(const char *name, size_t size);
dlock_err dlk_cluster_check_name(const char *name, size_t size, dlock_error **err);
/* For dlk_redis_cluster. */
bool dlk_cluster_tag(const dlk_redis *redis, char ret[DLK_REDIS_TAG_MAX]);
dlock_error *dlk_cluster_take_map(dlk_redis *redis, const dlk_resp *reply);
void dlk_cluster_mapped(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
/* The map is out of date. */
void dlk_cluster_moved(dlk_cluster_node *node);
/* Asks for the map when it is time. Returns when to call it again. */
int64_t dlk_cluster_refresh(dlk_cluster *cluster, int64_t now);

/* ---- cluster_reports.c ---- */

/* Lists and examinations are those of all nodes. */
void dlk_cluster_report(dlk_cluster *cluster, dlk_ask *ask, int64_t now);
void dlk_cluster_report_answered(dlk_cluster *cluster, dlk_ask *ask);

/* ---- cluster_asks.c ---- */

void dlk_cluster_ask(dlk_backend *backend, dlk_ask *ask, int64_t now);
void dlk_cluster_answered(dlk_host *host, dlk_ask *ask);
/* The node is connected, or (with an error) it isn't: what waits for that. */
void dlk_cluster_serve_waiting(dlk_cluster_node *node, const dlock_error *error,
                               int64_t now);
int64_t dlk_cluster_waiting_tick(dlk_cluster_node *node, int64_t now);
/* For dlk_redis_cluster. */
bool dlk_cluster_redirects(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);

#endif
