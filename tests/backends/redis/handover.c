/* A mutex that is handed over, by hand; see the header. */
#include "handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

redis_server server;
client clients[CLIENTS];
const char *claim_ms = "60000";

bool open_client(client *c, const char *handover)
{
    char uri[64];
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    if (!world_connect(&c->w, uri, "redis.handover", handover, "redis.claim_ms", claim_ms,
                       "redis.open_turn", "8", NULL))
        return false;
    c->key = world_key(&c->w, "L");
    return c->key != NULL;
}

void close_client(client *c)
{
    world_forget(&c->w, c->key);
    world_close(&c->w);
}

bool open_clients(void)
{
    for (int i = 0; i < CLIENTS; i++)
        if (!open_client(&clients[i], "true"))
            return false;
    return true;
}

void teardown(void)
{
    for (int i = 0; i < CLIENTS; i++)
        close_client(&clients[i]);
    redis_server_stop(&server);
}

dlk_reply do_it(client *c, dlk_verb verb, uint64_t number)
{
    return world_do(&c->w, verb, c->key, number, NULL);
}

const char *owner(const client *c, uint64_t number)
{
    static char texts[8][80];
    static int next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof(texts[0]), "%s:%llu", c->w.uuid, (unsigned long long)number);
    return text;
}

const char *holder(void)
{
    return redis_server_call(&server, "HKEYS L");
}

int64_t number_from(const char *command)
{
    return atoll(redis_server_call(&server, "%s", command));
}

bool line_is(const char *first, const char *second)
{
    char wanted[200];
    snprintf(wanted, sizeof(wanted), "%s%s%s", first, second[0] ? " " : "", second);
    bool same = strcmp(redis_server_call(&server, "LRANGE " QUEUE " 0 -1"), wanted) == 0;
    if (!same)
        harness_note("the line is %s",
                     redis_server_call(&server, "LRANGE " QUEUE " 0 -1"));
    return same;
}

bool listens(client *c)
{
    char command[120], answer[120];
    snprintf(command, sizeof(command), "PUBSUB NUMSUB dlock_client:%s", c->w.uuid);
    snprintf(answer, sizeof(answer), "dlock_client:%s 1", c->w.uuid);
    int before = c->w.notices;
    world_watch(&c->w, c->key, true);
    return ROUNDS_REACH(&c->w, c->w.notices != before) &&
           strcmp(redis_server_call(&server, "%s", command), answer) == 0;
}

dlk_ask pass(client *c, uint64_t number, uint64_t next)
{
    dlk_ask ask = world_make(&c->w, DLK_RELEASE, c->key, number);
    ask.next = next;
    world_ask(&c->w, &ask);
    (void)world_await(&c->w, &ask);
    return ask;
}

bool nothing_is_left(void)
{
    const char *keys = redis_server_call(&server, "KEYS *");
    bool clean = strcmp(keys, "redisson_lock_token:{L}") == 0;
    if (!clean)
        harness_note("left: %s", keys);
    return clean;
}
