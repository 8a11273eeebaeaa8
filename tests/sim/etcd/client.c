/* The client of libdlock/backends/etcd around each simulated client: its driver, which
 * is woken when a call is over, and what it is asked. */
#include "etcd/model.h"

#include "backends/etcd/etcd.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the driver ---- */

static void tick(client *c)
{
    AS(c, c->process.next_tick =
              dlk_etcd_backend.tick(&c->et->base.backend, client_time(c)));
}

static void run_drive(event *e)
{
    client *c = e->of;
    if (client_put_off(c, e))
        return;
    AS(c, dlk_etcd_backend.process(&c->et->base.backend, client_time(c)));
    tick(c);
    client_after(c);
}

void etcd_wake(client *c)
{
    if (c && c->et && !c->drive.timer.place)
        event_at(&c->drive, s.now + between(&c->rand, 500, 50000), run_drive, c);
}

/* ---- its life ---- */

static void join(client *c)
{
    static const int64_t leases_ms[] = {1000, 2000, 4000, 8000};
    dlk_backend *backend = NULL;
    dlk_uri *uri = NULL;
    dlock_err code = DLOCK_EINVAL;
    char ttl[24];
    (void)snprintf(c->uuid, sizeof(c->uuid), "%08x-0000-4000-8000-%012x",
                   (unsigned)c->index, (unsigned)c->generation); /* fits */
    c->session_ms = leases_ms[between(&c->rand, 0, 3)];
    (void)snprintf(ttl, sizeof(ttl), "%lld", (long long)c->session_ms); /* fits */
    c->settings = settings_of(s.config.kind);
    if (dlk_settings_set(c->settings, "lock.ttl_ms", ttl, NULL) != DLOCK_OK)
        abort();
    host_begin(c);
    if (dlk_uri_parse("etcd://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", &uri, NULL) ==
        DLOCK_OK)
        AS(c, code = dlk_etcd_backend.open(&c->host, uri, c->settings, &backend, NULL));
    if (code != DLOCK_OK)
        abort();
    dlk_uri_free(uri);
    c->et = (dlk_etcd *)backend;
}

static void start(client *c)
{
    AS(c, dlk_etcd_backend.start(&c->et->base.backend, client_time(c)));
    tick(c);
}

static void stop(client *c)
{
    AS(c, dlk_etcd_backend.stop(&c->et->base.backend));
    client_digest(c);
}

static void end(client *c)
{
    event_cancel(&c->drive);
    AS(c, dlk_etcd_backend.free(&c->et->base.backend));
    dlk_settings_free(c->settings);
    dlk_error_clear(&c->process.link_error);
    c->et = NULL;
    c->settings = NULL;
}

static void key_open(client *c, dlk_key *key)
{
    key->settings = c->settings;
    if (dlk_etcd_backend.key_open(&c->et->base.backend, key, NULL) != DLOCK_OK)
        abort();
}

static void key_close(client *c, dlk_key *key)
{
    AS(c, dlk_etcd_backend.key_close(&c->et->base.backend, key));
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
    c->points_left = (int)between(&c->rand, 0, 2);
}

static void ask_it(client *c, dlk_ask *ask, int64_t now)
{
    ask->reply = DLK_NOT_SENT;
    if (c->dead)
        return;
    step at = step_of(ask);
    plan_strike(c, fault_draw(c, at), at, ask->key->name[0] - 'a');
    AS(c, dlk_etcd_backend.ask(&c->et->base.backend, ask, now));
    if (ask->reply != DLK_PENDING)
        host_count(c, ask);
    else if (ask->deadline < c->process.next_tick)
        c->process.next_tick = ask->deadline;
}

static void watch(client *c, dlk_key *key, bool on, int64_t now)
{
    AS(c, dlk_etcd_backend.watch(&c->et->base.backend, key, on, now));
}

/* Whoever asks writes it, too. What was told meanwhile is to be digested by who is
 * woken. */
static int64_t after(client *c)
{
    if (c->et && !c->dead)
        AS(c, (void)dlk_etcd_wire_flush(&c->et->wire));
    return DLK_NEVER;
}

static bool idle(const client *c)
{
    return dlk_flight_is_empty(&c->et->base.flight);
}

const service etcd_service = {
    .type = &dlk_etcd_backend,
    .begin = etcd_begin,
    .end = etcd_end,
    .heal = etcd_heal,
    .join = join,
    .start = start,
    .stop = stop,
    .free = end,
    .key_open = key_open,
    .key_close = key_close,
    .ask = ask_it,
    .watch = watch,
    .tick = tick,
    .wake = etcd_wake,
    .after = after,
    .idle = idle,
    .hears = etcd_hears,
    .cut = etcd_cut,
    .cut_news = etcd_cut_news,
    .silence = etcd_silence,
    .is_quiet = etcd_is_quiet,
    .died = etcd_died,
    .spurious = etcd_spurious,
    .fault = etcd_fault,
    .holders = etcd_holders,
    .told = etcd_told,
    .watchdog = etcd_watchdog,
    .attends = etcd_attends,
    .check_rest = etcd_check_rest,
};
