/* What happens when all want the same lock? N threads, in one or more clients of this process,
 * take and release one name as fast as they can. */
#include "dlock_use.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct scene {
    dlock_client **clients;
    int client_count;
    _Atomic int inside, last; /* a worker's number + 1 */
    _Atomic uint64_t overlaps;
} scene;

static dlock_hold *take(scene *at, dlock_lock *lock, bench_worker *me)
{
    dlock_hold *hold = bench_acquire(lock);
    if (atomic_exchange(&at->inside, me->number + 1) != 0)
        atomic_fetch_add(&at->overlaps, 1);
    int last = atomic_exchange(&at->last, me->number + 1);
    if (last != 0 && last != me->number + 1)
        bench_count(&me->changes);
    return hold;
}

static void contend(bench_stage *stage, bench_worker *me, void *shared)
{
    scene *at = shared;
    dlock_lock *lock = bench_lock(at->clients[me->number % at->client_count], 0);
    bench_ready(stage);
    for (bench_phase phase; (phase = bench_now(stage)) != BENCH_OVER;) {
        int64_t from = bench_now_ns();
        dlock_hold *hold = take(at, lock, me);
        int64_t waited = bench_now_ns() - from;
        if (phase == BENCH_MEASURED)
            bench_hist_add(&me->times, waited);
        bench_count(&me->done);
        atomic_store(&at->inside, 0);
        bench_release(hold);
    }
    dlock_lock_free(lock);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "", 0);
    scene at = {.clients = calloc((size_t)options.clients, sizeof(*at.clients)),
                .client_count = options.clients};
    if (!at.clients)
        bench_die("calloc", "no memory");
    for (int i = 0; i < at.client_count; i++)
        at.clients[i] = bench_open(&options);
    bench_result result;
    bench_run_threads(&options, contend, &at, &result);
    bench_print(&result);
    (void)printf(", \"changes_rate\": %.1f, \"overlaps\": %" PRIu64 "}\n",
                 (double)result.changes / result.secs, atomic_load(&at.overlaps));
    for (int i = 0; i < at.client_count; i++)
        dlock_client_free(at.clients[i]);
    free(at.clients);
    return 0;
}
