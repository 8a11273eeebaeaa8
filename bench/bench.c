/* Options and the page of the benchmark programs; see the header. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void bench_die(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    _exit(1);
}

/* ---- options ---- */

static _Noreturn void usage(const char *rest_usage)
{
    (void)fprintf(
        stderr,
        "usage: %s [--uri URI] [--kind KIND] [--one-name] [--rested] [--secs S]\n"
        "       [--workers N] [--processes N] [--count N] [--hold-ms MS] [--look-every "
        "N] [--page "
        "FILE]\n"
        "       [--base N] [--cue] [--timed] [--cores A,B,…] %s\n",
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

static const struct option option_names[] = {
    {"uri", required_argument, NULL, 'u'},
    {"kind", required_argument, NULL, 'k'},
    {"one-name", no_argument, NULL, 'o'},
    {"rested", no_argument, NULL, 'r'},
    {"secs", required_argument, NULL, 's'},
    {"workers", required_argument, NULL, 'w'},
    {"processes", required_argument, NULL, 'p'},
    {"count", required_argument, NULL, 'n'},
    {"hold-ms", required_argument, NULL, 'h'},
    {"look-every", required_argument, NULL, 'l'},
    {"page", required_argument, NULL, 'P'},
    {"base", required_argument, NULL, 'b'},
    {"cue", no_argument, NULL, 'q'},
    {"timed", no_argument, NULL, 't'},
    {"cores", required_argument, NULL, 'C'},
    {NULL, 0, NULL, 0},
};

static bool parse_one(bench_options *options, int name)
{
    switch (name) {
    case 'u':
        options->uri = optarg;
        return true;
    case 'k':
        options->kind = optarg;
        return true;
    case 'o':
        options->one_name = true;
        return true;
    case 'r':
        options->rested = true;
        return true;
    case 's':
        options->secs = strtod(optarg, NULL);
        return true;
    case 'w':
        options->workers = whole(optarg, 1, BENCH_WORKERS_MAX);
        return true;
    case 'p':
        options->processes = whole(optarg, 1, BENCH_WORKERS_MAX);
        return true;
    case 'n':
        options->count = whole(optarg, 1, 1 << 20);
        return true;
    case 'h':
        options->hold_ms = whole(optarg, 0, 60000);
        return true;
    case 'l':
        options->look_every = whole(optarg, 1, 1 << 30);
        return true;
    case 'P':
        options->page = optarg;
        return true;
    case 'b':
        options->base = whole(optarg, 0, 1 << 20);
        return true;
    case 'q':
        options->cue = true;
        return true;
    case 't':
        options->timed = true;
        return true;
    case 'C':
        parse_cores(options, optarg);
        return true;
    default:
        return false;
    }
}

bench_options bench_parse(int argc, char **argv, const char *rest_usage, int rest_count)
{
    bench_options options = {.kind = "mutex",
                             .secs = 1,
                             .workers = 1,
                             .processes = 1,
                             .count = 1000,
                             .look_every = 256};
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread yet. */
    for (int name; (name = getopt_long(argc, argv, "", option_names, NULL)) != -1;)
        if (!parse_one(&options, name))
            usage(rest_usage);
    options.rest = argv + optind;
    options.rest_count = argc - optind;
    bool enough = rest_count < 0 ? options.rest_count >= -rest_count
                                 : options.rest_count == rest_count;
    if (!enough || !(options.secs > 0 && options.secs < 3600))
        usage(rest_usage);
    return options;
}

/* ---- the page ---- */

bench_spot *bench_page(const bench_options *options)
{
    size_t size = BENCH_SPOTS * sizeof(bench_spot);
    if (!options->page)
        return bench_share(size);
    struct stat status;
    int fd = open(options->page, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0 || (size_t)status.st_size < size)
        bench_die(options->page, fd < 0 ? strerrordesc_np(errno) : "is too small");
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        bench_die(options->page, strerrordesc_np(errno));
    (void)close(fd);
    return memory;
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
    (void)printf(", \"max_us\": %.3f",
                 (double)bench_hist_percentile(&result->times, 100) / 1000);
}

void bench_print_contention(const bench_result *result, const bench_spot *spot)
{
    bench_result changes = *result; /* what the rate is made of: changes of owner */
    changes.done = result->changes;
    changes.total = result->all_changes;
    bench_print(&changes);
    (void)printf(
        ", \"grants_rate\": %.1f, \"grants\": %" PRIu64 ", \"overlaps\": %" PRIi64 "}\n",
        (double)result->done / result->secs, result->total, atomic_load(&spot->overlaps));
}
