/* Read/write locks in Redisson's layout on a real server: what lies there, what a request that
 * comes twice or late does, leases, and the turn from write to read. Others are played by hand
 * here; the real Redisson is in tests/interop. */
#include "rw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what lies there ---- */

TEST(a_writer_is_redissons_hash_with_a_mode_and_nothing_else)
{
    if (!set_up())
        return;
    char all[160];
    CHECK_EQ_INT(WRITE(7), DLK_YES);
    snprintf(all, sizeof(all), "mode write %s:7:write 1", w.uuid);
    CHECK_STR(redis_server_call(&server, "HGETALL L"), all);
    CHECK(number_of("PTTL L") > 10000 && number_of("PTTL L") <= 20000);
    CHECK_EQ_INT(number_of("GET " TOKEN_KEY), last_token);
    CHECK_EQ_INT(number_of("DBSIZE"), 2);
    CHECK_EQ_INT(WRITE_END(7), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), TOKEN_KEY);
    single_tear_down();
}

TEST(a_reader_has_a_timeout_key_of_its_own_as_redissons_have)
{
    if (!set_up())
        return;
    char all[160];
    CHECK_EQ_INT(READ(7), DLK_YES);
    snprintf(all, sizeof(all), "mode read %s:7 1", w.uuid);
    CHECK_STR(redis_server_call(&server, "HGETALL L"), all);
    CHECK(number_of("PTTL L") > 10000 && number_of("PTTL L") <= 20000);
    CHECK(own_left(7) > 10000 && own_left(7) <= 20000);
    CHECK_EQ_INT(READ_END(7), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), TOKEN_KEY);
    single_tear_down();
}

TEST(readers_share_and_exclude_writers_and_a_writer_excludes_all)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(READ(1), DLK_YES);
    CHECK_EQ_INT(READ(2), DLK_YES);
    CHECK_EQ_INT(WRITE(3), DLK_HELD);
    CHECK(last_wait > 10000 && last_wait <= 20000);
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK_EQ_INT(WRITE(3), DLK_HELD);
    CHECK_EQ_INT(READ_END(2), DLK_YES);
    CHECK_EQ_INT(WRITE(3), DLK_YES);
    CHECK_EQ_INT(READ(4), DLK_HELD);
    CHECK(last_wait > 10000 && last_wait <= 20000);
    CHECK_EQ_INT(WRITE(5), DLK_HELD);
    CHECK_EQ_INT(WRITE_END(3), DLK_YES);
    CHECK_EQ_INT(READ(4), DLK_YES);
    single_tear_down();
}

TEST(a_name_with_any_braces_keeps_its_readers_keys_together)
{
    static const struct {
        const char *name, *base;
    } names[] = {
        {"a{b", "a{b"},   {"x{}y", "x{}y"}, {"t}x", "{t}x}"},
        {"{u}v", "{u}v"}, {"}", "{}}"},     {"w", "{w}"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!set_up_name(names[i].name))
            return;
        CHECK_EQ_INT(READ(1), DLK_YES);
        CHECK_STR(redis_server_call(&server, "EXISTS %s:%s:1:rwlock_timeout:1",
                                    names[i].base, w.uuid),
                  "1");
        CHECK_EQ_INT(READ(2), DLK_YES);
        CHECK_EQ_INT(RENEW(READ_SIDE, 2), DLK_YES);
        CHECK_EQ_INT(READ_END(1), DLK_YES);
        CHECK_EQ_INT(WRITE(3), DLK_HELD);
        CHECK_EQ_INT(READ_END(2), DLK_YES);
        CHECK_EQ_INT(WRITE(3), DLK_YES);
        CHECK_EQ_INT(WRITE_END(3), DLK_YES);
        CHECK_EQ_INT(number_of("DBSIZE"), 1);
        single_tear_down();
    }
}

/* ---- asked twice, late, or in vain ---- */

TEST(a_repeated_acquire_is_the_same_grant_with_its_own_token)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(READ(1), DLK_YES);
    int64_t first = last_token;
    CHECK_EQ_INT(READ(2), DLK_YES); /* another grant between them */
    int64_t second = last_token;
    CHECK(second > first);
    CHECK_EQ_INT(READ(1), DLK_YES);
    CHECK_EQ_INT(last_token, first);
    CHECK_EQ_INT(READ(2), DLK_YES);
    CHECK_EQ_INT(last_token, second);
    CHECK_STR(redis_server_call(&server, "HVALS L"), "read 1 1");
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK_EQ_INT(READ_END(2), DLK_YES);
    CHECK_EQ_INT(WRITE(3), DLK_YES);
    int64_t written = last_token;
    CHECK(written > second);
    CHECK_EQ_INT(WRITE(3), DLK_YES);
    CHECK_EQ_INT(last_token, written);
    single_tear_down();
}

TEST(a_repeated_acquire_never_shortens_a_lease)
{
    if (!set_up())
        return;
    for (int side = WRITE_SIDE; side <= READ_SIDE; side++) {
        ttl_ms = 20000;
        CHECK_EQ_INT(ask_of(DLK_ACQUIRE, side, 1, NULL), DLK_YES);
        ttl_ms = 1000;
        CHECK_EQ_INT(ask_of(DLK_ACQUIRE, side, 1, NULL), DLK_YES);
        CHECK(number_of("PTTL L") > 10000);
        CHECK(side == WRITE_SIDE || own_left(1) > 10000);
        ttl_ms = 20000;
        CHECK_EQ_INT(ask_of(DLK_RELEASE, side, 1, NULL), DLK_YES);
    }
    single_tear_down();
}

TEST(what_was_released_stays_released_whatever_comes_late)
{
    if (!set_up())
        return;
    for (int side = WRITE_SIDE; side <= READ_SIDE; side++) {
        CHECK_EQ_INT(ask_of(DLK_ACQUIRE, side, 1, NULL), DLK_YES);
        CHECK_EQ_INT(ask_of(DLK_RELEASE, side, 1, NULL), DLK_YES);
        CHECK_EQ_INT(ask_of(DLK_RELEASE, side, 1, NULL), DLK_NOT_OURS);
        CHECK_EQ_INT(RENEW(WRITE_SIDE, 1), DLK_NOT_OURS);
        CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_NOT_OURS);
        CHECK_EQ_INT(VERIFY(side, 1), DLK_NOT_OURS);
        CHECK_STR(redis_server_call(&server, "KEYS *"), TOKEN_KEY);
    }
    CHECK_EQ_INT(WRITE(2), DLK_YES);
    CHECK_EQ_INT(READ_END(1), DLK_NOT_OURS);
    CHECK_EQ_INT(WRITE_END(1), DLK_NOT_OURS);
    CHECK_EQ_INT(READ_END(3), DLK_NOT_OURS);
    CHECK_EQ_INT(VERIFY(WRITE_SIDE, 2), DLK_YES);
    single_tear_down();
}

TEST(a_release_leaves_the_other_side_alone)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(READ(1), DLK_YES);
    CHECK_EQ_INT(WRITE_END(1), DLK_NOT_OURS); /* only the write side … */
    CHECK_EQ_INT(VERIFY(WRITE_SIDE, 1), DLK_NOT_OURS);
    CHECK_EQ_INT(VERIFY(READ_SIDE, 1), DLK_YES);
    CHECK_EQ_INT(RENEW(WRITE_SIDE, 1), DLK_NOT_OURS);
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK_EQ_INT(WRITE(2), DLK_YES);
    CHECK_EQ_INT(READ_END(2), DLK_YES); /* … but a reader's takes whichever there is */
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    single_tear_down();
}

/* ---- leases ---- */

TEST(renewing_lengthens_the_own_lease_and_that_of_the_lock_and_shortens_neither)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(READ(1), DLK_YES);
    int64_t token = last_token;
    redis_server_call(&server, "PEXPIRE L 9000");
    redis_server_call(&server, "PEXPIRE %s 8000", own_key(1));
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES);
    CHECK(number_of("PTTL L") > 10000);
    CHECK(own_left(1) > 10000);
    redis_server_call(&server, "PEXPIRE L 60000");
    redis_server_call(&server, "PEXPIRE %s 60000", own_key(1));
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES);
    CHECK(number_of("PTTL L") > 50000);
    CHECK(own_left(1) > 50000);
    CHECK_EQ_INT(READ(1), DLK_YES);
    CHECK_EQ_INT(last_token, token);
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK_EQ_INT(WRITE(2), DLK_YES);
    redis_server_call(&server, "PEXPIRE L 9000");
    CHECK_EQ_INT(RENEW(WRITE_SIDE, 2), DLK_YES);
    CHECK(number_of("PTTL L") > 10000);
    single_tear_down();
}

TEST(a_reader_whose_own_key_was_cut_off_is_a_reader_still)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(READ(1), DLK_YES);
    CHECK_EQ_INT(READ(2), DLK_YES);
    redis_server_call(&server, "DEL %s", own_key(1)); /* as Redisson before 4.4 can */
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES);
    CHECK(own_left(1) > 10000);
    CHECK_EQ_INT(READ_END(2), DLK_YES);
    CHECK(number_of("PTTL L") > 10000);
    CHECK_EQ_INT(WRITE(3), DLK_HELD);
    redis_server_call(&server, "PERSIST %s", own_key(1));
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES);
    CHECK(own_left(1) > 10000); /* no key of ours is without an end */
    CHECK_EQ_INT(READ(1), DLK_YES);
    CHECK(last_token > 1);
    single_tear_down();
}

TEST(the_lock_lasts_as_long_as_the_longest_lease_of_those_who_still_read)
{
    if (!set_up())
        return;
    ttl_ms = 60000;
    CHECK_EQ_INT(READ(1), DLK_YES);
    ttl_ms = 20000;
    CHECK_EQ_INT(READ(2), DLK_YES);
    CHECK(number_of("PTTL L") > 50000); /* a shorter lease doesn't cut a longer one */
    foreign_reader("java:9", 40000);
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK(number_of("PTTL L") > 30000 && number_of("PTTL L") <= 40000);
    CHECK_EQ_INT(READ(3), DLK_YES);
    ttl_ms = 5000;
    CHECK_EQ_INT(READ(4), DLK_YES); /* the shortest last */
    CHECK_EQ_INT(READ_END(3), DLK_YES);
    CHECK(number_of("PTTL L") > 30000 && number_of("PTTL L") <= 40000);
    CHECK_EQ_INT(READ_END(4), DLK_YES);
    redis_server_call(&server, "HDEL L java:9");
    redis_server_call(&server, "DEL {L}:java:9:rwlock_timeout:1");
    foreign_reader("java:8", 30000);
    redis_server_call(&server, "HSET L java:8 3"); /* re-entered twice */
    redis_server_call(&server, "SET {L}:java:8:rwlock_timeout:2 1 PX 90000");
    redis_server_call(&server, "SET {L}:java:8:rwlock_timeout:3 1 PX 10000");
    CHECK_EQ_INT(READ_END(2), DLK_YES);
    CHECK(number_of("PTTL L") > 80000 && number_of("PTTL L") <= 90000);
    CHECK_STR(redis_server_call(&server, "HGETALL L"), "mode read java:8 3");
    single_tear_down();
}

TEST(a_dead_reader_keeps_nobody_out_once_the_living_have_gone)
{
    if (!set_up())
        return;
    foreign_reader("dead:1", 20000);
    CHECK_EQ_INT(READ(1), DLK_YES);
    redis_server_call(&server, "DEL {L}:dead:1:rwlock_timeout:1"); /* its lease is over */
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES);
    CHECK_EQ_INT(WRITE(2), DLK_HELD);
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK_EQ_INT(WRITE(2), DLK_YES);
    single_tear_down();
}

TEST(a_lease_without_an_end_is_neither_ended_nor_given_one)
{
    if (!set_up())
        return;
    foreign_reader("for:1", 20000);
    redis_server_call(&server, "PERSIST {L}:for:1:rwlock_timeout:1");
    CHECK_EQ_INT(READ(1), DLK_YES);
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK_STR(redis_server_call(&server, "HGETALL L"), "mode read for:1 1");
    CHECK(number_of("PTTL L") > 0); /* nor shortened */
    redis_server_call(&server, "DEL {L}:for:1:rwlock_timeout:1");
    redis_server_call(&server, "PERSIST L");
    CHECK_EQ_INT(READ(2), DLK_YES);
    CHECK_EQ_INT(RENEW(READ_SIDE, 2), DLK_YES);
    CHECK_EQ_INT(number_of("PTTL L"), -1);
    CHECK_EQ_INT(WRITE(3), DLK_HELD);
    CHECK(last_wait < 0);
    CHECK_EQ_INT(READ_END(2), DLK_YES);
    CHECK_STR(redis_server_call(&server, "HGETALL L"), "mode read for:1 1");
    redis_server_call(&server, "SET {L}:for:1:rwlock_timeout:1 1 PX 20000");
    CHECK_EQ_INT(READ(4), DLK_YES);
    CHECK_EQ_INT(READ_END(4), DLK_YES);
    CHECK_EQ_INT(number_of("PTTL L"), -1);
    single_tear_down();
}

TEST(what_others_left_beside_a_writer_is_kept_as_long_as_it_lives)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(WRITE(1), DLK_YES);
    redis_server_call(&server, "HSET L java:1 1");
    redis_server_call(&server, "SET {L}:java:1:rwlock_timeout:1 1 PX 9000");
    CHECK_EQ_INT(WRITE_END(1), DLK_YES);
    CHECK_STR(redis_server_call(&server, "HGETALL L"), "mode read java:1 1");
    CHECK(number_of("PTTL L") <= 9000);
    CHECK_EQ_INT(READ(2), DLK_YES);
    redis_server_call(&server, "DEL L");
    CHECK_EQ_INT(WRITE(3), DLK_YES);
    redis_server_call(&server, "HSET L dead:1 1"); /* a stray field: Redisson's stays */
    CHECK_EQ_INT(WRITE_END(3), DLK_YES);
    CHECK_EQ_INT(number_of("EXISTS L"), 0);
    /* Whoever writes by now isn't touched by a reader that comes late. */
    redis_server_call(&server, "HSET L mode write java:2:write 1 %s:4 1", w.uuid);
    redis_server_call(&server, "PEXPIRE L 20000");
    CHECK_EQ_INT(READ_END(4), DLK_YES);
    CHECK_STR(redis_server_call(&server, "HGETALL L"), "mode write java:2:write 1");
    CHECK(number_of("PTTL L") > 10000);
    single_tear_down();
}

TEST(a_count_that_nobody_can_have_does_not_keep_the_server)
{
    if (!set_up())
        return;
    CHECK_EQ_INT(READ(1), DLK_YES);
    redis_server_call(&server, "HSET L bad:1 9223372036854775807 bad:2 -5 bad:3 pear");
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK_EQ_INT(number_of("HLEN L"), 4); /* unknown: left to end by itself */
    CHECK(number_of("PTTL L") > 0);
    CHECK_EQ_INT(BREAK(NULL), DLK_YES);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    single_tear_down();
}

/* ---- from write to read ---- */

TEST(renewing_the_read_side_of_a_writer_turns_it_into_a_reader)
{
    if (!set_up())
        return;
    char all[160];
    CHECK_EQ_INT(WRITE(1), DLK_YES);
    int64_t token = last_token;
    CHECK_EQ_INT(VERIFY(READ_SIDE, 1), DLK_YES); /* it is to be one */
    for (int again = 0; again < 2; again++) {
        CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES);
        snprintf(all, sizeof(all), "mode read %s:1 1", w.uuid);
        CHECK_STR(redis_server_call(&server, "HGETALL L"), all);
        CHECK_EQ_INT(atoll(redis_server_call(&server, "GET %s", own_key(1))), token);
        CHECK(own_left(1) > 10000);
    }
    CHECK_EQ_INT(RENEW(WRITE_SIDE, 1), DLK_NOT_OURS); /* there is no way back */
    CHECK_EQ_INT(READ(2), DLK_YES);
    CHECK(last_token > token);
    CHECK_EQ_INT(WRITE(3), DLK_HELD);
    CHECK_EQ_INT(WRITE(1), DLK_HELD); /* a late repetition doesn't write again */
    CHECK_EQ_INT(READ_END(1), DLK_YES);
    CHECK_EQ_INT(READ_END(2), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), TOKEN_KEY);
    single_tear_down();
}

TEST(a_turn_does_not_overtake_what_was_asked_of_the_writer_before_it)
{
    if (!set_up())
        return;
    dlk_key *lock = key, *other = world_key_of(&w, DLOCK_WRITE, "M");
    CHECK_EQ_INT(WRITE(1), DLK_YES);
    key = other;
    CHECK_EQ_INT(READ(2), DLK_YES);
    key = lock;
    dlk_ask asks[] = {world_make(&w, DLK_RENEW, other, 2),
                      world_make(&w, DLK_RENEW, lock, 1),
                      world_make(&w, DLK_RENEW, lock, 1)};
    asks[0].shared = asks[2].shared = true;
    for (int i = 0; i < 3; i++) /* they leave together, some in one script */
        world_ask(&w, &asks[i]);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(world_await(&w, &asks[i]), DLK_YES);
    CHECK(has_field(1, ""));
    world_forget(&w, other);
    single_tear_down();
}

TEST(a_turn_keeps_what_was_left_of_a_longer_lease)
{
    if (!set_up())
        return;
    ttl_ms = 60000;
    CHECK_EQ_INT(WRITE(1), DLK_YES);
    ttl_ms = 20000;
    CHECK_EQ_INT(RENEW(READ_SIDE, 1), DLK_YES);
    CHECK(number_of("PTTL L") > 50000);
    CHECK(own_left(1) > 50000); /* else another reader's release would cut it */
    single_tear_down();
}
