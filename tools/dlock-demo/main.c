/*
 * The demo: starts the workers, kills two of them while they hold the lock, draws, and counts.
 *
 * DLOCK_URL names the lock service; without it the locks are in a file of their own. The exit
 * status is 0 when no update was lost, all tokens rose and the lock was handed on after each kill.
 */
#include "demo.h"

#include <dlock/dlock.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SECONDS = 6,
    FRAME_US = 40000,
    WATCH_US = 1000,     /* how often the parent looks */
    END_US = 15000000,   /* the workers' last turns; more than any lease here */
    FILE_TTL_MS = 10000, /* death is seen at once: no need to wait for it */
    TTL_MS = 1000,       /* elsewhere a killed holder's lock comes free after so long */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = number;
}

int64_t demo_now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- Setting up ------------------------------------------------------------------------ */

/* Without a service a file has to do, which a portable build doesn't have. */
static bool has_a_service(void)
{
    const char *url = getenv("DLOCK_URL");
    if ((url != NULL && url[0] != '\0') || strstr(dlock_backends(), "file") != NULL)
        return true;
    (void)fprintf(
        stderr,
        "dlock-demo: this build has no file:, so set DLOCK_URL to a server's URL "
        "(there are: %s)\n",
        dlock_backends());
    return false;
}

static int set_up(demo_state *demo)
{
    const char *temporary = getenv("TMPDIR");
    (void)snprintf(demo->directory, sizeof demo->directory, "%s/dlock-demo-XXXXXX",
                   temporary != NULL && temporary[0] == '/' ? temporary : "/tmp");
    if (mkdtemp(demo->directory) == NULL) {
        perror("dlock-demo: temporary directory");
        demo->directory[0] = '\0';
        return -1;
    }
    (void)snprintf(demo->counter, sizeof demo->counter, "%s/counter", demo->directory);
    (void)snprintf(demo->own_url, sizeof demo->own_url, "file://%s/locks",
                   demo->directory);
    /* A name of its own: two demos on one server don't meet. */
    (void)snprintf(demo->name, sizeof demo->name, "dlock-demo/%d-%" PRId64, (int)getpid(),
                   demo_now_us());
    const char *url = getenv("DLOCK_URL");
    demo->url = url != NULL && url[0] != '\0' ? url : demo->own_url;
    demo->ttl_ms = strncmp(demo->url, "file:", 5) == 0 ? FILE_TTL_MS : TTL_MS;
    demo->shared = mmap(NULL, sizeof *demo->shared, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (demo->shared == MAP_FAILED) {
        perror("dlock-demo: shared memory");
        demo->shared = NULL;
        return -1;
    }
    atomic_store(&demo->shared->doomed, DOOM_NOBODY);
    return 0;
}

static int start_workers(demo_state *demo)
{
    (void)fflush(
        stdout); /* else each worker would have a copy of what is in the buffer */
    for (int i = 0; i < WORKERS; i++) {
        demo->pids[i] = fork();
        if (demo->pids[i] == 0)
            worker_live(demo, i);
        if (demo->pids[i] < 0) {
            perror("dlock-demo: fork");
            demo->pids[i] = 0;
            return -1;
        }
    }
    return 0;
}

static void clean_up(demo_state *demo)
{
    char path[340];
    for (int i = 0; i < WORKERS; i++) {
        if (demo->pids[i] > 0) {
            (void)kill(demo->pids[i], SIGKILL);
            (void)waitpid(demo->pids[i], NULL, 0);
        }
    }
    if (demo->directory[0] == '\0')
        return;
    static const char *const files[] = {"counter", "locks"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", demo->directory, files[i]);
        if (unlink(path) != 0 && errno != ENOENT)
            perror(path);
    }
    if (rmdir(demo->directory) != 0)
        perror(demo->directory);
}

/* ---- Watching and killing -------------------------------------------------------------- */

static int waiting(const demo_state *demo)
{
    int count = 0;
    for (int i = 0; i < WORKERS; i++)
        count += atomic_load(&demo->shared->workers[i].state) == WORKER_WAITS;
    return count;
}

/* The next worker to hold the lock after the last kill, if there is one by now. */
static void note_successor(demo_state *demo)
{
    demo_kill *last = &demo->killings[demo->killed - 1];
    for (int i = 0; i < WORKERS; i++) {
        const demo_worker *worker = &demo->shared->workers[i];
        int64_t at = atomic_load(&worker->granted_us);
        if (at > last->at_us && (last->next_us == 0 || at < last->next_us)) {
            last->next_us = at;
            last->next = i;
        }
    }
}

static void kill_holder(demo_state *demo, int number)
{
    demo_worker *victim = &demo->shared->workers[number];
    demo_kill *killing = &demo->killings[demo->killed++];
    killing->worker = number;
    killing->pid = demo->pids[number];
    killing->token = atomic_load(&victim->token);
    killing->at_us = demo_now_us();
    (void)kill(demo->pids[number], SIGKILL);
    (void)waitpid(demo->pids[number], NULL, 0);
    demo->pids[number] = 0;
    atomic_store(&victim->state, WORKER_KILLED);
    atomic_store(&demo->shared->doomed, DOOM_NOBODY);
    draw_kill(demo, killing);
}

/* Two kills, at a third and at two thirds of the time: whoever gets the lock next keeps it, and is
 * killed once somebody waits behind. */
static void play_fate(demo_state *demo, int64_t duration_us)
{
    int doomed = atomic_load(&demo->shared->doomed);
    int64_t elapsed = demo_now_us() - demo->began_us;
    if (demo->killed > 0)
        note_successor(demo);
    if (doomed != DOOM_NOBODY) {
        if (doomed >= 0 &&
            atomic_load(&demo->shared->workers[doomed].state) == WORKER_DOOMED &&
            waiting(demo) > 0)
            kill_holder(demo, doomed);
        return;
    }
    bool handed_on = demo->killed == 0 || demo->killings[demo->killed - 1].next_us != 0;
    if (demo->killed < KILLS && handed_on &&
        elapsed > duration_us * (demo->killed + 1) / (KILLS + 1))
        atomic_store(&demo->shared->doomed, DOOM_NEXT);
}

/* Waits for those that have ended; returns how many still run, or -1 when one has failed. */
static int reap_workers(demo_state *demo)
{
    int running = 0;
    for (int i = 0; i < WORKERS; i++) {
        int status;
        if (demo->pids[i] == 0)
            continue;
        if (waitpid(demo->pids[i], &status, WNOHANG) == 0) {
            running++;
            continue;
        }
        demo->pids[i] = 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            return -1;
    }
    return running;
}

static void say_failures(const demo_state *demo)
{
    for (int i = 0; i < WORKERS; i++) {
        const demo_worker *worker = &demo->shared->workers[i];
        if (atomic_load(&worker->state) == WORKER_FAILED)
            (void)fprintf(stderr, "dlock-demo: worker %d: %s\n", i + 1, worker->failure);
    }
}

/* Until the workers have ended. Returns 0, or -1 when one failed, hung, or we were interrupted. */
static int watch(demo_state *demo, int64_t duration_us)
{
    const struct timespec pause = {.tv_nsec = WATCH_US * 1000L};
    int64_t frame_us = 0, stopped_us = 0;
    int running = WORKERS;
    while (running > 0 && !interrupted) {
        int64_t now = demo_now_us();
        play_fate(demo, duration_us);
        bool settled = demo->killed == KILLS && demo->killings[KILLS - 1].next_us != 0;
        if (stopped_us == 0 && settled && now - demo->began_us > duration_us) {
            stopped_us = now;
            atomic_store(&demo->shared->stop, true);
        }
        if (now - demo->began_us > duration_us + END_US)
            break;
        if (now - frame_us >= FRAME_US) {
            frame_us = now;
            draw_frame(demo);
        }
        (void)nanosleep(&pause, NULL);
        running = reap_workers(demo);
    }
    draw_frame(demo);
    draw_end();
    if (running > 0 && !interrupted)
        (void)fprintf(stderr, "dlock-demo: %d workers didn't come to an end\n", running);
    say_failures(demo);
    return running == 0 && !interrupted ? 0 : -1;
}

/* ---- The result ------------------------------------------------------------------------ */

/* What a holder that was only slow, not dead, would do after its time. */
static bool stale_write_is_refused(const demo_state *demo, int64_t count)
{
    return counter_write(demo->counter, count + 1000, demo->killings[0].token) == 0;
}

static int report(const demo_state *demo)
{
    int64_t expected = 0, refused = 0, count = 0, token = 0;
    for (int i = 0; i < WORKERS; i++) {
        expected += atomic_load(&demo->shared->workers[i].turns);
        refused += atomic_load(&demo->shared->workers[i].refused);
    }
    if (counter_read(demo->counter, &count, &token) != 0) {
        perror(demo->counter);
        return -1;
    }
    int64_t not_rising = atomic_load(&demo->shared->not_rising);
    bool stale_refused = stale_write_is_refused(demo, count);
    for (int i = 0; i < demo->killed; i++) {
        const demo_kill *killing = &demo->killings[i];
        (void)printf(
            "kill -9 of worker %d: worker %d had the lock after %.1f ms (ttl %" PRId64
            " ms)\n",
            killing->worker + 1, killing->next + 1,
            (double)(killing->next_us - killing->at_us) / 1e3, demo->ttl_ms);
    }
    (void)printf("count %" PRId64 ", expected %" PRId64 ", lost updates %" PRId64 "\n",
                 count, expected, expected - count);
    (void)printf("tokens: %" PRId64 " grants, %s, the last %" PRId64 "\n",
                 atomic_load(&demo->shared->rising) + not_rising,
                 not_rising == 0 ? "strictly rising" : "NOT RISING", token);
    (void)printf("a late write with the killed worker's token was %s\n",
                 stale_refused ? "refused" : "ACCEPTED");
    if (demo->url == demo->own_url)
        (void)printf(
            "\nThe same against Redis:  DLOCK_URL=redis://127.0.0.1:6379 make demo\n");
    return count == expected && refused == 0 && not_rising == 0 && stale_refused ? 0 : -1;
}

int main(int argc, char **argv)
{
    static demo_state demo;
    char *end = NULL;
    double seconds = argc > 1 ? strtod(argv[1], &end) : SECONDS;
    if (argc > 2 || (argc > 1 && (end == argv[1] || *end != '\0')) ||
        !(seconds >= 1 && seconds <= 3600)) {
        (void)fprintf(stderr, "usage: dlock-demo [SECONDS]\n");
        return 64;
    }
    if (!has_a_service())
        return 1;
    const struct sigaction catch = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &catch, NULL);
    (void)sigaction(SIGTERM, &catch, NULL);
    (void)sigaction(SIGHUP, &catch, NULL);

    int result = set_up(&demo);
    if (result == 0) {
        draw_begin(&demo);
        demo.began_us = demo_now_us();
        result = start_workers(&demo);
    }
    if (result == 0)
        result = watch(&demo, (int64_t)(seconds * 1e6));
    if (result == 0)
        result = report(&demo);
    clean_up(&demo);
    if (interrupted)
        return 128 + interrupted;
    return result == 0 && fflush(stdout) == 0 ? 0 : 1;
}
