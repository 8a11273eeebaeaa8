/* A client: the real decisions, with clocks, callers and a process that are simulated. What it
 * asks goes over the wire (net.c) or to the table (table.c). */
#include "sim.h"

#include "contract/limits.h"
#include "util/error.h"
#include "util/info.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- its clocks ---- */

int64_t sim_time(void)
{
    return (int64_t)((double)s.now * s.server.rate);
}

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

/* ---- stopped, starved, asleep ---- */

/* Until then something excuses it for noticing things late. */
void client_upset(client *c, int64_t until)
{
    if (c->upset_at < until)
        c->upset_at = until;
}

bool client_stopped(const client *c)
{
    return s.now < c->paused_until || c->blocked > 0;
}

bool client_put_off(const client *c, event *e)
{
    if (!client_stopped(c) && !c->dead)
        return false;
    int64_t at = c->paused_until > s.now ? c->paused_until : s.now + MS;
    event_at(e, at, e->run, e->of);
    return true;
}

void client_pause(client *c, int64_t ns)
{
    if (s.now + ns <= c->paused_until)
        return;
    c->paused_until = s.now + ns;
    client_upset(c, c->paused_until);
    tell(c->index, ALL_NAMES, "stopped for %.0f ms", (double)ns / (double)MS);
}

/* The boot clock runs on. What its timers wait by doesn't: they are late by the whole time. */
void client_suspend(client *c, int64_t ns)
{
    client_pause(c, ns);
    client_upset(c, s.now + 2 * ns);
    if (!c->tick.timer.place)
        return;
    int64_t late = c->tick.at + ns;
    event_at(&c->tick, late, c->tick.run, c);
    client_upset(c, late);
}

static void run_tick(event *e)
{
    client *c = e->of;
    if (client_put_off(c, e))
        return;
    if (s.now < c->starved_until && e->number == 0) {
        e->number = 1;
        event_at(e, s.now + between(&c->rand, 1 * MS, 300 * MS), run_tick, c);
        return;
    }
    e->number = 0;
    int64_t now = client_time(c);
    if (is_local())
        table_tick(c);
    else
        s.service->tick(c);
    dlk_core_tick(&c->core, now);
    client_after(c);
}

/* What the backend has told is digested when it has returned, as the engine does it. */
void client_digest(client *c)
{
    process *p = &c->process;
    int64_t now = client_time(c);
    for (;;) {
        dlk_list *link = dlk_list_take_first(&c->answers);
        if (link) {
            dlk_core_answered(&c->core, DLK_LIST_ITEM(link, dlk_ask, link), now);
        } else if (p->link_changed) {
            dlock_error *why = p->link_error;
            p->link_changed = false;
            p->link_error = NULL;
            if (why)
                dlk_core_link(&c->core, false, why, now);
            if (p->link_up)
                dlk_core_link(&c->core, true, NULL, now);
            dlk_error_clear(&why);
        } else if (p->news) {
            int name = __builtin_ctz(p->news);
            p->news &= p->news - 1;
            tell(c->index, name, "hears that %c may be free, or its turn", 'a' + name);
            if (c->names[name])
                dlk_core_notified(&c->core, &c->names[name]->key, now);
        } else {
            return;
        }
    }
}

void client_after(client *c)
{
    client_digest(c);
    if (!dlk_core_is_sound(&c->core))
        violated(ALL_NAMES, "client %d: a grant or a query is what it can't be",
                 c->index);
    int64_t next = dlk_core_next(&c->core);
    if (is_local() && !c->process.local->up)
        c->process.next_tick = c->process.local->retry_at;
    next = c->process.next_tick < next ? c->process.next_tick : next;
    if (!is_local()) {
        int64_t answers = s.service->after(c);
        next = answers < next ? answers : next;
    }
    if (next >= DLK_NEVER)
        event_cancel(&c->tick);
    else
        event_at(&c->tick, true_time(c, next), run_tick, c);
}

bool client_has_grant(const client *c, uint64_t number)
{
    DLK_LIST_FOR (it, &c->core.grants)
        if (DLK_LIST_ITEM(it, dlk_grant, all)->number == number)
            return true;
    return false;
}

/* Of who holds without a number: its grants that have this token. */
static bool has_token(const client *c, int name, int64_t token)
{
    DLK_CHAIN_FOR (it, &c->names[name]->grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (dlk_grant_state(grant) != 0 && grant->token == token)
            return true;
    }
    return false;
}

bool client_holds(const client *c, int name, int64_t token)
{
    DLK_CHAIN_FOR (it, &c->names[name]->grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (dlk_grant_lives(grant) && grant->token == token)
            return true;
    }
    return false;
}

bool client_knows(const client *c, int name, const holder *h)
{
    if (h->number)
        return client_has_grant(c, h->number);
    DLK_CHAIN_FOR (it, &c->names[name]->grants)
        if (DLK_LIST_ITEM(it, dlk_grant, link)->token == 0)
            return true; /* it may be about this one */
    return has_token(c, name, h->token);
}

bool client_waits_for(const client *c, int name, const holder *h)
{
    const dlk_grant *trying = c->names[name]->trying;
    if (!trying || h->number)
        return trying && trying->number == h->number;
    return !has_token(c, name, h->token);
}

/* ---- the port ---- */

static void port_ask(void *world, dlk_ask *ask, int64_t now)
{
    client *c = world;
    if (is_local())
        table_ask(c, ask, now);
    else
        s.service->ask(c, ask, now);
}

static void port_watch(void *world, dlk_key *key, bool on, int64_t now)
{
    client *c = world;
    if (!is_local())
        s.service->watch(c, key, on, now);
}

static void port_wait_over(void *world, dlk_wait *wait)
{
    actor_over(world, wait);
}

static void port_placed(void *world, dlk_wait *wait)
{
    (void)world;
    (void)wait;
}

static void port_query_over(void *world, dlk_query *query)
{
    if (query->ask.verb == DLK_SIGNAL)
        tally_told(world, query);
}

static void port_free_query(void *world, dlk_query *query)
{
    (void)world;
    dlk_error_clear(&query->error);
    dlk_info_free(query->info);
    free(query);
}

static void port_changed(void *world, dlk_grant *grant)
{
    client *c = world;
    dlock_state state = dlk_grant_state(grant);
    s.totals.losses += state == DLOCK_LOST;
    tell(c->index, grant->name->key.name[0] - 'a', "#%llu is %s",
         (unsigned long long)grant->number,
         state == DLOCK_LOST      ? "LOST"
         : state == DLOCK_SUSPECT ? "SUSPECT"
                                  : "HELD again");
    if (state == DLOCK_LOST)
        check_lost(c, grant);
}

static dlk_hold *port_new_hold(void *world)
{
    (void)world;
    dlk_hold *hold = calloc(1, sizeof(*hold));
    if (!hold)
        abort();
    return hold;
}

static dlk_grant *port_new_grant(void *world, dlk_hold **ret_hold)
{
    (void)world;
    sim_grant *one = calloc(1, sizeof(*one));
    if (!one)
        abort();
    *ret_hold = &one->first;
    return &one->grant;
}

static void port_free_grant(void *world, dlk_grant *grant)
{
    (void)world;
    free(DLK_LIST_ITEM(grant, sim_grant, grant));
}

static void port_free_name(void *world, dlk_name *name)
{
    client *c = world;
    c->names[name->key.name[0] - 'a'] = NULL;
    if (is_local())
        dlk_local_key_close(&c->process.local->base, &name->key);
    else
        s.service->key_close(c, &name->key);
    free(name);
}

static void port_log(void *world, dlock_level level, const char *format, ...)
{
    (void)world;
    (void)level;
    (void)format;
}

static const dlk_port port = {
    .ask = port_ask,
    .watch = port_watch,
    .wait_over = port_wait_over,
    .placed = port_placed,
    .query_over = port_query_over,
    .changed = port_changed,
    .new_grant = port_new_grant,
    .new_hold = port_new_hold,
    .free_grant = port_free_grant,
    .free_query = port_free_query,
    .free_name = port_free_name,
    .log = port_log,
};

/* ---- beginning ---- */

/* Nothing about the backend is written down a second time here. */
const dlk_traits *sim_traits(void)
{
    static const dlk_traits local = DLK_LOCAL_TRAITS;
    return is_local() ? &local : &s.service->type->traits;
}

static void make_core(client *c)
{
    dlk_port mine = port;
    mine.world = c;
    dlk_limits limits = dlk_backend_limits(sim_traits());
    limits.timeout_ms = 3000;
    limits.poll_ms = SIM_POLL_MS;
    limits.backoff_min_ms = 50;
    limits.backoff_max_ms = 2000;
    if (!dlk_core_init(&c->core, &mine, &limits, dlk_rand_next(&c->rand)))
        abort();
}

static dlk_name *new_name(client *c, int index)
{
    static const char *const texts[MAX_NAMES] = {"a", "b", "c"};
    dlk_name *name = calloc(1, sizeof(*name));
    if (!name)
        abort();
    name->key = (dlk_key){.name = texts[index],
                          .size = 1,
                          .kind = kind_of_client(c),
                          .settings = c->settings};
    if (!is_local())
        s.service->key_open(c, &name->key);
    else if (dlk_local_key_open(&c->process.local->base, &name->key, NULL))
        abort();
    if (!dlk_name_add(&c->core, name))
        abort();
    return name;
}

void client_init(client *c, int index)
{
    int generation = c->generation;
    int64_t wall = c->wall;
    *c = (client){.index = index, .generation = generation, .wall = wall};
    c->rand.state = mix(s.config.seed, 300 + (uint64_t)index, (uint64_t)generation);
    /* Within what the margin of 1 % is for; the table's users share one clock. */
    c->rate =
        is_local() ? s.server.rate : 1.0 + (double)between(&c->rand, -4000, 4000) / 1e6;
    c->offset = is_local() ? 0 : between(&c->rand, 0, 1000 * SEC);
    c->strike = FAULT_NONE;
    c->up_since = s.now;
    dlk_list_init(&c->answers);
    c->process.next_tick = DLK_NEVER;
    make_core(c);
    if (is_local())
        table_join(c);
    else
        s.service->join(c);
    for (int i = 0; i < s.config.names; i++)
        c->names[i] = new_name(c, i);
    for (int i = 0; i < s.config.actors; i++)
        actor_init(&c->actors[i], c, i);
    if (is_local())
        table_start(c);
    else
        s.service->start(c);
    client_after(c);
}

/* ---- the end ---- */

/* Its memory goes without a word on the wire or to the table. */
void client_free(client *c)
{
    event_cancel(&c->tick);
    event_cancel(&c->end);
    c->dead = true; /* nothing is said any more */
    c->core.up = false;
    dlk_core_close(&c->core, client_time(c));
    if (!is_local())
        s.service->stop(c);
    dlk_core_stop(&c->core);
    actors_stop(c);
    for (int i = 0; i < s.config.names; i++)
        dlk_name_unref(&c->core, c->names[i]);
    if (c->core.name_count > 0) {
        violated(ALL_NAMES, "client %d is gone, and keeps %zu names", c->index,
                 c->core.name_count);
        c->core.name_count = 0; /* they are lost */
    }
    dlk_core_free(&c->core);
    if (is_local())
        table_free(c);
    else
        s.service->free(c);
}

static void replace(event *e)
{
    client *c = e->of;
    if (c->blocked > 0) {
        event_at(e, s.now + MS, replace, c);
        return;
    }
    client_free(c);
    c->generation++;
    client_init(c, c->index);
}

/* kill -9: nothing is said any more; another process takes its place. */
void client_kill(client *c)
{
    if (c->dead)
        return;
    tell(c->index, ALL_NAMES, "killed");
    c->dead = true;
    c->connected = false;
    if (is_local())
        table_died(c);
    else
        s.service->died(c);
    event_at(&c->end, s.now, replace, c);
}

/* ---- closing in good order ---- */

static void end_closing(event *e)
{
    client *c = e->of;
    if (client_put_off(c, e))
        return;
    bool waits = dlk_core_unconfirmed(&c->core) > 0 && s.now < (int64_t)e->number;
    if (waits) {
        event_at(e, s.now + 10 * MS, end_closing, c);
        return;
    }
    tell(c->index, ALL_NAMES, "closed");
    if (!is_local())
        s.service->stop(c);
    dlk_core_stop(&c->core);
    if (is_local())
        table_leave(c);
    c->dead = true;
    replace(e);
}

static void begin_closing(event *e)
{
    client *c = e->of;
    if (client_put_off(c, e))
        return;
    tell(c->index, ALL_NAMES, "closes");
    for (int i = 0; i < s.config.actors; i++)
        event_cancel(&c->actors[i].write);
    dlk_core_close(&c->core, client_time(c));
    client_after(c);
    if (c->dead) /* killed over it */
        return;
    c->end.number = s.now + 2 * SEC;
    event_at(e, s.now, end_closing, c);
}

void client_close(client *c)
{
    c->closing = true;
    c->end.number = 0;
    event_at(&c->end, s.now, begin_closing, c);
}
