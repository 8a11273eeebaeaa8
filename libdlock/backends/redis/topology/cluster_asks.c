/* Requests in a cluster: to the node that has the key, and on to where that says; see
 * cluster_inner.h. */
#include "backends/redis/topology/cluster_inner.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/number.h"

#include <string.h>

#define HOPS_MAX 5 /* then the map settles first */

/* ---- Sending ---- */

/* Nothing was done: it may be asked again, here or elsewhere. */
static void refuse(dlk_ask *ask, dlock_error *error)
{
    if (!ask->error)
        ask->error = error;
    else
        dlk_error_clear(&error);
    ask->reply = DLK_REFUSED;
}

static void refuse_away(dlk_ask *ask, const dlk_cluster_node *node)
{
    const dlock_error *why = node->redis->why_down;
    refuse(ask, why ? dlk_error_copy(why)
                    : dlk_error_make(DLOCK_EUNAVAIL, "redis+cluster: %s isn't connected",
                                     node->redis->peer));
}

static void send_to(dlk_cluster_node *node, dlk_ask *ask, int64_t now)
{
    if (node->redis->commands.link.phase == DLK_LINK_READY) {
        dlk_cluster_follow(node, ask->key, now);
        dlk_redis_ask(&node->redis->base, ask, now);
        if (ask->reply == DLK_NOT_SENT)
            refuse_away(ask, node);
    } else if (dlk_cluster_is_coming(node)) {
        ask->reply = DLK_PENDING;
        dlk_list_init(&ask->link);
        dlk_list_append(&node->waiting, &ask->link);
    } else {
        refuse_away(ask, node);
    }
}

void dlk_cluster_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    dlk_cluster *cluster = (dlk_cluster *)backend;
    ask->hops = 0;
    if (!cluster->up) {
        ask->error = dlk_error_copy(cluster->why_down);
        ask->reply = DLK_NOT_SENT;
        return;
    }
    if (ask->verb == DLK_LIST || ask->verb == DLK_DOCTOR) {
        dlk_cluster_report(cluster, ask, now);
        return;
    }
    uint16_t slot = ((const dlk_redis_key *)ask->key->data)->slot;
    dlk_cluster_node *node = dlk_cluster_node_of(cluster, slot);
    if (node)
        send_to(node, ask, now);
    else
        refuse(ask,
               dlk_error_make(DLOCK_EUNAVAIL,
                              "redis+cluster: nobody has slot %u of this name", slot));
}

/* ---- Waiting for a node ---- */

static void answer(dlk_cluster *cluster, dlk_ask *ask)
{
    cluster->base.host->answered(cluster->base.host, ask);
}

void dlk_cluster_serve_waiting(dlk_cluster_node *node, const dlock_error *error,
                               int64_t now)
{
    dlk_list waiting;
    dlk_list_init(&waiting);
    dlk_list_splice(&waiting, &node->waiting);
    dlk_list *link;
    while ((link = dlk_list_take_first(&waiting))) {
        dlk_ask *ask = DLK_LIST_ITEM(link, dlk_ask, link);
        if (error) {
            ask->error = dlk_error_copy(error);
            ask->reply = node->cluster->stopped ? DLK_NOT_SENT : DLK_REFUSED;
        } else {
            send_to(node, ask, now);
        }
        if (ask->reply != DLK_PENDING)
            answer(node->cluster, ask);
    }
}

int64_t dlk_cluster_waiting_tick(dlk_cluster_node *node, int64_t now)
{
    int64_t next = DLK_NEVER;
    DLK_LIST_FOR (it, &node->waiting) {
        dlk_ask *ask = DLK_LIST_ITEM(it, dlk_ask, link);
        if (now < ask->deadline) {
            next = ask->deadline < next ? ask->deadline : next;
            continue;
        }
        dlk_list_remove(it);
        refuse_away(ask, node);
        answer(node->cluster, ask);
    }
    return next;
}

/* ---- Answers ---- */

void dlk_cluster_answered(dlk_host *host, dlk_ask *ask)
{
    dlk_cluster_node *node = dlk_cluster_node_by(host);
    dlk_cluster *cluster = node->cluster;
    if (ask->verb == DLK_REDIS_MAP) {
        cluster->refreshing = false;
        dlk_error_clear(&ask->error);
        if (ask->reply != DLK_YES)
            dlk_cluster_moved(node);
        return;
    }
    if (ask->verb == DLK_LIST || ask->verb == DLK_DOCTOR) {
        dlk_cluster_report_answered(cluster, ask);
        return;
    }
    if (ask->reply == DLK_NOT_SENT && !cluster->stopped)
        refuse_away(ask, node);
    answer(cluster, ask);
}

/* "MOVED 3999 127.0.0.1:6381"; without a host it is that of who says it. */
static dlk_cluster_node *parse(dlk_cluster_node *from, const dlk_resp *reply,
                               uint16_t *ret_slot)
{
    char host[256];
    const char *at = strchr(reply->text, ' '), *end = at ? strchr(at + 1, ' ') : NULL;
    int64_t slot = end ? dlk_number_before(at + 1, " ", 0, DLK_SLOTS - 1, -1) : -1;
    if (slot < 0)
        return NULL;
    const char *colon = strrchr(++end, ':');
    int64_t port = dlk_number_or(colon ? colon + 1 : NULL, 1, UINT16_MAX, 0);
    size_t size = colon ? (size_t)(colon - end) : 0;
    if (port == 0 || size >= sizeof(host))
        return NULL;
    memcpy(host, end, size);
    host[size] = '\0';
    *ret_slot = (uint16_t)slot;
    dlock_error *error = NULL;
    dlk_cluster_node *node = dlk_cluster_node_at(
        from->cluster, size > 0 ? host : from->redis->host, (uint16_t)port, &error);
    dlk_error_clear(&error);
    return node;
}

static void set_owner(dlk_cluster *cluster, uint16_t slot, dlk_cluster_node *node)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->nodes[i] == node)
            cluster->map[slot] = (uint16_t)(i + 1);
    node->in_map = true;
}

/* For this request alone; always with its text, as ASKING is good for one command only. */
static bool send_asking(dlk_cluster_node *node, dlk_ask *ask)
{
    const dlk_arg asking = dlk_arg_text("ASKING");
    dlk_redis *redis = node->redis;
    if (redis->commands.link.phase != DLK_LINK_READY ||
        !dlk_resp_command(&redis->commands.link.stream.out, &asking, 1))
        return false;
    ask->scratch = ask->verb == DLK_RENEW ? DLK_REDIS_ALONE : 0;
    if (!dlk_redis_ask_put(redis, ask, true))
        return false;
    ask->scratch |= DLK_REDIS_WITH_TEXT | DLK_REDIS_ASKING;
    dlk_redis_ask_sent(redis, ask);
    return true;
}

bool dlk_cluster_redirects(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    dlk_cluster_node *from = dlk_cluster_node_by(redis->base.host);
    bool moved = dlk_resp_begins(reply, "MOVED"), asks = dlk_resp_begins(reply, "ASK");
    int64_t now = dlk_clock_now();
    uint16_t slot;
    if (dlk_resp_begins(reply, "CLUSTERDOWN"))
        dlk_cluster_moved(from);
    if ((!moved && !asks) || !ask->key)
        return false;
    dlk_cluster_node *to = parse(from, reply, &slot);
    if (!to)
        return false;
    dlk_cluster_begin(to, now);
    if (moved) {
        set_owner(from->cluster, slot, to);
        dlk_cluster_moved(from);
    }
    dlk_list_remove(&ask->link);
    if (++ask->hops > HOPS_MAX)
        refuse(ask, dlk_error_make(DLOCK_EUNAVAIL,
                                   "redis+cluster: sent on %d times, from %s at last",
                                   HOPS_MAX, redis->peer));
    else if (moved)
        send_to(to, ask, now);
    else if (!send_asking(to, ask))
        refuse_away(ask, to);
    if (ask->reply != DLK_PENDING)
        answer(from->cluster, ask);
    return true;
}
