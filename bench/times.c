#include "times.h"

#include <time.h>

int64_t bench_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* can't fail with a clock that exists */
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static unsigned bucket_of(uint64_t ns)
{
    if (ns < BENCH_HIST_STEPS)
        return (unsigned)ns;
    unsigned octave = 63U - (unsigned)__builtin_clzll(ns); /* BENCH_HIST_BITS or more */
    return (octave - BENCH_HIST_BITS + 1) * BENCH_HIST_STEPS +
           (unsigned)(ns >> (octave - BENCH_HIST_BITS)) % BENCH_HIST_STEPS;
}

/* The upper end of a bucket. */
static int64_t bucket_end(unsigned bucket)
{
    if (bucket < BENCH_HIST_STEPS)
        return bucket;
    unsigned shift = bucket / BENCH_HIST_STEPS - 1;
    uint64_t step = BENCH_HIST_STEPS + bucket % BENCH_HIST_STEPS;
    return (int64_t)(((step + 1) << shift) - 1);
}

void bench_hist_add(bench_hist *hist, int64_t ns)
{
    hist->buckets[bucket_of(ns > 0 ? (uint64_t)ns : 0)]++;
}

void bench_hist_merge(bench_hist *to, const bench_hist *from)
{
    for (unsigned i = 0; i < BENCH_HIST_BUCKETS; i++)
        to->buckets[i] += from->buckets[i];
}

int64_t bench_hist_percentile(const bench_hist *hist, double percent)
{
    uint64_t count = 0, seen = 0;
    for (unsigned i = 0; i < BENCH_HIST_BUCKETS; i++)
        count += hist->buckets[i];
    for (unsigned i = 0; i < BENCH_HIST_BUCKETS; i++) {
        seen += hist->buckets[i];
        if (seen > 0 && (double)seen >= (double)count * percent / 100)
            return bucket_end(i);
    }
    return 0;
}

uint64_t bench_hist_below(const bench_hist *hist, int64_t ns)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < BENCH_HIST_BUCKETS && bucket_end(i) < ns; i++)
        count += hist->buckets[i];
    return count;
}
