/*
 * Time for the dlock command: the clock that leases run on, and timers on it that also count
 * while the machine is suspended, which the time-outs of poll don't.
 */
#include "cli.h"

#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int64_t cli_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now); /* can't fail: Linux has it since 2.6.39 */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int cli_timer_new(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void cli_timer_set(int timer, int64_t at_ms)
{
    struct itimerspec at = {0};
    if (at_ms >= 0) {
        at.it_value.tv_sec = (time_t)(at_ms / 1000);
        at.it_value.tv_nsec = (long)(at_ms % 1000) * 1000000;
        /* All zeros would stop it. */
        if (at_ms == 0)
            at.it_value.tv_nsec = 1;
    }
    (void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &at,
                          NULL); /* valid by construction */
}

bool cli_timer_fired(int timer)
{
    uint64_t times;
    return read(timer, &times, sizeof times) == (ssize_t)sizeof times;
}
