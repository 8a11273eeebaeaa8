/* What the library calls of the system, taken over at link time (--wrap, meson.build): each leads to
 * the strands, or gives what is the same in every execution. */
#include "backend.h"
#include "strand.h"

#include "engine/engine.h"
#include "util/clock.h"
#include "util/point.h"
#include "util/rand.h"
#include "util/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

/* The linker's names. */
int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *how);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setcancelstate(int state, int *before);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int __wrap_sched_yield(void);
int64_t __wrap_dlk_clock_now(void);
uint64_t __wrap_dlk_thread_number(void);
bool __wrap_dlk_thread_has_cores(void);
bool __wrap_dlk_rand_bytes(void *out, size_t size);
bool __wrap_dlk_rand_uuid(char out[DLK_UUID_SIZE]);
void __wrap_dlk_futex_wait(dlk_futex *word, uint32_t seen, int64_t until, bool shared);
void __wrap_dlk_futex_wake(dlk_futex *word, int sleepers, bool shared);
void __wrap_dlk_futex_wait_bits(dlk_futex *word, uint32_t seen, int64_t until,
                                uint32_t bits);
void __wrap_dlk_futex_wake_bits(dlk_futex *word, uint32_t bits);
void __real_dlk_engine_await(dlk_engine *engine, dlk_sleeper *me, const bool *over,
                             int64_t until);
void __wrap_dlk_engine_await(dlk_engine *engine, dlk_sleeper *me, const bool *over,
                             int64_t until);

/* Every DLK_POINT comes here. */
void (*dlk_point_hook)(const char *name);

/* ---- threads ---- */

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *how)
{
    (void)how;
    memset(m, 0, sizeof(*m));
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
    static const pthread_mutex_t unused;
    if (memcmp(m, &unused, sizeof(unused)) != 0)
        explore_fail("a mutex is destroyed that somebody has");
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    strand_lock(m);
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    backends_check(m);
    strand_unlock(m);
    return 0;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how,
                          void *(*run)(void *), void *arg)
{
    (void)how;
    strand *made = strand_start(run, arg, false);
    *thread = (pthread_t)made;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    strand_point("join");
    void *its = strand_join((strand *)thread); // NOLINT(performance-no-int-to-ptr)
    if (result)
        *result = its;
    return 0;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread;
    (void)name;
    return 0;
}

int __wrap_pthread_setcancelstate(int state, int *before)
{
    int *mine = strand_cancel_state();
    if (before)
        *before = *mine;
    *mine = state;
    return 0;
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    (void)how;
    (void)set;
    (void)before;
    return 0;
}

int __wrap_sched_yield(void)
{
    strand_yield();
    return 0;
}

/* Each strand's own. */
uint64_t __wrap_dlk_thread_number(void)
{
    for (int i = 0; i < STRANDS; i++)
        if (strand_is(strand_self(), i))
            return (uint64_t)i + 1;
    return 0;
}

bool __wrap_dlk_thread_has_cores(void)
{
    return true;
}

/* ---- futexes ---- */

void __wrap_dlk_futex_wait_bits(dlk_futex *word, uint32_t seen, int64_t until,
                                uint32_t bits)
{
    strand_point("futex");
    if (atomic_load(word) == seen && until > strands_now())
        strand_sleep(word, bits, until, "futex");
}

void __wrap_dlk_futex_wait(dlk_futex *word, uint32_t seen, int64_t until, bool shared)
{
    (void)shared;
    __wrap_dlk_futex_wait_bits(word, seen, until, UINT32_MAX);
}

void __wrap_dlk_futex_wake(dlk_futex *word, int sleepers, bool shared)
{
    (void)shared;
    strand_point("wake");
    strand_wake(word, sleepers, UINT32_MAX);
}

void __wrap_dlk_futex_wake_bits(dlk_futex *word, uint32_t bits)
{
    strand_point("gong");
    strand_wake(word, STRANDS, bits);
}

/* Only to know what whoever sleeps waits for. */
void __wrap_dlk_engine_await(dlk_engine *engine, dlk_sleeper *me, const bool *over,
                             int64_t until)
{
    const bool *before = strand_awaits(over);
    __real_dlk_engine_await(engine, me, over, until);
    (void)strand_awaits(before);
}

/* ---- time and chance ---- */

int64_t __wrap_dlk_clock_now(void)
{
    return strands_now();
}

bool __wrap_dlk_rand_bytes(void *out, size_t size)
{
    memset(out, 42, size);
    return true;
}

bool __wrap_dlk_rand_uuid(char out[DLK_UUID_SIZE])
{
    static const char always[DLK_UUID_SIZE] = "00000000-0000-4000-8000-000000000000";
    memcpy(out, always, sizeof(always));
    return true;
}
