/*
 * Questions and orders beside acquire and release: verify, extend, break, signal, inspect, list, doctor,
 * wait_idle. All but break and signal may be asked again when an answer is lost.
 */
#include "locks/inner.h"
#include "util/info.h"

#include <string.h>

#define LOOK_EVERY_MS 20

void dlk_query_end(dlk_core *core, dlk_query *query, dlock_err code, dlock_error *error)
{
    if (dlk_query_is_over(query)) {
        dlk_error_clear(&error);
        return;
    }
    if (dlk_query_idles(query) && query->stage != DLK_QUERY_NEW)
        query->name->idlers--;
    dlk_query_step(query, DLK_QUERY_ENDED);
    query->code = code;
    query->error = error;
    dlk_alarm_set(core, &query->alarm, DLK_NEVER);
    core->port.query_over(core->port.world, query);
}

/* Over, and no request of it is under way: nobody of ours needs it any more. */
static void retire(dlk_core *core, dlk_query *query)
{
    if (query->stage != DLK_QUERY_OVER || dlk_list_empty(&query->all))
        return;
    dlk_list_remove(&query->all);
    dlk_alarm_unreserve(core, &query->alarm);
    dlk_error_clear(&query->ask.error);
    dlk_grant *grant = query->grant;
    dlk_name *name = query->name;
    core->port.free_query(core->port.world, query);
    if (grant)
        dlk_grant_unref(core, grant);
    if (name) {
        if (name->key.watched && !name->queue.first && name->idlers == 0) {
            name->key.watched = false;
            core->port.watch(core->port.world, &name->key, false, 0);
        }
        dlk_name_unref(core, name);
    }
}

static const char *subject(const dlk_query *query)
{
    return query->name ? query->name->key.name : "request";
}

static void end_with(dlk_core *core, dlk_query *query, dlock_err code, const char *text)
{
    dlk_query_end(core, query, code,
                  dlk_error_make(code, "%s: %s", subject(query), text));
}

static void schedule(dlk_core *core, dlk_query *query)
{
    if (dlk_query_is_over(query))
        return;
    bool retry = query->stage == DLK_QUERY_RESTS && query->retry_at < query->deadline;
    dlk_alarm_set(core, &query->alarm, retry ? query->retry_at : query->deadline);
}

void dlk_query_start(dlk_core *core, dlk_query *query, int64_t deadline, int64_t now)
{
    if (dlk_query_is_over(query)) { /* for want of memory, before it was begun */
        core->port.free_query(core->port.world, query);
        return;
    }
    dlk_query_step(query, DLK_QUERY_STARTED);
    query->alarm = (dlk_alarm){.timer = {.kind = DLK_ALARM_QUERY}};
    query->deadline = deadline;
    query->retry_at = DLK_NEVER;
    dlk_list_append(&core->queries, &query->all);
    if (query->grant) {
        query->grant->refs++;
        query->run = dlk_grant_run(query->grant);
    }
    if (query->name) {
        dlk_name_ref(query->name);
        query->ask.key = &query->name->key;
        query->name->idlers += dlk_query_idles(query);
        if (dlk_query_idles(query)) /* what nobody has is free to us */
            (void)dlk_keep_give_up(core, query->name, now);
    }
    bool room = dlk_alarm_reserve(core);
    if (!room)
        core->alarm_users++;
    if (!room)
        end_with(core, query, DLOCK_ENOMEM, "no memory for a request");
    else if (core->closed)
        end_with(core, query, DLOCK_ECLOSED, "the client is closed");
    else if (query->hold && atomic_load(&query->hold->released))
        end_with(core, query, DLOCK_ENOTHELD, "this hold was released");
    if (dlk_query_is_over(query))
        retire(core, query);
    else
        dlk_query_send(core, query, now);
}

static void send_connect(dlk_core *core, dlk_query *query)
{
    if (core->up)
        dlk_query_end(core, query, DLOCK_OK, NULL);
    schedule(core, query);
    retire(core, query);
}

/* Is the grant still that of the hold that is asked about? */
static bool is_its_own(dlk_core *core, const dlk_query *query, int64_t now)
{
    return dlk_grant_settle(core, query->grant, now) &&
           !dlk_grant_moved_on(query->grant, query->run);
}

void dlk_query_send(dlk_core *core, dlk_query *query, int64_t now)
{
    if (query->stage != DLK_QUERY_RESTS)
        return;
    if (query->kind == DLK_QUERY_CONNECT) {
        send_connect(core, query);
        return;
    }
    dlk_ask *ask = &query->ask;
    if (query->grant && !is_its_own(core, query, now)) {
        end_with(core, query, DLOCK_ELOST, "lost");
        retire(core, query);
        return;
    }
    dlk_query_step(query, DLK_QUERY_SENT);
    query->retry_at = DLK_NEVER;
    int64_t patience = dlk_clock_after(now, core->limits.timeout_ms);
    dlk_ask_prepare(
        ask, ask->verb, query->grant, ask->ttl_ms,
        patience < query->deadline || dlk_query_idles(query) ? patience : query->deadline,
        now);
    ask->brief = dlk_query_idles(query);
    if (query->grant && ask->verb == DLK_RENEW) {
        dlk_grant_bound(core, query->grant, ask, now);
        if (query->grant->keep)
            query->grant->keep->extended = true;
    }
    if (dlk_ask_send(core, ask, now))
        dlk_query_answered(core, query, now);
    else
        schedule(core, query);
}

/* ---- answers ---- */

/* Backends leave those of their own client out: of all who want a name here only the first is known
 * there, if anybody is. */
static void count_own_waiters(dlk_core *core, const dlk_query *query)
{
    const dlk_key *key = &query->name->key;
    dlk_name *name = NULL;
    int64_t own = 0;
    while ((name = dlk_name_find(core, key->kind, key->name, key->size, name))) {
        DLK_CHAIN_FOR (it, &name->queue)
            own += !DLK_LIST_ITEM(it, dlk_wait, link)->once; /* a try doesn't wait */
    }
    if (own > 0)
        dlk_info_raise(query->info, own, "waiters");
}

static void answered_yes(dlk_core *core, dlk_query *query, int64_t now)
{
    dlk_ask *ask = &query->ask;
    if (ask->verb == DLK_RENEW) {
        query->grant->terms.ttl_ms = ask->ttl_ms;
        dlk_grant_renewed(core, query->grant, ask, now);
        dlk_grant_schedule(core, query->grant);
    }
    query->info = ask->info;
    ask->info = NULL;
    if (ask->verb == DLK_INSPECT)
        count_own_waiters(core, query);
    if (query->info && dlk_info_failed(query->info)) {
        dlk_info_free(query->info);
        query->info = NULL;
        end_with(core, query, DLOCK_ENOMEM, "no memory for the answer");
        return;
    }
    dlk_query_end(core, query, DLOCK_OK, NULL);
}

static void answered_not_ours(dlk_core *core, dlk_query *query, int64_t now)
{
    if (query->ask.verb == DLK_BREAK || query->ask.verb == DLK_REVOKE) {
        end_with(core, query, DLOCK_ENOTHELD,
                 "nobody holds it, or another than was named");
        return;
    }
    if (query->grant)
        dlk_grant_lose(core, query->grant, DLK_LOSS_DENIED, now);
    end_with(core, query, DLOCK_ELOST, "the server says it isn't ours");
}

static bool says_held(const dlock_info *info)
{
    for (size_t i = 0; info && i < info->count; i++)
        if (strcmp(info->entries[i].key, "held") == 0)
            return strcmp(info->entries[i].text, "true") == 0 ||
                   strcmp(info->entries[i].text, "1") == 0;
    return false;
}

/* wait_idle: an inspection has come back. True when it goes on waiting. */
static bool still_held(dlk_core *core, dlk_query *query, int64_t now)
{
    bool held = says_held(query->ask.info);
    query->left = held ? DLK_QUERY_LEFT_HELD : DLK_QUERY_LEFT_NOTHING;
    dlk_info_free(query->ask.info);
    query->ask.info = NULL;
    if (!held) {
        dlk_query_end(core, query, DLOCK_OK, NULL);
        return false;
    }
    if (query->kind == DLK_QUERY_IDLE_NOW) {
        end_with(core, query, DLOCK_EBUSY, "somebody holds it");
        return false;
    }
    /* A service with a line of its own may tell those in the line only, not those who look. */
    const dlk_key *key = &query->name->key;
    int64_t poll_ms = core->limits.poll_ms;
    if (key->queues && !key->tells_all && poll_ms > LOOK_EVERY_MS)
        poll_ms = LOOK_EVERY_MS;
    query->retry_at = now + dlk_rand_jitter(&core->rand, poll_ms * DLK_NS_PER_MS, 25);
    query->retry_at = dlk_ask_rest_over(&query->ask, now, query->retry_at);
    if (!query->name->key.watched) {
        query->name->key.watched = true;
        core->port.watch(core->port.world, &query->name->key, true, now);
    }
    return true;
}

static void answered_not(dlk_core *core, dlk_query *query, int64_t now)
{
    dlk_ask *ask = &query->ask;
    bool refused = ask->reply == DLK_REFUSED;
    if (ask->reply == DLK_NOT_SENT && dlk_down_for_good(core)) {
        dlk_query_end(core, query, core->down->code, dlk_error_copy(core->down));
        return;
    }
    if (ask->reply == DLK_UNKNOWN)
        query->left = DLK_QUERY_LEFT_UNANSWERED;
    if (refused && !dlk_passes(ask->error->code)) {
        dlock_err code = ask->error->code;
        dlk_query_end(core, query, code, dlk_ask_error(ask));
    } else if (ask->reply == DLK_UNKNOWN &&
               (ask->verb == DLK_BREAK || ask->verb == DLK_SIGNAL)) {
        end_with(core, query, DLOCK_EUNKNOWN, "sent, and not answered");
    } else {
        query->retry_at = dlk_retry_after(core, now, &query->retries);
    }
}

void dlk_query_answered(dlk_core *core, dlk_query *query, int64_t now)
{
    bool stale = query->stage == DLK_QUERY_ASKED_STALE;
    dlk_query_step(query, DLK_QUERY_ANSWERED);
    dlk_ask_trim(&query->ask);
    dlk_reply reply = query->ask.reply;
    if (dlk_query_is_over(query)) {
        dlk_info_free(query->ask.info);
        query->ask.info = NULL;
    } else if (query->grant && !is_its_own(core, query, now)) {
        end_with(core, query, DLOCK_ELOST, "lost while the answer was on its way");
    } else if (reply == DLK_YES && dlk_query_idles(query)) {
        if (still_held(core, query, now) && stale) {
            dlk_query_send(core, query,
                           now); /* what it heard may be newer than the answer */
            return;
        }
    } else if (reply == DLK_YES) {
        answered_yes(core, query, now);
    } else if (query->grant && dlk_ask_is_overtaken(&query->ask, query->grant)) {
        query->left = DLK_QUERY_LEFT_UNANSWERED;
        if (now < query->deadline) {
            dlk_query_send(core, query, now);
            return;
        }
    } else if (reply == DLK_NOT_OURS) {
        answered_not_ours(core, query, now);
    } else {
        answered_not(core, query, now);
    }
    schedule(core, query);
    retire(core, query);
}

/* ---- time and cancelling ---- */

static void end_late(dlk_core *core, dlk_query *query)
{
    dlock_error *why = query->ask.error ? query->ask.error : core->down;
    const char *text = why ? why->text : "no answer in time";
    bool unanswered =
        query->stage != DLK_QUERY_RESTS || query->left == DLK_QUERY_LEFT_UNANSWERED;
    dlock_err code = unanswered ? DLOCK_EUNKNOWN : DLOCK_EUNAVAIL;
    if (why && why->code == DLOCK_EQUORUM)
        code = why->code;
    if (query->left == DLK_QUERY_LEFT_HELD)
        end_with(core, query, DLOCK_ETIMEDOUT, "held all the time");
    else
        end_with(core, query, code, text);
}

void dlk_query_alarm(dlk_core *core, dlk_query *query, int64_t now)
{
    if (now >= query->deadline) {
        end_late(core, query);
        retire(core, query);
    } else {
        dlk_query_send(core, query, now);
    }
}

void dlk_query_fail(dlk_core *core, dlk_query *query, dlock_error *error)
{
    dlk_query_end(core, query, error->code, error);
    retire(core, query);
}

void dlk_query_cancel(dlk_core *core, dlk_query *query, dlock_err code, int64_t now)
{
    (void)now;
    if (!dlk_query_is_over(query))
        end_with(core, query, code,
                 code == DLOCK_ECLOSED ? "the client was closed" : "cancelled");
    retire(core, query);
}
