/* What the benchmark programs share: options, workers (threads, processes, or threads of several
 * processes) that start and stop together, and a page on which every critical section leaves a mark.
 *
 * The workers count in their own cache lines and the main thread reads these counts at the
 * beginning and at the end of the measured time, so nothing but the loop itself runs inside it. */
#ifndef BENCH_H
#define BENCH_H

#include "spot.h"
#include "times.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- options ---- */

#define BENCH_CORES_MAX   64
#define BENCH_WORKERS_MAX 1024

typedef struct bench_options {
    const char *uri;  /* what libdlock opens */
    const char *kind; /* of lock: mutex, read, write */
    double secs;
    int workers;
    int processes; /* the workers are threads of so many processes */
    int count;     /* held: so many locks */
    int hold_ms;
    int look_every; /* handover: inspect the queue at each so many hand-overs */
    bool one_name;  /* pairs: all workers take the same lock */
    bool rested;    /* pairs: each lock is left alone for a while before */
    /* the file of the page, NULL: one for this program and its children */
    const char *page;
    int base; /* on the page a worker is known as base + its number + 1 */
    bool cue; /* say "ready" when it is, and wait for a line */
    bool timed;
    int cores[BENCH_CORES_MAX]; /* worker i runs on cores[i % core_count] */
    int core_count;
    char **rest; /* arguments that aren't options */
    int rest_count;
} bench_options;

/* Parses, or says what is wrong and exits. @p rest_count: how many arguments that aren't options
 * there must be; if negative, at least so many. */
bench_options bench_parse(int argc, char **argv, const char *rest_usage, int rest_count);

/* ---- the page ---- */

enum { BENCH_SPOTS = 1024 };

/* The spots of the locks; forked children share them. */
bench_spot *bench_page(const bench_options *options);

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
    uint64_t all_changes;
    uint64_t done, changes, crossings;
    uint64_t least, most; /* done by one worker */
    bench_hist times;
} bench_result;

typedef void bench_body(bench_stage *stage, bench_worker *me, void *shared);

/* Zeroed memory that forked workers share. */
void *bench_share(size_t size);

/* What the workers of one process do together; open and close may be NULL. */
typedef struct bench_troupe {
    void (*open)(const bench_options *options, void *shared); /* before they start */
    bench_body *body;
    void (*close)(void *shared); /* when all of them have ended */
} bench_troupe;

/* All workers are threads of this process. */
void bench_run_threads(const bench_options *options, bench_body *body, void *shared,
                       bench_result *ret);
/* Each worker is a process. */
void bench_run_processes(const bench_options *options, bench_body *body, void *shared,
                         bench_result *ret);
/* As --processes says: 1 is this one, more are forked. */
void bench_run_troupes(const bench_options *options, const bench_troupe *troupe,
                       void *shared, bench_result *ret);

void bench_sleep(double secs);
/* Says "ready" and waits for a line: whoever started this program says when. */
void bench_await_cue(void);

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

/* A worker has the lock after a wait of so long. Called as its holder. */
static inline void bench_took(const bench_stage *stage, bench_worker *me,
                              int64_t waited_ns, bool changed)
{
    if (bench_now(stage) != BENCH_WARMING)
        bench_hist_add(&me->times, waited_ns);
    if (changed)
        bench_count(&me->changes);
    bench_count(&me->done);
}

/* ---- the end ---- */

/* Prints the beginning of a JSON object, without its closing brace. */
void bench_print(const bench_result *result);
/* All of it, for a lock that all wanted. */
void bench_print_contention(const bench_result *result, const bench_spot *spot);
_Noreturn void bench_die(const char *what, const char *why);

#endif
