/* The client of libdlock/backends/memcached around each simulated client: its driver, and what it
 * is asked. */
#include "backends/memcached/inner.h" /* before ours, whose names its parameters have */

#include "memcached/model.h"

#include "backends/memcached/memcached.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>

/* As if the client's own thread ran. */
#define AS(c, call)                                                                      \
    do {                                                                                 \
        client *before_ = s.running;                                                     \
        s.running = (c);                                                                 \
        call;                                                                            \
        s.running = before_;                                                             \
    } while (0)

/* ---- its driver ---- */

static void tick(client *c)
{
    AS(c,
       c->process.next_tick = dlk_memcached_backend.tick(&c->mc->base, client_time(c)));
}

static void run_drive(event *e)
{
    client *c = e->of;
    if (client_put_off(c, e))
        return;
    dlk_backend *base = &c->mc->base;
    int64_t now = client_time(c);
    AS(c, sim_drive(base); dlk_memcached_backend.process(base, now));
    tick(c);
    client_after(c);
}

static void wake(client *c)
{
    if (!c->drive.timer.place && c->mc)
        event_at(&c->drive, s.now + between(&c->rand, 500, 50000), run_drive, c);
}

static int64_t after(client *c)
{
    if (!c->dead)
        AS(c, dlk_memcached_backend.flush(&c->mc->base));
    if (dlk_buf_size(&c->mc->link.stream.out) > 0) /* the driver writes a greeting */
        wake(c);
    return c->mc->flight.deadline;
}

/* ---- what it is told ---- */

static void (*told)(dlk_host *host, dlk_ask *ask); /* as of all services */

static void answered(dlk_host *host, dlk_ask *ask)
{
    mc_rules_answered(DLK_LIST_ITEM(host, client, host), ask);
    told(host, ask);
}

/* ---- its life ---- */

static void join(client *c)
{
    dlk_backend *backend = NULL;
    dlk_uri *uri = NULL;
    (void)snprintf(c->uuid, sizeof(c->uuid), "%08x-0000-4000-8000-%012x",
                   (unsigned)c->index, (unsigned)c->generation); /* fits */
    c->settings = settings_of(s.config.kind);
    host_begin(c);
    told = c->host.answered;
    c->host.answered = answered;
    if (dlk_uri_parse("memcached://127.0.0.1:1", &uri, NULL) != DLOCK_OK ||
        dlk_memcached_backend.open(&c->host, uri, c->settings, &backend, NULL) !=
            DLOCK_OK)
        abort();
    dlk_uri_free(uri);
    c->mc = (dlk_mc *)backend;
}

static void start(client *c)
{
    AS(c, dlk_memcached_backend.start(&c->mc->base, client_time(c)));
    wake(c);
}

static void stop(client *c)
{
    AS(c, dlk_memcached_backend.stop(&c->mc->base));
    client_digest(c);
}

static void end(client *c)
{
    event_cancel(&c->drive);
    AS(c, dlk_memcached_backend.free(&c->mc->base));
    dlk_settings_free(c->settings);
    dlk_error_clear(&c->process.link_error);
    c->mc = NULL;
    c->settings = NULL;
}

static void key_open(client *c, dlk_key *key)
{
    key->settings = c->settings;
    if (dlk_memcached_backend.key_open(&c->mc->base, key, NULL) != DLOCK_OK)
        abort();
}

static void key_close(client *c, dlk_key *key)
{
    dlk_memcached_backend.key_close(&c->mc->base, key);
}

/* ---- what it is asked ---- */

static void ask_it(client *c, dlk_ask *ask, int64_t now)
{
    ask->reply = DLK_NOT_SENT;
    if (!c->dead)
        AS(c, dlk_memcached_backend.ask(&c->mc->base, ask, now));
}

static void watch(client *c, dlk_key *key, bool on, int64_t now)
{
    (void)c, (void)key, (void)on, (void)now; /* nobody tells of a release */
}

/* ---- how it looks from outside ---- */

const dlk_list *mc_flight(const client *c)
{
    return &c->mc->flight.asks;
}

static bool idle(const client *c)
{
    return dlk_flight_is_empty(&c->mc->flight);
}

static bool hears(const client *c)
{
    return is_calm(c->up_since); /* whoever waits looks often enough */
}

static bool attends(int name)
{
    (void)name; /* nobody stands in a line */
    return true;
}

static void check_left(void)
{
    for (int n = 0; n < s.config.names; n++)
        if (mc_item_of(n) && s.now >= s.orphans_until[n])
            violated(n, "the item %c is left behind", 'a' + n);
}

const service mc_service = {
    .type = &dlk_memcached_backend,
    .begin = mc_begin,
    .end = mc_end,
    .heal = mc_heal,
    .join = join,
    .start = start,
    .stop = stop,
    .free = end,
    .key_open = key_open,
    .key_close = key_close,
    .ask = ask_it,
    .watch = watch,
    .tick = tick,
    .wake = wake,
    .after = after,
    .idle = idle,
    .hears = hears,
    .cut = net_cut,
    .cut_news = net_cut_news,
    .silence = net_silence,
    .is_quiet = net_is_quiet,
    .died = net_died,
    .spurious = net_spurious,
    .fault = mc_fault,
    .holders = mc_holders,
    .attends = attends,
    .check_rest = check_left,
};
