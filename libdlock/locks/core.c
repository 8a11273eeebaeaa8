/* The whole of one client's decisions: alarms, the link, and handing on what happens. */
#include "locks/inner.h"

#include <assert.h>
#include <stdlib.h>

bool dlk_core_init(dlk_core *core, const dlk_port *port, const dlk_limits *limits,
                   uint64_t seed)
{
    *core = (dlk_core){.port = *port, .limits = *limits, .rand = {seed}};
    dlk_list_init(&core->grants);
    dlk_list_init(&core->queries);
    return dlk_heap_reserve(&core->alarms, 16);
}

void dlk_core_free(dlk_core *core)
{
    assert(core->name_count == 0);
    dlk_error_clear(&core->down);
    free(core->names);
    dlk_heap_free(&core->alarms);
}

uint64_t dlk_core_new_owner(dlk_core *core)
{
    return ++core->last_owner | UINT64_C(1) << 63; /* threads count from 1 */
}

/* ---- alarms ---- */

int64_t dlk_core_next(const dlk_core *core)
{
    const dlk_timer *first = dlk_heap_first(&core->alarms);
    return first ? first->at : DLK_NEVER;
}

static void wait_alarm(dlk_core *core, dlk_wait *wait, int64_t now)
{
    if (wait->releasing)
        dlk_release_detach(core, wait, DLOCK_EUNKNOWN, now);
    else
        dlk_acquire_cancel(core, wait, DLOCK_ETIMEDOUT, now);
}

void dlk_core_tick(dlk_core *core, int64_t now)
{
    for (;;) {
        dlk_timer *timer = dlk_heap_first(&core->alarms);
        if (!timer || timer->at > now)
            return;
        dlk_heap_remove(&core->alarms, timer);
        dlk_alarm *alarm = DLK_LIST_ITEM(timer, dlk_alarm, timer);
        switch (alarm->kind) {
        case DLK_ALARM_WAIT:
            wait_alarm(core, DLK_LIST_ITEM(alarm, dlk_wait, alarm), now);
            break;
        case DLK_ALARM_GRANT:
            dlk_grant_alarm(core, DLK_LIST_ITEM(alarm, dlk_grant, alarm), now);
            break;
        case DLK_ALARM_QUERY:
            dlk_query_alarm(core, DLK_LIST_ITEM(alarm, dlk_query, alarm), now);
            break;
        }
    }
}

int64_t dlk_retry_after(dlk_core *core, int64_t now, int *retries)
{
    int64_t ms = core->limits.backoff_min_ms;
    for (int i = 0; i < *retries && ms < core->limits.backoff_max_ms; i++)
        ms *= 2;
    if (ms > core->limits.backoff_max_ms)
        ms = core->limits.backoff_max_ms;
    ++*retries;
    return now + dlk_rand_jitter(&core->rand, ms * DLK_NS_PER_MS, 33);
}

/* ---- requests and results ---- */

bool dlk_ask_send(dlk_core *core, dlk_ask *ask, dlk_verb verb, dlk_grant *grant,
                  int64_t ttl_ms, int64_t deadline, int64_t now)
{
    if (ask->error)
        dlk_error_clear(&ask->error);
    ask->verb = verb;
    if (grant) {
        ask->key = &grant->name->key;
        ask->number = grant->number;
    }
    ask->ttl_ms = ttl_ms;
    ask->deadline = deadline;
    ask->since = now;
    ask->token = 0;
    ask->wait_ms = -1;
    if (core->up) {
        ask->reply = DLK_PENDING;
        core->port.ask(core->port.world, ask, now);
    } else {
        ask->reply = DLK_NOT_SENT;
    }
    return ask->reply != DLK_PENDING;
}

dlock_error *dlk_ask_error(dlk_ask *ask)
{
    dlock_error *error = ask->error;
    ask->error = NULL;
    return error;
}

void dlk_wait_end(dlk_core *core, dlk_wait *wait, dlock_err code, dlock_error *error)
{
    assert(!wait->over);
    dlk_list_remove(&wait->link);
    dlk_alarm_unreserve(core, &wait->alarm);
    wait->over = true;
    wait->code = code;
    wait->error = error;
    core->port.wait_over(core->port.world, wait);
}

void dlk_core_answered(dlk_core *core, dlk_ask *ask, int64_t now)
{
    /* Time first: an answer that comes after the end can't save a lease. */
    dlk_core_tick(core, now);
    dlk_grant *grant;
    switch (ask->verb) {
    case DLK_ACQUIRE:
        grant = DLK_LIST_ITEM(ask, dlk_grant, take);
        dlk_trying_answered(core, grant, now);
        break;
    case DLK_RELEASE:
        grant = DLK_LIST_ITEM(ask, dlk_grant, give);
        dlk_give_answered(core, grant, now);
        break;
    case DLK_RENEW:
        if (ask->text == NULL) { /* a query's ask is marked; see dlk_query_start */
            grant = DLK_LIST_ITEM(ask, dlk_grant, keep);
            dlk_grant_keep_answered(core, grant, now);
            break;
        }
        dlk_query_answered(core, DLK_LIST_ITEM(ask, dlk_query, ask), now);
        break;
    case DLK_VERIFY:
    case DLK_BREAK:
    case DLK_INSPECT:
    case DLK_LIST:
    case DLK_DOCTOR:
        dlk_query_answered(core, DLK_LIST_ITEM(ask, dlk_query, ask), now);
        break;
    }
}

void dlk_core_notified(dlk_core *core, dlk_key *key, int64_t now)
{
    dlk_name *name = DLK_LIST_ITEM(key, dlk_name, key);
    dlk_grant *trying = name->trying;
    dlk_name_ref(name);
    if (trying && trying->taking)
        trying->heard = true;
    else if (trying && trying->standing == DLK_STANDS_BEHIND)
        dlk_trying_send(core, trying, now);
    dlk_contend(core, name, now);
    DLK_LIST_FOR(it, &name->idlers)
    {
        dlk_query *query = DLK_LIST_ITEM(it, dlk_query, link);
        query->heard = query->busy;
        dlk_query_send(core, query, now);
    }
    dlk_name_unref(core, name);
}

/* ---- the link ---- */

/* What was given up goes first, so that our own next acquire finds the lock free; then what we
 * hold; then what we want. */
static void link_up(dlk_core *core, int64_t now)
{
    DLK_LIST_FOR(it, &core->grants)
    {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (grant->giving == DLK_GIVE_WANTED)
            dlk_give_send(core, grant, now);
    }
    DLK_LIST_FOR(it, &core->grants)
    {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (dlk_grant_lives(grant))
            dlk_grant_alarm(core, grant, now);
    }
    DLK_LIST_FOR(it, &core->grants)
    {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        dlk_name *name = grant->name;
        dlk_name_ref(name);
        if (name->trying == grant && grant->standing != DLK_STANDS_ASKED)
            dlk_trying_send(core, grant, now);
        dlk_contend(core, name, now);
        dlk_name_unref(core, name);
    }
    DLK_LIST_FOR(it, &core->queries)
    dlk_query_send(core, DLK_LIST_ITEM(it, dlk_query, all), now);
}

static void link_down(dlk_core *core, const dlock_error *why, int64_t now)
{
    DLK_LIST_FOR(it, &core->grants)
    {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (grant->name->trying == grant)
            dlk_trying_link_down(core, grant, why, now);
    }
    DLK_LIST_FOR(it, &core->queries)
    {
        dlk_query *query = DLK_LIST_ITEM(it, dlk_query, all);
        if (!query->over && !query->busy &&
            (query->connect || why->code != DLOCK_EUNAVAIL))
            dlk_query_fail(core, query, dlk_error_copy(why));
    }
}

void dlk_core_link(dlk_core *core, bool up, const dlock_error *why, int64_t now)
{
    dlk_core_tick(core, now);
    core->up = up;
    dlk_error_clear(&core->down);
    if (up) {
        link_up(core, now);
    } else {
        core->down = dlk_error_copy(why);
        link_down(core, why, now);
    }
}

/* ---- the end ---- */

static void close_name(dlk_core *core, dlk_name *name, int64_t now)
{
    dlk_name_ref(name);
    while (!dlk_list_empty(&name->queue))
        dlk_acquire_cancel(core,
                           DLK_LIST_ITEM(dlk_list_first(&name->queue), dlk_wait, link),
                           DLOCK_ECLOSED, now);
    dlk_name_unref(core, name);
}

static void close_grant(dlk_core *core, dlk_grant *grant, int64_t now)
{
    bool lives = dlk_grant_lives(grant);
    dlk_list *hold;
    while ((hold = dlk_list_take_first(&grant->holds)))
        atomic_store(&DLK_LIST_ITEM(hold, dlk_hold, link)->released, true);
    grant->hold_count = 0;
    if (atomic_load(&grant->state) != 0)
        atomic_store(&grant->state, DLOCK_RELEASED);
    if (lives)
        dlk_give_back(core, grant, now);
    else
        dlk_grant_drop(core, grant);
}

void dlk_core_close(dlk_core *core, int64_t now)
{
    if (core->closed)
        return;
    core->closed = true;
    for (size_t i = 0; i < core->name_buckets; i++)
        for (dlk_name *name = core->names[i], *next; name; name = next) {
            next = name->next;
            close_name(core, name, now);
        }
    DLK_LIST_FOR(it, &core->grants)
    close_grant(core, DLK_LIST_ITEM(it, dlk_grant, all), now);
    DLK_LIST_FOR(it, &core->queries)
    dlk_query_cancel(core, DLK_LIST_ITEM(it, dlk_query, all), DLOCK_ECLOSED, now);
}

size_t dlk_core_unconfirmed(const dlk_core *core)
{
    size_t count = 0;
    DLK_LIST_FOR(it, &core->grants)
    {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        count += grant->giving == DLK_GIVE_WANTED || grant->giving == DLK_GIVE_SENT;
    }
    return count;
}

void dlk_core_stop(dlk_core *core)
{
    core->up = false;
    DLK_LIST_FOR(it, &core->grants)
    {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (grant->releaser)
            dlk_release_detach(core, grant->releaser, DLOCK_EUNKNOWN, 0);
        grant->taking = grant->keeping = false;
        grant->giving = DLK_GIVE_DONE;
        dlk_grant_drop(core, grant);
    }
    DLK_LIST_FOR(it, &core->queries)
    {
        dlk_query *query = DLK_LIST_ITEM(it, dlk_query, all);
        query->busy = false;
        dlk_query_cancel(core, query, DLOCK_ECLOSED, 0);
    }
}
