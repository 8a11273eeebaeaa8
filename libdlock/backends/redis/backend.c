/*
 * The backend for a single Redis server: what the pieces in this folder make together.
 *
 * Where a request's bytes go: `ask` appends them to the stream's buffer; whoever comes first of
 * the driver's sleep and a flush writes them (net/stream.h).
 */
#include "backends/redis/redis.h"

#include "backends/redis/asks.h"
#include "backends/redis/batch.h"
#include "backends/redis/circles.h"
#include "backends/redis/client_key.h"
#include "backends/redis/greeting.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/layout.h"
#include "backends/redis/reports.h"
#include "backends/redis/subscriber.h"
#include "backends/redis/told.h"
#include "backends/redis/told_list.h"
#include "backends/redis/watch.h"
#include "contract/links.h"
#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlk_redis *self(dlk_backend *backend)
{
    return (dlk_redis *)backend;
}

/* ---- The connection for commands ---- */

static void be_ready(dlk_link *link, int64_t now)
{
    dlk_redis *redis = dlk_redis_connection_of(link)->redis;
    dlk_error_clear(&redis->why_down);
    if (redis->was_up)
        redis->base.host->reconnects++;
    redis->was_up = true;
    dlk_redis_client_key_forget(redis);
    dlk_redis_subscriber_follow(redis, now);
    redis->base.host->link(redis->base.host, true, NULL);
}

static void be_down(dlk_link *link, const dlock_error *error, int64_t now)
{
    (void)now;
    dlk_redis *redis = dlk_redis_connection_of(link)->redis;
    dlk_error_clear(&redis->why_down);
    redis->why_down = dlk_error_copy(error);
    dlk_redis_asks_fail(redis, error);
    redis->base.host->link(redis->base.host, false, error);
}

static dlock_error *take_reply(dlk_redis_connection *connection, const dlk_resp *reply,
                               int64_t now)
{
    return dlk_redis_asks_reply(connection->redis, reply, now);
}

/* A reset could take a release back that stands behind an acquire: a server that fails to answer the
 * one doesn't read the other any more. */
static bool is_harmless(const dlk_link *link)
{
    const dlk_redis *redis = ((const dlk_redis_connection *)link)->redis;
    return dlk_flight_undoes_itself(&redis->flight) &&
           dlk_buf_size(&link->stream.out) == 0;
}

static const dlk_link_ops ops = {DLK_REDIS_LINK, .greet = dlk_redis_greet_commands,
                                 .ready = be_ready, .down = be_down,
                                 .harmless = is_harmless};

/* Those that wait for others go out with whatever is about to be written. */
static void put_renewals(dlk_redis *redis)
{
    if (!dlk_list_empty(&redis->renewals))
        dlk_redis_batch_put(redis);
}

/* ---- Open, free ---- */

void dlk_redis_end(dlk_redis *redis)
{
    dlk_redis_connection_free(&redis->commands);
    dlk_redis_subscriber_free(redis);
    dlk_tls_free(redis->links.tls);
    dlk_settings_free(redis->settings);
    dlk_error_clear(&redis->why_down);
    dlk_error_clear(&redis->lacks_line);
    free(redis->host);
    free(redis->peer);
    free(redis->probe_key);
    free(redis->probe_channel);
    dlk_redis_told_memory_free(redis->told_memory);
}

static void redis_free(dlk_backend *backend)
{
    dlk_redis_end(self(backend));
    free(backend);
}

/* Where the URI leads to. */
static dlock_err set_address(dlk_redis *redis, const dlk_uri *uri, dlock_error **err)
{
    if (strcmp(uri->scheme, "redis+unix") == 0) {
        if (!dlk_address_unix(uri->path, &redis->commands.link.to))
            return dlk_error_set(
                err, DLOCK_EINVAL,
                "redis+unix: the path of the socket must have 1 to 107 bytes");
        redis->peer = strdup(uri->path);
        dlk_redis_aim_links(redis);
        return redis->peer ? DLOCK_OK : dlk_error_nomem(err);
    }
    if (uri->host_count != 1)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "redis: one host is expected, as in redis://host:6379, not %zu",
            uri->host_count);
    const dlk_uri_host *at = &uri->hosts[0];
    return dlk_redis_aim(redis, at->host, at->port ? at->port : DLK_REDIS_PORT)
               ? DLOCK_OK
               : dlk_error_nomem(err);
}

/* A name that nobody uses, for checking rights; where names have a prefix, below that. */
static bool set_probe(dlk_redis *redis)
{
    const char *prefix = dlk_settings_text(redis->settings, DLK_KEY_CLIENT_PREFIX);
    const dlk_redis_form *mutex = redis->mutex;
    if (asprintf(&redis->probe_key, "%sprobe", prefix[0] ? prefix : "dlock:") < 0)
        redis->probe_key = NULL;
    if (redis->probe_key)
        redis->probe_channel = mutex->notifies || redis->notify
                                   ? dlk_redis_derive(mutex->channel, redis->probe_key)
                                   : strdup("");
    return redis->probe_channel != NULL;
}

static int64_t ns_of(const dlk_settings *settings, dlk_key_id id)
{
    return dlk_settings_int(settings, id) * DLK_NS_PER_MS;
}

static void set_links(dlk_redis *redis, const dlk_settings *settings)
{
    dlk_host *host = redis->base.host;
    redis->links = (dlk_link_common){.service = "redis",
                                     .plain = "redis://",
                                     .hint = ": does it expect TLS (rediss://)?"};
    dlk_links_lend(&redis->links, host);
    dlk_link_settings(&redis->links, settings);
}

static dlock_err set_up(dlk_redis *redis, const dlk_uri *uri,
                        const dlk_settings *settings, dlock_error **err)
{
    redis->settings = dlk_settings_copy(settings);
    redis->timeout_ns = ns_of(settings, DLK_KEY_CLIENT_TIMEOUT_MS);
    set_links(redis, settings);
    redis->notify = dlk_settings_int(settings, DLK_KEY_REDIS_NOTIFY);
    redis->retry_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_RETRY_MS);
    redis->poll_only =
        dlk_settings_int(settings, DLK_KEY_REDIS_WAIT) == DLK_REDIS_WAIT_POLL;
    redis->owner_size = strlen(redis->base.host->uuid) + 1;
    assert(redis->owner_size <= sizeof(redis->owner));
    memcpy(redis->owner, redis->base.host->uuid, redis->owner_size - 1);
    redis->owner[redis->owner_size - 1] = ':';
    bool fine = dlk_redis_connection_init(&redis->commands, redis, &ops, take_reply);
    fine = dlk_redis_subscriber_init(redis) && fine;
    if (!redis->settings || !fine || !set_probe(redis))
        return dlk_error_nomem(err);
    if (strncmp(uri->scheme, "rediss", 6) == 0)
        return dlk_tls_new(settings, &redis->links.tls, err);
    return DLOCK_OK;
}

dlock_err dlk_redis_begin(dlk_redis *redis, const dlk_backend_type *type, dlk_host *host,
                          const dlk_uri *uri, const dlk_settings *settings,
                          const dlk_redis_layout *layout, dlock_error **err)
{
    /* meson.build and layout.h name the same forms. */
    assert(dlk_redis_script_count ==
           DLK_SCRIPT_FORMS + DLK_FORM_COUNT * (DLK_SCRIPT_COUNT + 1));
    redis->layout = layout;
    redis->tells = host->told && dlk_settings_int(settings, DLK_KEY_REDIS_CLIENT_KEY);
    dlk_redis_circles_begin(redis, settings);
    redis->mutex = dlk_redis_form_of(redis->layout, settings, DLOCK_MUTEX, false, NULL);
    if (!redis->mutex) /* no fair one: said when it is asked for */
        redis->mutex = redis->layout->forms;
    redis->base = (dlk_backend){.type = type, .host = host};
    dlk_list_init(&redis->renewals);
    dlk_list_init(&redis->resting);
    dlk_flight_init(&redis->flight, host);
    return set_up(redis, uri, settings, err);
}

static dlock_err open_with(dlk_host *host, const dlk_uri *uri,
                           const dlk_settings *settings, const dlk_redis_layout *layout,
                           dlk_backend **ret, dlock_error **err)
{
    dlk_redis *redis = calloc(1, sizeof(*redis));
    if (!redis)
        return dlk_error_nomem(err);
    dlock_err code =
        dlk_redis_begin(redis, &dlk_redis_backend, host, uri, settings, layout, err);
    if (code == DLOCK_OK)
        code = set_address(redis, uri, err);
    if (code != DLOCK_OK) {
        redis_free(&redis->base);
        return code;
    }
    *ret = &redis->base;
    return DLOCK_OK;
}

static dlock_err redis_open(dlk_host *host, const dlk_uri *uri,
                            const dlk_settings *settings, dlk_backend **ret,
                            dlock_error **err)
{
    return open_with(host, uri, settings, dlk_redis_layout_of(settings), ret, err);
}

dlock_err dlk_redis_open_node(dlk_host *host, const dlk_uri *uri,
                              const dlk_settings *settings, dlk_backend **ret,
                              dlock_error **err)
{
    bool fencing = dlk_settings_int(settings, DLK_KEY_REDLOCK_FENCING) != 0;
    return open_with(host, uri, settings, dlk_redis_node_layout(fencing), ret, err);
}

/* ---- Start, stop, fork ---- */

static void redis_start(dlk_backend *backend, int64_t now)
{
    dlk_link_start(&self(backend)->commands.link, now);
}

static void redis_stop(dlk_backend *backend)
{
    dlk_redis *redis = self(backend);
    redis->stopped = true;
    put_renewals(redis);
    dlk_redis_client_key_remove(redis);
    dlk_link_last_words(&redis->commands.link);
    dlock_error *why = dlk_error_make(DLOCK_EUNAVAIL, "redis: the connection is closed");
    dlk_redis_rest(redis, why);
    dlk_error_clear(&why);
}

void dlk_redis_rest(dlk_redis *redis, const dlock_error *why)
{
    dlk_redis_subscriber_stop(redis);
    dlk_link_stop(&redis->commands.link);
    dlk_error_clear(&redis->why_down);
    redis->why_down = dlk_error_copy(why);
    dlk_redis_asks_fail(redis, why);
}

static int64_t redis_tick(dlk_backend *backend, int64_t now)
{
    dlk_redis *redis = self(backend);
    int64_t telling = dlk_redis_told_tick(redis, now);
    int64_t circles = dlk_redis_circles_tick(redis, now);
    int64_t lists = dlk_redis_list_tick(redis, now);
    int64_t answers = dlk_redis_asks_tick(redis, now);
    int64_t commands = dlk_link_tick(&redis->commands.link, now);
    int64_t messages = dlk_redis_subscriber_tick(redis, now);
    int64_t by_ourselves = telling < lists ? telling : lists;
    by_ourselves = circles < by_ourselves ? circles : by_ourselves;
    int64_t next = answers < commands ? answers : commands;
    next = next < messages ? next : messages;
    return next < by_ourselves ? next : by_ourselves;
}

/* ---- The driver's steps ---- */

bool dlk_redis_expects(const dlk_redis *redis)
{
    return redis->subscriber.connection.link.polled < 0 &&
           redis->commands.link.phase == DLK_LINK_READY &&
           !dlk_flight_is_empty(&redis->flight);
}

static void redis_arm(dlk_backend *backend, dlk_polls *polls)
{
    dlk_redis *redis = self(backend);
    put_renewals(redis);
    dlk_link_arm(&redis->commands.link, polls);
    dlk_link_arm(&redis->subscriber.connection.link, polls);
    dlk_redis_subscriber_arm(redis);
    redis->expects = dlk_redis_expects(redis);
    if (!dlk_list_empty(&redis->subscriber.to_tell))
        polls->doze = false;
}

static void redis_push(dlk_backend *backend, dlk_polls *polls)
{
    dlk_redis *redis = self(backend);
    dlk_link_push(&redis->commands.link, polls);
    dlk_link_push(&redis->subscriber.connection.link, polls);
}

_Static_assert(DLK_STREAM_WAIT_MS <= DLK_EXPECT_MS, "an expect takes no longer");

/* Most answers come at once: a read that waits costs less than a poll and a read. */
static bool redis_expect(dlk_backend *backend, const dlk_polls *polls)
{
    dlk_redis *redis = self(backend);
    return redis->expects &&
           dlk_polls_events(polls, redis->commands.link.polled) == POLLIN &&
           dlk_stream_wait(&redis->commands.link.stream);
}

static void redis_pull(dlk_backend *backend, dlk_polls *polls)
{
    dlk_redis *redis = self(backend);
    dlk_link_pull(&redis->commands.link, polls);
    dlk_link_pull(&redis->subscriber.connection.link, polls);
}

/* Messages need somebody who listens all the time, and what lies in TLS no poller sees. */
static bool redis_wires(const dlk_backend *backend, int *fds, size_t *ret_count)
{
    const dlk_redis *redis = (const dlk_redis *)backend;
    *ret_count = 0;
    if (redis->links.tls)
        return false;
    if (redis->commands.link.phase == DLK_LINK_READY &&
        redis->subscriber.connection.link.phase == DLK_LINK_OFF)
        fds[(*ret_count)++] = atomic_load(&redis->commands.link.stream.fd);
    return true;
}

static void redis_process(dlk_backend *backend, int64_t now)
{
    dlk_redis *redis = self(backend);
    dlk_link_process(&redis->commands.link, now);
    dlk_link_process(&redis->subscriber.connection.link, now);
    redis->base.host->rest = redis->commands.link.stream.rest;
    dlk_redis_subscriber_process(redis, now);
}

static void redis_flush(dlk_backend *backend)
{
    dlk_redis *redis = self(backend);
    pthread_mutex_t *mutex = redis->base.host->mutex;
    bool done = true;
    put_renewals(redis);
    if (redis->commands.link.phase == DLK_LINK_READY)
        done = dlk_stream_flush(&redis->commands.link.stream, mutex);
    if (redis->subscriber.connection.link.phase == DLK_LINK_READY)
        done = dlk_stream_flush(&redis->subscriber.connection.link.stream, mutex) && done;
    if (!done)
        dlk_redis_leave_rest(redis);
}

void dlk_redis_leave_rest(dlk_redis *redis)
{
    redis->base.host->rest = true;
    dlk_redis_wake(redis);
}

bool dlk_redis_has_kind(const dlk_settings *settings, dlock_kind kind)
{
    bool shared = kind == DLOCK_READ;
    return dlk_redis_form_of(dlk_redis_layout_of(settings), settings,
                             shared ? DLOCK_WRITE : kind, shared, NULL) != NULL;
}

/* Whoever keeps a lock has to be asked for it, by those who stand in a line. */
void dlk_redis_adapt(const dlk_settings *settings, dlk_traits *traits)
{
    const dlk_redis_form *mutex = dlk_redis_form_of(dlk_redis_layout_of(settings),
                                                    settings, DLOCK_MUTEX, false, NULL);
    const dlk_redis_form *first = dlk_redis_layout_of(settings)->forms;
    /* where the server's key doesn't say who has a lock, what is told can't be checked */
    traits->tells &= dlk_settings_int(settings, DLK_KEY_REDIS_CLIENT_KEY) != 0 &&
                     !first->by_clocks && !first->slots;
    traits->keeps = mutex && mutex->hands_over;
    if (!traits->keeps)
        traits->no_keep =
            "only locks that the server hands over are: redis.layout=redisson, "
            "redis.handover=true and redis.wait=pubsub, without lock.fair and "
            "redis.wait_replicas";
}

static const char *const schemes[] = {"redis", "rediss", "redis+unix", NULL};

const dlk_backend_type dlk_redis_backend = {
    .name = "redis",
    .schemes = schemes,
    .traits = {.class = DLK_REQUIRE_FENCING, .tells = true, DLK_REDIS_TRAITS},
    .open = redis_open,
    .start = redis_start,
    .stop = redis_stop,
    .free = redis_free,
    .ask = dlk_redis_ask,
    .tick = redis_tick,
    .arm = redis_arm,
    .process = redis_process,
    .key_open = dlk_redis_key_open,
    .key_close = dlk_redis_key_close,
    .adapt = dlk_redis_adapt,
    .has_kind = dlk_redis_has_kind,
    .watch = dlk_redis_watch,
    .listen = dlk_redis_listen,
    .push = redis_push,
    .pull = redis_pull,
    .expect = redis_expect,
    .flush = redis_flush,
    .wires = redis_wires,
};
