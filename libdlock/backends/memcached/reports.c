/* Inspecting an item, and examining the server. */
#include "backends/memcached/inner.h"

#include "util/findings.h"
#include "util/info.h"
#include "util/number.h"
#include "util/who.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void give_info(dlk_mc *mc, dlk_ask *ask, dlock_info *info)
{
    if (dlk_info_failed(info)) {
        dlk_info_free(info);
        ask->info = NULL;
        dlk_mc_refuse(mc, ask, dlk_error_make(DLOCK_ENOMEM, "memcached: out of memory"));
        return;
    }
    ask->info = info;
    dlk_mc_answer(mc, ask, DLK_YES);
}

/* ---- inspect ---- */

static void add_text(dlock_info *info, dlk_mc_text text, const char *what, int64_t holder)
{
    char copy[DLK_MC_LINE_MAX];
    if (text.size == 0)
        return;
    snprintf(copy, sizeof(copy), "%.*s",
             (int)(text.size < sizeof(copy) ? text.size : sizeof(copy) - 1), text.data);
    dlk_info_add_text(info, copy, "holders.%" PRId64 ".%s", holder, what);
}

/* "<who>" or "<who><tab><data>". */
static void add_about(dlock_info *info, dlk_mc_text about, int64_t holder)
{
    if (about.size == 0)
        return;
    size_t size =
        dlk_who_tell_text(info, about.data, about.size, "holders", (size_t)holder);
    add_text(info, (dlk_mc_text){about.data + size, about.size - size}, "data", holder);
}

static void add_holder(dlock_info *info, const dlk_mc_holder *holder, int64_t left_ms,
                       int64_t number)
{
    add_text(info, holder->owner, "owner", number);
    if (holder->token > 0)
        dlk_info_add_int(info, holder->token, "holders.%" PRId64 ".token", number);
    if (left_ms >= 0)
        dlk_info_add_int(info, left_ms, "holders.%" PRId64 ".remaining_ms", number);
    dlk_info_add_int(info, holder->take, "holders.%" PRId64 ".count", number);
    add_about(info, holder->about, number);
}

/* What @p reply, the item, says of its holders by @p clock, the server's. Answers how long the
 * first of them has, < 0: unknown. */
static int64_t add_holders(dlock_info *info, const dlk_mc_reply *reply, int64_t clock,
                           int64_t token, dlk_mc_record record, int64_t *ret_count,
                           int64_t *ret_taken, bool *ret_shared)
{
    dlk_mc_holder holder;
    int64_t first = -1;
    while (dlk_mc_next_holder(&record, &holder)) {
        int64_t left = holder.until ? holder.until - clock : reply->left;
        if (holder.until && left <= 0)
            continue;
        *ret_shared = holder.shared;
        *ret_taken = dlk_number_sum(*ret_taken, holder.take);
        if (holder.token == 0 && record.form != DLK_MC_SEMAPHORE &&
            record.form != DLK_MC_FOREIGN)
            holder.token = token;
        int64_t sure = left < DLK_MC_CLOCK_LAG ? 0 : left - DLK_MC_CLOCK_LAG;
        add_holder(info, &holder, left < 0 ? -1 : dlk_span_of_seconds(sure),
                   (*ret_count)++);
        if (left >= 0 && (first < 0 || left < first))
            first = left;
    }
    return dlk_span_of_seconds(first);
}

/* Who holds some says how many there are; when nobody does, it is as whoever comes wants it. */
static void add_permits(dlock_info *info, const dlk_ask *ask, int64_t permits,
                        int64_t taken)
{
    if (permits == 0)
        permits = dlk_settings_int(ask->key->settings, DLK_KEY_LOCK_PERMITS);
    if (permits == 0)
        return;
    dlk_info_add_int(info, permits, "permits");
    dlk_info_add_int(info, permits > taken ? permits - taken : 0, "permits_free");
}

void dlk_mc_inspected(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply, int64_t clock)
{
    const dlk_mc_key *key = ask->key->data;
    dlk_mc_record record = dlk_mc_record_of((dlk_mc_text){reply->text, reply->size});
    bool there = reply->kind == DLK_MC_VALUE, shared = false;
    bool foreign = there && record.form == DLK_MC_FOREIGN;
    dlk_mc_form form = there && !foreign ? record.form : key->form;
    dlock_info *info = dlk_info_new();
    int64_t count = 0, taken = 0, left_ms = -1;
    if (there)
        left_ms = add_holders(info, reply, clock, dlk_mc_token(mc, reply->cas), record,
                              &count, &taken, &shared);
    bool held = count > 0 || foreign;
    dlk_info_add_int(info, held, "held");
    dlk_info_add_text(
        info, form == DLK_MC_READ_WRITE && shared ? "read" : dlk_mc_form_name(form),
        "kind");
    if (form == DLK_MC_SEMAPHORE && !foreign)
        add_permits(info, ask, count > 0 ? record.permits : 0, taken);
    dlk_info_add_text(info, mc->base.type->traits.layout, "layout");
    int64_t retry_ms = dlk_rand_jitter(mc->base.host->rand, mc->retry_ms, 33);
    if (held)
        ask->wait_ms = left_ms >= 0 && left_ms < retry_ms ? left_ms : retry_ms;
    give_info(mc, ask, info);
}

/* ---- doctor ---- */

/* In ask->scratch behind the step: what is told in the one answer and judged with the other. */
#define EVICTED (INT64_C(1) << 20)

static void judge_uptime(const dlk_mc *mc, dlk_ask *ask, int64_t uptime)
{
    int64_t ttl_ms = dlk_settings_int(mc->settings, DLK_KEY_LOCK_TTL_MS);
    if (dlk_span_of_seconds(uptime) < ttl_ms)
        dlk_find(ask->info, "uptime", DLK_WARNING,
                 "the server started %" PRId64
                 " s ago, less than a lease: locks from before "
                 "may still be held by those who don't know yet that they lost them",
                 uptime);
    else
        dlk_find(ask->info, "uptime", DLK_FINE,
                 "the server has been up for %" PRId64 " s", uptime);
}

static void judge_stat(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    int64_t number;
    if (!dlk_mc_number(reply, &number))
        return;
    if (dlk_mc_name_is(reply, "uptime"))
        judge_uptime(mc, ask, number);
    if (dlk_mc_name_is(reply, "evictions") && number > 0) {
        ask->scratch |= EVICTED;
        dlk_find(ask->info, "evictions", DLK_UNSAFE,
                 "%" PRId64
                 " items were evicted since the server started, and locks may have "
                 "been among them: give locks a server of their own",
                 number);
    }
}

static void judge_setting(dlk_ask *ask, const dlk_mc_reply *reply)
{
    if (!dlk_mc_name_is(reply, "evictions"))
        return;
    if (dlk_mc_text_is(reply, "off"))
        dlk_find(
            ask->info, "eviction", DLK_FINE,
            "nothing is evicted (-M): when memory is full no new lock can be taken, and "
            "none can be renewed");
    else if (!(ask->scratch & EVICTED))
        dlk_find(
            ask->info, "eviction", DLK_WARNING,
            "locks may be evicted when memory is full, though none was so far: run it "
            "with -M");
}

static void judge_server(const dlk_mc *mc, dlk_ask *ask)
{
    const dlk_mc_server *server = &mc->server;
    dlk_find(ask->info, "server", DLK_FINE, "memcached %s, by %s commands",
             server->version,
             server->meta_stores ? "meta"
             : server->meta      ? "meta and classic"
                                 : "classic");
    if (server->meta_stores && !server->evicts)
        dlk_find(
            ask->info, "protocol", DLK_UNSAFE,
            "memcached.protocol=meta on a server with -M: when memory is full, whoever "
            "asks for a lock deletes it; auto doesn't");
    dlk_find(
        ask->info, "promise", DLK_WARNING,
        "a restart, flush_all or an eviction forgets locks that are held: each holder "
        "hears of it with its next renewal, and the resource has to check a token or "
        "dlock_hold_verify until then");
}

static void judge_transport(dlk_mc *mc, dlk_ask *ask)
{
    dlk_link_judge(&mc->link,
                   "plain: whoever is on the way can forge grants (memcacheds://)",
                   ask->info);
}

static void finish(dlk_mc *mc, dlk_ask *ask)
{
    dlock_info *info = ask->info;
    judge_server(mc, ask);
    judge_transport(mc, ask);
    dlk_find_verdict(info);
    give_info(mc, ask, info);
}

bool dlk_mc_doctor_reply(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    bool denied = reply->kind == DLK_MC_UNKNOWN || reply->kind == DLK_MC_CLIENT_ERROR ||
                  reply->kind == DLK_MC_SERVER_ERROR;
    bool settings = dlk_mc_step_of(ask) == DLK_MC_STATS_SETTINGS;
    if (!ask->info)
        ask->info = dlk_info_new(); /* without memory: found at the end */
    if (reply->kind == DLK_MC_STAT) {
        if (settings)
            judge_setting(ask, reply);
        else
            judge_stat(mc, ask, reply);
        return true;
    }
    if (!denied && reply->kind != DLK_MC_GONE)
        return false;
    if (denied)
        dlk_find(ask->info, "stats", DLK_WARNING,
                 "the server doesn't tell its %s: eviction and uptime are unknown",
                 settings ? "settings" : "statistics");
    if (settings)
        finish(mc, ask);
    else
        dlk_mc_set_step(ask, DLK_MC_STATS_SETTINGS);
    return true;
}
