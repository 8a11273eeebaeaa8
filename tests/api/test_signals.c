/* Signals and cancelled threads: waits are restarted, ops can be cancelled from a handler, and no
 * mutex of ours is ever left behind. */
#include "world.h"

#include "harness/redis_server.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static dlock_op *volatile to_cancel;
static volatile sig_atomic_t signals;

static void on_alarm(int signal)
{
    (void)signal;
    signals++;
    if (to_cancel)
        dlock_op_cancel(to_cancel);
}

/* SIGALRM every so often, without SA_RESTART; 0 ends it. */
static void storm(long every_us)
{
    struct sigaction action = {.sa_handler = every_us ? on_alarm : SIG_IGN};
    struct itimerval timer = {.it_interval.tv_usec = every_us,
                              .it_value.tv_usec = every_us};
    signals = 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void end_storm(int *unused)
{
    (void)unused;
    storm(0);
    to_cancel = NULL;
}

#define STORM(us)                                                                        \
    int in_storm __attribute__((cleanup(end_storm))) = 0;                                \
    (void)in_storm;                                                                      \
    storm(us)

static atomic_int waits_in;

static void *wait_for_op(void *op)
{
    waits_in = (int)syscall(SYS_gettid);
    dlock_err code = dlock_op_wait(op, DLOCK_FOREVER);
    return (void *)(intptr_t)(code == DLOCK_OK ? dlock_op_result(op) : code);
}

TEST(signals_do_not_end_a_wait)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_OK(dlock_acquire(client, __func__, 0, &hold, &err), err);
    STORM(500);
    int64_t begin = now_ms();
    CHECK_ERR(dlock_acquire(other, __func__, 300, &theirs, &err), DLOCK_ETIMEDOUT, err);
    CHECK(now_ms() - begin >= 299);
    CHECK(signals > 10);
    begin = now_ms();
    DLOCK_AUTO(dlock_lock) lock = world_lock(other, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(op, 100), DLOCK_EPENDING);
    CHECK(now_ms() - begin >= 99);
    CHECK_ERR(dlock_lock_wait_idle(lock, SHORT_MS, &err), DLOCK_ETIMEDOUT, err);
}

TEST(everything_works_in_a_storm_of_signals)
{
    BEGIN();
    STORM(200);
    DLOCK_AUTO(dlock_error) err = NULL;
    for (int i = 0; i < 15; i++) {
        DLOCK_AUTO(dlock_client) client = world_client(NULL); /* connects in it, too */
        DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, NULL);
        DLOCK_AUTO(dlock_info) info = NULL;
        CHECK_OK(dlock_client_doctor(client, &info, &err), err);
        for (int j = 0; j < 20; j++) {
            DLOCK_AUTO(dlock_hold) hold = world_take(lock);
            CHECK_OK(dlock_hold_verify(hold, &err), err);
            CHECK_OK(dlock_hold_release(hold, &err), err);
        }
        CHECK_OK(dlock_client_close(client, &err), err);
    }
}

TEST(a_handler_may_cancel_the_op_its_thread_waits_for)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    to_cancel = op;
    STORM(20000);
    CHECK_EQ_INT(dlock_op_wait(op, DLOCK_FOREVER), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECANCELED);
    CHECK(signals > 0);
}

TEST(a_handler_may_cancel_while_its_thread_is_anywhere_in_the_library)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, "lock.owner=none");
    STORM(100);
    for (int i = 0; i < 1500; i++) {
        dlock_op *op = dlock_lock_acquire_start(lock, 1);
        dlock_op *second = dlock_lock_acquire_start(lock, 1);
        to_cancel = second;
        dlock_hold *hold = dlock_op_take_hold(op);
        dlock_err code = hold ? dlock_hold_release(hold, NULL) : DLOCK_OK;
        (void)dlock_op_wait(second, 1);
        to_cancel = NULL;
        dlock_hold_free(hold);
        dlock_op_free(second);
        dlock_op_free(op);
        CHECK_EQ_INT(code, DLOCK_OK);
    }
    AWAIT(world_try(__func__) == DLOCK_OK);
}

/* Counts the other threads of this process, and among them those that would take a signal. */
static int other_threads(int signal, int *takers)
{
    char path[64], line[128];
    int others = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        int tid = atoi(task->d_name);
        snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
        FILE *file = tid > 0 && tid != getpid() ? fopen(path, "re") : NULL;
        while (file && fgets(line, sizeof(line), file)) {
            if (strncmp(line, "SigBlk:", 7) != 0)
                continue;
            others++;
            *takers += !(strtoull(line + 7, NULL, 16) >> (signal - 1) & 1);
        }
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return others;
}

TEST(our_threads_take_no_signal_of_yours)
{
    BEGIN();
    static const int all[] = {SIGHUP,  SIGINT,  SIGTERM, SIGALRM,
                              SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE};
    DLOCK_AUTO(dlock_client)
    client = world_client(NULL); /* starts with nothing blocked here */
    CLIENT_WITH_LOCK(other, lock, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_EQ_INT(dlock_acquire(client, __func__, 0, &hold, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_notify(op, 1),
                 DLOCK_EPENDING); /* now every helper is at work */
    if (THREAD_SANITIZER)
        LEAVE_OUT("ThreadSanitizer has a thread of its own");
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        int takers = 0;
        CHECK(other_threads(all[i], &takers) >= 2);
        CHECK_EQ_INT(takers, 0);
    }
}

TEST(a_cancel_from_another_thread_wakes_whoever_waits_for_the_op)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    for (int i = 0; i < 20; i++) {
        DLOCK_AUTO(dlock_op)
        op = dlock_lock_acquire_start(i % 2 ? lock : theirs, DLOCK_FOREVER);
        pthread_t thread;
        void *code;
        waits_in = 0;
        CHECK(pthread_create(&thread, NULL, wait_for_op, op) == 0);
        AWAIT(world_asleep(waits_in));
        dlock_op_cancel(op);
        pthread_join(thread, &code);
        CHECK_EQ_INT((intptr_t)code, DLOCK_ECANCELED);
    }
}

TEST(a_cancelled_op_is_announced_though_nobody_calls)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    struct pollfd fd = {.fd = dlock_client_event_fd(other), .events = POLLIN};
    for (uint64_t i = 1; i < 20; i++) {
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_op_notify(op, i), DLOCK_EPENDING);
        dlock_op_cancel(op);
        CHECK(poll(&fd, 1, (int)patience_ms()) == 1);
        DLOCK_AUTO(dlock_event) event = dlock_client_next_event(other);
        CHECK_EQ_INT(dlock_event_tag(event), i);
        CHECK_EQ_INT(dlock_event_code(event), DLOCK_ECANCELED);
    }
}

TEST(a_server_that_goes_away_is_no_sigpipe)
{
    BEGIN();
    if (!world_is("redis"))
        LEAVE_OUT("no server to go away");
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(SIGPIPE, &action, NULL);
    CLIENT_WITH_LOCK(client, lock, __func__, "client.timeout_ms=200");
    for (int i = 0; i < 3; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        redis_server_kill(world_redis());
        CHECK(dlock_hold_release(hold, NULL) != DLOCK_OK);
        DLOCK_AUTO(dlock_hold) none = NULL;
        dlock_err code = dlock_lock_acquire(lock, 20, &none, NULL);
        CHECK(code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN);
        CHECK(redis_server_restart(world_redis()));
    }
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK(hold != NULL);
}

/* ---- pthread_cancel ---- */

typedef struct victim {
    dlock_lock *lock;
    dlock_hold *hold;
    atomic_bool began;
    int64_t wait_ms;
} victim;

static void give_back(void *arg)
{
    dlock_hold_free(((victim *)arg)->hold);
}

static void *acquire_and_be_cancelled(void *arg)
{
    victim *v = arg;
    pthread_cleanup_push(give_back, v);
    v->began = true;
    for (;;) {
        v->hold = NULL;
        if (dlock_lock_acquire(v->lock, v->wait_ms, &v->hold, NULL) == DLOCK_OK &&
            v->wait_ms > 0)
            (void)dlock_hold_release(v->hold, NULL);
        pthread_testcancel();
        dlock_hold_free(v->hold);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

TEST(a_thread_cancelled_in_a_wait_leaves_the_client_consistent)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    victim v = {.lock = lock, .wait_ms = DLOCK_FOREVER};
    pthread_t thread;
    void *end;
    CHECK(pthread_create(&thread, NULL, acquire_and_be_cancelled, &v) == 0);
    AWAIT(v.began);
    CHECK_EQ_INT(pthread_cancel(thread), 0);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK); /* nobody died with our mutex */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    pthread_join(thread, &end);
    CHECK(end == PTHREAD_CANCELED);
    DLOCK_AUTO(dlock_hold) next = world_take(lock);
    CHECK(next != NULL);
}

TEST(threads_cancelled_anywhere_leave_the_lock_to_others)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    for (int round = 0; round < 60; round++) {
        victim victims[3];
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) {
            /* One of them waits long enough to be granted it however slow the server is. */
            victims[i] = (victim){.lock = lock, .wait_ms = i == 0 ? SHORT_MS : 2};
            CHECK(pthread_create(&threads[i], NULL, acquire_and_be_cancelled,
                                 &victims[i]) == 0);
        }
        int64_t enough = api_stat(client, "grants") + round % 7;
        while (api_stat(client, "grants") < enough)
            nap_ms(1);
        for (int i = 0; i < 3; i++)
            CHECK_EQ_INT(pthread_cancel(threads[i]), 0);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
    }
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
}

typedef struct doomed {
    dlock_lock *lock;
    int64_t wait_ms;
    dlock_err code;
    bool returned;
} doomed;

/* Comes with a cancellation that was asked for before: any call that may act on it would. */
static void *call_with_a_cancel_pending(void *arg)
{
    doomed *d = arg;
    dlock_hold *hold = NULL;
    pthread_cancel(pthread_self());
    d->code = dlock_lock_acquire(d->lock, d->wait_ms, &hold, NULL);
    if (d->code == DLOCK_OK)
        d->code = dlock_hold_release(hold, NULL);
    dlock_hold_free(hold);
    d->returned = true;
    pthread_testcancel();
    return NULL;
}

TEST(no_call_is_a_place_where_a_thread_is_cancelled)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(other, __func__, "lock.release=async");
    for (int i = 0; i < 20; i++) {
        /* Somebody new each time, whom the others may have to look at. */
        DLOCK_AUTO(dlock_client) passer_by = world_client(NULL);
        DLOCK_AUTO(dlock_hold) hold = i % 2 ? world_take(lock) : NULL;
        doomed d = {.lock = same, .wait_ms = hold ? SHORT_MS : patience_ms()};
        pthread_t thread;
        void *end;
        CHECK(pthread_create(&thread, NULL, call_with_a_cancel_pending, &d) == 0);
        pthread_join(thread, &end);
        CHECK(d.returned);
        CHECK(end == PTHREAD_CANCELED);
        CHECK_EQ_INT(d.code, hold ? DLOCK_ETIMEDOUT : DLOCK_OK);
    }
    DLOCK_AUTO(dlock_hold) last = world_take(same);
    CHECK(last != NULL);
}
