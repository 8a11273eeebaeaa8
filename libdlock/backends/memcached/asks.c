/* Requests under way: beginning, handing replies on, failing. What a step means is in sole.c, lines.c and
 * reports.c. */
#include "backends/memcached/inner.h"

#include "util/clock.h"

#include <stdio.h>
#include <string.h>

/* ---- beginning ---- */

static dlock_error *why_not(const dlk_ask *ask)
{
    if (ask->verb == DLK_LIST)
        return dlk_error_make(DLOCK_ENOTSUP, "memcached: it can't list its items");
    if (ask->verb == DLK_REVOKE)
        return dlk_error_make(DLOCK_ENOTSUP,
                              "memcached: it has no messages, so nobody can be asked");
    bool leases =
        ask->verb == DLK_ACQUIRE || ask->verb == DLK_RENEW || ask->verb == DLK_IMPORT;
    if (leases && ask->ttl_ms > DLK_MC_TTL_MAX_MS)
        return dlk_error_make(DLOCK_EINVAL,
                              "memcached: a lease of %lld ms: an item lasts 30 days at "
                              "most, and whole seconds are asked for",
                              (long long)ask->ttl_ms);
    return NULL;
}

/* A chain that takes may have stores before it that would come behind this release. */
static void withdraw(dlk_mc *mc, const dlk_ask *release)
{
    if (dlk_mc_key_of(release)->taking == 0)
        return;
    DLK_LIST_FOR (it, &mc->flight.asks) {
        dlk_ask *other = DLK_LIST_ITEM(it, dlk_ask, link);
        if (dlk_mc_takes(other) && other->key == release->key &&
            other->number == release->number)
            other->scratch |= DLK_MC_WITHDRAWN;
    }
}

static void begin(dlk_mc *mc, dlk_ask *ask, int64_t now)
{
    dlk_mc_key *key = ask->key->data;
    if (ask->verb == DLK_RELEASE)
        withdraw(mc, ask);
    if (ask->verb == DLK_INSPECT || key->lines)
        dlk_mc_lines_begin(mc, ask);
    else
        dlk_mc_sole_begin(mc, ask, now);
    if (dlk_mc_takes(ask) && ask->reply == DLK_PENDING)
        key->taking++;
}

void dlk_mc_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    dlk_mc *mc = (dlk_mc *)backend;
    dlk_list_init(&ask->link);
    ask->scratch = 0;
    dlock_error *error = why_not(ask);
    if (error) {
        (void)dlk_ask_refuse(ask, error);
    } else if (mc->link.phase != DLK_LINK_READY) {
        dlk_flight_not_sent(ask, mc->why_down);
    } else if (ask->verb == DLK_DOCTOR) {
        (void)dlk_mc_send_stats(mc, ask);
    } else {
        begin(mc, ask, now);
    }
}

/* ---- answers ---- */

static dlock_error *error_of(const dlk_mc *mc, const dlk_mc_reply *reply)
{
    char words[256];
    snprintf(words, sizeof(words), "%.*s", (int)reply->size, reply->text);
    bool large = strstr(words, "too large") != NULL;
    dlock_err code = reply->kind != DLK_MC_SERVER_ERROR ? DLOCK_EPROTO
                     : large                            ? DLOCK_EOVERFLOW
                                                        : DLOCK_EUNAVAIL;
    dlock_error *error = dlk_error_make(
        code, "memcached: %s refuses: %s", mc->peer,
        reply->kind == DLK_MC_UNKNOWN ? "it doesn't know the command" : words);
    dlk_error_backend(&error, words);
    return error;
}

static bool is_error(const dlk_mc_reply *reply)
{
    return reply->kind == DLK_MC_UNKNOWN || reply->kind == DLK_MC_CLIENT_ERROR ||
           reply->kind == DLK_MC_SERVER_ERROR;
}

/* A store was done, and what stands there after it can't be read: it may be ours. */
static bool is_stored_unseen(const dlk_ask *ask)
{
    return dlk_mc_step_of(ask) == DLK_MC_READBACK && !ask->error &&
           (ask->scratch & DLK_MC_WAS_STORED);
}

/* Nothing was done, but for a store before it. After a command that it didn't understand the server
 * may take its data for further ones: nothing that follows can be trusted. */
static void take_error(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply)
{
    dlock_error *error = error_of(mc, reply);
    if (reply->kind != DLK_MC_SERVER_ERROR && !mc->link.doom)
        mc->link.doom = dlk_error_copy(error);
    if (is_stored_unseen(ask)) {
        ask->error = error;
        dlk_mc_answer(mc, ask, DLK_UNKNOWN);
        return;
    }
    if (dlk_mc_step_of(ask) == DLK_MC_STORE && !mc->server.meta_stores &&
        reply->kind == DLK_MC_SERVER_ERROR) {
        dlk_error_clear(&ask->error);
        ask->error = error; /* said when what stands there has been read */
        dlk_mc_set_step(ask, DLK_MC_READBACK);
        return;
    }
    dlk_mc_refuse(mc, ask, error);
}

dlock_error *dlk_mc_asks_reply(dlk_mc *mc, const dlk_mc_reply *reply, int64_t now)
{
    dlk_ask *ask = dlk_flight_first(&mc->flight);
    if (!ask)
        return dlk_error_make(DLOCK_EPROTO, "memcached: %s answers what nobody asked",
                              mc->peer);
    bool fine = true;
    if (ask->verb == DLK_DOCTOR)
        fine = dlk_mc_doctor_reply(mc, ask, reply);
    else if (is_error(reply))
        take_error(mc, ask, reply);
    else if (dlk_mc_step_of(ask) == DLK_MC_READBACK && ask->error)
        dlk_mc_answer(mc, ask, DLK_REFUSED);
    else if (ask->verb == DLK_INSPECT || dlk_mc_key_of(ask)->lines)
        fine = dlk_mc_lines_reply(mc, ask, reply);
    else
        fine = dlk_mc_sole_reply(mc, ask, reply, now);
    if (fine) {
        dlk_backoff_reset(&mc->link.backoff);
        return NULL;
    }
    return dlk_error_make(DLOCK_EPROTO, "memcached: %s answers something else than asked",
                          mc->peer);
}

void dlk_mc_asks_fail(dlk_mc *mc, const dlock_error *error)
{
    dlk_list lost, *first;
    dlk_list_init(&lost);
    dlk_flight_take_all(&mc->flight, &lost);
    while ((first = dlk_list_first(&lost))) {
        dlk_ask *ask = DLK_LIST_ITEM(first, dlk_ask, link);
        /* What was not written in full can't have been done. */
        bool unsent = dlk_stream_unsent(&mc->link.stream, (int64_t)ask->sequence);
        dlk_info_free(ask->info);
        ask->info = NULL;
        dlk_error_clear(&ask->error);
        ask->error = dlk_error_copy(error);
        dlk_mc_answer(mc, ask, unsent ? DLK_NOT_SENT : DLK_UNKNOWN);
    }
}

int64_t dlk_mc_asks_tick(dlk_mc *mc, int64_t now)
{
    int64_t due = dlk_flight_due(&mc->flight, now);
    if (now < due)
        return due;
    dlk_link_drop(
        &mc->link,
        dlk_error_make(DLOCK_EUNAVAIL, "memcached: %s did not answer in time", mc->peer),
        now);
    return DLK_NEVER;
}
