/*
 * The backend for memcached: what the pieces in this folder make together.
 *
 * Nobody is told when a lock becomes free: each answer that says "held" says when to ask again.
 */
#include "backends/memcached/memcached.h"

#include "backends/memcached/inner.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 11211

static dlk_mc *self(dlk_backend *backend)
{
    return (dlk_mc *)backend;
}

/* ---- open, free ---- */

static void mc_free(dlk_backend *backend)
{
    dlk_mc *mc = self(backend);
    dlk_link_free(&mc->link);
    dlk_tls_free(mc->links.tls);
    dlk_buf_free(&mc->rest);
    dlk_settings_free(mc->settings);
    dlk_error_clear(&mc->why_down);
    dlk_buf_free(&mc->value);
    free(mc->host);
    free(mc->peer);
    free(mc);
}

static dlock_err set_address(dlk_mc *mc, const dlk_uri *uri, dlock_error **err)
{
    if (uri->host_count != 1)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "memcached: one host is expected, as in "
                             "memcached://host:11211, not %zu",
                             uri->host_count);
    if (uri->path[0] && strcmp(uri->path, "/") != 0)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "memcached: a server has no databases or folders, so the "
                             "URI has no path");
    if (uri->user || uri->password)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "memcached: users and passwords aren't supported: keep the "
                             "server on a network of its own");
    mc->port = uri->hosts[0].port ? uri->hosts[0].port : DEFAULT_PORT;
    mc->host = strdup(uri->hosts[0].host);
    mc->peer = dlk_address_text(uri->hosts[0].host, mc->port);
    if (!mc->host || !mc->peer)
        return dlk_error_nomem(err);
    dlk_link_aim(&mc->link, mc->host, mc->port, mc->peer);
    (void)dlk_address_numeric(mc->host, mc->port, &mc->link.to); /* or a name */
    return DLOCK_OK;
}

static int64_t ns_of(const dlk_settings *settings, dlk_key_id id)
{
    return dlk_settings_int(settings, id) * DLK_NS_PER_MS;
}

static dlock_err set_up(dlk_mc *mc, const dlk_uri *uri, const dlk_settings *settings,
                        dlock_error **err)
{
    mc->settings = dlk_settings_copy(settings);
    if (!mc->settings)
        return dlk_error_nomem(err);
    mc->timeout_ns = ns_of(settings, DLK_KEY_CLIENT_TIMEOUT_MS);
    mc->retry_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_RETRY_MS);
    mc->owner_size = strlen(mc->base.host->uuid) + 1;
    assert(mc->owner_size <= sizeof(mc->owner));
    memcpy(mc->owner, mc->base.host->uuid, mc->owner_size - 1);
    mc->owner[mc->owner_size - 1] = ':';
    dlk_mc_link_init(mc);
    if (strcmp(uri->scheme, "memcacheds") == 0) {
        dlock_err code = dlk_tls_new(settings, &mc->links.tls, err);
        if (code != DLOCK_OK)
            return code;
    }
    return set_address(mc, uri, err);
}

static dlock_err mc_open(dlk_host *host, const dlk_uri *uri, const dlk_settings *settings,
                         dlk_backend **ret, dlock_error **err)
{
    dlk_mc *mc = calloc(1, sizeof(*mc));
    if (!mc)
        return dlk_error_nomem(err);
    mc->base = (dlk_backend){.type = &dlk_memcached_backend, .host = host};
    dlk_flight_init(&mc->flight, host);
    atomic_init(&mc->link.stream.fd, -1);
    dlock_err code = set_up(mc, uri, settings, err);
    if (code != DLOCK_OK) {
        mc_free(&mc->base);
        return code;
    }
    *ret = &mc->base;
    return DLOCK_OK;
}

/* ---- start, stop, fork ---- */

static void mc_start(dlk_backend *backend, int64_t now)
{
    dlk_link_start(&self(backend)->link, now);
}

static void mc_stop(dlk_backend *backend)
{
    dlk_mc *mc = self(backend);
    mc->stopped = true;
    dlk_link_last_words(&mc->link);
    dlk_link_stop(&mc->link);
    dlk_error_clear(&mc->why_down);
    mc->why_down = dlk_error_make(DLOCK_EUNAVAIL, "memcached: the connection is closed");
    dlk_mc_asks_fail(mc, mc->why_down);
}

/* ---- the driver's steps ---- */

static int64_t mc_tick(dlk_backend *backend, int64_t now)
{
    int64_t answers = dlk_mc_asks_tick(self(backend), now);
    int64_t link = dlk_link_tick(&self(backend)->link, now);
    return answers < link ? answers : link;
}

static void mc_arm(dlk_backend *backend, dlk_polls *polls)
{
    dlk_mc *mc = self(backend);
    dlk_link_arm(&mc->link, polls);
    mc->expects = mc->link.phase == DLK_LINK_READY && !dlk_flight_is_empty(&mc->flight);
}

static void mc_push(dlk_backend *backend, dlk_polls *polls)
{
    dlk_link_push(&self(backend)->link, polls);
}

_Static_assert(DLK_STREAM_WAIT_MS <= DLK_EXPECT_MS, "an expect takes no longer");

/* Most answers come at once: a read that waits costs less than a poll and a read. */
static bool mc_expect(dlk_backend *backend, const dlk_polls *polls)
{
    dlk_mc *mc = self(backend);
    return mc->expects && dlk_polls_events(polls, mc->link.polled) == POLLIN &&
           dlk_stream_wait(&mc->link.stream);
}

static void mc_pull(dlk_backend *backend, dlk_polls *polls)
{
    dlk_link_pull(&self(backend)->link, polls);
}

static void mc_process(dlk_backend *backend, int64_t now)
{
    dlk_link_process(&self(backend)->link, now);
}

void dlk_mc_wake(dlk_mc *mc)
{
    dlk_kick(mc->base.host->kicks);
}

static void mc_flush(dlk_backend *backend)
{
    dlk_mc *mc = self(backend);
    if (mc->link.phase == DLK_LINK_READY &&
        !dlk_stream_flush(&mc->link.stream, mc->base.host->mutex))
        dlk_mc_wake(mc); /* what is left has to wait for the socket: poll for it */
}

/* A release may have to read first whose the item is. */
static dlk_unsettled mc_unsettled(const dlk_backend *backend)
{
    const dlk_mc *mc = (const dlk_mc *)backend;
    DLK_LIST_FOR (it, &mc->flight.asks)
        if (DLK_LIST_ITEM(it, dlk_ask, link)->verb == DLK_RELEASE)
            return DLK_UNSETTLED_BLOCKING;
    return DLK_SETTLED;
}

static const char *const schemes[] = {"memcached", "memcacheds", NULL};

const dlk_backend_type dlk_memcached_backend = {
    .name = "memcached",
    .schemes = schemes,
    .traits =
        {
            .layout = "item",
            .class = DLK_REQUIRE_EFFICIENCY,
            .tokens = true,
            .hands_on = true,
            .margin_percent = 1,
            .margin_ms = 2,
            .no_conditions = "nobody can wait in a line there",
            .no_keep = "nobody could ask for them there",
            .kinds = {[DLOCK_MUTEX] = true,
                      [DLOCK_ELECTION] = true,
                      [DLOCK_SEMAPHORE] = true,
                      [DLOCK_READ] = true,
                      [DLOCK_WRITE] = true},
        },
    .open = mc_open,
    .start = mc_start,
    .stop = mc_stop,
    .free = mc_free,
    .ask = dlk_mc_ask,
    .tick = mc_tick,
    .arm = mc_arm,
    .process = mc_process,
    .key_open = dlk_mc_key_open,
    .key_close = dlk_mc_key_close,
    .push = mc_push,
    .pull = mc_pull,
    .expect = mc_expect,
    .flush = mc_flush,
    .unsettled = mc_unsettled,
};
