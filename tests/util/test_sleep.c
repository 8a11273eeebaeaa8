/* Sleeping at a word as it is done where there is no futex: util/futex_posix.c, and its pipes, in each
 * build. */
#include "harness/fork.h"
#include "harness/harness.h"
#include "util/clock.h"
#include "util/thread.h"
#include "util/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLEEPERS = 4, ROUNDS = 300, LONG_S = 60 };

/* Linked with --wrap: what comes just before a thread blocks its signals, or which call fails. */
int __real_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __real_fcntl64(int fd, int what, ...);
int __wrap_fcntl64(int fd, int what, ...); /* so it is called with files of any size */

static _Thread_local int forks_at; /* that call from now on; 0: none */
static bool in_child;
static int fails_at;

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    /* As a handler would that came now. */
    if (forks_at > 0 && --forks_at == 0) {
        pid_t pid = fork();
        int status = 0;
        in_child = pid == 0;
        if (in_child)
            (void)alarm(LONG_S);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
        if (!in_child)
            (void)harness_eq_int(__FILE__, __LINE__, "the child's verdict",
                                 pid < 0 ? -1 : status, 0);
    }
    return __real_pthread_sigmask(how, set, old);
}

int __wrap_fcntl64(int fd, int what, ...)
{
    va_list args;
    va_start(args, what);
    long arg = va_arg(args, long);
    va_end(args);
    if (fails_at > 0 && --fails_at == 0) {
        errno = ENOLCK;
        return -1;
    }
    return __real_fcntl64(fd, what, arg);
}

static void count_fork(void)
{
    atomic_fetch_add(&dlk_fork_generation, 1);
}

static void watch_forks(void)
{
    static bool watched;
    if (!watched)
        watched = dlk_fork_watch(NULL, NULL, count_fork);
    CHECK_ALWAYS(watched);
}

static dlk_futex word;
static _Atomic int asleep, woken;

typedef struct sleeping {
    pthread_t thread;
    uint32_t bits;
} sleeping;

/* Sleeps once, as long as nobody calls: for nothing a wake may come, but here nobody wakes so. */
static void *sleep_once(void *arg)
{
    const sleeping *one = arg;
    atomic_fetch_add(&asleep, 1);
    dlk_futex_wait_bits(&word, 0, DLK_NEVER, one->bits);
    atomic_fetch_add(&woken, 1);
    return NULL;
}

/* Wakes until so many have heard of it, who may still be on their way to bed. */
static void wake_until(int count, uint32_t bits)
{
    while (atomic_load(&woken) < count) {
        dlk_futex_wake_bits(&word, bits);
        sched_yield();
    }
}

TEST(only_those_with_the_bits_are_woken)
{
    sleeping all[SLEEPERS];
    atomic_store(&word, 0);
    atomic_store(&woken, 0);
    for (int i = 0; i < SLEEPERS; i++) {
        all[i].bits = i % 2 ? 2 : 1;
        CHECK_EQ_INT(pthread_create(&all[i].thread, NULL, sleep_once, &all[i]), 0);
    }
    wake_until(SLEEPERS / 2, 1);
    for (int i = 0; i < SLEEPERS; i += 2)
        pthread_join(all[i].thread, NULL);
    CHECK_EQ_INT(atomic_load(&woken), SLEEPERS / 2);
    wake_until(SLEEPERS, 2);
    for (int i = 1; i < SLEEPERS; i += 2)
        pthread_join(all[i].thread, NULL);
}

TEST(a_sleep_ends_in_time_and_at_a_changed_word_at_once)
{
    atomic_store(&word, 0);
    int64_t until = dlk_clock_now() + 2 * DLK_NS_PER_MS;
    while (dlk_clock_now() < until)
        dlk_futex_wait(&word, 0, until, false);
    atomic_store(&word, 1);
    dlk_futex_wait(&word, 0, DLK_NEVER, false);
}

/* Two threads take turns at a word; each sleeps until it is its own. A wake that is lost ends here. */
static void *take_turns(void *arg)
{
    uint32_t mine = arg != NULL, now;
    for (int i = 0; i < ROUNDS; i++) {
        while ((now = atomic_load(&word)) % 2 != mine)
            dlk_futex_wait(&word, now, DLK_NEVER, false);
        atomic_fetch_add(&word, 1);
        dlk_futex_wake(&word, 1, false);
    }
    return NULL;
}

static bool turns_go_round(void)
{
    static int other;
    pthread_t thread;
    atomic_store(&word, 0);
    if (pthread_create(&thread, NULL, take_turns, &other) != 0)
        return false;
    (void)take_turns(NULL);
    return pthread_join(thread, NULL) == 0;
}

TEST(no_wake_is_lost)
{
    CHECK(turns_go_round());
}

/* What lies on the stack where a call has been. */
__attribute__((noinline)) static void use_the_stack(void)
{
    volatile char stack[4096];
    for (size_t i = 0; i < sizeof(stack); i++)
        stack[i] = (char)0xa5;
}

/* In the child of a handler's fork: nobody of the past sleeps there, and who does is heard. */
static void judge_child(void)
{
    use_the_stack();
    dlk_futex_wake(&word, 1, false);
    _exit(turns_go_round() ? 0 : 1);
}

static void fork_at(int call, uint32_t seen)
{
    sleeping other = {.bits = 1};
    watch_forks();
    in_child = false;
    atomic_store(&word, 0);
    atomic_store(&woken, 0);
    atomic_store(&asleep, 0);
    CHECK_EQ_INT(pthread_create(&other.thread, NULL, sleep_once, &other), 0);
    while (atomic_load(&asleep) == 0 || harness_threads_at_work() > 1)
        sched_yield();
    forks_at = call;
    dlk_futex_wait_bits(&word, seen, dlk_clock_now() + DLK_NS_PER_MS, 2);
    if (in_child)
        judge_child();
    CHECK_EQ_INT(forks_at, 0);
    wake_until(1, 1);
    pthread_join(other.thread, NULL);
}

TEST(a_handler_may_fork_wherever_its_thread_is_on_its_way_to_bed)
{
    if (THREAD_SANITIZER)
        LEAVE_OUT("a fork's child starts threads");
    fork_at(1, 0); /* before it is in a list */
    fork_at(1, 1); /* … and would not be */
    fork_at(3, 0); /* before it leaves */
}

TEST(a_pipe_that_cannot_be_made_ready_is_none)
{
    for (int call = 1; call <= 4; call++) {
        dlk_wakeup wakeup = DLK_WAKEUP_NONE;
        fails_at = call;
        CHECK(!dlk_wakeup_open(&wakeup));
        CHECK_EQ_INT(errno, ENOLCK);
        CHECK(wakeup.fd < 0 && wakeup.ringer < 0);
    }
    dlk_wakeup wakeup = DLK_WAKEUP_NONE;
    fails_at = 0;
    CHECK(dlk_wakeup_open(&wakeup));
    dlk_wakeup_close(&wakeup);
}
