/* The check that a lock which is handed over is held by one alone, made to fail: with the claim
 * left out it has to. */
#include "harness/harness.h"
#include "harness/redis_server.h"

#include "util/point.h"

#include <dlock/dlock.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

enum dlk_bug dlk_plant;

static redis_server server;

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static dlock_client *open_client(void)
{
    dlock_client *client = NULL;
    char uri[120];
    snprintf(uri, sizeof(uri),
             "redis://127.0.0.1:%d?lock.ttl_ms=60000&redis.claim_ms=100", server.port);
    return dlock_client_open(uri, NULL, &client, NULL) == DLOCK_OK ? client : NULL;
}

/* The lock goes from the first client to the second, which waits for it, and is then asked for by
 * the third until that has it, or for half a second. */
static bool is_held_by_one_alone(void)
{
    dlock_client *clients[3] = {open_client(), open_client(), open_client()};
    dlock_hold *hold = NULL, *theirs = NULL, *third = NULL;
    redis_server_call(&server, "FLUSHALL"); /* what the bug may have left */
    if (dlock_acquire(clients[0], "L", 0, &hold, NULL) != DLOCK_OK)
        return false;
    dlock_lock *lock = NULL;
    (void)dlock_lock_new(clients[1], DLOCK_MUTEX, "L", NULL, &lock, NULL);
    dlock_op *op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    for (int i = 0; i < 20000 && dlock_op_wait(op, 0) != DLOCK_OK &&
                    strcmp(redis_server_call(&server, "LLEN dlock_queue:{L}"), "1") != 0;
         i++)
        nap();
    bool early = dlock_op_wait(op, 0) == DLOCK_OK;
    (void)dlock_hold_release(hold, NULL);
    dlock_hold_free(hold);
    (void)dlock_op_wait(op, 20000);
    theirs = dlock_op_take_hold(op);
    for (int i = 0; i < 500; i++) {
        if (dlock_acquire(clients[2], "L", 0, &third, NULL) == DLOCK_OK)
            break;
        nap();
    }
    bool alone = !early && theirs && dlock_hold_check(theirs) == DLOCK_OK &&
                 (!third || dlock_hold_check(third) != DLOCK_OK);
    dlock_hold_free(theirs);
    dlock_hold_free(third);
    dlock_op_free(op);
    dlock_lock_free(lock);
    for (int i = 0; i < 3; i++)
        dlock_client_free(clients[i]);
    return alone;
}

TEST(a_hand_over_without_its_claim_is_caught)
{
    if (!redis_server_available())
        return;
    CHECK(redis_server_start(&server, NULL));
    CHECK(is_held_by_one_alone());
    dlk_plant = DLK_BUG_HANDOVER_UNCLAIMED;
    CHECK(!is_held_by_one_alone());
    dlk_plant = DLK_BUG_NONE;
    CHECK(is_held_by_one_alone());
    redis_server_stop(&server);
}
