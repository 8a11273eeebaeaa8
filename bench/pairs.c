/* How many pairs of acquire and release does libdlock do? N threads, of this process or of several,
 * each with a lock of its own, so that nobody waits for another's; or, of a kind that several may
 * hold, all with one. The threads of a process share one client. */
#include "dlock_use.h"

/* A kept lock is given a number for each microsecond, and uses some of these up while it is in use: so much
 * rest for each second lets it go faster than that. */
#define REST 6

typedef struct scene {
    dlock_client *client; /* each process has a scene of its own, copied by fork */
    bench_spot *page;     /* NULL: the pairs are too short for it */
    double grants;        /* by the client's own count, those of kept locks among them */
    double traffic[3];    /* likewise, of all of them */
} scene;

static const char *const traffic_keys[] = {"commands", "bytes_sent", "bytes_received"};

static void guarded_pair(dlock_lock *lock, bench_spot *spot, int64_t who)
{
    dlock_hold *hold = bench_acquire(lock);
    (void)bench_enter(spot, who);
    bench_exit(spot);
    bench_release(hold);
}

static void open_client(const bench_options *options, void *shared)
{
    scene *at = shared;
    at->client = bench_open(options);
}

static void pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    const scene *at = shared;
    const bench_options *options = stage->options;
    int number = options->one_name ? 0 : me->number;
    dlock_lock *lock = bench_lock(options, at->client, number);
    bench_release(bench_acquire(lock));
    if (options->rested)
        bench_sleep(REST * options->secs);
    bench_ready(stage);
    if (at->page)
        BENCH_LOOP(stage, me,
                   guarded_pair(lock, &at->page[number], options->base + me->number + 1));
    else
        BENCH_LOOP(stage, me, bench_release(bench_acquire(lock)));
    dlock_lock_free(lock);
}

static void free_client(void *shared)
{
    scene *at = shared;
    dlock_info *stats = NULL;
    if (dlock_client_stats(at->client, &stats, NULL) != DLOCK_OK)
        bench_die("stats", "dlock_client_stats failed");
    at->grants = bench_number(stats, "grants") + bench_number(stats, "local_grants");
    for (size_t i = 0; i < sizeof(traffic_keys) / sizeof(*traffic_keys); i++)
        at->traffic[i] = bench_number(stats, traffic_keys[i]);
    dlock_info_free(stats);
    dlock_client_free(at->client);
}

/* What one pair costs on the wire. Of several processes nobody has told. */
static void print_traffic(const scene *at)
{
    for (size_t i = 0; i < sizeof(traffic_keys) / sizeof(*traffic_keys); i++)
        if (at->grants > 0)
            (void)printf(", \"%s\": %.2f", traffic_keys[i], at->traffic[i] / at->grants);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--backends") == 0)
        return puts(dlock_backends()) < 0;
    bench_options options = bench_parse(argc, argv, "| --backends", 0);
    scene at = {.page = options.page ? bench_page(&options) : NULL};
    const bench_troupe troupe = {open_client, pairs, free_client};
    bench_result result;
    bench_run_troupes(&options, &troupe, &at, &result);
    bench_print(&result);
    print_traffic(&at);
    (void)puts("}");
    return 0;
}
