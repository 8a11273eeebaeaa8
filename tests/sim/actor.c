/* Callers: each wants a lock, works under it, and gives it back; and the checks that what they
 * were promised is true. */
#include "sim.h"

#include "util/error.h"

#include <stdlib.h>

static void think(event *event);

static dlk_terms random_terms(void)
{
    static const int64_t ttls[] = {300, 1000, 5000, 30000};
    return (dlk_terms){
        .ttl_ms = ttls[between(0, 3)],
        .max_hold_ms = chance(50) ? 40000 : 0,
        .renewal = chance(100)   ? DLK_RENEW_OFF
                   : chance(100) ? DLK_RENEW_FED
                                 : DLK_RENEW_AUTO,
        .reentrant = true,
        .release_async = chance(300),
    };
}

static void plan(actor *a, int64_t in)
{
    event_at(&a->next, s.now + in, think, a);
}

void actor_init(actor *a, client *c, int index)
{
    *a = (actor){.client = c, .index = index, .mood = MOOD_THINKING};
    dlk_list_init(&a->wait.link);
    plan(a, between(0, 20 * MS));
}

bool actor_idle(const actor *a)
{
    return a->mood == MOOD_THINKING || a->mood == MOOD_GONE;
}

/* ---- the promise ---- */

/* While somebody believes by its own clock that it holds the lock, nobody else may be granted it;
 * unless the server has lost its state since one of the two last asked it. */
static void check_exclusion(const actor *me)
{
    const dlk_grant *mine = me->hold->grant;
    if (s.server.state_lost_at[me->name] >= true_time(me->client, mine->lease.since) - 1)
        return;
    for (int i = 0; i < s.config.clients; i++) {
        client *c = &s.clients[i];
        if (c == me->client)
            continue;
        for (int k = 0; k < s.config.actors; k++) {
            const actor *other = &c->actors[k];
            if (other->mood != MOOD_HOLDING || other->name != me->name || !other->hold)
                continue;
            const dlk_grant *g = other->hold->grant;
            if (!dlk_grant_lives(g) || client_time(c) >= g->lease.ends_at)
                continue;
            if (s.server.state_lost_at[me->name] >= true_time(c, g->lease.since) - 1)
                continue;
            violated(
                "client %d was granted %c while client %d holds it for another %.3f ms",
                me->client->index, 'a' + me->name, c->index,
                (double)(g->lease.ends_at - client_time(c)) / (double)MS);
        }
    }
}

/* ---- guarded writes ---- */

static void write_now(event *e)
{
    actor *a = e->of;
    if (client_stopped(a->client)) { /* the pause between the check and the write */
        event_at(&a->write, a->client->paused_until + between(0, MS), write_now, a);
        return;
    }
    if (a->write_token < s.resource[a->name]) {
        s.totals.stale_refused++;
        tell("resource %c: refuses the stale token of client %d", 'a' + a->name,
             a->client->index);
    } else {
        s.resource[a->name] = a->write_token;
        s.totals.writes++;
    }
    a->write_token = 0;
}

static void begin_write(actor *a)
{
    if (a->write_token)
        return;
    a->write_token = a->hold->grant->token;
    event_at(&a->write, s.now + between(1000, 3 * MS), write_now, a);
}

/* ---- the life of a caller ---- */

static void ask_for_it(actor *a)
{
    client *c = a->client;
    int64_t now = client_time(c);
    bool once = chance(100), forever = chance(200);
    int64_t wait_ms = forever ? -1 : between(1, 4000);
    a->name = (int)between(0, s.config.names - 1);
    a->mood = MOOD_WAITING;
    a->hold = a->again = NULL;
    a->asked_at = s.now;
    a->deadline = once ? now + 3000 * MS : dlk_clock_after(now, wait_ms);
    bool thread = chance(600);
    a->wait = (dlk_wait){
        .name = c->names[a->name],
        .owner = thread ? (uint64_t)a->index + 1 : dlk_core_new_owner(&c->core),
        .owner_is_thread = thread,
        .once = once,
        .terms = random_terms(),
    };
    tell("client %d.%d: acquires %c (%s)", c->index, a->index, 'a' + a->name,
         once      ? "try"
         : forever ? "forever"
                   : "timed");
    dlk_acquire_start(&c->core, &a->wait, once ? DLK_NEVER : a->deadline, now);
    client_after(c);
}

static void free_hold(client *c, dlk_hold *hold)
{
    dlk_grant *grant = hold->grant;
    if (grant->first != hold)
        free(hold);
    dlk_grant_unref(&c->core, grant);
}

static void forget(actor *a)
{
    client *c = a->client;
    dlk_error_clear(&a->wait.error);
    if (a->again)
        free_hold(c, a->again);
    if (a->hold)
        free_hold(c, a->hold);
    a->hold = a->again = NULL;
    a->mood = MOOD_THINKING;
    plan(a, between(0, 50 * MS));
}

/* Runs right after the core has ended the wait, which may not be called back into. */
static void look_at_result(event *e)
{
    actor *a = e->of;
    dlock_err code = a->wait.code;
    if (a->mood == MOOD_RELEASING) {
        tell("client %d.%d: release of %c: %d", a->client->index, a->index, 'a' + a->name,
             (int)code);
        forget(a);
        return;
    }
    s.totals.unknowns += code == DLOCK_EUNKNOWN;
    s.totals.timeouts += code == DLOCK_ETIMEDOUT;
    if (code != DLOCK_OK) {
        tell("client %d.%d: %c not obtained: %d", a->client->index, a->index,
             'a' + a->name, (int)code);
        forget(a);
        return;
    }
    a->mood = MOOD_HOLDING;
    a->writes_left = (int)between(0, 6);
    plan(a, chance(100) ? between(0, 3000 * MS) : between(0, 20 * MS));
}

void actor_over(actor *a)
{
    if (a->mood == MOOD_WAITING && a->wait.code == DLOCK_OK) {
        a->hold = a->wait.hold;
        s.totals.grants++;
        tell("client %d.%d: holds %c, token %lld, #%llu", a->client->index, a->index,
             'a' + a->name, (long long)a->hold->grant->token,
             (unsigned long long)a->hold->grant->number);
        check_exclusion(a);
    }
    if (a->mood == MOOD_WAITING && a->deadline < DLK_NEVER &&
        !client_stopped(a->client) && a->client->paused_until < s.now - 100 * MS &&
        client_time(a->client) > a->deadline + 50 * MS)
        violated("a wait of client %d ended %.0f ms after its time", a->client->index,
                 (double)(client_time(a->client) - a->deadline) / (double)MS);
    event_at(&a->next, s.now, look_at_result, a);
}

static void give_up_waiting(actor *a)
{
    s.totals.cancels++;
    count_fault(FAULT_NO_NEWS, STEP_CANCEL);
    tell("client %d.%d: cancels its wait for %c", a->client->index, a->index,
         'a' + a->name);
    dlk_acquire_cancel(&a->client->core, &a->wait, DLOCK_ECANCELED,
                       client_time(a->client));
    client_after(a->client);
}

static void let_go(actor *a)
{
    client *c = a->client;
    int64_t now = client_time(c);
    if (a->again) {
        dlk_release_start(&c->core, a->again, NULL, DLK_NEVER, now);
        free_hold(c, a->again);
        a->again = NULL;
    }
    a->mood = MOOD_RELEASING;
    dlk_release_start(&c->core, a->hold, &a->wait, dlk_clock_after(now, 3000), now);
    client_after(c);
}

static void work(actor *a)
{
    client *c = a->client;
    bool held = dlk_grant_settle(&c->core, a->hold->grant, client_time(c));
    if (held && a->hold->grant->terms.renewal == DLK_RENEW_FED)
        dlk_grant_feed(&c->core, a->hold->grant, client_time(c));
    if (!held || a->writes_left-- <= 0) {
        let_go(a);
        return;
    }
    begin_write(a);
    client_after(c);
    plan(a, chance(50) ? between(0, 6000 * MS) : between(0, 10 * MS));
}

static void think(event *e)
{
    actor *a = e->of;
    if (client_stopped(a->client)) {
        event_at(&a->next, a->client->paused_until, think, a);
        return;
    }
    switch (a->mood) {
    case MOOD_THINKING:
        if (s.ending) {
            a->mood = MOOD_GONE;
            return;
        }
        ask_for_it(a);
        if (a->mood == MOOD_WAITING && !a->wait.over && chance(100))
            plan(a, between(0, 500 * MS)); /* to cancel it, if it still waits */
        return;
    case MOOD_WAITING:
        if (!a->wait.over)
            give_up_waiting(a);
        return;
    case MOOD_HOLDING:
        work(a);
        return;
    case MOOD_RELEASING:
    case MOOD_GONE:
        return;
    }
}

/* With its client: nobody asks any more. */
void actors_stop(client *c)
{
    for (int i = 0; i < s.config.actors; i++) {
        actor *a = &c->actors[i];
        event_cancel(&a->next);
        event_cancel(&a->write);
        dlk_error_clear(&a->wait.error);
        if (a->again)
            free_hold(c, a->again);
        if (a->hold)
            free_hold(c, a->hold);
        a->hold = a->again = NULL;
        a->mood = MOOD_GONE;
    }
}
