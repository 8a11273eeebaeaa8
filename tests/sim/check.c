/* The promises, checked from outside: by what the service gives, what callers are told, and what
 * each may still believe by its own clock. */
#include "sim.h"

static event watchdog;

bool is_local(void)
{
    return s.config.mode == MODE_MEM || s.config.mode == MODE_FILE;
}

bool has_sessions(void)
{
    return sim_traits()->session;
}

/* ---- who has it ---- */

int service_holders(int name, holder ret[MAX_HELD])
{
    ret[0] = (holder){NOBODY, 0, 0};
    return is_local() ? table_holders(name, ret) : s.service->holders(name, ret);
}

bool service_holder(int name, holder *ret)
{
    holder all[MAX_HELD];
    int count = service_holders(name, all);
    *ret = all[0];
    return count > 0;
}

/* ---- exclusion and tokens ---- */

/* Of what was asked for before this, the service has lost some or all. */
void state_lost(int name, int64_t orphans_for)
{
    s.state_lost_at[name] = s.now;
    lines_forget(name);
    orphans_may_last(name, orphans_for);
}

void orphans_may_last(int name, int64_t ns)
{
    if (s.orphans_until[name] < s.now + ns)
        s.orphans_until[name] = s.now + ns;
}

static bool is_excused(const client *c, const dlk_grant *grant)
{
    int64_t since = grant->lease.suspect_at - grant->terms.ttl_ms / 2 * MS;
    return s.state_lost_at[grant->name->key.name[0] - 'a'] >= true_time(c, since) - 1;
}

/* The grant of one who may write now, by its own clock, to this name. */
static const dlk_grant *believes(const client *c, const actor *a, int name)
{
    if (c->dead || a->name != name || !a->hold)
        return NULL;
    const dlk_grant *grant = a->hold->grant;
    bool valid = dlk_grant_lives(grant) && client_time(c) < grant->lease.ends_at;
    return valid && !is_excused(c, grant) ? grant : NULL;
}

/* May both have it at once? Permits are counted. */
static bool together(const wish *it, const client *c, const dlk_grant *grant,
                     int64_t *taken)
{
    if (it->client >= 0 && kind_of_client(&s.clients[it->client]) != kind_of_client(c))
        return false;
    *taken += grant->terms.take;
    if (kind_signals())
        return true;
    if (kind_counts())
        return *taken <= kind_permits();
    return kind_has_sides() && it->shared && grant->terms.shared;
}

/* By its number, or where nobody knows that by its token. */
static bool is_its(const client *c, const dlk_grant *grant, int who, uint64_t number,
                   int64_t token)
{
    return c->index == who &&
           (number ? grant->number == number : token != 0 && grant->token == token);
}

static void check_alone(int name, const wish *it, int64_t token, const char *what)
{
    int64_t taken = it->take;
    for (int i = 0; i < s.config.clients; i++) {
        const client *c = &s.clients[i];
        for (int k = 0; k < s.config.actors; k++) {
            const dlk_grant *grant = believes(c, &c->actors[k], name);
            if (!grant || is_its(c, grant, it->client, it->number, token) ||
                together(it, c, grant, &taken))
                continue;
            violated(name, "client %d %s %c, and client %d holds it for another %.3f ms",
                     it->client, what, 'a' + name, i,
                     (double)(grant->lease.ends_at - client_time(c)) / (double)MS);
        }
    }
}

/* Where the server's clock was set back and its counter was lost, tokens may repeat: promises.md
 * says so. */
bool tokens_may_repeat(void)
{
    uint64_t losing =
        FAULT_BIT(FAULT_WIPE) | FAULT_BIT(FAULT_EVICT) | FAULT_BIT(FAULT_FAILOVER);
    return s.server.wall_was_back && (s.config.faults & losing) != 0;
}

static given *given_to(int name, const wish *it)
{
    for (int i = 0; i < MAX_GIVEN; i++) {
        given *g = &s.given[name][i];
        if (g->token && g->sender == it->sender && g->number == it->number)
            return g;
    }
    return NULL;
}

/* A grant that is asked for again has its token again, or, where that was lost, a larger one; or the
 * first once more, where a failover since has brought back what was lost before it. */
static void check_token(int name, const wish *it, int64_t token)
{
    given *before = given_to(name, it);
    if (before && before->token == token)
        return;
    if (before && before->before == token && s.failed_over_at >= before->at)
        return;
    if (token <= s.granted_token[name] && !tokens_may_repeat())
        violated(name, "the token %lld of %c isn't larger than %lld", (long long)token,
                 'a' + name, (long long)s.granted_token[name]);
    if (token > s.granted_token[name])
        s.granted_token[name] = token;
    if (!before)
        before = &s.given[name][s.given_count[name]++ % MAX_GIVEN];
    bool again = before->sender == it->sender && before->number == it->number;
    *before = (given){it->sender, it->number, token, again ? before->token : 0, s.now};
}

void check_given(int name, const wish *it, int64_t token)
{
    s.grants_of[name]++;
    check_alone(name, it, token, "is given");
    if (token && !kind_signals()) /* a signal's fences nothing */
        check_token(name, it, token);
}

void check_told(const actor *me)
{
    const client *c = me->client;
    const dlk_grant *grant = believes(c, me, me->name);
    if (!is_local() && s.service->told)
        s.service->told(me);
    if (!grant) /* it may have been stopped over the answer */
        return;
    const wish mine = {.client = c->index,
                       .number = grant->number,
                       .shared = grant->terms.shared,
                       .take = grant->terms.take};
    check_alone(me->name, &mine, 0, "was told that it holds");
    if (kind_keeps())
        kept_told(me);
    check_backed(me);
}

bool state_lost_of_late(int name)
{
    return s.state_lost_at[name] > 0 && s.state_lost_at[name] > s.now - 20 * SEC;
}

/* Where the service keeps a lock until its session's end, who believes to have it has it. */
void check_backed(const actor *me)
{
    holder all[MAX_HELD];
    const client *c = me->client;
    const dlk_grant *grant = believes(c, me, me->name);
    if (!grant || !has_sessions())
        return;
    /* Whoever has a signal keeps it, though an operator has taken away what the service knows of signals. */
    if (kind_signals() && state_lost_of_late(me->name))
        return;
    int count = service_holders(me->name, all);
    for (int i = 0; i < count; i++)
        if (is_its(c, grant, all[i].client, all[i].number, all[i].token))
            return;
    violated(me->name, "client %d relies on %c, #%llu, which isn't its at the service",
             c->index, 'a' + me->name, (unsigned long long)grant->number);
}

/* A join of its client's that came late has made anew, on etcd, what an operator had deleted: that is another
 * grant. */
static bool is_made_anew(const dlk_grant *grant, int name, const holder *it)
{
    return s.config.mode == MODE_ETCD &&
           (grant->token ? it->token > grant->token : state_lost_of_late(name));
}

/* Before its time it is lost by the service's word alone, and then the service knows nothing of it. But
 * where somebody takes a writer's node from it while it becomes a reader, the reader's is there yet; and what
 * a failover has brought back may be told to be lost by an answer from before it. */
void check_lost(const client *c, const dlk_grant *grant)
{
    holder all[MAX_HELD];
    int name = grant->name->key.name[0] - 'a';
    bool two_nodes = has_sessions() && kind_has_sides() &&
                     (s.config.faults & FAULT_BIT(FAULT_BREAK)) != 0;
    bool brought_back = s.failed_over_at > 0 && s.failed_over_at > s.now - SEC;
    if (is_local() || two_nodes || brought_back ||
        dlk_lease_over(&grant->lease, client_time(c)))
        return;
    int count = service_holders(name, all);
    for (int i = 0; i < count; i++)
        if (is_its(c, grant, all[i].client, all[i].number, all[i].token) &&
            !is_made_anew(grant, name, &all[i]))
            violated(name, "client %d is told that its %c, #%llu, is lost, and has it",
                     c->index, 'a' + name, (unsigned long long)grant->number);
}

/* ---- liveness ---- */

/* Long enough ago for the slowest poll to have mended what it broke. */
bool is_calm(int64_t until)
{
    return until < s.now - SIM_POLL_MS * MS * 5 / 4 - SEC;
}

/* A process that stopped between handing a lock on and waking its new owner owes that wake. */
static bool somebody_owes(void)
{
    for (int i = 0; i < s.config.clients; i++)
        if (s.clients[i].blocked > 0)
            return true;
    return false;
}

bool service_is_calm(void)
{
    if (somebody_owes())
        return false;
    for (int i = 0; i < s.node_count; i++)
        if (!is_calm(s.nodes[i].frozen_until) || !is_calm(s.nodes[i].refuses_until) ||
            !is_calm(s.nodes[i].down_until))
            return false;
    return is_calm(s.server.frozen_until) && is_calm(s.server.refuses_until) &&
           is_calm(s.server.down_until) && is_calm(s.table.stopped_until) &&
           (s.table.inside == NOBODY || s.table.inside_died);
}

bool client_is_reachable(const client *c)
{
    if (c->dead || c->closing || client_stopped(c))
        return false;
    return is_local() ? c->process.local->up : c->connected && !s.service->is_quiet(c);
}

bool client_is_well(const client *c)
{
    return client_is_reachable(c) && is_calm(c->up_since) && is_calm(c->upset_at);
}

bool waits_long(const client *c, int name)
{
    for (int k = 0; k < s.config.actors; k++)
        if (c->actors[k].mood == MOOD_WAITING && c->actors[k].name == name &&
            c->actors[k].asked_at < s.now - 1000 * MS)
            return true;
    return false;
}

/* When a client last died, or was born. */
static int64_t last_death(void)
{
    int64_t last = 0;
    for (int i = 0; i < s.config.clients; i++)
        if (s.clients[i].up_since > last)
            last = s.clients[i].up_since;
    return last;
}

/* Nobody has it, and nobody but an import can, before its lease ends. */
static bool is_exported(int name)
{
    const dlk_record *record = &s.table.last[name];
    return is_local() && record->owner == DLK_OWNER_EXPORTED &&
           record->until > sim_time();
}

/* Of those who share in a table, whoever is next, if what it wants is free. */
static int who_fits(int name)
{
    return is_local() ? table_next_fits(name) : NOBODY;
}

static bool is_taken(int name)
{
    holder by;
    return is_exported(name) || (service_holder(name, &by) && who_fits(name) == NOBODY);
}

static int64_t free_for(int name)
{
    bool same = s.grants_of[name] == s.free_grants[name];
    s.free_grants[name] = s.grants_of[name];
    if (is_taken(name) || !same || s.free_since[name] == 0)
        s.free_since[name] = s.now;
    int64_t since = s.free_since[name];
    /* Each who dies in a fair lock's line is waited for: clients that are killed again and again
     * keep the others waiting for as long. */
    if (kind_is_fair() && last_death() > since)
        since = last_death();
    return s.now - since;
}

/* Nobody is told of a wipe, nor when a lease ends: that is what polls are for. */
static bool ended_unheard(int name)
{
    if (is_local())
        return table_has_remains(name);
    if (s.config.mode > MODE_REDIS)
        return false; /* a watch tells of whatever end, or who waits looks all the time */
    return !is_calm(s.state_lost_at[name]) || !is_calm(s.failed_over_at) ||
           !s.given_back[name];
}

/* How long a free lock may wait for this client. Of a fair lock's waiters none knows when the lease
 * ends of one who was before it in the line. */
static int64_t patience(const client *c)
{
    bool hears = is_local() || s.service->hears(c);
    int64_t look = SIM_POLL_MS * MS * 5 / 4 + SEC;
    if (s.config.mode == MODE_MEMCACHED)
        return 3 * SEC; /* it looks each client.retry_ms, and some of it takes its time */
    if (s.config.mode == MODE_REDLOCK)
        return 8 * SEC; /* the same, and several may each get a part of the nodes */
    if (s.config.mode == MODE_ETCD && !hears)
        return look +
               6 * SEC; /* a watch that has gone deaf is believed for five seconds */
    if (kind_is_fair())
        /* Who is silent for three seconds by the server's clock is taken for dead. */
        return look + 4 * SEC + s.server.set_back;
    return hears ? SEC : look;
}

/* A free lock that a healthy client waits for, which hears of its release, must be granted sooner
 * than by polling alone. */
static void check_progress(int name)
{
    int64_t since = free_for(name);
    if (!is_local() && !s.service->attends(name)) {
        if (has_sessions())
            s.free_since[name] = s.now; /* there a session has to end first */
        return;
    }
    if (since < 1000 * MS || !service_is_calm() ||
        (ended_unheard(name) && !is_calm(s.now - since)))
        return;
    int next = who_fits(name);
    for (int i = 0; i < s.config.clients; i++) {
        const client *c = &s.clients[i];
        if (client_is_well(c) && since >= patience(c) && c->names[name]->trying &&
            (next == NOBODY || next == i) && (is_local() || s.service->idle(c)) &&
            waits_long(c, name))
            violated(name, "%c has been free for %.1f s, and client %d waits for it",
                     'a' + name, (double)since / (double)SEC, i);
    }
}

static bool can_mend(int name, const client *c)
{
    return client_is_reachable(c) && s.now >= s.server.frozen_until &&
           s.now >= s.server.refuses_until && s.now >= s.orphans_until[name] &&
           (!is_local() || s.table.inside == NOBODY);
}

/* What is locked for a grant that its client has forgotten is an orphan: it would keep others
 * waiting to the end of its lease. */
static void check_orphan(int name)
{
    holder all[MAX_HELD];
    const holder *orphan = NULL;
    int count = service_holders(name, all);
    for (int i = 0; i < count && !orphan; i++)
        if (all[i].client >= 0 && can_mend(name, &s.clients[all[i].client]) &&
            !client_has_grant(&s.clients[all[i].client], all[i].number))
            orphan = &all[i];
    if (!orphan)
        s.orphan_since[name] = 0;
    else if (!s.orphan_since[name])
        s.orphan_since[name] = s.now;
    else if (s.now - s.orphan_since[name] > 2 * SEC)
        violated(name, "%c is locked for #%llu of client %d, which knows nothing of it",
                 'a' + name, (unsigned long long)orphan->number, orphan->client);
}

/* It has got it, and waits still, though nothing keeps it from hearing. */
static bool is_unheard(int name, const holder *by)
{
    const client *c = &s.clients[by->client];
    const dlk_grant *trying = c->names[name]->trying;
    return trying && trying->number == by->number && c->upset_at < s.now - SEC &&
           client_is_reachable(c) && !somebody_owes() && s.table.inside == NOBODY;
}

/* Whose turn has come in a table's line must hear of it, whoever should have woken it. */
static void check_heard(int name)
{
    holder all[MAX_HELD];
    int count = service_holders(name, all), i = 0;
    while (i < count && !is_unheard(name, &all[i]))
        i++;
    if (i == count)
        s.unheard_since[name] = 0;
    else if (!s.unheard_since[name])
        s.unheard_since[name] = s.now;
    else if (s.now - s.unheard_since[name] > 500 * MS)
        violated(name, "%c was given to client %d, which waits and hasn't heard of it",
                 'a' + name, all[i].client);
}

static void run_watchdog(event *e)
{
    for (int n = 0; n < s.config.names; n++) {
        if (!is_local() && s.service->watchdog)
            s.service->watchdog(n);
        else
            check_orphan(n);
        if (is_local())
            check_heard(n);
        if (kind_keeps())
            kept_watch(n);
        if (s.config.kind == KIND_CONDITION || s.config.kind == KIND_MOVED_CONDITION)
            conditions_watch(n);
        else if (!kind_signals())
            check_progress(n);
    }
    if (!s.ending)
        event_at(e, s.now + 100 * MS, run_watchdog, NULL);
}

void watchdog_begin(void)
{
    watchdog = (event){0};
    event_at(&watchdog, s.now + 500 * MS, run_watchdog, NULL);
}

/* ---- at the end ---- */

static void check_client_rest(const client *c)
{
    for (int k = 0; k < s.config.actors; k++)
        if (!actor_idle(&c->actors[k]) &&
            (kind_forgets() || c->actors[k].mood != MOOD_WAITING))
            violated(c->actors[k].name, "client %d.%d never came to rest: mood %d",
                     c->index, k, (int)c->actors[k].mood);
    if (dlk_core_unconfirmed(&c->core) > 0)
        violated(ALL_NAMES, "client %d still has unconfirmed releases", c->index);
    if (dlk_list_empty(&c->core.grants) || !kind_forgets())
        return;
    const dlk_grant *left =
        DLK_LIST_ITEM(dlk_list_first(&c->core.grants), dlk_grant, all);
    violated(left->name->key.name[0] - 'a',
             "client %d still has the grant #%llu: state %d, stage %d, standing %d",
             c->index, (unsigned long long)left->number, (int)dlk_grant_state(left),
             (int)left->stage, (int)left->standing);
}

void check_rest(void)
{
    holder by;
    for (int i = 0; i < s.config.clients; i++)
        check_client_rest(&s.clients[i]);
    for (int n = 0; n < s.config.names; n++)
        if (service_holder(n, &by) && s.now >= s.orphans_until[n] && kind_forgets())
            violated(n, "%c is still locked, by client %d #%llu", 'a' + n, by.client,
                     (unsigned long long)by.number);
    if (is_local())
        table_check_rest();
    else
        s.service->check_rest();
}
