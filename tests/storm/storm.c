/*
 * A storm: processes that take one lock of a file through the public API, and are killed with
 * SIGKILL at random, every few ms, for some seconds. Delays at random inside the table make sure
 * that many die there.
 *
 * How a double grant is told from a dead holder: whoever holds the lock swaps its number into a
 * shared word, and out again before it gives the lock back. Finding another number there is
 * right only if that process is dead, or a zombie, at this moment.
 *
 * DLK_STORM_KINDS=1: each time a lock of another kind, at random: the mutex, either side of a
 * read/write lock, or some permits of a semaphore.
 *
 * DLK_STORM_SECONDS (5), DLK_STORM_SEED (random, printed), DLK_STORM_PROCESSES (8) and
 * DLK_STORM_THREADS (1) of each.
 */
#include "shares.h"

#include "backends/local/check.h"

#include "backends/local/file.h"
#include "backends/local/process.h"
#include "harness/time.h"
#include "util/clock.h"
#include "util/point.h"
#include "util/rand.h"

#include <dlock/dlock.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 64 /* processes */

/* Shared by all processes of the storm. */
typedef struct sky {
    _Atomic uint64_t holder; /* process << 8 | thread, 0 nobody */
    _Atomic int64_t last_token;
    int64_t plain; /* only ever touched by the holder */
    _Atomic int64_t acquisitions, recoveries, killed_holders, double_grants, old_tokens,
        lost_updates, stuck, errors;
    shares sides, permits;
    _Atomic bool over;
    char what[256]; /* the first surprise, in words */
} sky;

static sky *all;
static bool delaying;
static _Atomic uint64_t dice; /* of this process */
static int64_t limit_ms = 15000;

void (*dlk_point_hook)(const char *name);

static uint64_t roll(void)
{
    dlk_rand one = {.state = atomic_fetch_add(&dice, UINT64_C(0x9e3779b97f4a7c15))};
    return dlk_rand_next(&one);
}

/* Every point now and then is a place to linger, and so to die. */
static void linger(const char *name)
{
    if (strcmp(name, "table.recover") == 0)
        atomic_fetch_add(&all->recoveries, 1);
    if (delaying && roll() % 12 == 0)
        nap_us((int64_t)(roll() % 500));
}

static void surprise(_Atomic int64_t *counter, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void surprise(_Atomic int64_t *counter, const char *format, ...)
{
    va_list args;
    if (atomic_fetch_add(counter, 1) > 0 || all->what[0] != '\0')
        return;
    va_start(args, format);
    (void)vsnprintf(all->what, sizeof(all->what), format, args);
    va_end(args);
}

static bool is_dead(uint64_t holder)
{
    char state = dlk_process_state((uint32_t)(holder >> 8));
    return state == 'Z' || state == 'X' ||
           (state == '?' && kill((pid_t)(holder >> 8), 0) != 0 && errno == ESRCH);
}

/* What a holder does, and what it may find. */
static void hold(uint64_t me, int64_t token)
{
    uint64_t before = atomic_exchange(&all->holder, me);
    if (before != 0 && is_dead(before))
        atomic_fetch_add(&all->killed_holders, 1);
    else if (before != 0)
        surprise(&all->double_grants, "process %d got the lock while %d has it",
                 (int)(me >> 8), (int)(before >> 8));
    if (token <= atomic_load(&all->last_token))
        surprise(&all->old_tokens, "token %" PRId64 " came after %" PRId64, token,
                 atomic_load(&all->last_token));
    atomic_store(&all->last_token, token);
    int64_t plain = all->plain;
    if (roll() % 2 == 0)
        nap_us((int64_t)(roll() % 800));
    if (all->plain != plain)
        surprise(&all->lost_updates, "two processes counted at once");
    all->plain = plain + 1;
    atomic_fetch_add(&all->acquisitions, 1);
    uint64_t after = atomic_exchange(&all->holder, 0);
    if (after != me)
        surprise(&all->double_grants,
                 "process %d took over from %d, which still had the lock",
                 (int)(after >> 8), (int)(me >> 8));
}

/* The locks of a storm of kinds. */
enum { MUTEX, READ, WRITE, FEW, MANY, KINDS };

#define PERMITS 5

static const struct {
    dlock_kind kind;
    const char *name, *settings;
    int64_t take, size;
} kinds[KINDS] = {
    [MUTEX] = {DLOCK_MUTEX, "eye", NULL, 0, 0},
    [READ] = {DLOCK_READ, "book", NULL, 1, INT32_MAX},
    [WRITE] = {DLOCK_WRITE, "book", NULL, INT32_MAX, INT32_MAX},
    [FEW] = {DLOCK_SEMAPHORE, "seats", "1", 1, PERMITS},
    [MANY] = {DLOCK_SEMAPHORE, "seats", "3", 3, PERMITS},
};

static dlock_lock *locks[KINDS];
static int kind_count; /* 1: the mutex alone */
static uint64_t self;
static int first_slot;

static bool is_dead_process(uint64_t process)
{
    return is_dead(process << 8);
}

/* The same of a lock that several may hold. */
static void hold_share(uint64_t me, int which, int64_t token)
{
    shares *pool = kinds[which].kind == DLOCK_SEMAPHORE ? &all->permits : &all->sides;
    int slot = first_slot + (int)(me & 0xff);
    if (!shares_enter(pool, slot, me >> 8, kinds[which].take, kinds[which].size,
                      is_dead_process, &all->killed_holders))
        surprise(&all->double_grants, "process %d is one too many in %s", (int)(me >> 8),
                 kinds[which].name);
    if (kinds[which].kind != DLOCK_SEMAPHORE &&
        !shares_token(pool, token, which == WRITE))
        surprise(&all->old_tokens, "token %" PRId64 " came late", token);
    if (roll() % 2 == 0)
        nap_us((int64_t)(roll() % 800));
    atomic_fetch_add(&all->acquisitions, 1);
    shares_leave(pool, slot);
}

/* One try, and what goes wrong in it. */
static void take_once(uint64_t me)
{
    dlock_hold *held = NULL;
    dlock_error *err = NULL;
    int which = kind_count > 1 ? (int)(roll() % (uint64_t)kind_count) : MUTEX;
    dlock_err code = dlock_lock_acquire(locks[which], limit_ms, &held, &err);
    if (code == DLOCK_OK) {
        if (which == MUTEX)
            hold(me, dlock_hold_token(held));
        else
            hold_share(me, which, dlock_hold_token(held));
        code = dlock_hold_release(held, &err);
    }
    if (code == DLOCK_ETIMEDOUT)
        surprise(&all->stuck, "process %d waited in vain: %s", (int)(me >> 8),
                 dlock_error_text(err));
    else if (code != DLOCK_OK)
        surprise(&all->errors, "%s: %s", dlock_errname(code), dlock_error_text(err));
    dlock_hold_free(held);
    dlock_error_free(err);
}

static void *work(void *thread)
{
    uint64_t me = self | (uint64_t)(uintptr_t)thread;
    while (!atomic_load(&all->over)) {
        take_once(me);
        if (roll() % 4 == 0)
            nap_us((int64_t)(roll() % 200));
    }
    return NULL;
}

static dlock_err make_lock(dlock_client *client, int which, dlock_error **err)
{
    dlock_conf *conf = dlock_conf_new();
    dlock_err code = DLOCK_OK;
    if (kinds[which].settings) {
        code = dlock_conf_set_int(conf, "lock.permits", PERMITS, err);
        if (code == DLOCK_OK)
            code = dlock_conf_set(conf, "lock.take", kinds[which].settings, err);
    }
    if (code == DLOCK_OK)
        code = dlock_lock_new(client, kinds[which].kind, kinds[which].name, conf,
                              &locks[which], err);
    dlock_conf_free(conf);
    return code;
}

static void be_one(const char *uri, uint64_t seed, int threads)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    pthread_t others[16];
    atomic_store(&dice, seed);
    self = (uint64_t)getpid() << 8;
    delaying = true;
    dlk_point_hook = linger;
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    for (int i = 0; code == DLOCK_OK && i < kind_count; i++)
        code = make_lock(client, i, &err);
    if (code != DLOCK_OK) {
        surprise(&all->errors, "open: %s", dlock_error_text(err));
        _exit(1);
    }
    for (int i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, work, (void *)(uintptr_t)i) != 0)
            _exit(1);
    (void)work(NULL);
    for (int i = 1; i < threads; i++)
        (void)pthread_join(others[i], NULL);
    for (int i = 0; i < kind_count; i++)
        dlock_lock_free(locks[i]);
    dlock_client_free(client);
    _exit(0);
}

/* ---- the parent ---- */

typedef struct weather {
    char directory[64], path[96], uri[128];
    int processes, threads;
    int64_t seconds;
    pid_t pids[MOST];
    dlk_file file; /* stays open, so that the file is never alone and mended by an open */
    dlk_table table;
    int64_t kills, corrupt, longest_ns;
} weather;

static int64_t from_environment(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

static void spawn(weather *storm, int at)
{
    uint64_t seed = roll();
    first_slot = at * 16;
    pid_t pid = fork();
    if (pid == 0)
        be_one(storm->uri, seed, storm->threads);
    if (pid < 0)
        abort();
    storm->pids[at] = pid;
}

static void kill_one(weather *storm, int at)
{
    pid_t pid = storm->pids[at];
    (void)kill(pid, SIGKILL); /* our own child, not waited for yet */
    (void)waitpid(pid, NULL, 0);
    storm->kills++;
    spawn(storm, at);
}

static void check_table(weather *storm)
{
    dlk_section section;
    if (dlk_table_enter(&storm->table, &section, (int)limit_ms) != DLK_ENTERED) {
        storm->corrupt++;
        return;
    }
    const char *fault = table_fault(&storm->table);
    if (fault) {
        storm->corrupt++;
        printf("# %s\n", fault);
    }
    dlk_table_leave(&section);
}

static void rage(weather *storm)
{
    int64_t now = dlk_clock_now(), until = now + storm->seconds * DLK_NS_PER_SEC;
    int64_t seen = 0, seen_at = now, next_check = now;
    while ((now = dlk_clock_now()) < until) {
        nap_us(500 + (int64_t)(roll() % 4000));
        kill_one(storm, (int)(roll() % (uint64_t)storm->processes));
        int64_t count = atomic_load(&all->acquisitions);
        if (count == seen && now - seen_at > storm->longest_ns)
            storm->longest_ns = now - seen_at;
        if (count != seen)
            seen_at = now;
        seen = count;
        if (now >= next_check) {
            check_table(storm);
            next_check = now + 50 * DLK_NS_PER_MS;
        }
    }
}

/* Lets everybody finish; who doesn't is stuck. */
static void calm(weather *storm)
{
    int64_t until = dlk_clock_after(dlk_clock_now(), 2 * limit_ms);
    atomic_store(&all->over, true);
    for (int i = 0; i < storm->processes; i++) {
        int status = 0;
        pid_t got;
        while ((got = waitpid(storm->pids[i], &status, WNOHANG)) == 0 &&
               dlk_clock_now() < until)
            nap_us(1000);
        if (got == 0) {
            surprise(&all->stuck, "process %d doesn't end", (int)storm->pids[i]);
            (void)kill(storm->pids[i], SIGKILL);
            (void)waitpid(storm->pids[i], NULL, 0);
        } else if (status != 0) {
            surprise(&all->errors, "process %d ended with status %d", (int)storm->pids[i],
                     status);
        }
    }
    check_table(storm);
}

static bool begin(weather *storm)
{
    dlock_error *err = NULL;
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
               0);
    (void)snprintf(storm->directory, sizeof(storm->directory), "/tmp/dlock-storm-XXXXXX");
    if (all == MAP_FAILED || !mkdtemp(storm->directory))
        return false;
    (void)snprintf(storm->path, sizeof(storm->path), "%s/table", storm->directory);
    (void)snprintf(storm->uri, sizeof(storm->uri), "file://%s", storm->path);
    dlk_file_wish wish = {
        .path = storm->path, .slots = 64, .mode = 0600, .wait_ms = 1000};
    if (dlk_file_open(&storm->file, &storm->table, &wish, &err) != DLOCK_OK) {
        printf("# %s\n", dlock_error_text(err));
        return false;
    }
    dlk_point_hook = linger;
    for (int i = 0; i < storm->processes; i++)
        spawn(storm, i);
    return true;
}

static bool report(const weather *storm, int64_t seed)
{
    printf("# %d processes of %d threads, %" PRId64 " s, DLK_STORM_SEED=%" PRId64 "\n",
           storm->processes, storm->threads, storm->seconds, seed);
    printf("# %" PRId64 " acquisitions, %" PRId64 " kills, %" PRId64
           " recoveries from a death inside the table, %" PRId64 " killed holders\n",
           all->acquisitions, storm->kills, all->recoveries, all->killed_holders);
    printf("# longest time without progress: %" PRId64 " ms\n",
           storm->longest_ns / DLK_NS_PER_MS);
    printf("# %" PRId64 " double grants, %" PRId64 " tokens out of order, %" PRId64
           " stuck waiters, %" PRId64 " corrupt tables, %" PRId64 " other errors\n",
           all->double_grants, all->old_tokens + all->lost_updates, all->stuck,
           storm->corrupt, all->errors);
    if (all->what[0] != '\0')
        printf("# %s\n", all->what);
    bool enough =
        storm->seconds < 60 || (all->recoveries >= 500 && all->killed_holders >= 500);
    if (!enough)
        printf("# a storm of 60 s must count 500 recoveries and 500 killed holders\n");
    return enough && all->acquisitions > 0 && storm->kills > 0 &&
           all->double_grants + all->old_tokens + all->lost_updates + all->stuck +
                   storm->corrupt + all->errors ==
               0;
}

int main(void)
{
    static weather storm;
    storm.seconds = from_environment("DLK_STORM_SECONDS", 5);
    storm.processes = (int)from_environment("DLK_STORM_PROCESSES", 8);
    storm.threads = (int)from_environment("DLK_STORM_THREADS", 1);
    kind_count = from_environment("DLK_STORM_KINDS", 0) ? KINDS : 1;
    int64_t seed = from_environment("DLK_STORM_SEED", dlk_clock_now() & 0xffffff);
    atomic_store(&dice, (uint64_t)seed);
    if (getenv("DLK_TEST_SLOW"))
        limit_ms *= 4;
    if (storm.processes > MOST || storm.threads > 16 || !begin(&storm)) {
        printf("Bail out! the storm could not begin\n");
        return 1;
    }
    rage(&storm);
    calm(&storm);
    dlk_file_close(&storm.file, &storm.table);
    (void)unlink(storm.path);
    (void)rmdir(storm.directory);
    bool fine = report(&storm, seed);
    printf("1..1\n%s 1 - kill_9_at_any_moment_loses_nothing_and_grants_nothing_twice\n",
           fine ? "ok" : "not ok");
    return fine ? 0 : 1;
}
