/* How many pairs of acquire and release does libdlock do? N threads share one client; each has a
 * lock of its own, so that nobody waits for another thread's lock. */
#include "dlock_use.h"

#include <stdlib.h>
#include <string.h>

static void pairs(bench_stage *stage, bench_worker *me, void *shared)
{
    dlock_lock *lock = bench_lock(shared, me->number);
    bench_release(bench_acquire(lock));
    bench_ready(stage);
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
    dlock_client *client = bench_open(&options);
    bench_result result;
    bench_run_threads(&options, pairs, client, &result);
    bench_print(&result);
    print_traffic(client);
    (void)puts("}");
    dlock_client_free(client);
    return 0;
}
