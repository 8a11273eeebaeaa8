/* The string layout on a real server: what lies there, and what of others is left alone. That it
 * keeps a lock's promises say the API's tests, which run on it too; that it excludes redis-py
 * says tests/interop. */
#include "single.h"
#include "util/error.h"
#include "util/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set_up(const char *notify)
{
    return single_set_up("redis.layout", "string", "redis.notify", notify, NULL);
}

#define TOKEN_KEY "redisson_lock_token:{L}"

TEST(a_grant_is_a_string_with_the_owner_and_a_lease)
{
    if (!set_up("false"))
        return;
    int64_t token;
    char owner[64];
    snprintf(owner, sizeof(owner), "%s:7", w.uuid);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 7, &token), DLK_YES);
    CHECK_STR(redis_server_call(&server, "GET L"), owner);
    int64_t left = atoll(redis_server_call(&server, "PTTL L"));
    CHECK(left > 0 && left <= 10000);
    CHECK_EQ_INT(atoll(redis_server_call(&server, "GET " TOKEN_KEY)), token);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 7, NULL), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), TOKEN_KEY);
    single_tear_down();
}

TEST(asking_again_is_the_same_grant_with_the_same_token)
{
    if (!set_up("false"))
        return;
    int64_t token, again;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, &token), DLK_YES);
    redis_server_call(&server, "PEXPIRE L 4000");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, &again), DLK_YES);
    CHECK_EQ_INT(again, token);
    CHECK(atoll(redis_server_call(&server, "PTTL L")) > 5000);
    single_tear_down();
}

TEST(where_no_token_can_be_had_no_lock_stays_and_nothing_of_others_is_changed)
{
    static const struct {
        const char *command;
        dlock_err code;
        const char *look, *found;
    } rows[] = {
        {"SET " TOKEN_KEY " 9007199254740991", DLOCK_EOVERFLOW, "GET " TOKEN_KEY,
         "9007199254740991"},
        {"SET " TOKEN_KEY " pear", DLOCK_ECONFLICT, "GET " TOKEN_KEY, "pear"},
        {"RPUSH " TOKEN_KEY " 1", DLOCK_ECONFLICT, "LLEN " TOKEN_KEY, "1"},
        {"ACL SETUSER default resetkeys ~L", DLOCK_EACCES, "EXISTS L", "0"},
        {"ACL SETUSER default resetkeys ~L %R~*", DLOCK_EACCES, "EXISTS " TOKEN_KEY, "0"},
    };
    if (!set_up("false"))
        return;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        redis_server_call(&server, "FLUSHALL");
        redis_server_call(&server, "%s", rows[i].command);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
        CHECK_EQ_INT(w.code, rows[i].code);
        CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
        CHECK_STR(redis_server_call(&server, "%s", rows[i].look), rows[i].found);
        redis_server_call(&server, "ACL SETUSER default ~*");
    }
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    single_tear_down();
}

TEST(what_others_hold_is_never_renewed_released_or_given_an_end)
{
    static const char *const values[] = {"redis-py's-token", "", "x y\\n"};
    if (!set_up("false"))
        return;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        redis_server_call(&server, "SET L \"%s\"", values[i]);
        dlk_ask ask = world_make(&w, DLK_ACQUIRE, key, 1);
        world_ask(&w, &ask);
        CHECK_EQ_INT(world_await(&w, &ask), DLK_HELD);
        CHECK(ask.wait_ms > 0 &&
              ask.wait_ms <= 100); /* polled: nobody tells of its end */
        CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_NOT_OURS);
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_NOT_OURS);
        CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, 1, NULL), DLK_NOT_OURS);
        CHECK_STR(redis_server_call(&server, "PTTL L"), "-1");
    }
    CHECK_STR(redis_server_call(&server, "EXISTS " TOKEN_KEY), "0"); /* nothing granted */
    single_tear_down();
}

TEST(another_type_under_the_name_is_a_conflict_and_stays)
{
    if (!set_up("false"))
        return;
    redis_server_call(&server, "HSET L somebody:1 1");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_NOT_OURS);
    CHECK_STR(redis_server_call(&server, "HGET L somebody:1"), "1");
    single_tear_down();
}

TEST(only_whom_notify_asks_for_is_told_of_a_release)
{
    static const char *const notify[] = {"false", "true"};
    for (int on = 0; on <= 1; on++) {
        if (!set_up(notify[on]))
            return;
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
        world_watch(&w, key, true);
        if (on)
            ROUNDS_UNTIL(&w, w.notices == 1); /* it is subscribed */
        CHECK_EQ_INT(atoi(redis_server_call(&server, "PUBLISH dlock_channel:{L} 0")), on);
        if (on)
            ROUNDS_UNTIL(&w, w.notices == 2);
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
        if (on)
            ROUNDS_UNTIL(&w, w.notices == 3);
        CHECK_EQ_INT(w.notices, on ? 3 : 0);
        world_watch(&w, key, false);
        single_tear_down();
    }
}

TEST(a_list_needs_a_beginning_because_any_string_may_be_a_lock)
{
    if (!set_up("false"))
        return;
    redis_server_call(&server, "SET jobs/1 a PX 60000");
    redis_server_call(&server, "SET jobs/2 b PX 60000");
    redis_server_call(&server, "SET other c");
    redis_server_call(&server, "HSET jobs/3 d 1");
    dlk_ask ask = world_make(&w, DLK_LIST, NULL, 0);
    ask.limit = 10;
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ENOTSUP);
    CHECK_CONTAINS(w.text, "client.prefix");
    ask = world_make(&w, DLK_LIST, NULL, 0);
    ask.limit = 10;
    ask.text = "jobs/";
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK(!dlock_info_get(ask.info, "locks.2.name"));
    CHECK_STR(ask.info->entries[0].text, "jobs/1");
    CHECK_STR(ask.info->entries[4].text, "b");
    dlk_info_free(ask.info);
    single_tear_down();
}
