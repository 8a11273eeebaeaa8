/* Workers of the benchmark programs: they start together, are counted over the measured time, and
 * end together. See the header. */
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long workers may take to prepare, or to leave their loops, before something is wrong. */
enum { PATIENCE_S = 20 };

typedef struct actor {
    bench_stage *stage;
    bench_worker *worker;
    bench_body *body;
    void *shared;
} actor;

void *bench_share(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_die("mmap", strerrordesc_np(errno));
    return memory;
}

static bench_stage *new_stage(const bench_options *options)
{
    size_t count = (size_t)options->workers;
    bench_stage *stage = bench_share(sizeof(*stage) + count * sizeof(stage->workers[0]));
    stage->options = options;
    stage->count = options->workers;
    for (int i = 0; i < stage->count; i++)
        stage->workers[i].number = i;
    return stage;
}

void bench_sleep(double secs)
{
    struct timespec left = {.tv_sec = (time_t)secs,
                            .tv_nsec = (long)((secs - (double)(time_t)secs) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

void bench_ready(bench_stage *stage)
{
    atomic_fetch_add(&stage->ready, 1);
    while (bench_now(stage) == BENCH_STARTING)
        bench_sleep(0.0005);
}

void bench_await_cue(void)
{
    char line[16];
    if (puts("ready") < 0 || fflush(stdout) != 0 || !fgets(line, sizeof(line), stdin))
        bench_die("--cue", "nobody says when to start");
}

/* ---- threads of a process ---- */

static void take_place(const bench_options *options, int number)
{
    if (options->core_count == 0)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)options->cores[number % options->core_count], &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        bench_die("sched_setaffinity", strerrordesc_np(errno));
}

static void *act(void *argument)
{
    const actor *me = argument;
    take_place(me->stage->options, me->worker->number);
    me->body(me->stage, me->worker, me->shared);
    return NULL;
}

static pthread_t threads[BENCH_WORKERS_MAX];
static actor actors[BENCH_WORKERS_MAX];

/* The workers from @p first on become threads of this process. */
static void start_threads(bench_stage *stage, int first, int count, bench_body *body,
                          void *shared)
{
    for (int i = first; i < first + count; i++) {
        actors[i] = (actor){stage, &stage->workers[i], body, shared};
        int problem = pthread_create(&threads[i], NULL, act, &actors[i]);
        if (problem)
            bench_die("pthread_create", strerrordesc_np(problem));
    }
}

static void join_threads(int first, int count)
{
    for (int i = first; i < first + count; i++)
        (void)pthread_join(threads[i], NULL);
}

/* ---- processes ---- */

static void be_child(bench_stage *stage, int first, int count, const bench_troupe *troupe,
                     void *shared)
{
    /* So that none is left behind when this program gives up. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (troupe->open)
        troupe->open(stage->options, shared);
    start_threads(stage, first, count, troupe->body, shared);
    join_threads(first, count);
    if (troupe->close)
        troupe->close(shared);
    _exit(0);
}

static pid_t children[BENCH_WORKERS_MAX];

static void start_children(bench_stage *stage, int processes, const bench_troupe *troupe,
                           void *shared)
{
    int each = stage->count / processes;
    for (int i = 0; i < processes; i++) {
        children[i] = fork();
        if (children[i] < 0)
            bench_die("fork", strerrordesc_np(errno));
        if (children[i] == 0)
            be_child(stage, i * each, each, troupe, shared);
    }
}

static void await_ends(int count)
{
    int64_t limit = bench_now_ns() + PATIENCE_S * INT64_C(1000000000);
    while (count > 0) {
        int status;
        pid_t gone = waitpid(-1, &status, WNOHANG);
        if (gone > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
            bench_die("end", "a worker failed");
        if (gone > 0)
            count--;
        else if (bench_now_ns() > limit)
            bench_die("end", "a worker doesn't end");
        else
            bench_sleep(0.001);
    }
}

/* ---- measuring ---- */

static void await_ready(bench_stage *stage)
{
    int64_t limit = bench_now_ns() + PATIENCE_S * INT64_C(1000000000);
    while (atomic_load(&stage->ready) < stage->count) {
        int status;
        pid_t gone = waitpid(-1, &status, WNOHANG);
        if (gone > 0 || bench_now_ns() > limit)
            bench_die("start", gone > 0 ? "a worker ended" : "a worker isn't ready");
        bench_sleep(0.001);
    }
}

static bench_result sum(const bench_stage *stage)
{
    bench_result all = {.least = UINT64_MAX};
    for (int i = 0; i < stage->count; i++) {
        const bench_worker *worker = &stage->workers[i];
        all.done += atomic_load(&worker->done);
        all.changes += atomic_load(&worker->changes);
        all.crossings += atomic_load(&worker->crossings);
    }
    return all;
}

static double cpu_of(clockid_t clock)
{
    struct timespec used = {0};
    /* 0 for a process that is gone: await_ends says so */
    (void)clock_gettime(clock, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static double cpu_secs(int child_count)
{
    double secs = cpu_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < child_count; i++) {
        clockid_t clock;
        if (clock_getcpuclockid(children[i], &clock) == 0)
            secs += cpu_of(clock);
    }
    return secs;
}

/* What each worker had done before, and what the busiest and the idlest one did since. */
static uint64_t before_each[BENCH_WORKERS_MAX];

static void note_each(const bench_stage *stage)
{
    for (int i = 0; i < stage->count; i++)
        before_each[i] = atomic_load(&stage->workers[i].done);
}

static void compare_each(const bench_stage *stage, bench_result *result)
{
    for (int i = 0; i < stage->count; i++) {
        uint64_t done = atomic_load(&stage->workers[i].done) - before_each[i];
        result->least = done < result->least ? done : result->least;
        result->most = done > result->most ? done : result->most;
    }
}

/* Lets the workers run, and reads their counts at the beginning and at the end. */
static void measure(bench_stage *stage, int child_count, bench_result *ret)
{
    await_ready(stage);
    if (stage->options->cue)
        bench_await_cue();
    atomic_store(&stage->phase, BENCH_WARMING);
    bench_sleep(stage->options->secs / 10);
    atomic_store(&stage->phase, BENCH_MEASURED);
    bench_result before = sum(stage);
    note_each(stage);
    double cpu_before = cpu_secs(child_count);
    int64_t from = bench_now_ns();
    bench_sleep(stage->options->secs);
    bench_result after = sum(stage);
    compare_each(stage, &after);
    int64_t to = bench_now_ns();
    after.cpu_secs = cpu_secs(child_count) - cpu_before;
    atomic_store(&stage->phase, BENCH_OVER);
    after.done -= before.done;
    after.changes -= before.changes;
    after.crossings -= before.crossings;
    after.secs = (double)(to - from) / 1e9;
    *ret = after;
}

static void finish(const bench_stage *stage, bench_result *result)
{
    bench_result all = sum(stage);
    result->total = all.done;
    result->all_changes = all.changes;
    for (int i = 0; i < stage->count; i++)
        bench_hist_merge(&result->times, &stage->workers[i].times);
}

/* ---- the three ways to run ---- */

static void run_here(bench_stage *stage, const bench_troupe *troupe, void *shared,
                     bench_result *ret)
{
    if (troupe->open)
        troupe->open(stage->options, shared);
    start_threads(stage, 0, stage->count, troupe->body, shared);
    measure(stage, 0, ret);
    join_threads(0, stage->count);
    finish(stage, ret);
    if (troupe->close)
        troupe->close(shared);
}

static void run_forked(bench_stage *stage, int processes, const bench_troupe *troupe,
                       void *shared, bench_result *ret)
{
    if (stage->count % processes != 0)
        bench_die("--processes", "doesn't divide the number of workers");
    start_children(stage, processes, troupe, shared);
    measure(stage, processes, ret);
    await_ends(processes);
    finish(stage, ret);
}

void bench_run_threads(const bench_options *options, bench_body *body, void *shared,
                       bench_result *ret)
{
    run_here(new_stage(options), &(bench_troupe){.body = body}, shared, ret);
}

void bench_run_processes(const bench_options *options, bench_body *body, void *shared,
                         bench_result *ret)
{
    run_forked(new_stage(options), options->workers, &(bench_troupe){.body = body},
               shared, ret);
}

void bench_run_troupes(const bench_options *options, const bench_troupe *troupe,
                       void *shared, bench_result *ret)
{
    if (options->processes == 1)
        run_here(new_stage(options), troupe, shared, ret);
    else
        run_forked(new_stage(options), options->processes, troupe, shared, ret);
}
