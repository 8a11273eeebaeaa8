/* The client of libdlock/backends/zookeeper around each simulated client: its driver, which
 * sleeps on the inbox' bell, and what it is asked. */
#include "zookeeper/model.h"

#include "backends/zookeeper/zookeeper.h"
#include "util/error.h"
#include "zookeeper/seam.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the bell ---- */

static bool is_bell(const client *c, const dlk_futex *word)
{
    return c->zk && &c->zk->inbox->bell == word;
}

void sim_bell_wait(dlk_futex *word)
{
    if (!s.running || !is_bell(s.running, word))
        abort(); /* for the wires to be gone: they are when they are closed */
    s.running->process.parked = word;
}

void sim_bell_wake(dlk_futex *word)
{
    for (int i = 0; i < s.config.clients; i++)
        if (is_bell(&s.clients[i], word) && s.clients[i].process.parked)
            zk_wake(&s.clients[i]);
}

/* ---- the driver ---- */

static void run_drive(event *e);

void zk_wake(client *c)
{
    if (!c->drive.timer.place && c->zk)
        event_at(&c->drive, s.now + between(&c->rand, 500, 50000), run_drive, c);
}

/* It goes to sleep, unless the bell has rung since it looked. */
static void park(client *c)
{
    c->process.parked = NULL;
    AS(c, dlk_zk_backend.arm(&c->zk->base.backend, NULL);
       dlk_zk_backend.sleep(&c->zk->base.backend, DLK_NEVER, 0));
    if (c->process.parked)
        atomic_store(&c->zk->inbox->asleep, true); /* as it believes: it isn't back yet */
    else
        zk_wake(c);
}

static void tick(client *c)
{
    AS(c,
       c->process.next_tick = dlk_zk_backend.tick(&c->zk->base.backend, client_time(c)));
}

static void run_drive(event *e)
{
    client *c = e->of;
    if (client_put_off(c, e))
        return;
    atomic_store(&c->zk->inbox->asleep, false);
    AS(c, dlk_zk_backend.process(&c->zk->base.backend, client_time(c)));
    tick(c);
    client_after(c);
    park(c);
}

/* ---- its life ---- */

static void join(client *c)
{
    static const int64_t timeouts_ms[] = {1000, 2000, 4000, 8000};
    dlk_backend *backend = NULL;
    dlk_uri *uri = NULL;
    char ttl[24];
    (void)snprintf(c->uuid, sizeof(c->uuid), "%08x-0000-4000-8000-%012x",
                   (unsigned)c->index, (unsigned)c->generation); /* fits */
    c->session_ms = timeouts_ms[between(&c->rand, 0, 3)];
    (void)snprintf(ttl, sizeof(ttl), "%lld", (long long)c->session_ms); /* fits */
    c->settings = settings_of(s.config.kind);
    if (dlk_settings_set(c->settings, "lock.ttl_ms", ttl, NULL) != DLOCK_OK)
        abort();
    host_begin(c);
    if (dlk_uri_parse("zookeeper://127.0.0.1:1", &uri, NULL) != DLOCK_OK ||
        dlk_zk_backend.open(&c->host, uri, c->settings, &backend, NULL) != DLOCK_OK)
        abort();
    dlk_uri_free(uri);
    c->zk = (dlk_zk *)backend;
}

static void start(client *c)
{
    AS(c, dlk_zk_backend.start(&c->zk->base.backend, client_time(c)));
    tick(c);
    park(c);
}

static void stop(client *c)
{
    AS(c, dlk_zk_backend.stop(&c->zk->base.backend));
    client_digest(c);
}

static void end(client *c)
{
    event_cancel(&c->drive);
    AS(c, dlk_zk_backend.free(&c->zk->base.backend));
    dlk_settings_free(c->settings);
    dlk_error_clear(&c->process.link_error);
    c->zk = NULL;
    c->settings = NULL;
    c->process.parked = NULL;
}

static void key_open(client *c, dlk_key *key)
{
    key->settings = c->settings;
    if (dlk_zk_backend.key_open(&c->zk->base.backend, key, NULL) != DLOCK_OK)
        abort();
}

static void key_close(client *c, dlk_key *key)
{
    AS(c, dlk_zk_backend.key_close(&c->zk->base.backend, key));
}

/* ---- what it is asked ---- */

/* A fault at a request hits one of those that it comes to, the first ones mostly. */
static void plan_strike(client *c, fault what, step at, int name)
{
    if (what == FAULT_NONE || c->strike != FAULT_NONE)
        return;
    c->strike = what;
    c->strike_at = at;
    c->asking = name;
    c->points_left = (int)between(&c->rand, 0, 3);
}

static void ask_it(client *c, dlk_ask *ask, int64_t now)
{
    ask->reply = DLK_NOT_SENT;
    if (c->dead)
        return;
    int name = ask->key->name[0] - 'a';
    step at = step_of(ask);
    plan_strike(c, fault_draw(c, at), at, name);
    AS(c, dlk_zk_backend.ask(&c->zk->base.backend, ask, now));
    if (ask->reply != DLK_PENDING)
        host_count(c, ask);
    else if (ask->deadline < c->process.next_tick)
        c->process.next_tick = ask->deadline;
}

static void watch(client *c, dlk_key *key, bool on, int64_t now)
{
    AS(c, dlk_zk_backend.watch(&c->zk->base.backend, key, on, now));
}

static int64_t after(client *c)
{
    (void)c; /* what is asked is sent at once, and its deadline noted */
    return DLK_NEVER;
}

/* ---- how it looks from outside ---- */

static bool idle(const client *c)
{
    return dlk_flight_is_empty(&c->zk->base.flight);
}

static bool hears(const client *c)
{
    return zk_is_well(c) && is_calm(c->up_since);
}

static void cut_news(client *c)
{
    (void)c; /* they come by the same connection */
}

const service zk_service = {
    .type = &dlk_zk_backend,
    .begin = zk_begin,
    .end = zk_end,
    .heal = zk_heal,
    .join = join,
    .start = start,
    .stop = stop,
    .free = end,
    .key_open = key_open,
    .key_close = key_close,
    .ask = ask_it,
    .watch = watch,
    .tick = tick,
    .after = after,
    .idle = idle,
    .hears = hears,
    .cut = zk_cut,
    .cut_news = cut_news,
    .silence = zk_silence,
    .is_quiet = zk_is_quiet,
    .died = zk_died,
    .spurious = zk_spurious,
    .fault = zk_fault,
    .holders = zk_holders,
    .watchdog = zk_watchdog,
    .attends = zk_attends,
    .check_rest = zk_check_rest,
};
