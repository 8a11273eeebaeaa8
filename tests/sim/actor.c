/* Callers: each wants a lock, works under it, and gives it back or gives up waiting. */
#include "sim.h"

#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>

static void think(event *event);

static dlk_terms random_terms(const client *c, dlk_rand *dice)
{
    static const int64_t ttls[] = {100, 300, 1000, 5000, 30000};
    int64_t ttl_ms = ttls[between(dice, 0, 4)];
    bool keeps = kind_keeps() && c->index % 2 == 0;
    if (keeps && chance(dice, 800)) /* another wish isn't served by what is kept */
        ttl_ms = ttls[c->index / 2 % 5];
    return (dlk_terms){
        .ttl_ms = ttl_ms,
        .keep_ms = keeps ? (int32_t)between(dice, 1, 4000) : 0,
        .keep_runs = keeps ? (uint16_t)between(dice, 1, 4) : 0,
        .keep_run_ms = keeps ? (uint16_t)between(dice, 0, 50) : 0,
        .max_hold_ms = chance(dice, 50) ? 40000 : 0,
        .renewal = chance(dice, 100)   ? DLK_RENEW_OFF
                   : chance(dice, 100) ? DLK_RENEW_FED
                                       : DLK_RENEW_AUTO,
        .reentrant = true,
        .release_async = chance(dice, 300),
        .take = kind_of_client(c) == DLOCK_SEMAPHORE
                    ? (int32_t)between(dice, 1, kind_permits())
                    : 1,
        .shared = kind_of_client(c) == DLOCK_WRITE && chance(dice, 600),
    };
}

static void plan(actor *a, int64_t in)
{
    event_at(&a->next, s.now + in, think, a);
}

void actor_init(actor *a, client *c, int index)
{
    *a = (actor){.client = c, .index = index, .mood = MOOD_THINKING};
    a->rand.state = mix(s.config.seed, 400 + (uint64_t)(c->index * MAX_ACTORS + index),
                        (uint64_t)c->generation);
    dlk_list_init(&a->wait.link);
    plan(a, between(&a->rand, 0, 20 * MS));
}

bool actor_idle(const actor *a)
{
    return a->mood == MOOD_THINKING || a->mood == MOOD_GONE;
}

/* ---- guarded writes ---- */

static void write_now(event *e)
{
    actor *a = e->of;
    int name = a->write_name;
    if (client_put_off(a->client, e)) /* the pause between the check and the write */
        return;
    if (a->write_token < s.resource[name]) {
        s.totals.stale_refused++;
        tell(a->client->index, name, "its stale token is refused");
    } else {
        s.resource[name] = a->write_token;
        s.totals.writes++;
        if (a->hold && a->name == name)
            check_backed(a);
    }
    a->write_token = 0;
}

static void begin_write(actor *a)
{
    if (a->write_token || a->hold->shared || !a->hold->token)
        return;
    a->write_token = a->hold->token;
    a->write_name = a->name;
    event_at(&a->write, s.now + between(&a->rand, 1000, 3 * MS), write_now, a);
}

/* ---- the life of a caller ---- */

static void free_hold(client *c, dlk_hold *hold)
{
    dlk_grant *grant = hold->grant;
    if (hold != &DLK_LIST_ITEM(grant, sim_grant, grant)->first)
        free(hold);
    dlk_grant_unref(&c->core, grant);
}

static void free_holds(actor *a)
{
    client *c = a->client;
    dlk_error_clear(&a->wait.error);
    if (a->again)
        free_hold(c, a->again);
    if (a->hold)
        free_hold(c, a->hold);
    a->hold = a->again = NULL;
}

static void forget(actor *a)
{
    free_holds(a);
    a->mood = MOOD_THINKING;
    plan(a, between(&a->rand, 0, 50 * MS));
}

/* ---- handing on ---- */

/* Instead of its release: whoever wants a lock next may find the ticket. Not in the end, when nobody
 * comes any more who would. */
static bool hand_on(actor *a)
{
    client *c = a->client;
    ticket *left = &s.tickets[a->name];
    const dlk_grant *grant = a->hold->grant;
    uint64_t number = grant->number;
    int64_t now = client_time(c), rest = grant->lease.ends_at - now;
    /* The server's lease may have begun just now, by a renewal that was long under way. */
    int64_t whole = grant->terms.ttl_ms * MS;
    if (!s.config.hands_on || s.now > s.config.duration || a->again ||
        !chance(&a->rand, 600) || dlk_export(&c->core, a->hold, now) != DLOCK_OK)
        return false;
    (void)snprintf(left->giver, sizeof(left->giver), "%s:%llu",
                   is_local() ? c->process.uuid : c->uuid,
                   (unsigned long long)number); /* fits */
    left->shared = grant->terms.shared;
    left->take = grant->terms.take;
    /* Nobody's until it is taken over. */
    int leases = s.config.mode == MODE_ZOOKEEPER ? 3 : 2; /* told late, or closed late */
    orphans_may_last(a->name, leases * (rest > whole ? rest : whole) + SEC);
    tell(c->index, a->name, "caller %d hands %c on, #%llu", a->index, 'a' + a->name,
         (unsigned long long)number);
    forget(a);
    client_after(c);
    return true;
}

/* Instead of an acquire. */
static bool take_over(actor *a)
{
    client *c = a->client;
    int name = (int)between(&a->rand, 0, s.config.names - 1);
    const ticket *left = &s.tickets[name];
    char *giver = s.tickets[name].giver;
    int64_t now = client_time(c);
    if (!giver[0] || !c->names[name]->key.hands_on || !chance(&a->rand, 800))
        return false;
    a->name = name;
    a->mood = MOOD_WAITING;
    a->hold = a->again = NULL;
    a->asked_at = s.now;
    a->deadline = dlk_clock_after(now, between(&a->rand, 100, 4000));
    a->wait = (dlk_wait){
        .name = c->names[name],
        .owner = dlk_core_new_owner(&c->core),
        .terms = random_terms(c, &a->rand),
    };
    a->wait.terms.shared = left->shared; /* a reader's lock is no writer's */
    a->wait.terms.take = left->take;
    if (c->session_ms)
        a->wait.terms.ttl_ms = c->session_ms;
    if (chance(&a->rand, 500)) /* a renewal would mend what is wrong with the lease */
        a->wait.terms.renewal = DLK_RENEW_OFF;
    s.totals.acquires++;
    tell(c->index, name, "caller %d takes %c over, ttl %lld ms", a->index, 'a' + name,
         (long long)a->wait.terms.ttl_ms);
    dlk_import_start(&c->core, &a->wait, giver, a->deadline, now);
    if (s.config.mode != MODE_ETCD || chance(&a->rand, 700)) /* else two try it */
        giver[0] = '\0';
    client_after(c);
    return true;
}

/* Who only tries has its answer with one request; of a semaphore after those who tried before,
 * because fewer permits than they wanted may be free. Readers ask one after the other, too, and a
 * request may take its time for each of them. */
static int64_t time_of_try(void)
{
    return (kind_counts() || kind_has_sides() ? MAX_ACTORS : 1) * 3000 * MS;
}

static void ask_for_it(actor *a)
{
    client *c = a->client;
    if (s.config.hands_on && take_over(a))
        return;
    int64_t now = client_time(c);
    bool once = chance(&a->rand, 100), forever = chance(&a->rand, 200);
    int64_t most = chance(&a->rand, 300) ? 50 : 4000;
    if (kind_signals()) { /* for which everybody stands in line, and nobody comes in the end */
        once = forever = false;
        most *= 5;
    }
    int64_t wait_ms = forever ? -1 : between(&a->rand, 1, most);
    a->name = (int)between(&a->rand, 0, s.config.names - 1);
    a->mood = MOOD_WAITING;
    a->hold = a->again = NULL;
    a->asked_at = s.now;
    a->deadline = once ? now + time_of_try() : dlk_clock_after(now, wait_ms);
    bool thread = chance(&a->rand, 600);
    if (kind_counts() || kind_signals() || kind_of_client(c) == DLOCK_ELECTION)
        thread = false; /* there each acquire is an owner of its own */
    a->wait = (dlk_wait){
        .name = c->names[a->name],
        .owner = thread ? (uint64_t)a->index + 1 : dlk_core_new_owner(&c->core),
        .once = once,
        .terms = random_terms(c, &a->rand),
    };
    if (c->session_ms)
        a->wait.terms.ttl_ms = c->session_ms; /* a session's lease is the session's */
    s.totals.acquires++;
    tell(c->index, a->name, "caller %d acquires %c, ttl %lld ms (%s)", a->index,
         'a' + a->name, (long long)a->wait.terms.ttl_ms,
         once      ? "try"
         : forever ? "forever"
                   : "timed");
    dlk_acquire_start(&c->core, &a->wait, once ? DLK_NEVER : a->deadline, now);
    client_after(c);
}

/* The same owner once more: another hold of the same grant, at once. Who writes may read. */
static void enter_again(actor *a)
{
    client *c = a->client;
    dlk_terms terms = a->wait.terms;
    if (kind_of_client(c) == DLOCK_WRITE && !terms.shared)
        terms.shared = chance(&a->rand, 700);
    a->reentry = (dlk_wait){
        .name = c->names[a->name],
        .owner = a->wait.owner,
        .terms = terms,
    };
    dlk_acquire_start(&c->core, &a->reentry, DLK_NEVER, client_time(c));
    if (!a->reentry.over)
        violated(a->name, "client %d waits for %c, which it holds", c->index,
                 'a' + a->name);
    dlk_error_clear(&a->reentry.error);
    a->again = a->reentry.over && a->reentry.code == DLOCK_OK ? a->reentry.hold : NULL;
    s.totals.reentries += a->again != NULL;
    if (a->again && a->again->grant != a->hold->grant)
        violated(a->name, "client %d re-enters %c in another grant", c->index,
                 'a' + a->name);
    client_after(c);
}

/* Runs right after the core has ended the wait, which may not be called back into. */
static void look_at_result(event *e)
{
    actor *a = e->of;
    dlock_err code = a->wait.code;
    if (client_put_off(a->client, e))
        return;
    if (a->mood == MOOD_RELEASING) {
        tell(a->client->index, a->name, "caller %d's release of %c: %s", a->index,
             'a' + a->name, dlock_errname(code));
        forget(a);
        return;
    }
    s.totals.unknowns += code == DLOCK_EUNKNOWN;
    s.totals.timeouts += code == DLOCK_ETIMEDOUT;
    if (code != DLOCK_OK) {
        tell(a->client->index, a->name, "caller %d doesn't get %c: %s", a->index,
             'a' + a->name, dlock_errname(code));
        forget(a);
        return;
    }
    a->mood = MOOD_HOLDING;
    a->writes_left = (int)between(&a->rand, 0, 6);
    if (dlk_owner_is_thread(a->wait.owner) &&
        chance(&a->rand, kind_has_sides() ? 300 : 100))
        enter_again(a);
    plan(a, chance(&a->rand, 100) ? between(&a->rand, 0, 3000 * MS)
                                  : between(&a->rand, 0, 20 * MS));
}

/* Who tries may have been about to ask when its process was stopped, and has its request's time then. */
static bool may_be_late(const client *c, const actor *a)
{
    int64_t shaken = s.now - 500 * MS - (a->wait.once ? time_of_try() : 0);
    return c->dead || client_stopped(c) || c->upset_at > shaken ||
           s.table.stopped_until > s.now - 500 * MS;
}

static actor *actor_of(client *c, const dlk_wait *wait)
{
    for (int k = 0; k < s.config.actors; k++)
        if (&c->actors[k].wait == wait)
            return &c->actors[k];
    return NULL; /* a re-entry, which is looked at on the spot */
}

void actor_over(client *c, dlk_wait *wait)
{
    actor *a = actor_of(c, wait);
    if (!a)
        return;
    if (a->mood == MOOD_WAITING && wait->code == DLOCK_OK) {
        a->hold = wait->hold;
        s.totals.grants++;
        tell(c->index, a->name, "caller %d holds %c, #%llu, token …%06lld", a->index,
             'a' + a->name, (unsigned long long)a->hold->grant->number,
             (long long)(a->hold->token % 1000000));
        check_told(a);
    }
    if (a->mood == MOOD_WAITING && a->deadline < DLK_NEVER && !may_be_late(c, a) &&
        client_time(c) > a->deadline + 50 * MS)
        violated(a->name, "a wait of client %d ended %.0f ms after its time", c->index,
                 (double)(client_time(c) - a->deadline) / (double)MS);
    event_at(&a->next, s.now, look_at_result, a);
}

static void give_up_waiting(actor *a)
{
    client *c = a->client;
    s.totals.cancels++;
    tell(c->index, a->name, "caller %d cancels its wait for %c", a->index, 'a' + a->name);
    dlk_acquire_cancel(&c->core, &a->wait, DLOCK_ECANCELED, client_time(c));
    client_after(c);
}

static void let_go(actor *a)
{
    client *c = a->client;
    int64_t now = client_time(c);
    tell(c->index, a->name, "caller %d releases %c", a->index, 'a' + a->name);
    if (a->again) {
        dlk_release_start(&c->core, a->again, NULL, DLK_NEVER, now);
        free_hold(c, a->again);
        a->again = NULL;
    }
    a->mood = MOOD_RELEASING;
    if (kind_signals())
        a->hold->grant->used = chance(&a->rand, 700);
    if (a->hold->grant->used)
        tally_used(c, a->hold->grant);
    dlk_release_start(&c->core, a->hold, &a->wait, dlk_clock_after(now, 3000), now);
    client_after(c);
}

/* Where a lock may be gone without a word, careful ones ask before they rely on it; others extend. */
static void ask_about(actor *a, dlk_verb verb)
{
    client *c = a->client;
    int64_t now = client_time(c);
    dlk_query *query = calloc(1, sizeof(*query));
    if (!query)
        abort();
    query->grant = a->hold->grant;
    query->ask.verb = verb;
    query->ask.ttl_ms = query->grant->terms.ttl_ms;
    dlk_query_start(&c->core, query, dlk_clock_after(now, 3000), now);
}

/* A writer goes on as a reader: it gives back its write hold and keeps a read hold of the same
 * grant, or makes of the one the other. */
static void turn(actor *a)
{
    client *c = a->client;
    int64_t now = client_time(c);
    dlk_grant *grant = a->hold->grant;
    if (kind_moves()) /* the turn may overtake it */
        ask_about(a, chance(&a->rand, 500) ? DLK_RENEW : DLK_VERIFY);
    tell(c->index, a->name, "caller %d goes on as a reader of %c", a->index,
         'a' + a->name);
    if (a->again) {
        dlk_hold *write = a->hold;
        a->hold = a->again;
        a->again = NULL;
        dlk_release_start(&c->core, write, NULL, DLK_NEVER, now);
        free_hold(c, write);
    } else {
        a->hold->shared = true;
        grant->write_holds = 0;
        dlk_grant_turn(&c->core, grant, now);
    }
    client_after(c);
}

static bool may_turn(const actor *a)
{
    const dlk_grant *grant = a->hold->grant;
    return kind_of_client(a->client) == DLOCK_WRITE && !a->hold->shared &&
           grant->write_holds == 1 && (!a->again || a->again->shared);
}

static void work(actor *a)
{
    client *c = a->client;
    bool held = dlk_grant_settle(&c->core, a->hold->grant, client_time(c));
    if (held && a->hold->grant->terms.renewal == DLK_RENEW_FED)
        dlk_grant_feed(&c->core, a->hold->grant, client_time(c));
    if (!held || a->writes_left-- <= 0) {
        if (!held || !hand_on(a))
            let_go(a);
        return;
    }
    if ((s.config.mode == MODE_MEMCACHED || s.config.mode == MODE_REDLOCK) &&
        chance(&a->rand, 200))
        ask_about(a, DLK_VERIFY);
    begin_write(a);
    client_after(c);
    /* What was under way may just have told that it is lost. */
    if (may_turn(a) && chance(&a->rand, 150) && dlk_grant_lives(a->hold->grant))
        turn(a);
    plan(a, chance(&a->rand, 50) ? between(&a->rand, 0, 6000 * MS)
                                 : between(&a->rand, 0, 10 * MS));
}

/* Whoever holds it there is about to be done: for faults that hurt by what comes after. */
void actors_hurry(client *c, int name)
{
    for (int k = 0; k < s.config.actors; k++) {
        actor *a = &c->actors[k];
        if (a->mood != MOOD_HOLDING || a->name != name || !a->hold)
            continue;
        a->writes_left = 0;
        plan(a, between(&a->rand, 0, 400 * MS));
    }
}

/* Instead of waiting; nobody waits for the answer. */
static void signal_it(actor *a)
{
    client *c = a->client;
    int64_t now = client_time(c);
    int name = (int)between(&a->rand, 0, s.config.names - 1);
    dlk_query *query = tally_signal(name);
    query->name = c->names[name];
    query->ask.verb = DLK_SIGNAL;
    query->ask.limit = chance(&a->rand, 100) ? INT64_MAX : between(&a->rand, 1, 2);
    tell(c->index, name, "caller %d signals %c", a->index, 'a' + name);
    dlk_query_start(&c->core, query, dlk_clock_after(now, 3000), now);
    client_after(c);
    plan(a, between(&a->rand, 0, 500 * MS));
}

static void begin(actor *a)
{
    if (s.ending || a->client->closing) {
        a->mood = MOOD_GONE;
        return;
    }
    if (kind_signals() && chance(&a->rand, 400)) {
        signal_it(a);
        return;
    }
    ask_for_it(a);
    if (a->mood == MOOD_WAITING && !a->wait.over && chance(&a->rand, 200))
        plan(a, chance(&a->rand, 500)
                    ? between(&a->rand, 0, 5 * MS)
                    : between(&a->rand, 0, 500 * MS)); /* to cancel it */
}

static void think(event *e)
{
    actor *a = e->of;
    if (client_put_off(a->client, e))
        return;
    switch (a->mood) {
    case MOOD_THINKING:
        begin(a);
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
        free_holds(a);
        a->mood = MOOD_GONE;
    }
}
