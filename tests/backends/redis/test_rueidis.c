/* rueidislock's layout on a real server: most of an odd number of keys, all or nothing. That it
 * keeps a lock's promises say the API's tests; that it excludes rueidislock says tests/interop. */
#include "single.h"
#include "util/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char owner[64];

static bool set_up(const char *majority)
{
    if (!single_set_up("redis.layout", "rueidis", "redis.rueidis_majority", majority,
                       NULL))
        return false;
    snprintf(owner, sizeof(owner), "%s:1", w.uuid);
    return true;
}

/* Whose the key with this number is. */
static const char *slot(int number)
{
    return redis_server_call(&server, "GET rueidislock:%d:L", number);
}

static void occupy(int number, const char *value)
{
    redis_server_call(&server, "SET rueidislock:%d:L %s PX 60000", number, value);
}

TEST(a_grant_has_every_key_that_is_free_each_with_an_end)
{
    if (!set_up("2"))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    for (int i = 0; i < 3; i++) {
        CHECK_STR(slot(i), owner);
        int64_t left = atoll(redis_server_call(&server, "PTTL rueidislock:%d:L", i));
        CHECK(left > 0 && left <= 10000);
    }
    CHECK_STR(slot(3), "(nil)");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, NULL), DLK_HELD);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS rueidis*"), "");
    single_tear_down();
}

TEST(who_has_most_keys_excludes_and_who_has_few_does_not)
{
    if (!set_up("2"))
        return;
    occupy(0, "theirs");
    occupy(2, "theirs");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_HELD);
    CHECK_STR(slot(1), "(nil)"); /* all that are needed, or none */
    redis_server_call(&server, "DEL rueidislock:2:L");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_STR(slot(0), "theirs");
    CHECK_STR(slot(1), owner);
    CHECK_STR(slot(2), owner);
    redis_server_call(&server, "DEL rueidislock:0:L");
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_YES);
    CHECK_STR(slot(0), owner); /* what has become free is taken along */
    occupy(0, "theirs");
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    CHECK_STR(slot(0), "theirs");
    CHECK_STR(slot(1), "(nil)");
    single_tear_down();
}

TEST(a_renewal_makes_each_key_last_as_long_as_the_lease_and_no_longer)
{
    if (!set_up("2"))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    redis_server_call(&server, "PEXPIRE rueidislock:0:L 3000");
    redis_server_call(&server, "PEXPIRE rueidislock:1:L 3000");
    dlk_ask renew = world_make(&w, DLK_RENEW, key, 1);
    renew.most_ms = 60000;
    world_ask(&w, &renew);
    CHECK_EQ_INT(world_await(&w, &renew), DLK_YES);
    for (int i = 0; i < 3; i++) {
        int64_t left = atoll(redis_server_call(&server, "PTTL rueidislock:%d:L", i));
        CHECK(left > 3000 && left <= renew.ttl_ms);
    }
    single_tear_down();
}

TEST(whoever_has_lost_most_keys_has_lost_the_lock)
{
    if (!set_up("2"))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    redis_server_call(&server, "DEL rueidislock:0:L");
    CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, 1, NULL), DLK_YES);
    redis_server_call(&server, "DEL rueidislock:1:L");
    CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, 1, NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_NOT_OURS);
    CHECK_STR(slot(0), "(nil)"); /* a renewal makes nothing anew */
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_NOT_OURS);
    CHECK_STR(redis_server_call(&server, "KEYS rueidis*"), "");
    single_tear_down();
}

TEST(with_a_majority_of_one_there_is_one_key)
{
    if (!set_up("1"))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_STR(slot(0), owner);
    CHECK_STR(redis_server_call(&server, "EXISTS rueidislock:1:L"), "0");
    single_tear_down();
}

TEST(with_the_largest_majority_there_are_31_keys)
{
    if (!set_up("16"))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_STR(slot(30), owner);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    single_tear_down();
}

TEST(a_holder_of_theirs_is_shown_in_hex_and_can_be_broken)
{
    if (!set_up("2"))
        return;
    occupy(0, "\"\\x00\\xffab\"");
    occupy(1, "\"\\x00\\xffab\"");
    dlk_ask ask = world_make(&w, DLK_INSPECT, key, 0);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_STR(dlock_info_get(ask.info, "holders.0.owner"), "00ff6162");
    CHECK_STR(dlock_info_get(ask.info, "holders.0.count"), "1");
    dlk_info_free(ask.info);
    ask = world_make(&w, DLK_BREAK, key, 0);
    ask.text = "00ff6163";
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_NOT_OURS);
    ask = world_make(&w, DLK_BREAK, key, 0);
    ask.text = "00ff6162";
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS rueidis*"), "");
    single_tear_down();
}
