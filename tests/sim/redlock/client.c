/* A simulated client's end: the client of libdlock/backends/redlock, and in it those of
 * libdlock/backends/redis, one for each node. */
#include "redlock/model.h"

#include "backends/redlock/redlock.h"

#include <inttypes.h>
#include <stdio.h>

static dlk_redlock *redlock_of(const client *c)
{
    return (dlk_redlock *)c->backend;
}

static dlk_redis *node_of(const client *c, int node)
{
    return (dlk_redis *)redlock_of(c)->nodes[node].backend;
}

const dlk_list *redlock_flight(const client *c, int node)
{
    return &node_of(c, node)->flight.asks;
}

static int dials(const client *c, const dlk_dial *dial)
{
    int node = 0;
    while (node + 1 < s.node_count && dial != &node_of(c, node)->commands.link.dial)
        node++;
    return node;
}

uint64_t redlock_number(const client *c, uint64_t known)
{
    char owner[DLK_UUID_SIZE + 24];
    (void)snprintf(owner, sizeof(owner), "%s:%" PRIu64, c->uuid, known); /* fits */
    uint64_t number = dlk_claim_number_of(redlock_of(c), owner);
    return number || known > DLK_REDLOCK_ALIASES ? number : known;
}

/* What goes to a node says nothing of the grant that it is for. */
step redlock_step_of(const client *c, const dlk_ask *ask)
{
    uint64_t number = redlock_number(c, ask->number);
    if (ask->verb != DLK_RELEASE)
        return step_of(ask);
    DLK_LIST_FOR (it, &c->core.grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (grant->number == number && atomic_load(&grant->state) != 0)
            return STEP_RELEASE;
    }
    return STEP_CANCEL;
}

/* ---- its life ---- */

static void join(client *c)
{
    life_join(c, s.node_count == 3
                     ? "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
                     : "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4,"
                       "127.0.0.1:5");
}

/* What its rounds lead to is the driver's to see to, as the engine's thread does. */
static void ask_it(client *c, dlk_ask *ask, int64_t now)
{
    life_ask(c, ask, now);
    life_wake(c);
}

static int64_t after(client *c)
{
    int64_t first = DLK_NEVER;
    life_flush(c);
    for (int i = 0; i < s.node_count; i++) {
        const dlk_redis *node = node_of(c, i);
        if (dlk_buf_size(&node->commands.link.stream.out) > 0)
            life_wake(
                c); /* the driver writes what isn't for others to write: a greeting */
        first = node->flight.deadline < first ? node->flight.deadline : first;
    }
    return first;
}

/* ---- how it looks from outside ---- */

static bool idle(const client *c)
{
    for (int i = 0; i < s.node_count; i++)
        if (!dlk_flight_is_empty(&node_of(c, i)->flight))
            return false;
    return true;
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

const service redlock_service = {
    .type = &dlk_redlock_backend,
    .begin = redlock_begin,
    .end = redlock_end,
    .heal = redlock_heal,
    .join = join,
    .start = life_start,
    .stop = life_stop,
    .free = life_free,
    .key_open = life_key_open,
    .key_close = life_key_close,
    .ask = ask_it,
    .watch = life_watch_nothing,
    .dials = dials,
    .tick = life_tick,
    .wake = life_wake,
    .after = after,
    .idle = idle,
    .hears = hears,
    .cut = net_cut,
    .cut_news = net_cut_news,
    .silence = redlock_silence,
    .is_quiet = net_is_quiet,
    .died = net_died,
    .spurious = net_spurious,
    .fault = redlock_fault,
    .holders = redlock_holders,
    .watchdog = redlock_watchdog,
    .told = redlock_told,
    .attends = attends,
    .check_rest = redlock_check_rest,
};
