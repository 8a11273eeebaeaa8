/* What is left on the server of a lock that nobody uses: nothing for ever, and tokens rise all the same.
 * On a real server, whose clock the test sets. */
#include "forms.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS   INT64_C(3600000)
#define DAY_MS    (24 * HOUR_MS)
#define TOKEN_KEY "redisson_lock_token:{L}"

/* What is left of this key's time. */
static int64_t left_of(const char *name)
{
    return atoll(redis_server_call(&server, "PTTL %s", name));
}

static int64_t counter_left(void)
{
    return left_of(TOKEN_KEY);
}

/* Takes the lock; answers its token. */
static int64_t take(uint64_t number)
{
    dlk_ask ask = ask_of(DLK_ACQUIRE, number);
    return harness_eq_int(__FILE__, __LINE__, "the acquire", carry_out(&ask), DLK_YES)
               ? ask.token
               : -1;
}

static bool give(uint64_t number)
{
    dlk_ask ask = ask_of(DLK_RELEASE, number);
    return harness_eq_int(__FILE__, __LINE__, "the release", carry_out(&ask), DLK_YES);
}

static int64_t use(uint64_t number)
{
    int64_t token = take(number);
    return give(number) ? token : -1;
}

/* Each form once, and those that have tokens. */
static bool is_counted(const form *is)
{
    return !is->key && is->kind != DLOCK_SEMAPHORE;
}

#define EACH_COUNTED(is)                                                                 \
    EACH_FORM (is)                                                                       \
        if (is_counted(is))

/* The server's clock stands: else a new quarter of the time might begin between two looks. */
static bool begin(const form *is, const char *keep_ms)
{
    bool fine = set_up_keeping(is, keep_ms);
    server_clock_stop(&clock_there);
    return fine;
}

TEST(nothing_is_left_of_a_lock_that_nobody_uses_and_the_next_token_is_larger)
{
    EACH_COUNTED (is) {
        if (!begin(is, NULL))
            return;
        int64_t last = use(1);
        CHECK_EQ_INT(counter_left(), DAY_MS);
        server_clock_move(&clock_there, DAY_MS);
        CHECK_STR(redis_server_call(&server, "KEYS *"), TOKEN_KEY);
        server_clock_move(&clock_there, 1);
        CHECK_STR(redis_server_call(&server, "KEYS *"), "");
        CHECK(use(2) > last);
        teardown();
    }
    end();
}

TEST(the_end_is_put_off_once_in_each_quarter_of_the_time)
{
    EACH_COUNTED (is) {
        if (!begin(is, NULL))
            return;
        int64_t last = use(1), token;
        redis_server_call(&server, "PEXPIRE " TOKEN_KEY " %lld",
                          (long long)DAY_MS - 1000);
        CHECK((token = use(2)) > last);
        CHECK_EQ_INT(counter_left(), DAY_MS - 1000);
        server_clock_move(&clock_there, DAY_MS / 4);
        CHECK((last = use(3)) > token);
        CHECK_EQ_INT(counter_left(), DAY_MS);
        teardown();
    }
    end();
}

/* Asked for at that time, by our clock. */
static void renew_since(int64_t since)
{
    dlk_ask renew = ask_of(DLK_RENEW, 1);
    renew.ttl_ms = 20000;
    renew.since = since;
    CHECK_EQ_INT(carry_out(&renew), DLK_YES);
}

TEST(a_counter_stays_while_the_lock_is_held)
{
    static const struct {
        int64_t left, then;
    } rows[] = {{DAY_MS / 4 * 3, DAY_MS / 4 * 3}, {HOUR_MS, DAY_MS}, {1, DAY_MS}};
    EACH_COUNTED (is) {
        if (!begin(is, NULL))
            return;
        CHECK(take(1) > 0);
        int64_t since = dlk_clock_now();
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            redis_server_call(&server, "PEXPIRE " TOKEN_KEY " %lld",
                              (long long)rows[i].left);
            renew_since(since += DAY_MS / 8 * DLK_NS_PER_MS);
            CHECK_EQ_INT(counter_left(), rows[i].then);
            redis_server_call(&server,
                              "PEXPIRE " TOKEN_KEY " 1000"); /* not so soon again */
            renew_since(since + (DAY_MS / 8 - 1) * DLK_NS_PER_MS);
            CHECK_EQ_INT(counter_left(), 1000);
        }
        redis_server_call(&server, "PERSIST " TOKEN_KEY);
        renew_since(since + DAY_MS * DLK_NS_PER_MS);
        CHECK_EQ_INT(counter_left(), -1);
        teardown();
    }
    end();
}

/* By the clock that makes the tokens: however it is set, it is later than the last of them when the
 * counter goes. */
TEST(a_counter_ends_after_its_token_whatever_the_clock_said)
{
    EACH_COUNTED (is) {
        if (!begin(is, "60000"))
            return;
        int64_t last = use(1), token;
        server_clock_move(&clock_there, 3 * DAY_MS);
        CHECK((token = use(2)) > last);
        server_clock_move(&clock_there, -3 * DAY_MS);
        CHECK((last = use(3)) > token);
        CHECK_EQ_INT(counter_left(), 3 * DAY_MS + 60000);
        server_clock_move(&clock_there, counter_left() + 1);
        CHECK_STR(redis_server_call(&server, "KEYS *"), "");
        CHECK(use(4) > last);
        teardown();
    }
    end();
}

TEST(a_counter_that_redisson_may_count_on_keeps_its_life)
{
    static const struct {
        const char *number;
        int64_t left;
    } rows[] = {
        {"5", 0}, {"1700000000000000", 0}, {"5", HOUR_MS}, {"999999999999999", HOUR_MS}};
    EACH_COUNTED (is) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            if (!begin(is, NULL))
                return;
            redis_server_call(&server, "SET " TOKEN_KEY " %s", rows[i].number);
            if (rows[i].left)
                redis_server_call(&server, "PEXPIRE " TOKEN_KEY " %lld",
                                  (long long)rows[i].left);
            int64_t last = use(1);
            CHECK(last > atoll(rows[i].number));
            CHECK_EQ_INT(counter_left(), rows[i].left ? rows[i].left : -1);
            if (!rows[i].left) {
                server_clock_move(&clock_there, 10 * DAY_MS);
                CHECK(use(2) > last);
                CHECK_EQ_INT(counter_left(), -1);
            }
            teardown();
        }
    }
    end();
}

TEST(a_time_of_0_is_for_ever_and_nobody_cuts_a_longer_one)
{
    EACH_COUNTED (is) {
        if (!begin(is, "0"))
            return;
        CHECK(use(1) > 0);
        CHECK_EQ_INT(counter_left(), -1);
        redis_server_call(&server, "PEXPIRE " TOKEN_KEY " 100000");
        CHECK(use(2) > 0);
        CHECK_EQ_INT(counter_left(), -1);
        redis_server_call(&server, "PEXPIRE " TOKEN_KEY " %lld", (long long)10 * DAY_MS);
        single_disconnect();
        if (!begin(is, NULL))
            return;
        server_clock_move(&clock_there, DAY_MS / 4);
        CHECK(use(3) > 0);
        CHECK(counter_left() > 9 * DAY_MS);
        teardown();
    }
    end();
}

/* ---- a fair lock's line ---- */

static const form *fair_form(void)
{
    const form *is = forms;
    while (strcmp(is->name, "fair") != 0)
        is++;
    return is;
}

static void wait_in_line(uint64_t number)
{
    dlk_ask ask = ask_of(DLK_ACQUIRE, number);
    CHECK_EQ_INT(carry_out(&ask), DLK_HELD);
}

TEST(nothing_is_left_of_a_line_in_which_all_have_died)
{
    if (!redis_server_available() || !server_clock_start(&clock_there, &server) ||
        !begin(fair_form(), NULL))
        return;
    static const char *const line[] = {"redisson_lock_queue:{L}",
                                       "redisson_lock_timeout:{L}"};
    CHECK(take(1) > 0);
    wait_in_line(2);
    for (int i = 0; i < 2; i++)
        redis_server_call(&server, "PEXPIRE %s %" PRId64, line[i], DAY_MS * 7 / 10);
    dlk_ask renew = ask_of(DLK_RENEW, 1);
    renew.ttl_ms = 60000;
    CHECK_EQ_INT(carry_out(&renew), DLK_YES);
    server_clock_move(&clock_there, 20000);
    wait_in_line(2); /* its place is kept from lapsing */
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(left_of(line[i]), 30000 + DAY_MS);
    server_clock_move(&clock_there, 30000 + DAY_MS + 1);
    CHECK_STR(redis_server_call(&server, "KEYS *"), "");
    teardown();
    end();
}

TEST(a_line_that_redisson_has_begun_is_given_no_end)
{
    if (!redis_server_available() || !server_clock_start(&clock_there, &server) ||
        !begin(fair_form(), NULL))
        return;
    const char theirs[] = "11111111-2222-4333-8444-555555555555:1";
    CHECK(take(1) > 0);
    redis_server_call(&server, "RPUSH redisson_lock_queue:{L} %s", theirs);
    redis_server_call(&server, "ZADD redisson_lock_timeout:{L} 4000000000000 %s", theirs);
    wait_in_line(2);
    CHECK_STR(redis_server_call(&server, "LLEN redisson_lock_queue:{L}"), "2");
    CHECK_EQ_INT(left_of("redisson_lock_queue:{L}"), -1);
    CHECK_EQ_INT(left_of("redisson_lock_timeout:{L}"), -1);
    teardown();
    end();
}
