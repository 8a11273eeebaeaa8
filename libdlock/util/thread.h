/* What we need of threads: a number for the calling one, a place to sleep that another thread
 * can end, starting a thread with all signals blocked, and knowing that we are a fork's child. */
#ifndef DLK_UTIL_THREAD_H
#define DLK_UTIL_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Given at a thread's first call, never 0, never given again in this process. */
uint64_t dlk_thread_number(void);

/* What a new thread is and does. */
typedef struct dlk_thread_role {
    const char *name; /* at most 15 characters */
    void *(*run)(void *);
    void *arg;
} dlk_thread_role;

/* Starts a thread that takes no signals; false when the system refuses. @p role has to last until
 * it runs: it lies in what the thread works on, so that a fork in between leaves nothing behind. */
bool dlk_thread_start(pthread_t *thread, const dlk_thread_role *role);

/* Names the calling thread, for who looks with a debugger. */
void dlk_thread_name(const char *name);

/* Whether the calling thread may run on more than one core. */
bool dlk_thread_has_cores(void);

/*
 * A futex word (the kernel's on Linux, futex_posix.c elsewhere). A sleeper reads it, decides to sleep, and
 * sleeps only while it is unchanged; whoever has news changes it and then wakes. A wake may come for nothing: always look again.
 * Safe in signal handlers. `shared` words lie in a mapping that several processes use.
 */
typedef _Atomic uint32_t dlk_futex;

/* Sleeps while *word == seen, until @p until (boot clock, ns) at the latest. */
void dlk_futex_wait(dlk_futex *word, uint32_t seen, int64_t until, bool shared);
void dlk_futex_wake(dlk_futex *word, int sleepers, bool shared);
/* Of those who sleep at one private word, the ones that have some of these bits. */
void dlk_futex_wait_bits(dlk_futex *word, uint32_t seen, int64_t until, uint32_t bits);
void dlk_futex_wake_bits(dlk_futex *word, uint32_t bits);

/* How often this process has been forked into being since it loaded us: an object that was made
 * in another generation belongs to a parent. */
extern _Atomic uint32_t dlk_fork_generation;

/* Calls @p child in every fork's child from now on, before fork returns there (and @p prepare,
 * @p parent around the fork); false without memory. */
bool dlk_fork_watch(void (*prepare)(void), void (*parent)(void), void (*child)(void));

#endif
