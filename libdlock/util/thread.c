/* Threads and forks; see the header. What each system does in its own way is in thread_NAME.c. */
#include "util/thread.h"

#include <signal.h>
#include <stddef.h>

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
    dlk_thread_name(role->name);
    return role->run(role->arg);
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

bool dlk_fork_watch(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    return pthread_atfork(prepare, parent, child) == 0;
}
