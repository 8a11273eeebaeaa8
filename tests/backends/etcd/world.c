/* The server of a test program, and short ways; see the header. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

etcd_server world_server;
static pid_t maker;

static void tidy(void)
{
    if (getpid() == maker)
        etcd_server_stop(&world_server);
}

bool world_ready(void)
{
    if (maker)
        return true;
    if (!etcd_server_available() || !etcd_server_start(&world_server, NULL))
        return false;
    maker = getpid();
    return atexit(tidy) == 0;
}

dlock_client *world_client_at(int port, const char *query)
{
    return api_open("etcd://127.0.0.1:%d?client.timeout_ms=30000"
                    "&client.connect_ms=30000&client.poll_ms=60000%s%s",
                    port, strstr(query, "ttl_ms") ? "" : "&lock.ttl_ms=60000", query);
}

dlock_client *world_client(const char *query)
{
    return world_client_at(world_server.port, query);
}

dlock_hold *world_take(dlock_lock *lock, int64_t wait_ms, dlock_err *ret_code)
{
    dlock_hold *hold = NULL;
    dlock_err code = dlock_lock_acquire(lock, wait_ms, &hold, NULL);
    if (ret_code)
        *ret_code = code;
    return hold;
}

int64_t world_seen(dlock_lock *lock, const char *key)
{
    const char *text = api_seen(lock, key);
    return text[0] ? atoll(text) : -1;
}

const char *world_refusal(const char *uri, dlock_err *ret_code)
{
    static char text[512];
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_client *client = NULL;
    *ret_code = dlock_client_open(uri, NULL, &client, &err);
    snprintf(text, sizeof(text), "%s", err ? dlock_error_text(err) : "");
    dlock_client_free(client);
    return text;
}

uint64_t world_lease(const char *prefix, uint64_t but)
{
    char keys[4096], *rest = NULL;
    snprintf(keys, sizeof(keys), "%s", etcd_server_keys(&world_server, prefix));
    for (char *key = strtok_r(keys, " ", &rest); key; key = strtok_r(NULL, " ", &rest)) {
        uint64_t lease = strtoull(strrchr(key, '/') + 1, NULL, 16);
        if (lease != but)
            return lease;
    }
    return 0;
}

int world_keys(const char *prefix)
{
    int count = 0;
    for (const char *at = etcd_server_keys(&world_server, prefix); *at; at++)
        count += *at == ' ';
    return count;
}

bool world_revoke(uint64_t lease)
{
    const char *said = etcd_server_say(&world_server, "/v3/lease/revoke",
                                       "{\"ID\":\"%" PRId64 "\"}", (int64_t)lease);
    return strstr(said, "revision") != NULL;
}

void world_field(const char *said, const char *name, char *ret, size_t size)
{
    char quoted[32];
    snprintf(quoted, sizeof(quoted), "\"%s\":\"", name);
    const char *at = strstr(said, quoted);
    at = at ? at + strlen(quoted) : "";
    snprintf(ret, size, "%.*s", (int)strcspn(at, "\""), at);
}
