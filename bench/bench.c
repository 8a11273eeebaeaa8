/* Options, workers and times of the benchmark programs; see the header. */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long workers may take to prepare, or to leave their loops, before something is wrong. */
enum { PATIENCE_S = 20 };

enum { WORKERS_MAX = 1024 };

void bench_die(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    _exit(1);
}

/* ---- options ---- */

static _Noreturn void usage(const char *rest_usage)
{
    (void)fprintf(stderr,
                  "usage: %s [--uri URI] [--secs S] [--workers N] [--clients N]\n"
                  "       [--look-every N] [--timed] [--cores A,B,…] %s\n",
                  program_invocation_short_name, rest_usage);
    _exit(64);
}

static int whole(const char *text, int least, int most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end != '\0' || value < least || value > most)
        bench_die(text, "is no number in range");
    return (int)value;
}

static void parse_cores(bench_options *options, char *list)
{
    char *save, *word = strtok_r(list, ",", &save);
    for (; word && options->core_count < BENCH_CORES_MAX;
         word = strtok_r(NULL, ",", &save))
        options->cores[options->core_count++] = whole(word, 0, CPU_SETSIZE - 1);
}

bench_options bench_parse(int argc, char **argv, const char *rest_usage, int rest_count)
{
    static const struct option names[] = {
        {"uri", required_argument, NULL, 'u'},
        {"secs", required_argument, NULL, 's'},
        {"workers", required_argument, NULL, 'w'},
        {"clients", required_argument, NULL, 'c'},
        {"look-every", required_argument, NULL, 'l'},
        {"timed", no_argument, NULL, 't'},
        {"cores", required_argument, NULL, 'C'},
        {NULL, 0, NULL, 0},
    };
    bench_options options = {.secs = 1, .workers = 1, .clients = 1, .look_every = 256};
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread yet. */
    for (int name; (name = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (name == 'u')
            options.uri = optarg;
        else if (name == 's')
            options.secs = strtod(optarg, NULL);
        else if (name == 'w')
            options.workers = whole(optarg, 1, WORKERS_MAX);
        else if (name == 'c')
            options.clients = whole(optarg, 1, WORKERS_MAX);
        else if (name == 'l')
            options.look_every = whole(optarg, 1, 1 << 30);
        else if (name == 't')
            options.timed = true;
        else if (name == 'C')
            parse_cores(&options, optarg);
        else
            usage(rest_usage);
    }
    options.rest = argv + optind;
    options.rest_count = argc - optind;
    if (options.rest_count != rest_count || !(options.secs > 0 && options.secs < 3600))
        usage(rest_usage);
    return options;
}

/* ---- times ---- */

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
    unsigned octave = 63U - (unsigned)__builtin_clzll(ns); /* 4 or more */
    return (octave - 3) * BENCH_HIST_STEPS +
           (unsigned)(ns >> (octave - 4)) % BENCH_HIST_STEPS;
}

/* The upper end of a bucket. */
static int64_t bucket_end(unsigned bucket)
{
    if (bucket < BENCH_HIST_STEPS)
        return bucket;
    unsigned octave = bucket / BENCH_HIST_STEPS + 3;
    uint64_t step = BENCH_HIST_STEPS + bucket % BENCH_HIST_STEPS;
    return (int64_t)(((step + 1) << (octave - 4)) - 1);
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

/* ---- workers ---- */

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

static void sleep_s(double secs)
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
        sleep_s(0.0005);
}

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

static void act(const actor *me)
{
    take_place(me->stage->options, me->worker->number);
    me->body(me->stage, me->worker, me->shared);
}

static void *act_as_thread(void *argument)
{
    act(argument);
    return NULL;
}

static void await_ready(bench_stage *stage)
{
    int64_t limit = bench_now_ns() + PATIENCE_S * INT64_C(1000000000);
    while (atomic_load(&stage->ready) < stage->count) {
        int status;
        pid_t gone = waitpid(-1, &status, WNOHANG);
        if (gone > 0 || bench_now_ns() > limit)
            bench_die("start", gone > 0 ? "a worker ended" : "a worker isn't ready");
        sleep_s(0.001);
    }
}

static bench_result sum(const bench_stage *stage)
{
    bench_result all = {.least = UINT64_MAX};
    for (int i = 0; i < stage->count; i++) {
        const bench_worker *worker = &stage->workers[i];
        uint64_t done = atomic_load(&worker->done);
        all.done += done;
        all.changes += atomic_load(&worker->changes);
        all.crossings += atomic_load(&worker->crossings);
        all.least = done < all.least ? done : all.least;
        all.most = done > all.most ? done : all.most;
    }
    return all;
}

static double cpu_of(clockid_t clock)
{
    struct timespec used = {0};
    (void)clock_gettime(clock,
                        &used); /* 0 for a process that is gone: await_ends says so */
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static double cpu_secs(const pid_t *children, int count)
{
    double secs = cpu_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < count; i++) {
        clockid_t clock;
        if (clock_getcpuclockid(children[i], &clock) == 0)
            secs += cpu_of(clock);
    }
    return secs;
}

/* Lets the workers run, and reads their counts at the beginning and at the end. */
static void measure(bench_stage *stage, const pid_t *children, int child_count,
                    bench_result *ret)
{
    await_ready(stage);
    atomic_store(&stage->phase, BENCH_WARMING);
    sleep_s(stage->options->secs / 10);
    atomic_store(&stage->phase, BENCH_MEASURED);
    bench_result before = sum(stage);
    double cpu_before = cpu_secs(children, child_count);
    int64_t from = bench_now_ns();
    sleep_s(stage->options->secs);
    bench_result after = sum(stage);
    int64_t to = bench_now_ns();
    after.cpu_secs = cpu_secs(children, child_count) - cpu_before;
    atomic_store(&stage->phase, BENCH_OVER);
    after.done -= before.done;
    after.changes -= before.changes;
    after.crossings -= before.crossings;
    after.secs = (double)(to - from) / 1e9;
    *ret = after;
}

static void finish(const bench_stage *stage, bench_result *result)
{
    result->total = sum(stage).done;
    for (int i = 0; i < stage->count; i++)
        bench_hist_merge(&result->times, &stage->workers[i].times);
}

void bench_run_threads(const bench_options *options, bench_body *body, void *shared,
                       bench_result *ret)
{
    bench_stage *stage = new_stage(options);
    static pthread_t threads[WORKERS_MAX];
    static actor actors[WORKERS_MAX];
    for (int i = 0; i < stage->count; i++) {
        actors[i] = (actor){stage, &stage->workers[i], body, shared};
        int problem = pthread_create(&threads[i], NULL, act_as_thread, &actors[i]);
        if (problem)
            bench_die("pthread_create", strerrordesc_np(problem));
    }
    measure(stage, NULL, 0, ret);
    for (int i = 0; i < stage->count; i++)
        (void)pthread_join(threads[i], NULL);
    finish(stage, ret);
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
            sleep_s(0.001);
    }
}

void bench_run_processes(const bench_options *options, bench_body *body, void *shared,
                         bench_result *ret)
{
    bench_stage *stage = new_stage(options);
    static pid_t children[WORKERS_MAX];
    for (int i = 0; i < stage->count; i++) {
        pid_t pid = fork();
        if (pid < 0)
            bench_die("fork", strerrordesc_np(errno));
        if (pid == 0) {
            /* So that none is left behind when this program gives up. */
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            act(&(actor){stage, &stage->workers[i], body, shared});
            _exit(0);
        }
        children[i] = pid;
    }
    measure(stage, children, stage->count, ret);
    await_ends(stage->count);
    finish(stage, ret);
}

/* ---- the end ---- */

void bench_print(const bench_result *result)
{
    (void)printf(
        "{\"rate\": %.1f, \"secs\": %.3f, \"done\": %" PRIu64 ", \"total\": %" PRIu64
        ", \"changes\": %" PRIu64 ", \"crossings\": %" PRIu64 ", \"least\": %" PRIu64
        ", \"most\": %" PRIu64,
        (double)result->done / result->secs, result->secs, result->done, result->total,
        result->changes, result->crossings, result->least, result->most);
    (void)printf(", \"cpu_us\": %.4f",
                 result->done ? result->cpu_secs * 1e6 / (double)result->done : 0);
    (void)printf(", \"p50_us\": %.3f, \"p99_us\": %.3f",
                 (double)bench_hist_percentile(&result->times, 50) / 1000,
                 (double)bench_hist_percentile(&result->times, 99) / 1000);
}
