/* The floor under hand-overs on Redis: the queue is kept in the script. Whoever finds the lock taken
 * is put at the end of a list by the same script, and sleeps in BLPOP on a key of its own; a release
 * makes the first of the list the owner and pushes to its key. Plain, synchronous hiredis, each thread
 * on a connection of its own. No tokens, no renewal; a waiter that dies would stop it for a lease. */
#include "redis_use.h"

#include <stdlib.h>

#define LOCK  "bench-queue"
#define QUEUE "bench-queue:waiting"
#define TTL   "30000"

/* KEYS: 1 the lock, 2 the queue    ARGV: 1 owner, 2 lease in ms. Answers 1 if it is the owner's. */
static const char acquire_text[] =
    "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end "
    "redis.call('rpush', KEYS[2], ARGV[1]) "
    "return 0";

/* KEYS and ARGV as above. An owner is the key that its waiter sleeps on. */
static const char release_text[] =
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
    "local heir = redis.call('lpop', KEYS[2]) "
    "if heir then "
    "    redis.call('set', KEYS[1], heir, 'PX', ARGV[2]) "
    "    redis.call('rpush', heir, 'yours') "
    "else "
    "    redis.call('del', KEYS[1]) "
    "end "
    "return 1";

typedef struct scene {
    int port;
    bench_spot *spot;
    char acquire[BENCH_SHA1], release[BENCH_SHA1];
} scene;

typedef struct waiter {
    redisContext *redis;
    char owner[32];
    bench_call acquire, release, wait;
} waiter;

static void prepare(waiter *me, const scene *at, int64_t who)
{
    me->redis = bench_dial(at->port);
    (void)snprintf(me->owner, sizeof(me->owner), LOCK ":%d", (int)who);
    me->acquire = bench_prepare((const char *const[]){"EVALSHA", at->acquire, "2", LOCK,
                                                      QUEUE, me->owner, TTL, NULL});
    me->release = bench_prepare((const char *const[]){"EVALSHA", at->release, "2", LOCK,
                                                      QUEUE, me->owner, TTL, NULL});
    me->wait = bench_prepare((const char *const[]){"BLPOP", me->owner, "30", NULL});
}

static void take(waiter *me)
{
    if (bench_send(me->redis, &me->acquire, REDIS_REPLY_INTEGER) == 0)
        (void)bench_send(me->redis, &me->wait, REDIS_REPLY_ARRAY);
}

static void give(waiter *me)
{
    if (bench_send(me->redis, &me->release, REDIS_REPLY_INTEGER) != 1)
        bench_die("release", "it isn't ours");
}

static void contend(bench_stage *stage, bench_worker *worker, void *shared)
{
    const scene *at = shared;
    int64_t who = stage->options->base + worker->number + 1;
    double secs = stage->options->hold_ms / 1000.0;
    waiter me;
    prepare(&me, at, who);
    bench_ready(stage);
    while (bench_now(stage) != BENCH_OVER) {
        int64_t from = bench_now_ns();
        take(&me);
        bool changed = bench_enter(at->spot, who) != who;
        bench_took(stage, worker, bench_now_ns() - from, changed);
        if (secs > 0)
            bench_sleep(secs);
        bench_exit(at->spot);
        give(&me);
    }
    redisFree(me.redis);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "PORT", 1);
    scene at = {.port = (int)strtol(options.rest[0], NULL, 10),
                .spot = bench_page(&options)};
    redisContext *redis = bench_dial(at.port);
    bench_load(redis, acquire_text, at.acquire);
    bench_load(redis, release_text, at.release);
    redisFree(redis);
    const bench_troupe troupe = {.body = contend};
    bench_result result;
    bench_run_troupes(&options, &troupe, &at, &result);
    bench_print_contention(&result, at.spot);
    return 0;
}
