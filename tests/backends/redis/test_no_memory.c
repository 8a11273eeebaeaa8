/* A release without memory for its alarm, at a server that doesn't answer: it ends in time all the
 * same, says that it is unknown, and what it leaves behind has nothing of the caller's stack. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/time.h"

#include "api/handles.h"
#include "engine/engine.h"

#include <dlock/dlock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static redis_server server;
static atomic_size_t refused_size; /* there is no memory for so many bytes */

/* Linked in place of realloc. */
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return size == atomic_load(&refused_size) ? NULL : __real_realloc(old, size);
}

static dlock_client *open_client(void)
{
    return api_open("redis://127.0.0.1:%d?client.timeout_ms=300", server.port);
}

/* True when the heap of alarms has no place left. */
static bool is_full(dlk_engine *engine)
{
    (void)pthread_mutex_lock(&engine->mutex);
    bool full = engine->core.alarm_users == engine->core.alarms.capacity;
    (void)pthread_mutex_unlock(&engine->mutex);
    return full;
}

static bool is_settled(dlk_engine *engine)
{
    (void)pthread_mutex_lock(&engine->mutex);
    size_t left = dlk_core_unconfirmed(&engine->core);
    (void)pthread_mutex_unlock(&engine->mutex);
    return left == 0;
}

enum { OPS_MAX = 64 };

TEST(a_release_without_memory_for_its_alarm_is_unknown_in_time)
{
    if (!redis_server_available())
        return;
    CHECK(redis_server_start(&server, NULL));
    dlock_client *client = open_client(), *other = open_client();
    CHECK(client && other);
    dlock_lock *ours = NULL, *theirs = NULL;
    dlock_hold *hold = NULL, *blocks = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_lock_new(client, DLOCK_MUTEX, "ours", NULL, &ours, NULL), NULL);
    CHECK_OK(dlock_lock_new(client, DLOCK_MUTEX, "theirs", NULL, &theirs, NULL), NULL);
    CHECK_OK(dlock_acquire(other, "theirs", 0, &blocks, NULL), NULL);
    CHECK_OK(dlock_lock_acquire(ours, 0, &hold, NULL), NULL);
    dlock_op *ops[OPS_MAX] = {NULL};
    int count = 0;
    while (count < OPS_MAX && !is_full(client->engine))
        ops[count++] = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    CHECK(is_full(client->engine));
    server_freeze(server.pid);
    atomic_store(&refused_size,
                 2 * client->engine->core.alarms.capacity * sizeof(dlk_heap_item));
    dlock_err code = dlock_hold_release(hold, &err);
    atomic_store(&refused_size, 0);
    server_thaw(server.pid);
    CHECK_ERR(code, DLOCK_EUNKNOWN, err);
    AWAIT(is_settled(client->engine)); /* it was repeated, and is confirmed */
    for (int i = 0; i < count; i++)
        dlock_op_free(ops[i]);
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_hold_free(blocks);
    dlock_lock_free(ours);
    dlock_lock_free(theirs);
    dlock_client_free(client);
    dlock_client_free(other);
    redis_server_stop(&server);
}
