/*
 * Between whatever happens and whom it is about: requests go out and their answers are handed on,
 * alarms ring, waits end. Requests of a grant are there only while they are under way: a client that
 * holds ten thousand locks asks for a hundred of them at a time.
 */
#include "locks/inner.h"

#include "util/number.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the memory of requests ---- */

static void spare_ask(dlk_core *core, dlk_ask *ask)
{
    core->spare_ask_count++;
    dlk_list_prepend(&core->spare_asks, &ask->link); /* still in the cache */
}

static dlk_ask *take_ask(dlk_core *core, bool may_use_saved)
{
    size_t saved = may_use_saved ? 0 : DLK_SAVED_ASKS;
    if (core->spare_ask_count > saved) {
        core->spare_ask_count--;
        return DLK_LIST_ITEM(dlk_list_take_first(&core->spare_asks), dlk_ask, link);
    }
    dlk_ask *ask = calloc(1, sizeof(*ask));
    core->ask_count += ask != NULL;
    return ask;
}

static bool asks_init(dlk_core *core)
{
    dlk_list_init(&core->spare_asks);
    while (core->spare_ask_count < DLK_SAVED_ASKS) {
        dlk_ask *ask = calloc(1, sizeof(*ask));
        if (!ask)
            return false;
        core->ask_count++;
        spare_ask(core, ask);
    }
    return true;
}

static void asks_free(dlk_core *core)
{
    assert(core->spare_ask_count == core->ask_count); /* all have been answered */
    dlk_list *spare;
    while ((spare = dlk_list_take_first(&core->spare_asks)))
        free(DLK_LIST_ITEM(spare, dlk_ask, link));
}

static void free_ask(dlk_core *core, dlk_ask *ask)
{
    if (ask->error)
        dlk_error_clear(&ask->error);
    ask->text = NULL;
    if (core->spare_ask_count < DLK_SPARE_ASKS) {
        spare_ask(core, ask);
        return;
    }
    core->ask_count--;
    free(ask);
}

/* ---- beginning and end ---- */

bool dlk_core_init(dlk_core *core, const dlk_port *port, const dlk_limits *limits,
                   uint64_t seed)
{
    *core = (dlk_core){.port = *port, .limits = *limits, .rand = {seed}};
    if (!core->port.tell)
        core->port.tell = &dlk_tell_nobody;
    dlk_list_init(&core->grants);
    dlk_list_init(&core->queries);
    core->phase = (int64_t)(seed % (uint64_t)DLK_NS_PER_SEC);
    return dlk_heap_reserve(&core->alarms, 16) && asks_init(core);
}

void dlk_core_free(dlk_core *core)
{
    assert(core->name_count == 0);
    asks_free(core);
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
        switch (timer->kind) {
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
        default: /* there is no other */
            break;
        }
    }
}

int64_t dlk_retry_after(dlk_core *core, int64_t now, uint8_t *retries)
{
    int64_t ms = core->limits.backoff_min_ms;
    for (int i = 0; i < *retries && ms < core->limits.backoff_max_ms; i++)
        ms *= 2;
    if (ms > core->limits.backoff_max_ms)
        ms = core->limits.backoff_max_ms;
    if (*retries < UINT8_MAX)
        ++*retries;
    return now + dlk_rand_jitter(&core->rand, ms * DLK_NS_PER_MS, 33);
}

/* ---- asking ---- */

void dlk_ask_prepare(dlk_ask *ask, dlk_verb verb, const dlk_grant *grant, int64_t ttl_ms,
                     int64_t deadline, int64_t now)
{
    if (ask->error)
        dlk_error_clear(&ask->error);
    ask->verb = verb;
    ask->shared = ask->once = ask->no_place = ask->new_place = ask->spent = false;
    ask->lasts = false;
    ask->take = 1;
    ask->next = 0;
    ask->undoes = ask->exported = ask->refills = ask->asked = false;
    ask->used = ask->clock_us = 0;
    ask->data = NULL;
    if (grant) {
        ask->key = &grant->name->key;
        ask->number = grant->number;
        ask->shared = grant->terms.shared;
        ask->take = grant->terms.take;
        ask->used = grant->used ? grant->token : 0;
        ask->data = dlk_label_text(grant->terms.label);
    }
    ask->ttl_ms = ttl_ms;
    ask->deadline = deadline;
    ask->since = ask->began = now;
    ask->token = ask->last_token = 0;
    ask->most_ms = ask->overlong = 0;
    ask->wait_ms = -1;
    ask->next_reply = DLK_PENDING;
}

bool dlk_ask_send(dlk_core *core, dlk_ask *ask, int64_t now)
{
    if (core->up) {
        ask->reply = DLK_PENDING;
        core->port.ask(core->port.world, ask, now);
    } else {
        ask->reply = DLK_NOT_SENT;
    }
    return ask->reply != DLK_PENDING;
}

void dlk_ask_trim(dlk_ask *ask)
{
    ask->wait_ms = dlk_span_ms(ask->wait_ms);
    ask->ttl_ms = dlk_number_clamp(ask->ttl_ms, 0, DLK_SPAN_MAX_MS);
}

int64_t dlk_ask_rest_over(const dlk_ask *ask, int64_t now, int64_t at)
{
    if (ask->wait_ms < 0)
        return at;
    int64_t over = dlk_clock_after(now, ask->wait_ms + 1); /* trimmed */
    return over < at ? over : at;
}

dlock_error *dlk_ask_error(dlk_ask *ask)
{
    dlock_error *error = ask->error;
    ask->error = NULL;
    return error;
}

dlk_ask *dlk_ask_new(dlk_core *core, dlk_verb verb, dlk_grant *grant, int64_t within_ms,
                     int64_t now)
{
    if (grant->more)
        dlk_grant_failed(grant, NULL);
    dlk_ask *ask = take_ask(core, verb == DLK_RELEASE || verb == DLK_RENEW);
    if (!ask)
        return NULL;
    ask->grant = grant;
    ask->heir = NULL;
    dlk_ask_prepare(ask, verb, grant, grant->terms.ttl_ms,
                    dlk_clock_after(now, within_ms), now);
    return ask;
}

static void grant_answered(dlk_core *core, dlk_ask *ask, int64_t now)
{
    dlk_grant *grant = ask->grant;
    dlk_ask_trim(ask);
    if (ask->verb == DLK_ACQUIRE)
        dlk_trying_answered(core, grant, ask, now);
    else if (ask->verb == DLK_RELEASE)
        dlk_give_answered(core, grant, ask, now);
    else if (ask->verb == DLK_RENEW)
        dlk_grant_keep_answered(core, grant, ask, now);
    else
        dlk_import_answered(core, grant, ask, now);
    free_ask(core, ask);
}

bool dlk_ask_go(dlk_core *core, dlk_ask *ask, int64_t now)
{
    if (!dlk_ask_send(core, ask, now))
        return false;
    grant_answered(core, ask, now);
    return true;
}

/* ---- results ---- */

void dlk_wait_begin(dlk_core *core, dlk_wait *wait, int64_t now)
{
    wait->over = wait->releasing = wait->importing = wait->behind = wait->placed = false;
    wait->grant = NULL;
    wait->hold = NULL;
    wait->error = NULL;
    wait->label = NULL;
    wait->began = now;
    wait->alarm = (dlk_alarm){.timer = {.kind = DLK_ALARM_WAIT}};
    dlk_list_init(&wait->link);
    if (dlk_alarm_reserve(core))
        return;
    core->alarm_users++; /* dlk_wait_end gives it back */
    dlk_wait_fail(core, wait, DLOCK_ENOMEM, "no memory for a wait");
}

void dlk_wait_end(dlk_core *core, dlk_wait *wait, dlock_err code, dlock_error *error)
{
    assert(!wait->over);
    dlk_chain_remove(&wait->name->queue, &wait->link);
    dlk_alarm_unreserve(core, &wait->alarm);
    dlk_label_unref(wait->label);
    wait->label = NULL;
    wait->over = true;
    wait->code = code;
    wait->error = error;
    if (code != DLOCK_OK)
        DLK_TELL(core->port.tell, DLK_TELL_LOCK, "%s: %s: %s", wait->name->key.name,
                 wait->releasing ? "not released" : "not granted",
                 error ? error->text : "");
    if (!wait->releasing)
        DLK_PROBE3(acquire_end, wait->name->key.name, wait, code);
    core->port.wait_over(core->port.world, wait);
}

static dlk_asked asked_for(dlk_verb verb)
{
    if (verb == DLK_ACQUIRE || verb == DLK_IMPORT)
        return DLK_ASKED_ACQUIRE;
    if (verb == DLK_RENEW)
        return DLK_ASKED_RENEWAL;
    return verb == DLK_RELEASE ? DLK_ASKED_RELEASE : DLK_ASKED_OTHER;
}

/* One without an answer has taken so long as well. */
static void count_answer(dlk_stats *stats, const dlk_ask *ask, int64_t now)
{
    if (ask->reply == DLK_NOT_SENT)
        return;
    stats->unanswered += ask->reply == DLK_UNKNOWN;
    dlk_hist_add(&stats->request[asked_for(ask->verb)], now - ask->began);
    DLK_PROBE3(request, ask->verb, now - ask->began, ask->reply == DLK_UNKNOWN);
}

void dlk_core_answered(dlk_core *core, dlk_ask *ask, int64_t now)
{
    count_answer(&core->stats, ask, now);
    /* Time first: an answer that comes after the end can't save a lease. */
    dlk_core_tick(core, now);
    if (ask->grant)
        grant_answered(core, ask, now);
    else
        dlk_query_answered(core, DLK_LIST_ITEM(ask, dlk_query, ask), now);
}

void dlk_core_mark_gone(dlk_key *key, uint64_t number)
{
    DLK_CHAIN_FOR (it, &DLK_LIST_ITEM(key, dlk_name, key)->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        grant->gone |= grant->number == number;
    }
}

/* What the service has said of grants of this name. */
static void heed(dlk_core *core, dlk_name *name, int64_t now)
{
    DLK_CHAIN_FOR (it, &name->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        bool lost = grant->gone && dlk_grant_lives(grant);
        grant->gone = false;
        if (lost)
            dlk_grant_lose(core, grant, DLK_LOSS_TAKEN, now);
        else
            dlk_keep_asked(core, grant, now);
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
    heed(core, name, now);
    dlk_grant *trying = name->trying;
    if (trying)
        DLK_TELL_OF(core, DLK_TELL_WAIT, trying, "%s", "woken: it may be free");
    if (trying && dlk_grant_takes(trying))
        dlk_grant_step(trying, DLK_GRANT_NOTIFIED);
    else if (trying && trying->standing == DLK_STANDS_BEHIND)
        dlk_trying_send(core, trying, now);
    dlk_contend(core, name, now);
    if (name->idlers > 0)
        tell_idlers(core, name, now);
    dlk_name_unref(core, name);
}
