/* Sleeping at a word, by the kernel's futex; see thread.h. */
#include "util/clock.h"
#include "util/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
