/* A read/write lock, asked for by hand; see the header. */
#include "rw.h"

#include "util/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int64_t ttl_ms;
int64_t last_token, last_wait;

bool set_up_name(const char *name)
{
    ttl_ms = 20000;
    return single_start(NULL) && single_connect(DLOCK_WRITE, name, NULL);
}

bool set_up(void)
{
    return set_up_name("L");
}

dlk_reply ask_of(dlk_verb verb, int side, uint64_t number, const char *text)
{
    dlk_ask ask = world_make(&w, verb, key, number);
    ask.shared = side == READ_SIDE;
    ask.ttl_ms = ttl_ms;
    ask.text = text;
    world_ask(&w, &ask);
    dlk_reply reply = world_await(&w, &ask);
    last_token = ask.token;
    last_wait = ask.wait_ms;
    dlk_info_free(ask.info);
    return reply;
}

int64_t number_of(const char *command)
{
    return atoll(redis_server_call(&server, "%s", command));
}

const char *own_key(uint64_t number)
{
    static char text[160];
    snprintf(text, sizeof(text), "{L}:%s:%" PRIu64 ":rwlock_timeout:1", w.uuid, number);
    return text;
}

int64_t own_left(uint64_t number)
{
    return atoll(redis_server_call(&server, "PTTL %s", own_key(number)));
}

bool has_field(uint64_t number, const char *behind)
{
    return atoll(redis_server_call(&server, "HEXISTS L %s:%" PRIu64 "%s", w.uuid, number,
                                   behind)) == 1;
}

void foreign_reader(const char *owner, int64_t lease_ms)
{
    redis_server_call(&server, "HSET L mode read %s 1", owner);
    redis_server_call(&server, "SET {L}:%s:rwlock_timeout:1 1 PX %" PRId64, owner,
                      lease_ms);
    if (number_of("PTTL L") < lease_ms)
        redis_server_call(&server, "PEXPIRE L %" PRId64, lease_ms);
}
