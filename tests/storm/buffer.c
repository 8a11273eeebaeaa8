/*
 * A bounded buffer: eight producers and as many consumers in four processes, a lock and two conditions. Every
 * few ms a process of consumers is killed and another one started. Each item comes out once, and in the
 * order of its producer; and it all comes to an end though nobody waits with a limit: one signal that is
 * lost, and somebody waits for ever.
 *
 * Who is killed with the lock held may have taken an item and not said so, or been woken for one and not
 * taken it. That is for whoever sees the death: it broadcasts.
 *
 * A table in memory is one process': there they are threads of it, four clients', and nobody is killed.
 *
 * DLK_STORM_ITEMS (400) of each producer, DLK_STORM_KILLS (20). DLK_STORM_THREADS (4) of each process, and
 * DLK_STORM_ROOM (8) for so many items: with less of both a larger part of them is waited for.
 */
#include "api/world.h"

#include "harness/together.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { PROCESSES = 4, THREADS = 4, PRODUCERS = PROCESSES / 2 * THREADS, MOST = 4000 };

typedef struct buffer {
    together all;
    int64_t items; /* of each producer */
    int64_t room;
    int threads; /* at most THREADS */
    int producers;
    _Atomic int64_t put, taken, waits;
    _Atomic int64_t limit; /* nobody takes more than so many before the next is killed */
    /* Guarded by the lock: what was put, one behind the other. */
    int32_t log[PRODUCERS * MOST];
} buffer;

static buffer *shared;

/* Threads of one client share all of it. */
typedef struct ends {
    dlock_client *client;
    dlock_lock *lock;
    dlock_cond *filled, *drained;
} ends;

typedef struct worker {
    const ends *of;
    int number;
    pthread_t thread;
} worker;

static int from_env(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && atoi(text) > 0 ? atoi(text) : otherwise;
}

static dlock_cond *condition(dlock_client *client, const char *name)
{
    dlock_cond *cond = NULL;
    (void)harness_check(__FILE__, __LINE__,
                        dlock_cond_new(client, name, NULL, &cond, NULL) == DLOCK_OK,
                        name);
    return cond;
}

static void open_ends(ends *of)
{
    /* Where a death isn't noticed what the dead had is free when its lease is over. */
    of->client = world_client(world_is("file") ? NULL : "lock.ttl_ms=2000");
    of->lock = world_lock(of->client, "buffer", NULL);
    of->filled = condition(of->client, "buffer/filled");
    of->drained = condition(of->client, "buffer/drained");
}

static void close_ends(ends *of)
{
    dlock_cond_free(of->filled);
    dlock_cond_free(of->drained);
    dlock_lock_free(of->lock);
    dlock_client_free(of->client);
}

static bool is_full(void)
{
    return shared->put - shared->taken == shared->room;
}

static bool is_empty(void)
{
    return shared->put == shared->taken || shared->taken >= shared->limit;
}

static bool is_done(void)
{
    return shared->taken == shared->items * shared->producers;
}

static void fail(const char *what, dlock_err code, dlock_error *err)
{
    together_say(&shared->all, what, code, err);
    dlock_error_free(err);
}

/* Waits while it is so; NULL when that failed. */
static dlock_hold *wait_while(bool (*so)(void), dlock_cond *cond, dlock_hold *hold)
{
    dlock_error *err = NULL;
    while (hold && so() && !is_done()) {
        dlock_hold *again = NULL;
        shared->waits++;
        dlock_err code = dlock_cond_wait(cond, hold, DLOCK_FOREVER, &again, &err);
        dlock_hold_free(hold);
        hold = again;
        if (code != DLOCK_OK)
            fail("wait", code, err);
    }
    return hold;
}

static dlock_hold *lock_it(const ends *of)
{
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_lock_acquire(of->lock, DLOCK_FOREVER, &hold, &err);
    if (code != DLOCK_OK)
        fail("acquire", code, err);
    return hold;
}

/* What was done under this hold is done, and the others hear of it. */
static bool tell(dlock_cond *cond, dlock_hold *hold)
{
    dlock_error *err = NULL;
    if (!hold || !together_write(&shared->all, dlock_hold_token(hold))) {
        fail("two held it at a time", DLOCK_ELOST, NULL);
        return false;
    }
    dlock_err code = is_done() ? dlock_cond_broadcast(cond, hold, NULL, &err)
                               : dlock_cond_signal(cond, 1, hold, NULL, &err);
    if (code == DLOCK_OK)
        code = dlock_hold_release(hold, &err);
    dlock_hold_free(hold);
    if (code != DLOCK_OK)
        fail("signal, or release", code, err);
    return code == DLOCK_OK;
}

static void *produce(void *arg)
{
    const worker *me = arg;
    bool fine = true;
    for (int64_t i = 0; i < shared->items && fine; i++) {
        dlock_hold *hold = wait_while(is_full, me->of->drained, lock_it(me->of));
        if (hold) {
            shared->log[shared->put] = (int32_t)(me->number * MOST + i);
            shared->put++;
        }
        fine = tell(me->of->filled, hold);
    }
    return NULL;
}

static void *consume(void *arg)
{
    const worker *me = arg;
    bool fine = true;
    while (fine && !is_done()) {
        dlock_hold *hold = wait_while(is_empty, me->of->filled, lock_it(me->of));
        if (hold && !is_done())
            shared->taken++;
        if (is_done())
            (void)dlock_cond_broadcast(me->of->filled, NULL, NULL, NULL);
        fine = tell(me->of->drained, hold);
    }
    return NULL;
}

static void run(const int *first, void *(*work)(void *))
{
    ends of;
    worker workers[THREADS];
    open_ends(&of);
    for (int i = 0; i < shared->threads; i++) {
        workers[i] = (worker){.of = &of, .number = *first + i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            abort();
    }
    for (int i = 0; i < shared->threads; i++)
        (void)pthread_join(workers[i].thread, NULL);
    close_ends(&of);
}

/* What one client does: a process, or in memory a thread of this one. */
typedef struct part {
    void *(*work)(void *);
    int first;
    bool alone; /* in memory */
    pid_t pid;
    pthread_t thread;
} part;

static void run_process(void *arg)
{
    const part *it = arg;
    (void)prctl(PR_SET_PDEATHSIG,
                SIGKILL); /* nobody waits for ever behind a test that fails */
    run(&it->first, it->work);
}

static void *run_thread(void *arg)
{
    const part *it = arg;
    run(&it->first, it->work);
    return NULL;
}

static void begin(part *it)
{
    if (!it->alone)
        it->pid = world_child_start(run_process, it);
    else if (pthread_create(&it->thread, NULL, run_thread, it) != 0)
        abort();
}

/* 0: all went well. */
static int end(part *it)
{
    return it->alone ? pthread_join(it->thread, NULL) : world_child_end(it->pid);
}

/* By a client that is closed again: the sanitizer can't follow children of a process with threads. */
static void see_a_death(void)
{
    ends of;
    open_ends(&of);
    CHECK_EQ_INT(dlock_cond_broadcast(of.filled, NULL, NULL, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_cond_broadcast(of.drained, NULL, NULL, NULL), DLOCK_OK);
    close_ends(&of);
}

/* Each item once, those of one producer in their order. */
static void check_log(void)
{
    int32_t next[PRODUCERS];
    for (int i = 0; i < PRODUCERS; i++)
        next[i] = i * MOST;
    for (int64_t at = 0; at < shared->items * shared->producers; at++) {
        int32_t item = shared->log[at];
        CHECK_ALWAYS(item >= 0 && item / MOST < shared->producers);
        CHECK_ALWAYS(item == next[item / MOST]++);
    }
}

TEST(nothing_is_lost_or_doubled_and_nobody_waits_for_ever)
{
    BEGIN();
    part parts[PROCESSES];
    shared = together_map(sizeof(*shared));
    CHECK(shared != NULL);
    shared->items = from_env("DLK_STORM_ITEMS", 400);
    CHECK(shared->items <= MOST);
    shared->room = from_env("DLK_STORM_ROOM", 8);
    shared->threads = from_env("DLK_STORM_THREADS", THREADS);
    CHECK(shared->threads <= THREADS);
    shared->producers = PROCESSES / 2 * shared->threads;
    const bool alone = world_is("mem");
    const int kills = alone ? 0 : from_env("DLK_STORM_KILLS", 20);
    const int64_t step = shared->items * shared->producers / (kills + 1);
    shared->limit = kills > 0 ? step + step / 2 : INT64_MAX;
    for (int i = 0; i < PROCESSES; i++) {
        parts[i] = (part){.work = i < PROCESSES / 2 ? produce : consume,
                          .first = i * shared->threads,
                          .alone = alone};
        begin(&parts[i]);
    }
    int killed = 0;
    while (!is_done() && shared->all.errors == 0) {
        int64_t next = (killed + 1) * step;
        AWAIT(shared->taken >= next || is_done() || shared->all.errors > 0);
        if (killed >= kills || is_done())
            continue;
        part *dead = &parts[2 + killed % 2];
        CHECK_EQ_INT(kill(dead->pid, SIGKILL), 0);
        (void)end(dead);
        killed++;
        shared->limit = killed < kills ? next + step + step / 2 : INT64_MAX;
        see_a_death();
        CHECK(!harness_failed());
        begin(dead);
    }
    CHECK_STR(shared->all.what, "");
    for (int i = 0; i < PROCESSES; i++)
        CHECK_EQ_INT(end(&parts[i]), 0);
    CHECK_EQ_INT(shared->taken, shared->put);
    check_log();
    harness_note("%d kills, %d waits", killed, (int)shared->waits);
    CHECK_EQ_INT(killed, kills);
}
