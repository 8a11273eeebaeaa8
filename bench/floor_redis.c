/* The floor under the Redis pairs: the same two scripts, called in a loop by plain, synchronous
 * hiredis, each thread on a connection of its own. No lease is watched and no answer may be lost. */
#include "bench.h"

#include <hiredis/hiredis.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What libdlock sends by default, in the same length: its owner ids end in a counter. */
#define TTL   "30000"
#define OWNER "6f9619ff-8b86-4d01-b42d-00cf4fc9%04x:100000"

typedef struct script {
    char *text;
    char sha1[41];
} script;

typedef struct server {
    int port;
    script acquire, release;
} server;

typedef struct caller {
    redisContext *redis;
    char name[32], token[64], channel[64], owner[64];
} caller;

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    if (!file)
        bench_die(path, strerrordesc_np(errno));
    if (getdelim(&text, &size, '\0', file) <= 0)
        bench_die(path, "can't be read");
    (void)fclose(file);
    return text;
}

static redisContext *dial(int port)
{
    redisContext *redis = redisConnect("127.0.0.1", port);
    if (!redis || redis->err)
        bench_die("connect", redis ? redis->errstr : "no memory");
    return redis;
}

static void load(redisContext *redis, script *to)
{
    redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", to->text);
    if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != 40)
        bench_die("SCRIPT LOAD", reply && reply->str ? reply->str : redis->errstr);
    memcpy(to->sha1, reply->str, 41);
    freeReplyObject(reply);
}

/* Sends one command and expects a reply of @p type. */
static void call(caller *me, int count, const char **words, const size_t *sizes, int type)
{
    redisReply *reply = redisCommandArgv(me->redis, count, words, sizes);
    if (!reply || reply->type != type ||
        (type == REDIS_REPLY_INTEGER && reply->integer != 1))
        bench_die(words[0], reply && reply->str ? reply->str : "an answer out of place");
    freeReplyObject(reply);
}

static void loop(bench_stage *stage, bench_worker *worker, void *shared)
{
    const server *to = shared;
    caller me = {.redis = dial(to->port)};
    (void)snprintf(me.name, sizeof(me.name), "bench/%d", worker->number);
    (void)snprintf(me.token, sizeof(me.token), "redisson_lock_token:{%s}", me.name);
    (void)snprintf(me.channel, sizeof(me.channel), "redisson_lock__channel:{%s}",
                   me.name);
    (void)snprintf(me.owner, sizeof(me.owner), OWNER, (unsigned)worker->number & 0xffff);
    const char *acquire[] = {"EVALSHA", to->acquire.sha1, "2", me.name,
                             me.token,  me.owner,         TTL};
    const char *release[] = {"EVALSHA", to->release.sha1, "1",
                             me.name,   me.channel,       me.owner};
    enum {
        ACQUIRE = sizeof(acquire) / sizeof(*acquire),
        RELEASE = sizeof(release) / sizeof(*release)
    };
    size_t acquire_sizes[ACQUIRE], release_sizes[RELEASE];
    for (int i = 0; i < ACQUIRE; i++)
        acquire_sizes[i] = strlen(acquire[i]);
    for (int i = 0; i < RELEASE; i++)
        release_sizes[i] = strlen(release[i]);
    bench_ready(stage);
    BENCH_LOOP(stage, worker, {
        call(&me, ACQUIRE, acquire, acquire_sizes, REDIS_REPLY_STRING);
        call(&me, RELEASE, release, release_sizes, REDIS_REPLY_INTEGER);
    });
    redisFree(me.redis);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "PORT ACQUIRE.lua RELEASE.lua", 3);
    server to = {.port = (int)strtol(options.rest[0], NULL, 10),
                 .acquire.text = read_text(options.rest[1]),
                 .release.text = read_text(options.rest[2])};
    redisContext *redis = dial(to.port);
    load(redis, &to.acquire);
    load(redis, &to.release);
    redisFree(redis);
    bench_result result;
    bench_run_threads(&options, loop, &to, &result);
    bench_print(&result);
    (void)puts("}");
    free(to.acquire.text);
    free(to.release.text);
    return 0;
}
