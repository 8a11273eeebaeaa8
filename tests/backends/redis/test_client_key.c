/* A client's own key (client_key.h): it leads owners back to processes, costs a lock nothing, never stays,
 * and nothing depends on it. */
#include "backends/redis/told.h"
#include "single.h"
#include "util/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ON "redis.client_key", "true"

/* The client's key, by its name. */
static const char *key_of(const world *of)
{
    static char name[80];
    snprintf(name, sizeof(name), "dlock_client:%.18s", of->uuid);
    return name;
}

static bool has_key(const world *of)
{
    return strcmp(redis_server_call(&server, "EXISTS %s", key_of(of)), "1") == 0;
}

static int64_t life_of(const world *of)
{
    return atoll(redis_server_call(&server, "PTTL %s", key_of(of)));
}

/* What an inspection or a list by @p by says under a key of it, "" nothing; until the next call. */
static const char *told(world *by, dlk_verb verb, dlk_key *of, const char *what)
{
    static char text[300];
    dlk_ask ask = world_make(by, verb, of, 1);
    text[0] = '\0';
    world_ask(by, &ask);
    if (world_await(by, &ask) == DLK_YES) {
        const char *found = dlock_info_get(ask.info, what);
        snprintf(text, sizeof(text), "%s", found ? found : "");
    }
    dlock_info_free(ask.info);
    return text;
}

static const char *seen(const char *what)
{
    return told(&w, DLK_INSPECT, key, what);
}

static const char *this_host(void)
{
    static char host[256];
    return gethostname(host, sizeof(host) - 1) == 0 ? host : "";
}

static const char *this_pid(void)
{
    static char pid[24];
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    return pid;
}

/* As a request of this lease that is made so much later. */
static dlk_reply do_later(dlk_verb verb, uint64_t number, int64_t ttl_ms, int64_t later_s)
{
    dlk_ask ask = world_make(&w, verb, key, number);
    ask.ttl_ms = ttl_ms;
    ask.since += later_s * DLK_NS_PER_SEC;
    world_ask(&w, &ask);
    return world_await(&w, &ask);
}

TEST(an_owner_is_led_back_to_its_process)
{
    if (!single_set_up(ON, NULL))
        return;
    CHECK_STR(seen("holders.0.client"), "");
    CHECK(!has_key(&w)); /* who looks has nothing to say */
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_STR(seen("holders.0.client"), "test host:1");
    CHECK_STR(seen("holders.0.host"), this_host());
    CHECK_STR(seen("holders.0.pid"), this_pid());
    CHECK_STR(told(&w, DLK_LIST, NULL, "locks.0.client"), "test host:1");
    CHECK_STR(told(&w, DLK_LIST, NULL, "locks.0.host"), this_host());
    CHECK_STR(told(&w, DLK_LIST, NULL, "locks.0.pid"), this_pid());
    CHECK(life_of(&w) > 0);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    CHECK(has_key(&w));
    single_disconnect();
    AWAIT(!has_key(&w));
    redis_server_stop(&server);
}

/* Whoever may write there can say another name, and no more than that: no date, and no data. */
TEST(more_than_a_client_says_of_itself_is_not_told)
{
    if (!single_set_up(ON, NULL))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    redis_server_call(&server,
                      "EVAL \"return redis.call('set', redis.call('keys', "
                      "'dlock_client:*')[1], table.concat({'who', 'where', '12', '1700', "
                      "'data'}, string.char(9)))\" 0");
    CHECK_STR(seen("holders.0.client"), "who");
    CHECK_STR(seen("holders.0.pid"), "12");
    CHECK_STR(seen("holders.0.data"), "");
    CHECK(strcmp(seen("holders.0.since"), "1700") != 0);
    single_tear_down();
}

TEST(it_is_said_in_every_layout)
{
    static const char *const layouts[] = {"redisson", "string", "timestamp", "rueidis"};
    if (!single_start(NULL))
        return;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        CHECK(single_connect(DLOCK_MUTEX, layouts[i], ON, "redis.layout", layouts[i],
                             NULL));
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
        CHECK_STR(seen("holders.0.client"), "test host:1");
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
        single_disconnect();
    }
    redis_server_stop(&server);
}

TEST(writers_and_all_readers_are_told)
{
    if (!single_start(NULL) || !single_connect(DLOCK_WRITE, "rw", ON, NULL))
        return;
    world other;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_STR(seen("holders.0.client"), "test host:1");
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    char uri[64];
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(world_connect(&other, uri, ON, NULL));
    dlk_key *theirs = world_key_of(&other, DLOCK_WRITE, "rw");
    dlk_ask mine = world_make(&w, DLK_ACQUIRE, key, 2),
            also = world_make(&other, DLK_ACQUIRE, theirs, 1);
    mine.shared = also.shared = true;
    world_ask(&w, &mine);
    CHECK_EQ_INT(world_await(&w, &mine), DLK_YES);
    world_ask(&other, &also);
    CHECK_EQ_INT(world_await(&other, &also), DLK_YES);
    CHECK_STR(seen("holders.0.pid"), this_pid());
    CHECK_STR(seen("holders.1.pid"), this_pid());
    CHECK_STR(told(&w, DLK_LIST, NULL, "locks.0.client"), "test host:1");
    world_forget(&other, theirs);
    world_close(&other);
    single_tear_down();
}

/* ---- Since when, which the token says ---- */

static int64_t number_of_seen(const char *what)
{
    return strtoll(seen(what), NULL, 10);
}

TEST(a_token_says_since_when_but_of_ours_only)
{
    char other[100];
    if (!single_set_up(ON, NULL))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(number_of_seen("holders.0.since"),
                 number_of_seen("holders.0.token") / 1000);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    /* A thread of Redisson's, who leaves the counter as it is. */
    redis_server_call(&server, "HSET L 11111111-2222-3333-4444-555555555555:7 1");
    CHECK(number_of_seen("holders.0.token") > 0);
    CHECK_STR(seen("holders.0.since"), "");
    redis_server_call(&server, "DEL L");
    /* One that keeps the lock: its tokens are later than that. */
    snprintf(other, sizeof(other), "%s:%llu", w.uuid, (unsigned long long)DLK_KEEPS);
    redis_server_call(&server, "HSET L %s 1", other);
    CHECK_STR(seen("holders.0.client"), "test host:1");
    CHECK_STR(seen("holders.0.since"), "");
    redis_server_call(&server, "DEL L");
    single_tear_down();
}

TEST(a_number_that_is_no_time_of_the_servers_clock_says_nothing_of_it)
{
    static const char *const counters[] = {"1", "999999999999999", "9007199254740980"};
    if (!single_set_up(ON, NULL))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++) {
        redis_server_call(&server, "SET redisson_lock_token:{L} %s", counters[i]);
        CHECK_STR(seen("holders.0.client"), "test host:1");
        CHECK_STR(seen("holders.0.since"), "");
    }
    single_tear_down();
}

/* ---- Who waits ---- */

/* Who waits does so in the line of one form and of the other. */
static void waits_in_a_line(const char *fair)
{
    world other;
    char uri[64], owner[80];
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(single_connect(DLOCK_MUTEX, fair, ON, "lock.fair", fair, NULL));
    CHECK(world_connect(&other, uri, ON, "lock.fair", fair, NULL));
    dlk_key *theirs = world_key(&other, fair);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_STR(seen("waiting.0.owner"), "");
    world_watch(&other, theirs, true); /* who isn't heard of stands in no line */
    ROUNDS_UNTIL(&other, world_do(&other, DLK_ACQUIRE, theirs, 7, NULL) == DLK_HELD &&
                             strcmp(seen("waiters"), "1") == 0);
    snprintf(owner, sizeof(owner), "%s:7", other.uuid);
    CHECK_STR(seen("waiting.0.owner"), owner);
    CHECK_STR(seen("waiting.0.client"), "test host:1");
    CHECK_STR(seen("waiting.0.host"), this_host());
    CHECK_STR(seen("waiting.0.pid"), this_pid());
    CHECK_STR(seen("waiting.1.owner"), "");
    CHECK_EQ_INT(world_do(&other, DLK_RELEASE, theirs, 7, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    world_forget(&other, theirs);
    world_close(&other);
    single_disconnect();
}

TEST(who_waits_in_a_line_is_told)
{
    if (!single_start(NULL))
        return;
    waits_in_a_line("true");
    waits_in_a_line("false");
    redis_server_stop(&server);
}

/* ---- What it costs ---- */

TEST(it_is_written_once_whatever_is_asked)
{
    if (!single_set_up(ON, NULL))
        return;
    int64_t before = w.host.commands;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(w.host.commands - before, 2);
    for (uint64_t i = 1; i <= 100; i++) {
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, i, NULL), DLK_YES);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, i + 1, NULL), DLK_YES);
        CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, i + 1, NULL), DLK_YES);
    }
    CHECK_EQ_INT(w.host.commands - before, 302);
    single_tear_down();
}

TEST(it_is_renewed_when_a_third_of_its_life_is_over)
{
    if (!single_set_up(ON, NULL))
        return;
    CHECK_EQ_INT(do_later(DLK_ACQUIRE, 1, 10000, 0), DLK_YES);
    int64_t before = w.host.commands;
    CHECK_EQ_INT(do_later(DLK_RENEW, 1, 10000, 99), DLK_YES);
    CHECK_EQ_INT(w.host.commands - before, 1);
    redis_server_call(&server, "PEXPIRE %s 1000", key_of(&w));
    CHECK_EQ_INT(do_later(DLK_RENEW, 1, 10000, 101), DLK_YES);
    CHECK_EQ_INT(w.host.commands - before, 3);
    CHECK(life_of(&w) > 100000);
    CHECK_EQ_INT(do_later(DLK_RENEW, 1, 10000, 102), DLK_YES);
    CHECK_EQ_INT(w.host.commands - before, 4);
    single_tear_down();
}

TEST(it_outlives_a_long_lease)
{
    if (!single_set_up(ON, NULL))
        return;
    CHECK_EQ_INT(do_later(DLK_ACQUIRE, 1, 10000, 0), DLK_YES);
    CHECK(life_of(&w) < 1000000);
    CHECK_EQ_INT(do_later(DLK_RENEW, 1, 3600000, 0), DLK_YES);
    CHECK(life_of(&w) > 3 * 3600000 - 1000000);
    int64_t before = w.host.commands;
    CHECK_EQ_INT(do_later(DLK_RENEW, 1, 10000, 0),
                 DLK_YES); /* and isn't cut by a short one */
    CHECK_EQ_INT(w.host.commands - before, 1);
    CHECK(life_of(&w) > 3 * 3600000 - 1000000);
    redis_server_call(&server, "PEXPIRE %s 1000", key_of(&w));
    CHECK_EQ_INT(do_later(DLK_RENEW, 1, 10000, 3 * 3600 - 100), DLK_YES);
    CHECK(life_of(&w) > 3 * 3600000 - 1000000); /* nor when it is that one's turn */
    single_tear_down();
}

TEST(a_batch_of_renewals_has_it_ahead)
{
    enum { LOCKS = 5 };
    if (!single_set_up(ON, NULL))
        return;
    dlk_key *keys[LOCKS];
    dlk_ask asks[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        char name[8];
        snprintf(name, sizeof(name), "L%d", i);
        keys[i] = world_key(&w, name);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, keys[i], 1, NULL), DLK_YES);
    }
    redis_server_call(&server, "DEL %s", key_of(&w));
    redis_server_call(&server, "DEL L3");
    for (int round = 0; round < 2; round++) { /* its script isn't known at first */
        int64_t before = w.host.commands;
        for (int i = 0; i < LOCKS; i++) {
            asks[i] = world_make(&w, DLK_RENEW, keys[i], 1);
            asks[i].since += (round + 1) * 200 * DLK_NS_PER_SEC;
            world_ask(&w, &asks[i]);
        }
        for (int i = 0; i < LOCKS; i++)
            CHECK_EQ_INT(world_await(&w, &asks[i]), i == 3 ? DLK_NOT_OURS : DLK_YES);
        CHECK_EQ_INT(w.host.commands - before, round == 0 ? 3 : 2);
        CHECK(has_key(&w));
    }
    for (int i = 0; i < LOCKS; i++)
        world_forget(&w, keys[i]);
    single_tear_down();
}

/* ---- Nothing depends on it ---- */

TEST(it_is_ahead_of_whatever_follows)
{
    if (!single_start(NULL))
        return;
    static const char *const layouts[] = {"redisson", "string"};
    for (size_t i = 0; i < 2; i++) {
        redis_server_call(&server, "SCRIPT FLUSH");
        CHECK(single_connect(DLOCK_MUTEX, "M", ON, "redis.layout", layouts[i], NULL));
        redis_server_call(&server, "SCRIPT FLUSH");
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
        CHECK(has_key(&w));
        CHECK_EQ_INT(do_later(DLK_ACQUIRE, 1, 10000, 200), DLK_YES); /* ours already */
        CHECK_EQ_INT(do_later(DLK_ACQUIRE, 2, 10000, 400), DLK_HELD);
        redis_server_call(&server, "DEL M");
        redis_server_call(&server, i == 0 ? "SET M x" : "RPUSH M x");
        CHECK_EQ_INT(do_later(DLK_ACQUIRE, 3, 10000, 600), DLK_REFUSED);
        CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
        redis_server_call(&server, "DEL M");
        CHECK_EQ_INT(do_later(DLK_ACQUIRE, 4, 10000, 800), DLK_YES);
        single_disconnect();
        redis_server_call(&server, "FLUSHALL");
    }
    redis_server_stop(&server);
}

TEST(another_connection_writes_it_anew)
{
    if (!single_set_up(ON, "client.backoff_min_ms", "5", "client.backoff_max_ms", "10",
                       NULL))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    redis_server_call(&server, "FLUSHALL");
    redis_server_call(&server, "CLIENT KILL TYPE normal SKIPME yes");
    ROUNDS_UNTIL(&w, w.ups == 2);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, NULL), DLK_YES);
    CHECK(has_key(&w));
    single_tear_down();
}

/* All of a client without that right, who is told of it by nobody but the doctor. */
TEST(who_may_not_write_it_has_locks_as_before)
{
    if (!single_start(NULL))
        return;
    CHECK_STR(redis_server_call(&server, "ACL SETUSER locks on >secret ~app:* "
                                         "~redisson_lock_token:* ~dlock_queue:* "
                                         "~dlock_open:* &* +@all"),
              "OK");
    CHECK(single_connect(DLOCK_MUTEX, "app:L", ON, "client.prefix", "app:",
                         "auth.username", "locks", "auth.password", "secret", NULL));
    redis_server_call(&server, "ACL LOG RESET");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    int64_t before = w.host.commands;
    CHECK_EQ_INT(do_later(DLK_RENEW, 1, 10000, 1000), DLK_YES);
    CHECK_EQ_INT(w.host.commands - before, 1); /* it isn't tried again */
    const char *refused = redis_server_call(&server, "ACL LOG");
    CHECK_CONTAINS(refused, "count 1 reason key ");
    CHECK_CONTAINS(refused, "dlock_client:");
    CHECK(!strstr(strstr(refused, "reason") + 1, "reason"));
    CHECK_STR(seen("held"), "1");
    CHECK_STR(seen("holders.0.client"), "");
    CHECK_STR(told(&w, DLK_LIST, NULL, "locks.0.name"), "app:L");
    CHECK_STR(w.log, "");
    dlk_ask ask = world_make(&w, DLK_DOCTOR, NULL, 0);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_CONTAINS(dlock_info_json(ask.info), "do without ~dlock_client:*");
    CHECK_CONTAINS(dlock_info_json(ask.info), "rights.client_key");
    dlock_info_free(ask.info);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    single_tear_down();
}

TEST(without_the_setting_there_is_none)
{
    if (!single_set_up(NULL))
        return;
    world other;
    char uri[64];
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    CHECK(world_connect(&other, uri, ON, NULL));
    dlk_key *theirs = world_key(&other, "theirs"), *same = world_key(&w, "theirs");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK(!has_key(&w));
    CHECK_EQ_INT(world_do(&other, DLK_ACQUIRE, theirs, 1, NULL), DLK_YES);
    CHECK_STR(told(&w, DLK_INSPECT, same, "holders.0.client"),
              ""); /* nor is one looked for */
    world_forget(&w, same);
    world_forget(&other, theirs);
    world_close(&other);
    single_tear_down();
}

/* ---- What others have written there ---- */

TEST(what_is_no_such_key_says_nothing)
{
    static char long_one[1501], cut[256];
    static const struct {
        const char *verb, *value, *client, *host, *pid;
    } cases[] = {
        {"SET", "\"a\\tb\\t3\\tmore\"", "a", "b", "3"},
        {"SET", "a", "a", "", ""},
        {"SET", "\"\"", "", "", ""},
        {"SET", "\"\\t\\t-3\"", "", "", ""},
        {"SET", "\"a\\t\\t9223372036854775808\"", "a", "", ""},
        {"SET", "\"a\\x00\\tb\\t3\"", "a", "", ""},
        {"SET", long_one, cut, "", ""},
        {"RPUSH", "a b c", "", "", ""},
    };
    if (!single_set_up(ON, NULL))
        return;
    memset(long_one, 'x', sizeof(long_one) - 1);
    memset(cut, 'x', sizeof(cut) - 1);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        redis_server_call(&server, "DEL %s", key_of(&w));
        redis_server_call(&server, "%s %s %s", cases[i].verb, key_of(&w), cases[i].value);
        CHECK_STR(seen("held"), "1");
        CHECK_STR(seen("holders.0.client"), cases[i].client);
        CHECK_STR(seen("holders.0.host"), cases[i].host);
        CHECK_STR(seen("holders.0.pid"), cases[i].pid);
        CHECK_STR(told(&w, DLK_LIST, NULL, "locks.0.client"), cases[i].client);
    }
    single_tear_down();
}

TEST(owners_of_others_stay_bare_ids)
{
    if (!single_set_up(ON, NULL))
        return;
    static const char *const owners[] = {"11111111-2222-3333-4444-555555555555:7",
                                         "somebody", ":1", "a:b:1"};
    for (size_t i = 0; i < sizeof(owners) / sizeof(*owners); i++) {
        redis_server_call(&server, "DEL L");
        redis_server_call(&server, "HSET L %s 1", owners[i]);
        CHECK_STR(seen("holders.0.owner"), owners[i]);
        CHECK_STR(seen("holders.0.client"), "");
    }
    single_tear_down();
}

TEST(it_is_no_lock)
{
    if (!single_set_up(ON, "redis.layout", "string", NULL))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK(has_key(&w));
    dlk_ask list = world_make(&w, DLK_LIST, NULL, 0);
    list.text = "dlock_client:";
    world_ask(&w, &list);
    CHECK_EQ_INT(world_await(&w, &list), DLK_YES);
    CHECK(!dlock_info_get(list.info, "locks.0.name"));
    dlock_info_free(list.info);
    dlk_key none = {.name = key_of(&w),
                    .size = (uint32_t)strlen(key_of(&w)),
                    .kind = DLOCK_MUTEX,
                    .settings = w.settings};
    CHECK_EQ_INT(w.backend->type->key_open(w.backend, &none, NULL), DLOCK_EINVAL);
    world_forget(&w,
                 world_key(&w, "dlock_client:orders")); /* which anybody's lock may be */
    single_tear_down();
}

/* ---- What it has stands in the same key: told.h ---- */

static dlk_told_sum has_one(dlk_host *host, int64_t now, int64_t after, dlk_told *ret,
                            size_t most)
{
    (void)host, (void)now, (void)after, (void)most;
    ret[0] = (dlk_told){.key = key, .since = 1, .number = 1};
    return (dlk_told_sum){.count = 1, .next = DLK_NEVER};
}

static dlk_redis *telling_client(void)
{
    if (!single_set_up(ON, NULL))
        return NULL;
    dlk_redis *redis = (dlk_redis *)w.backend;
    w.host.told = has_one;
    redis->tells = true;
    redis->tell_at = 1;
    return redis;
}

/* Though nothing is asked for, given back or renewed: of a semaphore, or without renewals. */
TEST(what_a_client_has_is_told_again_before_its_key_ends)
{
    dlk_redis *redis = telling_client();
    if (!redis)
        return;
    ROUNDS_UNTIL(&w, has_key(&w) && !redis->tell_asked);
    int64_t at = redis->tell_at;
    CHECK(at > dlk_clock_now() && at < redis->said_until);
    redis_server_call(&server, "PEXPIRE %s 5000", key_of(&w));
    CHECK(dlk_redis_told_tick(redis, at) > at);
    ROUNDS_UNTIL(&w, life_of(&w) > 5000);
    single_tear_down();
}

TEST(what_was_told_when_the_connection_ended_is_told_on_the_next)
{
    dlk_redis *redis = telling_client();
    if (!redis)
        return;
    ROUNDS_UNTIL(&w, has_key(&w) && !redis->tell_asked);
    redis->said_until = 0;
    redis->tell_at = 1;
    (void)dlk_redis_told_tick(redis, dlk_clock_now());
    CHECK(redis->tell_asked);
    redis_server_call(&server, "CLIENT KILL TYPE normal SKIPME yes");
    redis_server_call(&server, "DEL %s", key_of(&w));
    ROUNDS_UNTIL(&w, w.ups == 2 && has_key(&w));
    single_tear_down();
}
