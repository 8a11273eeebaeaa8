/*
 * 16 threads in 4 processes want one name, through the public API, while a real memcached is
 * flushed and restarted under them at random: a cache forgets, and what that comes to is counted.
 *
 *   - Two that were granted the lock with no disaster in between or since are never inside together.
 *   - Who was granted it before a disaster hears that it is lost with its next renewal, and not only
 *     when its lease is over.
 *   - What it commits until then is refused by a resource that checks tokens once another has
 *     written, and can't be told from others' before. Who asks the server (dlock_hold_verify) right
 *     before committing commits nothing stale.
 *
 * DLK_TEST_SECONDS says for how long; default a few, and then by the meta commands alone.
 */
#include "harness/memcached_server.h"

#include "harness/awake.h"
#include "harness/fork.h"
#include "harness/harness.h"
#include "harness/time.h"
#include "harness/together.h"

#include <dlock/dlock.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 4, THREADS = 4, ALL = PROCESSES * THREADS, TTL_MS = 3000 };

/* Shared by the processes. */
typedef struct sky {
    together common;
    pthread_rwlock_t
        calm;            /* read: between a question to the server and what hangs on it */
    _Atomic int64_t age; /* disasters, twice; odd while one happens */
    _Atomic int64_t struck;    /* when the last one was over; boot clock, ns */
    _Atomic int64_t inside[2]; /* who is inside, and its age; -1: nobody */
    _Atomic int64_t grants, overlaps, latest_ns;
    _Atomic int64_t stale, refused, stale_verified;
} sky;

#define MS  INT64_C(1000000)
#define SEC (1000 * MS)

static sky *all;
static memcached_server server;
static char uri[192];

/* One stay inside. */
typedef struct stay {
    dlock_hold *hold;
    int64_t age; /* of the world when it was granted; -1: some disaster was near */
    int me;
} stay;

static bool is_stale(const stay *at)
{
    return at->age < 0 || atomic_load(&all->age) != at->age;
}

/* With what the local clock says, as most do. */
static void commit_plainly(const stay *at)
{
    bool stale = is_stale(at);
    if (dlock_hold_check(at->hold) != DLOCK_OK)
        return;
    bool taken = together_write(&all->common, dlock_hold_token(at->hold));
    if (stale)
        atomic_fetch_add(taken ? &all->stale : &all->refused, 1);
}

/* With the server's word; no disaster falls between that and the write. */
static void commit_verified(const stay *at)
{
    pthread_rwlock_rdlock(&all->calm);
    bool stale = at->age >= 0 && is_stale(at);
    if (dlock_hold_verify(at->hold, NULL) == DLOCK_OK) {
        if (stale || !together_write(&all->common, dlock_hold_token(at->hold)))
            atomic_fetch_add(&all->stale_verified, 1);
    }
    pthread_rwlock_unlock(&all->calm);
}

static void keep_latest(int64_t ns)
{
    int64_t latest = atomic_load(&all->latest_ns);
    while (ns > latest && !atomic_compare_exchange_weak(&all->latest_ns, &latest, ns))
        continue;
}

/* Stays until the hold is lost, or for so long; who stays long doesn't ask. */
static void be_inside(stay *at, int64_t ms)
{
    bool asks = ms < TTL_MS;
    int64_t end = now_ns() + ms * MS;
    int64_t other = atomic_exchange(&all->inside[0], at->me);
    int64_t its_age = atomic_exchange(&all->inside[1], at->age);
    if (other >= 0 && at->age >= 0 && its_age == at->age && !is_stale(at) &&
        dlock_hold_check(at->hold) == DLOCK_OK)
        atomic_fetch_add(&all->overlaps, 1);
    atomic_fetch_add(&all->grants, 1);
    bool loses = false;
    do {
        commit_plainly(at);
        if (asks)
            commit_verified(at);
        bool stale = at->age >= 0 && is_stale(at) && atomic_load(&all->age) % 2 == 0;
        int64_t struck = atomic_load(&all->struck);
        if (dlock_hold_check(at->hold) != DLOCK_OK) {
            loses = true;
            if (stale && !asks)
                keep_latest(now_ns() - struck);
        }
        nap_ms(2);
    } while (!loses && now_ns() < end);
    int64_t mine = at->me;
    if (atomic_compare_exchange_strong(&all->inside[0], &mine, -1))
        atomic_store(&all->inside[1], -1);
}

typedef struct worker {
    dlock_client *client;
    pthread_t thread;
    int me;
} worker;

static void *contend(void *arg)
{
    worker *is = arg;
    for (int turn = is->me; !atomic_load(&all->common.over); turn++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        int64_t age = atomic_load(&all->age);
        dlock_err code = dlock_acquire(is->client, "together", 3000, &hold, &err);
        if (code == DLOCK_OK) {
            bool calm = age % 2 == 0 && atomic_load(&all->age) == age;
            stay at = {.hold = hold, .age = calm ? age : -1, .me = is->me};
            be_inside(&at, turn % 8 ? turn % 3 : TTL_MS);
            code = dlock_hold_release(hold, &err);
        }
        if (code != DLOCK_OK && code != DLOCK_ETIMEDOUT && code != DLOCK_EUNAVAIL &&
            code != DLOCK_EUNKNOWN && code != DLOCK_ELOST)
            together_say(&all->common, "a lock", code, err);
        nap_ms(is->me % 4);
    }
    return NULL;
}

static int be_process(int number)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    worker workers[THREADS];
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    if (code != DLOCK_OK)
        together_say(&all->common, "open", code, err);
    for (int i = 0; i < THREADS && code == DLOCK_OK; i++) {
        workers[i] = (worker){.client = client, .me = number * THREADS + i};
        pthread_create(&workers[i].thread, NULL, contend, &workers[i]);
    }
    for (int i = 0; i < THREADS && code == DLOCK_OK; i++)
        pthread_join(workers[i].thread, NULL);
    return code == DLOCK_OK ? 0 : 1;
}

static bool begin(pid_t *children, const char *protocol)
{
    pthread_rwlockattr_t shared;
    if (!memcached_server_available() || !memcached_server_start(&server, NULL))
        return false;
    snprintf(uri, sizeof(uri),
             "memcached://127.0.0.1:%d?lock.ttl_ms=%d&memcached.protocol=%s"
             "&client.backoff_min_ms=5&client.backoff_max_ms=50&client.retry_ms=20",
             server.port, TTL_MS, protocol);
    all = together_map(sizeof(*all));
    if (!all)
        return false;
    pthread_rwlockattr_init(&shared);
    pthread_rwlockattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_rwlockattr_setkind_np(&shared, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&all->calm, &shared);
    atomic_store(&all->inside[0], -1);
    atomic_store(&all->inside[1], -1);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = harness_fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(be_process(i));
        }
    }
    return true;
}

/* A server that starts in the second of the one before begins its tokens anew, so it doesn't. */
static bool strike(unsigned number)
{
    pthread_rwlock_wrlock(&all->calm);
    atomic_fetch_add(&all->age, 1);
    bool fine = true;
    if (number % 3 == 2) {
        memcached_server_kill(&server);
        time_t then = time(NULL);
        while (time(NULL) == then)
            nap_ms(5);
        fine = memcached_server_restart(&server);
    } else {
        fine = strcmp(memcached_server_say(&server, "flush_all"), "OK") == 0;
    }
    atomic_store(&all->struck, now_ns());
    atomic_fetch_add(&all->age, 1);
    pthread_rwlock_unlock(&all->calm);
    return fine;
}

static void end(const pid_t *children, unsigned disasters)
{
    together_end(&all->common, children, PROCESSES);
    harness_note("%" PRId64 " grants, %u disasters; %" PRId64
                 " stale commits by the clock alone, %" PRId64
                 " more refused by their token; %" PRId64
                 " with dlock_hold_verify; the last stale holder knew after %" PRId64
                 " ms (a renewal each %d)",
                 atomic_load(&all->grants), disasters, atomic_load(&all->stale),
                 atomic_load(&all->refused), atomic_load(&all->stale_verified),
                 atomic_load(&all->latest_ns) / MS, TTL_MS / 3);
    memcached_server_stop(&server);
    CHECK_STR(all->common.what, "");
    CHECK_ALWAYS(atomic_load(&all->overlaps) == 0);
    CHECK_ALWAYS(atomic_load(&all->stale_verified) == 0);
    CHECK(atomic_load(&all->latest_ns) < TTL_MS * MS);
    CHECK(atomic_load(&all->stale) + atomic_load(&all->refused) >
          0); /* else it shows nothing */
}

TEST(sixteen_threads_in_four_processes_beside_a_server_that_forgets)
{
    static const char *const protocols[] = {"meta", "classic"};
    const char *seconds = getenv("DLK_TEST_SECONDS");
    int64_t length = (seconds ? atoi(seconds) : 4) * SEC;
    for (int i = 0; i < (seconds ? 2 : 1) && !harness_failed(); i++) {
        pid_t children[PROCESSES];
        unsigned disasters = 0;
        if (!begin(children, protocols[i]))
            return;
        int64_t stop_at = now_ns() + length / 2;
        while (now_ns() < stop_at || disasters < 3) {
            int64_t grants = atomic_load(&all->grants);
            while (atomic_load(&all->grants) < grants + 5 &&
                   now_ns() < stop_at + 60 * SEC)
                nap_ms(1 + (int64_t)(disasters * 7919 % 300));
            CHECK(atomic_load(&all->grants) >= grants + 5);
            CHECK(strike(disasters++));
        }
        end(children, disasters);
    }
}
