/* Processes that wait for each other in a circle, on a real Redis: what client.deadlock does about it. */
#include "harness/redis_server.h"

#include "harness/fork.h"
#include "harness/harness.h"
#include "harness/time.h"
#include "harness/together.h"

#include <dlock/dlock.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 50, SPAN_MS = 1000 };

typedef struct ring {
    together common;
    _Atomic int holding, waiting; /* … or about to */
    _Atomic int granted, deadlocks, logged;
    _Atomic int64_t began_ms; /* the last one did so */
    _Atomic int64_t longest_ms;
    _Atomic bool give_up;
} ring;

static redis_server server;
static ring *shared;

static void hear(void *user, dlock_level level, const char *text)
{
    (void)user;
    (void)level;
    if (strstr(text, "deadlock: "))
        atomic_fetch_add(&shared->logged, 1);
}

/* ---- One process ---- */

static dlock_err open_client(const char *settings, dlock_client **ret, dlock_error **err)
{
    char uri[300];
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    dlock_conf_set_log(conf, hear, NULL);
    snprintf(uri, sizeof(uri),
             "redis://127.0.0.1:%d?client.timeout_ms=20000&client.connect_ms=20000&%s",
             server.port, settings);
    return dlock_client_open(uri, conf, ret, err);
}

static dlock_err take(dlock_client *client, int number, int64_t wait_ms,
                      dlock_hold **hold, dlock_error **err)
{
    char name[24];
    DLOCK_AUTO(dlock_lock) lock = NULL;
    snprintf(name, sizeof(name), "ring-%d", number);
    dlock_err code = dlock_lock_new(client, DLOCK_MUTEX, name, NULL, &lock, err);
    return code == DLOCK_OK ? dlock_lock_acquire(lock, wait_ms, hold, err) : code;
}

static void judge(dlock_err code, const dlock_error *err, int64_t waited_ms)
{
    if (code == DLOCK_OK) {
        atomic_fetch_add(&shared->granted, 1);
    } else if (code == DLOCK_EDEADLK) {
        if (!strstr(dlock_error_text(err), "wait for each other"))
            together_say(&shared->common, "the error doesn't say why", code, err);
        if (waited_ms > atomic_load(&shared->longest_ms))
            atomic_store(&shared->longest_ms, waited_ms);
        atomic_fetch_add(&shared->deadlocks, 1);
    } else {
        together_say(&shared->common, "the second lock", code, err);
    }
}

/* Has lock i, and wants the next one's when all have theirs. */
static void take_part(int i, int size, const char *settings, int64_t wait_ms)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) own = NULL;
    DLOCK_AUTO(dlock_hold) next = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err code = open_client(settings, &client, &err);
    if (code == DLOCK_OK)
        code = take(client, i, 0, &own, &err);
    if (code != DLOCK_OK)
        together_say(&shared->common, "its own lock", code, err);
    atomic_fetch_add(&shared->holding, 1);
    while (atomic_load(&shared->holding) < size && !atomic_load(&shared->give_up))
        nap_ms(1);
    atomic_fetch_add(&shared->waiting, 1);
    int64_t began = now_ms();
    atomic_store(&shared->began_ms, began);
    code = take(client, (i + 1) % size, wait_ms, &next, &err);
    judge(code, err, now_ms() - atomic_load(&shared->began_ms));
    if (own && dlock_hold_verify(own, NULL) != DLOCK_OK)
        together_say(&shared->common, "it has lost what it had", DLOCK_ELOST, NULL);
}

static bool begin(void)
{
    if (!redis_server_available())
        return false;
    shared = together_map(sizeof(*shared));
    return shared && redis_server_start(&server, NULL);
}

static void start(pid_t *children, int size, const char *settings, int64_t wait_ms)
{
    for (int i = 0; i < size; i++) {
        children[i] = harness_fork();
        if (children[i] != 0)
            continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        take_part(i, size, settings, wait_ms);
        _exit(0);
    }
}

/* A circle of so many: somebody is told so, keeps what it had, and all others get on. */
static void is_broken(int size, const char *settings)
{
    pid_t children[MOST];
    if (!begin())
        return;
    start(children, size, settings, 600000);
    together_end(&shared->common, children, size);
    harness_note(
        "%d processes: %d ended, %d logged, the last %lld ms after the last wait "
        "began (client.deadlock_ms=%d)",
        size, atomic_load(&shared->deadlocks), atomic_load(&shared->logged),
        (long long)atomic_load(&shared->longest_ms), SPAN_MS);
    CHECK_EQ_INT(atomic_load(&shared->deadlocks), 1); /* one is enough, so no more */
    CHECK_EQ_INT(atomic_load(&shared->granted) + atomic_load(&shared->deadlocks), size);
    CHECK(atomic_load(&shared->granted) > 0);
    CHECK(atomic_load(&shared->logged) >= 1);
    redis_server_stop(&server);
}

#define BREAKS "client.deadlock=break-youngest&client.deadlock_ms=1000"

TEST(two_processes_that_wait_for_each_other_get_on)
{
    is_broken(2, BREAKS);
}

TEST(so_do_those_with_locks_that_are_strings)
{
    is_broken(2, BREAKS "&redis.layout=string");
}

TEST(three_processes_that_wait_for_each_other_get_on)
{
    is_broken(3, BREAKS);
}

TEST(fifty_processes_that_wait_for_each_other_get_on)
{
    is_broken(50, BREAKS);
}

TEST(with_report_it_is_logged_and_nobody_stops)
{
    pid_t children[2];
    int64_t limit = 60000;
    if (!begin())
        return;
    start(children, 2, "client.deadlock=report&client.deadlock_ms=500", limit);
    AWAIT(atomic_load(&shared->logged) == 2);
    CHECK_EQ_INT(atomic_load(&shared->deadlocks), 0);
    CHECK_EQ_INT(atomic_load(&shared->granted), 0);
    for (int i = 0; i < 2; i++) {
        (void)kill(children[i], SIGKILL);
        (void)waitpid(children[i], NULL, 0);
    }
    redis_server_stop(&server);
}

/* Somebody else has ring-1 by this grant, and says that he waits for ring-0, since before. */
static void put_other(int64_t grant)
{
    const char *answer = redis_server_call(
        &server,
        "EVAL \"local u, n = ARGV[1], ARGV[2] "
        "redis.call('del', 'ring-1') redis.call('hset', 'ring-1', u .. ':' .. n, '1') "
        "redis.call('set', 'dlock_client:' .. u:sub(1, 18), "
        "'by\\\\tthere\\\\t7\\\\t\\\\n' "
        ".. redis.call('time')[1] .. '000 ' .. u .. '\\\\nh 90000 ' .. n .. "
        "' 1 7 mutex ring-1\\\\nw 80000 0 0 7 mutex ring-0\\\\n') "
        "redis.call('zadd', 'dlock_client:all', '9999999999999', u:sub(1, 18)) return "
        "1\" "
        "0 ffffffff-2222-4333-8444-555555555555 %lld",
        (long long)grant);
    CHECK_STR(answer, "1");
}

/* Waits for ring-1, which the other has; what comes of it within 3 s, five looks. */
static dlock_err wait_for_other(bool again)
{
    int status = -1;
    int64_t grant = 1;
    redis_server_call(&server, "DEL ring-0"); /* of the last one */
    put_other(grant);
    pid_t child = harness_fork();
    if (child == 0) {
        DLOCK_AUTO(dlock_client) client = NULL;
        DLOCK_AUTO(dlock_hold) own = NULL;
        DLOCK_AUTO(dlock_hold) hold = NULL;
        dlock_err code = open_client(
            "client.deadlock=break-youngest&client.deadlock_ms=2000", &client, NULL);
        if (code == DLOCK_OK)
            code = take(client, 0, 0, &own, NULL);
        _exit(code == DLOCK_OK ? (int)take(client, 1, 3000, &hold, NULL) : 255);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        nap_ms(20);
        if (again)
            put_other(++grant);
    }
    return WIFEXITED(status) ? (dlock_err)WEXITSTATUS(status) : DLOCK_EUNKNOWN;
}

TEST(what_was_taken_again_between_two_looks_is_in_no_circle)
{
    if (!begin())
        return;
    CHECK_EQ_INT(wait_for_other(true), DLOCK_ETIMEDOUT);
    CHECK_EQ_INT(wait_for_other(false), DLOCK_EDEADLK);
    redis_server_stop(&server);
}

/* Each reads what all tell: the more they are, the rarer. */
TEST(many_clients_look_more_rarely)
{
    if (!begin())
        return;
    redis_server_call(&server,
                      "EVAL \"for i = 1, 1000 do redis.call('zadd', 'dlock_client:all', "
                      "'9999999999999', string.format('%%08x-2222-3333', i)) end\" 0");
    CHECK_EQ_INT(wait_for_other(false), DLOCK_ETIMEDOUT);
    CHECK_CONTAINS(redis_server_call(&server, "INFO commandstats"),
                   "cmdstat_zrangebyscore:calls=1,");
    redis_server_stop(&server);
}

static bool lists(dlock_client *client, const char *key)
{
    DLOCK_AUTO(dlock_info) list = NULL;
    return dlock_client_list(client, "", 10, &list, NULL) == DLOCK_OK &&
           dlock_info_get(list, key) != NULL;
}

/* Though its holder tells of it until its next renewal, and the list before found it held. */
TEST(what_a_client_breaks_is_in_none_of_its_lists_any_more)
{
    if (!begin())
        return;
    DLOCK_AUTO(dlock_client) holder = NULL;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(open_client("lock.ttl_ms=60000", &holder, &err), err);
    CHECK_OK(take(holder, 7, 0, &hold, &err), err);
    CHECK_OK(open_client("redis.list=clients", &client, &err), err);
    AWAIT(lists(client, "locks.0.since"));
    CHECK_OK(dlock_lock_new(client, DLOCK_MUTEX, "ring-7", NULL, &lock, &err), err);
    CHECK_OK(dlock_lock_break(lock, dlock_hold_owner(hold), &err), err);
    CHECK(!lists(client, "locks.0.name"));
    redis_server_stop(&server);
}

/* Nobody's wait lasts: what is told of it is over when it is looked at. */
TEST(who_gives_up_by_itself_is_in_no_circle)
{
    pid_t children[2];
    if (!begin())
        return;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) one = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(open_client("client.deadlock=break-youngest&client.deadlock_ms=500", &client,
                         &err),
             err);
    CHECK_OK(take(client, 7, 0, &one, &err), err);
    children[0] = harness_fork();
    if (children[0] == 0) { /* waits for a while, for what waits for nothing of its own */
        DLOCK_AUTO(dlock_client) own = NULL;
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_error) why = NULL;
        if (open_client("client.deadlock=break-youngest&client.deadlock_ms=500", &own,
                        &why) == DLOCK_OK)
            judge(take(own, 7, 2500, &hold, &why) == DLOCK_ETIMEDOUT ? DLOCK_OK
                                                                     : DLOCK_EUNKNOWN,
                  why, 0);
        _exit(0);
    }
    together_end(&shared->common, children, 1);
    CHECK_EQ_INT(atomic_load(&shared->granted), 1);
    CHECK_EQ_INT(atomic_load(&shared->logged), 0);
    CHECK_OK(dlock_hold_verify(one, &err), err);
    dlock_client_free(client);
    client = NULL;
    redis_server_stop(&server);
}

TEST(where_clients_tell_nothing_it_is_refused_with_the_reason)
{
    static const char *const uris[] = {
        "mem:x?client.deadlock=report",
        "redlock://a,b,c?client.deadlock=report",
        "redis+cluster://a?client.deadlock=break-youngest",
        "redis://a?client.deadlock=report&redis.client_key=false",
        "redis://a?client.deadlock=report&redis.layout=timestamp",
        "redis://a?client.deadlock=report&redis.layout=rueidis"};
    for (size_t i = 0; i < sizeof(uris) / sizeof(*uris); i++) {
        dlock_client *client = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_ERR(dlock_client_open(uris[i], NULL, &client, &err), DLOCK_ENOTSUP, err);
        CHECK_CONTAINS(dlock_error_text(err), "don't tell what they hold");
    }
}
