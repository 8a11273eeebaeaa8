/* A histogram of durations in powers of two: cheap enough to keep always. */
#ifndef DLK_UTIL_HIST_H
#define DLK_UTIL_HIST_H

#include <stdint.h>

#define DLK_HIST_BUCKETS                                                                 \
    44 /* the last one holds everything from 2^43 ns, some two hours */

typedef struct dlk_hist {
    int64_t count, sum, max; /* sum and max in ns */
    /* [i]: durations in [2^i, 2^(i+1)) ns; [0] has 0 too */
    int64_t bucket[DLK_HIST_BUCKETS];
} dlk_hist;

static inline void dlk_hist_add(dlk_hist *hist, int64_t ns)
{
    if (ns < 1)
        ns = 1;
    int log = 63 - __builtin_clzll((unsigned long long)ns);
    hist->bucket[log < DLK_HIST_BUCKETS ? log : DLK_HIST_BUCKETS - 1]++;
    hist->count++;
    hist->sum += ns;
    if (ns > hist->max)
        hist->max = ns;
}

/* The upper bound of the bucket in which the @p percent smallest durations end; 0 when empty. */
static inline int64_t dlk_hist_percentile(const dlk_hist *hist, int percent)
{
    int64_t want = (hist->count * percent + 99) / 100, seen = 0;
    for (int i = 0; i < DLK_HIST_BUCKETS; i++) {
        seen += hist->bucket[i];
        if (seen >= want && seen > 0)
            return (INT64_C(2) << i) < hist->max ? INT64_C(2) << i : hist->max;
    }
    return 0;
}

#endif
