/* How many pairs of acquire and release does libdlock do? N threads share one client; each has a
 * lock of its own, so that nobody waits for another thread's lock. */
#include "dlock_use.h"

#include <stdlib.h>
#include <string.h>

typedef struct scene {
    dlock_client *client;
    bench_spot *page; /* NULL: the pairs are too short for it */
} scene;

static void guarded_pair(dlock_lock *lock, bench_spot *spot, int64_t who)
{
    dlock_hold *hold = bench_acquire(lock);
    (void)bench_enter(spot, who);
    bench_exit(spot);
    bench_release(hold);
}

static void pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    const scene *at = shared;
    dlock_lock *lock = bench_lock(at->client, me->number);
    bench_release(bench_acquire(lock));
    bench_ready(stage);
    if (at->page)
        BENCH_LOOP(stage, me,
                   guarded_pair(lock, &at->page[me->number],
                                stage->options->base + me->number + 1));
    else
        BENCH_LOOP(stage, me, bench_release(bench_acquire(lock)));
    dlock_lock_free(lock);
}

/* What one pair costs on the wire, by the client's own count. */
static void print_traffic(const dlock_client *client)
{
    dlock_info *stats = NULL;
    if (dlock_client_stats(client, &stats, NULL) != DLOCK_OK)
        bench_die("stats", "dlock_client_stats failed");
    static const char *const keys[] = {"commands", "bytes_sent", "bytes_received"};
    const char *grants = dlock_info_get(stats, "grants");
    double pairs_done = grants ? strtod(grants, NULL) : 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        const char *value = dlock_info_get(stats, keys[i]);
        if (value && pairs_done > 0)
            (void)printf(", \"%s\": %.2f", keys[i], strtod(value, NULL) / pairs_done);
    }
    dlock_info_free(stats);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--backends") == 0)
        return puts(dlock_backends()) < 0;
    bench_options options = bench_parse(argc, argv, "| --backends", 0);
    scene at = {.client = bench_open(&options),
                .page = options.page ? bench_page(&options) : NULL};
    bench_result result;
    bench_run_threads(&options, pairs, &at, &result);
    bench_print(&result);
    print_traffic(at.client);
    (void)puts("}");
    dlock_client_free(at.client);
    return 0;
}
