/*
 * How fast does a lock go from process to process, and is the order FIFO? What --processes doesn't spread
 * are threads with a client each.
 *
 * Each process takes the lock and keeps it until somebody else waits for it, so each release is a
 * hand-over. Without that, on one core, the queue runs empty and one process takes and releases
 * for a whole time slice alone: right for a lock, useless as a measure.
 *
 * That somebody waits is seen in a shared word: a process sets its bit just before it asks. So a
 * bit means "has asked, or is about to". The order is checked by what is certain only. The holder
 * now and then asks libdlock how many wait; when that is the number of bits, and no bit came
 * meanwhile, everyone with a bit is queued, and all others will queue behind them. Whoever is
 * granted the lock while one that was certainly queued earlier still waits has overtaken it.
 */
#include "dlock_use.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>

enum { PROCESSES_MAX = 64 };

typedef struct scene {
    _Alignas(
        128) _Atomic uint64_t asked;  /* bit i: process i asks, and isn't granted yet */
    _Alignas(128) _Atomic int called; /* so many processes may ask for the first time */

    /* The holder's, so the lock under test guards them. Atomic only so that a lock that fails
     * shows as an overlap and not as undefined behaviour. */
    _Alignas(128) _Atomic int inside; /* who is between acquire and release, + 1 */
    _Atomic int last;                 /* who was before, + 1 */
    _Atomic int64_t token;
    _Atomic uint64_t grants, overlaps, stale_tokens, overtakings, ordered;
    uint64_t looks;
    uint64_t certain[PROCESSES_MAX]; /* the look that found process i queued; 0: none */
} scene;

/* Adds to what only the holder writes. */
static void note(_Atomic uint64_t *count)
{
    bench_count(count);
}

static int64_t count_waiters(dlock_lock *lock)
{
    dlock_info *info = NULL;
    dlock_error *error = NULL;
    if (dlock_lock_inspect(lock, &info, &error) != DLOCK_OK)
        bench_die("inspect", dlock_error_text(error));
    const char *text = dlock_info_get(info, "waiters");
    int64_t waiters = text ? strtoll(text, NULL, 10) : -1;
    dlock_info_free(info);
    return waiters;
}

static void look(scene *at, dlock_lock *lock, int count)
{
    uint64_t before = atomic_load(&at->asked);
    int64_t waiters = count_waiters(lock);
    if (atomic_load(&at->asked) != before || waiters != __builtin_popcountll(before))
        return;
    at->looks++;
    for (int i = 0; i < count; i++)
        if (before & UINT64_C(1) << i && at->certain[i] == 0)
            at->certain[i] = at->looks;
}

static void check_order(scene *at, int me, int count)
{
    uint64_t mine = at->certain[me] ? at->certain[me] : UINT64_MAX;
    bool known = mine != UINT64_MAX;
    at->certain[me] = 0;
    for (int i = 0; i < count; i++) {
        if (at->certain[i] == 0)
            continue;
        known = true;
        if (at->certain[i] < mine) {
            note(&at->overtakings);
            return;
        }
    }
    if (known)
        note(&at->ordered);
}

/* The lock has come to us. */
static void granted(scene *at, bench_stage *stage, bench_worker *me, int64_t token)
{
    const bench_options *options = stage->options;
    int last = atomic_load_explicit(&at->last, memory_order_relaxed) - 1;
    if (atomic_exchange_explicit(&at->inside, me->number + 1, memory_order_relaxed) != 0)
        note(&at->overlaps);
    if (token <= atomic_load_explicit(&at->token, memory_order_relaxed))
        note(&at->stale_tokens);
    atomic_store_explicit(&at->token, token, memory_order_relaxed);
    atomic_store_explicit(&at->last, me->number + 1, memory_order_relaxed);
    atomic_fetch_and(&at->asked, ~(UINT64_C(1) << me->number));
    note(&at->grants);
    check_order(at, me->number, stage->count);
    bench_count(&me->done);
    if (last < 0 || last == me->number)
        return;
    bench_count(&me->changes);
    if (options->core_count > 0 &&
        last % options->core_count != me->number % options->core_count)
        bench_count(&me->crossings);
}

static void await_another(const scene *at, const bench_stage *stage)
{
    while (atomic_load_explicit(&at->asked, memory_order_relaxed) == 0 &&
           bench_now(stage) != BENCH_OVER)
        (void)sched_yield();
}

static dlock_hold *ask(scene *at, dlock_lock *lock, bench_stage *stage, bench_worker *me)
{
    atomic_fetch_or(&at->asked, UINT64_C(1) << me->number);
    dlock_hold *hold = bench_acquire(lock);
    granted(at, stage, me, dlock_hold_token(hold));
    return hold;
}

static void give(scene *at, dlock_hold *hold)
{
    atomic_store_explicit(&at->inside, 0, memory_order_relaxed);
    bench_release(hold);
}

/* The first one takes the lock and has the others queue in the order of their numbers, so that
 * they stand in it as in the ring they are compared with. */
static dlock_hold *line_up(scene *at, dlock_lock *lock, bench_stage *stage,
                           bench_worker *me)
{
    if (me->number > 0) {
        while (atomic_load(&at->called) < me->number)
            (void)sched_yield();
        return ask(at, lock, stage, me);
    }
    dlock_hold *hold = ask(at, lock, stage, me);
    for (int i = 1; i < stage->count; i++) {
        atomic_store(&at->called, i);
        while (count_waiters(lock) < i)
            (void)sched_yield();
    }
    return hold;
}

static void take_turns(bench_stage *stage, bench_worker *me, void *shared)
{
    scene *at = shared;
    dlock_client *client = bench_open(stage->options);
    dlock_lock *lock = bench_lock(stage->options, client, 0);
    uint64_t look_every = (uint64_t)stage->options->look_every;
    bench_ready(stage);
    dlock_hold *hold = line_up(at, lock, stage, me);
    while (bench_now(stage) != BENCH_OVER) {
        await_another(at, stage);
        if (atomic_load_explicit(&at->grants, memory_order_relaxed) % look_every == 0)
            look(at, lock, stage->count);
        give(at, hold);
        hold = ask(at, lock, stage, me);
    }
    give(at, hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "", 0);
    if (options.workers > PROCESSES_MAX)
        bench_die("--workers", "at most 64");
    scene *at = bench_share(sizeof(*at));
    bench_result result;
    bench_run_troupes(&options, &(bench_troupe){.body = take_turns}, at, &result);
    result.done = result.changes; /* a hand-over is a change of owner */
    bench_print(&result);
    (void)printf(", \"grants\": %" PRIu64 ", \"overlaps\": %" PRIu64
                 ", \"stale_tokens\": %" PRIu64 ", \"overtakings\": %" PRIu64
                 ", \"ordered\": %" PRIu64 ", \"looks\": %" PRIu64 "}\n",
                 atomic_load(&at->grants), atomic_load(&at->overlaps),
                 atomic_load(&at->stale_tokens), atomic_load(&at->overtakings),
                 atomic_load(&at->ordered), at->looks);
    return 0;
}
