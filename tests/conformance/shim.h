/* This program's own clocks, memory and threads: the library calls what stands here instead of the
 * C library's, because a program's functions go before those of its libraries. */
#ifndef CONFORMANCE_SHIM_H
#define CONFORMANCE_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Added to what the clocks say, in ns. */
extern _Atomic int64_t shim_boot, shim_real;

/* From now on the boot clock runs so many millionths too fast (< 0: too slow). */
void shim_drift(int64_t millionths);
/* What the boot clock would say without all that, in ms. */
int64_t shim_true_ms(void);

/* The @p number-th allocation from now on fails; 0: none. */
void shim_fail_allocation(int number);
/* … of those that the library with this function in it makes by itself, not by way of another one. */
void shim_fail_only_in(void (*function)(void));
/* Whether it has failed. */
bool shim_allocation_failed(void);

/* While true no thread can be made. */
extern atomic_bool shim_no_threads;

#endif
