/*
 * 16 threads in 4 processes want one name, through the public API, while a real Redis is cut,
 * frozen, wiped and restarted under them.
 *
 * How an overlap is told: a holder puts its number into a shared word and says beside it until
 * when its hold is valid; whoever is granted the lock and finds another number there, valid still,
 * has seen two inside. With faults that take away the server's state two may well be inside for a
 * moment; then the fence must refuse the older one, and tokens must go on rising.
 */
#include "harness/redis_server.h"

#include "harness/awake.h"
#include "harness/harness.h"
#include "harness/time.h"
#include "harness/together.h"

#include <dlock/dlock.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 4, THREADS = 4, ALL = PROCESSES * THREADS };

/* Shared by the processes. */
typedef struct sky {
    together common;
    _Atomic int inside;                   /* 0 nobody */
    _Atomic int64_t valid_until[ALL + 1]; /* boot clock, ns */
    _Atomic int64_t grants[ALL + 1];
    _Atomic int64_t overlaps, old_tokens, refused, lost, stuck;
    _Atomic bool linger; /* whoever is inside stays there while its hold is valid */
} sky;

#define MS  INT64_C(1000000)
#define SEC (1000 * MS)

static sky *all;
static redis_server server;
static char uri[160];

static bool still_valid(dlock_hold *hold, int me)
{
    int64_t now = now_ns();
    if (dlock_hold_check(hold) != DLOCK_OK)
        return false;
    atomic_store(&all->valid_until[me], now + (dlock_hold_remaining_ms(hold) - 1) * MS);
    return true;
}

static void be_inside(dlock_hold *hold, int me, int64_t fence_before)
{
    int64_t token = dlock_hold_token(hold);
    int before = atomic_exchange(&all->inside, me);
    /* Ours may have lapsed before we got here: so it is looked at, and after the other one's. */
    if (before != 0 && before != me &&
        atomic_load(&all->valid_until[before]) > now_ns() &&
        dlock_hold_check(hold) == DLOCK_OK)
        atomic_fetch_add(&all->overlaps, 1);
    if (token <= fence_before)
        atomic_fetch_add(&all->old_tokens, 1);
    atomic_fetch_add(&all->grants[me], 1);
    for (int i = 0; (i < 3 || atomic_load(&all->linger)) && still_valid(hold, me); i++) {
        if (!together_write(&all->common, token))
            atomic_fetch_add(&all->refused, 1);
        if (i >= 3)
            nap_ms(1);
    }
    if (dlock_hold_check(hold) != DLOCK_OK)
        atomic_fetch_add(&all->lost, 1);
    int mine = me;
    (void)atomic_compare_exchange_strong(&all->inside, &mine, 0);
    atomic_store(&all->valid_until[me], 0);
}

typedef struct worker {
    dlock_client *client;
    pthread_t thread;
    int me;
} worker;

static void *contend(void *arg)
{
    worker *is = arg;
    while (!atomic_load(&all->common.over)) {
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        int64_t fence_before = atomic_load(&all->common.fence), began = now_ns();
        dlock_err code = dlock_acquire(is->client, "together", 3000, &hold, &err);
        if (now_ns() - began > 20 * SEC)
            atomic_fetch_add(&all->stuck, 1);
        if (code == DLOCK_OK) {
            be_inside(hold, is->me, fence_before);
            code = dlock_hold_release(hold, &err);
            if (code != DLOCK_OK && code != DLOCK_ELOST && code != DLOCK_EUNKNOWN)
                together_say(&all->common, "release", code, err);
        } else if (code != DLOCK_ETIMEDOUT && code != DLOCK_EUNAVAIL &&
                   code != DLOCK_EUNKNOWN && code != DLOCK_ELOST) {
            together_say(&all->common, "acquire", code, err);
        }
        dlock_hold_free(hold);
        dlock_error_free(err);
        nap_ms(is->me % 4); /* a client that never pauses would win nearly every race */
    }
    return NULL;
}

static int be_process(int number)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    worker workers[THREADS];
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    if (code != DLOCK_OK)
        together_say(&all->common, "open", code, err);
    for (int i = 0; i < THREADS && code == DLOCK_OK; i++) {
        workers[i] = (worker){.client = client, .me = number * THREADS + i + 1};
        pthread_create(&workers[i].thread, NULL, contend, &workers[i]);
    }
    for (int i = 0; i < THREADS && code == DLOCK_OK; i++)
        pthread_join(workers[i].thread, NULL);
    dlock_client_free(client);
    dlock_error_free(err);
    return code == DLOCK_OK ? 0 : 1;
}

static bool begin(pid_t *children, const char *query)
{
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return false;
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d?%s", server.port, query);
    all = together_map(sizeof(*all));
    if (!all)
        return false;
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG,
                  SIGKILL); /* a test that failed leaves nobody behind */
            _exit(be_process(i));
        }
    }
    return true;
}

static int64_t total(void)
{
    int64_t sum = 0;
    for (int i = 1; i <= ALL; i++)
        sum += atomic_load(&all->grants[i]);
    return sum;
}

/* Waits until there have been so many more grants: nothing hangs, whatever happened before. */
static bool progress(int64_t more)
{
    int64_t goal = total() + more, end = now_ns() + 60 * SEC;
    while (total() < goal && now_ns() < end)
        nap_ms(1);
    return harness_check(__FILE__, __LINE__, total() >= goal,
                         "the lock goes on being granted");
}

/* Somebody stays inside from now on; its number. Whoever is inside first may have looked at
 * `linger` just before: only who is still there on the same grant a while later stays. */
static int let_linger(void)
{
    atomic_store(&all->linger, true);
    int64_t end_at = now_ns() + 60 * SEC;
    while (now_ns() < end_at) {
        int inside = atomic_load(&all->inside);
        int64_t grant = atomic_load(&all->grants[inside]);
        nap_ms(50);
        if (inside != 0 && atomic_load(&all->inside) == inside &&
            atomic_load(&all->grants[inside]) == grant)
            return inside;
    }
    (void)harness_check(__FILE__, __LINE__, false, "somebody stays inside");
    return 1;
}

/* Waits until one more hold was lost while somebody was inside, and lets everybody go on. */
static bool await_loss(int64_t lost_before)
{
    int64_t end_at = now_ns() + 60 * SEC;
    while (atomic_load(&all->lost) == lost_before && now_ns() < end_at)
        nap_ms(1);
    atomic_store(&all->linger, false);
    return harness_check(__FILE__, __LINE__, atomic_load(&all->lost) > lost_before,
                         "a loss") &&
           progress(20);
}

/* Returns when every thread of it stands. A signal takes a while to get there, the longer the
 * busier the machine is, and until then the holder would see what is done next and leave. */
static bool stop(pid_t child)
{
    int status;
    return kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child &&
           WIFSTOPPED(status);
}

static void end(const pid_t *children, const char *title)
{
    together_end(&all->common, children, PROCESSES);
    harness_note("%s: %" PRId64 " grants, %" PRId64 " lost, %" PRId64
                 " writes refused, %" PRId64 " overlaps",
                 title, total(), atomic_load(&all->lost), atomic_load(&all->refused),
                 atomic_load(&all->overlaps));
    redis_server_stop(&server);
    CHECK_ALWAYS(atomic_load(&all->old_tokens) == 0);
    CHECK_STR(all->common.what, "");
    CHECK_EQ_INT(atomic_load(&all->stuck), 0);
}

TEST(sixteen_threads_in_four_processes_never_overlap)
{
    pid_t children[PROCESSES];
    if (!begin(children, "lock.ttl_ms=5000"))
        return;
    CHECK(progress(2000));
    end(children, "quiet");
    CHECK_ALWAYS(atomic_load(&all->overlaps) == 0);
    CHECK_EQ_INT(atomic_load(&all->refused), 0);
    CHECK_EQ_INT(atomic_load(&all->lost), 0);
}

TEST(faults_of_time_and_network_let_no_two_in)
{
    pid_t children[PROCESSES];
    if (!begin(children, "lock.ttl_ms=500&client.timeout_ms=200&client.connect_ms=300"
                         "&client.backoff_min_ms=5&client.backoff_max_ms=50"))
        return;
    CHECK(progress(100));
    for (int i = 0; i < 3; i++) {
        int64_t lost = atomic_load(&all->lost);
        (void)let_linger();
        server_freeze(server.pid); /* for twice the lease */
        nap_ms(1000);
        server_thaw(server.pid);
        CHECK(await_loss(lost));
        for (int k = 0; k < 10; k++) {
            redis_server_call(&server, "CLIENT KILL SKIPME yes TYPE %s",
                              k % 2 ? "normal" : "pubsub");
            redis_server_call(&server, "SCRIPT FLUSH");
            CHECK(progress(5));
        }
    }
    /* The process that holds the lock is stopped; the others take it when the lease is over. */
    int64_t lost = atomic_load(&all->lost);
    pid_t stopped = children[(let_linger() - 1) / THREADS];
    CHECK(stop(stopped));
    atomic_store(&all->linger, false);
    CHECK(progress(50));
    kill(stopped, SIGCONT);
    CHECK(await_loss(lost));
    end(children, "time and network");
    CHECK_ALWAYS(atomic_load(&all->overlaps) == 0);
}

TEST(faults_of_state_let_no_stale_write_through)
{
    pid_t children[PROCESSES];
    if (!begin(children, "lock.ttl_ms=1000&client.timeout_ms=500&client.backoff_min_ms=5"
                         "&client.backoff_max_ms=50"))
        return;
    CHECK(progress(100));
    for (int i = 0; i < 9; i++) {
        int64_t lost = atomic_load(&all->lost);
        (void)let_linger();
        if (i % 3 == 0)
            redis_server_call(&server, "DEL together");
        else if (i % 3 == 1)
            redis_server_call(&server, "FLUSHALL");
        else
            CHECK(redis_server_restart(&server));
        CHECK(await_loss(lost));
    }
    end(children, "state");
    CHECK(atomic_load(&all->refused) > 0); /* else this test would show nothing */
}

/* ---- One holder, seen from near ---- */

static dlock_client *client;
static dlock_hold *held;

static bool take(const char *query)
{
    dlock_error *err = NULL;
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return false;
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d?%s", server.port, query);
    client = NULL;
    held = NULL;
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    if (code == DLOCK_OK)
        code = dlock_acquire(client, "L", 20000, &held, &err);
    bool fine = harness_err(__FILE__, __LINE__, "acquire", code, DLOCK_OK, err);
    dlock_error_free(err);
    return fine;
}

static void let_go(void)
{
    dlock_hold_free(held);
    dlock_client_free(client);
    redis_server_stop(&server);
}

TEST(state_that_is_gone_is_noticed_by_the_next_renewal)
{
    static const char *const ways[] = {"DEL L", "FLUSHALL", "restart"};
    for (int i = 0; i < 3; i++) {
        CHECK(take("lock.ttl_ms=3000&client.backoff_max_ms=50"));
        if (strcmp(ways[i], "restart") == 0)
            CHECK(redis_server_restart(&server));
        else
            redis_server_call(&server, "%s", ways[i]);
        int64_t began = awake_now_ns();
        while (dlock_hold_check(held) == DLOCK_OK)
            nap_ms(1);
        int64_t took = (awake_now_ns() - began) / MS;
        harness_note("%s: noticed after %" PRId64 " ms of 3000", ways[i], took);
        CHECK_EQ_INT(dlock_hold_check(held), DLOCK_ELOST);
        CHECK(took < 1900); /* not by the clock: that would be 2000 at least */
        let_go();
    }
}

TEST(a_frozen_server_ends_a_hold_by_the_clock_alone)
{
    CHECK(take("lock.ttl_ms=400"));
    server_freeze(server.pid);
    while (dlock_hold_check(held) == DLOCK_OK)
        nap_ms(1);
    CHECK_EQ_INT(dlock_hold_remaining_ms(held), 0);
    server_thaw(server.pid);
    let_go();
}

TEST(a_waiter_is_told_of_a_release_long_before_it_would_look)
{
    CHECK(take("lock.ttl_ms=60000&client.poll_ms=60000"));
    dlock_client *other = NULL;
    dlock_hold *second = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_client_open(uri, NULL, &other, &err), err);
    dlock_lock *lock = NULL;
    CHECK_OK(dlock_lock_new(other, DLOCK_MUTEX, "L", NULL, &lock, &err), err);
    dlock_op *op = dlock_lock_acquire_start(lock, 50000);
    int64_t end_at = now_ns() + 20 * SEC;
    while (strcmp(redis_server_call(&server, "PUBSUB NUMSUB redisson_lock__channel:{L}"),
                  "redisson_lock__channel:{L} 1") != 0 &&
           now_ns() < end_at)
        (void)dlock_op_wait(op, 5);
    CHECK_OK(dlock_hold_release(held, &err), err);
    CHECK_EQ_INT(dlock_op_wait(op, 20000), DLOCK_OK);
    second = dlock_op_take_hold(op);
    CHECK(second != NULL);
    dlock_op_free(op);
    dlock_hold_free(second);
    dlock_lock_free(lock);
    dlock_client_free(other);
    let_go();
}
