/*
 * Forks, cancels, signals and resets all at once: nothing hangs, nothing dies of SIGPIPE, nobody
 * gets the lock twice, and at the end there is no more of anything than at the beginning.
 *
 * Five threads of two clients contend for one lock, so that each fork finds some of them waiting,
 * some driving and one holding. The main thread starts an operation for the same lock, forks while
 * it is under way, and cancels it: by a call, from the signal's handler or by its deadline, each
 * racing with the grant. A timer interrupts it 10,000 times a second, the others less often. On
 * Redis the server cuts every connection now and then.
 *
 * DLK_STORM_FORKS (300): rounds of one fork and one cancel. DLK_TEST_BACKEND: mem, file, redis.
 * To be run with GLIBC_TUNABLES=glibc.malloc.tcache_count=0: else each thread keeps some 200 KiB of
 * freed pieces in the end, which count as used and look like a slow leak until then.
 */
#include "child.h"
#include "drift.h"

#include "../api/world.h"
#include "harness/redis_server.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Why there are none, where a sanitizer is in the way (harness/fork.h); else NULL. */
#define NO_FORKS                                                                         \
    (THREAD_SANITIZER    ? "no forks: ThreadSanitizer can't follow the child's threads"  \
     : ADDRESS_SANITIZER ? "no forks: the threads are in AddressSanitizer's allocator"   \
                         : NULL)

enum { WORKERS = 5, CHILDREN = 3, CUT_EVERY = 20 };

static struct storm {
    dlock_client *clients[2];
    dlock_lock *locks[2]; /* the contended one */
    dlock_hold *kept;     /* of another lock, all the time */
    int event_fd;
    pthread_t threads[WORKERS];
    int started;
    _Atomic bool over, paused;
    _Atomic int parked, inside;
    _Atomic int64_t grants, overlaps, strange, stuck, signals;
    int64_t granted, cancelled, timed_out, unreached; /* what became of the ops */
    int64_t forks, cuts, bad_children;
    pid_t children[CHILDREN];
    char what[256];
} s;

static _Thread_local dlock_op *volatile to_cancel;

static void on_alarm(int signal)
{
    (void)signal;
    atomic_fetch_add_explicit(&s.signals, 1, memory_order_relaxed);
    if (to_cancel)
        dlock_op_cancel(to_cancel);
}

/* SIGALRM for this thread, so many times a second. */
static bool ring(int per_second)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    struct itimerspec every = {.it_interval.tv_nsec = 1000000000 / per_second,
                               .it_value.tv_nsec = 1000000000 / per_second};
    timer_t timer; /* ends with the process */
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    return timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
           timer_settime(timer, 0, &every, NULL) == 0;
}

static void strange(const char *what, dlock_err code, const dlock_error *err)
{
    if (atomic_fetch_add(&s.strange, 1) == 0)
        snprintf(s.what, sizeof(s.what), "%s: %s, %s", what, dlock_errname(code),
                 dlock_error_text(err));
}

/* What a peer that cuts connections may do to a call. */
static bool is_weather(dlock_err code)
{
    return world_is("redis") && (code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN);
}

static void be_inside(int me)
{
    if (atomic_exchange(&s.inside, me) != 0)
        atomic_fetch_add(&s.overlaps, 1);
    atomic_fetch_add(&s.grants, 1);
    sched_yield();
    if (atomic_exchange(&s.inside, 0) != me)
        atomic_fetch_add(&s.overlaps, 1);
}

/* ---- those who contend ---- */

static void contend_once(int me, int64_t wait_ms)
{
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_lock_acquire(s.locks[me % 2], wait_ms, &hold, &err);
    if (code == DLOCK_OK) {
        be_inside(me);
        code = dlock_hold_release(hold, &err);
        if (code != DLOCK_OK && !is_weather(code))
            strange("release", code, err);
    } else if (code == DLOCK_ETIMEDOUT && wait_ms > 1000) {
        atomic_fetch_add(&s.stuck, 1);
    } else if (code != DLOCK_ETIMEDOUT && !is_weather(code)) {
        strange("acquire", code, err);
    }
    dlock_hold_free(hold);
    dlock_error_free(err);
}

static void *contend(void *number)
{
    int me = (int)(intptr_t)number;
    if (!ring(500))
        strange("timer", DLOCK_EUSER, NULL);
    for (int i = 0; !atomic_load(&s.over); i++) {
        if (!atomic_load(&s.paused)) {
            contend_once(me, i % 4 ? i % 4 : patience_ms());
            continue;
        }
        atomic_fetch_add(&s.parked, 1);
        while (atomic_load(&s.paused))
            nap_ms(1);
        atomic_fetch_sub(&s.parked, 1);
    }
    return NULL;
}

/* ---- the main thread's rounds ---- */

static void end_child(pid_t *pid)
{
    if (*pid > 0 && world_child_end(*pid) != 0)
        s.bad_children++;
    *pid = 0;
}

static void fork_once(int round, dlock_op *op)
{
    if (NO_FORKS)
        return;
    pid_t *place = &s.children[round % CHILDREN];
    inheritance from = {.client = s.clients[0],
                        .lock = s.locks[0],
                        .hold = s.kept,
                        .op = op,
                        .event_fd = s.event_fd};
    end_child(place);
    *place = fork();
    if (*place == 0)
        child_live((child_way)(round % CHILD_WAYS), &from, (unsigned)round);
    s.forks++;
    if (*place < 0)
        s.bad_children++;
}

/* The server ends every connection but the test's own. */
static void cut_once(int round)
{
    sigset_t alarm, before;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, &before);
    (void)redis_server_call(world_redis(), "CLIENT KILL SKIPME yes TYPE %s",
                            round % (2 * CUT_EVERY) ? "normal" : "pubsub");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s.cuts++;
}

static void count_outcome(dlock_op *op)
{
    dlock_err code = dlock_op_result(op);
    s.granted += code == DLOCK_OK;
    s.cancelled += code == DLOCK_ECANCELED;
    s.timed_out += code == DLOCK_ETIMEDOUT;
    s.unreached += is_weather(code);
    if (code != DLOCK_OK && code != DLOCK_ECANCELED && code != DLOCK_ETIMEDOUT &&
        !is_weather(code))
        strange("op", code, dlock_op_error(op));
}

static void take_what_was_granted(dlock_op *op, int round)
{
    dlock_hold *hold = round % 8 ? dlock_op_take_hold(op) : NULL; /* else with the op */
    if (!hold)
        return;
    be_inside(WORKERS + 1);
    dlock_err code = round % 2 ? dlock_hold_release(hold, NULL) : DLOCK_OK;
    if (code != DLOCK_OK && !is_weather(code))
        strange("release of an op's hold", code, NULL);
    dlock_hold_free(hold);
}

static void spin(unsigned steps)
{
    for (volatile unsigned i = 0; i < steps; i++)
        ;
}

/* The three ways to end a wait, each at some moment. */
static void once(int round, unsigned *seed)
{
    int way = round % 3;
    dlock_op *op =
        dlock_lock_acquire_start(s.locks[0], way == 0 ? 1 + round % 3 : DLOCK_FOREVER);
    if (way == 1)
        to_cancel = op; /* by the next signal */
    fork_once(round, op);
    spin((unsigned)rand_r(seed) % 20000);
    if (way == 2)
        dlock_op_cancel(op);
    if (dlock_op_wait(op, patience_ms()) != DLOCK_OK)
        atomic_fetch_add(&s.stuck, 1);
    to_cancel = NULL;
    count_outcome(op);
    take_what_was_granted(op, round);
    dlock_op_free(op);
    if (world_is("redis") && round % CUT_EVERY == 0)
        cut_once(round);
}

/* ---- between them ---- */

/* All stand still, and all children are gone. */
static bool pause_all(void)
{
    int64_t end = now_ms() + 2 * patience_ms();
    atomic_store(&s.paused, true);
    while (atomic_load(&s.parked) < s.started && now_ms() < end)
        nap_ms(1);
    for (int i = 0; i < CHILDREN; i++)
        end_child(&s.children[i]);
    for (int i = 0; i < 2; i++)
        while (dlock_client_connect(s.clients[i], NULL) != DLOCK_OK && now_ms() < end)
            nap_ms(1);
    for (int i = 0; i < 2; i++) /* what isn't fetched is kept, up to client.events */
        for (dlock_event *it; (it = dlock_client_next_event(s.clients[i]));)
            dlock_event_free(it);
    return atomic_load(&s.parked) == s.started;
}

static void go_on(void)
{
    atomic_store(&s.paused, false);
}

static bool begin(void)
{
    struct sigaction alarm = {.sa_handler = on_alarm}; /* without SA_RESTART */
    struct sigaction pipe = {.sa_handler = SIG_DFL};
    sigaction(SIGALRM, &alarm, NULL);
    sigaction(SIGPIPE, &pipe, NULL);
    for (int i = 0; i < 2; i++) {
        s.clients[i] = world_client("client.backoff_min_ms=1 client.backoff_max_ms=10");
        if (!s.clients[i] || !(s.locks[i] = world_lock(s.clients[i], "storm", NULL)))
            return false;
    }
    s.event_fd = dlock_client_event_fd(s.clients[0]);
    dlock_err code = dlock_acquire(s.clients[0], "kept", 0, &s.kept, NULL);
    for (intptr_t i = 0; code == DLOCK_OK && i < WORKERS; i++)
        if (pthread_create(&s.threads[i], NULL, contend, (void *)(i + 1)) == 0)
            s.started++;
    return s.started == WORKERS && ring(10000);
}

static void end(void)
{
    atomic_store(&s.over, true);
    go_on();
    for (int i = 0; i < s.started; i++)
        pthread_join(s.threads[i], NULL);
    dlock_hold_free(s.kept);
    for (int i = 0; i < 2; i++) {
        dlock_lock_free(s.locks[i]);
        dlock_client_free(s.clients[i]);
    }
}

static void report(int rounds, int64_t took_ms)
{
    harness_note("%d rounds in %.1f s: %" PRId64 " forks, %" PRId64
                 " resets by the peer, %" PRId64 " signals (%" PRId64 " per second)",
                 rounds, (double)took_ms / 1000, s.forks, s.cuts, s.signals,
                 s.signals * 1000 / (took_ms + 1));
    harness_note("cancels: %" PRId64 " withdrawn by a call or a signal, %" PRId64
                 " by the deadline, %" PRId64 " granted first, %" PRId64
                 " unreached; %" PRId64 " grants in all",
                 s.cancelled, s.timed_out, s.granted, s.unreached, s.grants);
    if (NO_FORKS)
        harness_note("%s", NO_FORKS);
}

/* The last tenth against the third: until then what is kept for the next is filled. */
static void compare(const drift *first, const drift *last)
{
    int elastic = world_is("redis") ? 2 : 0; /* a subscriber of each client */
    CHECK(last->fds <= first->fds + elastic);
    CHECK_EQ_INT(last->threads, first->threads);
    /* What grows to its size once is there after some hundred rounds; a leak of a few bytes a round
     * comes to more than this in the long run. */
    CHECK(last->heap <= first->heap + 64 * 1024);
    CHECK(last->rss <= first->rss + 1024 * 1024);
}

static int rounds_wanted(void)
{
    const char *text = getenv("DLK_STORM_FORKS");
    return text ? atoi(text) : 300;
}

static bool seen_both(void)
{
    return s.cancelled > 0 && s.granted > 0;
}

TEST(forks_cancels_signals_and_resets_do_no_harm_and_leave_nothing)
{
    BEGIN();
    int rounds = rounds_wanted();
    unsigned seed = (unsigned)getpid();
    drift before = drift_now(), tenth[10];
    CHECK(begin());
    int64_t began = now_ms();
    int done = 0;
    for (int i = 0; i < 10; i++) {
        for (int end = rounds * (i + 1) / 10; done < end; done++)
            once(done, &seed);
        /* On a busy machine a cancel is seldom too late, but sooner or later it is. */
        while (i == 9 && !seen_both() && done < 20 * rounds)
            once(done++, &seed);
        CHECK(pause_all());
        CHECK_EQ_INT(dlock_hold_check(s.kept), DLOCK_OK);
        tenth[i] = drift_now();
        go_on();
    }
    int64_t took = now_ms() - began;
    end();
    drift after = drift_now();
    report(done, took);
    drift_note("after the third tenth", &tenth[2]);
    drift_note("after the last tenth", &tenth[9]);
    CHECK_ALWAYS(s.overlaps == 0);
    CHECK_STR(s.what, "");
    CHECK_EQ_INT(s.strange, 0);
    CHECK_EQ_INT(s.stuck, 0);
    CHECK_EQ_INT(s.bad_children, 0);
    CHECK(seen_both());
    CHECK_EQ_INT(after.fds, before.fds);
    CHECK(after.threads <= before.threads + THREAD_SANITIZER); /* it has its own */
    CHECK_EQ_INT(world_try("storm"), DLOCK_OK);
    compare(&tenth[2], &tenth[9]);
}
