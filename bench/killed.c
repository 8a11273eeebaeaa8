/* What does it cost the others when whoever is next dies while the lock is handed to it?
 *
 * Four processes, each with a client of its own. The first one holds the lock, the others ask for
 * it, one after the other. The second one is stopped, so that nothing of it answers while its
 * connections stand; the lock is released; a little later the stopped one is killed. The time from
 * the release to the next grant is printed for each round. */
#include "dlock_use.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 4, ROUNDS_MAX = 100 };

/* How long one that has asked is given to stand in the queue; no backend tells all of them. */
#define QUEUED_S 0.3
/* How long after the release the stopped one dies. */
#define DEATH_S 0.02

typedef struct scene {
    _Atomic int open;     /* so many clients are there */
    _Atomic int asking;   /* so many may ask, the first one included */
    _Atomic int granted;  /* the number + 1 of the one granted last */
    _Atomic int may_give; /* the holder may release */
    _Atomic int64_t released_ns, granted_ns;
} scene;

static void await(const _Atomic int *word, int value)
{
    for (int64_t limit = bench_now_ns() + INT64_C(30000000000);
         atomic_load(word) < value;) {
        if (bench_now_ns() > limit)
            bench_die("await", "it doesn't come");
        bench_sleep(0.0002);
    }
}

static void hold_once(scene *at, bench_spot *spot, int number, dlock_lock *lock)
{
    dlock_hold *hold = bench_acquire(lock);
    int64_t now = bench_now_ns();
    (void)bench_enter(spot, number + 1);
    if (number > 0 && atomic_load(&at->granted_ns) == 0)
        atomic_store(&at->granted_ns, now);
    atomic_store(&at->granted, number + 1);
    await(&at->may_give, 1);
    bench_exit(spot);
    if (number == 0)
        atomic_store(&at->released_ns, bench_now_ns());
    bench_release(hold);
}

static void be_process(const bench_options *options, scene *at, bench_spot *spot,
                       int number)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    dlock_client *client = bench_open(options);
    dlock_lock *lock = bench_lock(options, client, 0);
    atomic_fetch_add(&at->open, 1);
    await(&at->asking, number + 1);
    hold_once(at, spot, number, lock);
    dlock_lock_free(lock);
    dlock_client_free(client);
    _exit(0);
}

static void stop(pid_t pid)
{
    int status;
    if (kill(pid, SIGSTOP) != 0 || waitpid(pid, &status, WUNTRACED) != pid ||
        !WIFSTOPPED(status))
        bench_die("SIGSTOP", "it doesn't stop");
}

static void bury(pid_t pid, bool killed)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || WIFSIGNALED(status) != killed ||
        (!killed && WEXITSTATUS(status) != 0))
        bench_die("a process", "didn't end well");
}

/* Returns how long the lock was nobody's, in ms. */
static double play(const bench_options *options, bench_spot *spot)
{
    scene *at = bench_share(sizeof(*at));
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            bench_die("fork", strerrordesc_np(errno));
        if (pids[i] == 0)
            be_process(options, at, spot, i);
    }
    await(&at->open, PROCESSES);
    atomic_store(&at->asking, 1);
    await(&at->granted, 1);
    for (int i = 1; i < PROCESSES; i++) {
        atomic_store(&at->asking, i + 1);
        bench_sleep(QUEUED_S);
    }
    stop(pids[1]);
    atomic_store(&at->may_give, 1);
    bench_sleep(DEATH_S);
    if (kill(pids[1], SIGKILL) != 0)
        bench_die("SIGKILL", strerrordesc_np(errno));
    for (int i = 0; i < PROCESSES; i++)
        bury(pids[i], i == 1);
    return (double)(atomic_load(&at->granted_ns) - atomic_load(&at->released_ns)) / 1e6;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "", 0);
    bench_spot *spot = bench_page(&options);
    double delays[ROUNDS_MAX];
    int rounds = options.count < ROUNDS_MAX ? options.count : ROUNDS_MAX;
    for (int i = 0; i < rounds; i++)
        delays[i] = play(&options, spot);
    qsort(delays, (size_t)rounds, sizeof(*delays), compare);
    (void)printf("{\"rounds\": %d, \"median_ms\": %.3f, \"most_ms\": %.3f, "
                 "\"overlaps\": %d}\n",
                 rounds, delays[rounds / 2], delays[rounds - 1],
                 (int)atomic_load(&spot->overlaps));
    return 0;
}
