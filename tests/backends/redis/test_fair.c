/* The fair form on a real server, request by request: what lies there is Redisson's list and
 * zset, which stay identical, and who is next is told alone. That whole clients get their turns
 * says test_line.c; that Redisson's do beside ours, tests/interop. */
#include "harness/redis_server.h"
#include "util/error.h"
#include "util/info.h"
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 4, TTL_MS = 10000, W_MS = 20000, SLACK_MS = 5000 };

#define QUEUE    "redisson_lock_queue:{L}"
#define TIMEOUTS "redisson_lock_timeout:{L}"
#define SILENT   "dlock_silent:{L}"
#define CHANNEL  "redisson_lock__channel:{L}"

static redis_server server;
static world w[CLIENTS];
static dlk_key *key[CLIENTS];

static bool set_up(const char *config)
{
    char uri[64];
    if (!redis_server_available() || !redis_server_start(&server, config))
        return false;
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    for (int i = 0; i < CLIENTS; i++) {
        if (!world_connect(&w[i], uri, "lock.fair", "true", "redis.fair_wait_ms", "20000",
                           NULL))
            return false;
        key[i] = world_key(&w[i], "L");
        if (!key[i])
            return false;
    }
    return true;
}

static void teardown(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        world_watch(&w[i], key[i], false);
        world_forget(&w[i], key[i]);
        world_close(&w[i]);
    }
    redis_server_stop(&server);
}

/* ---- short ways ---- */

/* Client @p i's contender 1. */
static dlk_reply take(int i)
{
    return world_do(&w[i], DLK_ACQUIRE, key[i], 1, NULL);
}

static dlk_reply give(int i)
{
    return world_do(&w[i], DLK_RELEASE, key[i], 1, NULL);
}

static int64_t asked_after(int i, bool once)
{
    dlk_ask ask = world_make(&w[i], DLK_ACQUIRE, key[i], 1);
    ask.once = once;
    world_ask(&w[i], &ask);
    return world_await(&w[i], &ask) == DLK_HELD ? ask.wait_ms : -2;
}

static const char *member(int i)
{
    static char names[CLIENTS][64];
    snprintf(names[i], sizeof(names[i]), "%s:1", w[i].uuid);
    return names[i];
}

static int64_t server_ms(void)
{
    const char *text = redis_server_call(&server, "TIME");
    char *rest;
    int64_t seconds = strtoll(text, &rest, 10);
    return seconds * 1000 + strtoll(rest, NULL, 10) / 1000;
}

/* When the place lapses; 0: there is none. */
static int64_t score(const char *owner)
{
    return atoll(redis_server_call(&server, "ZSCORE " TIMEOUTS " %s", owner));
}

/* The line has these, in this order, and the zset the same. */
static bool line_is(const char *owners)
{
    char line[1024];
    snprintf(line, sizeof(line), "%s",
             redis_server_call(&server, "LRANGE " QUEUE " 0 -1"));
    if (!harness_str(__FILE__, __LINE__, "the line", line, owners))
        return false;
    int64_t count = 0;
    char *rest = NULL;
    for (char *owner = strtok_r(line, " ", &rest); owner;
         owner = strtok_r(NULL, " ", &rest), count++)
        if (!harness_check(__FILE__, __LINE__, score(owner) != 0, owner))
            return false;
    int64_t scores = atoll(redis_server_call(&server, "ZCARD " TIMEOUTS));
    return harness_eq_int(__FILE__, __LINE__, "members of the zset", scores, count);
}

static bool line_is_of(int first, int second, int third)
{
    char text[256] = "";
    const int of[] = {first, second, third};
    for (int i = 0; i < 3 && of[i] >= 0; i++) {
        strcat(text, i ? " " : "");
        strcat(text, member(of[i]));
    }
    return line_is(text);
}

static bool near(int64_t got, int64_t expected)
{
    if (got < expected - SLACK_MS || got > expected + SLACK_MS)
        harness_note("%" PRId64 " instead of about %" PRId64, got, expected);
    return got >= expected - SLACK_MS && got <= expected + SLACK_MS;
}

static int listeners(const char *owner)
{
    const char *text = redis_server_call(&server, "PUBSUB NUMSUB " CHANNEL "%s%s",
                                         owner[0] ? ":" : "", owner);
    return atoi(strrchr(text, ' ') + 1);
}

/* Client @p i joins the line and listens: nobody can take it for dead. */
static bool join(int i)
{
    if (!harness_eq_int(__FILE__, __LINE__, "the answer to who joins", take(i), DLK_HELD))
        return false;
    world_watch(&w[i], key[i], true);
    return harness_check(__FILE__, __LINE__,
                         ROUNDS_REACH(&w[i], listeners(member(i)) == 1), "it listens");
}

/* ---- the line ---- */

TEST(who_has_to_wait_stands_in_redissons_list_and_zset)
{
    if (!set_up(NULL))
        return;
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK(line_is(""));
    for (int i = 1; i < CLIENTS; i++)
        CHECK_EQ_INT(take(i), DLK_HELD);
    CHECK(line_is_of(1, 2, 3));
    int64_t now = server_ms();
    CHECK(near(score(member(1)), now + TTL_MS + W_MS));
    CHECK_EQ_INT(score(member(2)), score(member(1)) + W_MS);
    CHECK_EQ_INT(score(member(3)), score(member(2)) + W_MS);
    /* As it would be left if all of them died now: it goes a day after their places. */
    CHECK(near(now + atoll(redis_server_call(&server, "PTTL " QUEUE)),
               score(member(1)) + 86400000));
    CHECK(near(now + atoll(redis_server_call(&server, "PTTL " TIMEOUTS)),
               score(member(1)) + 86400000));
    teardown();
}

TEST(the_lock_goes_to_the_head_and_to_nobody_else)
{
    if (!set_up(NULL))
        return;
    CHECK_EQ_INT(take(0), DLK_YES);
    for (int i = 1; i < CLIENTS; i++)
        CHECK(join(i));
    int64_t before = score(member(3));
    CHECK_EQ_INT(give(0), DLK_YES);
    CHECK_EQ_INT(take(0), DLK_HELD); /* behind all the others now */
    CHECK_EQ_INT(take(3), DLK_HELD);
    CHECK_EQ_INT(take(2), DLK_HELD);
    CHECK_EQ_INT(take(1), DLK_YES);
    char rest[256];
    snprintf(rest, sizeof(rest), "%s %s %s", member(2), member(3), member(0));
    CHECK(line_is(rest));
    CHECK_EQ_INT(score(member(3)), before - W_MS); /* exactly what the head had put off */
    CHECK_EQ_INT(give(1), DLK_YES);
    CHECK_EQ_INT(take(2), DLK_YES);
    CHECK_EQ_INT(give(2), DLK_YES);
    CHECK_EQ_INT(take(3), DLK_YES);
    CHECK_EQ_INT(give(3), DLK_YES);
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK_EQ_INT(give(0), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), "redisson_lock_token:{L}");
    teardown();
}

TEST(asking_again_keeps_the_place_and_the_grant)
{
    int64_t token, again;
    if (!set_up(NULL))
        return;
    CHECK_EQ_INT(world_do(&w[0], DLK_ACQUIRE, key[0], 1, &token), DLK_YES);
    CHECK_EQ_INT(world_do(&w[0], DLK_ACQUIRE, key[0], 1, &again), DLK_YES);
    CHECK_EQ_INT(again, token);
    CHECK(join(1));
    for (int round = 0; round < 3; round++) {
        CHECK_EQ_INT(take(1), DLK_HELD);
        CHECK_EQ_INT(take(2), DLK_HELD);
    }
    CHECK(line_is_of(1, 2, -1));
    int64_t before = score(member(1));
    dlk_ask ask = world_make(&w[1], DLK_ACQUIRE, key[1], 1);
    world_ask(&w[1], &ask);
    CHECK_EQ_INT(world_await(&w[1], &ask), DLK_HELD);
    CHECK(!ask.new_place);
    CHECK_EQ_INT(score(member(1)), before);
    CHECK_EQ_INT(give(0), DLK_YES);
    CHECK_EQ_INT(world_do(&w[1], DLK_ACQUIRE, key[1], 1, &token), DLK_YES);
    CHECK_EQ_INT(world_do(&w[1], DLK_ACQUIRE, key[1], 1, &again), DLK_YES);
    CHECK_EQ_INT(again, token);
    CHECK(line_is_of(2, -1, -1));
    teardown();
}

TEST(who_gives_up_takes_its_time_from_those_behind_it_only)
{
    if (!set_up(NULL))
        return;
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ_INT(take(i), i == 0 ? DLK_YES : DLK_HELD);
    int64_t first = score(member(1)), second = score(member(2)), last = score(member(3));
    CHECK_EQ_INT(give(3), DLK_YES);
    CHECK(line_is_of(1, 2, -1));
    CHECK_EQ_INT(score(member(1)), first);
    CHECK_EQ_INT(score(member(2)), second);
    CHECK_EQ_INT(take(3), DLK_HELD);
    CHECK_EQ_INT(score(member(3)), last);
    CHECK_EQ_INT(give(2), DLK_YES);
    CHECK(line_is_of(1, 3, -1));
    CHECK_EQ_INT(score(member(1)), first);
    CHECK_EQ_INT(score(member(3)), last - W_MS);
    CHECK_EQ_INT(give(2), DLK_NOT_OURS); /* the same request once more */
    CHECK(line_is_of(1, 3, -1));
    CHECK_EQ_INT(score(member(3)), last - W_MS);
    CHECK_EQ_INT(world_do(&w[0], DLK_VERIFY, key[0], 1, NULL), DLK_YES);
    teardown();
}

TEST(a_try_takes_no_place)
{
    if (!set_up(NULL))
        return;
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK(asked_after(1, true) >= 0);
    CHECK(line_is(""));
    CHECK(join(2));
    CHECK_EQ_INT(give(0), DLK_YES);
    CHECK(asked_after(1, true) >= 0); /* free, but not for those outside of the line */
    CHECK(line_is_of(2, -1, -1));
    CHECK_EQ_INT(give(2), DLK_YES);
    dlk_ask ask = world_make(&w[1], DLK_ACQUIRE, key[1], 1);
    ask.once = true;
    world_ask(&w[1], &ask);
    CHECK_EQ_INT(world_await(&w[1], &ask), DLK_YES);
    teardown();
}

TEST(a_place_is_kept_from_lapsing_by_asking_and_never_shortened)
{
    if (!set_up(NULL))
        return;
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK_EQ_INT(take(1), DLK_HELD);
    CHECK_EQ_INT(take(2), DLK_HELD);
    int64_t now = server_ms(), others = score(member(2));
    redis_server_call(&server, "ZADD " TIMEOUTS " %" PRId64 " %s", now + W_MS / 4,
                      member(1));
    CHECK_EQ_INT(take(1), DLK_HELD);
    CHECK(near(score(member(1)), server_ms() + W_MS));
    CHECK_EQ_INT(score(member(2)), others);
    redis_server_call(&server, "ZADD " TIMEOUTS " %" PRId64 " %s", now + 100 * W_MS,
                      member(1));
    CHECK_EQ_INT(take(1), DLK_HELD);
    CHECK_EQ_INT(score(member(1)), now + 100 * W_MS);
    teardown();
}

TEST(a_place_that_lapsed_is_lost_and_the_next_one_is_told)
{
    if (!set_up(NULL))
        return;
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ_INT(take(i), i == 0 ? DLK_YES : DLK_HELD);
    world_watch(&w[2], key[2], true);
    ROUNDS_UNTIL(&w[2], w[2].notices == 1);
    redis_server_call(&server, "ZADD " TIMEOUTS " 1 %s", member(1));
    CHECK_EQ_INT(give(0), DLK_YES);
    ROUNDS_UNTIL(&w[2], w[2].notices == 2);
    CHECK(line_is_of(2, 3, -1));
    dlk_ask ask = world_make(&w[1], DLK_ACQUIRE, key[1], 1);
    world_ask(&w[1], &ask);
    CHECK_EQ_INT(world_await(&w[1], &ask), DLK_HELD); /* it was alive: at the tail */
    CHECK(ask.new_place);
    CHECK(line_is_of(2, 3, 1));
    CHECK_EQ_INT(take(2), DLK_YES);
    teardown();
}

/* ---- who is told ---- */

TEST(only_the_head_is_told_of_a_release)
{
    if (!set_up(NULL))
        return;
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ_INT(take(i), i == 0 ? DLK_YES : DLK_HELD);
        if (i == 0)
            continue;
        world_watch(&w[i], key[i], true);
        ROUNDS_UNTIL(&w[i], w[i].notices == 1); /* the subscription stands */
        CHECK_EQ_INT(listeners(member(i)), 1);
    }
    CHECK_EQ_INT(listeners(""), 0);
    CHECK_EQ_INT(give(0), DLK_YES);
    ROUNDS_UNTIL(&w[1], w[1].notices == 2);
    for (int i = 2; i < CLIENTS; i++) {
        world_spin(&w[i], 20);
        CHECK_EQ_INT(w[i].notices, 1);
    }
    CHECK_EQ_INT(take(1), DLK_YES);
    CHECK_EQ_INT(give(1), DLK_YES);
    ROUNDS_UNTIL(&w[2], w[2].notices == 2);
    teardown();
}

TEST(those_who_wait_beside_the_line_are_told_too)
{
    world plain;
    char uri[64];
    if (!set_up(NULL))
        return;
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(world_connect(&plain, uri, NULL));
    dlk_key *same = world_key(&plain, "L");
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK_EQ_INT(world_do(&plain, DLK_ACQUIRE, same, 1, NULL), DLK_HELD);
    world_watch(&plain, same, true);
    ROUNDS_UNTIL(&plain, plain.notices == 1);
    CHECK_EQ_INT(give(0), DLK_YES);
    ROUNDS_UNTIL(&plain, plain.notices == 2);
    CHECK_EQ_INT(world_do(&plain, DLK_ACQUIRE, same, 1, NULL), DLK_YES);
    CHECK_EQ_INT(take(0), DLK_HELD);
    world_watch(&plain, same, false);
    world_forget(&plain, same);
    world_close(&plain);
    teardown();
}

TEST(what_is_listened_to_follows_the_contender)
{
    char second[64];
    if (!set_up(NULL))
        return;
    snprintf(second, sizeof(second), "%s:2", w[1].uuid);
    CHECK_EQ_INT(take(0), DLK_YES);
    world_watch(&w[1], key[1], true); /* nobody contends: the lock itself */
    ROUNDS_UNTIL(&w[1], listeners("") == 1);
    CHECK_EQ_INT(take(1), DLK_HELD);
    ROUNDS_UNTIL(&w[1], listeners(member(1)) == 1);
    CHECK_EQ_INT(give(1), DLK_YES);
    int told = w[1].notices;
    CHECK_EQ_INT(world_do(&w[1], DLK_ACQUIRE, key[1], 2, NULL), DLK_HELD);
    ROUNDS_UNTIL(&w[1], listeners(second) == 1 && listeners(member(1)) == 0);
    ROUNDS_UNTIL(&w[1],
                 w[1].notices > told); /* asks again: it may have been told in between */
    world_watch(&w[1], key[1], false);
    ROUNDS_UNTIL(&w[1], listeners(second) == 0);
    teardown();
}

TEST(the_head_of_a_free_lock_that_gives_up_tells_the_next)
{
    if (!set_up(NULL))
        return;
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ_INT(take(i), i == 0 ? DLK_YES : DLK_HELD);
    world_watch(&w[2], key[2], true);
    ROUNDS_UNTIL(&w[2], w[2].notices == 1);
    CHECK_EQ_INT(give(0), DLK_YES);
    CHECK_EQ_INT(give(1), DLK_YES);
    ROUNDS_UNTIL(&w[2], w[2].notices >= 2);
    CHECK_EQ_INT(take(2), DLK_YES);
    teardown();
}

/* ---- the dead ---- */

TEST(the_dead_lose_their_places_long_before_these_lapse)
{
    if (!set_up(NULL))
        return;
    CHECK_EQ_INT(take(0), DLK_YES);
    for (int dead = 0; dead < 3; dead++)
        redis_server_call(&server,
                          "EVAL \"redis.call('rpush',KEYS[1],ARGV[1]) "
                          "redis.call('zadd',KEYS[2],9e12,ARGV[1])\" 2 " QUEUE
                          " " TIMEOUTS " dead:%d",
                          dead);
    CHECK_EQ_INT(take(1), DLK_HELD);
    world_watch(&w[1], key[1], true);
    ROUNDS_UNTIL(&w[1], w[1].notices == 1);
    int64_t freed = dlk_clock_now();
    CHECK_EQ_INT(give(0), DLK_YES);
    ROUNDS_UNTIL(&w[1],
                 w[1].notices == 2); /* the first who listens is to look after it */
    CHECK(score("dead:0") > server_ms() + 3000); /* it may be about to listen */
    world_spin(&w[1], 1100);
    CHECK(asked_after(1, false) >= 0);
    CHECK(score("dead:0") <= server_ms() + 3000); /* for Redisson, too */
    int64_t wait, asked = 0;
    while ((wait = asked_after(1, false)) >= 0) {
        CHECK(dlk_clock_now() < freed + 60 * DLK_NS_PER_SEC);
        asked++;
        world_spin(&w[1], wait + 1);
    }
    int64_t took = (dlk_clock_now() - freed) / DLK_NS_PER_MS;
    harness_note("three dead ones were in the way for %" PRId64 " ms; asked %" PRId64
                 " times meanwhile",
                 took, asked);
    CHECK(took >= 2900); /* somebody who only just subscribes isn't taken for dead */
    CHECK(asked <= 5);
    CHECK(line_is(""));
    CHECK_EQ_INT(give(1), DLK_YES);
    CHECK_STR(redis_server_call(&server, "EXISTS " SILENT), "0");
    teardown();
}

TEST(who_only_asks_and_never_listens_is_not_taken_for_dead)
{
    if (!set_up(NULL))
        return;
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK_EQ_INT(take(1), DLK_HELD);
    CHECK_EQ_INT(take(2), DLK_HELD);
    world_watch(&w[2], key[2], true);
    ROUNDS_UNTIL(&w[2], w[2].notices == 1);
    CHECK_EQ_INT(give(0), DLK_YES);
    /* Nobody listens as the head; as long as it is seen asking the lock waits for it. */
    for (int i = 0; i < 5; i++) {
        CHECK(asked_after(2, false) > 0);
        CHECK(line_is_of(1, 2, -1));
        redis_server_call(&server, "HSET " SILENT " %s 1", member(1)); /* for ages */
        redis_server_call(&server, "HSET L redisson:1 1");
        redis_server_call(&server, "PEXPIRE L 60000");
        CHECK(asked_after(1, false) >= 0);
        redis_server_call(&server, "DEL L");
        CHECK_STR(redis_server_call(&server, "HGET " SILENT " %s", member(1)), "(nil)");
        CHECK(score(member(1)) > server_ms() + W_MS / 2);
    }
    CHECK_EQ_INT(take(1), DLK_YES);
    teardown();
}

TEST(without_the_right_to_see_who_listens_places_lapse_as_in_redisson)
{
    if (!set_up("rename-command PUBSUB \"\""))
        return;
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK_EQ_INT(take(1), DLK_HELD);
    CHECK_EQ_INT(take(2), DLK_HELD);
    CHECK_EQ_INT(give(0), DLK_YES);
    int64_t now = server_ms();
    redis_server_call(&server, "ZADD " TIMEOUTS " %" PRId64 " %s", now + 400, member(1));
    int64_t wait = asked_after(2, false);
    CHECK(wait >= 0 && wait <= 400); /* not later than the place lapses */
    world_spin(&w[2], 450);
    CHECK_EQ_INT(take(2), DLK_YES);
    CHECK(line_is(""));
    teardown();
}

TEST(who_can_no_longer_be_told_asks_instead)
{
    if (!set_up(NULL))
        return;
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK(join(1));
    CHECK_EQ_INT(asked_after(1, false), W_MS / 3);
    ROUNDS_UNTIL(&w[1], w[1].notices > 0);
    int told = w[1].notices;
    redis_server_call(&server, "ACL SETUSER default resetchannels"); /* for good */
    ROUNDS_UNTIL(&w[1], w[1].notices > told);
    ROUNDS_UNTIL(&w[1], asked_after(1, false) == 1000);
    teardown();
}

/* ---- others' traces ---- */

TEST(a_list_and_a_zset_that_differ_are_mended)
{
    if (!set_up(NULL))
        return;
    redis_server_call(&server, "RPUSH " QUEUE " ghost:1 ghost:2"); /* without scores */
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK(line_is(""));
    CHECK_EQ_INT(give(0), DLK_YES);
    redis_server_call(&server, "ZADD " TIMEOUTS " 9e12 ghost:3"); /* without a place */
    CHECK_EQ_INT(take(0), DLK_YES);
    CHECK(line_is(""));
    teardown();
}

TEST(a_holder_without_an_end_is_asked_about_now_and_then_only)
{
    if (!set_up(NULL))
        return;
    redis_server_call(&server, "HSET L redisson:1 1");
    CHECK_EQ_INT(asked_after(1, false), 1000);
    CHECK_EQ_INT(asked_after(1, false), 1000);
    world_watch(&w[1], key[1], true);
    ROUNDS_UNTIL(&w[1], w[1].notices == 1);
    CHECK_EQ_INT(asked_after(1, false), W_MS / 3);
    redis_server_call(&server, "PEXPIRE L 5000");
    int64_t wait = asked_after(1, false);
    CHECK(wait >= 0 && wait <= 5000);
    teardown();
}

TEST(something_else_in_the_place_of_lock_or_line_is_a_conflict_and_stays)
{
    static const char *const others[] = {"SET L x", "HSET L mode read", "SET " QUEUE " x",
                                         "SET " TIMEOUTS " x",
                                         "SET redisson_lock_token:{L} x"};
    if (!set_up(NULL))
        return;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        redis_server_call(&server, "FLUSHALL");
        redis_server_call(&server, "%s", others[i]);
        char before[256];
        snprintf(before, sizeof(before), "%s", redis_server_call(&server, "KEYS *"));
        CHECK_EQ_INT(take(0), DLK_REFUSED);
        CHECK_EQ_INT(w[0].code, DLOCK_ECONFLICT);
        CHECK_EQ_INT(give(0), DLK_NOT_OURS);
        CHECK_STR(redis_server_call(&server, "KEYS *"), before);
    }
    teardown();
}

/* ---- operators ---- */

TEST(inspect_counts_the_waiters_and_break_tells_the_head)
{
    if (!set_up(NULL))
        return;
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ_INT(take(i), i == 0 ? DLK_YES : DLK_HELD);
    world_watch(&w[1], key[1], true);
    ROUNDS_UNTIL(&w[1], w[1].notices == 1);
    dlk_ask ask = world_make(&w[3], DLK_INSPECT, key[3], 0);
    world_ask(&w[3], &ask);
    CHECK_EQ_INT(world_await(&w[3], &ask), DLK_YES);
    CHECK_STR(dlock_info_get(ask.info, "waiters"),
              "2"); /* and who asks, as the core knows */
    CHECK_STR(dlock_info_get(ask.info, "kind"), "mutex");
    CHECK_STR(dlock_info_get(ask.info, "holders.0.owner"), member(0));
    dlk_info_free(ask.info);
    ask = world_make(&w[3], DLK_BREAK, key[3], 0);
    ask.text = member(0);
    world_ask(&w[3], &ask);
    CHECK_EQ_INT(world_await(&w[3], &ask), DLK_YES);
    ROUNDS_UNTIL(&w[1], w[1].notices == 2);
    CHECK_EQ_INT(world_do(&w[0], DLK_RENEW, key[0], 1, NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(give(0), DLK_NOT_OURS);
    CHECK_EQ_INT(take(1), DLK_YES);
    CHECK_EQ_INT(world_do(&w[1], DLK_RENEW, key[1], 1, NULL), DLK_YES);
    teardown();
}
