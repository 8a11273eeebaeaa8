/*
 * How fast does a signal reach who waits for it?
 *
 * Each worker has a client of its own and in turn: signals, waits, and is woken with the lock; then it
 * signals the next. Who signals holds the lock, so whoever it means is surely in the condition's line.
 * What is counted is how often one was woken and had the lock.
 *
 * One awake is enough for this to go on: the last one to wait has signalled somebody who waited,
 * unless others hadn't begun to.
 */
#include "dlock_use.h"

static dlock_cond *new_cond(dlock_client *client)
{
    dlock_cond *cond = NULL;
    dlock_error *error = NULL;
    if (dlock_cond_new(client, "bench/cond", NULL, &cond, &error) != DLOCK_OK)
        bench_die("condition", dlock_error_text(error));
    return cond;
}

static void signal_waiters(dlock_cond *cond, int64_t count)
{
    dlock_error *error = NULL;
    if (dlock_cond_signal(cond, count, NULL, NULL, &error) != DLOCK_OK)
        bench_die("signal", dlock_error_text(error));
}

/* Gives the hold back, and returns the one that it was woken with. */
static dlock_hold *wait_for_signal(dlock_cond *cond, dlock_hold *hold)
{
    dlock_hold *again = NULL;
    dlock_error *error = NULL;
    if (dlock_cond_wait(cond, hold, 30000, &again, &error) != DLOCK_OK)
        bench_die("wait", dlock_error_text(error));
    dlock_hold_free(hold);
    return again;
}

static void take_turns(bench_stage *stage, bench_worker *me, void *shared)
{
    bench_spot *spot = shared;
    int64_t who = me->number + 1;
    dlock_client *client = bench_open(stage->options);
    dlock_lock *lock = bench_lock(stage->options, client, 0);
    dlock_cond *cond = new_cond(client);
    bench_ready(stage);
    dlock_hold *hold = bench_acquire(lock);
    (void)bench_enter(spot, who);
    while (bench_now(stage) != BENCH_OVER) {
        signal_waiters(cond, 1);
        bench_exit(spot);
        hold = wait_for_signal(cond, hold);
        if (bench_enter(spot, who) != who)
            bench_count(&me->changes);
        bench_count(&me->done);
    }
    signal_waiters(cond, INT64_MAX);
    bench_exit(spot);
    bench_release(hold);
    dlock_cond_free(cond);
    dlock_lock_free(lock);
    dlock_client_free(client);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "", 0);
    bench_spot *spot = bench_page(&options);
    const bench_troupe troupe = {.body = take_turns};
    bench_result result;
    bench_run_troupes(&options, &troupe, spot, &result);
    bench_print(&result);
    (void)printf(", \"overlaps\": %d}\n", (int)atomic_load(&spot->overlaps));
    return 0;
}
