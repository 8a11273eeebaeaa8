/* The client of libdlock/backends/redis around each simulated client: its host, its driver, and
 * what it is asked. */
#include "sim.h"

#include "backends/redis/keys.h"
#include "backends/redis/redis.h"
#include "util/error.h"
#include "util/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void end_detours(client *c);

dlk_redis *redis_of(const client *c)
{
    return (dlk_redis *)c->backend;
}

/* ---- its life ---- */

static void redis_join(client *c)
{
    life_join(c, "redis://127.0.0.1:1");
    dlk_list_init(&c->detours);
}

static void redis_stop(client *c)
{
    c->connected = false; /* what is asked from now on takes no way at all */
    end_detours(c);
    life_stop(c);
}

static int64_t redis_after(client *c)
{
    const dlk_redis *redis = redis_of(c);
    life_flush(c);
    /* The driver writes what isn't for others to write: a greeting. */
    if (!dlk_list_empty(&redis->subscriber.to_tell) ||
        dlk_buf_size(&redis->commands.link.stream.out) > 0 ||
        dlk_buf_size(&redis->subscriber.connection.link.stream.out) > 0)
        life_wake(c);
    return redis->flight.deadline;
}

/* ---- what it is asked ---- */

/* In a cluster whose slots move: the node that is asked first says who has the slot by now, and the
 * request is sent on to that one, where others of the same lock may have arrived meanwhile. Nothing
 * breaks over it, and the answer comes as ever. (The nodes that have the slot are one server here.) */
typedef struct detour {
    dlk_list link; /* in client->detours */
    event event;
    client *of;
    dlk_ask *ask;
} detour;

static dlk_ask *end_detour(detour *d)
{
    dlk_ask *ask = d->ask;
    dlk_list_remove(&d->link);
    event_cancel(&d->event);
    free(d);
    return ask;
}

static void end_detours(client *c)
{
    dlk_list *first;
    while ((first = dlk_list_first(&c->detours))) {
        dlk_ask *ask = end_detour(DLK_LIST_ITEM(first, detour, link));
        ask->reply = DLK_NOT_SENT;
        c->host.answered(&c->host, ask);
    }
}

static void run_detour(event *e)
{
    detour *d = e->of;
    client *c = d->of;
    if (client_put_off(c, e))
        return;
    dlk_ask *ask = end_detour(d);
    AS(c, dlk_redis_backend.ask(c->backend, ask, client_time(c)));
    if (ask->reply != DLK_PENDING)
        c->host.answered(&c->host, ask);
    client_after(c);
}

static bool takes_detour(client *c, dlk_ask *ask)
{
    if (!kind_moves() || !ask->key || !c->connected || s.ending || !chance(&c->rand, 60))
        return false;
    detour *d = calloc(1, sizeof(*d));
    if (!d)
        abort();
    *d = (detour){.of = c, .ask = ask};
    dlk_list_append(&c->detours, &d->link);
    event_at(&d->event, s.now + between(&c->rand, 100 * 1000, 300 * MS), run_detour, d);
    tell(c->index, ask->key->name[0] - 'a', "its %s #%llu is sent on",
         verb_name(ask->verb), (unsigned long long)ask->number);
    ask->reply = DLK_PENDING;
    return true;
}

static void redis_ask(client *c, dlk_ask *ask, int64_t now)
{
    if (c->dead || !takes_detour(c, ask))
        life_ask(c, ask, now);
}

static void redis_watch(client *c, dlk_key *key, bool on, int64_t now)
{
    AS(c, dlk_redis_backend.watch(c->backend, key, on, now));
}

static bool redis_idle(const client *c)
{
    return dlk_flight_is_empty(&redis_of(c)->flight) && dlk_list_empty(&c->detours);
}

/* It would be told at once that somebody has released something. */
bool redis_hears(const client *c)
{
    const wire *w = c->wires[WIRE_MESSAGES];
    return w && w->state == WIRE_UP && !w->silent && !w->deaf && is_calm(w->up_since);
}

static bool attends(int name)
{
    return !kind_is_fair() || lines_attend(name);
}

const service redis_service = {
    .type = &dlk_redis_backend,
    .begin = server_begin,
    .end = server_end,
    .join = redis_join,
    .start = life_start,
    .stop = redis_stop,
    .free = life_free,
    .key_open = life_key_open,
    .key_close = life_key_close,
    .ask = redis_ask,
    .watch = redis_watch,
    .tick = life_tick,
    .wake = life_wake,
    .after = redis_after,
    .idle = redis_idle,
    .hears = redis_hears,
    .cut = net_cut,
    .cut_news = net_cut_news,
    .silence = net_silence,
    .is_quiet = net_is_quiet,
    .died = net_died,
    .spurious = net_spurious,
    .fault = server_fault,
    .holders = server_holders,
    .attends = attends,
    .check_rest = server_check_rest,
};
