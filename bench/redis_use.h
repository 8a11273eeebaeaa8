/* Plain hiredis as the floors use it: synchronous, and whatever fails ends the program. */
#ifndef BENCH_REDIS_USE_H
#define BENCH_REDIS_USE_H

#include "bench.h"

#include <hiredis/hiredis.h>

#include <string.h>

enum { BENCH_SHA1 = 41 };

static inline redisContext *bench_dial(int port)
{
    redisContext *redis = redisConnect("127.0.0.1", port);
    if (!redis || redis->err)
        bench_die("connect", redis ? redis->errstr : "no memory");
    return redis;
}

static inline void bench_load(redisContext *redis, const char *text, char *ret_sha1)
{
    redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", text);
    if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != BENCH_SHA1 - 1)
        bench_die("SCRIPT LOAD", reply && reply->str ? reply->str : redis->errstr);
    memcpy(ret_sha1, reply->str, BENCH_SHA1);
    freeReplyObject(reply);
}

/* A command that is sent again and again. */
enum { BENCH_WORDS_MAX = 24 };

typedef struct bench_call {
    const char *words[BENCH_WORDS_MAX];
    size_t sizes[BENCH_WORDS_MAX];
    int count;
} bench_call;

/* @p words ends with NULL. */
static inline bench_call bench_prepare(const char *const *words)
{
    bench_call call = {.count = 0};
    for (; words[call.count]; call.count++) {
        if (call.count == BENCH_WORDS_MAX)
            bench_die(words[0], "has too many words");
        call.words[call.count] = words[call.count];
        call.sizes[call.count] = strlen(words[call.count]);
    }
    return call;
}

/* Sends it and expects an answer of @p type; a number is returned, of others 0. */
static inline long long bench_send(redisContext *redis, bench_call *call, int type)
{
    redisReply *reply = redisCommandArgv(redis, call->count, call->words, call->sizes);
    if (!reply || reply->type != type)
        bench_die(call->words[0],
                  reply && reply->str ? reply->str : "an answer out of place");
    long long number = reply->integer;
    freeReplyObject(reply);
    return number;
}

#endif
