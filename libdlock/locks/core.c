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
    core->phase = (int64_t)(seed % (uint64_t)DLK_NS_PER_SEC);
    return dlk_heap_reserve(&core->alarms, 16) && dlk_asks_init(core);
}

void dlk_core_free(dlk_core *core)
{
    assert(core->name_count == 0);
    dlk_asks_free(core);
    dlk_error_clear(&core->down);
    free(core->names);
    dlk_heap_free(&core->alarms);
}

uint64_t dlk_core_new_owner(dlk_core *core)
{
    return ++core->last_owner | UINT64_C(1) << 63;
}

/* ---- alarms ---- */

int64_t dlk_core_next(const dlk_core *core)
{
    const dlk_heap_item *first = dlk_heap_first(&core->alarms);
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
        const dlk_heap_item *first = dlk_heap_first(&core->alarms);
        if (!first || first->at > now)
            return;
        dlk_timer *timer = first->timer;
        dlk_heap_remove(&core->alarms, timer);
        dlk_alarm *alarm = DLK_LIST_ITEM(timer, dlk_alarm, timer);
        switch (alarm->kind) {
        case DLK_ALARM_WAIT:
            DLK_POINT("wait.due");
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

/* ---- results ---- */

void dlk_wait_end(dlk_core *core, dlk_wait *wait, dlock_err code, dlock_error *error)
{
    assert(!wait->over);
    dlk_list_remove(&wait->link);
    dlk_alarm_unreserve(core, &wait->alarm);
    dlk_label_unref(wait->label);
    wait->label = NULL;
    wait->over = true;
    wait->code = code;
    wait->error = error;
    core->port.wait_over(core->port.world, wait);
}

void dlk_core_answered(dlk_core *core, dlk_ask *ask, int64_t now)
{
    /* Time first: an answer that comes after the end can't save a lease. */
    dlk_core_tick(core, now);
    if (ask->grant)
        dlk_grant_answered(core, ask, now);
    else
        dlk_query_answered(core, DLK_LIST_ITEM(ask, dlk_query, ask), now);
}

void dlk_core_mark_gone(dlk_key *key, uint64_t number)
{
    DLK_LIST_FOR (it, &DLK_LIST_ITEM(key, dlk_name, key)->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        grant->gone |= grant->number == number;
    }
}

static void lose_gone(dlk_core *core, dlk_name *name, int64_t now)
{
    DLK_LIST_FOR (it, &name->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (grant->gone && dlk_grant_lives(grant))
            dlk_grant_lose(core, grant, true, now);
        grant->gone = false;
    }
}

static void tell_idlers(dlk_core *core, const dlk_name *name, int64_t now)
{
    DLK_LIST_FOR (it, &core->queries) {
        dlk_query *query = DLK_LIST_ITEM(it, dlk_query, all);
        if (query->name != name || !dlk_query_idles(query) || dlk_query_is_over(query))
            continue;
        if (query->stage == DLK_QUERY_RESTS)
            dlk_query_send(core, query, now);
        else
            dlk_query_step(query, DLK_QUERY_NOTIFIED);
    }
}

void dlk_core_notified(dlk_core *core, dlk_key *key, int64_t now)
{
    dlk_name *name = DLK_LIST_ITEM(key, dlk_name, key);
    dlk_name_ref(name);
    lose_gone(core, name, now);
    dlk_grant *trying = name->trying;
    if (trying && dlk_grant_takes(trying))
        dlk_grant_step(trying, DLK_GRANT_NOTIFIED);
    else if (trying && trying->standing == DLK_STANDS_BEHIND)
        dlk_trying_send(core, trying, now);
    dlk_contend(core, name, now);
    if (name->idlers > 0)
        tell_idlers(core, name, now);
    dlk_name_unref(core, name);
}

/* ---- the link ---- */

/* What was given up goes first, so that our own next acquire finds the lock free; then what we
 * hold; then what we want. */
static void link_up(dlk_core *core, bool first, int64_t now)
{
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        /* A confirmation that came due while there was no link waits for the end of the lease, if
         * for anything. */
        if (grant->stage == DLK_STAGE_OWED ||
            (grant->stage == DLK_STAGE_CONFIRMING &&
             grant->retry_at >= grant->lease.forgotten_at))
            dlk_give_send(core, grant, now);
    }
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (!dlk_grant_lives(grant))
            continue;
        if (core->limits.session)
            grant->renew_at = now;
        dlk_grant_alarm(core, grant, now);
    }
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        dlk_name *name = grant->name;
        dlk_name_ref(name);
        if (name->trying == grant && first)
            dlk_trying_connected(core, grant, now);
        else if (name->trying == grant)
            dlk_trying_send(core, grant, now);
        else if (dlk_importer(grant))
            dlk_import_send(core, grant, now);
        dlk_contend(core, name, now);
        dlk_name_unref(core, name);
    }
    DLK_LIST_FOR (it, &core->queries)
        dlk_query_send(core, DLK_LIST_ITEM(it, dlk_query, all), now);
}

static void link_down(dlk_core *core, const dlock_error *why, int64_t now)
{
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (grant->name->trying == grant)
            dlk_trying_link_down(core, grant, why, now);
        else if (dlk_importer(grant) && !dlk_grant_takes(grant) && !dlk_passes(why->code))
            dlk_import_send(core, grant, now); /* is told why it can't be */
        else if (core->limits.session)
            dlk_grant_doubt(core, grant);
    }
    DLK_LIST_FOR (it, &core->queries) {
        dlk_query *query = DLK_LIST_ITEM(it, dlk_query, all);
        if (query->stage == DLK_QUERY_RESTS &&
            (query->kind == DLK_QUERY_CONNECT || !dlk_passes(why->code)))
            dlk_query_fail(core, query, dlk_error_copy(why));
    }
}

void dlk_core_link(dlk_core *core, bool up, const dlock_error *why, int64_t now)
{
    dlk_core_tick(core, now);
    bool first = dlk_connecting(core);
    core->up = up;
    dlk_error_clear(&core->down);
    if (up) {
        link_up(core, first, now);
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
    for (dlk_hold *hold = grant->holds, *next; hold; hold = next) {
        next = hold->next; /* it is its caller's, who frees it, from the next line on */
        atomic_store(&hold->released, true);
    }
    grant->holds = NULL;
    grant->hold_count = grant->write_holds = 0;
    if (atomic_load(&grant->state) != 0)
        atomic_store(&grant->state, DLOCK_RELEASED);
    if (lives)
        dlk_give_back(core, grant, DLK_GRANT_RELEASED, now);
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
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (dlk_importer(grant))
            dlk_import_cancel(core, grant->waiter, DLOCK_ECLOSED, now);
        else
            close_grant(core, grant, now);
    }
    DLK_LIST_FOR (it, &core->queries)
        dlk_query_cancel(core, DLK_LIST_ITEM(it, dlk_query, all), DLOCK_ECLOSED, now);
}

size_t dlk_core_unconfirmed(const dlk_core *core)
{
    size_t count = 0;
    DLK_LIST_FOR (it, &core->grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        /* An acquire under way may yet get what has been given back before. */
        bool owed = grant->stage == DLK_STAGE_OWED || grant->stage == DLK_STAGE_RELEASING;
        count += owed || (grant->stage > DLK_STAGE_HELD && dlk_grant_takes(grant));
    }
    return count;
}

void dlk_core_stop(dlk_core *core)
{
    core->up = false;
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (grant->waiter)
            dlk_release_detach(core, grant->waiter, DLOCK_EUNKNOWN, 0);
        dlk_grant_step(grant, DLK_GRANT_STOPPED);
        dlk_grant_drop(core, grant);
    }
    DLK_LIST_FOR (it, &core->queries) {
        dlk_query *query = DLK_LIST_ITEM(it, dlk_query, all);
        dlk_query_step(query, DLK_QUERY_STOPPED);
        dlk_query_cancel(core, query, DLOCK_ECLOSED, 0);
    }
}
