/* Reading the boot clock, and the date. */
#include "util/clock.h"

#include <time.h>

/* POSIX's doesn't say whether it goes on while the machine is suspended: on macOS it does. */
#ifdef CLOCK_BOOTTIME
#define BOOT_CLOCK CLOCK_BOOTTIME
#else
#define BOOT_CLOCK CLOCK_MONOTONIC
#endif

int64_t dlk_clock_now(void)
{
    struct timespec t;
    if (clock_gettime(BOOT_CLOCK, &t) != 0)
        return 0; /* cannot happen on a Linux newer than 2.6.39 */
    return (int64_t)t.tv_sec * DLK_NS_PER_SEC + t.tv_nsec;
}

int64_t dlk_clock_date_ms(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_REALTIME, &t) != 0)
        return 0; /* cannot happen */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / DLK_NS_PER_MS;
}

int64_t dlk_clock_ms_until(int64_t then, int64_t now, int64_t cap)
{
    if (then <= now)
        return 0;
    int64_t ms = (then - now - 1) / DLK_NS_PER_MS + 1;
    return ms < cap ? ms : cap;
}
