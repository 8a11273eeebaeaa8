/* In builds with a sanitizer nothing is shimmed, and no row runs that would need it; see shim.h. */
#include "shim.h"

#include "harness/time.h"

_Atomic int64_t shim_boot, shim_real;
atomic_bool shim_no_threads;

void shim_drift(int64_t millionths)
{
    (void)millionths;
}

int64_t shim_true_ms(void)
{
    return now_ms();
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
