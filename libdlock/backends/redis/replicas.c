/* Waiting for replicas; see the header.
 *
 * What WAIT counts are the replicas that have everything this connection has written so far. A
 * grant that too few of them have is given back before anybody hears of it, and tried again; but
 * under another number where the connection broke meanwhile, as that may be carried out later. A
 * renewal is repeated as one that had no answer. Replicas that were just missed are given little time, since all that
 * is behind in the connection waits with us. */
#include "backends/redis/replicas.h"

#include "backends/redis/asks.h"
#include "backends/redis/errors.h"
#include "backends/redis/inner.h"
#include "util/clock.h"
#include "util/error.h"

#define WAIT_MS_MAX 1000
#define MISSED_NS   (2 * DLK_NS_PER_SEC)
#define MISSED_MS   20

static int64_t wait_ms(const dlk_redis *redis)
{
    int64_t ms = redis->timeout_ns / DLK_NS_PER_MS / 4;
    if (redis->replicas_missed && dlk_clock_now() < redis->replicas_missed + MISSED_NS &&
        ms > MISSED_MS)
        return MISSED_MS;
    return ms > WAIT_MS_MAX ? WAIT_MS_MAX : ms < 1 ? 1 : ms;
}

static int64_t wanted(const dlk_ask *ask)
{
    return dlk_settings_int(ask->key->settings, DLK_KEY_REDIS_WAIT_REPLICAS);
}

/* Without memory it is as with a lost answer: the engine asks, or gives it back. */
static void give_up(dlk_redis *redis, dlk_ask *ask)
{
    ask->error = dlk_error_make(DLOCK_ENOMEM, "redis: out of memory");
    dlk_redis_ask_answer(redis, ask, DLK_UNKNOWN);
}

void dlk_redis_replicas_wait(dlk_redis *redis, dlk_ask *ask)
{
    char count[DLK_DIGITS_MAX], ms[DLK_DIGITS_MAX];
    const dlk_arg args[] = {dlk_arg_text("WAIT"), dlk_arg_number(wanted(ask), count),
                            dlk_arg_number(wait_ms(redis), ms)};
    if (!dlk_resp_command(&redis->commands.link.stream.out, args, 3)) {
        give_up(redis, ask);
        return;
    }
    dlk_list_remove(&ask->link);
    ask->scratch = DLK_REDIS_WAITS;
    dlk_redis_ask_sent(redis, ask);
}

static void undo(dlk_redis *redis, dlk_ask *ask, bool denied)
{
    dlk_ask release = *ask;
    release.verb = DLK_RELEASE;
    release.next = 0;
    if (!dlk_redis_ask_put(redis, &release, true)) {
        give_up(redis, ask);
        return;
    }
    dlk_list_remove(&ask->link);
    ask->scratch = DLK_REDIS_UNDOES | (denied ? DLK_REDIS_DENIED : 0);
    dlk_redis_ask_sent(redis, ask);
}

static void refuse(dlk_redis *redis, dlk_ask *ask, bool denied)
{
    if (denied) {
        dlk_redis_ask_refuse(redis, ask,
                             dlk_error_make(DLOCK_EACCES,
                                            "redis: the user's ACL forbids WAIT, which "
                                            "redis.wait_replicas needs"));
        return;
    }
    dlk_redis_ask_refuse(
        redis, ask,
        dlk_error_make(DLOCK_EUNAVAIL,
                       "redis: fewer than %lld replicas of %s confirmed it in time "
                       "(redis.wait_replicas)",
                       (long long)wanted(ask), redis->peer));
}

bool dlk_redis_replicas_reply(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    bool number = reply->type == DLK_RESP_INTEGER && reply->integer >= 0;
    if (!number && reply->type != DLK_RESP_ERROR)
        return false;
    if (ask->scratch & DLK_REDIS_UNDOES) {
        if (number)
            refuse(redis, ask, (ask->scratch & DLK_REDIS_DENIED) != 0);
        else
            dlk_redis_ask_answer(redis, ask, DLK_UNKNOWN); /* it may still be ours */
        return true;
    }
    if (number && reply->integer >= wanted(ask)) {
        redis->replicas_missed = 0;
        dlk_redis_ask_answer(redis, ask, DLK_YES);
        return true;
    }
    bool denied = !number && dlk_redis_error_code(reply) == DLOCK_EACCES;
    redis->replicas_missed = dlk_clock_now();
    if (ask->verb == DLK_RENEW)
        refuse(redis, ask, denied);
    else
        undo(redis, ask, denied);
    return true;
}
