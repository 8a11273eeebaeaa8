/* A fair lock on a real server, seen by whole clients: turns in the order of asking, and nobody
 * who leaves the line, in whatever way, is in the way of those behind. No client
 * looks by itself within a minute, so a message that isn't sent shows. */
#define AWAIT_LIMIT_MS PATIENCE_MS

#include "harness/api.h"
#include "harness/awake.h"
#include "harness/fork.h"
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/time.h"
#include "line.h"

#include <dlock/dlock.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS = 6, PATIENCE_MS = 60000 };

#define CHANNELS "redisson_lock__channel:{L}:*"

static redis_server server;
static int poll_ms;
static dlock_client *client[CLIENTS];
static dlock_lock *lock[CLIENTS];
static dlock_op *op[CLIENTS];

/* ---- the stage ---- */

static void uri_of(char uri[256], const char *settings)
{
    snprintf(uri, 256,
             "redis://127.0.0.1:%d?lock.fair=true&redis.fair_wait_ms=300000&"
             "client.poll_ms=%d%s",
             server.port, poll_ms, settings);
}

static bool open_client(int i, const char *settings)
{
    char uri[256];
    dlock_error *err = NULL;
    uri_of(uri, settings);
    dlock_err code = dlock_client_open(uri, NULL, &client[i], &err);
    if (code == DLOCK_OK)
        code = dlock_lock_new(client[i], DLOCK_MUTEX, "L", NULL, &lock[i], &err);
    bool fine = harness_err(__FILE__, __LINE__, "open", code, DLOCK_OK, err);
    dlock_error_free(err);
    return fine;
}

static void close_client(int i)
{
    dlock_op_free(op[i]);
    dlock_lock_free(lock[i]);
    dlock_client_free(client[i]);
    op[i] = NULL;
    lock[i] = NULL;
    client[i] = NULL;
}

static bool set_up_polling(int every_ms)
{
    poll_ms = every_ms;
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return false;
    for (int i = 0; i < CLIENTS; i++)
        if (!open_client(i, ""))
            return false;
    return true;
}

static bool set_up(void)
{
    return set_up_polling(60000);
}

/* Keys, but for what a client that was killed said of itself, which ends later. */
static const char *what_is_left(void)
{
    return redis_server_call(&server,
                             "EVAL \""
                             "local left = {} "
                             "for _, key in ipairs(redis.call('keys', '*')) do "
                             "  if string.sub(key, 1, 13) ~= 'dlock_client:' then "
                             "    left[#left + 1] = key "
                             "  end "
                             "end "
                             "return left\" 0");
}

/* Nothing may be left but the counter. */
static void tear_down(void)
{
    for (int i = 0; i < CLIENTS; i++)
        close_client(i);
    const char *keys;
    (void)AWAITED(strcmp(keys = what_is_left(), "redisson_lock_token:{L}") == 0);
    (void)harness_str(__FILE__, __LINE__, "what is left", keys,
                      "redisson_lock_token:{L}");
    redis_server_stop(&server);
}

/* How many of those who wait can be told. */
static int listening(void)
{
    const char *text = redis_server_call(&server, "PUBSUB CHANNELS " CHANNELS);
    int count = 0;
    for (; (text = strstr(text, "redisson_lock__channel:{L}:")); text++)
        count++;
    return count;
}

static int64_t scripts_run(void)
{
    const char *text = redis_server_call(&server, "INFO commandstats");
    const char *at = strstr(text, "cmdstat_evalsha:calls=");
    return at ? atoll(at + strlen("cmdstat_evalsha:calls=")) : 0;
}

/* Client @p i joins the line, as the last: it asks, and again when its subscription stands. */
static bool join(int i, int64_t wait_ms)
{
    int before = line_length(&server);
    int64_t scripts = scripts_run();
    op[i] = dlock_lock_acquire_start(lock[i], wait_ms);
    (void)AWAITED(line_length(&server) > before && listening() > before &&
                  scripts_run() >= scripts + 2);
    return harness_eq_int(__FILE__, __LINE__, "the line", line_length(&server),
                          before + 1);
}

static dlock_hold *take(int i)
{
    dlock_error *err = NULL;
    dlock_hold *hold = NULL;
    dlock_err code = dlock_lock_acquire(lock[i], PATIENCE_MS, &hold, &err);
    (void)harness_err(__FILE__, __LINE__, "acquire", code, DLOCK_OK, err);
    dlock_error_free(err);
    return hold;
}

static bool give(dlock_hold *hold)
{
    dlock_error *err = NULL;
    dlock_err code = dlock_hold_release(hold, &err);
    bool fine = harness_err(__FILE__, __LINE__, "release", code, DLOCK_OK, err);
    dlock_error_free(err);
    dlock_hold_free(hold);
    return fine;
}

/* The next to hold it is client @p i. */
static dlock_hold *turn_of(int i)
{
    (void)dlock_op_wait(op[i], PATIENCE_MS);
    (void)harness_err(__FILE__, __LINE__, "its turn", dlock_op_result(op[i]), DLOCK_OK,
                      dlock_op_error(op[i]));
    dlock_hold *hold = dlock_op_take_hold(op[i]);
    dlock_op_free(op[i]);
    op[i] = NULL;
    return hold;
}

/* ---- turns ---- */

TEST(turns_come_in_the_order_of_asking)
{
    if (!set_up())
        return;
    for (int round = 0; round < 3; round++) {
        dlock_hold *hold = take(round);
        for (int i = 1; i < CLIENTS; i++)
            CHECK(join((round + i) % CLIENTS, DLOCK_FOREVER));
        for (int i = 1; i < CLIENTS; i++) {
            CHECK(give(hold));
            hold = turn_of((round + i) % CLIENTS);
            CHECK_EQ_INT(line_length(&server), CLIENTS - 1 - i);
            for (int other = i + 1; other < CLIENTS; other++)
                CHECK_ERR(dlock_op_result(op[(round + other) % CLIENTS]), DLOCK_EPENDING,
                          NULL);
        }
        CHECK(give(hold));
    }
    tear_down();
}

TEST(a_turn_costs_two_scripts_and_the_wait_for_it_two)
{
    if (!set_up())
        return;
    dlock_hold *hold = take(0);
    int64_t before = scripts_run();
    for (int i = 1; i < CLIENTS; i++)
        CHECK(join(i, DLOCK_FOREVER));
    CHECK_EQ_INT(scripts_run() - before, 2 * (CLIENTS - 1));
    before = scripts_run();
    for (int i = 1; i < CLIENTS; i++) {
        CHECK(give(hold));
        hold = turn_of(i);
    }
    CHECK(give(hold));
    CHECK_EQ_INT(scripts_run() - before, 2 * (CLIENTS - 1) + 1);
    tear_down();
}

/* ---- leaving ---- */

static void cancel(void)
{
    dlock_op_cancel(op[1]);
}

static void run_out_of_time(void)
{
    (void)dlock_op_wait(op[1], PATIENCE_MS);
}

static void free_op(void)
{
    dlock_op_free(op[1]);
    op[1] = NULL;
}

static void close_it(void)
{
    (void)dlock_client_close(client[1], NULL);
}

static void free_it(void)
{
    close_client(1);
}

static const struct exit {
    const char *way;
    void (*leave)(void);
    int64_t wait_ms;
} exits[] = {
    {"cancel", cancel, DLOCK_FOREVER},
    {"time-out", run_out_of_time, 1000},
    {"free of the op", free_op, DLOCK_FOREVER},
    {"close", close_it, DLOCK_FOREVER},
    {"free of the client", free_it, DLOCK_FOREVER},
};

TEST(who_leaves_the_head_is_not_in_the_way_of_those_behind)
{
    if (!set_up())
        return;
    for (size_t way = 0; way < sizeof(exits) / sizeof(exits[0]); way++) {
        harness_note("%s", exits[way].way);
        dlock_hold *hold = take(0);
        op[1] = dlock_lock_acquire_start(lock[1], exits[way].wait_ms);
        AWAIT(api_stat(client[1], "waits") == 1); /* it stands in the line, or did */
        op[2] = dlock_lock_acquire_start(lock[2], DLOCK_FOREVER);
        AWAIT(api_stat(client[2], "waits") == (int64_t)way + 1);
        exits[way].leave();
        AWAIT(line_length(&server) == 1);
        CHECK(give(hold));
        CHECK(give(turn_of(2)));
        close_client(1);
        CHECK(open_client(1, ""));
    }
    tear_down();
}

TEST(who_leaves_the_middle_leaves_the_order_as_it_was)
{
    if (!set_up())
        return;
    dlock_hold *hold = take(0);
    for (int i = 2; i < CLIENTS; i++) {
        CHECK(join(i, DLOCK_FOREVER));
        if (i == 3)
            CHECK(join(1, DLOCK_FOREVER));
    }
    cancel();
    AWAIT(line_length(&server) == CLIENTS - 2);
    for (int i = 2; i < CLIENTS; i++) {
        CHECK(give(hold));
        hold = turn_of(i);
    }
    CHECK(give(hold));
    tear_down();
}

/* The lock is free, and the head told of it; but it leaves instead. */
TEST(who_leaves_just_when_its_turn_comes_hands_it_on)
{
    if (!set_up())
        return;
    for (int round = 0; round < 20; round++) {
        dlock_hold *hold = take(0);
        CHECK(join(1, DLOCK_FOREVER));
        CHECK(join(2, DLOCK_FOREVER));
        dlock_op *release = dlock_hold_release_start(hold);
        cancel();
        free_op(); /* which gives back what it may have got before */
        CHECK(give(turn_of(2)));
        CHECK_EQ_INT(dlock_op_wait(release, PATIENCE_MS), DLOCK_OK);
        dlock_op_free(release);
        dlock_hold_free(hold);
    }
    tear_down();
}

TEST(a_try_stands_in_no_line)
{
    if (!set_up())
        return;
    dlock_hold *hold = take(0), *none = NULL;
    CHECK(join(1, DLOCK_FOREVER));
    int64_t before = scripts_run();
    for (int i = 0; i < 10; i++)
        CHECK_ERR(dlock_lock_acquire(lock[2], 0, &none, NULL), DLOCK_EBUSY, NULL);
    CHECK_EQ_INT(scripts_run() - before, 10);
    CHECK_EQ_INT(line_length(&server), 1);
    CHECK(give(hold));
    CHECK(give(turn_of(1)));
    CHECK_ERR(dlock_lock_acquire(lock[2], 0, &hold, NULL), DLOCK_OK, NULL);
    CHECK(give(hold));
    tear_down();
}

/* ---- death ---- */

/* A process that waits, or with @p holds has the lock for @p ttl_ms. */
static pid_t start_process(bool holds, const char *settings)
{
    char uri[256];
    int told[2];
    char byte;
    uri_of(uri, settings);
    if (pipe(told) != 0)
        return -1;
    pid_t pid = harness_fork();
    if (pid == 0) {
        dlock_client *own = NULL;
        dlock_hold *hold = NULL;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dlock_client_open(uri, NULL, &own, NULL) != DLOCK_OK)
            _exit(1);
        if (holds && dlock_acquire(own, "L", DLOCK_FOREVER, &hold, NULL) != DLOCK_OK)
            _exit(1);
        if (write(told[1], "x", 1) != 1)
            _exit(1);
        if (!holds)
            (void)!dlock_acquire(own, "L", DLOCK_FOREVER, &hold, NULL);
        for (;;)
            pause();
    }
    close(told[1]);
    bool fine = read(told[0], &byte, 1) == 1;
    close(told[0]);
    return harness_check(__FILE__, __LINE__, fine, "the process is there") ? pid : -1;
}

static void kill_process(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

TEST(a_head_that_was_killed_is_passed_over_without_a_spin)
{
    if (!set_up_polling(500)) /* nobody tells of a death: it is found by looking */
        return;
    dlock_hold *hold = take(0);
    pid_t dead = start_process(false, "");
    CHECK(dead > 0);
    AWAIT(line_length(&server) == 1 && listening() == 1);
    for (int i = 1; i < CLIENTS; i++)
        CHECK(join(i, DLOCK_FOREVER));
    kill_process(dead);
    AWAIT(listening() == CLIENTS - 1);
    int64_t freed = awake_now_ms(), before = scripts_run();
    CHECK(give(hold));
    hold = turn_of(1);
    harness_note("the dead head was in the way for %" PRId64 " ms, %" PRId64
                 " scripts of %d waiters",
                 awake_now_ms() - freed, scripts_run() - before, CLIENTS - 1);
    CHECK(scripts_run() - before < 20 + (awake_now_ms() - freed) / 400 * CLIENTS);
    for (int i = 2; i < CLIENTS; i++) {
        CHECK(give(hold));
        hold = turn_of(i);
    }
    CHECK(give(hold));
    tear_down();
}

TEST(behind_a_holder_that_was_killed_the_head_is_next_when_the_lease_ends)
{
    if (!set_up())
        return;
    pid_t dead = start_process(true, "&lock.ttl_ms=3000");
    CHECK(dead > 0);
    CHECK(join(1, DLOCK_FOREVER));
    CHECK(join(2, DLOCK_FOREVER));
    int64_t before = scripts_run();
    kill_process(dead);
    dlock_hold *hold = turn_of(1);
    CHECK(scripts_run() - before < 10);
    CHECK(give(hold));
    CHECK(give(turn_of(2)));
    tear_down();
}

/* ---- faults ---- */

TEST(places_outlive_connections_that_are_cut)
{
    static const char *const types[] = {"pubsub", "normal"};
    if (!set_up())
        return;
    for (int round = 0; round < 4; round++) {
        dlock_hold *hold = take(0);
        for (int i = 1; i < CLIENTS; i++)
            CHECK(join(i, DLOCK_FOREVER));
        redis_server_call(&server, "CLIENT KILL SKIPME yes TYPE %s", types[round % 2]);
        for (int i = 1; i < CLIENTS; i++) {
            CHECK(give(hold));
            hold = turn_of(i);
        }
        CHECK(give(hold));
    }
    tear_down();
}

/* All who wait have their turns, in whatever order. */
static bool serve_all(void)
{
    for (int served = 1; served < CLIENTS; served++) {
        int64_t end = awake_now_ms() + PATIENCE_MS;
        int who = 0;
        while (!who && awake_now_ms() < end) {
            nap_ms(1);
            for (int i = 1; i < CLIENTS; i++)
                if (op[i] && dlock_op_result(op[i]) == DLOCK_OK)
                    who = i;
        }
        if (!harness_check(__FILE__, __LINE__, who > 0, "somebody has its turn") ||
            !give(turn_of(who)))
            return false;
    }
    return true;
}

TEST(a_place_that_was_lost_is_no_error_but_counted)
{
    if (!set_up())
        return;
    dlock_hold *hold = take(0);
    for (int i = 1; i < CLIENTS; i++)
        CHECK(join(i, DLOCK_FOREVER));
    redis_server_call(&server, "DEL " QUEUE " " TIMEOUTS);
    redis_server_call(&server, "CLIENT KILL TYPE pubsub"); /* so that they ask again */
    for (int i = 1; i < CLIENTS; i++)
        AWAIT(api_stat(client[i], "places_lost") == 1);
    CHECK_EQ_INT(line_length(&server), CLIENTS - 1);
    CHECK(give(hold));
    CHECK(serve_all());
    tear_down();
}

TEST(a_server_that_lost_its_line_gets_a_new_one)
{
    if (!set_up())
        return;
    dlock_hold *hold = take(0);
    for (int i = 1; i < CLIENTS; i++)
        CHECK(join(i, DLOCK_FOREVER));
    CHECK(redis_server_restart(&server));
    dlock_hold_free(hold); /* whatever it says: the server has forgotten it */
    CHECK(serve_all());
    tear_down();
}

/* ---- within a client ---- */

TEST(owners_of_one_client_share_a_place_and_keep_their_order)
{
    dlock_op *own[3];
    if (!set_up())
        return;
    dlock_hold *hold = take(0);
    CHECK(join(1, DLOCK_FOREVER));
    for (int i = 0; i < 3; i++)
        own[i] = dlock_lock_acquire_start(lock[1], DLOCK_FOREVER);
    CHECK(join(2, DLOCK_FOREVER));
    CHECK_EQ_INT(line_length(&server), 2);
    CHECK(give(hold));
    hold = turn_of(1);
    CHECK(give(hold));
    CHECK(give(turn_of(2))); /* the other owners of client 1 are behind it */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(dlock_op_wait(own[i], PATIENCE_MS), DLOCK_OK);
        for (int later = i + 1; later < 3; later++)
            CHECK_ERR(dlock_op_result(own[later]), DLOCK_EPENDING, NULL);
        CHECK(give(dlock_op_take_hold(own[i])));
        dlock_op_free(own[i]);
    }
    tear_down();
}

TEST(who_waits_for_it_to_be_idle_stands_in_no_line)
{
    if (!set_up())
        return;
    dlock_hold *hold = take(0);
    dlock_op *idle = dlock_lock_wait_idle_start(lock[1], PATIENCE_MS);
    CHECK_EQ_INT(dlock_op_wait(idle, 100), DLOCK_EPENDING);
    CHECK_EQ_INT(line_length(&server), 0);
    CHECK(give(hold));
    CHECK_EQ_INT(dlock_op_wait(idle, PATIENCE_MS), DLOCK_OK);
    CHECK_ERR(dlock_op_result(idle), DLOCK_OK, dlock_op_error(idle));
    dlock_op_free(idle);
    tear_down();
}

/* ---- what isn't there, and what doesn't go together ---- */

TEST(fairness_is_part_of_a_name_and_not_in_every_layout)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    if (!set_up())
        return;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_info) features = NULL;
    dlock_lock *other = NULL;
    dlock_hold *hold = take(0), *none = NULL;
    CHECK_OK(dlock_client_features(client[0], &features, &err), err);
    CHECK_STR(dlock_info_get(features, "fair"), "1");
    CHECK_OK(dlock_conf_set(conf, "lock.fair", "false", &err), err);
    CHECK_OK(dlock_lock_new(client[0], DLOCK_MUTEX, "L", conf, &other, &err), err);
    CHECK_ERR(dlock_lock_acquire(other, 0, &none, &err), DLOCK_ECONFLICT, err);
    dlock_lock_free(other);
    other = NULL;
    CHECK_OK(dlock_conf_set(conf, "lock.fair", "true", &err), err);
    CHECK_OK(dlock_conf_set(conf, "redis.layout", "string", &err), err);
    CHECK_ERR(dlock_lock_new(client[0], DLOCK_MUTEX, "M", conf, &other, &err),
              DLOCK_ENOTSUP, err);
    CHECK_CONTAINS(dlock_error_text(err), "fair");
    CHECK_OK(dlock_conf_set(conf, "redis.layout", "redisson", &err), err);
    CHECK_ERR(dlock_lock_new(client[0], DLOCK_SEMAPHORE, "M", conf, &other, &err),
              DLOCK_ENOTSUP, err);
    CHECK(give(hold));
    tear_down();
}
