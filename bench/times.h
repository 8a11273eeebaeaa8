/* Times of the benchmarks, and of `dlock bench`: the clock, and a histogram. */
#ifndef BENCH_TIMES_H
#define BENCH_TIMES_H

#include <stdint.h>

/* 64 steps an octave: a percentile is at most 1.6 % off. */
#define BENCH_HIST_BITS    6
#define BENCH_HIST_STEPS   (1 << BENCH_HIST_BITS)
#define BENCH_HIST_BUCKETS ((65 - BENCH_HIST_BITS) * BENCH_HIST_STEPS)

typedef struct bench_hist {
    uint64_t buckets[BENCH_HIST_BUCKETS];
} bench_hist;

int64_t bench_now_ns(void);
void bench_hist_add(bench_hist *hist, int64_t ns);
void bench_hist_merge(bench_hist *to, const bench_hist *from);
int64_t bench_hist_percentile(const bench_hist *hist, double percent);
/* How many were below @p ns; exact of a power of two. */
uint64_t bench_hist_below(const bench_hist *hist, int64_t ns);

#endif
