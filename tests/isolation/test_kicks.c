/* Servers that answer nothing, and times that are over all the same: whoever sleeps for its client is
 * told of an earlier date whenever that is set, also on its way to sleep. Once for each backend that
 * sleeps on descriptors; built with DLK_POINTS. */
#include "../api/world.h"
#include "harness/etcd_server.h"
#include "harness/memcached_server.h"
#include "harness/postgres_server.h"
#include "harness/redis_server.h"
#include "harness/server.h"
#include "util/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CROWD = 12, WAITERS = 3, TRIES = 3, THREADS = 16, FREEZES = 12 };

/* No date of the client's own comes before the test gives up. */
#define FAR "client.timeout_ms=60000 client.close_ms=1000 lock.ttl_ms=600000"

void (*dlk_point_hook)(const char *name);

/* ---- all servers of the world at once ---- */

static pid_t server_pid(int i)
{
    if (world_is("etcd"))
        return world_etcd()->pid;
    return world_is("memcached") || world_is("memlock") ? world_memcached_node(i)->pid
                                                        : world_node(i)->pid;
}

static void freeze(void)
{
    if (world_is("postgres")) { /* a process for each connection */
        postgres_server_freeze(world_postgres());
        return;
    }
    for (int i = 0; i < world_node_count(); i++)
        server_freeze(server_pid(i));
}

static void thaw(void)
{
    if (world_is("postgres")) {
        postgres_server_thaw(world_postgres());
        return;
    }
    for (int i = 0; i < world_node_count(); i++)
        server_thaw(server_pid(i));
}

/* One that others use can't be frozen. */
__attribute__((constructor)) static void have_an_etcd_of_our_own(void)
{
    (void)unsetenv("DLK_TEST_ETCD");
}

/* ---- a point at which the engine's thread stops ---- */

static _Atomic int trap;   /* TRAP_… */
static _Atomic int drives; /* how often somebody began to sleep as driver */

enum { TRAP_NONE, TRAP_SET, TRAP_HELD };

static void stop_at_yield(const char *name)
{
    int set = TRAP_SET;
    atomic_fetch_add(&drives, strcmp(name, "drive.sleep") == 0);
    if (strcmp(name, "engine.yield") != 0 ||
        !atomic_compare_exchange_strong(&trap, &set, TRAP_HELD))
        return;
    while (atomic_load(&trap) == TRAP_HELD)
        nap_ms(1);
}

/* ---- a crowd, so that the engine's thread drives ---- */

typedef struct crowd {
    dlock_client *client;
    dlock_lock *locks[CROWD + WAITERS];
    dlock_op *ops[CROWD];
    world_waiter waiters[WAITERS];
} crowd;

static void crowd_end(crowd *c)
{
    atomic_store(&trap, TRAP_NONE);
    thaw();
    for (int i = 0; i < WAITERS; i++)
        world_waiter_drop(&c->waiters[i]);
    for (int i = 0; i < CROWD; i++)
        dlock_op_free(c->ops[i]);
    for (int i = 0; i < CROWD + WAITERS; i++)
        dlock_lock_free(c->locks[i]);
    dlock_client_free(c->client);
}

/* All of them have asked, nobody has been answered, and the engine's thread drives: it does so for
 * operations that nobody waits for in a call, and those who come later leave it at that. */
static void crowd_begin(crowd *c)
{
    char name[32];
    DLOCK_AUTO(dlock_hold) first = NULL;
    c->client = world_client(FAR);
    for (int i = 0; i < CROWD + WAITERS; i++) {
        snprintf(name, sizeof(name), "kicks-%d", i);
        c->locks[i] = world_lock(c->client, name, NULL);
    }
    CHECK_EQ_INT(world_acquire(c->client, "kicks-first", patience_ms(), &first),
                 DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    AWAIT(api_stat(c->client, "in_flight") == 0);
    freeze();
    int before = atomic_load(&drives);
    for (int i = 0; i < CROWD; i++) {
        c->ops[i] = dlock_lock_acquire_start(c->locks[i], DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_op_notify(c->ops[i], 1), DLOCK_EPENDING);
    }
    AWAIT(atomic_load(&drives) > before);
    for (int i = 0; i < WAITERS; i++)
        world_wait_start(&c->waiters[i], c->client, c->locks[CROWD + i],
                         3 * patience_ms());
    AWAIT(api_stat(c->client, "in_flight") >= CROWD + WAITERS);
}

/* While the engine's thread lets those ask whom it has woken, just before it sleeps. */
static void set_an_early_date(crowd *c)
{
    BEGIN();
    crowd_begin(c);
    DLOCK_AUTO(dlock_lock)
    lock = harness_failed() ? NULL : world_lock(c->client, "kicks-timed", NULL);
    if (!lock)
        return;
    atomic_store(&trap, TRAP_SET);
    thaw();
    AWAIT(atomic_load(&trap) == TRAP_HELD);
    freeze();
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, 20);
    atomic_store(&trap, TRAP_NONE);
    AWAIT(dlock_op_wait(op, 0) == DLOCK_OK); /* no server says anything */
    CHECK(dlock_op_result(op) == DLOCK_EUNKNOWN ||
          dlock_op_result(op) == DLOCK_ETIMEDOUT);
}

TEST(a_date_set_while_the_engine_goes_to_sleep_is_kept)
{
    dlk_point_hook = stop_at_yield;
    for (int i = 0; i < TRIES && !harness_failed(); i++) {
        crowd c = {0};
        set_an_early_date(&c);
        crowd_end(&c);
    }
    dlk_point_hook = NULL;
}

/* ---- the same by chance ---- */

typedef struct toil {
    dlock_client *client;
    int number;
    _Atomic int *stop, ended; /* waits of this thread */
    _Atomic bool strange;
    pthread_t thread;
} toil;

static void *wait_and_wait(void *arg)
{
    toil *t = arg;
    char name[32];
    snprintf(name, sizeof(name), "kicks-own-%d", t->number);
    DLOCK_AUTO(dlock_lock) lock = world_lock(t->client, name, NULL);
    while (lock && !atomic_load(t->stop)) {
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, 20 + 2 * t->number);
        t->strange |= dlock_op_wait(op, DLOCK_FOREVER) != DLOCK_OK;
        dlock_hold_free(dlock_op_take_hold(op)); /* given back in the background */
        atomic_fetch_add(&t->ended, 1);
    }
    return NULL;
}

/* Each has ended so many more waits. */
static bool have_ended(toil *toils, const int *before, int more)
{
    for (int i = 0; i < THREADS; i++)
        if (atomic_load(&toils[i].ended) < before[i] + more)
            return false;
    return true;
}

static void await_more(toil *toils, int more)
{
    int before[THREADS];
    for (int i = 0; i < THREADS; i++)
        before[i] = atomic_load(&toils[i].ended);
    AWAIT(have_ended(toils, before, more));
}

TEST(waits_of_many_threads_end_in_time_while_the_server_answers_nobody)
{
    BEGIN();
    DLOCK_AUTO(dlock_client)
    client = world_client(FAR);
    static toil toils[THREADS];
    _Atomic int stop = 0;
    for (int i = 0; i < THREADS; i++) {
        toils[i] = (toil){.client = client, .number = i, .stop = &stop};
        CHECK(pthread_create(&toils[i].thread, NULL, wait_and_wait, &toils[i]) == 0);
    }
    for (int i = 0; i < FREEZES && !harness_failed(); i++) {
        await_more(toils, 20);
        freeze();
        await_more(toils, 2); /* the one that was under way, and a whole one */
        thaw();
    }
    thaw();
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(toils[i].thread, NULL);
        CHECK(!toils[i].strange);
    }
}
