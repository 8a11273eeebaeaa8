/* A client: the real decisions, with a clock, a connection and callers that are simulated. */
#include "sim.h"

#include "util/error.h"
#include "util/info.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int64_t client_time(const client *c)
{
    return c->offset + (int64_t)((double)s.now * c->rate);
}

int64_t true_time(const client *c, int64_t local)
{
    if (local >= DLK_NEVER)
        return DLK_NEVER / 1024;
    return (int64_t)((double)(local - c->offset) / c->rate) + 1;
}

bool client_stopped(const client *c)
{
    return s.now < c->paused_until;
}

/* ---- its alarm ---- */

static void run_tick(event *e)
{
    client *c = e->of;
    if (client_stopped(c)) {
        event_at(&c->tick, c->paused_until, run_tick, c);
        return;
    }
    int64_t now = client_time(c);
    /* A request that is unanswered past its deadline: the connection is given up. */
    DLK_LIST_FOR(it, &c->in_flight)
    if (DLK_LIST_ITEM(it, dlk_ask, link)->deadline <= now) {
        client_cut(c, "an answer is overdue");
        break;
    }
    dlk_core_tick(&c->core, now);
    client_after(c);
}

void client_after(client *c)
{
    int64_t next = dlk_core_next(&c->core);
    DLK_LIST_FOR(it, &c->in_flight)
    {
        int64_t deadline = DLK_LIST_ITEM(it, dlk_ask, link)->deadline;
        next = deadline < next ? deadline : next;
    }
    if (next >= DLK_NEVER)
        event_cancel(&c->tick);
    else
        event_at(&c->tick, true_time(c, next), run_tick, c);
}

/* ---- its connection ---- */

static void run_reconnect(event *e)
{
    client *c = e->of;
    if (client_stopped(c) || s.now < s.server.frozen_until) {
        event_at(&c->reconnect, s.now + 50 * MS, run_reconnect, c);
        return;
    }
    c->connected = true;
    c->silent = false;
    c->epoch++;
    c->up_since = s.now;
    c->request_front = c->reply_front = 0;
    tell("client %d: connected", c->index);
    dlk_core_link(&c->core, true, NULL, client_time(c));
    /* What it watches is subscribed to anew, and looked at once that is confirmed. */
    for (int i = 0; i < s.config.names; i++)
        if ((c->subscribed[i] = c->watched[i]))
            dlk_core_notified(&c->core, &c->names[i]->key, client_time(c));
    client_after(c);
}

void client_cut(client *c, const char *why)
{
    if (!c->connected)
        return;
    tell("client %d: cut: %s", c->index, why);
    c->connected = c->silent = false;
    c->epoch++;
    memset(c->subscribed, 0, sizeof(c->subscribed));
    dlock_error *error = dlk_error_make(DLOCK_EUNAVAIL, "%s", why);
    int64_t now = client_time(c);
    dlk_core_link(&c->core, false, error, now);
    dlk_error_clear(&error);
    dlk_list *link;
    while ((link = dlk_list_take_first(&c->in_flight))) {
        dlk_ask *ask = DLK_LIST_ITEM(link, dlk_ask, link);
        ask->reply = DLK_UNKNOWN;
        dlk_core_answered(&c->core, ask, now);
    }
    event_at(&c->reconnect, s.now + between(1 * MS, 300 * MS), run_reconnect, c);
    client_after(c);
}

void client_answer(client *c, int epoch, uint64_t sequence, const dlk_ask *answer)
{
    if (epoch != c->epoch)
        return;
    DLK_LIST_FOR(it, &c->in_flight)
    {
        dlk_ask *ask = DLK_LIST_ITEM(it, dlk_ask, link);
        if (ask->sequence != sequence)
            continue;
        dlk_list_remove(&ask->link);
        ask->reply = answer->reply;
        ask->token = answer->token;
        ask->wait_ms = answer->wait_ms;
        if (ask->reply == DLK_REFUSED)
            ask->error = dlk_error_make(DLOCK_EUNAVAIL, "loading");
#ifdef PLANT_VALIDITY_FROM_ANSWER
        ask->since = client_time(c);
#endif
        dlk_core_answered(&c->core, ask, client_time(c));
        client_after(c);
        return;
    }
}

void client_notified(client *c, int name)
{
    dlk_core_notified(&c->core, &c->names[name]->key, client_time(c));
    client_after(c);
}

void client_pause(client *c, int64_t ns)
{
    c->paused_until = s.now + ns;
    tell("client %d: stopped for %.0f ms", c->index, (double)ns / (double)MS);
}

/* ---- the port ---- */

static void port_ask(void *world, dlk_ask *ask, int64_t now)
{
    static uint64_t sequence;
    client *c = world;
    (void)now;
    s.totals.operations++;
    if (s.config.table) {
        server_apply(c->index, c->generation, ask);
        tell("table: client %d %s %s #%llu -> %s", c->index,
             ask->verb == DLK_ACQUIRE ? "acquire"
             : ask->verb == DLK_RENEW ? "renew"
                                      : "release",
             ask->key->name, (unsigned long long)ask->number,
             ask->reply == DLK_YES    ? "yes"
             : ask->reply == DLK_HELD ? "held"
                                      : "not yours");
        return;
    }
    ask->sequence = ++sequence;
    dlk_list_init(&ask->link);
    dlk_list_append(&c->in_flight, &ask->link);
    net_send(c, ask);
}

static void confirm_watch(event *e)
{
    client *c = &s.clients[e->number / 1000 % 1000];
    int name = (int)(e->number % 1000);
    if (c->generation != e->number / 1000000 || !c->connected || !c->watched[name])
        return;
    if (client_stopped(c)) {
        event *later = event_new();
        later->number = e->number;
        event_at(later, c->paused_until, confirm_watch, later);
        return;
    }
    client_notified(c, name);
}

/* The server has the subscription from now on, and says so. */
static void subscribe(event *e)
{
    client *c = &s.clients[e->number / 1000 % 1000];
    int name = (int)(e->number % 1000);
    if (c->generation != e->number / 1000000 || !c->connected || !c->watched[name])
        return;
    c->subscribed[name] = true;
    event *back = event_new();
    back->number = e->number;
    event_at(back, s.now + between(100 * 1000, 2 * MS), confirm_watch, back);
}

static void port_watch(void *world, dlk_key *key, bool on, int64_t now)
{
    client *c = world;
    int name = key->name[0] - 'a';
    (void)now;
    c->watched[name] = on;
    c->subscribed[name] = on && s.config.table;
    if (on) { /* subscribe, then look again: told when the subscription is confirmed */
        event *e = event_new();
        e->number = ((int64_t)c->generation * 1000 + c->index) * 1000 + name;
        event_at(e, s.now + between(100 * 1000, 20 * MS), subscribe, e);
    }
}

static void port_wait_over(void *world, dlk_wait *wait)
{
    (void)world;
    actor_over(DLK_LIST_ITEM(wait, actor, wait));
}

static void port_query_over(void *world, dlk_query *query)
{
    (void)world;
    (void)query;
}

static void port_free_query(void *world, dlk_query *query)
{
    (void)world;
    free(query);
}

static void port_changed(void *world, dlk_grant *grant)
{
    client *c = world;
    dlock_state state = dlk_grant_state(grant);
    s.totals.losses += state == DLOCK_LOST;
    tell("client %d: %s #%llu is %s", c->index, grant->name->key.name,
         (unsigned long long)grant->number,
         state == DLOCK_LOST      ? "LOST"
         : state == DLOCK_SUSPECT ? "SUSPECT"
                                  : "HELD again");
}

static dlk_hold *port_new_hold(void *world)
{
    (void)world;
    dlk_hold *hold = calloc(1, sizeof(*hold));
    if (!hold)
        abort();
    dlk_list_init(&hold->link);
    return hold;
}

static dlk_grant *port_new_grant(void *world, dlk_hold **ret_hold)
{
    dlk_grant *grant = calloc(1, sizeof(*grant));
    if (!grant)
        abort();
    *ret_hold = port_new_hold(world);
    return grant;
}

static void port_free_grant(void *world, dlk_grant *grant)
{
    (void)world;
    free(grant->first);
    free(grant);
}

static void port_free_name(void *world, dlk_name *name)
{
    client *c = world;
    c->names[name->key.name[0] - 'a'] = NULL;
    free(name);
}

static void port_log(void *world, dlock_level level, const char *format, ...)
{
    (void)world;
    (void)level;
    (void)format;
}

static dlk_name *new_name(client *c, int index)
{
    static const char *const texts[MAX_NAMES] = {"a", "b", "c"};
    dlk_name *name = calloc(1, sizeof(*name));
    if (!name)
        abort();
    name->key = (dlk_key){.name = texts[index], .size = 1, .kind = DLOCK_MUTEX};
    if (!dlk_name_add(&c->core, name))
        abort();
    return name;
}

void client_init(client *c, int index)
{
    const dlk_port port = {
        .world = c,
        .ask = port_ask,
        .watch = port_watch,
        .wait_over = port_wait_over,
        .query_over = port_query_over,
        .changed = port_changed,
        .new_grant = port_new_grant,
        .new_hold = port_new_hold,
        .free_grant = port_free_grant,
        .free_query = port_free_query,
        .free_name = port_free_name,
        .log = port_log,
    };
    const dlk_limits limits = {
        .margin = {s.config.table ? 0 : 1, s.config.table ? 0 : 2},
        .timeout_ms = 3000,
        .poll_ms = SIM_POLL_MS,
        .backoff_min_ms = 50,
        .backoff_max_ms = 2000,
        .queues = s.config.table,
    };
    int generation = c->generation;
    *c = (client){.index = index, .generation = generation};
    /* Within what the margin of 1 % is for; the table's users share one clock. */
    c->rate = s.config.table ? s.server.rate : 1.0 + (double)between(-4000, 4000) / 1e6;
    c->offset = s.config.table ? 0 : between(0, 1000 * SEC);
    dlk_list_init(&c->in_flight);
    if (!dlk_core_init(&c->core, &port, &limits, dlk_rand_next(&s.rand)))
        abort();
    for (int i = 0; i < s.config.names; i++)
        c->names[i] = new_name(c, i);
    c->connected = true;
    c->epoch = 1;
    c->up_since = s.now;
    dlk_core_link(&c->core, true, NULL, client_time(c));
    for (int i = 0; i < s.config.actors; i++)
        actor_init(&c->actors[i], c, i);
}

void client_free(client *c)
{
    event_cancel(&c->tick);
    event_cancel(&c->reconnect);
    dlk_core_close(&c->core, client_time(c));
    dlk_list *link;
    while ((link = dlk_list_take_first(&c->in_flight))) {
        dlk_ask *ask = DLK_LIST_ITEM(link, dlk_ask, link);
        c->core.up = false;
        ask->reply = DLK_UNKNOWN;
        dlk_core_answered(&c->core, ask, client_time(c));
    }
    dlk_core_stop(&c->core);
    actors_stop(c);
    for (int i = 0; i < s.config.names; i++)
        dlk_name_unref(&c->core, c->names[i]);
    dlk_core_free(&c->core);
}

/* kill -9: nothing is said any more; another process takes its place. */
void client_die(client *c)
{
    tell("client %d: killed", c->index);
    int who = c->index * 1000 + c->generation;
    c->connected = false;
    c->epoch++;
    /* Its memory goes without a word on the wire. */
    c->core.up = false;
    bool table = s.config.table;
    client_free(c);
    if (table)
        server_forget(who);
    c->generation++;
    client_init(c, c->index);
    client_after(c);
}
