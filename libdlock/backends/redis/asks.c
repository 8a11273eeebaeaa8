/* Requests on the wire; see the header.
 *
 * A script's SHA-1 may be unknown to the server (restarted, SCRIPT FLUSH). The answer is then
 * NOSCRIPT, nothing was done, and the request goes out once more with the script's text, within
 * the deadline it has. Those behind it in the pipeline meet the same and keep their order; but where
 * the server knows a release's script and not the acquire's, the one would overtake the other. */
#include "backends/redis/asks.h"

#include "backends/redis/batch.h"
#include "backends/redis/doctor.h"
#include "backends/redis/errors.h"
#include "backends/redis/fair.h"
#include "backends/redis/handover.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/layout.h"
#include "backends/redis/replicas.h"
#include "backends/redis/reports.h"
#include "backends/redis/rights.h"
#include "backends/redis/scripts.h"
#include "backends/redis/topology/cluster.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/number.h"

#include <string.h>

static const char *const verbs[] = {
    [DLK_ACQUIRE] = "acquire",
    [DLK_RENEW] = "renew",
    [DLK_RELEASE] = "release",
    [DLK_VERIFY] = "verify",
    [DLK_BREAK] = "break",
    [DLK_INSPECT] = "inspect",
    [DLK_LIST] = "list",
    [DLK_DOCTOR] = "doctor",
    [DLK_REVOKE] = "revoke",
    [DLK_IMPORT] = "import",
    [DLK_REDIS_MAP] = "CLUSTER SLOTS",
};

/* ---- Sending ---- */

void dlk_redis_ask_sent(dlk_redis *redis, dlk_ask *ask)
{
    redis->base.host->commands++;
    ask->sequence = (uint64_t)dlk_stream_end(&redis->commands.link.stream);
    dlk_flight_await(&redis->flight, ask);
}

size_t dlk_redis_script_room(const dlk_redis_script *script, bool with_text)
{
    size_t what = with_text ? script->size : sizeof(script->sha1);
    return 4 * DLK_RESP_OVERHEAD + sizeof("EVALSHA") + what;
}

char *dlk_redis_put_script(char *to, const dlk_redis_script *script, bool with_text,
                           size_t keys, size_t args)
{
    to = dlk_resp_count(to, 3 + keys + args);
    if (with_text) {
        to = dlk_resp_bulk(to, "EVAL", 4);
        to = dlk_resp_bulk(to, script->text, script->size);
    } else {
        to = dlk_resp_bulk(to, "EVALSHA", 7);
        to = dlk_resp_bulk(to, script->sha1, strlen(script->sha1));
    }
    return dlk_resp_bulk_number(to, keys);
}

size_t dlk_redis_put_bounds(const dlk_ask *ask, dlk_arg *args, char room[2][64])
{
    args[0] = dlk_arg_number(ask->most_ms, room[0]);
    args[1] = dlk_arg_number(ask->overlong, room[1]);
    return DLK_REDIS_BOUNDS;
}

/* A script's request, with its SHA-1 or its text; it gets as many KEYS as the form's @p id does. */
static bool put_script(dlk_redis *redis, const dlk_ask *ask, const dlk_redis_form *form,
                       const dlk_redis_script *script, dlk_redis_script_id id,
                       bool with_text)
{
    const dlk_key *key = ask->key;
    char owner[DLK_REDIS_OWNER_MAX], ttl[64], bounds[2][64], room[DLK_REDIS_MORE][64];
    dlk_arg args[2 + DLK_REDIS_MORE + 2]; /* behind the channel */
    size_t count = 0, keys = dlk_redis_key_count(key, form, id);
    if (ask->verb == DLK_BREAK)
        args[count++] = dlk_arg_text(ask->text ? ask->text : "");
    else
        args[count++] = (dlk_arg){owner, dlk_redis_put_owner(redis, ask->number, owner)};
    args[count++] = dlk_arg_number(ask->ttl_ms, ttl);
    if (form->more_count)
        form->more(redis, ask, &args[count], room);
    count += form->more_count;
    if (ask->verb == DLK_IMPORT) /* who has given it away */
        args[count++] = dlk_arg_text(ask->text);
    if (ask->verb == DLK_RENEW)
        count += dlk_redis_put_bounds(ask, &args[count], bounds);

    size_t size = dlk_redis_script_room(script, with_text) +
                  dlk_redis_keys_room(key, form, id) + dlk_redis_channel_room(key);
    for (size_t i = 0; i < count; i++)
        size += args[i].size + DLK_RESP_OVERHEAD;
    dlk_buf *out = &redis->commands.link.stream.out;
    char *from = dlk_buf_room(out, size), *to = from;
    if (!to)
        return false;
    to = dlk_redis_put_script(to, script, with_text, keys, 1 + count);
    to = dlk_redis_put_keys(to, key, form, id);
    to = dlk_redis_put_channel(to, redis, key->data);
    for (size_t i = 0; i < count; i++)
        to = dlk_resp_bulk(to, args[i].data, args[i].size);
    dlk_buf_added(out, (size_t)(to - from));
    return true;
}

bool dlk_redis_ask_put(dlk_redis *redis, const dlk_ask *ask, bool with_text)
{
    static const dlk_redis_script_id scripts[] = {
        [DLK_ACQUIRE] = DLK_SCRIPT_ACQUIRE, [DLK_RENEW] = DLK_SCRIPT_RENEW,
        [DLK_RELEASE] = DLK_SCRIPT_RELEASE, [DLK_VERIFY] = DLK_SCRIPT_VERIFY,
        [DLK_BREAK] = DLK_SCRIPT_BREAK,     [DLK_INSPECT] = DLK_SCRIPT_INSPECT,
        [DLK_REVOKE] = DLK_SCRIPT_INSPECT, /* whom to tell; see reports.c */
    };
    const dlk_redis_key *key = ask->key->data;
    const dlk_redis_form *form = key->forms[ask->shared];
    if (ask->verb == DLK_IMPORT) /* as an acquire, by a script that several forms share */
        return put_script(redis, ask, form, &dlk_redis_scripts[form->import],
                          DLK_SCRIPT_ACQUIRE, with_text);
    dlk_redis_script_id id = scripts[ask->verb];
    return put_script(redis, ask, form, dlk_redis_script_of(form, id), id, with_text);
}

/* ---- Rights ----
 *
 * Those of the client's mutex were looked at when it connected. Those of another kind are before the
 * first lock of that kind: it is asked for when none is missing, so that nothing ends half-way. What
 * the server refuses all the same, for the lock's name or because of a right that is gone since, is
 * looked at then. */

static const dlk_redis_form *form_of(const dlk_ask *ask)
{
    return ((const dlk_redis_key *)ask->key->data)->forms[ask->shared];
}

static bool takes(const dlk_ask *ask)
{
    return ask->verb == DLK_ACQUIRE || ask->verb == DLK_IMPORT;
}

static bool asks_for_rights(const dlk_ask *ask)
{
    return takes(ask) && ask->scratch == DLK_REDIS_RIGHTS;
}

static bool is_new_kind(const dlk_redis *redis, const dlk_ask *ask)
{
    return takes(ask) && form_of(ask) != redis->mutex &&
           !(redis->checked & 1U << form_of(ask)->id);
}

static bool put_rights(dlk_redis *redis, dlk_ask *ask)
{
    ask->scratch = DLK_REDIS_RIGHTS;
    return dlk_redis_rights_put_one(redis, form_of(ask), ask->key);
}

/* A lock that may well be free is asked for by a SET, which costs the server half of a script. */
static bool begins_by_set(const dlk_ask *ask)
{
    const dlk_redis_key *key = ask->key ? ask->key->data : NULL;
    return ask->verb == DLK_ACQUIRE && key->forms[ask->shared]->sets && !key->held;
}

static bool put_set(dlk_redis *redis, dlk_ask *ask)
{
    char owner[DLK_REDIS_OWNER_MAX], ttl[64];
    const dlk_arg args[] = {
        dlk_arg_text("SET"),
        {ask->key->name, ask->key->size},
        {owner, dlk_redis_put_owner(redis, ask->number, owner)},
        dlk_arg_text("NX"),
        dlk_arg_text("PX"),
        dlk_arg_number(ask->ttl_ms, ttl),
    };
    ask->scratch = DLK_REDIS_BY_SET;
    return dlk_resp_command(&redis->commands.link.stream.out, args,
                            sizeof(args) / sizeof(*args));
}

static bool put(dlk_redis *redis, dlk_ask *ask)
{
    if (is_new_kind(redis, ask))
        return put_rights(redis, ask);
    if (begins_by_set(ask))
        return put_set(redis, ask);
    if (ask->verb == DLK_LIST)
        return dlk_redis_list_begin(redis, ask);
    if (ask->verb == DLK_DOCTOR)
        return dlk_redis_doctor_begin(redis, ask);
    /* Should the acquire before it be done late, after we have gone, nobody hears that its script isn't
     * known there. */
    if (ask->undoes)
        ask->scratch = DLK_REDIS_WITH_TEXT;
    return dlk_redis_ask_put(redis, ask, ask->undoes);
}

/* What the subscriber has to know, so that no message is missed between a request and the watch
 * that follows its answer. */
static void note_asking(const dlk_redis *redis, const dlk_ask *ask)
{
    dlk_redis_key *key = ask->key ? ask->key->data : NULL;
    if (!key)
        return;
    if (ask->verb == DLK_ACQUIRE || ask->next)
        key->asked_at = redis->subscriber.messages;
    else if (ask->verb == DLK_INSPECT)
        key->looked = true;
    if (key->hands_over)
        dlk_redis_handover_asks(ask);
}

void dlk_redis_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    dlk_redis *redis = (dlk_redis *)backend;
    dlk_list_init(&ask->link);
    ask->scratch = 0;
    dlk_redis_fair_asks(redis, ask, now);
    note_asking(redis, ask);
    if (redis->commands.link.phase != DLK_LINK_READY) {
        dlk_flight_not_sent(ask, redis->why_down);
    } else if (ask->verb == DLK_LIST && redis->layout->prefix_tells &&
               (!ask->text || !ask->text[0])) {
        (void)dlk_ask_refuse(
            ask, dlk_error_make(DLOCK_ENOTSUP,
                                "redis: with redis.layout=%s any key may be a lock: list "
                                "with a prefix, or set client.prefix",
                                redis->layout->name));
    } else if (ask->verb == DLK_LIST && !redis->layout->type) {
        (void)dlk_ask_refuse(
            ask, dlk_error_make(DLOCK_ENOTSUP,
                                "redis: with redis.layout=%s names can't be listed",
                                redis->layout->name));
    } else if (ask->verb == DLK_ACQUIRE && redis->lacks_line &&
               ((const dlk_redis_key *)ask->key->data)->hands_over) {
        (void)dlk_ask_refuse(ask, dlk_error_copy(redis->lacks_line));
    } else if (ask->verb == DLK_REVOKE && ask->key->kind == DLOCK_SEMAPHORE) {
        (void)dlk_ask_refuse(
            ask, dlk_error_make(DLOCK_ENOTSUP,
                                "redis: a semaphore doesn't say whose its permits are"));
    } else if (ask->verb == DLK_RENEW) {
        dlk_redis_batch_add(redis, ask);
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
    if (redis->warned_publish)
        return;
    char channel[DLK_REDIS_CHANNEL_MAX];
    redis->base.host->log(redis->base.host, DLOCK_LOG_WARN,
                          "redis: the user may not publish to %.*s: waiters will poll",
                          (int)dlk_redis_channel_name(key, channel), channel);
    redis->warned_publish = true;
}

/* Is @p number given back by a request behind this one? Whatever it asked for isn't to be asked for
 * after that. */
static bool given_back_behind(const dlk_redis *redis, const dlk_ask *ask, uint64_t number)
{
    DLK_LIST_FOR (it, &redis->flight.asks) {
        const dlk_ask *other = DLK_LIST_ITEM(it, dlk_ask, link);
        if (other != ask && other->verb == DLK_RELEASE && other->key == ask->key &&
            other->number == number)
            return true;
    }
    return false;
}

/* Once more, as a script; what went before has done nothing. */
static void send_again(dlk_redis *redis, dlk_ask *ask, int64_t how)
{
    if ((ask->verb == DLK_ACQUIRE || ask->verb == DLK_IMPORT) &&
        given_back_behind(redis, ask, ask->number)) {
        dlk_redis_ask_answer(redis, ask, DLK_NOT_SENT);
        return;
    }
    if (ask->verb == DLK_RELEASE && ask->next && given_back_behind(redis, ask, ask->next))
        ask->next = 0;
    dlk_list_remove(&ask->link);
    ask->scratch = how;
    if (dlk_redis_ask_put(redis, ask, how == DLK_REDIS_WITH_TEXT))
        dlk_redis_ask_sent(redis, ask);
    else
        dlk_redis_ask_refuse(redis, ask,
                             dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
}

/* For want of a right, which isn't known yet: then that is asked for first. */
static void refuse(dlk_redis *redis, dlk_ask *ask, dlock_error *error)
{
    if (error && error->code == DLOCK_EACCES && takes(ask) && put_rights(redis, ask)) {
        ask->error = error;
        dlk_list_remove(&ask->link);
        dlk_redis_ask_sent(redis, ask);
    } else {
        dlk_redis_ask_refuse(redis, ask, error);
    }
}

/* Which rights are missing. A server that doesn't know the question says so, and none is. */
static void take_rights(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    dlock_error *lack = dlk_redis_rights_judge_one(redis, form_of(ask), ask->key, reply);
    if (lack && ask->error)
        dlk_error_backend(&lack, dlock_error_backend(ask->error));
    if (lack) {
        dlk_error_clear(&ask->error);
        dlk_redis_ask_refuse(redis, ask, lack);
    } else if (ask->error) {
        dlk_redis_ask_answer(redis, ask, DLK_REFUSED);
    } else {
        redis->checked |= 1U << form_of(ask)->id;
        send_again(redis, ask, 0);
    }
}

static bool is_script(const dlk_ask *ask)
{
    return ask->verb != DLK_LIST && ask->verb != DLK_DOCTOR && ask->verb != DLK_REDIS_MAP;
}

/* An error reply: nothing was done. */
void dlk_redis_ask_take_error(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (redis->place_in_cluster && dlk_cluster_redirects(redis, ask, reply))
        return;
    if (is_script(ask) && dlk_resp_begins(reply, "NOSCRIPT") &&
        ask->scratch != DLK_REDIS_WITH_TEXT) {
        send_again(redis, ask, DLK_REDIS_WITH_TEXT);
        return;
    }
    /* Something else lies where our lock was, so it isn't ours. */
    if (dlk_redis_error_code(reply) == DLOCK_ECONFLICT &&
        (ask->verb == DLK_RENEW || ask->verb == DLK_RELEASE || ask->verb == DLK_VERIFY)) {
        dlk_redis_ask_answer(redis, ask, DLK_NOT_OURS);
        return;
    }
    /* The host's name may lead to the new master by now. */
    if (dlk_redis_error_demoted(reply) && !redis->commands.link.doom)
        redis->commands.link.doom = dlk_redis_error(reply, verbs[ask->verb]);
    dlk_redis_reports_drop(ask);
    refuse(redis, ask, dlk_redis_error(reply, verbs[ask->verb]));
}

/* It is done, once the replicas that the settings ask for have it, too. Whatever a script has said
 * yes to, it has made last (layout.h). */
static void done(dlk_redis *redis, dlk_ask *ask)
{
    ask->lasts = true;
    if (dlk_redis_replicas_wanted(ask))
        dlk_redis_replicas_wait(redis, ask);
    else
        dlk_redis_ask_answer(redis, ask, DLK_YES);
}

/* A text is our token; 0: it wasn't the giver's. */
static bool take_imported(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    bool ours = reply->type == DLK_RESP_TEXT;
    if (ours ? !dlk_resp_decimal(reply, &ask->token)
             : reply->type != DLK_RESP_INTEGER || reply->integer != 0)
        return false;
    if (ours)
        done(redis, ask);
    else
        dlk_redis_ask_answer(redis, ask, DLK_NOT_OURS);
    return true;
}

/* 0: not ours, 1: done, 2: done, but nobody could be told; a renewal's larger one: done, and longer
 * than it can be. */
bool dlk_redis_ask_take_flag(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    bool renews = ask->verb == DLK_RENEW;
    bool names = renews && reply->integer > DLK_REDIS_ENDS_MIN;
    if (reply->type != DLK_RESP_INTEGER || reply->integer < 0 ||
        (reply->integer > 2 && !names))
        return false;
    if (renews)
        ask->overlong = names ? reply->integer : 0;
    if (reply->integer == 2)
        warn_publish(redis, ask);
    if (reply->integer > 0)
        done(redis, ask);
    else
        dlk_redis_ask_answer(redis, ask, DLK_NOT_OURS);
    return true;
}

int64_t dlk_redis_look_again(dlk_redis *redis, const dlk_ask *ask, int64_t left_ms)
{
    const dlk_redis_key *key = ask->key->data;
    if (key->forms[0]->notifies && !redis->poll_only)
        return left_ms;
    int64_t retry_ms = dlk_rand_jitter(redis->base.host->rand, redis->retry_ms, 33);
    return left_ms >= 0 && left_ms < retry_ms ? left_ms : retry_ms;
}

/* To the SET: nil says that the lock is somebody's, and be it ours. The script finds out whose. */
static bool take_set(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (reply->type == DLK_RESP_NIL) {
        send_again(redis, ask, 0);
        return true;
    }
    if (reply->type != DLK_RESP_STATUS)
        return false;
    done(redis, ask);
    return true;
}

/* A text is our token, a number what is left of somebody's lease (-1: it has no end). */
static bool take_acquired(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    dlk_redis_key *key = ask->key->data;
    if (ask->scratch == DLK_REDIS_BY_SET)
        return take_set(redis, ask, reply);
    if (reply->type == DLK_RESP_INTEGER &&
        (reply->integer >= (key->hands_over ? -DLK_REDIS_MOMENT_MAX : -1) ||
         key->forms[0]->queues)) {
        int64_t wait_ms = reply->integer; /* of any size */
        if (key->hands_over)
            wait_ms = dlk_redis_handover_wait(ask, wait_ms);
        else if (key->forms[0]->queues)
            wait_ms = dlk_redis_fair_wait(ask, wait_ms);
        key->held = true;
        ask->wait_ms = dlk_redis_look_again(redis, ask, dlk_span_ms(wait_ms));
        ask->no_place = ask->once && ask->key->queues;
        dlk_redis_ask_answer(redis, ask, DLK_HELD);
        return true;
    }
    bool tokens = key->forms[ask->shared]->tokens;
    if (!dlk_resp_decimal(reply, &ask->token) || (ask->token != 0) != tokens)
        return false;
    key->held = false;
    if (key->hands_over)
        dlk_redis_handover_acquired(ask);
    done(redis, ask);
    return true;
}

static bool hands_over(const dlk_ask *ask)
{
    return ((const dlk_redis_key *)ask->key->data)->hands_over;
}

static bool take_released(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    bool untold;
    if (!dlk_redis_handover_released(redis, ask, reply, &untold))
        return false;
    if (untold)
        warn_publish(redis, ask);
    dlk_redis_ask_answer(redis, ask, ask->reply);
    return true;
}

dlock_error *dlk_redis_asks_reply(dlk_redis *redis, const dlk_resp *reply, int64_t now)
{
    dlk_ask *ask = dlk_flight_first(&redis->flight);
    if (!ask)
        return dlk_error_make(DLOCK_EPROTO, "redis: %s answers what nobody asked",
                              redis->place);
    dlk_verb verb = ask->verb;
    bool fine = true;
    if (redis->place_in_cluster && dlk_cluster_asked(ask))
        return NULL; /* that to ASKING: what was asked for follows */
    if (asks_for_rights(ask))
        take_rights(redis, ask, reply);
    else if (dlk_redis_replicas_asked(ask))
        fine = dlk_redis_replicas_reply(redis, ask, reply);
    else if (dlk_redis_batch_begins(ask))
        fine = dlk_redis_batch_reply(redis, ask, reply);
    else if (verb == DLK_DOCTOR)
        fine = dlk_redis_doctor_go_on(redis, ask, reply, now);
    else if (reply->type == DLK_RESP_ERROR)
        dlk_redis_ask_take_error(redis, ask, reply);
    else if (verb == DLK_ACQUIRE)
        fine = take_acquired(redis, ask, reply);
    else if (verb == DLK_RELEASE && hands_over(ask))
        fine = take_released(redis, ask, reply);
    else if (verb == DLK_IMPORT)
        fine = take_imported(redis, ask, reply);
    else if (verb == DLK_REVOKE)
        fine = dlk_redis_revoke_go_on(redis, ask, reply);
    else if (verb == DLK_INSPECT)
        fine = dlk_redis_inspected(redis, ask, reply);
    else if (verb == DLK_LIST)
        fine = dlk_redis_list_go_on(redis, ask, reply, now);
    else if (verb == DLK_REDIS_MAP)
        fine = dlk_cluster_mapped(redis, ask, reply);
    else
        fine = dlk_redis_ask_take_flag(redis, ask, reply);
    if (fine) {
        if (reply->type != DLK_RESP_ERROR)
            dlk_backoff_reset(&redis->commands.link.backoff);
        return NULL;
    }
    return dlk_error_make(DLOCK_EPROTO, "redis: %s answers '%s' with nonsense",
                          redis->place, verbs[verb]);
}

void dlk_redis_asks_fail(dlk_redis *redis, const dlock_error *error)
{
    dlk_list lost;
    dlk_list_init(&lost);
    dlk_flight_take_all(&redis->flight, &lost);
    dlk_list_splice(&lost, &redis->renewals);
    dlk_list *first;
    while ((first = dlk_list_first(&lost))) {
        dlk_ask *ask = DLK_LIST_ITEM(first, dlk_ask, link);
        dlk_redis_reports_drop(ask);
        if (asks_for_rights(ask)) { /* it is refused, or nothing but that was asked */
            bool refused = ask->error != NULL;
            if (!refused)
                ask->error = dlk_error_copy(error);
            dlk_redis_ask_answer(redis, ask, refused ? DLK_REFUSED : DLK_NOT_SENT);
            continue;
        }
        ask->error = dlk_error_copy(error);
        ask->spent = dlk_redis_replicas_undoing(ask);
        /* What was not written in full can't have been done. */
        bool unsent =
            dlk_stream_unsent(&redis->commands.link.stream, (int64_t)ask->sequence) &&
            !dlk_redis_replicas_asked(ask);
        dlk_redis_ask_answer(redis, ask, unsent ? DLK_NOT_SENT : DLK_UNKNOWN);
    }
}

int64_t dlk_redis_asks_tick(dlk_redis *redis, int64_t now)
{
    int64_t due = dlk_flight_due(&redis->flight, now);
    if (now < due)
        return due;
    dlk_link_drop(
        &redis->commands.link,
        dlk_error_make(DLOCK_EUNAVAIL, "redis: %s did not answer in time", redis->place),
        now);
    return DLK_NEVER;
}
