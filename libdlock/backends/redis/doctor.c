/* Examining a server; see the header. One command after the other: INFO, which the user need not be
 * allowed; the greeting's probe, which also tells the server's time; all rights (rights.h); and a
 * subscription, which no script can try. */
#include "backends/redis/doctor.h"

#include "backends/redis/asks.h"
#include "backends/redis/errors.h"
#include "backends/redis/greeting.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/layout.h"
#include "backends/redis/rights.h"
#include "util/error.h"
#include "util/findings.h"
#include "util/info.h"
#include "util/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ask->scratch while the examination lasts: what answer comes next, and whether rights were named. */
enum { WANT_INFO, WANT_PROBE, WANT_RIGHTS, WANT_SUBSCRIBED };
enum { NEXT_STEP = 1, RIGHTS_NAMED = 0x10000 };

static int step_of(const dlk_ask *ask)
{
    return (int)(ask->scratch & (RIGHTS_NAMED - 1));
}

bool dlk_redis_doctor_begin(dlk_redis *redis, dlk_ask *ask)
{
    const dlk_arg info = dlk_arg_text("INFO");
    ask->scratch = WANT_INFO;
    ask->info = dlk_info_new();
    if (ask->info && dlk_resp_command(&redis->commands.link.stream.out, &info, 1))
        return true;
    dlk_info_free(ask->info);
    ask->info = NULL;
    return false;
}

static void judge_eviction(dlk_ask *ask, const dlk_resp *reply)
{
    char policy[64], limit[32];
    if (!dlk_redis_info_value(reply, "maxmemory_policy", policy, sizeof(policy)) ||
        !dlk_redis_info_value(reply, "maxmemory", limit, sizeof(limit)))
        return;
    if (strcmp(limit, "0") == 0 || strcmp(policy, "noeviction") == 0)
        dlk_find(ask->info, "eviction", DLK_FINE, "nothing is evicted (maxmemory %s, %s)",
                 limit, policy);
    else
        dlk_find(
            ask->info, "eviction", DLK_UNSAFE,
            "locks and tokens may be evicted when memory is full: maxmemory-policy is "
            "%s, it "
            "should be noeviction",
            policy);
}

static void judge_persistence(dlk_ask *ask, const dlk_resp *reply)
{
    char aof[8];
    if (!dlk_redis_info_value(reply, "aof_enabled", aof, sizeof(aof)))
        return;
    char saved[8];
    if (dlk_redis_info_value(reply, "rdb_last_bgsave_status", saved, sizeof(saved)) &&
        strcmp(saved, "ok") != 0)
        dlk_find(
            ask->info, "saving", DLK_WARNING,
            "the last save to disk failed: the server may refuse writes, so new locks, "
            "until one succeeds");
    if (strcmp(aof, "1") == 0)
        dlk_find(ask->info, "persistence", DLK_FINE,
                 "appendonly is on: a restart loses at most what appendfsync leaves out");
    else
        dlk_find(
            ask->info, "persistence", DLK_WARNING,
            "appendonly is off: a restart forgets locks that are held, and they may be "
            "granted "
            "again; fencing tokens go on rising with the server's clock");
}

/* What a failover would forget: a replica that hasn't been heard of for seconds, or lags behind by
 * more than a burst. */
#define LAG_S     5
#define LAG_BYTES (1 << 20)

static int64_t number_at(const char *text)
{
    return dlk_number_before(text, ",", 0, INT64_MAX, 0);
}

static int64_t behind_by(const char *master, const char *replica)
{
    return dlk_number_difference(number_at(master), number_at(replica));
}

static bool find_lag(dlk_ask *ask, const dlk_resp *reply, int replicas)
{
    char line[256], name[24], offset[24];
    int64_t worst_s = 0, worst_bytes = 0;
    if (!dlk_redis_info_value(reply, "master_repl_offset", offset, sizeof(offset)))
        return false;
    for (int i = 0; i < replicas && i < 64; i++) {
        snprintf(name, sizeof(name), "slave%d", i);
        if (!dlk_redis_info_value(reply, name, line, sizeof(line)))
            continue;
        const char *at = strstr(line, "offset="), *lag = strstr(line, "lag=");
        int64_t bytes = at ? behind_by(offset, at + strlen("offset=")) : 0;
        int64_t s = lag ? number_at(lag + strlen("lag=")) : 0;
        worst_s = s > worst_s ? s : worst_s;
        worst_bytes = bytes > worst_bytes ? bytes : worst_bytes;
    }
    if (worst_s < LAG_S && worst_bytes < LAG_BYTES)
        return false;
    dlk_find(ask->info, "replication", DLK_WARNING,
             "of %d replicas one lags behind by %" PRId64 " s and %" PRId64
             " bytes: a failover to it "
             "forgets "
             "the locks of that time (redis.wait_replicas)",
             replicas, worst_s, worst_bytes);
    return true;
}

static void judge_replication(dlk_ask *ask, const dlk_resp *reply)
{
    char role[16], replicas[16];
    if (!dlk_redis_info_value(reply, "role", role, sizeof(role)) ||
        !dlk_redis_info_value(reply, "connected_slaves", replicas, sizeof(replicas)))
        return;
    if (strcmp(role, "master") != 0)
        dlk_find(ask->info, "replication", DLK_UNSAFE,
                 "this is a replica: it takes no locks");
    else if (find_lag(ask, reply, (int)dlk_number_or(replicas, 0, INT32_MAX, 0)))
        return;
    else if (strcmp(replicas, "0") != 0)
        dlk_find(
            ask->info, "replication", DLK_WARNING,
            "%s replicas: replication is asynchronous, so a failover may forget locks "
            "that are "
            "held",
            replicas);
    else
        dlk_find(ask->info, "replication", DLK_FINE, "a master without replicas");
}

static void judge_info(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    char version[32], run[64];
    if (reply->type == DLK_RESP_ERROR) {
        dlk_find(
            ask->info, "info", DLK_WARNING,
            "the user may not run INFO (+info): eviction, persistence and replication "
            "are "
            "unknown");
        return;
    }
    if (dlk_redis_info_value(reply, "redis_version", version, sizeof(version)))
        dlk_find(ask->info, "server", DLK_FINE, "Redis %s, layout %s", version,
                 redis->layout->name);
    if (dlk_redis_info_value(reply, "run_id", run, sizeof(run)))
        dlk_info_add_text(ask->info, run, "server.run_id");
    judge_eviction(ask, reply);
    judge_persistence(ask, reply);
    judge_replication(ask, reply);
}

/* What the client's locks are to be, where that promises less than others. */
static void judge_settings(dlk_redis *redis, dlk_ask *ask)
{
    if (dlk_settings_int(redis->settings, DLK_KEY_REDIS_SEMAPHORE) == DLK_REDIS_PLAIN)
        dlk_find(
            ask->info, "semaphore", DLK_WARNING,
            "redis.semaphore=plain: the permits of a holder that dies are lost for good; "
            "expirable gives them back when the lease is over");
}

/* Two machines' clocks that are so far apart: one of them was set, or should be. */
#define APART_MS 60000

/* By how much the server's clock is ahead of this machine's. */
static int64_t ahead_ms(int64_t offset, int64_t now)
{
    struct timespec here;
    if (clock_gettime(CLOCK_REALTIME, &here) != 0)
        return 0;
    return (offset + now / 1000) / 1000 - here.tv_sec * 1000 - here.tv_nsec / 1000000;
}

/* Leases on a Redis follow its wall clock: when that is set forward, they end early. */
static void judge_clock(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply,
                        int64_t now)
{
    int64_t offset = dlk_redis_clock_offset(reply, now);
    int64_t moved_ms = (offset - redis->clock_offset) / 1000;
    int64_t apart_ms = ahead_ms(offset, now);
    if (llabs(moved_ms) < 1000 && apart_ms <= -APART_MS)
        dlk_find(
            ask->info, "clock", DLK_WARNING,
            "the server's clock is behind this machine's by %" PRId64
            " ms: if it was set back, leases from before last longer by as much (inspect "
            "says clock_back_ms)",
            -apart_ms);
    else if (llabs(moved_ms) < 1000)
        dlk_find(ask->info, "clock", DLK_FINE,
                 "the server's clock has run evenly since we connected");
    else
        dlk_find(ask->info, "clock", DLK_WARNING,
                 "the server's clock was set %s by %" PRId64
                 " ms since we connected: leases %s",
                 moved_ms > 0 ? "forward" : "back", (int64_t)llabs(moved_ms),
                 moved_ms > 0 ? "ended early" : "last longer by as much");
}

static bool judge_probe(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply,
                        int64_t now)
{
    char missing[128];
    bool but_fair;
    if (reply->type == DLK_RESP_ERROR) {
        dlk_find(ask->info, "rights", DLK_UNSAFE, "the scripts can't run: %s",
                 reply->text);
        return true;
    }
    if (!dlk_redis_missing_rights(reply, missing, sizeof(missing), &but_fair))
        return false;
    if (missing[0]) {
        dlk_find(ask->info, "rights", DLK_UNSAFE,
                 "the user lacks rights that locks need: %s", missing);
        ask->scratch |= RIGHTS_NAMED;
    }
    judge_clock(redis, ask, reply, now);
    return true;
}

/* ---- Rights ---- */

/* Whose waiters are told late, if at all. */
static void tell_wishes(dlk_ask *ask, const dlk_redis_lack *lack)
{
    bool untold = strchr(lack->wishes, '&') || strstr(lack->wishes, "publish");
    if (!lack->wishes[0] || (lack->all && !lack->mutex))
        return;
    if (untold)
        dlk_find(ask->info, lack->id, DLK_WARNING,
                 "who waits for %s isn't told of releases and looks again every "
                 "client.poll_ms: "
                 "the user lacks %s",
                 lack->needs, lack->wishes);
    else
        dlk_find(ask->info, lack->id, DLK_FINE, "%s do without %s", lack->needs,
                 lack->wishes);
}

static void tell_lack(void *to, const dlk_redis_lack *lack)
{
    dlk_ask *ask = to;
    tell_wishes(ask, lack);
    if (!lack->names[0]) {
        if (lack->mutex)
            dlk_find(ask->info, lack->id, DLK_FINE,
                     "the user may run every command that locks need");
    } else if (lack->mutex && ask->scratch & RIGHTS_NAMED) {
        return;
    } else if (lack->mutex) {
        dlk_find(ask->info, lack->id, DLK_UNSAFE,
                 "the user lacks rights that locks need: %s", lack->names);
    } else if (lack->operating || lack->all) {
        dlk_find(ask->info, lack->id, DLK_FINE,
                 "%s are not for this user, who lacks %s%s%s", lack->needs, lack->names,
                 lack->wishes[0] ? " " : "", lack->wishes);
    } else {
        dlk_find(ask->info, lack->id, DLK_UNSAFE,
                 "%s are refused, the first time as well: the user lacks %s", lack->needs,
                 lack->names);
    }
}

static dlock_err judge_rights(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply)
{
    if (redis->lacks_load)
        dlk_find(ask->info, "rights.load", DLK_FINE,
                 "without +script|load the scripts travel when they are first needed");
    if (redis->lacks_role)
        dlk_find(ask->info, "rights.role", DLK_WARNING,
                 "without +role a master that was replaced is known by its first refusal "
                 "only");
    if (redis->lacks_switch)
        dlk_find(
            ask->info, "rights.sentinel", DLK_WARNING,
            "the user lacks +subscribe, +unsubscribe or &+switch-master at a sentinel: a "
            "fail-over is noticed by asking now and then");
    if (redis->lacks_shards)
        dlk_find(
            ask->info, "rights.shards", DLK_WARNING,
            "without +pubsub|shardnumsub it isn't known how Redisson's waiters listen");
    if (redis->lacks_name)
        dlk_find(ask->info, "rights.name", DLK_FINE,
                 "without +client|setname the client has no name in CLIENT LIST");
    if (reply->type != DLK_RESP_ERROR)
        return dlk_redis_rights_judge(redis, reply, tell_lack, ask);
    if (!(ask->scratch & RIGHTS_NAMED))
        dlk_find(ask->info, "rights", DLK_FINE,
                 "the user may run the commands of a mutex (before Redis 7 no others are "
                 "looked at)");
    return DLOCK_OK;
}

static int count_subscriptions(const dlk_redis *redis)
{
    return redis->cluster && redis->publish != DLK_PUBLISH_ALL ? 4 : 2;
}

static const char *const subscriptions[] = {"SUBSCRIBE", "UNSUBSCRIBE", "SSUBSCRIBE",
                                            "SUNSUBSCRIBE"};

/* In one burst, so that nothing else can come between: on a channel where nobody says anything.
 * Those of shards are for clusters. */
static bool put_subscriptions(dlk_redis *redis)
{
    char channel[DLK_REDIS_CHANNEL_MAX + 8];
    snprintf(channel, sizeof(channel), "%s:doctor",
             redis->probe_channel[0] ? redis->probe_channel : "dlock_client");
    for (int i = 0; i < count_subscriptions(redis); i++) {
        const dlk_arg args[] = {dlk_arg_text(subscriptions[i]), dlk_arg_text(channel)};
        if (!dlk_resp_command(&redis->commands.link.stream.out, args, 2))
            return false;
    }
    return true;
}

/* The answers come one behind the other: the request stays the first that waits for one. */
static bool judge_subscription(const dlk_redis *redis, dlk_ask *ask,
                               const dlk_resp *reply)
{
    int number = step_of(ask) - WANT_SUBSCRIBED;
    ask->scratch += NEXT_STEP;
    if (reply->type == DLK_RESP_ERROR && dlk_redis_error_code(reply) == DLOCK_EACCES)
        dlk_find(
            ask->info, "rights.subscribe", DLK_WARNING,
            "the user may not %s where releases are told (+%ssubscribe, +%sunsubscribe "
            "and "
            "the channel): waiters look again every client.poll_ms instead",
            subscriptions[number], number > 1 ? "s" : "", number > 1 ? "s" : "");
    return number + 1 == count_subscriptions(redis);
}

/* ---- Who can listen ---- */

static void judge_transport(dlk_redis *redis, dlk_ask *ask)
{
    dlk_link_judge(&redis->commands.link,
                   "plain: whoever is on the way can read the password and forge "
                   "grants (rediss://)",
                   ask->info);
}

/* ---- One after the other ---- */

static bool put_next(dlk_redis *redis, const dlk_ask *ask)
{
    switch (step_of(ask)) {
    case WANT_PROBE:
        return dlk_redis_put_probe(redis, &redis->commands.link.stream.out, false);
    case WANT_RIGHTS:
        return dlk_redis_rights_put(redis);
    default:
        return put_subscriptions(redis);
    }
}

static void fail(dlk_redis *redis, dlk_ask *ask)
{
    dlk_info_free(ask->info);
    ask->info = NULL;
    dlk_redis_ask_refuse(redis, ask,
                         dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
}

static void go_on(dlk_redis *redis, dlk_ask *ask)
{
    ask->scratch += NEXT_STEP;
    dlk_list_remove(&ask->link);
    if (put_next(redis, ask))
        dlk_redis_ask_sent(redis, ask);
    else
        fail(redis, ask);
}

static void end(dlk_redis *redis, dlk_ask *ask)
{
    dlk_find_verdict(ask->info);
    if (dlk_info_failed(ask->info))
        fail(redis, ask);
    else
        dlk_redis_ask_answer(redis, ask, DLK_YES);
}

bool dlk_redis_doctor_go_on(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply,
                            int64_t now)
{
    dlock_err judged;
    switch (step_of(ask)) {
    case WANT_INFO:
        if (reply->type != DLK_RESP_ERROR && reply->type != DLK_RESP_TEXT)
            return false;
        judge_info(redis, ask, reply);
        judge_settings(redis, ask);
        judge_transport(redis, ask);
        go_on(redis, ask);
        return true;
    case WANT_PROBE:
        if (!judge_probe(redis, ask, reply, now))
            return false;
        go_on(redis, ask);
        return true;
    case WANT_RIGHTS:
        judged = judge_rights(redis, ask, reply);
        if (judged == DLOCK_EPROTO)
            return false;
        if (judged != DLOCK_OK)
            fail(redis, ask);
        else if (redis->poll_only || !(redis->mutex->notifies || redis->notify))
            end(redis, ask);
        else
            go_on(redis, ask);
        return true;
    default:
        if (judge_subscription(redis, ask, reply))
            end(redis, ask);
        return true;
    }
}
