/* Single requests to a real Redis, and to libdlock on it: what plans hit, and what comes of it. */
#include "harness/api.h"
#include "harness/redis_server.h"
#include "proxy/proxy.h"
#include "proxy/wire.h"

#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redis_server server;
static proxy *p;
static proxy_link *way;
static int fd = -1;

static bool set_up(void)
{
    char target[32];
    const char *why = "no thread";
    if (wire_left_behind(&p))
        redis_server_stop(&server);
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return false;
    snprintf(target, sizeof(target), "%d", server.port);
    p = proxy_new(7);
    way = p ? proxy_listen(p, "redis", 0, target, "resp", &why) : NULL;
    fd = way ? wire_open(proxy_port(way)) : -1;
    return harness_check(__FILE__, __LINE__, fd >= 0, why);
}

static void tear_down(void)
{
    wire_close(fd);
    proxy_free(p);
    p = NULL;
    redis_server_stop(&server);
}

/* The last connection is of no use any more. */
static void open_again(void)
{
    wire_close(fd);
    fd = wire_open(proxy_port(way));
}

/* What Redis is asked for by itself. */
static bool is_there(const char *key, const char *value)
{
    return harness_str(__FILE__, __LINE__, key, redis_server_call(&server, "GET %s", key),
                       value);
}

#define SET(key) "*3\r\n$3\r\nSET\r\n$1\r\n" key "\r\n$1\r\n1\r\n"
#define GET(key) "*2\r\n$3\r\nGET\r\n$1\r\n" key "\r\n"
#define PING     "*1\r\n$4\r\nPING\r\n"

static bool plan(proxy_deed deed, int number, const char *command, const char *word)
{
    proxy_plan its = {
        .deed = deed, .number = number, .command = command, .word = word, .delay_ms = 60};
    return harness_check(__FILE__, __LINE__, proxy_add_plan(way, its), "a plan");
}

TEST(cut_before_it_is_not_done)
{
    if (!set_up())
        return;
    CHECK(plan(PROXY_CUT_BEFORE, 2, "SET", NULL));
    CHECK(wire_say(fd, SET("a") PING SET("b") SET("c")));
    CHECK_CONTAINS(wire_hear(fd, 100, WIRE_MS), "(reset)");
    AWAIT(proxy_get_stats(way).open == 0); /* the server has read all and hung up */
    CHECK(is_there("a", "1") && is_there("b", "(nil)") && is_there("c", "(nil)"));
    CHECK_EQ_INT(proxy_get_stats(way).deeds, 1);
    open_again();
    CHECK(wire_say(fd, SET("b")));
    CHECK_STR(wire_hear(fd, 5, WIRE_MS), "+OK\r\n"); /* once only */
    tear_down();
}

TEST(cut_after_it_is_done_and_nobody_is_told)
{
    if (!set_up())
        return;
    server_freeze(server.pid); /* so that no answer can be on its way */
    CHECK(plan(PROXY_CUT_AFTER, 1, NULL, NULL));
    CHECK(wire_say(fd, SET("a") SET("b")));
    CHECK_STR(wire_hear(fd, 100, WIRE_MS), "(reset)");
    server_thaw(server.pid);
    AWAIT(strcmp(redis_server_call(&server, "GET a"), "1") == 0);
    CHECK(is_there("b", "(nil)"));
    AWAIT(proxy_get_stats(way).open == 0);
    tear_down();
}

TEST(cut_instead_of_the_answer_it_is_done)
{
    if (!set_up())
        return;
    CHECK(plan(PROXY_CUT_REPLY, 2, NULL, NULL));
    CHECK(wire_say(fd, PING));
    CHECK_STR(wire_hear(fd, 7, WIRE_MS), "+PONG\r\n");
    CHECK(wire_say(fd, SET("a")));
    CHECK_STR(wire_hear(fd, 100, WIRE_MS), "(reset)");
    CHECK(is_there("a", "1"));
    AWAIT(proxy_get_stats(way).open == 0);
    tear_down();
}

TEST(a_dropped_answer_is_silence_for_good)
{
    if (!set_up())
        return;
    CHECK(plan(PROXY_DROP_REPLY, 2, NULL, NULL));
    CHECK(wire_say(fd, PING SET("a") SET("b")));
    CHECK_STR(wire_hear(fd, 100, WIRE_SOON_MS), "+PONG\r\n(silence)");
    CHECK(wire_say(fd, SET("c")));
    AWAIT(strcmp(redis_server_call(&server, "GET c"), "1") == 0);
    CHECK_STR(wire_hear(fd, 100, WIRE_SOON_MS), "(silence)");
    CHECK(is_there("a", "1") && is_there("b", "1"));
    tear_down();
}

TEST(a_torn_request_is_not_done_and_a_torn_answer_is_half_heard)
{
    if (!set_up())
        return;
    CHECK(plan(PROXY_TEAR_REQUEST, 1, "SET", NULL));
    CHECK(wire_say(fd, PING));
    CHECK_STR(wire_hear(fd, 7, WIRE_MS), "+PONG\r\n");
    int64_t before = proxy_get_stats(way).bytes_up;
    CHECK(wire_say(fd, SET("a")));
    CHECK_STR(wire_hear(fd, 100, WIRE_MS), "(reset)");
    CHECK_EQ_INT(proxy_get_stats(way).bytes_up - before, strlen(SET("a")) / 2);
    CHECK(is_there("a", "(nil)"));
    open_again();
    CHECK(plan(PROXY_TEAR_REPLY, 1, "SET", NULL));
    CHECK(wire_say(fd, SET("a")));
    CHECK_CONTAINS(wire_hear(fd, 2, WIRE_MS), "+O");
    CHECK_STR(wire_hear(fd, 100, WIRE_MS), "(reset)");
    CHECK(is_there("a", "1"));
    AWAIT(proxy_get_stats(way).open == 0);
    tear_down();
}

TEST(delayed_is_the_request_or_its_answer)
{
    if (!set_up())
        return;
    CHECK(plan(PROXY_DELAY_REPLY, 1, "SET", NULL));
    int64_t began = now_ms();
    CHECK(wire_say(fd, SET("a")));
    AWAIT(strcmp(redis_server_call(&server, "GET a"), "1") == 0);
    CHECK_STR(wire_hear(fd, 5, WIRE_MS), "+OK\r\n");
    CHECK(now_ms() - began >= 59);
    proxy_plan later = {
        .deed = PROXY_DELAY_REQUEST, .number = 1, .command = "set", .delay_ms = 3600000};
    CHECK(proxy_add_plan(way, later));
    CHECK(wire_say(fd, SET("b")));
    CHECK_STR(wire_hear(fd, 5, WIRE_SOON_MS), "(silence)");
    CHECK(is_there("b", "(nil)"));
    proxy_pass(way);
    CHECK_STR(wire_hear(fd, 5, WIRE_MS), "+OK\r\n");
    CHECK(is_there("b", "1"));
    tear_down();
}

TEST(plans_count_what_they_are_about_and_side_by_side)
{
    if (!set_up())
        return;
    CHECK(plan(PROXY_CUT_BEFORE, 1, "SET", "b"));
    CHECK(plan(PROXY_CUT_BEFORE, 3, "G*", NULL));
    CHECK(wire_say(fd, SET("a") GET("b") GET("a")));
    CHECK_STR(wire_hear(fd, 17, WIRE_MS), "+OK\r\n$-1\r\n$1\r\n1\r\n");
    CHECK_EQ_INT(proxy_get_stats(way).deeds, 0);
    CHECK(wire_say(fd, SET("b")));
    CHECK_STR(wire_hear(fd, 1, WIRE_MS), "(reset)");
    open_again(); /* counting goes on */
    CHECK(wire_say(fd, GET("a")));
    CHECK_STR(wire_hear(fd, 1, WIRE_MS), "(reset)");
    CHECK_EQ_INT(proxy_get_stats(way).deeds, 2);
    CHECK_EQ_INT(proxy_requests(way, "get"), 3);
    CHECK_EQ_INT(proxy_requests(way, "*"), 5);
    tear_down();
}

TEST(every_third_is_hit_until_the_plan_is_forgotten)
{
    if (!set_up())
        return;
    proxy_plan third = {.deed = PROXY_CUT_BEFORE, .number = 3, .every = true};
    CHECK(proxy_add_plan(way, third));
    for (int i = 0; i < 3; i++) {
        CHECK(wire_say(fd, PING PING));
        CHECK_STR(wire_hear(fd, 14, WIRE_MS), "+PONG\r\n+PONG\r\n");
        CHECK(wire_say(fd, PING));
        CHECK_STR(wire_hear(fd, 1, WIRE_MS), "(reset)");
        open_again();
    }
    proxy_forget_plans(way);
    for (int i = 0; i < 5; i++) {
        CHECK(wire_say(fd, PING));
        CHECK_STR(wire_hear(fd, 7, WIRE_MS), "+PONG\r\n");
    }
    tear_down();
}

TEST(the_57th_of_a_burst_is_hit_however_it_is_cut_into_packets)
{
    enum { MANY = 100, HIT = 57 };
    if (!set_up())
        return;
    char all[MANY * 64] = "", one[64];
    for (int i = 1; i <= MANY; i++) {
        snprintf(one, sizeof(one), "*3\r\n$3\r\nSET\r\n$4\r\nk%03d\r\n$2\r\n\r\n\r\n", i);
        strcat(all, one);
    }
    static const size_t packets[] = {1, 7, 1000000};
    for (int i = 0; i < 3; i++) {
        size_t size = strlen(all);
        redis_server_call(&server, "FLUSHALL");
        CHECK(plan(PROXY_CUT_BEFORE, HIT, "SET", NULL));
        for (size_t done = 0, part; done < size; done += part) {
            char packet[sizeof(all)];
            part = size - done < packets[i] ? size - done : packets[i];
            snprintf(packet, sizeof(packet), "%.*s", (int)part, all + done);
            if (!wire_say(fd, packet))
                break; /* it has been cut already */
        }
        /* A send that failed has taken the RST with it. */
        const char *heard = wire_hear(fd, 8000, WIRE_MS);
        CHECK(strstr(heard, "(reset)") || strstr(heard, "(end)"));
        AWAIT(atoi(redis_server_call(&server, "DBSIZE")) == HIT - 1);
        CHECK(is_there("k056", "\r\n") && is_there("k057", "(nil)"));
        open_again();
    }
    tear_down();
}

TEST(news_for_a_subscriber_does_not_shift_the_answers)
{
    if (!set_up())
        return;
    CHECK(wire_say(fd, "*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n"));
    CHECK_CONTAINS(wire_hear(fd, 60, WIRE_MS), "b\r\n:2\r\n");
    CHECK(plan(PROXY_CUT_REPLY, 1, "PING", NULL));
    redis_server_call(&server, "PUBLISH a x");
    const char *news = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n";
    CHECK_STR(wire_hear(fd, strlen(news), WIRE_MS), news);
    CHECK_EQ_INT(proxy_get_stats(way).answers, 2);
    CHECK(wire_say(fd, PING));
    CHECK_STR(wire_hear(fd, 1, WIRE_MS), "(reset)");
    tear_down();
}

TEST(what_is_not_resp_passes_as_it_is)
{
    if (!set_up())
        return;
    CHECK(wire_say(fd, PING));
    CHECK_STR(wire_hear(fd, 7, WIRE_MS), "+PONG\r\n");
    CHECK(wire_say(fd, "SET a 1\r\n")); /* a line for people with telnet */
    CHECK_STR(wire_hear(fd, 5, WIRE_MS), "+OK\r\n");
    CHECK(is_there("a", "1"));
    tear_down();
}

/* ---- libdlock ---- */

static dlock_client *open_client(void)
{
    return api_open("redis://127.0.0.1:%d?client.timeout_ms=200&client.log_level=error",
                    proxy_port(way));
}

/* Each fault of one request, told line by line: exactly one grant comes of the acquire. */
TEST(whatever_happens_to_an_acquire_it_is_one_grant)
{
    static const char *const lines[] = {
        "drop-reply 1 EVAL*",      "cut-reply 1 EVAL*",         "cut-before 1 EVAL*",
        "cut-after 1 EVAL*",       "tear-reply 1 EVAL*",        "tear-request 1 EVAL*",
        "delay-reply 300 1 EVAL*", "delay-request 300 1 EVAL*",
    };
    if (!set_up())
        return;
    dlock_client *client = open_client();
    dlock_lock *lock = NULL;
    CHECK_OK(dlock_lock_new(client, DLOCK_MUTEX, "L", NULL, &lock, NULL), NULL);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char answer[PROXY_ANSWER_MAX];
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        harness_note("%s", lines[i]);
        CHECK(proxy_obey(p, lines[i], answer));
        CHECK_STR(answer, "ok");
        CHECK_OK(dlock_lock_acquire(lock, WIRE_MS, &hold, &err), err);
        CHECK_EQ_INT(proxy_get_stats(way).deeds, i + 1);
        CHECK_STR(redis_server_call(&server, "HKEYS L"), dlock_hold_owner(hold));
        CHECK_STR(redis_server_call(&server, "HVALS L"), "1");
        CHECK_EQ_INT(atoll(redis_server_call(&server, "GET redisson_lock_token:{L}")),
                     dlock_hold_token(hold));
        CHECK_OK(dlock_hold_release(hold, &err), err);
        CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
        dlock_hold_free(hold);
    }
    dlock_lock_free(lock);
    dlock_client_free(client);
    tear_down();
}
