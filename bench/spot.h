/* A mark that every critical section leaves, of the benchmarks and of `dlock bench`. */
#ifndef BENCH_SPOT_H
#define BENCH_SPOT_H

#include <stdatomic.h>
#include <stdint.h>

/* What the holders of one lock write. Only the lock under test guards last and entries: they are
 * atomic so that a lock that fails shows in the numbers and not as undefined behaviour. Peers in
 * other languages write the same page: 64-bit words in this order, spot n at n * 64 bytes. */
typedef struct bench_spot {
    _Alignas(64) _Atomic int64_t inside; /* who is between acquire and release */
    _Atomic int64_t last;                /* who was before */
    _Atomic int64_t entries;
    _Atomic int64_t overlaps;
} bench_spot;

/* The lock is @p who's, who isn't 0. Returns who had it before, 0 if nobody. */
static inline int64_t bench_enter(bench_spot *spot, int64_t who)
{
    if (atomic_exchange(&spot->inside, who) != 0)
        atomic_fetch_add(&spot->overlaps, 1);
    int64_t last = atomic_load_explicit(&spot->last, memory_order_relaxed);
    int64_t entries = atomic_load_explicit(&spot->entries, memory_order_relaxed);
    atomic_store_explicit(&spot->last, who, memory_order_relaxed);
    atomic_store_explicit(&spot->entries, entries + 1, memory_order_relaxed);
    return last;
}

static inline void bench_exit(bench_spot *spot)
{
    atomic_store(&spot->inside, 0);
}

#endif
