/* etcd 3.4's hole: a waiter whose lease has ended isn't in the line any more, but is woken; see the
 * header. */
#include "queue.h"

#include <stdio.h>

typedef struct line {
    dlock_client *clients[3];
    dlock_lock *locks[3];
    dlock_hold *first;
    dlock_op *second, *third;
} line;

static bool await_waiters(line *at, int waiters)
{
    bool stand = AWAITED(world_seen(at->locks[0], "waiters") == waiters);
    return harness_check(__FILE__, __LINE__, stand, "all stand in the line");
}

static bool set_up(line *at, const char *name, uint64_t *ret_lease)
{
    char prefix[128];
    snprintf(prefix, sizeof(prefix), "%s/", name);
    for (int i = 0; i < 3; i++) {
        at->clients[i] = world_client("");
        at->locks[i] = api_lock(at->clients[i], DLOCK_MUTEX, name, NULL);
    }
    at->first = world_take(at->locks[0], PATIENCE_MS, NULL);
    uint64_t first = world_lease(prefix, 0);
    at->second = dlock_lock_acquire_start(at->locks[1], DLOCK_FOREVER);
    if (!at->first || !await_waiters(at, 1))
        return false;
    *ret_lease = world_lease(prefix, first);
    at->third = dlock_lock_acquire_start(at->locks[2], DLOCK_FOREVER);
    return await_waiters(at, 2);
}

static void tear_down(line *at)
{
    dlock_op_free(at->second);
    dlock_op_free(at->third);
    dlock_hold_free(at->first);
    for (int i = 0; i < 3; i++) {
        dlock_lock_free(at->locks[i]);
        dlock_client_free(at->clients[i]);
    }
}

/* The third has it; until he gives it back the second must not. */
static bool goes_on(line *at)
{
    dlock_hold *third = dlock_op_take_hold(at->third);
    bool early = false;
    for (int i = 0; i < 200 && !early; i++) {
        early = dlock_op_wait(at->second, 1) == DLOCK_OK;
        early = early && dlock_op_result(at->second) == DLOCK_OK;
    }
    bool held = dlock_hold_verify(third, NULL) == DLOCK_OK;
    int64_t token = dlock_hold_token(third);
    (void)dlock_hold_release(third, NULL);
    bool fine = !early && held && dlock_op_wait(at->second, PATIENCE_MS) == DLOCK_OK &&
                dlock_op_result(at->second) == DLOCK_OK;
    dlock_hold *second = fine ? dlock_op_take_hold(at->second) : NULL;
    fine = fine && dlock_hold_verify(second, NULL) == DLOCK_OK &&
           dlock_hold_token(second) > token;
    dlock_hold_free(second);
    dlock_hold_free(third);
    return fine;
}

bool queue_passes_over_the_dead(const char *name)
{
    line at = {0};
    uint64_t lease = 0;
    bool fine = set_up(&at, name, &lease) && world_revoke(lease) &&
                dlock_hold_release(at.first, NULL) == DLOCK_OK;
    fine = fine && dlock_op_wait(at.third, PATIENCE_MS) == DLOCK_OK &&
           dlock_op_result(at.third) == DLOCK_OK && goes_on(&at);
    tear_down(&at);
    return fine;
}
