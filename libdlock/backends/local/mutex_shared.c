/*
 * The mutex of a table that processes share. It is robust: a process that dies in it leaves the table to whoever enters
 * next, who rebuilds it first. A process that is STOPPED in it (SIGSTOP, a debugger, the freezer)
 * isn't dead, and nobody else gets in: so nobody waits here for long, and who gives up can say
 * whom it was waiting for.
 */
#include "backends/local/mutex.h"

#include "backends/local/process.h"
#include "util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

/* gcc says it so, clang so. */
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN
#endif
#endif

/* gcc 12's ThreadSanitizer doesn't see clocklock. Telling it by hand isn't the same: in the child of a
 * process with threads it passes over every call, the unlock too, but not over what it is told. */
#ifdef WITH_TSAN
#define WAIT_CLOCK                     CLOCK_REALTIME
#define mutex_lock_until(mutex, until) pthread_mutex_timedlock(mutex, until)
#else
#define WAIT_CLOCK                     CLOCK_MONOTONIC
#define mutex_lock_until(mutex, until) pthread_mutex_clocklock(mutex, WAIT_CLOCK, until)
#endif

#define SLICE_MS 10
#define SPINS    40 /* about 2 µs: longer than a section takes, far shorter than sleeping */

int dlk_mutex_share(pthread_mutexattr_t *attributes)
{
    int rc = pthread_mutexattr_setpshared(attributes, PTHREAD_PROCESS_SHARED);
    return rc == 0 ? pthread_mutexattr_setrobust(attributes, PTHREAD_MUTEX_ROBUST) : rc;
}

void dlk_mutex_mended(dlk_table *table)
{
    (void)pthread_mutex_consistent(&table->head->mutex); /* we own it and it was not */
}

/* The process in the mutex, 0 unknown. */
static uint32_t who_is_inside(const dlk_table *table)
{
    uint32_t pid = atomic_load_explicit(&table->head->inside, memory_order_relaxed);
#ifdef __GLIBC__
    /* Just coming or going: glibc keeps the thread, which /proc shows under its number too. */
    if (pid == 0)
        pid = (uint32_t)table->head->mutex.__data.__lock & UINT32_C(0x3fffffff);
#endif
    return pid;
}

static bool is_stopped(char state)
{
    return state == 'T' || state == 't';
}

void dlk_table_describe_inside(const dlk_table *table, char *text, size_t size)
{
    uint32_t pid = who_is_inside(table);
    char state = pid ? dlk_process_state(pid) : '?';
    char name[DLK_MEMBER_NAME] = "unknown client";
    for (uint32_t ref = 1; ref <= table->member_count; ref++) {
        const dlk_member *member = dlk_member_at(table, ref);
        if (pid != 0 && (uint32_t)DLK_GET(member->word) == pid)
            dlk_member_name(member, name);
    }
    (void)snprintf(text, size, "process %u (%.128s), which %s", pid,
                   name, /* may be cut */
                   is_stopped(state) ? "is stopped" : "doesn't go on");
}

static int wait_for_mutex(dlk_table *table, int ms)
{
    struct timespec until;
    if (clock_gettime(WAIT_CLOCK, &until) != 0)
        return errno;
    until.tv_nsec += (long)ms * DLK_NS_PER_MS;
    until.tv_sec += until.tv_nsec / DLK_NS_PER_SEC;
    until.tv_nsec %= DLK_NS_PER_SEC;
    return mutex_lock_until(&table->head->mutex, &until);
}

/* Whether a try is worth its price; where we can't see it, it is. */
static bool looks_free(const dlk_table *table)
{
#ifdef __GLIBC__
    return __atomic_load_n(&table->head->mutex.__data.__lock, __ATOMIC_RELAXED) == 0;
#else
    return table != NULL;
#endif
}

int dlk_mutex_lock_shared(dlk_table *table, int patience)
{
    int rc = pthread_mutex_trylock(&table->head->mutex);
    for (int i = 0; rc == EBUSY && i < SPINS; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
        if (looks_free(table))
            rc = pthread_mutex_trylock(&table->head->mutex);
    }
    if (rc != EBUSY || patience == 0)
        return rc;
    for (int waited = 0; waited < patience; waited += SLICE_MS) {
        rc = wait_for_mutex(table, SLICE_MS);
        /* One that runs will be out soon, if it gets a processor; one that is stopped won't. */
        if (rc != ETIMEDOUT || is_stopped(dlk_process_state(who_is_inside(table))))
            return rc;
    }
    return rc;
}
