/* Forks, and what sanitizers make of them.
 *
 * AddressSanitizer's allocator, unlike libc's, is copied by a fork as it is: where another thread
 * was inside, its lock is taken in the child for ever. (GCC holds it over a fork since 14, LLVM
 * since 18.) So under it a test forks only while its other threads sleep, and one whose threads
 * are at work all the time can't fork at all.
 *
 * ThreadSanitizer has a thread of its own, and can't follow those that a fork's child starts
 * beside its parent's. */
#ifndef HARNESS_FORK_H
#define HARNESS_FORK_H

#include <stdbool.h>
#include <sys/types.h>

/* gcc says it so, clang so. */
#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER true
#elif defined(__has_feature)
#define THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define THREAD_SANITIZER false
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER true
#elif defined(__has_feature)
#define ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define ADDRESS_SANITIZER false
#endif

/* fork(2), which under AddressSanitizer waits for the other threads to sleep. A failed check and -1
 * when they never do. */
pid_t harness_fork(void);

/* Whether that ends the program, as an assertion's failure does: tried in a fork. */
bool harness_aborts(void (*act)(void));

/* How many threads of this process don't sleep; the caller is one. */
int harness_threads_at_work(void);

#endif
