/* The check that whoever gives up waiting is in nobody's way, made to fail: with its place in the
 * line kept it has to. */
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

/* Waits until so many stand in the line, or for a while: it stays otherwise. */
static bool line_gets(const char *count, int for_ms)
{
    for (int i = 0; i < for_ms; i++) {
        if (strcmp(redis_server_call(&server, "LLEN redisson_lock_queue:{L}"), count) ==
            0)
            return true;
        nap();
    }
    return false;
}

/* Until it has asked nothing for a while: nothing of it is under way any more. */
static void wait_for_rest(dlock_client *client)
{
    char before[32] = "";
    for (int quiet = 0, i = 0; quiet < 50 && i < 5000; quiet++, i++) {
        dlock_info *stats = NULL;
        if (dlock_client_stats(client, &stats, NULL) != DLOCK_OK)
            return;
        if (strcmp(dlock_info_get(stats, "commands"), before) != 0)
            quiet = 0;
        snprintf(before, sizeof(before), "%s", dlock_info_get(stats, "commands"));
        dlock_info_free(stats);
        nap();
    }
}

/* The first waits and cancels, the second stands behind it. */
static bool who_cancels_leaves_the_line(void)
{
    dlock_client *clients[3] = {NULL};
    dlock_lock *locks[3] = {NULL};
    dlock_op *ops[3] = {NULL};
    char uri[120];
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d?lock.fair=true", server.port);
    redis_server_call(&server, "FLUSHALL"); /* what the bug may have left */
    for (int i = 0; i < 3; i++) {
        if (dlock_client_open(uri, NULL, &clients[i], NULL) != DLOCK_OK ||
            dlock_lock_new(clients[i], DLOCK_MUTEX, "L", NULL, &locks[i], NULL) !=
                DLOCK_OK)
            return false;
        ops[i] = dlock_lock_acquire_start(locks[i], DLOCK_FOREVER);
        if (i == 0)
            (void)dlock_op_wait(ops[i], 20000);
        else if (!line_gets(i == 1 ? "1" : "2", 20000))
            return false;
    }
    wait_for_rest(clients[1]);
    dlock_op_cancel(ops[1]);
    bool left = line_gets("1", dlk_plant ? 500 : 20000);
    for (int i = 0; i < 3; i++) {
        dlock_op_free(ops[i]); /* with the hold of the first */
        dlock_lock_free(locks[i]);
        dlock_client_free(clients[i]);
    }
    return left;
}

TEST(a_head_that_is_kept_after_a_cancel_is_caught)
{
    if (!redis_server_available())
        return;
    CHECK(redis_server_start(&server, NULL));
    CHECK(who_cancels_leaves_the_line());
    dlk_plant = DLK_BUG_PLACE_IS_KEPT;
    /* Who is just asking when he cancels gives back all the same: then once more. */
    bool caught = false;
    for (int i = 0; i < 20 && !caught; i++)
        caught = !who_cancels_leaves_the_line();
    CHECK(caught);
    dlk_plant = DLK_BUG_NONE;
    CHECK(who_cancels_leaves_the_line());
    redis_server_stop(&server);
}
