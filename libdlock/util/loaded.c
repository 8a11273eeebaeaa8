/*
 * Loading libraries; see the header.
 *
 * One mutex for all of them, which a fork takes, too: what a library sets up only once is then done, or
 * not begun, in the child. It waits for it a second at most. Whoever loads waits for locks of others: the
 * dynamic linker's, and that of pthread_atfork, which libcrypto calls and older C libraries hold during a
 * fork. To wait for ever could be for ever. A child that was forked all the same, as on a machine that is
 * so loaded that a second isn't enough, has half of a library and uses none.
 */
#include "util/loaded.h"

#include "util/error.h"
#include "util/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define FORK_WAITS_S 1

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static int cancel_state; /* of the thread that has it, which reads files */
static _Thread_local bool fork_has_it;
static bool torn; /* in a child: what was being set up nobody sets up any more */

static void before_fork(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until); /* there is always one */
    until.tv_sec += FORK_WAITS_S;
    fork_has_it = pthread_mutex_timedlock(&mutex, &until) == 0;
}

static void after_fork(void)
{
    if (fork_has_it)
        (void)pthread_mutex_unlock(&mutex);
    fork_has_it = false;
}

static void after_fork_in_child(void)
{
    if (!fork_has_it) { /* whoever has it isn't here */
        mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        torn = true;
    }
    after_fork();
}

/* Before anybody has the mutex, and by what a fork's child finds begun anew: a fork that has called its
 * handlers already when these come would else leave the mutex taken in the child for ever. So without
 * memory for it that isn't tried again. */
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;
static bool forks_are_watched;

static void watch_forks(void)
{
    forks_are_watched = dlk_fork_watch(before_fork, after_fork, after_fork_in_child);
}

#ifdef DLK_LAZY
/* By name only: found as the dynamic linker finds what a program is linked with, by nothing of ours. */
static void *open_library(const dlk_loaded *library, dlock_error **err)
{
    errno = 0;
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle)
        return handle;
    int number = errno;
    const char *words = dlerror(); /* NOLINT(concurrency-mt-unsafe): a thread's own */
    if (number == ENOMEM) {
        (void)dlk_error_nomem(err);
        return NULL;
    }
    (void)dlk_error_set(err, DLOCK_ENOTSUP, "%s can't be loaded: install %s",
                        library->file, library->install);
    dlk_error_backend(err, words ? words : "");
    return NULL;
}

static dlock_err load(dlk_loaded *library, dlock_error **err)
{
    void *handle = library->file ? open_library(library, err) : NULL;
    if (library->file && !handle)
        return err && *err ? (*err)->code : DLOCK_ENOTSUP;
    for (size_t i = 0; library->file && library->names[i]; i++) {
        void *call = dlsym(handle, library->names[i]);
        if (!call)
            return dlk_error_set(err, DLOCK_ENOTSUP, "%s is too old (no %s): install %s",
                                 library->file, library->names[i], library->install);
        memcpy((char *)library->calls + i * sizeof(call), &call, sizeof(call));
    }
    return DLOCK_OK;
}
#else
static dlock_err load(const dlk_loaded *library, dlock_error **err)
{
    (void)library, (void)err;
    return DLOCK_OK;
}
#endif

static dlock_err make_ready(dlk_loaded *library, dlock_error **err)
{
    dlock_err code = load(library, err);
    if (code == DLOCK_OK && library->set_up)
        code = library->set_up(err);
    if (code == DLOCK_OK)
        atomic_store_explicit(&library->ready, true, memory_order_release);
    return code;
}

dlock_err dlk_loaded_need(dlk_loaded *library, dlock_error **err)
{
    if (torn)
        return dlk_error_set(err, DLOCK_EFORKED,
                             "this process was forked while another thread was setting "
                             "up what is needed here: open a client before, or exec");
    if (atomic_load_explicit(&library->ready, memory_order_acquire))
        return DLOCK_OK;
    (void)pthread_once(&forks_once, watch_forks); /* can't fail */
    if (!forks_are_watched)
        return dlk_error_nomem(err);
    dlk_loaded_begin();
    dlock_err code = DLOCK_OK;
    if (!atomic_load_explicit(&library->ready, memory_order_relaxed))
        code = make_ready(library, err);
    dlk_loaded_end();
    return code;
}

void dlk_loaded_begin(void)
{
    int before;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    (void)pthread_mutex_lock(&mutex); /* a plain one, never taken twice */
    cancel_state = before;
}

void dlk_loaded_end(void)
{
    int before = cancel_state;
    (void)pthread_mutex_unlock(&mutex); /* ours */
    (void)pthread_setcancelstate(before, NULL);
}
