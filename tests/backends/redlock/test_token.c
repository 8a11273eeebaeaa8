/* Which token a node proposes, by what it remembers, its clock and what the client says of all clocks. */
#include "backends/redis/asks.h"
#include "backends/redis/inner.h"
#include "backends/redis/layout.h"
#include "harness/api.h"
#include "harness/server_clock.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNTER "redisson_lock_token:{L}"

static world w;

static int64_t clock_us(void)
{
    long long seconds = 0, us = 0;
    (void)sscanf(redis_server_call(&w.node[0], "TIME"), "%lld %lld", &seconds, &us);
    return seconds * 1000000 + us;
}

/* Of a lock that nobody has, with this in the counter (0: nothing). */
static int64_t proposed(int64_t counter, int64_t past)
{
    const dlk_redis_form *form = dlk_redis_node_layout(true)->forms;
    const char *sha1 = dlk_redis_script_of(form, DLK_SCRIPT_ACQUIRE)->sha1;
    redis_server_call(&w.node[0], "DEL L " COUNTER);
    if (counter)
        redis_server_call(&w.node[0], "SET " COUNTER " %lld", (long long)counter);
    return atoll(redis_server_call(
        &w.node[0], "EVALSHA %s 2 L " COUNTER " channel owner 60000 86400000 0 %lld",
        sha1, (long long)past));
}

/* A client has brought the scripts there. */
static bool set(void)
{
    dlock_client *client =
        world_set(&w, 3, "?redlock.fencing=on") ? world_open(&w) : NULL;
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = lock ? world_take(lock, 60000) : NULL;
    if (hold)
        world_give(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    return hold != NULL;
}

TEST(it_is_the_moment_that_all_clocks_are_past)
{
    if (set()) {
        int64_t now = clock_us();
        CHECK_EQ_INT(proposed(now - 500000, now - 1000), now - 1000);
        CHECK_EQ_INT(atoll(redis_server_call(&w.node[0], "GET " COUNTER)), now - 1000);
    }
    world_clear(&w);
}

TEST(what_the_counter_is_past_is_behind_it)
{
    if (set()) {
        int64_t now = clock_us();
        CHECK_EQ_INT(proposed(now - 1000, now - 1000), now - 999);
        CHECK_EQ_INT(proposed(now + 60000000, now - 1000), now + 60000001);
    }
    world_clear(&w);
}

TEST(where_the_counter_is_lost_or_was_begun_anew_it_is_the_clock)
{
    if (set()) {
        int64_t now = clock_us();
        CHECK(proposed(0, now - 1000) >= now);
        CHECK(proposed(7, now - 1000) >= now);
    }
    world_clear(&w);
}

TEST(it_is_never_ahead_of_the_clock_nor_long_behind_it)
{
    if (set()) {
        int64_t now = clock_us();
        int64_t token = proposed(now - 5000000, now + 60000000);
        CHECK(token >= now && token <= clock_us());
        CHECK(proposed(now - 5000000, now - 1000000) >= now);
        CHECK(proposed(now - 5000000, 0) >= now);
    }
    world_clear(&w);
}

/* What a node is told of this moment that was greeted when its clock was there. */
static int64_t told(int64_t greeted_us, int64_t moment_us)
{
    static dlk_redis redis;
    char room[DLK_REDIS_MORE][64];
    dlk_arg args[DLK_REDIS_MORE];
    redis.greeted_us = greeted_us;
    dlk_redis_put_more(&redis, &(dlk_ask){.clock_us = moment_us},
                       dlk_redis_node_layout(true)->forms, args, room);
    room[1][args[1].size] = '\0';
    return atoll(room[1]);
}

TEST(a_node_is_told_of_no_moment_before_its_connection_began)
{
    CHECK_EQ_INT(told(5000000, 5000001), 5000001);
    CHECK_EQ_INT(told(5000000, 5000000), 0);
    CHECK_EQ_INT(told(5000000, 4999999), 0);
    CHECK_EQ_INT(told(5000000, 0), 0);
}

/* ---- a node that comes back with an older counter, as of a dump ---- */

static server_clock ahead;

/* A node whose clock is 0.9 s ahead, and two more. */
static bool start_nodes(void)
{
    w = (world){0};
    if (!redis_server_available() || !server_clock_start(&ahead, &w.node[0]))
        return false;
    server_clock_move(&ahead, 900);
    w.count = 3;
    return redis_server_start(&w.node[1], NULL) && redis_server_start(&w.node[2], NULL);
}

/* Who reaches the first one and this one of the others. */
static dlock_lock *lock_by(int other, dlock_client **ret_client)
{
    *ret_client =
        api_open("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?redlock.fencing=on",
                 w.node[0].port, w.node[other].port, redis_server_free_port());
    return *ret_client ? world_lock(*ret_client, "L") : NULL;
}

static int64_t token_by(dlock_lock *lock)
{
    dlock_hold *hold = world_take(lock, 60000);
    int64_t token = hold ? dlock_hold_token(hold) : 0;
    if (hold)
        world_give(hold);
    return token;
}

/* Whose moment lies further back than what the other was given, and finds that one's token at no node. */
TEST(tokens_rise_though_the_only_node_that_has_the_last_one_comes_back_with_an_older_one)
{
    dlock_client *early = NULL, *late = NULL;
    if (!start_nodes()) {
        world_clear(&w);
        return;
    }
    dlock_lock *before = lock_by(1, &early), *after = lock_by(2, &late);
    CHECK(before && after);
    for (int i = 0; i < 3; i++)
        CHECK(token_by(after));
    CHECK_STR(redis_server_call(&w.node[0], "SAVE"), "OK");
    int64_t last = token_by(before);
    CHECK(last);
    redis_server_kill(&w.node[0]);
    (void)setenv("LD_PRELOAD", getenv("DLK_CLOCK"), 1);
    bool again = redis_server_restart(&w.node[0]);
    server_clock_leave();
    CHECK(again);
    CHECK(token_by(after) > last);
    dlock_lock_free(before);
    dlock_lock_free(after);
    dlock_client_free(early);
    dlock_client_free(late);
    world_clear(&w);
    server_clock_end(&ahead);
}
