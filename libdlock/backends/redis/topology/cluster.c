/* The cluster as one backend: its life, its link and the driver's steps; see cluster_inner.h. */
#include "backends/redis/topology/cluster_inner.h"

#include "backends/redis/redis.h"
#include "contract/node.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* When at least one node is there, so long the others have before the link is up without them. */
#define SETTLE_NS DLK_NS_PER_SEC
/* How often somebody is called to drive while a node is being connected, or the map asked for,
 * and nobody may wait for anything. */
#define NEWS_NS (20 * DLK_NS_PER_MS)
/* One message to a client comes by each of its nodes' connections. */
#define ONE_MESSAGE_NS DLK_NS_PER_SEC

static dlk_cluster *self(dlk_backend *backend)
{
    return (dlk_cluster *)backend;
}

/* ---- The link ---- */

/* Those that matter: of the map, and as long as there is none, or it leads nowhere, the seeds. */
static bool matters(const dlk_cluster_node *node)
{
    return node->in_map || (node->seed && !node->cluster->up);
}

static bool is_settled(const dlk_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->nodes[i]->in_map && !cluster->nodes[i]->tried)
            return false;
    return true;
}

static bool is_hopeless(const dlk_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++) {
        const dlk_cluster_node *node = cluster->nodes[i];
        if (matters(node) &&
            (!node->tried || dlk_cluster_is_coming(node) ||
             (node->in_map && dlk_cluster_phase(node) == DLK_LINK_READY)))
            return false;
    }
    return true;
}

static bool is_there(const dlk_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->nodes[i]->in_map &&
            dlk_cluster_phase(cluster->nodes[i]) == DLK_LINK_READY)
            return true;
    return false;
}

static void go_down(dlk_cluster *cluster, const dlock_error *error)
{
    cluster->up = false;
    cluster->up_at = DLK_NEVER;
    dlk_error_clear(&cluster->why_down);
    cluster->why_down =
        error ? dlk_error_copy(error)
              : dlk_error_make(DLOCK_EUNAVAIL, "redis+cluster: no node is connected");
    cluster->base.host->link(cluster->base.host, false, cluster->why_down);
}

static void judge(dlk_cluster *cluster, const dlock_error *error, int64_t now)
{
    bool there = cluster->has_map && is_there(cluster);
    if (cluster->stopped)
        return;
    if (!cluster->up && there && cluster->up_at >= DLK_NEVER)
        cluster->up_at = now + SETTLE_NS;
    if (!cluster->up && there && (is_settled(cluster) || now >= cluster->up_at)) {
        cluster->up = true;
        cluster->up_at = DLK_NEVER;
        dlk_error_clear(&cluster->why_down);
        cluster->base.host->link(cluster->base.host, true, NULL);
    } else if (cluster->up ? !there : error && is_hopeless(cluster)) {
        go_down(cluster, error);
    }
}

/* ---- What a node tells ---- */

static void node_link(dlk_host *host, bool up, const dlock_error *error)
{
    dlk_cluster_node *node = dlk_cluster_node_by(host);
    dlk_cluster *cluster = node->cluster;
    int64_t now = dlk_clock_now();
    node->tried = true;
    DLK_TELL(host->tell, DLK_TELL_CLUSTER, "node %s: %s", node->redis->peer,
             up ? "up" : error->text);
    if (up && cluster->listening)
        dlk_redis_listen(&node->redis->base, now);
    if (!up)
        cluster->base.host->log(cluster->base.host, DLOCK_LOG_INFO, "%s", error->text);
    if (!up && cluster->up)
        dlk_cluster_moved(node);
    dlk_cluster_serve_waiting(node, error, now);
    judge(cluster, error, now);
}

static void node_notified(dlk_host *host, dlk_key *key)
{
    dlk_host *base = dlk_cluster_node_by(host)->cluster->base.host;
    base->notified(base, key);
}

static void node_revoked(dlk_host *host, uint64_t number)
{
    dlk_cluster *cluster = dlk_cluster_node_by(host)->cluster;
    int64_t now = dlk_clock_now();
    if (cluster->revoked == number && now < cluster->revoked_at + ONE_MESSAGE_NS)
        return;
    cluster->revoked = number;
    cluster->revoked_at = now;
    cluster->base.host->revoked(cluster->base.host, number);
}

static void node_asked(dlk_host *host, uint64_t number, const char *name, size_t size)
{
    dlk_host *whole = dlk_cluster_node_by(host)->cluster->base.host;
    if (whole->asked)
        whole->asked(whole, number, name, size);
}

static dlk_host host_of_nodes(dlk_host *whole)
{
    dlk_host host = dlk_node_host(whole);
    host.answered = dlk_cluster_answered;
    host.notified = node_notified;
    host.revoked = node_revoked;
    host.asked = node_asked;
    host.link = node_link;
    return host;
}

static void node_moved(dlk_redis *redis)
{
    dlk_cluster_moved(dlk_cluster_node_by(redis->base.host));
}

static const dlk_redis_cluster told = {.take_map = dlk_cluster_take_map,
                                       .mapped = dlk_cluster_mapped,
                                       .moved = node_moved,
                                       .redirects = dlk_cluster_redirects,
                                       .tag = dlk_cluster_tag};

/* What the nodes have counted. */
static void gather(dlk_cluster *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        dlk_node_count(&cluster->nodes[i]->host);
}

/* ---- Life ---- */

static void cluster_free(dlk_backend *backend)
{
    dlk_cluster *cluster = self(backend);
    for (size_t i = 0; i < cluster->count; i++) {
        dlk_redis_backend.free(&cluster->nodes[i]->redis->base);
        free(cluster->nodes[i]);
    }
    free(cluster->nodes);
    free(cluster->scheme);
    dlk_settings_free(cluster->settings);
    dlk_error_clear(&cluster->why_down);
    free(cluster);
}

static dlock_err check(const dlk_uri *uri, const dlk_settings *settings,
                       dlock_error **err)
{
    if (uri->path[0] && strcmp(uri->path, "/") != 0)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "redis+cluster: the URI has no path, as there is only database 0");
    if (dlk_settings_int(settings, DLK_KEY_REDIS_DB) != 0)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "redis+cluster: redis.db must be 0, a cluster has no other");
    return DLOCK_OK;
}

static dlock_err add_seeds(dlk_cluster *cluster, const dlk_uri *uri, dlock_error **err)
{
    for (size_t i = 0; i < uri->host_count; i++) {
        const dlk_uri_host *host = &uri->hosts[i];
        dlk_cluster_node *node = dlk_cluster_node_at(
            cluster, host->host, host->port ? host->port : DLK_REDIS_PORT, err);
        if (!node)
            return err && *err ? (*err)->code : DLOCK_ENOMEM;
        node->seed = true;
    }
    cluster->any = cluster->nodes[0]->redis;
    return DLOCK_OK;
}

static dlock_err cluster_open(dlk_host *host, const dlk_uri *uri,
                              const dlk_settings *settings, dlk_backend **ret,
                              dlock_error **err)
{
    dlock_err code = check(uri, settings, err);
    if (code)
        return code;
    dlk_cluster *cluster = calloc(1, sizeof(*cluster));
    if (!cluster)
        return dlk_error_nomem(err);
    cluster->base = (dlk_backend){.type = &dlk_cluster_backend, .host = host};
    cluster->host_of_nodes = host_of_nodes(host);
    cluster->told = &told;
    cluster->scheme = strndup(uri->scheme, strcspn(uri->scheme, "+"));
    cluster->settings = dlk_settings_copy(settings);
    cluster->timeout_ns =
        dlk_settings_int(settings, DLK_KEY_CLIENT_TIMEOUT_MS) * DLK_NS_PER_MS;
    cluster->up_at = cluster->refresh_at = DLK_NEVER;
    code = cluster->scheme && cluster->settings ? add_seeds(cluster, uri, err)
                                                : dlk_error_nomem(err);
    if (code) {
        cluster_free(&cluster->base);
        return code;
    }
    *ret = &cluster->base;
    return DLOCK_OK;
}

static void cluster_start(dlk_backend *backend, int64_t now)
{
    dlk_cluster *cluster = self(backend);
    for (size_t i = 0; i < cluster->count; i++)
        dlk_cluster_begin(cluster->nodes[i], now);
}

static void cluster_stop(dlk_backend *backend)
{
    dlk_cluster *cluster = self(backend);
    cluster->up = false;
    cluster->stopped = true;
    dlk_error_clear(&cluster->why_down);
    cluster->why_down =
        dlk_error_make(DLOCK_EUNAVAIL, "redis+cluster: the connections are closed");
    for (size_t i = 0; i < cluster->count; i++) {
        dlk_redis_backend.stop(&cluster->nodes[i]->redis->base);
        dlk_cluster_serve_waiting(cluster->nodes[i], cluster->why_down, dlk_clock_now());
    }
    gather(cluster);
}

static dlock_err cluster_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    dlk_cluster *cluster = self(backend);
    dlock_err code = dlk_cluster_check_name(key->name, key->size, err);
    if (!code)
        code = dlk_redis_key_open(&cluster->any->base, key, err);
    if (code)
        return code;
    dlk_redis_key *data = key->data;
    data->slot = dlk_cluster_slot(key->name, key->size);
    if (!data->slot_count || memchr(key->name, '{', key->size))
        return DLOCK_OK;
    dlk_redis_key_close(backend, key);
    return dlk_error_set(
        err, DLOCK_EINVAL,
        "redis+cluster: with redis.layout=rueidis a lock has several keys: "
        "they are in one slot only if its name has a {tag}");
}

static void cluster_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now)
{
    dlk_cluster *cluster = self(backend);
    const dlk_redis_key *data = key->data;
    dlk_redis *at = dlk_redis_watched_at(data);
    dlk_cluster_node *node = dlk_cluster_node_of(cluster, data->slot);
    if (!on && at)
        dlk_redis_watch(&at->base, key, false, now);
    else if (on && !at && node)
        dlk_redis_watch(&node->redis->base, key, true, now);
}

static void cluster_listen(dlk_backend *backend, int64_t now)
{
    dlk_cluster *cluster = self(backend);
    cluster->listening = true;
    for (size_t i = 0; i < cluster->count; i++)
        if (dlk_cluster_phase(cluster->nodes[i]) == DLK_LINK_READY)
            dlk_redis_listen(&cluster->nodes[i]->redis->base, now);
}

/* ---- Time ---- */

/* Who doesn't matter any more and has nothing to do rests; seeds are tried while nothing else is. */
static void tend(dlk_cluster_node *node, int64_t now)
{
    const dlk_cluster *cluster = node->cluster;
    if (matters(node)) {
        dlk_cluster_begin(node, now);
        return;
    }
    if (dlk_cluster_phase(node) == DLK_LINK_OFF || !cluster->up ||
        !dlk_flight_is_empty(&node->redis->flight) || !dlk_list_empty(&node->waiting))
        return;
    dlock_error *why = dlk_error_make(DLOCK_EUNAVAIL, "redis+cluster: %s has no slots",
                                      node->redis->peer);
    dlk_redis_rest(node->redis, why);
    dlk_error_clear(&why);
}

static bool has_news(const dlk_cluster *cluster)
{
    bool coming = cluster->refreshing;
    for (size_t i = 0; !coming && i < cluster->count; i++)
        coming = dlk_cluster_is_coming(cluster->nodes[i]);
    return coming && cluster->up; /* while it is down, somebody drives anyway */
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t cluster_tick(dlk_backend *backend, int64_t now)
{
    dlk_cluster *cluster = self(backend);
    int64_t next = DLK_NEVER;
    for (size_t i = 0; i < cluster->count; i++) {
        dlk_cluster_node *node = cluster->nodes[i];
        if (!cluster->stopped)
            tend(node, now);
        next = earlier(next, dlk_redis_backend.tick(&node->redis->base, now));
        next = earlier(next, dlk_cluster_waiting_tick(node, now));
    }
    if (now >= cluster->up_at)
        judge(cluster, NULL, now);
    next = earlier(next, earlier(cluster->up_at, dlk_cluster_refresh(cluster, now)));
    if (has_news(cluster)) {
        if (now >= cluster->news_at && cluster->base.host->news)
            cluster->base.host->news(cluster->base.host);
        if (now >= cluster->news_at)
            cluster->news_at = now + NEWS_NS;
        next = earlier(next, cluster->news_at);
    }
    gather(cluster);
    return next;
}

/* ---- The driver's steps ---- */

/* The one that alone has something to answer, where no messages may come. */
static dlk_cluster_node *who_answers(const dlk_cluster *cluster)
{
    dlk_cluster_node *found = NULL;
    for (size_t i = 0; i < cluster->count; i++) {
        dlk_cluster_node *node = cluster->nodes[i];
        if (node->redis->subscriber.connection.link.polled >= 0 ||
            dlk_cluster_is_coming(node))
            return NULL;
        if (dlk_flight_is_empty(&node->redis->flight))
            continue;
        if (found || !dlk_redis_expects(node->redis))
            return NULL;
        found = node;
    }
    return found;
}

static void cluster_arm(dlk_backend *backend, dlk_polls *polls)
{
    dlk_cluster *cluster = self(backend);
    for (size_t i = 0; i < cluster->count; i++)
        dlk_redis_backend.arm(&cluster->nodes[i]->redis->base, polls);
    cluster->armed = cluster->count;
    cluster->expects = who_answers(cluster);
}

static void cluster_push(dlk_backend *backend, dlk_polls *polls)
{
    const dlk_cluster *cluster = self(backend);
    for (size_t i = 0; i < cluster->armed; i++)
        dlk_redis_backend.push(&cluster->nodes[i]->redis->base, polls);
}

static bool cluster_expect(dlk_backend *backend, const dlk_polls *polls)
{
    const dlk_cluster_node *one = self(backend)->expects;
    return one && dlk_redis_backend.expect(&one->redis->base, polls);
}

static void cluster_pull(dlk_backend *backend, dlk_polls *polls)
{
    const dlk_cluster *cluster = self(backend);
    for (size_t i = 0; i < cluster->armed; i++)
        dlk_redis_backend.pull(&cluster->nodes[i]->redis->base, polls);
}

static void cluster_process(dlk_backend *backend, int64_t now)
{
    dlk_cluster *cluster = self(backend);
    for (size_t i = 0; i < cluster->armed; i++)
        dlk_redis_backend.process(&cluster->nodes[i]->redis->base, now);
    gather(cluster);
}

static void cluster_flush(dlk_backend *backend)
{
    dlk_cluster *cluster = self(backend);
    for (size_t i = 0; i < cluster->count; i++)
        dlk_redis_backend.flush(&cluster->nodes[i]->redis->base);
}

static const char *const schemes[] = {"redis+cluster", "rediss+cluster", NULL};

/* A failover may forget what was written last, also of the counters of tokens. */
const dlk_backend_type dlk_cluster_backend = {
    .name = "redis",
    .schemes = schemes,
    .traits = {.class = DLK_REQUIRE_EFFICIENCY, DLK_REDIS_TRAITS},
    .open = cluster_open,
    .start = cluster_start,
    .stop = cluster_stop,
    .free = cluster_free,
    .ask = dlk_cluster_ask,
    .tick = cluster_tick,
    .arm = cluster_arm,
    .process = cluster_process,
    .key_open = cluster_key_open,
    .key_close = dlk_redis_key_close,
    .adapt = dlk_redis_adapt,
    .has_kind = dlk_redis_has_kind,
    .watch = cluster_watch,
    .listen = cluster_listen,
    .push = cluster_push,
    .pull = cluster_pull,
    .expect = cluster_expect,
    .flush = cluster_flush,
};
