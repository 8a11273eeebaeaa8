/* How long this machine stood still. A virtual machine may be stopped for seconds by its host, and a
 * loaded one lets nobody run for as long: what a test limits is the time in which it could run.
 *
 * A process on each core (of the first eight) that is there from the program's start naps, and
 * notes what its naps took too long; forked children may ask as well. The core that stood still
 * longest counts. A process that a test itself stops doesn't. */
#ifndef HARNESS_AWAKE_H
#define HARNESS_AWAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The boot clock, in ns, without the time in which the machine stood still; where nobody watches,
 * it is the boot clock. */
int64_t awake_now_ns(void);

/* How long it stood still at once, at most, since the last awake_forget(). */
int64_t awake_longest_ms(void);
void awake_forget(void);

/* In the environment of a program that a test runs beside itself: nobody watches there. */
#define AWAKE_NOT_HERE "DLK_TEST_UNWATCHED"

/* As fork(); the child ends with us, and keeps nobody waiting who reads our output. */
pid_t awake_fork_watcher(void);
/* Whether this child is one of those that watch each core. */
bool awake_is_watcher(pid_t pid);

/* Runs @p run(name, ttl_ms) with this lease; where the machine was too slow for it to keep, which
 * @p run says by TOO_SLOW() instead of failing, again with longer ones, up to @p most_ms. */
void awake_with_lease_from(int64_t ttl_ms, int64_t most_ms,
                           void (*run)(const char *name, int64_t ttl_ms),
                           const char *name);
void awake_too_slow(void);

#define TOO_SLOW()                                                                       \
    do {                                                                                 \
        awake_too_slow();                                                                \
        return;                                                                          \
    } while (0)

#endif
