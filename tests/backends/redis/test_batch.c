/* Renewals that fall together: one script for many locks, a verdict for each. */
#include "harness/redis_server.h"
#include "util/error.h"
#include "world.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCKS = 250, BATCH = 100 };

static redis_server server;
static world w;
static dlk_key *keys[LOCKS];
static dlk_ask asks[LOCKS];

/* For so long that the last of them is taken long before the first is over. */
static dlk_reply acquire(int i)
{
    dlk_ask ask = world_make(&w, DLK_ACQUIRE, keys[i], (uint64_t)i + 1);
    ask.ttl_ms = 40000;
    world_ask(&w, &ask);
    return world_await(&w, &ask);
}

static bool set_up(int count)
{
    char uri[64], name[16];
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return false;
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    if (!world_connect(&w, uri, "lock.permits", "3", NULL))
        return false;
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "L%d", i);
        /* Each third is another form. */
        keys[i] = world_key_of(&w, i % 3 == 2 ? DLOCK_SEMAPHORE : DLOCK_MUTEX, name);
        if (!keys[i] || acquire(i) != DLK_YES)
            return harness_check(__FILE__, __LINE__, false, "a lock");
    }
    return true;
}

static void teardown(int count)
{
    for (int i = 0; i < count; i++)
        world_forget(&w, keys[i]);
    world_close(&w);
    redis_server_stop(&server);
}

static void ask_all(int count)
{
    for (int i = 0; i < count; i++) {
        asks[i] = world_make(&w, DLK_RENEW, keys[i], (uint64_t)i + 1);
        asks[i].ttl_ms = 60000;
        world_ask(&w, &asks[i]);
    }
}

static int64_t left_of(int i)
{
    if (i % 3 != 2)
        return atoll(redis_server_call(&server, "PTTL L%d", i));
    return atoll(redis_server_call(
        &server,
        "EVAL \"return redis.call('zrange', KEYS[1], 0, 0, 'WITHSCORES')[2] - "
        "redis.call('time')[1] * 1000\" 1 {L%d}:timeout",
        i));
}

/* How often scripts were run by their digest. */
static int64_t scripts_run(void)
{
    char text[8192];
    snprintf(text, sizeof(text), "%s", redis_server_call(&server, "INFO commandstats"));
    const char *at = strstr(text, "cmdstat_evalsha:calls=");
    return at ? atoll(at + strlen("cmdstat_evalsha:calls=")) : 0;
}

TEST(renewals_of_one_burst_are_one_script_for_a_hundred_locks)
{
    if (!set_up(LOCKS))
        return;
    ask_all(LOCKS); /* the scripts get known to the server */
    for (int i = 0; i < LOCKS; i++)
        CHECK_EQ_INT(world_await(&w, &asks[i]), DLK_YES);
    int64_t before = scripts_run(), commands = w.host.commands;
    ask_all(LOCKS);
    CHECK_EQ_INT(w.host.commands, commands); /* they wait for each other */
    for (int i = 0; i < LOCKS; i++)
        CHECK_EQ_INT(world_await(&w, &asks[i]), DLK_YES);
    CHECK_EQ_INT(scripts_run() - before, 3); /* 167 mutexes, 83 semaphores */
    CHECK_EQ_INT(w.host.commands - commands, 3);
    for (int i = 0; i < LOCKS; i++)
        CHECK(left_of(i) > 50000);
    teardown(LOCKS);
}

TEST(a_lone_renewal_is_what_it_always_was)
{
    if (!set_up(1))
        return;
    int64_t before = scripts_run();
    ask_all(1);
    CHECK_EQ_INT(world_await(&w, &asks[0]), DLK_YES);
    CHECK_EQ_INT(scripts_run() - before, 1); /* its script was known already */
    CHECK(left_of(0) > 50000);
    teardown(1);
}

TEST(only_what_is_lost_is_lost)
{
    if (!set_up(BATCH))
        return;
    redis_server_call(&server, "DEL L3");
    redis_server_call(&server, "DEL L4");
    redis_server_call(&server, "HSET L4 somebody:1 1");
    redis_server_call(&server, "DEL L6");
    redis_server_call(&server, "SET L6 text"); /* its script fails there */
    redis_server_call(&server, "DEL {L8}:timeout");
    redis_server_call(&server, "SET {L11}:timeout text");
    ask_all(BATCH);
    for (int i = 0; i < BATCH; i++) {
        bool lost = i == 3 || i == 4 || i == 6 || i == 8 || i == 11;
        CHECK_EQ_INT(world_await(&w, &asks[i]), lost ? DLK_NOT_OURS : DLK_YES);
        CHECK(lost || left_of(i) > 50000);
    }
    CHECK_STR(redis_server_call(&server, "HGET L4 somebody:1"), "1");
    CHECK_STR(redis_server_call(&server, "GET L6"), "text");
    teardown(BATCH);
}

TEST(a_server_that_forgot_the_scripts_gets_their_texts)
{
    if (!set_up(BATCH))
        return;
    for (int round = 0; round < 2; round++) {
        redis_server_call(&server, "SCRIPT FLUSH");
        ask_all(BATCH);
        dlk_ask behind = world_make(&w, DLK_VERIFY, keys[0], 1);
        world_ask(&w, &behind);
        for (int i = 0; i < BATCH; i++)
            CHECK_EQ_INT(world_await(&w, &asks[i]), DLK_YES);
        CHECK_EQ_INT(world_await(&w, &behind), DLK_YES);
    }
    teardown(BATCH);
}

/* In ms. */
static int64_t server_time(void)
{
    return strtoll(redis_server_call(&server, "EVAL \"local now = redis.call('time') "
                                              "return now[1] * 1000 + "
                                              "math.floor(now[2] / 1000)\" 0"),
                   NULL, 10);
}

TEST(an_error_for_all_is_an_error_for_each)
{
    if (!set_up(BATCH))
        return;
    ask_all(BATCH);
    for (int i = 0; i < BATCH; i++)
        CHECK_EQ_INT(world_await(&w, &asks[i]), DLK_YES);
    redis_server_call(&server, "ACL SETUSER default -evalsha"); /* the command's */
    ask_all(BATCH);
    for (int i = 0; i < BATCH; i++)
        CHECK_EQ_INT(world_await(&w, &asks[i]), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
    int64_t renewed = server_time();
    ROUNDS_UNTIL(&w, server_time() > renewed); /* else there is nothing to lengthen */
    redis_server_call(&server, "ACL SETUSER default +evalsha -zadd");
    ask_all(BATCH); /* and the script's, for some of them */
    for (int i = 0; i < BATCH; i++)
        CHECK_EQ_INT(world_await(&w, &asks[i]), i % 3 == 2 ? DLK_REFUSED : DLK_YES);
    CHECK_EQ_INT(w.code, DLOCK_EACCES);
    CHECK_EQ_INT(w.downs, 0);
    teardown(BATCH);
}

TEST(a_cut_leaves_what_was_sent_unknown_and_what_was_not_unsent)
{
    if (!set_up(BATCH))
        return;
    server_freeze(server.pid);
    dlk_ask slow = world_make(&w, DLK_VERIFY, keys[0], 1);
    slow.deadline = dlk_clock_now() + DLK_NS_PER_SEC;
    world_ask(&w, &slow);
    ask_all(BATCH / 2);
    world_round(&w); /* all of them are written */
    while (dlk_clock_now() < slow.deadline)
        sched_yield();
    for (int i = BATCH / 2; i < BATCH; i++) { /* these never: that answer is overdue */
        asks[i] = world_make(&w, DLK_RENEW, keys[i], (uint64_t)i + 1);
        world_ask(&w, &asks[i]);
    }
    CHECK_EQ_INT(world_await(&w, &slow), DLK_UNKNOWN);
    for (int i = 0; i < BATCH; i++)
        CHECK_EQ_INT(world_await(&w, &asks[i]),
                     i < BATCH / 2 ? DLK_UNKNOWN : DLK_NOT_SENT);
    server_thaw(server.pid);
    ROUNDS_UNTIL(&w, w.up);
    ask_all(BATCH);
    for (int i = 0; i < BATCH; i++)
        CHECK_EQ_INT(world_await(&w, &asks[i]), DLK_YES);
    teardown(BATCH);
}

TEST(stopping_answers_those_that_wait_for_each_other)
{
    if (!set_up(BATCH))
        return;
    ask_all(BATCH);
    pthread_mutex_lock(&w.mutex);
    w.backend->type->stop(w.backend);
    pthread_mutex_unlock(&w.mutex);
    for (int i = 0; i < BATCH; i++) {
        CHECK(asks[i].reply == DLK_UNKNOWN || asks[i].reply == DLK_NOT_SENT);
        dlk_error_clear(&asks[i].error);
    }
    teardown(BATCH);
}
