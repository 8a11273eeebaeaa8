/* Requests under way: putting the commands of a step, handing answers on, failing. What a step
 * means is in sole.c, lines.c and reports.c. */
#include "backends/memcached/inner.h"

#include "util/clock.h"
#include "util/digits.h"
#include "util/number.h"

#include <stdio.h>
#include <string.h>

/* A chain that began anew so often is in nobody's interest; see dlk_mc_again. */
#define AGAIN_MAX   32
#define AGAIN_SHIFT 16
#define AGAIN_MASK  (INT64_C(0xff) << AGAIN_SHIFT)

/* ---- putting steps ---- */

static const dlk_mc_key *key_of(const dlk_ask *ask)
{
    return ask->key->data;
}

static bool no_memory(dlk_mc *mc, dlk_ask *ask)
{
    dlk_mc_refuse(mc, ask, dlk_error_make(DLOCK_ENOMEM, "memcached: out of memory"));
    return false;
}

static bool takes(const dlk_ask *ask)
{
    return ask->verb == DLK_ACQUIRE || ask->verb == DLK_IMPORT;
}

/* What was put last belongs to this step. Only its first command, up to @p end, may change
 * something: once that is written the step may have been done. */
static bool sent(dlk_mc *mc, dlk_ask *ask, dlk_mc_step step, int64_t end)
{
    mc->base.host->commands++;
    dlk_mc_set_step(ask, step);
    ask->sequence = (uint64_t)end;
    dlk_list_remove(&ask->link);
    dlk_flight_await(&mc->flight, ask);
    return true;
}

bool dlk_mc_send_store(dlk_mc *mc, dlk_ask *ask, dlk_mc_text value, int64_t seconds,
                       uint64_t cas)
{
    dlk_buf *out = &mc->link.stream.out;
    const dlk_mc_server *server = &mc->server;
    size_t before = dlk_buf_size(out);
    if (ask->scratch & DLK_MC_WITHDRAWN) {
        dlk_mc_answer(mc, ask, DLK_NOT_SENT);
        return false;
    }
    /* More would be a date, and a past one, which the item doesn't outlive; 0 no end at all. */
    seconds = dlk_number_clamp(seconds, 1, DLK_MC_SECONDS_MAX);
    bool fine = dlk_mc_put_store(out, server->meta_stores, key_of(ask)->wire, value,
                                 seconds, cas);
    int64_t end = dlk_stream_end(&mc->link.stream);
    /* A classic store doesn't say its number. */
    if (fine && !server->meta_stores)
        fine = dlk_mc_put_read(out, server->meta, key_of(ask)->wire);
    if (fine)
        return sent(mc, ask, DLK_MC_STORE, end);
    out->end = out->start + before; /* half a step is none */
    return no_memory(mc, ask);
}

bool dlk_mc_send_read(dlk_mc *mc, dlk_ask *ask)
{
    bool fine = dlk_mc_put_read(&mc->link.stream.out, mc->server.meta, key_of(ask)->wire);
    return fine ? sent(mc, ask, DLK_MC_READ, dlk_stream_end(&mc->link.stream))
                : no_memory(mc, ask);
}

bool dlk_mc_send_drop(dlk_mc *mc, dlk_ask *ask, uint64_t cas)
{
    bool fine =
        dlk_mc_put_drop(&mc->link.stream.out, mc->server.meta, key_of(ask)->wire, cas);
    return fine ? sent(mc, ask, DLK_MC_DROP, dlk_stream_end(&mc->link.stream))
                : no_memory(mc, ask);
}

bool dlk_mc_send_timed_read(dlk_mc *mc, dlk_ask *ask)
{
    dlk_buf *out = &mc->link.stream.out;
    size_t before = dlk_buf_size(out);
    if (dlk_mc_put_line(out, "stats") &&
        dlk_mc_put_read(out, mc->server.meta, key_of(ask)->wire))
        return sent(mc, ask, DLK_MC_TIME, dlk_stream_end(&mc->link.stream));
    out->end = out->start + before;
    return no_memory(mc, ask);
}

bool dlk_mc_send_stats(dlk_mc *mc, dlk_ask *ask)
{
    dlk_buf *out = &mc->link.stream.out;
    size_t before = dlk_buf_size(out);
    if (dlk_mc_put_line(out, "stats") && dlk_mc_put_line(out, "stats settings"))
        return sent(mc, ask, DLK_MC_STATS, dlk_stream_end(&mc->link.stream));
    out->end = out->start + before;
    return no_memory(mc, ask);
}

bool dlk_mc_again(dlk_mc *mc, dlk_ask *ask)
{
    int64_t times = ((ask->scratch & AGAIN_MASK) >> AGAIN_SHIFT) + 1;
    if (times > AGAIN_MAX) {
        dlk_mc_refuse(mc, ask,
                      dlk_error_make(DLOCK_EUNAVAIL,
                                     "memcached: others change the item all the time"));
        return false;
    }
    ask->scratch = (ask->scratch & ~AGAIN_MASK) | times << AGAIN_SHIFT;
    return true;
}

/* ---- what requests are made of ---- */

dlk_mc_text dlk_mc_owner(const dlk_mc *mc, uint64_t number, char to[DLK_MC_OWNER_MAX])
{
    memcpy(to, mc->owner, mc->owner_size);
    char *end = dlk_digits_put(to + mc->owner_size, number);
    return (dlk_mc_text){to, (size_t)(end - to)};
}

dlk_mc_text dlk_mc_about(const dlk_mc *mc, const dlk_ask *ask,
                         char room[DLK_MC_ABOUT_MAX])
{
    const char *data = dlk_ask_data(ask), *about = mc->base.host->who;
    if (data[0]) {
        (void)snprintf(room, DLK_MC_ABOUT_MAX, "%s\t%s", about, data); /* fits */
        about = room;
    }
    return (dlk_mc_text){about, strlen(about)};
}

int64_t dlk_mc_seconds(int64_t ms)
{
    int64_t seconds = (ms + 999) / 1000 + DLK_MC_CLOCK_LAG;
    return seconds < DLK_MC_SECONDS_MAX ? seconds : DLK_MC_SECONDS_MAX;
}

/* The numbers of stores rise as long as the server runs, and begin anew when it does. Put on top
 * of the second in which it began they go on rising: it would have to store a billion items a
 * second to get ahead of its clock. */
#define STORES_A_SECOND (INT64_C(1) << 30)

int64_t dlk_mc_token(const dlk_mc *mc, uint64_t cas)
{
    int64_t started = mc->server.started;
    if (started <= 0 || started > INT64_MAX / STORES_A_SECOND / 2 ||
        cas > (uint64_t)INT64_MAX / 2)
        return 0;
    return started * STORES_A_SECOND + (int64_t)cas;
}

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
    if (key_of(release)->taking == 0)
        return;
    DLK_LIST_FOR (it, &mc->flight.asks) {
        dlk_ask *other = DLK_LIST_ITEM(it, dlk_ask, link);
        if (takes(other) && other->key == release->key &&
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
    if (takes(ask) && ask->reply == DLK_PENDING)
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

void dlk_mc_answer(dlk_mc *mc, dlk_ask *ask, dlk_reply reply)
{
    if (takes(ask) && !dlk_list_empty(&ask->link))
        ((dlk_mc_key *)ask->key->data)->taking--;
    dlk_flight_answer(&mc->flight, ask, reply);
}

void dlk_mc_refuse(dlk_mc *mc, dlk_ask *ask, dlock_error *error)
{
    dlk_error_clear(&ask->error);
    ask->error = error;
    dlk_mc_answer(mc, ask, DLK_REFUSED);
}

void dlk_mc_answer_held(dlk_mc *mc, dlk_ask *ask, int64_t left_ms)
{
    int64_t retry_ms = dlk_rand_jitter(mc->base.host->rand, mc->retry_ms, 33);
    ask->wait_ms = left_ms >= 0 && left_ms < retry_ms ? left_ms : retry_ms;
    dlk_mc_answer(mc, ask, DLK_HELD);
}

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
    else if (ask->verb == DLK_INSPECT || key_of(ask)->lines)
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
