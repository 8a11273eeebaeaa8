/* What the backend for one server has to know of the cluster that it is a node of; the cluster
 * itself is dlk_cluster_backend (redis.h). */
#ifndef DLK_BACKENDS_REDIS_TOPOLOGY_CLUSTER_H
#define DLK_BACKENDS_REDIS_TOPOLOGY_CLUSTER_H

#include "backends/backend.h"
#include "backends/redis/requests.h"

struct dlk_cluster_node;

/* In the greeting: the answer to CLUSTER SLOTS; whether the node knows channels of shards. */
dlock_error *dlk_cluster_take_map(struct dlk_cluster_node *from, const dlk_resp *reply);
void dlk_cluster_take_shards(dlk_redis *redis, const dlk_resp *reply);

/* The map is out of date. */
void dlk_cluster_moved(struct dlk_cluster_node *node);
/* The answer to DLK_REDIS_MAP; false: it is nonsense. */
bool dlk_cluster_mapped(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
/* An error reply that says where to ask instead: the ask, whose first in flight it was, has been
 * sent on, or answered. */
bool dlk_cluster_redirects(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
/* Is the reply to come that to ASKING? True once. */
static inline bool dlk_cluster_asked(dlk_ask *ask)
{
    if (ask->verb == DLK_LIST || ask->verb == DLK_DOCTOR ||
        !(ask->scratch & DLK_REDIS_ASKING))
        return false;
    ask->scratch &= ~(int64_t)DLK_REDIS_ASKING;
    return true;
}

#endif
