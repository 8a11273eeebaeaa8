/* See the header. */
#include "single.h"

#include <stdarg.h>
#include <stdio.h>

redis_server server;
world w;
dlk_key *key;

bool single_start(const char *config)
{
    return redis_server_available() && redis_server_start(&server, config);
}

bool single_connect(dlock_kind kind, const char *name, ...)
{
    char uri[64];
    va_list pairs;
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    va_start(pairs, name);
    bool fine = world_connect_with(&w, uri, pairs);
    va_end(pairs);
    key = fine ? world_key_of(&w, kind, name) : NULL;
    return key != NULL;
}

void single_disconnect(void)
{
    world_forget(&w, key);
    world_close(&w);
}

void single_tear_down(void)
{
    single_disconnect();
    redis_server_stop(&server);
}

#define COUNTER "redisson_lock_token:{L}"

const poison poisons[] = {
    {"SET " COUNTER " 9223372036854775807", DLOCK_EOVERFLOW},
    {"SET " COUNTER " 9007199254740991", DLOCK_EOVERFLOW},
    {"SET " COUNTER " pear", DLOCK_ECONFLICT},
    {"SET " COUNTER " -7", DLOCK_ECONFLICT},
    {"RPUSH " COUNTER " 1", DLOCK_ECONFLICT},
};
const int poison_count = sizeof(poisons) / sizeof(poisons[0]);
