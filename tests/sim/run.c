/* One run: the clients work, things go wrong, then all is healed and must come to rest. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static event nemesis, watchdog;

/* ---- what goes wrong by itself ---- */

static void one_fault(void)
{
    client *c = &s.clients[between(0, s.config.clients - 1)];
    fault what = (fault)between(0, FAULT_COUNT - 1);
    if (!fault_on(what))
        return;
    int name = (int)between(0, s.config.names - 1);
    step hit = STEP_IDLE;
    DLK_LIST_FOR(it, &c->in_flight)
    {
        dlk_verb verb = DLK_LIST_ITEM(it, dlk_ask, link)->verb;
        hit = verb == DLK_ACQUIRE ? STEP_ACQUIRE
              : verb == DLK_RENEW ? STEP_RENEW
                                  : STEP_RELEASE;
    }
    switch (what) {
    case FAULT_PAUSE:
        if (!client_stopped(c))
            client_pause(c, chance(300) ? between(1 * SEC, 40 * SEC)
                                        : between(1 * MS, 500 * MS));
        break;
    case FAULT_DEATH:
        client_die(c);
        break;
    case FAULT_FREEZE:
        if (s.now < s.server.frozen_until)
            return; /* a shorter one would leave requests behind that arrived in the longer */
        s.server.frozen_until = s.now + between(10 * MS, 8 * SEC);
        tell("server: stands still until %.0f ms",
             (double)s.server.frozen_until / (double)MS);
        break;
    case FAULT_RESTART:
    case FAULT_WIPE:
    case FAULT_ROLLBACK:
        if (s.config.table)
            return;
        tell("server: %s", fault_names[what]);
        if (what == FAULT_WIPE)
            server_wipe();
        else if (what == FAULT_ROLLBACK)
            server_rollback();
        for (int i = 0; i < s.config.clients; i++)
            client_cut(&s.clients[i], "the server went away");
        break;
    case FAULT_REFUSE:
        s.server.refuses_until = s.now + between(10 * MS, 3 * SEC);
        break;
    case FAULT_NO_NEWS:
        s.server.quiet_until = s.now + between(100 * MS, 5 * SEC);
        break;
    case FAULT_BREAK:
        tell("operator: breaks %c", 'a' + name);
        server_break(name);
        break;
    case FAULT_DROP_REQUEST:
    case FAULT_DROP_REPLY:
    case FAULT_LATE_REQUEST:
    case FAULT_SILENCE:
    case FAULT_COUNT:
        return; /* net.c's */
    }
    count_fault(what, hit);
}

/* Storm, rain and calm follow each other, so that deep states are reached and left again, and
 * what must happen when nothing goes wrong can be asked for. */
static void run_nemesis(event *e)
{
    int64_t phase = (s.now / (5 * SEC)) % 5;
    if (phase < 3)
        one_fault();
    if (chance(20))
        server_snapshot();
    if (!s.ending)
        event_at(
            e,
            s.now + (phase == 0 ? between(1 * MS, 100 * MS) : between(100 * MS, 2 * SEC)),
            run_nemesis, NULL);
}

/* ---- liveness ---- */

/* Long enough ago for the slowest poll to have mended what it broke. */
static bool calm(int64_t until)
{
    return until < s.now - SIM_POLL_MS * MS * 5 / 4 - SEC;
}

static bool healthy(const client *c)
{
    return c->connected && !c->silent && calm(c->up_since) && calm(c->paused_until);
}

static bool waits_long(const client *c, int name)
{
    for (int k = 0; k < s.config.actors; k++)
        if (c->actors[k].mood == MOOD_WAITING && c->actors[k].name == name &&
            c->actors[k].asked_at < s.now - 1000 * MS)
            return true;
    return false;
}

/* A free lock that a healthy client waits for, which hears of its release, must be granted sooner
 * than by polling alone. */
static void check_progress(int name)
{
    if (!server_free(name) || s.now - s.server.free_since[name] < 1000 * MS)
        return;
    for (int i = 0; i < s.config.clients; i++) {
        const client *c = &s.clients[i];
        if (healthy(c) && c->names[name]->trying && dlk_list_empty(&c->in_flight) &&
            waits_long(c, name))
            violated("%c has been free for %.1f s, and client %d waits for it",
                     'a' + name,
                     (double)(s.now - s.server.free_since[name]) / (double)SEC, i);
    }
}

static bool has_grant(const client *c, uint64_t number)
{
    DLK_LIST_FOR(it, &c->core.grants)
    if (DLK_LIST_ITEM(it, dlk_grant, all)->number == number)
        return true;
    return false;
}

/* What is locked at the server for a grant that its client has forgotten is an orphan:
 * it would keep others waiting to the end of its lease. */
static void check_orphan(int name)
{
    const record *r = &s.server.names[name];
    const client *c = &s.clients[r->client / 1000];
    /* A rolled-back server may remember what was released long ago; only its lease ends that. */
    bool rolled_back = s.server.state_lost_at[name] > s.now - 40 * SEC;
    bool can_mend = c->connected && !c->silent && !client_stopped(c) &&
                    s.now >= s.server.frozen_until && s.now >= s.server.refuses_until;
    bool orphan = !rolled_back && can_mend && !server_free(name) &&
                  c->generation == r->client % 1000 && !has_grant(c, r->number);
    if (!orphan)
        s.server.orphan_since[name] = 0;
    else if (!s.server.orphan_since[name])
        s.server.orphan_since[name] = s.now;
    else if (s.now - s.server.orphan_since[name] > 3 * SEC)
        violated("%c is locked for #%llu of client %d, which knows nothing of it",
                 'a' + name, (unsigned long long)r->number, c->index);
}

static void run_watchdog(event *e)
{
    bool fine = calm(s.server.frozen_until) && calm(s.server.refuses_until) &&
                calm(s.server.quiet_until);
    for (int n = 0; n < s.config.names; n++)
        check_orphan(n);
    for (int n = 0; n < s.config.names && fine; n++) {
        check_progress(n);
    }
    if (!s.ending)
        event_at(e, s.now + 100 * MS, run_watchdog, NULL);
}

/* ---- the run ---- */

static void go_until(int64_t end)
{
    while (!s.violation[0]) {
        dlk_timer *first = dlk_heap_first(&s.events);
        if (!first || first->at / 1024 > end)
            break;
        dlk_heap_remove(&s.events, first);
        s.now = first->at / 1024;
        event *e = DLK_LIST_ITEM(first, event, timer);
        bool loose = e->loose;
        e->run(e);
        if (loose)
            free(e);
    }
    if (s.now < end && !s.violation[0])
        s.now = end;
}

static void heal(void)
{
    s.ending = true;
    s.server.frozen_until = s.server.refuses_until = s.server.quiet_until = s.now;
    for (int i = 0; i < s.config.clients; i++) {
        client *c = &s.clients[i];
        if (c->silent)
            client_cut(c, "healed");
    }
}

static void check_rest(void)
{
    for (int i = 0; i < s.config.clients && !s.violation[0]; i++) {
        client *c = &s.clients[i];
        for (int k = 0; k < s.config.actors; k++)
            if (!actor_idle(&c->actors[k]))
                violated("client %d.%d never came to rest: mood %d", i, k,
                         (int)c->actors[k].mood);
        if (dlk_core_unconfirmed(&c->core) > 0)
            violated("client %d still has unconfirmed releases", i);
        if (!dlk_list_empty(&c->core.grants))
            violated("client %d still has grants", i);
    }
    for (int n = 0; n < s.config.names; n++)
        if (!server_free(n))
            violated("%c is still locked at the server, by client %d #%llu", 'a' + n,
                     s.server.names[n].client / 1000,
                     (unsigned long long)s.server.names[n].number);
}

bool run(const config *how, totals *ret)
{
    char(*story)[160] = s.story ? s.story : malloc(STORY * sizeof(*story));
    if (!story)
        abort();
    s = (sim){.config = *how, .story = story, .rand = {how->seed}};
    nemesis = watchdog = (event){0};
    s.totals.hash = UINT64_C(14695981039346656037);
    dlk_list_init(&s.limbo);
    s.now = SEC;
    s.server.rate = 1.0 + (double)between(-4000, 4000) / 1e6;
    s.server.wall_floor = INT64_C(1700000000000000);
    for (int i = 0; i < s.config.clients; i++) {
        client_init(&s.clients[i], i);
        client_after(&s.clients[i]);
    }
    event_at(&nemesis, s.now + 50 * MS, run_nemesis, NULL);
    event_at(&watchdog, s.now + 500 * MS, run_watchdog, NULL);
    go_until(s.now + s.config.duration);
    heal();
    /* The longest pause, lease and hold of a caller, and its release. */
    go_until(s.now + 160 * SEC);
    if (!s.violation[0])
        check_rest();
    bool fine = !s.violation[0];
    *ret = s.totals;
    net_free();
    for (int i = 0; i < s.config.clients; i++)
        client_free(&s.clients[i]);
    for (size_t i = 0; i < s.events.count; i++) {
        event *e = DLK_LIST_ITEM(s.events.items[i], event, timer);
        if (e->loose)
            free(e);
    }
    dlk_heap_free(&s.events);
    return fine;
}
