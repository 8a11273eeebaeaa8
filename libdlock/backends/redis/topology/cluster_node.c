/* The nodes of a cluster: which there are, connecting them, and whose channels a key's waiters listen
 * to; see cluster_inner.h. */
#include "backends/redis/topology/cluster_inner.h"

#include "backends/redis/redis.h"
#include "util/error.h"
#include "util/grow.h"

#include <stdlib.h>
#include <string.h>

bool dlk_cluster_is_coming(const dlk_cluster_node *node)
{
    return dlk_link_is_coming(&node->redis->commands.link);
}

void dlk_cluster_begin(dlk_cluster_node *node, int64_t now)
{
    dlk_redis *redis = node->redis;
    if (dlk_cluster_phase(node) == DLK_LINK_OFF && !node->cluster->stopped &&
        dlk_stream_reap(&redis->commands.link.stream) &&
        dlk_stream_reap(&redis->subscriber.connection.link.stream))
        dlk_link_start(&redis->commands.link, now);
}

void dlk_cluster_follow(dlk_cluster_node *node, dlk_key *key, int64_t now)
{
    dlk_redis_key *data = key->data;
    dlk_redis *at = dlk_redis_watched_at(data);
    if (at == node->redis || (!at && !key->watched))
        return;
    if (at)
        dlk_redis_watch(&at->base, key, false, now);
    data->asked_at = 0; /* counted elsewhere: better told once too often */
    dlk_redis_watch(&node->redis->base, key, true, now);
}

static bool is_at(const dlk_cluster_node *node, const char *host, uint16_t port)
{
    return node->redis->port == port && strcmp(node->redis->host, host) == 0;
}

/* One that has been out of use for long. */
static bool is_spare(const dlk_cluster_node *node)
{
    return !node->in_map && !node->seed &&
           node->redis->commands.link.phase == DLK_LINK_OFF &&
           dlk_flight_is_empty(&node->redis->flight) && dlk_list_empty(&node->waiting) &&
           dlk_stream_reap(&node->redis->commands.link.stream) &&
           dlk_stream_reap(&node->redis->subscriber.connection.link.stream);
}

static bool grow(dlk_cluster *cluster)
{
    void *nodes = dlk_grow(cluster->nodes, cluster->count, &cluster->capacity,
                           sizeof(*cluster->nodes));
    if (nodes)
        cluster->nodes = nodes;
    return nodes != NULL;
}

static dlk_cluster_node *make(dlk_cluster *cluster, const char *host, uint16_t port,
                              dlock_error **err)
{
    dlk_cluster_node *node = calloc(1, sizeof(*node));
    char no_path[] = "";
    dlk_uri_host at = {.host = (char *)(uintptr_t)host, .port = port}; /* only read */
    const dlk_uri uri = {
        .scheme = cluster->scheme, .hosts = &at, .host_count = 1, .path = no_path};
    dlk_backend *backend;
    if (!node || !grow(cluster)) {
        free(node);
        dlk_error_nomem(err);
        return NULL;
    }
    node->cluster = cluster;
    dlk_list_init(&node->waiting);
    node->host = cluster->host_of_nodes;
    if (dlk_redis_backend.open(&node->host, &uri, cluster->settings, &backend, err)) {
        free(node);
        return NULL;
    }
    node->redis = (dlk_redis *)backend;
    node->redis->cluster = cluster->told;
    int64_t publish = dlk_settings_int(cluster->settings, DLK_KEY_REDIS_PUBLISH);
    node->redis->publish = publish == DLK_REDIS_PUBLISH_PUBLISH ? DLK_PUBLISH_ALL
                           : publish == DLK_REDIS_PUBLISH_BOTH  ? DLK_PUBLISH_BOTH
                                                                : DLK_PUBLISH_SHARD;
    cluster->nodes[cluster->count++] = node;
    return node;
}

dlk_cluster_node *dlk_cluster_node_at(dlk_cluster *cluster, const char *host,
                                      uint16_t port, dlock_error **err)
{
    dlk_cluster_node *spare = NULL;
    for (size_t i = 0; i < cluster->count; i++) {
        if (is_at(cluster->nodes[i], host, port))
            return cluster->nodes[i];
        if (is_spare(cluster->nodes[i]))
            spare = cluster->nodes[i];
    }
    if (spare && dlk_redis_aim(spare->redis, host, port)) {
        spare->tried = false;
        return spare;
    }
    if (cluster->count < DLK_NODES_MAX)
        return make(cluster, host, port, err);
    dlk_error_set(err, DLOCK_EUNAVAIL, "redis+cluster: more than %d nodes",
                  DLK_NODES_MAX);
    return NULL;
}

dlk_cluster_node *dlk_cluster_node_of(const dlk_cluster *cluster, uint16_t slot)
{
    uint16_t at = cluster->map[slot];
    return at ? cluster->nodes[at - 1] : NULL;
}
