/* The redis backend while a real server is killed, frozen, wiped, filled up and cut off. */
#include "single.h"
#include "util/error.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool set_up(const char *config, const char *timeout_ms)
{
    return single_start(config) &&
           single_connect(DLOCK_MUTEX, "L", "client.timeout_ms", timeout_ms,
                          "client.connect_ms", "300", "client.backoff_min_ms", "10",
                          "client.backoff_max_ms", "50", NULL);
}

TEST(a_server_restarted_empty_grants_larger_tokens)
{
    int64_t before, after;
    if (!set_up(NULL, "3000"))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, &before), DLK_YES);
    redis_server_kill(&server);
    ROUNDS_UNTIL(&w, w.downs >= 1);
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_NOT_SENT);
    int tries = w.downs;
    ROUNDS_UNTIL(&w, w.downs >= tries + 3); /* told once for each failed try */
    CHECK_CONTAINS(w.text, "refused");
    CHECK(redis_server_restart(&server));
    ROUNDS_UNTIL(&w, w.up);
    CHECK_EQ_INT(w.host.reconnects, 1);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, &after), DLK_YES);
    CHECK(after > before);
    single_tear_down();
}

TEST(a_key_that_was_deleted_or_expired_is_not_ours)
{
    static const char *const ways[] = {"DEL L", "FLUSHALL", "PEXPIRE L 1", "SET L x"};
    if (!set_up(NULL, "3000"))
        return;
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, i + 1, NULL), DLK_YES);
        redis_server_call(&server, "%s", ways[i]);
        ROUNDS_UNTIL(&w, strcmp(redis_server_call(&server, "HLEN L"), "1") != 0);
        CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, i + 1, NULL), DLK_NOT_OURS);
        CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, i + 1, NULL), DLK_NOT_OURS);
    }
    single_tear_down();
}

TEST(an_evicted_lock_is_not_ours)
{
    if (!set_up("maxmemory 3mb\nmaxmemory-policy volatile-ttl", "3000"))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    char filler[1025];
    memset(filler, 'x', sizeof(filler) - 1);
    filler[sizeof(filler) - 1] = '\0';
    for (int i = 0; i < 20000 && strcmp(redis_server_call(&server, "EXISTS L"), "1") == 0;
         i++)
        redis_server_call(&server, "SETEX fill:%d 100000 %s", i, filler);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_NOT_OURS);
    single_tear_down();
}

TEST(flushed_scripts_go_unnoticed_also_by_pipelined_neighbours)
{
    enum { MANY = 50 };
    if (!set_up(NULL, "3000"))
        return;
    static dlk_ask asks[MANY];
    static dlk_key *keys[MANY];
    char name[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        keys[i] = world_key(&w, name);
    }
    for (uint64_t round = 1; round <= 20; round++) {
        for (int i = 0; i < MANY; i++) {
            if (i == MANY / 2 || round % 2)
                redis_server_call(&server, "SCRIPT FLUSH");
            asks[i] = world_make(&w, DLK_ACQUIRE, keys[i], round);
            world_ask(&w, &asks[i]);
        }
        for (int i = 0; i < MANY; i++)
            CHECK_EQ_INT(world_await(&w, &asks[i]), DLK_YES);
        redis_server_call(&server, "SCRIPT FLUSH");
        for (int i = 0; i < MANY; i++)
            CHECK_EQ_INT(world_do(&w, DLK_RELEASE, keys[i], round, NULL), DLK_YES);
    }
    CHECK_EQ_INT(w.downs, 0);
    for (int i = 0; i < MANY; i++)
        world_forget(&w, keys[i]);
    single_tear_down();
}

TEST(a_killed_connection_leaves_unknown_what_was_sent_and_comes_back)
{
    if (!set_up(NULL, "3000"))
        return;
    server_freeze(server.pid); /* so that the request is surely unanswered */
    dlk_ask ask = world_make(&w, DLK_ACQUIRE, key, 1);
    world_ask(&w, &ask);
    world_round(&w);
    CHECK_EQ_INT(ask.reply, DLK_PENDING);
    redis_server_kill(&server);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_UNKNOWN);
    CHECK(redis_server_restart(&server));
    ROUNDS_UNTIL(&w, w.up);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    for (int i = 0; i < 3; i++) {
        int ups = w.ups;
        redis_server_call(&server, "CLIENT KILL TYPE normal SKIPME yes");
        ROUNDS_UNTIL(&w, w.up && w.ups > ups);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES); /* ours still */
    }
    single_tear_down();
}

TEST(what_was_not_written_is_surely_not_done)
{
    if (!set_up(NULL, "3000"))
        return;
    dlk_ask ask = world_make(&w, DLK_ACQUIRE, key, 1);
    world_ask(&w, &ask); /* lies in the buffer, and nobody flushes */
    pthread_mutex_lock(&w.mutex);
    w.backend->type->stop(w.backend);
    pthread_mutex_unlock(&w.mutex);
    /* Stop writes last words: then it may have been done. */
    CHECK_EQ_INT(ask.reply, DLK_UNKNOWN);
    dlk_error_clear(&ask.error);
    single_tear_down();
    if (!set_up(NULL, "60000")) /* longer than it takes to ask so often */
        return;
    server_freeze(server.pid);
    /* More than the socket takes: the last ones can't have left. */
    enum { MANY = 60000 };
    dlk_ask *asks = calloc(MANY, sizeof(*asks));
    for (int i = 0; i < MANY; i++) {
        asks[i] = world_make(&w, DLK_VERIFY, key, (uint64_t)i + 1);
        world_ask(&w, &asks[i]);
    }
    for (int i = 0; i < 3; i++)
        world_round(&w);
    redis_server_kill(&server);
    int unknown = 0, unsent = 0;
    for (int i = 0; i < MANY; i++) {
        dlk_reply reply = world_await(&w, &asks[i]);
        CHECK(reply == DLK_UNKNOWN || reply == DLK_NOT_SENT);
        CHECK(reply != DLK_UNKNOWN || unsent == 0); /* in the order of sending */
        unknown += reply == DLK_UNKNOWN;
        unsent += reply == DLK_NOT_SENT;
    }
    harness_note("%d unknown, %d not sent", unknown, unsent);
    CHECK(unknown > 0 && unsent > 0);
    free(asks);
    single_tear_down();
}

/* Asked until there is an answer: with a deadline this short one may come late. */
static dlk_reply settled(dlk_verb verb)
{
    int64_t end = awake_now_ms() + patience_ms();
    dlk_reply reply = DLK_NOT_SENT;
    while ((reply == DLK_NOT_SENT || reply == DLK_UNKNOWN) && awake_now_ms() < end)
        if (w.up)
            reply = world_do(&w, verb, key, 1, NULL);
        else
            world_round(&w);
    return reply;
}

TEST(a_frozen_server_is_noticed_by_the_deadline)
{
    if (!set_up(NULL, "200"))
        return;
    server_freeze(server.pid);
    dlk_ask ask = world_make(&w, DLK_ACQUIRE, key, 1);
    int64_t asked = dlk_clock_now();
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_UNKNOWN);
    int64_t took = (dlk_clock_now() - asked) / DLK_NS_PER_MS;
    CHECK(took >= 200);
    harness_note("noticed after %" PRId64 " ms of 200", took);
    CHECK(!w.up);
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    ROUNDS_UNTIL(&w, w.downs >= 2); /* tried again; the kernel accepts, nobody greets */
    CHECK_CONTAINS(w.text, "doesn't answer");
    server_thaw(server.pid);
    /* The request was in the server's socket: done or not, asking again settles it. */
    CHECK_EQ_INT(settled(DLK_ACQUIRE), DLK_YES);
    CHECK_EQ_INT(settled(DLK_VERIFY), DLK_YES);
    single_tear_down();
}

TEST(a_cut_subscription_comes_back_and_tells_its_watchers)
{
    if (!set_up(NULL, "3000"))
        return;
    world_watch(&w, key, true);
    ROUNDS_UNTIL(&w, w.notices == 1);
    for (int i = 2; i < 6; i++) {
        redis_server_call(&server, "CLIENT KILL TYPE pubsub");
        ROUNDS_UNTIL(&w, w.notices == i);
    }
    CHECK_EQ_INT(w.downs, 0); /* the link for commands was not touched */
    redis_server_call(&server, "PUBLISH redisson_lock__channel:{L} 1");
    ROUNDS_UNTIL(&w, w.notices == 6);
    redis_server_call(&server, "PUBLISH redisson_lock__channel:{L} gibberish");
    ROUNDS_UNTIL(&w, w.notices == 7);
    CHECK(redis_server_restart(&server));
    ROUNDS_UNTIL(&w, w.notices == 8);
    ROUNDS_UNTIL(&w, w.up);
    world_watch(&w, key, false);
    single_tear_down();
}

/* The server is made to refuse writes, and must be said to do so; then it is mended. */
static void check_refusal(const char *ill, const char *word, const char *well)
{
    redis_server_call(&server, "%s", ill);
    dlk_reply reply = world_do(&w, DLK_ACQUIRE, key, 1, NULL);
    if (reply == DLK_NOT_SENT) /* a demoted server is left, in search of the master */
        ROUNDS_UNTIL(&w, w.up);
    CHECK_EQ_INT(reply, DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    CHECK_CONTAINS(w.text, word);
    redis_server_call(&server, "%s", well);
    ROUNDS_UNTIL(&w, w.up && strcmp(redis_server_call(&server, "PING"), "PONG") == 0);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    world_round(&w);
    ROUNDS_UNTIL(&w, w.up);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
}

TEST(a_server_that_refuses_writes_is_unavailable_not_held)
{
    if (!set_up("min-replicas-to-write 0", "3000"))
        return;
    check_refusal("CONFIG SET maxmemory 1", "OOM", "CONFIG SET maxmemory 0");
    if (harness_failed())
        return;
    check_refusal("CONFIG SET min-replicas-to-write 1", "NOREPLICAS",
                  "CONFIG SET min-replicas-to-write 0");
    if (harness_failed())
        return;
    check_refusal("REPLICAOF 127.0.0.1 1", "READONLY", "REPLICAOF NO ONE");
    if (harness_failed())
        return;
    single_tear_down();
}

TEST(a_server_that_cannot_save_is_unavailable)
{
    if (!set_up("dbfilename blocked.rdb\nsave 3600 1", "3000"))
        return;
    /* Where the file should go lies a directory that isn't empty. */
    char blocker[128], command[160];
    snprintf(blocker, sizeof(blocker), "%s/blocked.rdb", server.dir);
    snprintf(command, sizeof(command), "mkdir -p %s/x", blocker);
    CHECK_EQ_INT(system(command), 0);
    redis_server_call(&server, "SET a b");
    redis_server_call(&server, "BGSAVE");
    ROUNDS_UNTIL(&w, strstr(redis_server_call(&server, "INFO persistence"),
                            "rdb_last_bgsave_status:err") != NULL);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    CHECK_CONTAINS(w.text, "MISCONF");
    snprintf(command, sizeof(command), "rm -rf %s", blocker);
    CHECK_EQ_INT(system(command), 0);
    single_tear_down();
}

typedef struct busy_script {
    redis_server *server;
    _Atomic bool over;
} busy_script;

static void *run_busy_script(void *arg)
{
    busy_script *busy = arg;
    redis_server other = *busy->server;
    other.control = -1;
    redis_server_call(&other, "EVAL \"while true do end\" 0");
    close(other.control);
    atomic_store(&busy->over, true);
    return NULL;
}

TEST(a_busy_server_is_unavailable)
{
    if (!set_up("busy-reply-threshold 20", "3000"))
        return;
    busy_script busy = {.server = &server};
    pthread_t thread;
    CHECK_EQ_INT(pthread_create(&thread, NULL, run_busy_script, &busy), 0);
    ROUNDS_UNTIL(&w, strstr(redis_server_call(&server, "PING"), "BUSY") != NULL);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL);
    CHECK_CONTAINS(w.text, "BUSY");
    redis_server_call(&server, "SCRIPT KILL");
    pthread_join(thread, NULL);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    single_tear_down();
}

/* ---- Several threads ---- */

enum { THREADS = 4, PAIRS = 300 };

typedef struct caller {
    dlk_key *key;
    dlk_ask ask;
    _Atomic int done;
} caller;

static _Atomic bool driving;

static void *drive(void *arg)
{
    (void)arg;
    while (atomic_load(&driving))
        world_round(&w);
    return NULL;
}

static dlk_reply reply_of(dlk_ask *ask)
{
    pthread_mutex_lock(&w.mutex);
    dlk_reply reply = ask->reply;
    pthread_mutex_unlock(&w.mutex);
    return reply;
}

static void *call(void *arg)
{
    caller *me = arg;
    for (uint64_t i = 1; i <= PAIRS; i++) {
        for (int step = 0; step < 2; step++) {
            me->ask = world_make(&w, step == 0 ? DLK_ACQUIRE : DLK_RELEASE, me->key, i);
            pthread_mutex_lock(&w.mutex);
            w.backend->type->ask(w.backend, &me->ask, dlk_clock_now());
            w.backend->type->flush(w.backend);
            pthread_mutex_unlock(&w.mutex);
            if (i % 16 == 0)
                dlk_kick(&w.kicks);
            while (reply_of(&me->ask) == DLK_PENDING)
                sched_yield();
            if (me->ask.reply == DLK_YES)
                atomic_fetch_add(&me->done, 1);
            dlk_error_clear(&me->ask.error);
        }
    }
    return NULL;
}

typedef struct crowd {
    caller callers[THREADS];
    pthread_t threads[THREADS], driver;
} crowd;

/* @p listens: each to its lock, too. */
static bool crowd_begin(crowd *all, bool listens)
{
    char name[16];
    atomic_store(&driving, true);
    bool fine = pthread_create(&all->driver, NULL, drive, NULL) == 0;
    for (int i = 0; i < THREADS && fine; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        all->callers[i] = (caller){.key = world_key(&w, name)};
        if (listens)
            world_watch(&w, all->callers[i].key, true);
        fine = pthread_create(&all->threads[i], NULL, call, &all->callers[i]) == 0;
    }
    return harness_check(__FILE__, __LINE__, fine, "threads");
}

static void crowd_end(crowd *all, bool listens)
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(all->threads[i], NULL);
    for (int i = 0; i < THREADS && listens; i++)
        world_watch(&w, all->callers[i].key, false);
    atomic_store(&driving, false);
    pthread_join(all->driver, NULL);
}

static crowd crowded;

TEST(callers_flush_while_another_thread_drives)
{
    if (!set_up(NULL, "3000") || !crowd_begin(&crowded, false))
        return;
    crowd_end(&crowded, false);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ_INT(atomic_load(&crowded.callers[i].done), 2 * PAIRS);
        world_forget(&w, crowded.callers[i].key);
    }
    single_tear_down();
}

TEST(connections_cut_under_threads_hang_nobody)
{
    if (!set_up(NULL, "1000") || !crowd_begin(&crowded, true))
        return;
    for (int i = 0; i < 20; i++) {
        redis_server_call(&server, "CLIENT KILL SKIPME yes %s",
                          i % 2 ? "TYPE normal" : "TYPE pubsub");
        nap_ms(2);
    }
    crowd_end(&crowded, true);
    ROUNDS_UNTIL(&w, w.up);
    for (int i = 0; i < THREADS; i++)
        world_forget(&w, crowded.callers[i].key);
    single_tear_down();
}
