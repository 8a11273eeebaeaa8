/* Which token a node proposes, by what it remembers, its clock and what the client says of all clocks. */
#include "backends/redis/layout.h"
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
