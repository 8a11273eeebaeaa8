/* Both semaphores of Redisson on a real server: what lies there, who is told what, and what becomes
 * of the permits of the dead. That they keep a lock's promises say the API's tests. */
#include "single.h"
#include "util/error.h"
#include "util/info.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TAKEN "{S}:timeout"

static bool connect_to(const char *permits, const char *semaphore)
{
    return single_connect(DLOCK_SEMAPHORE, "S", "lock.permits", permits,
                          "redis.semaphore", semaphore, NULL);
}

static bool set_up(const char *permits, const char *semaphore)
{
    return single_start(NULL) && connect_to(permits, semaphore);
}

static dlk_reply ask_for(dlk_verb verb, uint64_t number, int32_t take)
{
    dlk_ask ask = world_make(&w, verb, key, number);
    ask.take = take;
    world_ask(&w, &ask);
    return world_await(&w, &ask);
}

static dlk_reply acquire(uint64_t number)
{
    return ask_for(DLK_ACQUIRE, number, 1);
}

static int64_t number_of(const char *command)
{
    return atoll(redis_server_call(&server, "%s", command));
}

static int64_t free_permits(void)
{
    return number_of("GET S");
}

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* All permits that are taken end at this time. */
static void end_all_at(int64_t ms)
{
    redis_server_call(
        &server,
        "EVAL \"for _, id in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do "
        "redis.call('zadd', KEYS[1], ARGV[1], id) end\" 1 " TAKEN " %lld",
        (long long)ms);
}

/* What a member of the set is called, by the rule that everybody can follow: the first half of the uuid, the
 * grant's number, and which of its permits it is. */
static void id_of(uint64_t number, int which, char hex[33])
{
    snprintf(hex, 33, "%.8s%.4s%.4s%013llx%03x", w.uuid, w.uuid + 9, w.uuid + 14,
             (unsigned long long)number, (unsigned)which - 1);
}

static dlock_info *inspect_as(dlk_key *as)
{
    dlk_ask ask = world_make(&w, DLK_INSPECT, as, 0);
    world_ask(&w, &ask);
    return world_await(&w, &ask) == DLK_YES ? ask.info : NULL;
}

static dlock_info *inspect(void)
{
    return inspect_as(key);
}

static void check_told(dlock_info *info, const char *name, const char *expected)
{
    const char *value = dlock_info_get(info, name);
    if (!value || strcmp(value, expected) != 0)
        harness_note("it is about %s", name);
    CHECK_STR(value ? value : "", expected);
}

static void check_seen(const char *name, const char *expected)
{
    dlock_info *info = inspect();
    CHECK(info != NULL);
    check_told(info, name, expected);
    dlk_info_free(info);
}

static void check_listed(const char *name, const char *expected)
{
    dlk_ask ask = world_make(&w, DLK_LIST, NULL, 0);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    check_told(ask.info, name, expected);
    dlk_info_free(ask.info);
}

static dlk_reply break_it(const char *owner)
{
    dlk_ask ask = world_make(&w, DLK_BREAK, key, 0);
    ask.text = owner;
    world_ask(&w, &ask);
    return world_await(&w, &ask);
}

/* ---- somebody who listens to the channel, as a Redisson does ---- */

static int listen_in(void)
{
    static const char subscribe[] = "SUBSCRIBE redisson_sc:{S}\r\n";
    char answer[128];
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)server.port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval patience = {.tv_sec = patience_ms() / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    bool fine = connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
                send(fd, subscribe, sizeof(subscribe) - 1, 0) > 0 &&
                recv(fd, answer, sizeof(answer), 0) > 0;
    (void)harness_check(__FILE__, __LINE__, fine, "subscribed");
    return fd;
}

/* All that was heard so far, the payloads one after the other; a message of our own, "end", says
 * that nothing before it is missing. */
static const char *heard(int fd)
{
    static char text[256];
    char buffer[4096] = "";
    size_t size = 0;
    text[0] = '\0';
    redis_server_call(&server, "PUBLISH redisson_sc:{S} end");
    while (!strstr(buffer, "\r\nend\r\n")) {
        ssize_t got = recv(fd, buffer + size, sizeof(buffer) - 1 - size, 0);
        if (got <= 0)
            return "(nothing comes)";
        size += (size_t)got;
        buffer[size] = '\0';
    }
    for (const char *at = buffer; (at = strstr(at, "redisson_sc:{S}\r\n$")); at++) {
        const char *from = strchr(at + strlen("redisson_sc:{S}\r\n"), '\n') + 1;
        if (strncmp(from, "end", 3) != 0)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s ",
                     (int)strcspn(from, "\r"), from);
    }
    return text;
}

/* ---- with leases ---- */

TEST(a_permit_lies_as_redisson_keeps_it)
{
    if (!set_up("3", "expirable"))
        return;
    int64_t token = -1, before = wall_ms();
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 7, &token), DLK_YES);
    CHECK_EQ_INT(token, 0); /* it can't fence */
    CHECK_EQ_INT(free_permits(), 2);
    CHECK_EQ_INT(number_of("STRLEN S"), 1);
    CHECK_STR(redis_server_call(&server, "TYPE " TAKEN), "zset");
    CHECK_EQ_INT(number_of("ZCARD " TAKEN), 1);
    CHECK_EQ_INT(number_of("PTTL S"), -1);
    CHECK_EQ_INT(number_of("PTTL " TAKEN), -1);
    CHECK_EQ_INT(number_of("DBSIZE"), 3); /* one is ours, and ends with the lease */
    CHECK(number_of("EVAL \"return redis.call('pttl', redis.call('keys', "
                    "'dlock_permit:{S}:*')[1])\" 0") > 0);
    CHECK_EQ_INT(
        number_of("EVAL \"return #redis.call('zrange', KEYS[1], 0, 0)[1]\" 1 " TAKEN),
        16); /* raw bytes */
    int64_t ends = number_of(
        "EVAL \"return redis.call('zrange', KEYS[1], 0, 0, 'WITHSCORES')[2]\" 1 " TAKEN);
    CHECK(ends >= before + 10000 && ends <= wall_ms() + 10000);
    char id[33];
    id_of(7, 1, id);
    check_seen("holders.0.owner", id);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 7, 1), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), "S");
    CHECK_EQ_INT(free_permits(), 3);
    single_tear_down();
}

/* Beside what Redisson has no room for: since when, and lock.data. */
TEST(each_permit_of_a_grant_shows_what_its_holder_says)
{
    if (!set_up("3", "expirable"))
        return;
    dlk_ask ask = world_make(&w, DLK_ACQUIRE, key, 7);
    char data[] = "shop 5\tsouth";
    ask.take = 2;
    ask.data = data;
    int64_t before = wall_ms();
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    redis_server_call(&server, "ZADD " TAKEN " 922337203685477 0123456789abcdef");
    redis_server_call(&server, "DECR S");
    dlk_key *mutex = world_key(&w, "S"); /* as who doesn't know what it is asks */
    for (int again = 0; again < 2; again++) {
        dlock_info *info = inspect_as(again ? mutex : key);
        CHECK(info != NULL);
        check_told(info, "holders.0.data", data);
        check_told(info, "holders.1.data", data);
        CHECK(dlock_info_get(info, "holders.0.since") != NULL);
        check_told(info, "holders.1.since", dlock_info_get(info, "holders.0.since"));
        CHECK(!dlock_info_get(info, "holders.2.data")); /* of Redisson's */
        CHECK(!dlock_info_get(info, "holders.2.since"));
        int64_t since = atoll(dlock_info_get(info, "holders.0.since"));
        dlk_info_free(info);
        CHECK(since >= before - 1000 && since <= wall_ms() + 1000);
        CHECK_EQ_INT(ask_for(DLK_RENEW, 7, 2), DLK_YES); /* that leaves it as it is */
        CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 7, 2), DLK_YES);
    }
    world_forget(&w, mutex);
    CHECK_STR(redis_server_call(&server,
                                "KEYS dlock_permit:*{S}:%.8s%.4s%.4s0000000000007",
                                w.uuid, w.uuid + 9, w.uuid + 14)[0]
                  ? "there"
                  : "",
              "there");
    redis_server_call(&server, "EVAL \"return redis.call('del', redis.call('keys', "
                               "'dlock_permit:{S}:*')[1])\" 0");
    check_seen("holders.0.since", ""); /* nothing depends on it */
    CHECK_EQ_INT(ask_for(DLK_RENEW, 7, 2), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 7, 2), DLK_YES);
    single_tear_down();
}

TEST(a_grant_of_several_permits_comes_and_goes_as_one)
{
    if (!set_up("5", "expirable"))
        return;
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, 3), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 2, 3), DLK_HELD);
    CHECK_EQ_INT(free_permits(), 2); /* the refused one has taken nothing */
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 3, 2), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_VERIFY, 1, 3), DLK_YES);
    CHECK_EQ_INT(number_of("ZCARD " TAKEN), 5);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 3), DLK_YES);
    CHECK_EQ_INT(free_permits(), 3);
    CHECK_EQ_INT(number_of("ZCARD " TAKEN), 2);
    single_tear_down();
}

TEST(every_request_may_come_twice)
{
    if (!set_up("4", "expirable"))
        return;
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, 2), DLK_YES);
    CHECK_EQ_INT(acquire(2), DLK_YES);
    CHECK_EQ_INT(free_permits(), 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 2), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 2), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 2), DLK_NOT_OURS);
    CHECK_EQ_INT(free_permits(), 3);
    CHECK_EQ_INT(ask_for(DLK_VERIFY, 2, 1), DLK_YES);
    single_tear_down();
}

TEST(a_wait_ends_when_the_first_lease_does)
{
    if (!set_up("2", "expirable"))
        return;
    CHECK_EQ_INT(acquire(1), DLK_YES);
    CHECK_EQ_INT(acquire(2), DLK_YES);
    dlk_ask ask = world_make(&w, DLK_ACQUIRE, key, 3);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_HELD);
    CHECK(ask.wait_ms > 0 && ask.wait_ms <= 10000);
    end_all_at(922337203685477); /* Redisson's "never" */
    ask = world_make(&w, DLK_ACQUIRE, key, 3);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_HELD);
    CHECK_EQ_INT(ask.wait_ms, -1);
    check_seen("holders.0.remaining_ms", "");
    single_tear_down();
}

TEST(the_permits_of_the_dead_come_back_with_one_message)
{
    if (!set_up("3", "expirable"))
        return;
    for (uint64_t i = 1; i <= 3; i++)
        CHECK_EQ_INT(acquire(i), DLK_YES);
    end_all_at(1000);
    int ear = listen_in();
    check_seen("held", "0");
    check_seen("permits", "3");
    check_seen("permits_free", "3");
    CHECK_EQ_INT(free_permits(), 0); /* looking changes nothing */
    CHECK_EQ_INT(acquire(4), DLK_YES);
    CHECK_EQ_INT(free_permits(), 2);
    CHECK_EQ_INT(number_of("ZCARD " TAKEN), 1);
    CHECK_STR(heard(ear), "3 ");
    for (uint64_t i = 1; i <= 3; i++) {
        CHECK_EQ_INT(ask_for(DLK_RENEW, i, 1), DLK_NOT_OURS);
        CHECK_EQ_INT(ask_for(DLK_RELEASE, i, 1), DLK_NOT_OURS);
    }
    CHECK_EQ_INT(free_permits(), 2);
    close(ear);
    single_tear_down();
}

/* A look clears away a hundred of the dead, the oldest first: the repeat's own may lie beyond. */
TEST(a_repeat_behind_more_dead_than_are_cleared_takes_its_permits_once)
{
    if (!set_up("400", "expirable"))
        return;
    for (int32_t take = 1; take <= 2; take++) {
        CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, take), DLK_YES);
        end_all_at(2000);
        for (uint64_t i = 0; i < 130; i++)
            redis_server_call(&server, "ZADD " TAKEN " 1000 dead-%llu",
                              (unsigned long long)i);
        redis_server_call(&server, "DECRBY S 130");
        CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, take), DLK_YES);
        CHECK_EQ_INT(free_permits() + number_of("ZCARD " TAKEN), 400);
        CHECK_EQ_INT(ask_for(DLK_VERIFY, 1, take), DLK_YES);
        CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, take), DLK_YES);
    }
    single_tear_down();
}

TEST(a_release_tells_how_many_are_free)
{
    if (!set_up("5", "expirable"))
        return;
    int ear = listen_in();
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, 3),
                 DLK_YES); /* tells of the semaphore's making */
    CHECK_EQ_INT(acquire(2), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 3), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 2, 1), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 2, 1), DLK_NOT_OURS); /* and of nothing */
    CHECK_STR(heard(ear), "5 4 5 ");
    close(ear);
    single_tear_down();
}

TEST(a_permit_that_is_over_is_freed_but_wasnt_ours)
{
    if (!set_up("2", "expirable"))
        return;
    CHECK_EQ_INT(acquire(1), DLK_YES);
    end_all_at(1000);
    CHECK_EQ_INT(ask_for(DLK_VERIFY, 1, 1), DLK_NOT_OURS);
    CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 1), DLK_NOT_OURS);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 1), DLK_NOT_OURS);
    CHECK_EQ_INT(free_permits(), 2);
    CHECK_EQ_INT(number_of("EXISTS " TAKEN), 0);
    single_tear_down();
}

TEST(renewing_lengthens_never_shortens_and_never_recreates)
{
    if (!set_up("3", "expirable"))
        return;
    char command[] =
        "EVAL \"return redis.call('zrange', KEYS[1], 0, 0, 'WITHSCORES')[2]\" "
        "1 " TAKEN;
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, 2), DLK_YES);
    int64_t soon = wall_ms() + 5000, late = wall_ms() + 3600000;
    end_all_at(soon);
    CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 2), DLK_YES);
    CHECK(number_of(command) > soon);
    end_all_at(late);
    CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 2), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, 2), DLK_YES);
    CHECK_EQ_INT(number_of(command), late);
    redis_server_call(&server, "ZPOPMIN " TAKEN); /* one of both is taken away */
    CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 2), DLK_NOT_OURS);
    CHECK_EQ_INT(ask_for(DLK_VERIFY, 1, 2), DLK_NOT_OURS);
    CHECK_EQ_INT(number_of("ZCARD " TAKEN), 1);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 2), DLK_NOT_OURS); /* the other goes back */
    CHECK_EQ_INT(number_of("ZCARD " TAKEN), 0);
    single_tear_down();
}

TEST(handles_that_disagree_on_the_size_are_told_both)
{
    if (!set_up("3", "expirable"))
        return;
    CHECK_EQ_INT(acquire(1), DLK_YES);
    single_disconnect();
    if (!connect_to("5", "expirable"))
        return;
    CHECK_EQ_INT(acquire(2), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    CHECK_CONTAINS(w.text, "has 3 permits, lock.permits says 5");
    single_disconnect();
    if (!connect_to("0", "expirable")) /* whoever doesn't say takes it as it is */
        return;
    CHECK_EQ_INT(acquire(3), DLK_YES);
    CHECK_EQ_INT(free_permits(), 1);
    single_tear_down();
}

TEST(a_semaphore_that_must_exist_is_not_made)
{
    static const char *const semaphores[] = {"expirable", "plain"};
    for (int i = 0; i < 2; i++) {
        if (!set_up("0", semaphores[i]))
            return;
        CHECK_EQ_INT(acquire(1), DLK_REFUSED);
        CHECK_EQ_INT(w.code, DLOCK_EINVAL);
        CHECK_CONTAINS(w.text, "the semaphore doesn't exist; set lock.permits");
        CHECK_EQ_INT(number_of("DBSIZE"), 0);
        redis_server_call(&server, "SET S 1"); /* as Redisson's trySetPermits */
        CHECK_EQ_INT(acquire(1), DLK_YES);
        CHECK_EQ_INT(free_permits(), 0);
        single_tear_down();
    }
}

TEST(more_permits_than_there_are_is_no_endless_wait)
{
    if (!set_up("0", "expirable"))
        return;
    redis_server_call(&server, "SET S 3");
    CHECK_EQ_INT(acquire(1), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 2, 3), DLK_HELD);
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 2, 4), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EINVAL);
    CHECK_CONTAINS(w.text, "lock.take=4 of a semaphore of 3 permits");
    redis_server_call(&server, "SET S 10000");
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 2, 4096), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RENEW, 2, 4096), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 2, 4096), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 3, 4097), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_EINVAL);
    CHECK_EQ_INT(free_permits(), 10000);
    single_tear_down();
}

/* Redisson's reducePermits leaves less than none. */
TEST(as_many_permits_as_redisson_can_count_are_counted_on_both_sides_of_none)
{
    if (!set_up("0", "plain"))
        return;
    redis_server_call(&server, "SET S -2147483648");
    CHECK_EQ_INT(acquire(1), DLK_HELD);
    CHECK_EQ_INT(free_permits(), INT32_MIN);
    redis_server_call(&server, "SET S 2147483647");
    CHECK_EQ_INT(acquire(1), DLK_YES);
    CHECK_EQ_INT(free_permits(), INT32_MAX - 1);
    single_tear_down();
}

TEST(what_is_no_semaphore_is_refused_and_stays)
{
    static const struct {
        const char *make, *look, *is;
        dlock_err code;
    } others[] = {
        {"HSET S somebody:1 1", "HGET S somebody:1", "1", DLOCK_ECONFLICT},
        {"SET S some-token PX 60000", "GET S", "some-token", DLOCK_ECONFLICT},
        {"SET S \"\"", "GET S", "", DLOCK_ECONFLICT},
        {"SET S 1.5", "GET S", "1.5", DLOCK_ECONFLICT},
        {"SET S 2147483648", "GET S", "2147483648", DLOCK_EOVERFLOW},
        {"SET S 9223372036854775807", "GET S", "9223372036854775807", DLOCK_EOVERFLOW},
    };
    static const char *const semaphores[] = {"expirable", "plain"};
    for (int i = 0; i < 2; i++) {
        if (!set_up("3", semaphores[i]))
            return;
        for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++) {
            redis_server_call(&server, "%s", others[k].make);
            CHECK_EQ_INT(acquire(1), DLK_REFUSED);
            CHECK_EQ_INT(w.code, others[k].code);
            CHECK(break_it("somebody:1") != DLK_YES);
            CHECK(ask_for(DLK_RELEASE, 1, 1) != DLK_YES);
            CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 1), DLK_NOT_OURS);
            CHECK_STR(redis_server_call(&server, "%s", others[k].look), others[k].is);
            CHECK_EQ_INT(number_of("DBSIZE"), 1);
            redis_server_call(&server, "DEL S");
        }
        single_tear_down();
    }
}

TEST(a_mutex_on_the_name_of_a_semaphore_is_a_conflict)
{
    if (!set_up("3", "expirable"))
        return;
    CHECK_EQ_INT(acquire(1), DLK_YES);
    dlk_key *mutex = world_key(&w, "S");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, mutex, 2, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    world_forget(&w, mutex);
    CHECK_EQ_INT(ask_for(DLK_VERIFY, 1, 1), DLK_YES);
    single_tear_down();
}

TEST(fewer_than_none_are_free_after_a_peer_made_it_smaller)
{
    if (!set_up("0", "expirable"))
        return;
    redis_server_call(&server, "SET S 2");
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, 2), DLK_YES);
    redis_server_call(&server, "DECRBY S 1"); /* Redisson's setPermits(1) */
    CHECK_EQ_INT(acquire(2), DLK_HELD);
    check_seen("permits", "1");
    check_seen("permits_free", "0");
    check_listed("locks.0.name", "S");
    check_listed("locks.0.taken", "2");
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 2), DLK_YES);
    CHECK_EQ_INT(acquire(2), DLK_YES);
    CHECK_EQ_INT(acquire(3), DLK_HELD);
    single_tear_down();
}

TEST(a_semaphore_that_was_deleted_lets_no_more_in_than_there_may_be)
{
    if (!set_up("3", "expirable"))
        return;
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, 2), DLK_YES);
    redis_server_call(&server, "DEL S");
    CHECK_EQ_INT(acquire(2), DLK_YES);
    CHECK_EQ_INT(acquire(3), DLK_HELD);
    CHECK_EQ_INT(free_permits(), 0);
    redis_server_call(&server, "DEL S");
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 2), DLK_YES);
    CHECK_EQ_INT(number_of("EXISTS S"), 0); /* its size wouldn't be right */
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 3, 2), DLK_YES);
    CHECK_EQ_INT(free_permits(), 0);
    end_all_at(1000); /* nor do the dead make it again */
    redis_server_call(&server, "DEL S");
    CHECK_EQ_INT(acquire(4), DLK_YES);
    CHECK_EQ_INT(free_permits(), 2);
    single_tear_down();
}

TEST(the_end_of_a_semaphore_is_that_of_its_permits)
{
    if (!set_up("0", "expirable"))
        return;
    redis_server_call(&server, "SET S 2 PX 600000"); /* trySetPermits with a time */
    CHECK_EQ_INT(acquire(1), DLK_YES);
    int64_t left = number_of("PTTL " TAKEN);
    CHECK(left > 500000 && left <= 600000);
    single_tear_down();
}

TEST(inspect_names_permits_and_break_takes_those_that_are_named)
{
    if (!set_up("4", "expirable"))
        return;
    char id[33], owner[64];
    check_seen("permits", "4"); /* as who comes would make it */
    check_seen("held", "0");
    CHECK_EQ_INT(break_it(NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, 2), DLK_YES);
    CHECK_EQ_INT(acquire(2), DLK_YES);
    CHECK_EQ_INT(acquire(3), DLK_YES);
    check_seen("kind", "semaphore");
    check_seen("held", "1");
    check_seen("permits", "4");
    check_seen("permits_free", "0");
    check_seen("holders.3.count", "1");
    id_of(2, 1, id);
    int ear = listen_in();
    CHECK_EQ_INT(break_it(id), DLK_YES);
    CHECK_EQ_INT(break_it(id), DLK_NOT_OURS);
    CHECK_EQ_INT(ask_for(DLK_RENEW, 2, 1), DLK_NOT_OURS);
    snprintf(owner, sizeof(owner), "%s:1", w.uuid);
    CHECK_EQ_INT(break_it(owner), DLK_YES);
    CHECK_EQ_INT(break_it(owner), DLK_NOT_OURS);
    CHECK_EQ_INT(free_permits(), 3);
    CHECK_EQ_INT(ask_for(DLK_VERIFY, 3, 1), DLK_YES);
    CHECK_EQ_INT(break_it(NULL), DLK_YES);
    CHECK_EQ_INT(free_permits(), 4);
    CHECK_STR(heard(ear), "1 3 4 ");
    check_seen("held", "0");
    close(ear);
    single_tear_down();
}

/* ---- rights ---- */

#define RIGHTS                                                                           \
    "+eval +evalsha +time +get +set +hset +hget +hexists +hdel +pexpire +pttl +del "     \
    "+publish +subscribe +unsubscribe +exists +incrby +decrby +zadd +zrem +zscore "      \
    "+zrange +zrangebyscore +zcard +zcount"

static void grant_rights(const char *rights)
{
    CHECK_STR(redis_server_call(&server,
                                "ACL SETUSER few on >secret resetkeys ~app:* ~{app:* "
                                "~dlock_permit:{app:* resetchannels &redisson_sc:{app:* "
                                "&redisson_lock__channel:{app:* -@all %s",
                                rights),
              "OK");
}

static bool connect_as_few(const char *semaphore)
{
    char uri[64];
    snprintf(uri, sizeof(uri), "redis://few:secret@127.0.0.1:%d", server.port);
    if (!world_connect(&w, uri, "lock.permits", "2", "redis.semaphore", semaphore,
                       "client.prefix", "app:", "redis.handover", "false", NULL))
        return false;
    key = world_key_of(&w, DLOCK_SEMAPHORE, "app:S");
    return key != NULL;
}

TEST(the_rights_that_the_page_names_are_enough)
{
    static const char *const semaphores[] = {"expirable", "plain"};
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return;
    grant_rights(RIGHTS);
    for (int i = 0; i < 2; i++) {
        if (!connect_as_few(semaphores[i]))
            return;
        for (uint64_t n = 1; n <= 2; n++)
            CHECK_EQ_INT(acquire(n), DLK_YES);
        CHECK_EQ_INT(acquire(3), DLK_HELD);
        CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 1), DLK_YES);
        CHECK_EQ_INT(ask_for(DLK_VERIFY, 1, 1), DLK_YES);
        check_seen("permits", "2");
        check_seen("permits_free", "0");
        for (uint64_t n = 1; n <= 2; n++)
            CHECK_EQ_INT(ask_for(DLK_RELEASE, n, 1), DLK_YES);
        CHECK_EQ_INT(number_of("GET app:S"), 2);
        single_disconnect();
    }
    redis_server_stop(&server);
}

/* Before the first one of this kind each right is looked at; one that goes later is met half-way. */
TEST(a_script_that_lacks_a_right_half_way_takes_nothing)
{
    static const char *const semaphores[] = {"expirable", "plain"};
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return;
    for (int i = 0; i < 2; i++) {
        grant_rights(RIGHTS " -decrby");
        if (!connect_as_few(semaphores[i]))
            return;
        const char *there = i ? "app:S" : "";
        CHECK_EQ_INT(acquire(1), DLK_REFUSED);
        CHECK_EQ_INT(w.code, DLOCK_EACCES);
        CHECK_CONTAINS(w.text, "semaphores need: +decrby");
        CHECK_STR(redis_server_call(&server, "KEYS *"), there);
        grant_rights(RIGHTS);
        CHECK_EQ_INT(acquire(2), DLK_YES);
        CHECK_EQ_INT(ask_for(DLK_RELEASE, 2, 1), DLK_YES);
        grant_rights(RIGHTS " -decrby");
        CHECK_EQ_INT(acquire(3), DLK_REFUSED);
        CHECK_EQ_INT(w.code, DLOCK_EACCES);
        CHECK_CONTAINS(w.text, "semaphores need: +decrby");
        CHECK_STR(redis_server_call(&server, "KEYS *"), "app:S");
        CHECK_EQ_INT(number_of("GET app:S"), 2);
        single_disconnect();
    }
    redis_server_stop(&server);
}

/* ---- without leases ---- */

#define MARK "dlock_permit:{S}:"

TEST(a_plain_semaphore_is_redissons_number_and_a_key_of_ours)
{
    if (!set_up("3", "plain"))
        return;
    int64_t token = -1;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 7, &token), DLK_YES);
    CHECK_EQ_INT(token, 0);
    CHECK_EQ_INT(free_permits(), 2);
    CHECK_EQ_INT(number_of("PTTL S"), -1);
    int64_t left = atoll(redis_server_call(&server, "PTTL " MARK "%s:7", w.uuid));
    CHECK(left > 0 && left <= 10000);
    check_seen("permits", "3");
    check_seen("permits_free", "2");
    check_seen("held", "1");
    check_seen("holders.0.owner", "");
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 7, 1), DLK_YES);
    CHECK_STR(redis_server_call(&server, "KEYS *"), "S");
    CHECK_EQ_INT(free_permits(), 3);
    check_seen("held", "0");
    single_tear_down();
}

TEST(every_request_to_a_plain_semaphore_may_come_twice)
{
    if (!set_up("4", "plain"))
        return;
    int ear = listen_in();
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 1, 3), DLK_YES);
    CHECK_EQ_INT(free_permits(), 1);
    CHECK_EQ_INT(ask_for(DLK_ACQUIRE, 2, 2), DLK_HELD);
    CHECK_EQ_INT(acquire(3), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 3), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_VERIFY, 1, 3), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 3), DLK_YES);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 3), DLK_NOT_OURS);
    CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 3), DLK_NOT_OURS);
    CHECK_EQ_INT(free_permits(), 3);
    CHECK_STR(heard(ear), "4 3 ");
    close(ear);
    single_tear_down();
}

TEST(the_permits_of_a_plain_semaphores_dead_are_lost)
{
    if (!set_up("2", "plain"))
        return;
    CHECK_EQ_INT(acquire(1), DLK_YES);
    redis_server_call(&server, "DEL " MARK "%s:1", w.uuid); /* its lease is over */
    CHECK_EQ_INT(ask_for(DLK_RENEW, 1, 1), DLK_NOT_OURS);
    CHECK_EQ_INT(ask_for(DLK_VERIFY, 1, 1), DLK_NOT_OURS);
    CHECK_EQ_INT(ask_for(DLK_RELEASE, 1, 1), DLK_NOT_OURS);
    CHECK_EQ_INT(free_permits(), 1);
    CHECK_EQ_INT(acquire(2), DLK_YES);
    redis_server_call(&server, "DEL S"); /* and so is what the server forgets */
    CHECK_EQ_INT(ask_for(DLK_RENEW, 2, 1), DLK_NOT_OURS);
    single_tear_down();
}

TEST(only_a_named_owner_of_a_plain_semaphore_can_be_broken)
{
    if (!set_up("2", "plain"))
        return;
    char owner[64];
    snprintf(owner, sizeof(owner), "%s:1", w.uuid);
    CHECK_EQ_INT(acquire(1), DLK_YES);
    CHECK_EQ_INT(break_it(NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ENOTSUP);
    CHECK_CONTAINS(w.text, "name the owner");
    CHECK_EQ_INT(break_it(owner), DLK_YES);
    CHECK_EQ_INT(break_it(owner), DLK_NOT_OURS);
    CHECK_EQ_INT(free_permits(), 2);
    single_tear_down();
}

TEST(both_semaphores_on_one_name_are_a_conflict)
{
    if (!set_up("2", "expirable"))
        return;
    CHECK_EQ_INT(acquire(1), DLK_YES);
    single_disconnect();
    if (!connect_to("2", "plain"))
        return;
    CHECK_EQ_INT(acquire(2), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    redis_server_call(&server, "FLUSHALL");
    CHECK_EQ_INT(acquire(2), DLK_YES);
    single_disconnect();
    if (!connect_to("2", "expirable"))
        return;
    CHECK_EQ_INT(acquire(3), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    redis_server_call(&server, "SET S 3");
    single_disconnect();
    if (!connect_to("2", "plain"))
        return;
    CHECK_EQ_INT(acquire(4), DLK_REFUSED); /* more are free than it says there are */
    CHECK_CONTAINS(w.text, "at least 3 permits, lock.permits says 2");
    single_tear_down();
}
