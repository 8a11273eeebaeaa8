/* The floor under many held locks: one owner, one thread, one connection, and a script that renews a
 * hundred locks at a time, spread evenly over a third of the lease. */
#include "redis_use.h"

#include <poll.h>
#include <stdlib.h>

#define TTL "10000"

enum { BATCH = 100, TTL_MS = 10000, NAME = 20 };

static const char acquire_text[] = "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', "
                                   "ARGV[2]) then return 1 end return 0";

/* KEYS: the locks    ARGV: 1 owner, 2 lease in ms. Answers how many are still the owner's. */
static const char renew_text[] =
    "local kept = 0 "
    "for _, lock in ipairs(KEYS) do "
    "    if redis.call('get', lock) == ARGV[1] then "
    "        kept = kept + redis.call('pexpire', lock, ARGV[2]) "
    "    end "
    "end "
    "return kept";

typedef struct holder {
    redisContext *redis;
    const char *owner;
    char acquire[BENCH_SHA1], renew[BENCH_SHA1];
    char (*names)[NAME];
    int count, lost;
} holder;

static void take_all(holder *me)
{
    for (int i = 0; i < me->count; i++) {
        (void)snprintf(me->names[i], NAME, "held/%d", i);
        bench_call call = bench_prepare((const char *const[]){
            "EVALSHA", me->acquire, "1", me->names[i], me->owner, TTL, NULL});
        if (bench_send(me->redis, &call, REDIS_REPLY_INTEGER) != 1)
            bench_die(me->names[i], "somebody has it");
    }
}

/* Renews the locks from @p first on; returns how many. */
static int renew(holder *me, int first)
{
    const char *words[BATCH + 5];
    size_t sizes[BATCH + 5];
    char count_text[12];
    int some = me->count - first < BATCH ? me->count - first : BATCH, used = 0;
    (void)snprintf(count_text, sizeof(count_text), "%d", some);
    words[used++] = "EVALSHA";
    words[used++] = me->renew;
    words[used++] = count_text;
    for (int i = first; i < first + some; i++)
        words[used++] = me->names[i];
    words[used++] = me->owner;
    words[used++] = TTL;
    for (int i = 0; i < used; i++)
        sizes[i] = strlen(words[i]);
    redisReply *reply = redisCommandArgv(me->redis, used, words, sizes);
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        bench_die("renew", reply && reply->str ? reply->str : "no answer");
    me->lost += some - (int)reply->integer;
    freeReplyObject(reply);
    return some;
}

/* Until a line comes. */
static void renew_all(holder *me)
{
    int64_t pause_ns = INT64_C(1000000) * TTL_MS / 3 * BATCH / me->count;
    int64_t next = bench_now_ns();
    for (int first = 0;; first = first >= me->count ? 0 : first) {
        first += renew(me, first);
        next += pause_ns;
        int64_t left_ms = (next - bench_now_ns()) / 1000000;
        struct pollfd in = {.fd = 0, .events = POLLIN};
        if (poll(&in, 1, left_ms > 0 ? (int)left_ms : 0) != 0)
            return;
    }
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "PORT", 1);
    holder me = {.redis = bench_dial((int)strtol(options.rest[0], NULL, 10)),
                 .owner = "6f9619ff-8b86-4d01-b42d-00cf4fc90000:1",
                 .names = calloc((size_t)options.count, NAME),
                 .count = options.count};
    if (!me.names)
        bench_die("calloc", "no memory");
    bench_load(me.redis, acquire_text, me.acquire);
    bench_load(me.redis, renew_text, me.renew);
    take_all(&me);
    if (puts("ready") < 0 || fflush(stdout) != 0)
        bench_die("stdout", "is closed");
    renew_all(&me);
    (void)printf("{\"held\": %d, \"lost\": %d}\n", me.count, me.lost);
    redisFree(me.redis);
    free(me.names);
    return 0;
}
