/* The one clock of libdlock: nanoseconds of CLOCK_BOOTTIME, which goes on counting while the
 * machine is suspended and never follows the wall clock (a system without it: CLOCK_MONOTONIC). And the date, which is told to people, and which
 * nothing goes by. */
#ifndef DLK_UTIL_CLOCK_H
#define DLK_UTIL_CLOCK_H

#include <stdint.h>

#define DLK_NS_PER_US  INT64_C(1000)
#define DLK_NS_PER_MS  INT64_C(1000000)
#define DLK_NS_PER_SEC INT64_C(1000000000)
/* "Never", as a point in time; far enough from INT64_MAX that small sums can't overflow. */
#define DLK_NEVER (INT64_MAX / 2)

int64_t dlk_clock_now(void);
/* Milliseconds since 1970. */
int64_t dlk_clock_date_ms(void);

/* The point in time @p wait_ms from @p now, which may be DLK_NEVER; negative waits and those of
 * more than a human life mean DLK_NEVER. */
static inline int64_t dlk_clock_after(int64_t now, int64_t wait_ms)
{
    if (wait_ms < 0 || wait_ms >= DLK_NEVER / 2 / DLK_NS_PER_MS)
        return DLK_NEVER;
    int64_t then = now + wait_ms * DLK_NS_PER_MS;
    return then < DLK_NEVER ? then : DLK_NEVER;
}

/* Milliseconds from @p now to @p then, rounded up, at least 0; @p cap for far away. */
int64_t dlk_clock_ms_until(int64_t then, int64_t now, int64_t cap);

#endif
