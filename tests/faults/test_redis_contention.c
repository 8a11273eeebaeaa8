/* Sixteen threads in four processes want one lock of a real Redis, while nothing happens, while
 * its scripts are flushed, and while its connections are killed. */
#include "resource.h"
#include "stage.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PROCESSES = 4, THREADS = 4 };

static const int64_t ttl_ms = 4000; /* nobody needs it, the machine least of all */
static stage s;

/* What the processes share. */
typedef struct crowd {
    char uri[64];
    resource *resource;
    _Atomic bool over;
    _Atomic int64_t idle_threads;              /* that never got the lock */
    _Atomic int64_t granted, lost, unfinished; /* unfinished: no certain answer */
    _Atomic int64_t reconnects;
    _Atomic int surprises; /* answers that no fault explains */
} crowd;

typedef struct worker {
    crowd *all;
    dlock_client *client;
    dlock_lock *lock;
    uint64_t dice;
} worker;

static uint64_t roll(worker *me, uint64_t sides)
{
    me->dice = me->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (me->dice >> 33) % sides;
}

static void surprise(worker *me, const char *what, dlock_err code, const dlock_error *err)
{
    if (atomic_fetch_add(&me->all->surprises, 1) < 10)
        harness_note("%s: %s: %s", what, dlock_errname(code), dlock_error_text(err));
}

/* Looks, dawdles, writes what it saw plus one. */
static void use(worker *me, const dlock_hold *hold)
{
    resource *r = me->all->resource;
    int64_t token = dlock_hold_token(hold), seen;
    stay *at = resource_enter(r, hold);
    bool fresh = resource_look(r, token, &seen);
    for (uint64_t i = roll(me, 3); i > 0; i--) {
        nap_us((int64_t)roll(me, 200));
        if (resource_still(at, hold) != DLOCK_OK)
            atomic_fetch_add(&me->all->lost, 1);
    }
    /* Also when the lock was lost: refusing is the resource's business. */
    if (fresh)
        (void)resource_write(r, token, seen); /* the judge counts */
    resource_leave(at);
}

static void give_back(worker *me, dlock_hold *hold)
{
    dlock_error *err = NULL;
    dlock_err code = dlock_hold_release(hold, &err);
    if (code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL || code == DLOCK_ELOST)
        atomic_fetch_add(&me->all->unfinished, 1);
    else if (code != DLOCK_OK)
        surprise(me, "release", code, err);
    dlock_hold_free(hold);
    dlock_error_free(err);
}

static void *work(void *arg)
{
    worker *me = arg;
    bool idle = true;
    while (!atomic_load(&me->all->over)) {
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        /* Some waits are short, so that grants race with time-outs. */
        int64_t wait_ms = roll(me, 4) == 0 ? (int64_t)roll(me, 20) : patience_ms();
        dlock_err code = dlock_lock_acquire(me->lock, wait_ms, &hold, &err);
        if (code == DLOCK_OK) {
            idle = false;
            atomic_fetch_add(&me->all->granted, 1);
            use(me, hold);
            give_back(me, hold);
        } else if (code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL) {
            /* A healthy server, too, may need longer than a short wait. */
            atomic_fetch_add(&me->all->unfinished, wait_ms > 100);
            nap_ms(1);
        } else if (code != DLOCK_ETIMEDOUT && code != DLOCK_EBUSY) {
            surprise(me, "acquire", code, err);
        }
        dlock_error_free(err);
    }
    atomic_fetch_add(&me->all->idle_threads, idle);
    return NULL;
}

static void run_process(void *shared)
{
    crowd *all = shared;
    worker workers[THREADS];
    pthread_t threads[THREADS];
    dlock_client *client = stage_open(
        all->uri, "client.lazy", "true", /* an open may meet the killer, too */
        "lock.ttl_ms", "4000", "client.timeout_ms", "4000", "client.poll_ms", "100",
        "client.backoff_min_ms", "1", "client.backoff_max_ms", "20", NULL);
    CHECK(client != NULL);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.all = all,
                              .client = client,
                              .lock = stage_lock(client, "L"),
                              .dice = (uint64_t)now_ns() + (uint64_t)i};
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        dlock_lock_free(workers[i].lock);
    }
    atomic_fetch_add(&all->reconnects, api_stat(client, "reconnects"));
    CHECK_OK(dlock_client_close(client, NULL), NULL);
    dlock_client_free(client);
}

/* For @p ms, with @p fault every @p pause_ms; what came of it. */
static verdict contend(crowd **ret, int64_t ms, const char *const *faults,
                       int64_t pause_ms)
{
    crowd *all = stage_share(sizeof(*all));
    pid_t pids[PROCESSES];
    memcpy(all->uri, s.uri, sizeof(all->uri));
    all->resource = resource_new();
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = stage_fork(run_process, all);
    /* A wipe of the connections while a client opens is no fault of an open lock. */
    int64_t begin = now_ns(), limit = begin + patience_ms() * STAGE_MS;
    while (atomic_load(&all->granted) < 2 * PROCESSES * THREADS && now_ns() < limit)
        nap_ms(1);
    begin = now_ns();
    for (int i = 0; now_ns() < begin + ms * STAGE_MS; i++) {
        if (faults)
            redis_server_call(&s.server, "%s", faults[i % 2]);
        nap_ms(pause_ms);
    }
    atomic_store(&all->over, true);
    for (int i = 0; i < PROCESSES; i++)
        (void)stage_join(pids[i]); /* has failed the test then */
    verdict v = resource_judge(all->resource, RESOURCE_STATE_KEPT);
    harness_note("%" PRId64 " stays, %" PRId64 " writes, %" PRId64 " refused, %" PRId64
                 " lost, %" PRId64 " without an answer, %" PRId64 " reconnects",
                 v.stays, v.accepted, v.refused, atomic_load(&all->lost),
                 atomic_load(&all->unfinished), atomic_load(&all->reconnects));
    resource_free(all->resource);
    *ret = all;
    return v;
}

static void check_kept(const crowd *all, const verdict *v)
{
    CHECK_EQ_INT(v->overlaps, 0);
    CHECK_EQ_INT(v->old_tokens, 0);
    CHECK_EQ_INT(v->lost_updates, 0);
    CHECK_EQ_INT(atomic_load(&all->surprises), 0);
    CHECK_EQ_INT(v->stays, atomic_load(&all->granted));
}

static int64_t duration_ms(void)
{
    return patience_ms() / 8; /* 2.5 s, or 7.5 where it is slow */
}

/* Nothing may be noticed of what was done. */
static void check_unnoticed(const char *const *faults, int64_t pause_ms)
{
    crowd *all;
    if (!stage_set(&s, NULL))
        return;
    verdict v = contend(&all, duration_ms(), faults, pause_ms);
    check_kept(all, &v);
    if (harness_failed())
        return;
    CHECK_EQ_INT(v.accepted, v.stays);
    CHECK_EQ_INT(v.refused, 0);
    CHECK_EQ_INT(atomic_load(&all->unfinished), 0);
    CHECK_EQ_INT(atomic_load(&all->lost), 0);
    CHECK_EQ_INT(atomic_load(&all->reconnects), 0);
    CHECK_EQ_INT(atomic_load(&all->idle_threads), 0);
    stage_unshare(all, sizeof(*all));
    CHECK(stage_clear(&s, ttl_ms));
}

TEST(sixteen_threads_in_four_processes_never_meet)
{
    check_unnoticed(NULL, 5);
}

TEST(scripts_flushed_in_a_loop_go_unnoticed)
{
    static const char *const faults[] = {"SCRIPT FLUSH", "SCRIPT FLUSH"};
    check_unnoticed(faults, 1);
}

TEST(waiters_whose_subscriptions_are_killed_go_on_unharmed)
{
    static const char *const faults[] = {"CLIENT KILL TYPE pubsub",
                                         "CLIENT KILL TYPE pubsub"};
    check_unnoticed(faults, 10);
}

TEST(connections_killed_in_a_loop_break_no_promise_and_hang_nobody)
{
    static const char *const faults[] = {"CLIENT KILL TYPE normal SKIPME yes",
                                         "CLIENT KILL TYPE pubsub"};
    crowd *all;
    if (!stage_set(&s, NULL))
        return;
    verdict v = contend(&all, duration_ms(), faults, 15);
    check_kept(all, &v);
    if (harness_failed())
        return;
    CHECK(atomic_load(&all->reconnects) > PROCESSES);
    CHECK(v.accepted > PROCESSES * THREADS);
    stage_unshare(all, sizeof(*all));
    CHECK(stage_clear(&s, ttl_ms));
}
