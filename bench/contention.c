/* What happens when all want the same lock? N threads, of this process or of several, take one name,
 * keep it for --hold-ms, and release it. The threads of a process share one client. */
#include "dlock_use.h"

#include <inttypes.h>

typedef struct scene {
    dlock_client *client; /* each process has a scene of its own, copied by fork */
    bench_spot *spot;
} scene;

static void open_client(const bench_options *options, void *shared)
{
    scene *at = shared;
    at->client = bench_open(options);
}

static void free_client(void *shared)
{
    scene *at = shared;
    dlock_client_free(at->client);
}

static void contend(bench_stage *stage, bench_worker *me, void *shared)
{
    const scene *at = shared;
    dlock_lock *lock = bench_lock(stage->options, at->client, 0);
    int64_t who = stage->options->base + me->number + 1;
    double secs = stage->options->hold_ms / 1000.0;
    bench_ready(stage);
    while (bench_now(stage) != BENCH_OVER) {
        int64_t from = bench_now_ns();
        dlock_hold *hold = bench_acquire(lock);
        bool changed = bench_enter(at->spot, who) != who;
        bench_took(stage, me, bench_now_ns() - from, changed);
        if (secs > 0)
            bench_sleep(secs);
        bench_exit(at->spot);
        bench_release(hold);
    }
    dlock_lock_free(lock);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "", 0);
    scene at = {.spot = bench_page(&options)};
    const bench_troupe troupe = {open_client, contend, free_client};
    bench_result result;
    bench_run_troupes(&options, &troupe, &at, &result);
    bench_print_contention(&result, at.spot);
    return 0;
}
