/* In builds with a sanitizer nothing is shimmed, and no row runs that would need it; see shim.h. */
#include "shim.h"

#include <time.h>

_Atomic int64_t shim_boot, shim_real;
atomic_bool shim_no_threads;

void shim_drift(int64_t millionths)
{
    (void)millionths;
}

int64_t shim_true_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void shim_fail_allocation(int number)
{
    (void)number;
}

void shim_fail_only_in(void (*function)(void))
{
    (void)function;
}

bool shim_allocation_failed(void)
{
    return false;
}
