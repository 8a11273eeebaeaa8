/* What the answers to scripts' requests say; see the header.
 *
 * A script's SHA-1 may be unknown to the server (restarted, SCRIPT FLUSH). The answer is then
 * NOSCRIPT, nothing was done, and the request goes out once more with the script's text, within
 * the deadline it has. Those behind it in the pipeline meet the same and keep their order; but where
 * the server knows a release's script and not the acquire's, the one would overtake the other. */
#include "backends/redis/answers.h"

#include "backends/redis/errors.h"
#include "backends/redis/fair.h"
#include "backends/redis/handover.h"
#include "backends/redis/replicas.h"
#include "backends/redis/reports.h"
#include "backends/redis/rights.h"
#include "backends/redis/told.h"
#include "util/error.h"
#include "util/number.h"

const char *const dlk_redis_verbs[] = {
    [DLK_ACQUIRE] = "acquire", [DLK_RENEW] = "renew",   [DLK_RELEASE] = "release",
    [DLK_VERIFY] = "verify",   [DLK_BREAK] = "break",   [DLK_INSPECT] = "inspect",
    [DLK_SIGNAL] = "signal",   [DLK_LIST] = "list",     [DLK_DOCTOR] = "doctor",
    [DLK_REVOKE] = "revoke",   [DLK_IMPORT] = "import", [DLK_REDIS_MAP] = "CLUSTER SLOTS",
    [DLK_REDIS_TELL] = "tell",
};

/* ---- Rights ---- */

bool dlk_redis_rights_ask(dlk_redis *redis, dlk_ask *ask)
{
    ask->scratch = DLK_REDIS_RIGHTS;
    return dlk_redis_rights_put_one(redis, dlk_redis_form_asked(ask), ask->key);
}

/* ---- Answers ---- */

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
    if (dlk_redis_takes(ask) && given_back_behind(redis, ask, ask->number)) {
        dlk_redis_ask_answer(redis, ask, DLK_NOT_SENT);
        return;
    }
    if (ask->verb == DLK_RELEASE && ask->next && given_back_behind(redis, ask, ask->next))
        ask->next = 0;
    dlk_list_remove(&ask->link);
    ask->scratch = how;
    if (dlk_redis_ask_put(redis, ask, (how & DLK_REDIS_WITH_TEXT) != 0))
        dlk_redis_ask_sent(redis, ask);
    else
        dlk_redis_ask_refuse(redis, ask,
                             dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
}

/* For want of a right, which isn't known yet: then that is asked for first. */
static void refuse(dlk_redis *redis, dlk_ask *ask, dlock_error *error)
{
    if (error && error->code == DLOCK_EACCES && dlk_redis_takes(ask) &&
        dlk_redis_rights_ask(redis, ask)) {
        ask->error = error;
        dlk_list_remove(&ask->link);
        dlk_redis_ask_sent(redis, ask);
    } else {
        dlk_redis_ask_refuse(redis, ask, error);
    }
}

/* Which rights are missing. A server that doesn't know the question says so, and none is. */
void dlk_redis_take_rights(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    dlock_error *lack =
        dlk_redis_rights_judge_one(redis, dlk_redis_form_asked(ask), ask->key, reply);
    if (lack && ask->error)
        dlk_error_backend(&lack, dlock_error_backend(ask->error));
    if (lack) {
        dlk_error_clear(&ask->error);
        dlk_redis_ask_refuse(redis, ask, lack);
    } else if (ask->error) {
        dlk_redis_ask_answer(redis, ask, DLK_REFUSED);
    } else {
        redis->checked |= 1U << dlk_redis_form_asked(ask)->id;
        send_again(redis, ask, 0);
    }
}

/* What a renewal brings along, more time for the counter and more tokens, is elsewhere than the lock, as the
 * slot moves: it was no part of the promise. */
static bool renews_alone(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (ask->verb != DLK_RENEW || (ask->scratch & DLK_REDIS_ALONE) != 0 ||
        !dlk_resp_begins(reply, "TRYAGAIN"))
        return false;
    send_again(redis, ask, DLK_REDIS_WITH_TEXT | DLK_REDIS_ALONE);
    return true;
}

static bool is_script(const dlk_ask *ask)
{
    return ask->verb != DLK_LIST && ask->verb != DLK_DOCTOR && ask->verb != DLK_REDIS_MAP;
}

/* An error reply: nothing was done. */
void dlk_redis_take_error(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (redis->cluster && redis->cluster->redirects(redis, ask, reply))
        return;
    if (renews_alone(redis, ask, reply))
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
        redis->commands.link.doom = dlk_redis_error(reply, dlk_redis_verbs[ask->verb]);
    dlk_redis_reports_drop(ask);
    refuse(redis, ask, dlk_redis_error(reply, dlk_redis_verbs[ask->verb]));
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
bool dlk_redis_take_flag(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    bool renews = ask->verb == DLK_RENEW;
    int64_t answer = reply->integer;
    if (reply->type != DLK_RESP_INTEGER &&
        (!renews || !dlk_redis_handover_renewed(ask, reply, &answer)))
        return false;
    bool names = renews && answer > DLK_REDIS_ENDS_MIN;
    if (answer < 0 || (answer > 2 && !names))
        return false;
    if (renews)
        ask->overlong = names ? answer : 0;
    if (answer == 2)
        warn_publish(redis, ask);
    if (ask->verb == DLK_BREAK)
        dlk_redis_told_broke(redis);
    if (answer > 0)
        done(redis, ask);
    else
        dlk_redis_ask_answer(redis, ask, DLK_NOT_OURS);
    return true;
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
    const dlk_redis_form *form = dlk_redis_key_form(key, ask->shared);
    bool tells_new = form->queues || form->signals;
    if (ask->scratch == DLK_REDIS_BY_SET)
        return take_set(redis, ask, reply);
    if (reply->type == DLK_RESP_INTEGER &&
        (reply->integer >= (key->hands_over ? -DLK_REDIS_MOMENT_MAX : -1) || tells_new)) {
        int64_t wait_ms = reply->integer; /* of any size */
        if (key->hands_over)
            wait_ms = dlk_redis_handover_wait(ask, wait_ms);
        else if (tells_new)
            wait_ms = dlk_redis_fair_wait(ask, wait_ms);
        key->held = true;
        ask->wait_ms = dlk_redis_look_again(redis, ask, dlk_span_ms(wait_ms));
        ask->no_place = ask->once && ask->key->queues;
        dlk_redis_ask_answer(redis, ask, DLK_HELD);
        return true;
    }
    bool tokens = form->tokens || form->signals;
    if (!dlk_redis_handover_tokens(ask, ask->number, reply) ||
        (ask->token != 0) != tokens)
        return false;
    key->held = false;
    if (key->hands_over)
        dlk_redis_handover_acquired(ask);
    done(redis, ask);
    return true;
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

bool dlk_redis_take_answer(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    const dlk_redis_key *key = ask->key->data;
    if (ask->verb == DLK_ACQUIRE)
        return take_acquired(redis, ask, reply);
    if (ask->verb == DLK_RELEASE && key->hands_over)
        return take_released(redis, ask, reply);
    if (ask->verb == DLK_SIGNAL)
        return dlk_redis_signalled(redis, ask, reply);
    if (ask->verb == DLK_IMPORT)
        return take_imported(redis, ask, reply);
    return dlk_redis_take_flag(redis, ask, reply);
}
