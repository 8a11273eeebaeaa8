/* The backend for several independent Redis servers: opening it, and driving them all.
 * inner.h says how the pieces hang together. */
#include "backends/redlock/redlock.h"

#ifdef DLK_WITH_MEMCACHED
#include "backends/memcached/memcached.h"
#endif
#ifdef DLK_WITH_REDIS
#include "backends/redis/redis.h"
#endif
#include "backends/redis/settings.h"
#include "backends/redlock/inner.h"
#include "contract/sleep.h"
#include "net/address.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REDIS_PORT     6379
#define MEMCACHED_PORT 11211

/* How long an answer that nobody waits for may lie unread. */
#define LOOK_EVERY (5 * DLK_NS_PER_MS)

static dlk_redlock *self(dlk_backend *backend)
{
    return (dlk_redlock *)backend;
}

#define EACH_NODE(redlock, node)                                                         \
    for (dlk_redlock_node *node = (redlock)->nodes;                                      \
         node < (redlock)->nodes + (redlock)->count; node++)

/* ---- Open, free ---- */

static void redlock_free(dlk_backend *backend)
{
    dlk_redlock *redlock = self(backend);
    dlk_rounds_free(redlock);
    dlk_claims_free(redlock);
    EACH_NODE (redlock, node) {
        if (node->backend)
            node->backend->type->free(node->backend);
        dlk_error_clear(&node->why_down);
        free(node->peer);
    }
    dlk_polls_free(&redlock->polls);
    dlk_settings_free(redlock->settings);
    free(redlock);
}

/* The nodes are memcacheds; else Redises. */
static bool is_memlock(const dlk_uri *uri)
{
    return strcmp(uri->scheme, "memlock") == 0 || strcmp(uri->scheme, "memlocks") == 0;
}

static uint16_t port_of(const dlk_uri *uri, size_t index)
{
    const dlk_uri_host *host = &uri->hosts[index];
    return host->port ? host->port : is_memlock(uri) ? MEMCACHED_PORT : REDIS_PORT;
}

static dlock_err check_hosts(const dlk_uri *uri, dlock_error **err)
{
    size_t count = uri->host_count;
    if (count < DLK_REDLOCK_MIN || count > DLK_REDLOCK_MAX)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "%s: %d to %d nodes are expected, as in %s://a,b,c, not %zu",
                             uri->scheme, DLK_REDLOCK_MIN, DLK_REDLOCK_MAX, uri->scheme,
                             count);
    if (count % 2 == 0)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "%s: %zu nodes bear the loss of no more than %zu do: name an odd number",
            uri->scheme, count, count - 1);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (port_of(uri, i) == port_of(uri, k) &&
                strcasecmp(uri->hosts[i].host, uri->hosts[k].host) == 0)
                return dlk_error_set(
                    err, DLOCK_EINVAL,
                    "%s: %s:%u is named twice: it would count as two nodes", uri->scheme,
                    uri->hosts[i].host, port_of(uri, i));
    return DLOCK_OK;
}

/* Of a string's layout, whatever the default is; another one was not meant. */
static dlock_err set_settings(dlk_redlock *redlock, const dlk_settings *settings,
                              dlock_error **err)
{
    if (dlk_settings_is_set(settings, DLK_KEY_REDIS_LAYOUT) &&
        dlk_settings_int(settings, DLK_KEY_REDIS_LAYOUT) != DLK_LAYOUT_STRING)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "%s: the layout is %s, not redis.layout=%s",
                             dlk_redlock_name(redlock), redlock->base.type->traits.layout,
                             dlk_settings_word(settings, DLK_KEY_REDIS_LAYOUT));
    redlock->settings = dlk_settings_copy(settings);
    if (!redlock->settings)
        return dlk_error_nomem(err);
    redlock->timeout_ns =
        dlk_settings_int(settings, DLK_KEY_CLIENT_TIMEOUT_MS) * DLK_NS_PER_MS;
    redlock->retry_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_RETRY_MS);
    redlock->fencing = redlock->base.type == &dlk_redlock_backend &&
                       dlk_settings_int(settings, DLK_KEY_REDLOCK_FENCING) != 0;
    return dlk_settings_set_id(redlock->settings, DLK_KEY_REDIS_LAYOUT, "string", err);
}

/* @p uri names this node alone. */
static dlock_err open_server(dlk_redlock *redlock, dlk_redlock_node *node,
                             const dlk_uri *uri, bool memlock, dlock_error **err)
{
#ifdef DLK_WITH_MEMCACHED
    if (memlock)
        return dlk_memcached_backend.open(&node->host, uri, redlock->settings,
                                          &node->backend, err);
#endif
#ifdef DLK_WITH_REDIS
    if (!memlock)
        return dlk_redis_open_node(&node->host, uri, redlock->settings, &node->backend,
                                   err);
#endif
    return dlk_error_set(err, DLOCK_ENOTSUP, "%s: not in this build", node->peer);
}

static dlock_err open_node(dlk_redlock *redlock, const dlk_uri *uri, int index,
                           dlock_error **err)
{
    char scheme[sizeof("memcacheds")];
    bool tls = uri->scheme[strlen(uri->scheme) - 1] == 's'; /* redlocks, memlocks */
    dlk_redlock_node *node = &redlock->nodes[index];
    dlk_uri alone = *uri;
    snprintf(scheme, sizeof(scheme), "%s%s", is_memlock(uri) ? "memcached" : "redis",
             tls ? "s" : "");
    alone.scheme = scheme;
    alone.hosts = &uri->hosts[index];
    alone.host_count = 1;
    node->peer = dlk_address_text(uri->hosts[index].host, port_of(uri, (size_t)index));
    if (!node->peer)
        return dlk_error_nomem(err);
    dlk_redlock_node_init(redlock, index);
    return open_server(redlock, node, &alone, is_memlock(uri), err);
}

static dlock_err set_up(dlk_redlock *redlock, const dlk_uri *uri,
                        const dlk_settings *settings, dlock_error **err)
{
    dlock_err code = check_hosts(uri, err);
    if (code == DLOCK_OK)
        code = set_settings(redlock, settings, err);
    if (code != DLOCK_OK)
        return code;
    redlock->count = (int)uri->host_count;
    redlock->quorum = redlock->count / 2 + 1;
    redlock->all = (dlk_nodes)((1u << redlock->count) - 1);
    for (int i = 0; i < redlock->count && code == DLOCK_OK; i++)
        code = open_node(redlock, uri, i, err);
    return code;
}

static dlock_err redlock_open(dlk_host *host, const dlk_uri *uri,
                              const dlk_settings *settings, dlk_backend **ret,
                              dlock_error **err)
{
    dlk_redlock *redlock = calloc(1, sizeof(*redlock));
    if (!redlock)
        return dlk_error_nomem(err);
    redlock->base = (dlk_backend){.type = is_memlock(uri) ? &dlk_memlock_backend
                                                          : &dlk_redlock_backend,
                                  .host = host};
    redlock->look_at = redlock->owed_at = redlock->sweep_at = redlock->up_at = DLK_NEVER;
    redlock->last_alias = DLK_REDLOCK_ALIASES;
    dlk_list_init(&redlock->rounds);
    dlk_list_init(&redlock->loose);
    dlk_list_init(&redlock->spare);
    dlock_err code = set_up(redlock, uri, settings, err);
    if (code != DLOCK_OK) {
        redlock_free(&redlock->base);
        return code;
    }
    *ret = &redlock->base;
    return DLOCK_OK;
}

/* ---- Start, stop, fork ---- */

static void redlock_start(dlk_backend *backend, int64_t now)
{
    EACH_NODE (self(backend), node)
        node->backend->type->start(node->backend, now);
}

/* What is still to be given back has been asked for, and `unsettled` has been waited for. */
static void redlock_stop(dlk_backend *backend)
{
    dlk_redlock *redlock = self(backend);
    redlock->stopped = true;
    EACH_NODE (redlock, node)
        node->backend->type->stop(node->backend);
    dlk_redlock_count(redlock);
}

/* By then most of them have given it back: what an attempt that failed has undone, too, of which the engine
 * knows nothing. The others are waited for as well while an answer may come: a connection that ends without
 * it is reset, and what the node hasn't read yet is lost with it. */
static dlk_unsettled redlock_unsettled(const dlk_backend *backend)
{
    dlk_redlock *redlock = (dlk_redlock *)(uintptr_t)backend;
    dlk_unsettled claims = dlk_claims_unsettled(redlock);
    if (claims != DLK_SETTLED)
        return claims;
    EACH_NODE (redlock, node)
        if (node->backend->type->unsettled &&
            node->backend->type->unsettled(node->backend))
            return DLK_UNSETTLED_HARMLESS;
    return DLK_SETTLED;
}

/* ---- The driver's steps ---- */

/* No node is asked for its `expect`: who waits for one of them alone would miss others. */
static void arm_nodes(dlk_redlock *redlock, dlk_polls *polls)
{
    EACH_NODE (redlock, node)
        node->backend->type->arm(node->backend, polls);
    redlock->unsent = false;
}

static void redlock_push(dlk_backend *backend, dlk_polls *polls)
{
    EACH_NODE (self(backend), node)
        node->backend->type->push(node->backend, polls);
}

static void redlock_pull(dlk_backend *backend, dlk_polls *polls)
{
    EACH_NODE (self(backend), node)
        node->backend->type->pull(node->backend, polls);
}

static void process_nodes(dlk_redlock *redlock, int64_t now)
{
    EACH_NODE (redlock, node)
        node->backend->type->process(node->backend, now);
    dlk_redlock_count(redlock);
}

static void redlock_arm(dlk_backend *backend, dlk_polls *polls)
{
    dlk_redlock *redlock = self(backend);
    redlock->armed = true;
    arm_nodes(redlock, polls);
}

void dlk_redlock_look(dlk_redlock *redlock, int64_t now)
{
    if (redlock->armed || redlock->stopped)
        return; /* the driver does it, or nobody any more */
    dlk_polls_begin(&redlock->polls, now);
    arm_nodes(redlock, &redlock->polls);
    dlk_look_at(&redlock->base, &redlock->polls);
    process_nodes(redlock, now);
}

static void redlock_process(dlk_backend *backend, int64_t now)
{
    dlk_redlock *redlock = self(backend);
    redlock->armed = false;
    process_nodes(redlock, now);
    if (redlock->unsent) /* what answers have led to isn't the caller's, who may go now */
        dlk_redlock_look(redlock, now);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Answers that nobody waits for have to be read all the same, before their time is over. */
static void read_loose(dlk_redlock *redlock, int64_t now)
{
    if (redlock->unsent || now >= redlock->look_at) {
        dlk_redlock_look(redlock, now);
        redlock->look_at = DLK_NEVER;
    }
    if (dlk_list_empty(&redlock->loose))
        redlock->look_at = DLK_NEVER;
    else if (redlock->look_at >= DLK_NEVER)
        redlock->look_at = now + LOOK_EVERY;
}

static int64_t redlock_tick(dlk_backend *backend, int64_t now)
{
    dlk_redlock *redlock = self(backend);
    int64_t next = DLK_NEVER;
    read_loose(redlock, now);
    EACH_NODE (redlock, node)
        next = earlier(next, node->backend->type->tick(node->backend, now));
    next = earlier(next, dlk_redlock_nodes_tick(redlock, now));
    next = earlier(next, dlk_rounds_tick(redlock, now));
    next = earlier(next, dlk_claims_tick(redlock, now));
    if (redlock->unsent)
        dlk_redlock_look(redlock, now);
    return earlier(next, redlock->look_at);
}

void dlk_redlock_write_soon(dlk_redlock *redlock, int64_t now)
{
    redlock->unsent = true;
    if (redlock->armed)
        dlk_kick(redlock->base.host->kicks);
    else
        dlk_redlock_look(redlock, now);
}

static void redlock_flush(dlk_backend *backend)
{
    dlk_redlock *redlock = self(backend);
    redlock->unsent = false;
    EACH_NODE (redlock, node)
        node->backend->type->flush(node->backend);
}

static void adapt(const dlk_settings *settings, dlk_traits *traits)
{
    if (!dlk_settings_int(settings, DLK_KEY_REDLOCK_FENCING))
        return;
    traits->class = DLK_REQUIRE_FENCING;
    traits->tokens = true;
}

static const char *const schemes[] = {"redlock", "redlocks", NULL};
static const char *const memlock_schemes[] = {"memlock", "memlocks", NULL};

#define TRAITS                                                                           \
    .class = DLK_REQUIRE_EFFICIENCY, .margin_percent = 1, .margin_ms = 2,                \
    .kinds = {[DLOCK_MUTEX] = true}, .no_conditions = "its nodes have no common line",   \
    .no_keep = "nobody could ask for them there"

/* Nobody tells of a release: who waits asks again. */
#define FUNCTIONS                                                                        \
    .open = redlock_open, .start = redlock_start, .stop = redlock_stop,                  \
    .free = redlock_free, .ask = dlk_redlock_ask, .tick = redlock_tick,                  \
    .arm = redlock_arm, .process = redlock_process, .key_open = dlk_redlock_key_open,    \
    .key_close = dlk_redlock_key_close, .push = redlock_push, .pull = redlock_pull,      \
    .flush = redlock_flush, .unsettled = redlock_unsettled

const dlk_backend_type dlk_redlock_backend = {
    .name = "redlock",
    .schemes = schemes,
    .traits = {.layout = "string", TRAITS},
    .adapt = adapt,
    FUNCTIONS,
};

/* The same of memcacheds: whatever one of them forgets, most have it still. */
const dlk_backend_type dlk_memlock_backend = {
    .name = "redlock",
    .schemes = memlock_schemes,
    .traits = {.layout = "item", TRAITS},
    FUNCTIONS,
};
