/* The client of libdlock/backends/etcd around each simulated client. */
#include "etcd/model.h"

#include "backends/etcd/etcd.h"

#include <stdio.h>
#include <stdlib.h>

dlk_etcd *etcd_of(const client *c)
{
    return (dlk_etcd *)c->backend;
}

/* ---- its life ---- */

static void join(client *c)
{
    static const int64_t leases_ms[] = {1000, 2000, 4000, 8000};
    char ttl[24];
    c->session_ms = leases_ms[between(&c->rand, 0, 3)];
    (void)snprintf(ttl, sizeof(ttl), "%lld", (long long)c->session_ms); /* fits */
    c->settings = settings_of(s.config.kind);
    if (dlk_settings_set(c->settings, "lock.ttl_ms", ttl, NULL) != DLOCK_OK)
        abort();
    life_join(c, "etcd://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
}

static int dials(const client *c, const struct dlk_dial *dial)
{
    (void)dial;
    tell(c->index, ALL_NAMES, "turns to member %zu", etcd_of(c)->host);
    return (int)etcd_of(c)->host;
}

static void key_close(client *c, dlk_key *key)
{
    AS(c, dlk_etcd_backend.key_close(c->backend, key));
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
    life_ask(c, ask, now);
    if (ask->reply != DLK_PENDING)
        host_count(c, ask);
    else if (ask->deadline < c->process.next_tick)
        c->process.next_tick = ask->deadline;
}

static void watch(client *c, dlk_key *key, bool on, int64_t now)
{
    AS(c, dlk_etcd_backend.watch(c->backend, key, on, now));
}

/* Its driver has something to do: to write a greeting, to take out what is over, or to find out that
 * there is no connection any more. */
static bool is_to_be_driven(const client *c)
{
    const dlk_etcd_calls *calls = &etcd_of(c)->calls;
    const wire *w = c->wires[etcd_of(c)->host];
    bool gone = w && w->state == WIRE_CUT;
    return (gone && dlk_link_is_connected(&calls->link)) || calls->link.doom ||
           !dlk_list_empty(&calls->over) || dlk_buf_size(&calls->link.stream.out) > 0;
}

/* Whoever asks writes it, too. */
static int64_t after(client *c)
{
    if (!c->backend || c->dead)
        return DLK_NEVER;
    life_flush(c);
    if (is_to_be_driven(c))
        life_wake(c);
    return DLK_NEVER;
}

static bool idle(const client *c)
{
    return dlk_flight_is_empty(&etcd_of(c)->base.flight);
}

const service etcd_service = {
    .type = &dlk_etcd_backend,
    .begin = etcd_begin,
    .end = etcd_end,
    .heal = etcd_heal,
    .join = join,
    .start = life_start,
    .stop = life_stop,
    .free = life_free,
    .key_open = life_key_open,
    .key_close = key_close,
    .ask = ask_it,
    .watch = watch,
    .tick = life_tick,
    .wake = life_wake,
    .after = after,
    .dials = dials,
    .sent = etcd_sent,
    .idle = idle,
    .hears = etcd_hears,
    .cut = net_cut,
    .cut_news = etcd_cut_news,
    .silence = net_silence,
    .is_quiet = net_is_quiet,
    .died = net_died,
    .spurious = etcd_spurious,
    .fault = etcd_fault,
    .holders = etcd_holders,
    .told = etcd_told,
    .watchdog = etcd_watchdog,
    .attends = etcd_attends,
    .check_rest = etcd_check_rest,
};
