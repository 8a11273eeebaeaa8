/* Requests on the wire; see the header.
 *
 * A script's SHA-1 may be unknown to the server (restarted, SCRIPT FLUSH). The answer is then
 * NOSCRIPT, nothing was done, and the request goes out once more with the script's text, within
 * the deadline it has. Those behind it in the pipeline meet the same and keep their order. */
#include "backends/redis/asks.h"

#include "backends/redis/doctor.h"
#include "backends/redis/errors.h"
#include "backends/redis/internal.h"
#include "backends/redis/keys.h"
#include "backends/redis/reports.h"
#include "backends/redis/scripts.h"
#include "util/clock.h"
#include "util/error.h"

#include <string.h>

/* In ask->scratch of a script's request: it has been sent with its text. */
#define WITH_TEXT 1

static const char *const verbs[] = {
    [DLK_ACQUIRE] = "acquire", [DLK_RENEW] = "renew",   [DLK_RELEASE] = "release",
    [DLK_VERIFY] = "verify",   [DLK_BREAK] = "break",   [DLK_INSPECT] = "inspect",
    [DLK_LIST] = "list",       [DLK_DOCTOR] = "doctor",
};

/* ---- Sending ---- */

void dlk_redis_ask_sent(dlk_redis *redis, dlk_ask *ask)
{
    redis->base.host->commands++;
    ask->sequence = (uint64_t)dlk_stream_end(&redis->commands.stream);
    ask->reply = DLK_PENDING;
    dlk_list_append(&redis->flight, &ask->link);
    if (ask->deadline < redis->flight_deadline)
        redis->flight_deadline = ask->deadline;
}

/* "<uuid>:<number>" */
static size_t put_owner(const dlk_redis *redis, const dlk_ask *ask, char *to)
{
    memcpy(to, redis->owner, redis->owner_size);
    return (size_t)(dlk_resp_number(to + redis->owner_size, ask->number) - to);
}

#define OWNER_MAX (DLK_UUID_SIZE + DLK_RESP_NUMBER_MAX)

/* The requests that are made all the time: a prepared beginning, the owner, perhaps a lease. */
static bool put_prepared(dlk_redis *redis, const dlk_ask *ask,
                         const dlk_redis_bytes *begin, bool with_ttl)
{
    dlk_buf *out = &redis->commands.stream.out;
    char *to = dlk_buf_room(out, begin->size + OWNER_MAX + 3 * DLK_RESP_OVERHEAD),
         *from = to;
    if (!to)
        return false;
    memcpy(to, begin->data, begin->size);
    char owner[OWNER_MAX];
    to = dlk_resp_bulk(to + begin->size, owner, put_owner(redis, ask, owner));
    if (with_ttl)
        to = dlk_resp_bulk_number(to, (uint64_t)ask->ttl_ms);
    dlk_buf_added(out, (size_t)(to - from));
    return true;
}

/* Any script's request, with its SHA-1 or its text. */
static bool put_script(dlk_redis *redis, const dlk_ask *ask, bool with_text)
{
    static const dlk_redis_script_id scripts[] = {
        [DLK_ACQUIRE] = DLK_SCRIPT_ACQUIRE, [DLK_RENEW] = DLK_SCRIPT_RENEW,
        [DLK_RELEASE] = DLK_SCRIPT_RELEASE, [DLK_VERIFY] = DLK_SCRIPT_VERIFY,
        [DLK_BREAK] = DLK_SCRIPT_BREAK,     [DLK_INSPECT] = DLK_SCRIPT_INSPECT,
    };
    const dlk_redis_script *script = &dlk_redis_scripts[scripts[ask->verb]];
    const dlk_redis_key *key = ask->key->data;
    bool two_keys = ask->verb == DLK_ACQUIRE || ask->verb == DLK_INSPECT;
    char owner[OWNER_MAX], ttl[DLK_RESP_NUMBER_MAX];
    dlk_arg args[8];
    size_t count = 0;
    args[count++] = dlk_arg_text(with_text ? "EVAL" : "EVALSHA");
    args[count++] =
        with_text ? (dlk_arg){script->text, script->size} : dlk_arg_text(script->sha1);
    args[count++] = dlk_arg_text(two_keys ? "2" : "1");
    args[count++] = (dlk_arg){ask->key->name, ask->key->size};
    if (two_keys)
        args[count++] = dlk_arg_text(key->token);
    if (ask->verb == DLK_RELEASE || ask->verb == DLK_BREAK)
        args[count++] = dlk_arg_text(key->channel);
    if (ask->verb == DLK_BREAK)
        args[count++] = dlk_arg_text(ask->text ? ask->text : "");
    else if (ask->verb != DLK_INSPECT)
        args[count++] = (dlk_arg){owner, put_owner(redis, ask, owner)};
    if (ask->verb == DLK_ACQUIRE || ask->verb == DLK_RENEW)
        args[count++] =
            (dlk_arg){ttl, (size_t)(dlk_resp_number(ttl, (uint64_t)ask->ttl_ms) - ttl)};
    return dlk_resp_command(&redis->commands.stream.out, args, count);
}

static bool put(dlk_redis *redis, dlk_ask *ask)
{
    if (ask->verb == DLK_LIST)
        return dlk_redis_list_begin(redis, ask);
    if (ask->verb == DLK_DOCTOR)
        return dlk_redis_doctor_begin(redis, ask);
    const dlk_redis_key *key = ask->key->data;
    if (ask->verb == DLK_ACQUIRE)
        return put_prepared(redis, ask, &key->acquire, true);
    if (ask->verb == DLK_RENEW)
        return put_prepared(redis, ask, &key->renew, true);
    if (ask->verb == DLK_RELEASE)
        return put_prepared(redis, ask, &key->release, false);
    return put_script(redis, ask, false);
}

void dlk_redis_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    (void)now;
    dlk_redis *redis = (dlk_redis *)backend;
    dlk_list_init(&ask->link);
    ask->scratch = 0;
    if (redis->commands.phase != DLK_PHASE_READY) {
        ask->error = dlk_error_copy(redis->why_down);
        ask->reply = DLK_NOT_SENT;
    } else if (put(redis, ask)) {
        dlk_redis_ask_sent(redis, ask);
    } else {
        (void)dlk_ask_refuse(ask, dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
    }
}

/* ---- Answers ---- */

void dlk_redis_ask_answer(dlk_redis *redis, dlk_ask *ask, dlk_reply reply)
{
    dlk_list_remove(&ask->link);
    ask->reply = reply;
    redis->base.host->answered(redis->base.host, ask);
}

void dlk_redis_ask_refuse(dlk_redis *redis, dlk_ask *ask, dlock_error *error)
{
    ask->error = error;
    dlk_redis_ask_answer(redis, ask, DLK_REFUSED);
}

static void warn_publish(dlk_redis *redis, const dlk_ask *ask)
{
    const dlk_redis_key *key = ask->key->data;
    if (!redis->warned_publish)
        redis->base.host->log(redis->base.host, DLOCK_LOG_WARN,
                              "redis: the user may not publish to %s: waiters will poll",
                              key->channel);
    redis->warned_publish = true;
}

/* An error reply: nothing was done. */
static void take_error(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    bool script = ask->verb != DLK_LIST && ask->verb != DLK_DOCTOR;
    if (script && dlk_resp_begins(reply, "NOSCRIPT") && ask->scratch != WITH_TEXT) {
        dlk_list_remove(&ask->link);
        ask->scratch = WITH_TEXT;
        if (put_script(redis, ask, true))
            dlk_redis_ask_sent(redis, ask);
        else
            dlk_redis_ask_refuse(redis, ask,
                                 dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
        return;
    }
    /* Something else lies where our lock was, so it isn't ours. */
    if (dlk_redis_error_code(reply) == DLOCK_ECONFLICT &&
        (ask->verb == DLK_RENEW || ask->verb == DLK_RELEASE || ask->verb == DLK_VERIFY)) {
        dlk_redis_ask_answer(redis, ask, DLK_NOT_OURS);
        return;
    }
    /* The host's name may lead to the new master by now. */
    if (dlk_redis_error_demoted(reply) && !redis->commands.doom)
        redis->commands.doom = dlk_redis_error(reply, verbs[ask->verb]);
    dlk_redis_reports_drop(ask);
    dlk_redis_ask_refuse(redis, ask, dlk_redis_error(reply, verbs[ask->verb]));
}

/* 0: not ours, 1: done, 2: done, but nobody could be told. */
static bool take_flag(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (reply->type != DLK_RESP_INTEGER || reply->integer < 0 || reply->integer > 2)
        return false;
    if (reply->integer == 2)
        warn_publish(redis, ask);
    dlk_redis_ask_answer(redis, ask, reply->integer > 0 ? DLK_YES : DLK_NOT_OURS);
    return true;
}

/* A text is our token, a number what is left of somebody's lease (-1: it has no end). */
static bool take_acquired(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (reply->type == DLK_RESP_INTEGER && reply->integer >= -1) {
        ask->wait_ms = reply->integer;
        dlk_redis_ask_answer(redis, ask, DLK_HELD);
        return true;
    }
    if (!dlk_resp_decimal(reply, &ask->token) || ask->token == 0)
        return false;
    dlk_redis_ask_answer(redis, ask, DLK_YES);
    return true;
}

dlock_error *dlk_redis_asks_reply(dlk_redis *redis, const dlk_resp *reply, int64_t now)
{
    dlk_list *first = dlk_list_first(&redis->flight);
    if (!first)
        return dlk_error_make(DLOCK_EPROTO, "redis: %s answers what nobody asked",
                              redis->place);
    dlk_ask *ask = DLK_LIST_ITEM(first, dlk_ask, link);
    dlk_verb verb = ask->verb;
    bool fine = true;
    if (verb == DLK_DOCTOR)
        fine = dlk_redis_doctor_go_on(redis, ask, reply, now);
    else if (reply->type == DLK_RESP_ERROR)
        take_error(redis, ask, reply);
    else if (verb == DLK_ACQUIRE)
        fine = take_acquired(redis, ask, reply);
    else if (verb == DLK_INSPECT)
        fine = dlk_redis_inspected(redis, ask, reply);
    else if (verb == DLK_LIST)
        fine = dlk_redis_list_go_on(redis, ask, reply, now);
    else
        fine = take_flag(redis, ask, reply);
    if (fine) {
        if (reply->type != DLK_RESP_ERROR)
            dlk_backoff_reset(&redis->commands.backoff);
        return NULL;
    }
    return dlk_error_make(DLOCK_EPROTO, "redis: %s answers '%s' with nonsense",
                          redis->place, verbs[verb]);
}

void dlk_redis_asks_fail(dlk_redis *redis, const dlock_error *error)
{
    dlk_list lost;
    dlk_list_init(&lost);
    dlk_list_splice(&lost, &redis->flight);
    redis->flight_deadline = DLK_NEVER;
    dlk_list *first;
    while ((first = dlk_list_first(&lost))) {
        dlk_ask *ask = DLK_LIST_ITEM(first, dlk_ask, link);
        dlk_redis_reports_drop(ask);
        ask->error = dlk_error_copy(error);
        /* What was not written in full can't have been done. */
        bool unsent = dlk_stream_unsent(&redis->commands.stream, (int64_t)ask->sequence);
        dlk_redis_ask_answer(redis, ask, unsent ? DLK_NOT_SENT : DLK_UNKNOWN);
    }
}

int64_t dlk_redis_asks_tick(dlk_redis *redis, int64_t now)
{
    if (now < redis->flight_deadline)
        return redis->flight_deadline;
    int64_t earliest = DLK_NEVER;
    DLK_LIST_FOR(it, &redis->flight)
    {
        dlk_ask *ask = DLK_LIST_ITEM(it, dlk_ask, link);
        if (ask->deadline < earliest)
            earliest = ask->deadline;
    }
    redis->flight_deadline = earliest;
    if (now < earliest)
        return earliest;
    dlk_redis_connection_drop(
        &redis->commands,
        dlk_error_make(DLOCK_EUNAVAIL, "redis: %s did not answer in time", redis->place),
        now);
    return DLK_NEVER;
}
