/* The floor under the Redis pairs: the commands that libdlock sends for a pair, caught on their way
 * by the driver and sent again in a loop by plain, synchronous hiredis, each thread on a connection
 * of its own. No lease is watched and no answer may be lost.
 *
 * The words of both commands are the arguments, "--" between them; in them @L stands for the lock's
 * name and @O for the owner. The scripts are on the server already. A port with "tls:" before it is asked by
 * way of blocking OpenSSL, with all as it comes. */
#include "redis_use.h"

#include <inttypes.h>
#include <stdlib.h>

#ifdef BENCH_TLS
#include <openssl/ssl.h>
#else
typedef void SSL;
#endif

/* As long as what libdlock sends: its owner ids end in a counter. */
#define OWNER "6f9619ff-8b86-4d01-b42d-00cf4fc9%04x:100000"

typedef struct server {
    int port;
    bool tls;
    char **acquire, **release; /* up to NULL */
    bench_spot *page;
} server;

typedef struct caller {
    char name[16], owner[48];
    char texts[2 * BENCH_WORDS_MAX][256];
    int text_count;
} caller;

/* ---- TLS ---- */

#ifdef BENCH_TLS
/* Whose certificate it is makes no difference to what a record costs. */
static SSL *wrap(redisContext *redis)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = context ? SSL_new(context) : NULL;
    if (!ssl || !SSL_set_fd(ssl, redis->fd) || SSL_connect(ssl) != 1)
        bench_die("TLS", "no connection");
    return ssl;
}

static long long send_by_tls(redisContext *redis, SSL *ssl, bench_call *call, int type)
{
    char *text, answer[1024];
    void *found = NULL;
    int size = redisFormatCommandArgv(&text, call->count, call->words, call->sizes);
    if (size < 0 || SSL_write(ssl, text, size) != size)
        bench_die(call->words[0], "not sent");
    redisFreeCommand(text);
    while (redisReaderGetReply(redis->reader, &found) == REDIS_OK && !found) {
        int got = SSL_read(ssl, answer, sizeof(answer));
        if (got <= 0)
            bench_die(call->words[0], "no answer");
        (void)redisReaderFeed(redis->reader, answer, (size_t)got);
    }
    redisReply *reply = found;
    if (!reply || reply->type != type)
        bench_die(call->words[0],
                  reply && reply->str ? reply->str : "an answer out of place");
    long long number = reply->integer;
    freeReplyObject(reply);
    return number;
}
#else
static SSL *wrap(redisContext *redis)
{
    (void)redis;
    bench_die("TLS", "isn't in this build");
}

static long long send_by_tls(redisContext *redis, SSL *ssl, bench_call *call, int type)
{
    (void)ssl;
    return bench_send(redis, call, type);
}
#endif

static long long exchange(redisContext *redis, SSL *ssl, bench_call *call, int type)
{
    return ssl ? send_by_tls(redis, ssl, call, type) : bench_send(redis, call, type);
}

/* ---- The loop ---- */

/* The word with what @L and @O stand for. */
static const char *fill_in(caller *me, const char *word)
{
    char *text = me->texts[me->text_count++];
    size_t used = 0, room = sizeof(me->texts[0]);
    for (; *word; word++) {
        const char *part = word[0] == '@' && word[1] == 'L'   ? me->name
                           : word[0] == '@' && word[1] == 'O' ? me->owner
                                                              : NULL;
        size_t size = part ? strlen(part) : 1;
        if (used + size >= room)
            bench_die(text, "is too long");
        memcpy(text + used, part ? part : word, size);
        used += size;
        word += part != NULL;
    }
    text[used] = '\0';
    return text;
}

static bench_call prepare(caller *me, char **words)
{
    const char *filled[BENCH_WORDS_MAX + 1] = {NULL};
    for (int i = 0; words[i] && i < BENCH_WORDS_MAX; i++)
        filled[i] = fill_in(me, words[i]);
    return bench_prepare(filled);
}

static void loop(bench_stage *stage, bench_worker *worker, void *shared)
{
    const server *to = shared;
    int64_t who = stage->options->base + worker->number + 1;
    bench_spot *spot = &to->page[worker->number];
    redisContext *redis = bench_dial(to->port);
    SSL *ssl = to->tls ? wrap(redis) : NULL; /* for as long as the program runs */
    caller me = {.text_count = 0};
    (void)snprintf(me.name, sizeof(me.name), "bench/%d", worker->number);
    (void)snprintf(me.owner, sizeof(me.owner), OWNER, (unsigned)worker->number & 0xffff);
    bench_call acquire = prepare(&me, to->acquire), release = prepare(&me, to->release);
    bench_ready(stage);
    BENCH_LOOP(stage, worker, {
        (void)exchange(redis, ssl, &acquire, REDIS_REPLY_STRING);
        (void)bench_enter(spot, who);
        bench_exit(spot);
        if (exchange(redis, ssl, &release, REDIS_REPLY_INTEGER) < 1)
            bench_die("release", "it isn't ours");
    });
    redisFree(redis);
}

/* Cuts the arguments in two where "--" stands. */
static void split(server *to, char **words)
{
    to->acquire = words;
    while (*words && strcmp(*words, "--") != 0)
        words++;
    if (!*words)
        bench_die("arguments", "no -- between the commands");
    *words = NULL;
    to->release = words + 1;
}

int main(int argc, char **argv)
{
    bench_options options =
        bench_parse(argc, argv, "-- [tls:]PORT ACQUIRE… -- RELEASE…", -4);
    bool tls = strncmp(options.rest[0], "tls:", 4) == 0;
    server to = {.port = (int)strtol(options.rest[0] + (tls ? 4 : 0), NULL, 10),
                 .tls = tls,
                 .page = bench_page(&options)};
    split(&to, options.rest + 1);
    bench_result result;
    bench_run_threads(&options, loop, &to, &result);
    bench_print(&result);
    (void)puts("}");
    return 0;
}
