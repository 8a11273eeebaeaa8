/* Asks as requests, and their answers; see the header. */
#include "backends/redis/asks.h"

#include "backends/redis/answers.h"
#include "backends/redis/batch.h"
#include "backends/redis/doctor.h"
#include "backends/redis/fair.h"
#include "backends/redis/handover.h"
#include "backends/redis/replicas.h"
#include "backends/redis/reports.h"
#include "util/clock.h"
#include "util/error.h"

/* ---- Sending ---- */

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
    if (ask->verb == DLK_SIGNAL)
        return dlk_error_make(DLOCK_ENOTSUP, "redis: no conditions in this version");
    if (ask->verb == DLK_REVOKE && ask->key->kind == DLOCK_SEMAPHORE)
        return dlk_error_make(DLOCK_ENOTSUP,
                              "redis: a semaphore doesn't say whose its permits are");
    return NULL;
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
        return;
    }
    dlock_error *why = refusal(redis, ask);
    if (why)
        (void)dlk_ask_refuse(ask, why);
    else if (ask->verb == DLK_RENEW)
        dlk_redis_batch_add(redis, ask);
    else if (put(redis, ask))
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
    if (dlk_redis_batch_begins(ask))
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
    if (dlk_redis_asking_taken(ask))
        return NULL; /* what was asked for follows */
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
    dlk_list *first;
    while ((first = dlk_list_first(&lost))) {
        dlk_ask *ask = DLK_LIST_ITEM(first, dlk_ask, link);
        dlk_redis_reports_drop(ask);
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
