/* Asks as requests: written, sent, and what is to become of their answers; see the header. */
#include "backends/redis/asks.h"

#include "backends/redis/answers.h"
#include "backends/redis/batch.h"
#include "backends/redis/circles.h"
#include "backends/redis/client_key.h"
#include "backends/redis/condition.h"
#include "backends/redis/doctor.h"
#include "backends/redis/fair.h"
#include "backends/redis/handover.h"
#include "backends/redis/replicas.h"
#include "backends/redis/reports.h"
#include "backends/redis/told.h"
#include "util/clock.h"
#include "util/error.h"

#include <assert.h>
#include <string.h>

/* ---- What a form's scripts are told besides whose lock it is, and for how long ---- */

/* How many are taken, and how many there are to be. */
static void more_of_permits(const struct dlk_redis *redis, const dlk_ask *ask,
                            dlk_arg *args, char room[DLK_REDIS_MORE][64])
{
    (void)redis;
    args[0] = dlk_arg_number(ask->take, room[0]);
    args[1] = dlk_arg_number(dlk_settings_int(ask->key->settings, DLK_KEY_LOCK_PERMITS),
                             room[1]);
}

/* And what the holder says besides. */
static void more_of_leased_permits(const struct dlk_redis *redis, const dlk_ask *ask,
                                   dlk_arg *args, char room[DLK_REDIS_MORE][64])
{
    more_of_permits(redis, ask, args, room);
    args[2] = dlk_arg_text(dlk_ask_data(ask));
}

/* The lease once more: that of the reader's own key. */
static void more_of_readers(const struct dlk_redis *redis, const dlk_ask *ask,
                            dlk_arg *args, char room[DLK_REDIS_MORE][64])
{
    (void)redis;
    args[0] = dlk_arg_number(ask->ttl_ms > 0 ? ask->ttl_ms : 1, room[0]);
}

/* What the elected one publishes. */
static void more_of_election(const struct dlk_redis *redis, const dlk_ask *ask,
                             dlk_arg *args, char room[DLK_REDIS_MORE][64])
{
    (void)redis;
    (void)room;
    args[0] = dlk_arg_text(dlk_ask_data(ask));
}

/* In what the time stamps are written. */
static void more_of_timestamp(const struct dlk_redis *redis, const dlk_ask *ask,
                              dlk_arg *args, char room[DLK_REDIS_MORE][64])
{
    (void)redis;
    (void)room;
    args[0] = dlk_arg_text(
        dlk_settings_word(ask->key->settings, DLK_KEY_REDIS_TIMESTAMP_FORMAT));
}

/* The token to be written back, or 0; by which clock a new one may be made, or 0: none of before this connection
 * began, as the server may have come back then with an older counter. */
static void more_of_redlock(const struct dlk_redis *redis, const dlk_ask *ask,
                            dlk_arg *args, char room[DLK_REDIS_MORE][64])
{
    args[0] = dlk_arg_number(ask->token, room[0]);
    args[1] =
        dlk_arg_number(ask->clock_us > redis->greeted_us ? ask->clock_us : 0, room[1]);
}

void dlk_redis_put_more(const dlk_redis *redis, const dlk_ask *ask,
                        const dlk_redis_form *form, dlk_arg *args,
                        char room[DLK_REDIS_MORE][64])
{
    static dlk_redis_more *const of_form[DLK_FORM_COUNT] = {
        [DLK_FORM_HANDOVER] = dlk_redis_handover_more,
        [DLK_FORM_FAIR] = dlk_redis_fair_more,
        [DLK_FORM_PERMITS] = more_of_leased_permits,
        [DLK_FORM_SEMAPHORE] = more_of_permits,
        [DLK_FORM_READ] = more_of_readers,
        [DLK_FORM_ELECTION] = more_of_election,
        [DLK_FORM_TIMESTAMP] = more_of_timestamp,
        [DLK_FORM_REDLOCK] = more_of_redlock,
        [DLK_FORM_CONDITION] = dlk_redis_condition_more,
    };
    if (form->more_count == 0)
        return;
    assert(of_form[form->id]);
    of_form[form->id](redis, ask, args, room);
}

/* ---- Writing ---- */

/* Does the request look after the counter of tokens, that it stays? */
static bool keeps(const dlk_redis *redis, const dlk_ask *ask)
{
    const dlk_redis_key *key = ask->key->data;
    return dlk_redis_form_asked(ask)->tokens &&
           dlk_settings_int(redis->settings, DLK_KEY_REDIS_TOKEN_KEEP_MS) > 0 &&
           (ask->verb != DLK_RENEW || ask->since == key->kept_at || ask->refills);
}

size_t dlk_redis_own_keys(const dlk_redis *redis, const dlk_ask *ask,
                          dlk_redis_script_id script)
{
    size_t own = dlk_redis_form_asked(ask)->keys[script];
    if (script != DLK_SCRIPT_RENEW || (ask->scratch & DLK_REDIS_ALONE) != 0)
        return own;
    if (ask->refills)
        return 3; /* handover/renew.lua */
    return own < 2 && keeps(redis, ask) ? 2 : own;
}

size_t dlk_redis_put_keep(const dlk_redis *redis, const dlk_ask *ask, dlk_arg *arg,
                          char room[64])
{
    if (!dlk_redis_form_asked(ask)->tokens)
        return 0;
    int64_t keep_ms = dlk_settings_int(redis->settings, DLK_KEY_REDIS_TOKEN_KEEP_MS);
    *arg = dlk_arg_number(keeps(redis, ask) ? keep_ms : 0, room);
    return 1;
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
    char owner[DLK_REDIS_OWNER_MAX], ttl[64], keep[64], bounds[2][64],
        room[DLK_REDIS_MORE][64];
    char clients[DLK_REDIS_CLIENT_PREFIX];
    dlk_arg args[3 + DLK_REDIS_MORE + 2]; /* behind the channel */
    size_t count = 0, own = dlk_redis_own_keys(redis, ask, id);
    if (ask->verb == DLK_BREAK)
        args[count++] = dlk_arg_text(ask->text ? ask->text : "");
    else
        args[count++] = (dlk_arg){owner, dlk_redis_put_owner(redis, ask->number, owner)};
    args[count++] = dlk_arg_number(ask->ttl_ms, ttl);
    count += dlk_redis_put_keep(redis, ask, &args[count], keep);
    dlk_redis_put_more(redis, ask, form, &args[count], room);
    count += form->more_count;
    if (ask->verb == DLK_IMPORT) /* who has given it away */
        args[count++] = dlk_arg_text(ask->text);
    if (ask->verb == DLK_RENEW)
        count += dlk_redis_put_bounds(ask, &args[count], bounds);
    if (id == DLK_SCRIPT_INSPECT)
        args[count++] = dlk_arg_text(dlk_redis_client_prefix(redis, clients));

    size_t size = dlk_redis_script_room(script, with_text) +
                  dlk_redis_keys_room(key, own) + dlk_redis_channel_room(key);
    for (size_t i = 0; i < count; i++)
        size += args[i].size + DLK_RESP_OVERHEAD;
    dlk_buf *out = &redis->commands.link.stream.out;
    char *from = dlk_buf_room(out, size), *to = from;
    if (!to)
        return false;
    to = dlk_redis_put_script(to, script, with_text, dlk_redis_key_count(key, own),
                              1 + count);
    to = dlk_redis_put_keys(to, key, form, own);
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
    const dlk_redis_form *form = dlk_redis_form_asked(ask);
    if (ask->verb == DLK_IMPORT || ask->verb == DLK_SIGNAL) {
        /* With the keys of an acquire; the one is shared by several forms, the other is one form's. */
        int script = ask->verb == DLK_IMPORT ? form->import : DLK_SCRIPT_SIGNAL;
        return put_script(redis, ask, form, &dlk_redis_scripts[script],
                          DLK_SCRIPT_ACQUIRE, with_text);
    }
    dlk_redis_script_id id = scripts[ask->verb];
    return put_script(redis, ask, form, dlk_redis_script_of(form, id), id, with_text);
}

/* ---- Under way, and over ---- */

void dlk_redis_ask_sent(dlk_redis *redis, dlk_ask *ask)
{
    redis->base.host->commands++;
    ask->sequence = (uint64_t)dlk_stream_end(&redis->commands.link.stream);
    dlk_flight_await(&redis->flight, ask);
}

void dlk_redis_ask_answer(dlk_redis *redis, dlk_ask *ask, dlk_reply reply)
{
    dlk_list_remove(&ask->link);
    ask->reply = reply;
    if (ask == &redis->circles.ask) {
        dlk_redis_circles_answered(redis);
        return;
    }
    redis->base.host->answered(redis->base.host, ask);
}

void dlk_redis_ask_refuse(dlk_redis *redis, dlk_ask *ask, dlock_error *error)
{
    ask->error = error;
    dlk_redis_ask_answer(redis, ask, DLK_REFUSED);
}

int64_t dlk_redis_look_again(dlk_redis *redis, const dlk_ask *ask, int64_t left_ms)
{
    const dlk_redis_key *key = ask->key->data;
    if (key->form->notifies && !redis->poll_only)
        return left_ms;
    int64_t retry_ms = dlk_rand_jitter(redis->base.host->rand, redis->retry_ms, 33);
    return left_ms >= 0 && left_ms < retry_ms ? left_ms : retry_ms;
}

/* ---- Sending ---- */

/* A request that takes looks after the counter of tokens, and of renewals one in each eighth of the time
 * for which it is kept: the others cost nothing more, and in a cluster they need not wait until two keys of
 * a slot that moves are together. So it is this one's turn, whatever becomes of it. */
static void note_keeping(const dlk_redis *redis, const dlk_ask *ask)
{
    dlk_redis_key *key = ask->key->data;
    int64_t keep_ms = dlk_settings_int(redis->settings, DLK_KEY_REDIS_TOKEN_KEEP_MS);
    if (dlk_redis_takes(ask) ||
        (ask->verb == DLK_RENEW &&
         (ask->since - key->kept_at) / DLK_NS_PER_MS >= keep_ms / 8))
        key->kept_at = ask->since;
}

/* A lock that may well be free is asked for by a SET, which costs the server half of a script. */
static bool begins_by_set(const dlk_ask *ask)
{
    const dlk_redis_key *key = ask->key ? ask->key->data : NULL;
    return ask->verb == DLK_ACQUIRE && dlk_redis_key_form(key, ask->shared)->sets &&
           !key->held;
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
    if (dlk_redis_rights_needed(redis, ask))
        return dlk_redis_rights_ask(redis, ask);
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

/* What the lines and the subscriber have to know, so that no message is missed between a request and the watch
 * that follows its answer. */
static void note_asking(dlk_redis *redis, const dlk_ask *ask, int64_t now)
{
    dlk_redis_key *key = ask->key ? ask->key->data : NULL;
    if (!key)
        return;
    /* In a cluster a request may be sent once more after it was given up, and a newer one has asked. */
    bool given_up =
        ask->verb == DLK_ACQUIRE && dlk_number_older(ask->number, key->contender);
    if (key->form->queues && !given_up)
        dlk_redis_fair_asks(redis, ask, now);
    if ((ask->verb == DLK_ACQUIRE && !given_up) || ask->next)
        key->asked_at = redis->subscriber.messages;
    else if (ask->verb == DLK_INSPECT)
        key->looked = true;
    if (key->hands_over || key->form->signals)
        dlk_redis_handover_asks(redis, ask);
    note_keeping(redis, ask);
    dlk_redis_told_note(redis, ask);
}

/* What is refused before anybody asks the server; NULL: nothing is. */
static dlock_error *refusal(const dlk_redis *redis, const dlk_ask *ask)
{
    const char *layout = redis->layout->name;
    if (ask->verb == DLK_LIST && redis->layout->prefix_tells &&
        (!ask->text || !ask->text[0]))
        return dlk_error_make(DLOCK_ENOTSUP,
                              "redis: with redis.layout=%s any key may be a lock: list "
                              "with a prefix, or set client.prefix",
                              layout);
    if (ask->verb == DLK_LIST && !redis->layout->type)
        return dlk_error_make(
            DLOCK_ENOTSUP, "redis: with redis.layout=%s names can't be listed", layout);
    if (ask->verb == DLK_ACQUIRE && redis->lacks_line &&
        ((const dlk_redis_key *)ask->key->data)->hands_over)
        return dlk_error_copy(redis->lacks_line);
    if (ask->verb == DLK_REVOKE && ask->key->kind == DLOCK_SEMAPHORE)
        return dlk_error_make(DLOCK_ENOTSUP,
                              "redis: a semaphore doesn't say whose its permits are");
    return NULL;
}

/* Our own key goes ahead of it, where that is due; where it can't be put, neither is. */
static bool put_behind_key(dlk_redis *redis, dlk_ask *ask)
{
    size_t before = dlk_buf_size(&redis->commands.link.stream.out);
    bool said = dlk_redis_client_key_put(redis, ask);
    bool done = put(redis, ask);
    if (said && done)
        ask->scratch |= DLK_REDIS_SAID;
    else if (said)
        dlk_redis_client_key_unput(redis, before);
    return done;
}

void dlk_redis_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    dlk_redis *redis = (dlk_redis *)backend;
    dlk_list_init(&ask->link);
    ask->scratch = 0;
    note_asking(redis, ask, now);
    if (redis->commands.link.phase != DLK_LINK_READY) {
        dlk_flight_not_sent(ask, redis->why_down);
        return;
    }
    dlock_error *why = refusal(redis, ask);
    if (why)
        (void)dlk_ask_refuse(ask, why);
    else if (ask->verb == DLK_RENEW)
        dlk_redis_batch_add(redis, ask);
    else if (put_behind_key(redis, ask))
        dlk_redis_ask_sent(redis, ask);
    else
        (void)dlk_ask_refuse(ask, dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
}

/* ---- Answers ---- */

/* False: it is nonsense. */
static bool take_reply(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply, int64_t now)
{
    if (dlk_redis_rights_asked(ask)) {
        dlk_redis_take_rights(redis, ask, reply);
        return true;
    }
    if (dlk_redis_replicas_asked(ask))
        return dlk_redis_replicas_reply(redis, ask, reply);
    if (ask->verb == DLK_RENEW && dlk_redis_batch_begins(ask))
        return dlk_redis_batch_reply(redis, ask, reply);
    if (ask->verb == DLK_DOCTOR)
        return dlk_redis_doctor_go_on(redis, ask, reply, now);
    if (reply->type == DLK_RESP_ERROR) {
        dlk_redis_take_error(redis, ask, reply);
        return true;
    }
    if (ask->verb == DLK_REVOKE)
        return dlk_redis_revoke_go_on(redis, ask, reply);
    if (ask->verb == DLK_INSPECT)
        return dlk_redis_inspected(redis, ask, reply);
    if (ask->verb == DLK_LIST)
        return dlk_redis_list_go_on(redis, ask, reply, now);
    if (ask->verb == DLK_REDIS_MAP) {
        redis->cluster->mapped(redis, ask, reply);
        return true;
    }
    return dlk_redis_take_answer(redis, ask, reply);
}

dlock_error *dlk_redis_asks_reply(dlk_redis *redis, const dlk_resp *reply, int64_t now)
{
    dlk_ask *ask = dlk_flight_first(&redis->flight);
    if (!ask)
        return dlk_error_make(DLOCK_EPROTO, "redis: %s answers what nobody asked",
                              redis->peer);
    dlk_verb verb = ask->verb;
    if (verb == DLK_REDIS_TELL) {
        dlk_redis_told_answered(redis, reply);
        return NULL;
    }
    if (dlk_redis_ahead_taken(ask, DLK_REDIS_SAID)) {
        dlk_redis_client_key_answered(redis, reply);
        return NULL; /* what was asked for follows */
    }
    if (dlk_redis_ahead_taken(ask, DLK_REDIS_ASKING))
        return NULL; /* here, too */
    if (!take_reply(redis, ask, reply, now))
        return dlk_error_make(DLOCK_EPROTO, "redis: %s answers '%s' with nonsense",
                              redis->peer, dlk_redis_verbs[verb]);
    if (reply->type != DLK_RESP_ERROR)
        dlk_backoff_reset(&redis->commands.link.backoff);
    return NULL;
}

void dlk_redis_asks_fail(dlk_redis *redis, const dlock_error *error)
{
    dlk_list lost;
    dlk_list_init(&lost);
    dlk_flight_take_all(&redis->flight, &lost);
    dlk_list_splice(&lost, &redis->renewals);
    dlk_list_splice(&lost, &redis->resting);
    dlk_list *first;
    while ((first = dlk_list_first(&lost))) {
        dlk_ask *ask = DLK_LIST_ITEM(first, dlk_ask, link);
        if (ask->verb == DLK_REDIS_TELL) {
            dlk_redis_told_answered(redis, NULL);
            continue;
        }
        dlk_redis_reports_drop(ask);
        (void)dlk_redis_ahead_taken(ask, DLK_REDIS_SAID);
        if (dlk_redis_rights_asked(
                ask)) { /* it is refused, or nothing but that was asked */
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
        dlk_error_make(DLOCK_EUNAVAIL, "redis: %s did not answer in time", redis->peer),
        now);
    return DLK_NEVER;
}
