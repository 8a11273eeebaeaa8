/* The connection for messages, cut while a caller of ours drives: when it is tried again is a date
 * that the driver has learned, and somebody has to be awake then. Through the public API. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/time.h"

#include <dlock/dlock.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Without its date it would be tried when something else wakes the client, a heartbeat for one: in
 * some seconds each time. With it all cuts together take less than one of those. */
enum { CUTS = 10, MOST_MS = 10000 };

static redis_server server;

static dlock_client *open_client(void)
{
    return api_open("redis://127.0.0.1:%d?lock.ttl_ms=600000&client.poll_ms=60000&"
                    "redis.handover=false&client.backoff_min_ms=30&"
                    "client.backoff_max_ms=60",
                    server.port);
}

static void *wait_for_it(void *client)
{
    dlock_hold *hold = NULL;
    dlock_err code = dlock_acquire(client, "L", DLOCK_FOREVER, &hold, NULL);
    return code == DLOCK_OK ? hold : NULL;
}

static bool listens(void)
{
    return strstr(redis_server_call(&server, "PUBSUB CHANNELS"), "L") != NULL;
}

/* False after so long. */
static bool await_listener(int64_t until)
{
    while (!listens() && now_ms() < until)
        nap_ms(2);
    return listens();
}

TEST(
    messages_are_heard_again_when_it_is_time_to_try_and_not_when_somebody_happens_to_look)
{
    if (!redis_server_available())
        return;
    CHECK(redis_server_start(&server, NULL));
    dlock_client *holder = open_client(), *waiter = open_client();
    dlock_hold *hold = NULL;
    pthread_t thread;
    CHECK(holder && waiter);
    CHECK_OK(dlock_acquire(holder, "L", 0, &hold, NULL), NULL);
    CHECK(pthread_create(&thread, NULL, wait_for_it, waiter) == 0);
    bool heard = await_listener(now_ms() + 60000);
    int64_t end = now_ms() + MOST_MS;
    for (int i = 0; i < CUTS && heard; i++) {
        redis_server_call(&server, "CLIENT KILL TYPE pubsub");
        heard = await_listener(end);
    }
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    if (!heard) /* it would wait for its poll */
        (void)dlock_client_close(waiter, NULL);
    void *got = NULL;
    CHECK(pthread_join(thread, &got) == 0);
    CHECK(heard);
    CHECK(got != NULL);
    dlock_hold_free(hold);
    dlock_hold_free(got);
    dlock_client_free(holder);
    dlock_client_free(waiter);
    redis_server_stop(&server);
}
