/* The servers; see the header. */
#include "world.h"

#include "harness/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool world_set(world *w, int count, const char *query)
{
    *w = (world){0};
    if (!redis_server_available())
        return false;
    size_t used = (size_t)snprintf(w->uri, sizeof(w->uri), "redlock://");
    for (; w->count < count; w->count++) {
        if (!redis_server_start(&w->node[w->count], NULL))
            return false;
        used += (size_t)snprintf(w->uri + used, sizeof(w->uri) - used, "%s127.0.0.1:%d",
                                 w->count ? "," : "", w->node[w->count].port);
    }
    snprintf(w->uri + used, sizeof(w->uri) - used, "%s", query);
    return true;
}

void world_clear(world *w)
{
    for (int i = 0; i < w->count; i++)
        redis_server_stop(&w->node[i]);
    w->count = 0;
}

dlock_client *world_open(world *w)
{
    return api_open("%s", w->uri);
}

dlock_lock *world_lock(dlock_client *client, const char *name)
{
    dlock_lock *lock = NULL;
    dlock_err code = dlock_lock_new(client, DLOCK_MUTEX, name, NULL, &lock, NULL);
    (void)harness_err(__FILE__, __LINE__, name, code, DLOCK_OK, NULL);
    return lock;
}

dlock_hold *world_take(dlock_lock *lock, int64_t wait_ms)
{
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_lock_acquire(lock, wait_ms, &hold, &err);
    (void)harness_err(__FILE__, __LINE__, "acquire", code, DLOCK_OK, err);
    dlock_error_free(err);
    return hold;
}

void world_give(dlock_hold *hold)
{
    dlock_error *err = NULL;
    dlock_err code = dlock_hold_release(hold, &err);
    (void)harness_err(__FILE__, __LINE__, "release", code, DLOCK_OK, err);
    dlock_error_free(err);
    dlock_hold_free(hold);
}

int world_keys(world *w, const char *name)
{
    int found = 0;
    for (int i = 0; i < w->count; i++)
        found += strcmp(redis_server_call(&w->node[i], "EXISTS %s", name), "1") == 0;
    return found;
}

int64_t world_calls(world *w, int index, const char *command)
{
    char mark[64];
    snprintf(mark, sizeof(mark), "cmdstat_%s:calls=", command);
    const char *at =
        strstr(redis_server_call(&w->node[index], "INFO commandstats"), mark);
    return at ? atoll(at + strlen(mark)) : 0;
}
