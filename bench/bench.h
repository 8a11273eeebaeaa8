/* What the benchmark programs share: options, workers (threads or processes) that start and stop
 * together, and a histogram of times.
 *
 * The workers count in their own cache lines and the main thread reads these counts at the
 * beginning and at the end of the measured time, so nothing but the loop itself runs inside it. */
#ifndef BENCH_H
#define BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- options ---- */

#define BENCH_CORES_MAX 64

typedef struct bench_options {
    const char *uri; /* what libdlock opens */
    double secs;
    int workers;
    int clients;
    int look_every; /* handover: inspect the queue at each so many hand-overs */
    bool timed;
    int cores[BENCH_CORES_MAX]; /* worker i runs on cores[i % core_count] */
    int core_count;
    char **rest; /* arguments that aren't options */
    int rest_count;
} bench_options;

/* Parses, or says what is wrong and exits. */
bench_options bench_parse(int argc, char **argv, const char *rest_usage, int rest_count);

/* ---- times ---- */

/* 16 steps an octave: a percentile is at most 6 % off. */
#define BENCH_HIST_STEPS   16
#define BENCH_HIST_BUCKETS (61 * BENCH_HIST_STEPS)

typedef struct bench_hist {
    uint64_t buckets[BENCH_HIST_BUCKETS];
} bench_hist;

int64_t bench_now_ns(void);
void bench_hist_add(bench_hist *hist, int64_t ns);
void bench_hist_merge(bench_hist *to, const bench_hist *from);
int64_t bench_hist_percentile(const bench_hist *hist, double percent);

/* ---- workers ---- */

typedef enum bench_phase {
    BENCH_STARTING,
    BENCH_WARMING,
    BENCH_MEASURED,
    BENCH_OVER
} bench_phase;

typedef struct bench_worker {
    _Alignas(128) _Atomic uint64_t done; /* what the rate is made of */
    _Atomic uint64_t changes;            /* those that came from another worker */
    _Atomic uint64_t crossings;          /* … from another core */
    bench_hist times;
    int number;
} bench_worker;

/* Lies in memory that forked workers share. */
typedef struct bench_stage {
    _Alignas(128) _Atomic int phase;
    _Alignas(128) _Atomic int ready;
    const bench_options *options; /* the same address in forked workers */
    int count;
    bench_worker workers[];
} bench_stage;

typedef struct bench_result {
    double secs;
    double cpu_secs; /* of all workers */
    uint64_t total;  /* done, the time before and after the measured one included */
    uint64_t done, changes, crossings;
    uint64_t least, most; /* done by one worker */
    bench_hist times;
} bench_result;

typedef void bench_body(bench_stage *stage, bench_worker *me, void *shared);

/* Zeroed memory that forked workers share. */
void *bench_share(size_t size);

void bench_run_threads(const bench_options *options, bench_body *body, void *shared,
                       bench_result *ret);
void bench_run_processes(const bench_options *options, bench_body *body, void *shared,
                         bench_result *ret);

/* A worker is prepared: waits until all are. */
void bench_ready(bench_stage *stage);

static inline bench_phase bench_now(const bench_stage *stage)
{
    return (bench_phase)atomic_load_explicit(&stage->phase, memory_order_relaxed);
}

/* Only the worker itself writes its counts, so this needs no atomic addition. */
static inline void bench_count(_Atomic uint64_t *count)
{
    uint64_t value = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, value + 1, memory_order_relaxed);
}

/* Runs @p pair until the time is over; with --timed each one between two looks at the clock. */
#define BENCH_LOOP(stage, me, pair)                                                      \
    do {                                                                                 \
        if (!(stage)->options->timed) {                                                  \
            while (bench_now(stage) != BENCH_OVER) {                                     \
                pair;                                                                    \
                bench_count(&(me)->done);                                                \
            }                                                                            \
            break;                                                                       \
        }                                                                                \
        for (bench_phase phase_; (phase_ = bench_now(stage)) != BENCH_OVER;) {           \
            int64_t from_ = bench_now_ns();                                              \
            pair;                                                                        \
            int64_t took_ = bench_now_ns() - from_;                                      \
            if (phase_ == BENCH_MEASURED)                                                \
                bench_hist_add(&(me)->times, took_);                                     \
            bench_count(&(me)->done);                                                    \
        }                                                                                \
    } while (0)

/* ---- the end ---- */

/* Prints the beginning of a JSON object, without its closing brace. */
void bench_print(const bench_result *result);
_Noreturn void bench_die(const char *what, const char *why);

#endif
