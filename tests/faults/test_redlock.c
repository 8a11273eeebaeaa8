/* Sixteen threads of four clients want one Redlock of five real servers, of which two at a time are
 * killed, wiped and frozen. Nodes that forget a lock may let two believe that they hold it: what
 * has to hold is that the resource, which looks at the tokens, takes no stale write from either. */
#include "resource.h"
#include "stage.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 5, CLIENTS = 4, WORKERS = 16, TTL_MS = 3000 };

typedef struct worker {
    dlock_client *client;
    pthread_t thread;
    uint64_t dice;
    int64_t stale;       /* writes that the resource refused */
    _Atomic bool served; /* has had it since the last fault */
} worker;

static redis_server nodes[NODES];
static worker workers[WORKERS];
static resource *shared;
static _Atomic bool quiet, over;
static _Atomic int64_t granted, lost, unanswered, no_majority;

static uint64_t roll(uint64_t *dice, uint64_t sides)
{
    *dice = *dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*dice >> 33) % sides;
}

/* ---- those who want it ---- */

/* Looks, dawdles, and writes what it saw plus one, whether it still has the lock or not. Who stays
 * for long meets what happens to the nodes. */
static void use(worker *me, const dlock_hold *hold)
{
    int64_t token = dlock_hold_token(hold), seen;
    stay *at = resource_enter(shared, hold);
    bool fresh = resource_look(shared, token, &seen);
    bool long_one = !atomic_load(&quiet) && roll(&me->dice, 40) == 0;
    nap_ms((int64_t)roll(&me->dice, long_one ? 1500 : 10));
    if (resource_still(at, hold) != DLOCK_OK)
        atomic_fetch_add(&lost, 1);
    me->stale += !fresh || !resource_write(shared, token, seen);
    resource_leave(at);
}

static void take_a_turn(worker *me, dlock_lock *lock)
{
    bool counts = atomic_load(&quiet);
    dlock_hold *hold = NULL;
    dlock_err code = dlock_lock_acquire(lock, 2000, &hold, NULL);
    if (code == DLOCK_OK) {
        atomic_fetch_add(&granted, 1);
        use(me, hold);
        (void)dlock_hold_release(hold,
                                 NULL); /* lost and unanswered ones are let go as well */
        if (counts)
            atomic_store(&me->served, true);
    } else if (code == DLOCK_EQUORUM) {
        atomic_fetch_add(&no_majority, 1);
    } else if (code != DLOCK_ETIMEDOUT) {
        atomic_fetch_add(&unanswered, 1);
        (void)harness_check(__FILE__, __LINE__,
                            code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL,
                            dlock_errname(code));
    }
    dlock_hold_free(hold);
}

static void *work(void *arg)
{
    worker *me = arg;
    dlock_lock *lock = stage_lock(me->client, "L");
    while (lock && !atomic_load(&over) &&
           !(atomic_load(&quiet) && atomic_load(&me->served)))
        take_a_turn(me, lock);
    dlock_lock_free(lock);
    return NULL;
}

static int64_t count_served(void)
{
    int64_t count = 0;
    for (int i = 0; i < WORKERS; i++)
        count += atomic_load(&workers[i].served);
    return count;
}

/* ---- what happens to the nodes ---- */

static int64_t kills, wipes, freezes;

static void strike(redis_server *node, uint64_t what)
{
    if (what == 0) {
        kills++;
        redis_server_kill(node);
    } else if (what == 1) {
        wipes++;
        (void)redis_server_call(node, "FLUSHALL");
    } else {
        freezes++;
        server_freeze(node->pid);
    }
}

static bool mend(redis_server *node, uint64_t what)
{
    if (what == 0)
        return redis_server_restart(node);
    if (what == 2)
        server_thaw(node->pid);
    return true;
}

static bool torment(int64_t seconds)
{
    uint64_t dice = (uint64_t)now_ns();
    int64_t end = awake_now_ns() + seconds * 1000 * STAGE_MS;
    bool fine = true;
    while (fine && awake_now_ns() < end) {
        uint64_t one = roll(&dice, NODES);
        uint64_t other = (one + 1 + roll(&dice, NODES - 1)) % NODES;
        uint64_t first = roll(&dice, 3), second = roll(&dice, 3);
        strike(&nodes[one], first);
        strike(&nodes[other], second);
        nap_ms(100 + (int64_t)roll(&dice, 900));
        fine = mend(&nodes[one], first) && mend(&nodes[other], second);
        nap_ms(50 + (int64_t)roll(&dice, 300));
    }
    return fine;
}

/* ---- the test ---- */

static bool set_up(void)
{
    char uri[256];
    size_t used = (size_t)snprintf(uri, sizeof(uri), "redlock://");
    if (!redis_server_available())
        return false;
    for (int i = 0; i < NODES; i++) {
        if (!redis_server_start(&nodes[i], NULL))
            return false;
        used += (size_t)snprintf(uri + used, sizeof(uri) - used, "%s127.0.0.1:%d",
                                 i ? "," : "", nodes[i].port);
    }
    shared = resource_new();
    for (int i = 0; i < WORKERS; i++) {
        workers[i].client =
            i % (WORKERS / CLIENTS)
                ? workers[i - 1].client
                : stage_open(uri, "redlock.fencing", "on", "lock.ttl_ms", "3000",
                             "client.timeout_ms", "700", "client.retry_ms", "20",
                             "client.backoff_max_ms", "200", NULL);
        workers[i].dice = (uint64_t)now_ns() + (uint64_t)i;
        if (!workers[i].client ||
            pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return harness_check(__FILE__, __LINE__, false, "a worker");
    }
    return true;
}

/* The names of all keys but the counters of tokens. */
static bool nothing_is_left(void)
{
    char keys[1024], *save = NULL;
    for (int i = 0; i < NODES; i++) {
        snprintf(keys, sizeof(keys), "%s", redis_server_call(&nodes[i], "KEYS *"));
        for (char *key = strtok_r(keys, " ", &save); key;
             key = strtok_r(NULL, " ", &save))
            if (!strstr(key, "lock_token:"))
                return false;
    }
    return true;
}

static void judge(void)
{
    int64_t stale = 0;
    verdict found = resource_judge(shared, RESOURCE_STATE_LOST);
    for (int i = 0; i < WORKERS; i++)
        stale += workers[i].stale;
    harness_note("%" PRId64 " kills, %" PRId64 " wipes, %" PRId64 " freezes; %" PRId64
                 " grants, %" PRId64 " lost, %" PRId64 " without a majority, %" PRId64
                 " unanswered",
                 kills, wipes, freezes, atomic_load(&granted), atomic_load(&lost),
                 atomic_load(&no_majority), atomic_load(&unanswered));
    harness_note("%" PRId64 " writes accepted, %" PRId64
                 " stale ones attempted and refused; two believed to hold it %" PRId64
                 " times",
                 found.accepted, stale, found.overlaps);
    CHECK_ALWAYS(found.lost_updates == 0);
    CHECK(found.accepted > 0);
}

TEST(no_stale_write_is_accepted_and_all_are_served_while_any_two_of_five_nodes_fail)
{
    const char *seconds = getenv("DLK_TEST_SECONDS");
    CHECK(set_up());
    CHECK(torment(seconds ? atoll(seconds) : 6));
    atomic_store(&quiet, true);
    AWAIT(count_served() == WORKERS);
    atomic_store(&over, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < WORKERS; i += WORKERS / CLIENTS)
        dlock_client_free(workers[i].client);
    AWAIT_MS(nothing_is_left(), TTL_MS + 1000 + stage_slack_ms());
    judge();
    for (int i = 0; i < NODES; i++)
        redis_server_stop(&nodes[i]);
    resource_free(shared);
}
