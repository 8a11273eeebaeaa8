/* How long does it take to get a lock from who keeps it idle (kept), or from who releases it at that
 * very moment (held)?
 *
 * Two clients: the one has the lock, the other asks for it, and the time of its acquire is what
 * counts. Where it is kept, the one has released it before, and nothing of it runs but the engine's
 * thread. Where it is held, its thread is told just before the other asks, and releases. */
#include "dlock_use.h"

#include <errno.h>
#include <semaphore.h>

/* What goes on in the background since the grant, a watch for whoever asks, is done by then. */
#define SETTLED_S 0.002

typedef struct scene {
    sem_t taken, wanted, done; /* the one has it; the other asks; and has given it back */
    bool kept;
} scene;

static void tell(sem_t *what)
{
    if (sem_post(what) != 0)
        bench_die("sem_post", strerrordesc_np(errno));
}

static void await(sem_t *what)
{
    while (sem_wait(what) != 0)
        if (errno != EINTR)
            bench_die("sem_wait", strerrordesc_np(errno));
}

static dlock_lock *keeper_lock(dlock_client *client, bool kept)
{
    dlock_conf *conf = dlock_conf_new();
    dlock_lock *lock = NULL;
    dlock_error *error = NULL;
    if (!conf ||
        (kept && dlock_conf_set(conf, "lock.keep_ms", "600000", &error) != DLOCK_OK) ||
        dlock_lock_new(client, DLOCK_MUTEX, "bench/0", conf, &lock, &error) != DLOCK_OK)
        bench_die("bench/0", dlock_error_text(error));
    dlock_conf_free(conf);
    return lock;
}

/* Until the other one has stopped: it says so by giving back without asking. */
static void have(scene *at, bench_stage *stage, dlock_lock *lock)
{
    while (bench_now(stage) != BENCH_OVER) {
        dlock_hold *hold = bench_acquire(lock);
        if (at->kept)
            bench_release(hold);
        bench_sleep(SETTLED_S);
        tell(&at->taken);
        if (!at->kept) {
            await(&at->wanted);
            bench_release(hold);
        }
        await(&at->done);
    }
    tell(&at->taken);
}

static void ask(scene *at, bench_stage *stage, bench_worker *me, dlock_lock *lock)
{
    await(&at->taken);
    while (bench_now(stage) != BENCH_OVER) {
        int64_t from = bench_now_ns();
        if (!at->kept)
            tell(&at->wanted);
        dlock_hold *hold = bench_acquire(lock);
        bench_took(stage, me, bench_now_ns() - from, true);
        bench_release(hold);
        tell(&at->done);
        await(&at->taken);
    }
    tell(&at->wanted);
    tell(&at->done);
}

static void play(bench_stage *stage, bench_worker *me, void *shared)
{
    scene *at = shared;
    dlock_client *client = bench_open(stage->options);
    dlock_lock *lock = keeper_lock(client, at->kept && me->number == 0);
    bench_ready(stage);
    if (me->number == 0)
        have(at, stage, lock);
    else
        ask(at, stage, me, lock);
    dlock_lock_free(lock);
    dlock_client_free(client);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "kept|held", 1);
    scene at = {.kept = strcmp(options.rest[0], "kept") == 0};
    if (sem_init(&at.taken, 0, 0) != 0 || sem_init(&at.wanted, 0, 0) != 0 ||
        sem_init(&at.done, 0, 0) != 0)
        bench_die("sem_init", strerrordesc_np(errno));
    options.workers = 2;
    bench_result result;
    bench_run_troupes(&options, &(bench_troupe){.body = play}, &at, &result);
    bench_print(&result);
    (void)puts("}");
    return 0;
}
