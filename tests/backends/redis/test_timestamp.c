/* The time-stamp layout on a real server: what lies there, what peers with SETNX and GETSET may do
 * to it, and what becomes of that. That it keeps a lock's promises say the API's tests. */
#include "single.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set_up(const char *format)
{
    return single_set_up("redis.layout", "timestamp", "redis.timestamp_format", format,
                         NULL);
}

/* The server's clock, ms. */
static int64_t server_now(void)
{
    return atoll(redis_server_call(&server, "EVAL \"local t = redis.call('time') return "
                                            "t[1] * 1000 + math.floor(t[2] / 1000)\" 0"));
}

static int64_t stamp(void)
{
    return atoll(redis_server_call(&server, "GET L"));
}

TEST(a_grant_is_the_end_of_its_lease_and_the_key_ends_with_it)
{
    if (!set_up("ms"))
        return;
    int64_t before = server_now();
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    int64_t after = server_now();
    CHECK(stamp() >= before + 10000 && stamp() <= after + 10000);
    int64_t left = atoll(redis_server_call(&server, "PTTL L"));
    CHECK(left > 0 && left <= 10000);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    CHECK_STR(redis_server_call(&server, "EXISTS L dlock_owner:{L}"), "0");
    single_tear_down();
}

TEST(a_stamp_in_seconds_is_never_earlier_than_the_lease)
{
    if (!set_up("s"))
        return;
    int64_t before = server_now();
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    int64_t after = server_now();
    CHECK(stamp() * 1000 >= before + 10000 && stamp() * 1000 <= after + 11000);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, 1, NULL), DLK_YES);
    redis_server_call(&server, "SET L %" PRId64 ".75", server_now() / 1000 + 60);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, NULL), DLK_HELD);
    single_tear_down();
}

TEST(a_stamp_of_others_keeps_us_out_until_it_is_over)
{
    if (!set_up("ms"))
        return;
    redis_server_call(&server, "SET L %" PRId64, server_now() + 60000);
    dlk_ask ask = world_make(&w, DLK_ACQUIRE, key, 1);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_HELD);
    CHECK(ask.wait_ms > 0 && ask.wait_ms <= 100); /* polled: nobody tells of its end */
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_NOT_OURS);
    CHECK(stamp() > server_now());
    redis_server_call(&server, "SET L %" PRId64, server_now() - 1);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK(stamp() > server_now() + 5000);
    single_tear_down();
}

TEST(what_is_no_stamp_is_a_conflict_and_left_alone)
{
    static const char *const values[] = {"somebody", "12x", "-5", "1e9"};
    if (!set_up("ms"))
        return;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        redis_server_call(&server, "SET L %s", values[i]);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
        CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
        CHECK_STR(redis_server_call(&server, "GET L"), values[i]);
    }
    single_tear_down();
}

TEST(a_stamp_of_any_size_is_waited_for_and_cuts_no_connection)
{
    static const char *const values[] = {"9007199254740993", "9223372036854775807",
                                         "9223372036854775808", "99999999999999999999.5"};
    if (!set_up("ms"))
        return;
    char many[400];
    memset(many, '9', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    for (size_t i = 0; i <= sizeof(values) / sizeof(values[0]); i++) {
        const char *value = i < sizeof(values) / sizeof(values[0]) ? values[i] : many;
        redis_server_call(&server, "SET L %s", value);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_HELD);
        dlk_ask look = world_make(&w, DLK_INSPECT, key, 1);
        world_ask(&w, &look);
        CHECK_EQ_INT(world_await(&w, &look), DLK_YES);
        dlock_info_free(look.info);
    }
    single_tear_down();
}

TEST(a_late_getset_of_one_who_lost_the_race_for_an_old_lock_is_mended)
{
    if (!set_up("ms"))
        return;
    redis_server_call(&server, "SET L %" PRId64, server_now() - 5);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    int64_t ours = stamp();
    /* A peer had read the old stamp as well. What it gets back tells it that it was late. */
    int64_t seen =
        atoll(redis_server_call(&server, "GETSET L %" PRId64, server_now() + 3000));
    CHECK_EQ_INT(seen, ours);
    if (world_do(&w, DLK_VERIFY, key, 1, NULL) == DLK_YES) /* looked at within a second */
        CHECK_EQ_INT(stamp(), ours);
    single_tear_down();
}

/* So long after the take-over, by what is written of it. */
static void age(int ms)
{
    redis_server_call(
        &server,
        "EVAL \"local who, written, since = "
        "string.match(redis.call('get', KEYS[1]), '^(%%S+) (%%S+) (%%d+)$') "
        "redis.call('set', KEYS[1], who .. ' ' .. written .. ' ' .. "
        "string.format('%%.0f', since - %d), 'KEEPTTL') return 1\" 1 "
        "dlock_owner:{L}",
        ms);
}

/* What asks again, or makes the lease last, takes nothing over: the second runs from when that was. */
TEST(a_request_that_finds_the_lock_ours_makes_no_take_over_younger)
{
    static const dlk_verb verbs[] = {DLK_ACQUIRE, DLK_RENEW, DLK_IMPORT};
    char giver[80];
    for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
        if (!set_up("ms"))
            return;
        redis_server_call(&server, "SET L %" PRId64, server_now() - 5);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
        age(1001);
        snprintf(giver, sizeof(giver), "%s:1", w.uuid);
        dlk_ask again = world_make(&w, verbs[i], key, verbs[i] == DLK_IMPORT ? 2 : 1);
        again.text = giver;
        if (verbs[i] == DLK_IMPORT) {
            dlk_ask first = again;
            world_ask(&w, &first);
            CHECK_EQ_INT(world_await(&w, &first), DLK_YES);
        }
        again.ttl_ms *= 2; /* so that it is surely written anew */
        world_ask(&w, &again);
        CHECK_EQ_INT(world_await(&w, &again), DLK_YES);
        redis_server_call(&server, "GETSET L %" PRId64, server_now() + 60000);
        CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, again.number, NULL), DLK_NOT_OURS);
        single_tear_down();
    }
}

TEST(whoever_writes_a_stamp_later_than_that_has_it)
{
    if (!set_up("ms"))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES); /* from nobody */
    redis_server_call(&server, "GETSET L %" PRId64, server_now() + 60000);
    CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, 1, NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, NULL), DLK_HELD);
    CHECK(stamp() > server_now() + 30000);
    single_tear_down();
}

TEST(asking_again_is_the_same_grant_with_the_same_token)
{
    if (!set_up("ms"))
        return;
    int64_t token, again;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, &token), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, &again), DLK_YES);
    CHECK_EQ_INT(again, token);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, NULL), DLK_HELD);
    single_tear_down();
}

TEST(who_requires_fencing_is_told_that_it_depends_on_clocks)
{
    if (!set_up("ms"))
        return;
    char uri[64];
    world strict;
    dlock_error *err = NULL;
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(world_connect(&strict, uri, "redis.layout", "timestamp", "client.require",
                        "fencing", NULL));
    dlk_key other = {.name = "L", .size = 1, .kind = DLOCK_MUTEX};
    other.settings = strict.settings;
    CHECK_EQ_INT(strict.backend->type->key_open(strict.backend, &other, &err),
                 DLOCK_ENOTSUP);
    CHECK_CONTAINS(dlock_error_text(err), "clocks");
    dlk_error_clear(&err);
    world_close(&strict);
    single_tear_down();
}
