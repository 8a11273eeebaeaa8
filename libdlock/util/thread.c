/* Threads, sleeping and forks; see the header. */
#include "util/thread.h"

#include "util/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Atomic uint32_t dlk_fork_generation;

static _Atomic uint64_t last_number;
static _Thread_local uint64_t own_number;

uint64_t dlk_thread_number(void)
{
    if (!own_number)
        own_number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    return own_number;
}

/* The thread names itself: naming it from outside goes through /proc/self/task, and having been
 * looked up there makes the end of the process milliseconds slower. */
static void *begin(void *arg)
{
    const dlk_thread_role *role = arg;
    (void)pthread_setname_np(pthread_self(),
                             role->name); /* for who looks with a debugger */
    return role->run(role->arg);
}

bool dlk_thread_has_cores(void)
{
    cpu_set_t cores; /* the call fails where there are more than fit */
    return sched_getaffinity(0, sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) > 1;
}

bool dlk_thread_start(pthread_t *thread, const dlk_thread_role *role)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    int rc = pthread_create(thread, NULL, begin, (void *)(uintptr_t)role);
    (void)pthread_sigmask(SIG_SETMASK, &before,
                          NULL); /* restoring a valid mask can't fail */
    return rc == 0;
}

/*
 * The kernel has no futex wait on the boot clock. We wait on the monotonic clock for the time
 * that is left; after a suspend the sleeper comes late, and looks at the boot clock then.
 */
void dlk_futex_wait(dlk_futex *word, uint32_t seen, int64_t until, bool shared)
{
    struct timespec left, *timeout = NULL;
    if (until < DLK_NEVER) {
        int64_t ns = until - dlk_clock_now();
        if (ns <= 0)
            return;
        left = (struct timespec){.tv_sec = ns / DLK_NS_PER_SEC,
                                 .tv_nsec = ns % DLK_NS_PER_SEC};
        timeout = &left;
    }
    int saved = errno;
    /* EAGAIN, EINTR and ETIMEDOUT all mean the same to the caller: look again. */
    (void)syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen,
                  timeout, NULL, 0);
    errno = saved;
}

void dlk_futex_wake(dlk_futex *word, int sleepers, bool shared)
{
    int saved = errno;
    /* Fails only for a word that is no longer mapped, where nobody can sleep. */
    (void)syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, sleepers,
                  NULL, NULL, 0);
    errno = saved;
}

void dlk_futex_wait_bits(dlk_futex *word, uint32_t seen, int64_t until, uint32_t bits)
{
    struct timespec then, *timeout = NULL;
    if (until < DLK_NEVER) {
        int64_t ns = until - dlk_clock_now();
        if (ns <= 0)
            return;
        (void)clock_gettime(CLOCK_MONOTONIC, &then); /* this one wants a point in time */
        ns += then.tv_nsec;
        then.tv_sec += ns / DLK_NS_PER_SEC;
        then.tv_nsec = ns % DLK_NS_PER_SEC;
        timeout = &then;
    }
    int saved = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, timeout, NULL, bits);
    errno = saved;
}

void dlk_futex_wake_bits(dlk_futex *word, uint32_t bits)
{
    int saved = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits);
    errno = saved;
}

bool dlk_fork_watch(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    return pthread_atfork(prepare, parent, child) == 0;
}
