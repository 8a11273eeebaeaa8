/* The client of libdlock/backends/memcached around each simulated client. */
#include "backends/memcached/inner.h" /* before ours, whose names its parameters have */

#include "memcached/model.h"

#include "backends/memcached/memcached.h"

static dlk_mc *mc_of(const client *c)
{
    return (dlk_mc *)c->backend;
}

static int64_t after(client *c)
{
    life_flush(c);
    if (dlk_buf_size(&mc_of(c)->link.stream.out) > 0) /* the driver writes a greeting */
        life_wake(c);
    return mc_of(c)->flight.deadline;
}

/* ---- what it is told ---- */

static void (*told)(dlk_host *host, dlk_ask *ask); /* as of all services */

static void answered(dlk_host *host, dlk_ask *ask)
{
    mc_rules_answered(DLK_LIST_ITEM(host, client, host), ask);
    told(host, ask);
}

static void join(client *c)
{
    life_join(c, "memcached://127.0.0.1:1");
    told = c->host.answered;
    c->host.answered = answered;
}

/* ---- how it looks from outside ---- */

const dlk_list *mc_flight(const client *c)
{
    return &mc_of(c)->flight.asks;
}

static bool idle(const client *c)
{
    return dlk_flight_is_empty(&mc_of(c)->flight);
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
    .start = life_start,
    .stop = life_stop,
    .free = life_free,
    .key_open = life_key_open,
    .key_close = life_key_close,
    .ask = life_ask,
    .watch = life_watch_nothing,
    .tick = life_tick,
    .wake = life_wake,
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
