/* Examining a server; see the header. Two commands: INFO, which the user need not be allowed, and
 * the probe of rights, which also tells the server's time. */
#include "backends/redis/doctor.h"

#include "backends/redis/asks.h"
#include "backends/redis/greeting.h"
#include "backends/redis/internal.h"
#include "util/error.h"
#include "util/info.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINE, WARNING, UNSAFE };

/* ask->scratch while the examination lasts: what comes next, what was found, the worst of it. */
enum { WANT_INFO = 0, WANT_PROBE = 1, NEXT_FINDING = 2, WORST_SHIFT = 32 };

static __attribute__((format(printf, 4, 5))) void
find(dlk_ask *ask, const char *id, int64_t severity, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    int64_t number = (ask->scratch & 0xffff) / NEXT_FINDING;
    dlk_info_add_text(ask->info, id, "findings.%" PRId64 ".id", number);
    dlk_info_add_int(ask->info, severity, "findings.%" PRId64 ".severity", number);
    dlk_info_add_text(ask->info, text, "findings.%" PRId64 ".text", number);
    ask->scratch += NEXT_FINDING;
    if (severity > ask->scratch >> WORST_SHIFT)
        ask->scratch = (ask->scratch & 0xffff) | severity << WORST_SHIFT;
}

bool dlk_redis_doctor_begin(dlk_redis *redis, dlk_ask *ask)
{
    const dlk_arg info = dlk_arg_text("INFO");
    ask->scratch = WANT_INFO;
    ask->info = dlk_info_new();
    if (ask->info && dlk_resp_command(&redis->commands.stream.out, &info, 1))
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
        find(ask, "eviction", FINE, "nothing is evicted (maxmemory %s, %s)", limit,
             policy);
    else
        find(ask, "eviction", UNSAFE,
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
    if (strcmp(aof, "1") == 0)
        find(ask, "persistence", FINE,
             "appendonly is on: a restart loses at most what appendfsync leaves out");
    else
        find(ask, "persistence", WARNING,
             "appendonly is off: a restart forgets locks that are held, and they may be "
             "granted "
             "again; fencing tokens go on rising with the server's clock");
}

static void judge_replication(dlk_ask *ask, const dlk_resp *reply)
{
    char role[16], replicas[16];
    if (!dlk_redis_info_value(reply, "role", role, sizeof(role)) ||
        !dlk_redis_info_value(reply, "connected_slaves", replicas, sizeof(replicas)))
        return;
    if (strcmp(role, "master") != 0)
        find(ask, "replication", UNSAFE, "this is a replica: it takes no locks");
    else if (strcmp(replicas, "0") != 0)
        find(ask, "replication", WARNING,
             "%s replicas: replication is asynchronous, so a failover may forget locks "
             "that are "
             "held",
             replicas);
    else
        find(ask, "replication", FINE, "a master without replicas");
}

static void judge_info(dlk_ask *ask, const dlk_resp *reply)
{
    char version[32];
    if (reply->type == DLK_RESP_ERROR) {
        find(ask, "info", WARNING,
             "the user may not run INFO: eviction, persistence and replication are "
             "unknown");
        return;
    }
    if (dlk_redis_info_value(reply, "redis_version", version, sizeof(version)))
        find(ask, "server", FINE, "Redis %s, layout redisson", version);
    judge_eviction(ask, reply);
    judge_persistence(ask, reply);
    judge_replication(ask, reply);
}

/* Leases on a Redis follow its wall clock: when that is set forward, they end early. */
static void judge_clock(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply,
                        int64_t now)
{
    int64_t offset =
        reply->items[0].integer * 1000000 + reply->items[1].integer - now / 1000;
    int64_t moved_ms = (offset - redis->clock_offset) / 1000;
    if (llabs(moved_ms) < 1000)
        find(ask, "clock", FINE, "the server's clock has run evenly since we connected");
    else
        find(ask, "clock", WARNING,
             "the server's clock was set %s by %" PRId64
             " ms since we connected: leases %s",
             moved_ms > 0 ? "forward" : "back", (int64_t)llabs(moved_ms),
             moved_ms > 0 ? "ended early" : "were longer than asked");
}

static bool judge_rights(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply,
                         int64_t now)
{
    char missing[128];
    if (reply->type == DLK_RESP_ERROR) {
        find(ask, "rights", UNSAFE, "the scripts can't run: %s", reply->text);
        return true;
    }
    if (!dlk_redis_missing_rights(reply, missing, sizeof(missing)))
        return false;
    if (missing[0])
        find(ask, "rights", UNSAFE, "the user lacks rights that locks need: %s", missing);
    else
        find(ask, "rights", FINE, "the user may run every command that locks need");
    judge_clock(redis, ask, reply, now);
    return true;
}

bool dlk_redis_doctor_go_on(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply,
                            int64_t now)
{
    if ((ask->scratch & WANT_PROBE) == 0) {
        if (reply->type != DLK_RESP_ERROR && reply->type != DLK_RESP_TEXT)
            return false;
        judge_info(ask, reply);
        dlk_list_remove(&ask->link);
        if (!dlk_redis_put_probe(redis, &redis->commands.stream.out, false)) {
            dlk_info_free(ask->info);
            ask->info = NULL;
            dlk_redis_ask_refuse(redis, ask,
                                 dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
            return true;
        }
        ask->scratch |= WANT_PROBE;
        dlk_redis_ask_sent(redis, ask);
        return true;
    }
    if (!judge_rights(redis, ask, reply, now))
        return false;
    dlk_info_add_int(ask->info, ask->scratch >> WORST_SHIFT, "verdict");
    if (dlk_info_failed(ask->info)) {
        dlk_info_free(ask->info);
        ask->info = NULL;
        dlk_redis_ask_refuse(redis, ask,
                             dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"));
        return true;
    }
    dlk_redis_ask_answer(redis, ask, DLK_YES);
    return true;
}
