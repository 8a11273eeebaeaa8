/* One clock, one nap, and one way to wait for something. */
#ifndef HARNESS_TIME_H
#define HARNESS_TIME_H

#include "harness/awake.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* The boot clock, the same for all processes; in a program that has put a clock of its own in the
 * C library's place, that one. */
static inline int64_t now_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_BOOTTIME, &now); /* it is always there */
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline int64_t now_ms(void)
{
    return now_ns() / 1000000;
}

/* The true one, without the time in which the machine stood still: for limits. */
static inline int64_t awake_now_ms(void)
{
    return awake_now_ns() / 1000000;
}

/* Whole, whatever signals come. */
static inline void nap_us(int64_t us)
{
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
}

static inline void nap_ms(int64_t ms)
{
    nap_us(ms * 1000);
}

/* How long to wait for what is sure to come. */
static inline int64_t patience_ms(void)
{
    return getenv("DLK_TEST_SLOW") ? 60000 : 20000;
}

/* Whether the condition is met in time; @p turn is what is done between two looks. A condition that
 * holds for a moment only counts. */
#define AWAITED_BY(turn, condition, limit_ms)                                            \
    (__extension__({                                                                     \
        int64_t await_end = awake_now_ms() + (limit_ms);                                 \
        bool await_met;                                                                  \
        while (!(await_met = (condition)) && awake_now_ms() < await_end)                 \
            turn;                                                                        \
        await_met;                                                                       \
    }))
#define AWAITED(condition) AWAITED_BY(nap_ms(1), condition, AWAIT_LIMIT_MS)

/* Fails and ends the test unless it is. With harness/harness.h. */
#define AWAIT_OR_RETURN(turn, condition, limit_ms, text)                                 \
    do {                                                                                 \
        bool await_held = AWAITED_BY(turn, condition, limit_ms);                         \
        if (!harness_check(__FILE__, __LINE__, await_held, text))                        \
            return;                                                                      \
    } while (0)
#define AWAIT_BY(turn, condition)                                                        \
    AWAIT_OR_RETURN(turn, condition, AWAIT_LIMIT_MS, #condition)
#define AWAIT_MS(condition, limit_ms)                                                    \
    AWAIT_OR_RETURN(nap_ms(1), condition, limit_ms, #condition)
#define AWAIT(condition) AWAIT_OR_RETURN(nap_ms(1), condition, AWAIT_LIMIT_MS, #condition)

/* A folder whose servers take longer has a limit of its own. */
#ifndef AWAIT_LIMIT_MS
#define AWAIT_LIMIT_MS patience_ms()
#endif

/* Runs @p run(name, ttl_ms) with this lease, which it needs to keep; see harness/awake.h. */
#define WITH_LEASE_FROM(ttl_ms, run)                                                     \
    awake_with_lease_from((ttl_ms), patience_ms(), (run), __func__)

#endif
