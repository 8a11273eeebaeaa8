/* A value in Redis as a fenced resource: the script that writes it compares the token.
 *
 * The value needn't be in the Redis that keeps the lock, nor need the lock be in a Redis at all.
 *
 * Usage: guarded_redis URL HOST PORT, or guarded_redis URL SOCKET */
#include "two_holders.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define KEY                                                                              \
    "stock:bolt" /* not the name of the lock: that is a key as well if it is in this Redis */

/* doc: script */
/* Tokens have 63 bits and Lua's numbers only 53: they are compared as text, where the longer one
 * is the larger. Redis runs a script as one step. */
static const char write_script[] =
    "local last, mine = redis.call('HGET', KEYS[1], 'fence') or '0', ARGV[1]\n"
    "if #mine < #last or (#mine == #last and mine < last) then\n"
    "  return 0\n"
    "end\n"
    "redis.call('HSET', KEYS[1], 'fence', mine, 'pieces', ARGV[2])\n"
    "return 1\n";
/* end: script */

static dlock_err complain(const redisContext *redis, const redisReply *reply)
{
    fprintf(stderr, "redis: %s\n",
            !reply                             ? redis->errstr
            : reply->type == REDIS_REPLY_ERROR ? reply->str
                                               : "an answer of another type");
    return DLOCK_EUSER;
}

static dlock_err prepare(void *user)
{
    struct work *work = user;
    redisContext *redis = work->resource;
    dlock_err rc = DLOCK_OK;
    redisReply *reply = redisCommand(redis, "HGET %s pieces", KEY);
    if (reply && reply->type == REDIS_REPLY_STRING)
        work->value = strtoll(reply->str, NULL, 10);
    else if (!reply || reply->type != REDIS_REPLY_NIL)
        rc = complain(redis, reply);
    freeReplyObject(reply);
    return rc;
}

/* The long part: nothing of it is in the database yet, so there is little to undo. */
static dlock_err run(void *user)
{
    struct work *work = user;
    work->value += work->amount;
    return DLOCK_OK;
}

/* doc: commit */
static dlock_err commit(void *user, int64_t token)
{
    struct work *work = user;
    redisContext *redis = work->resource;
    dlock_err rc = DLOCK_OK;
    if (work->pause)
        work->pause(work);
    redisReply *reply = redisCommand(redis, "EVAL %s 1 %s %lld %lld", write_script, KEY,
                                     (long long)token, (long long)work->value);
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        rc = complain(redis, reply);
    else if (reply->integer == 0)
        rc = DLOCK_ELOST; /* a larger token has been here */
    freeReplyObject(reply);
    return rc;
}
/* end: commit */

static void undo(void *user)
{
    struct work *work = user;
    work->value = 0;
    printf("%s: undone\n", work->who);
}

static void lost(void *user)
{
    struct work *work = user;
    printf("%s: lost the lock\n", work->who);
}

static const dlock_guarded guarded = {
    .size = sizeof guarded,
    .prepare = prepare,
    .run = run,
    .commit = commit,
    .undo = undo,
    .lost = lost,
};

static int play(const char *url, redisContext *redis)
{
    struct work look = {.who = "check", .resource = redis};
    if (prepare(&look) != DLOCK_OK)
        return 1;
    int64_t before = look.value;
    if (two_holders(url, "guarded-redis", &guarded, redis) != 0 ||
        prepare(&look) != DLOCK_OK)
        return 1;
    if (look.value != before + 10) {
        printf("a stale write came through\n");
        return 1;
    }
    printf("only the second holder's write is there: %" PRId64 " pieces\n", look.value);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr,
                "usage: guarded_redis URL HOST PORT | guarded_redis URL SOCKET\n");
        return 64;
    }
    const struct timeval limit = {.tv_sec = 5};
    redisContext *redis = argc == 3
                              ? redisConnectUnixWithTimeout(argv[2], limit)
                              : redisConnectWithTimeout(argv[2], atoi(argv[3]), limit);
    int rc = 1;
    if (redis && !redis->err)
        rc = play(argv[1], redis);
    else
        fprintf(stderr, "redis: %s\n", redis ? redis->errstr : "out of memory");
    redisFree(redis);
    return rc;
}
