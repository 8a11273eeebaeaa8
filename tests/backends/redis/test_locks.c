/* The redis backend against a real server: what each verb does, and what lies on the server. */
#include "single.h"
#include "util/error.h"
#include "util/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_KEY "redisson_lock_token:{L}"

TEST(a_grant_is_redissons_hash_with_a_lease_and_a_token)
{
    if (!single_set_up(NULL))
        return;
    int64_t token;
    char owner[64];
    snprintf(owner, sizeof(owner), "%s:18446744073709551615 1", w.uuid);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, UINT64_MAX, &token), DLK_YES);
    CHECK_STR(redis_server_call(&server, "HGETALL L"), owner);
    int64_t left = atoll(redis_server_call(&server, "PTTL L"));
    CHECK(left > 0 && left <= 10000);
    CHECK(token >
          INT64_C(1000000000000000)); /* microseconds since 1970, so it survives a wipe */
    CHECK_EQ_INT(atoll(redis_server_call(&server, "GET " TOKEN_KEY)), token);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, UINT64_MAX, NULL), DLK_YES);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    CHECK_STR(redis_server_call(&server, "EXISTS " TOKEN_KEY), "1");
    CHECK(w.host.commands == 2 && w.host.bytes_sent > 300 && w.host.bytes_received > 20);
    single_tear_down();
}

TEST(asking_again_is_the_same_grant_and_never_shortens_it)
{
    if (!single_set_up(NULL))
        return;
    dlk_ask first = world_make(&w, DLK_ACQUIRE, key, 1), again = first;
    again.ttl_ms = 1000;
    world_ask(&w, &first);
    CHECK_EQ_INT(world_await(&w, &first), DLK_YES);
    world_ask(&w, &again);
    CHECK_EQ_INT(world_await(&w, &again), DLK_YES);
    CHECK_EQ_INT(again.token, first.token);
    CHECK(atoll(redis_server_call(&server, "PTTL L")) > 5000);
    CHECK_CONTAINS(redis_server_call(&server, "HVALS L"), "1");
    single_tear_down();
}

TEST(what_somebody_else_has_is_held_for_the_rest_of_its_lease)
{
    if (!single_set_up(NULL))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    dlk_ask other = world_make(&w, DLK_ACQUIRE, key, 2);
    world_ask(&w, &other);
    CHECK_EQ_INT(world_await(&w, &other), DLK_HELD);
    CHECK(other.wait_ms > 0 && other.wait_ms <= 10000);
    redis_server_call(&server, "PERSIST L");
    other = world_make(&w, DLK_ACQUIRE, key, 2);
    world_ask(&w, &other);
    CHECK_EQ_INT(world_await(&w, &other), DLK_HELD);
    CHECK(other.wait_ms < 0);
    single_tear_down();
}

TEST(tokens_rise_even_when_the_counter_was_lost_or_ran_ahead)
{
    if (!single_set_up(NULL))
        return;
    int64_t last = 0, token;
    for (uint64_t i = 1; i <= 20; i++) {
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, i, &token), DLK_YES);
        CHECK(token > last);
        last = token;
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, i, NULL), DLK_YES);
        if (i == 5)
            redis_server_call(&server, "FLUSHALL");
        if (i == 10)
            redis_server_call(&server, "SET " TOKEN_KEY " %" PRId64, last + 1000000000);
    }
    CHECK(last >= 1000000000);
    single_tear_down();
}

TEST(a_counter_that_is_none_is_refused_and_leaves_no_lock)
{
    if (!single_set_up(NULL))
        return;
    for (int i = 0; i < poison_count; i++) {
        redis_server_call(&server, "FLUSHALL");
        redis_server_call(&server, "%s", poisons[i].command);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
        CHECK_EQ_INT(w.code, poisons[i].code);
        CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    }
    single_tear_down();
}

/* The grant stands: what the counter says is of no use to it, and costs no connection. */
TEST(a_counter_that_was_overwritten_is_no_token_of_who_asks_again)
{
    static const struct {
        const char *text;
        dlk_reply reply;
    } counters[] = {{"0", DLK_YES},
                    {"7", DLK_YES},
                    {"99999999999999999", DLK_REFUSED},
                    {"99999999999999999999", DLK_REFUSED}};
    if (!single_set_up(NULL))
        return;
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        dlk_ask first = world_make(&w, DLK_ACQUIRE, key, 1), again = first;
        world_ask(&w, &first);
        CHECK_EQ_INT(world_await(&w, &first), DLK_YES);
        redis_server_call(&server, "SET " TOKEN_KEY " %s", counters[i].text);
        world_ask(&w, &again);
        CHECK_EQ_INT(world_await(&w, &again), counters[i].reply);
        if (counters[i].reply == DLK_YES)
            CHECK(again.token > first.token);
        else
            CHECK_EQ_INT(w.code, DLOCK_EOVERFLOW);
        redis_server_call(&server, "FLUSHALL");
    }
    single_tear_down();
}

TEST(only_the_owner_renews_verifies_and_releases)
{
    if (!single_set_up(NULL))
        return;
    static const dlk_verb verbs[] = {DLK_RENEW, DLK_VERIFY, DLK_RELEASE};
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(world_do(&w, verbs[i], key, 1, NULL), DLK_NOT_OURS);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0"); /* nothing was re-created */
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(world_do(&w, verbs[i], key, 2, NULL), DLK_NOT_OURS);
    redis_server_call(&server, "PEXPIRE L 4000");
    CHECK_EQ_INT(world_do(&w, DLK_VERIFY, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_YES);
    CHECK(atoll(redis_server_call(&server, "PTTL L")) > 5000);
    redis_server_call(&server, "PEXPIRE L 60000");
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_YES);
    CHECK(atoll(redis_server_call(&server, "PTTL L")) > 50000); /* never shortened */
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_NOT_OURS);
    single_tear_down();
}

TEST(another_type_of_key_is_a_conflict_and_stays_as_it_is)
{
    if (!single_set_up(NULL))
        return;
    redis_server_call(&server, "SET L value");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    CHECK_CONTAINS(w.text, "WRONGTYPE");
    CHECK_EQ_INT(world_do(&w, DLK_INSPECT, key, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(world_do(&w, DLK_BREAK, key, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 1, NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_NOT_OURS);
    CHECK_STR(redis_server_call(&server, "GET L"), "value");
    redis_server_call(&server, "DEL L");
    redis_server_call(&server, "HSET L mode write %s:1:write 1", w.uuid);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(world_do(&w, DLK_BREAK, key, 1, NULL), DLK_REFUSED);
    CHECK_STR(redis_server_call(&server, "HLEN L"), "2");
    single_tear_down();
}

static void check_break(const char *text, dlk_reply expected)
{
    dlk_ask ask = world_make(&w, DLK_BREAK, key, 0);
    ask.text = text;
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), expected);
}

TEST(break_takes_it_from_the_one_that_was_named)
{
    if (!single_set_up(NULL))
        return;
    char mine[64], other[64];
    int64_t before, after;
    snprintf(mine, sizeof(mine), "%s:1", w.uuid);
    snprintf(other, sizeof(other), "%s:2", w.uuid);
    check_break(NULL, DLK_NOT_OURS);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, &before), DLK_YES);
    check_break(other, DLK_NOT_OURS);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "1");
    check_break(mine, DLK_YES);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, &after), DLK_YES);
    CHECK(after > before);
    check_break(NULL, DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, key, 2, NULL), DLK_NOT_OURS);
    /* A hash of somebody's data isn't a lock. */
    redis_server_call(&server, "HSET L colour blue");
    check_break(NULL, DLK_REFUSED);
    CHECK_STR(redis_server_call(&server, "HGETALL L"), "colour blue");
    single_tear_down();
}

/* With volatile-* policies any key may go. */
TEST(an_election_whose_data_was_evicted_has_its_elected_one_still)
{
    if (!single_set_up(NULL))
        return;
    dlk_key *election = world_key_of(&w, DLOCK_ELECTION, "E");
    CHECK(election != NULL);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, election, 1, NULL), DLK_YES);
    redis_server_call(&server, "DEL dlock_data:{E}");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, election, 2, NULL), DLK_HELD);
    dlk_ask look = world_make(&w, DLK_INSPECT, election, 0);
    world_ask(&w, &look);
    CHECK_EQ_INT(world_await(&w, &look), DLK_YES);
    CHECK_STR(dlock_info_get(look.info, "kind"), "election");
    CHECK_STR(dlock_info_get(look.info, "holders.0.count"), "1");
    dlk_info_free(look.info);
    CHECK_EQ_INT(world_do(&w, DLK_RENEW, election, 1, NULL), DLK_YES);
    CHECK_STR(redis_server_call(&server, "EXISTS dlock_data:{E}"), "1");
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, election, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, election, 2, NULL), DLK_YES);
    world_forget(&w, election);
    single_tear_down();
}

/* In time: by the poll they would hear of it, too. */
TEST(who_waits_to_be_elected_is_told_of_the_end_of_a_term)
{
    if (!single_set_up(NULL))
        return;
    dlk_key *election = world_key_of(&w, DLOCK_ELECTION, "E");
    CHECK(election != NULL);
    world_watch(&w, election, true);
    ROUNDS_UNTIL(&w, w.notices == 1); /* subscribed */
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, election, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, election, 1, NULL), DLK_YES);
    ROUNDS_UNTIL(&w, w.notices == 2); /* resigned */
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, election, 2, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_BREAK, election, 0, NULL), DLK_YES);
    ROUNDS_UNTIL(&w, w.notices == 3); /* deposed */
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, election, 2, NULL), DLK_NOT_OURS);
    CHECK(w.noticed == election);
    world_watch(&w, election, false);
    world_forget(&w, election);
    single_tear_down();
}

TEST(a_mutex_is_no_election_whatever_was_evicted)
{
    if (!single_set_up(NULL))
        return;
    dlk_key *election = world_key_of(&w, DLOCK_ELECTION, "L");
    CHECK(election != NULL);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, election, 2, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w.code, DLOCK_ECONFLICT);
    world_forget(&w, election);
    single_tear_down();
}

TEST(inspect_tells_who_holds_it)
{
    if (!single_set_up(NULL))
        return;
    dlk_ask ask = world_make(&w, DLK_INSPECT, key, 0);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_STR(dlock_info_get(ask.info, "held"), "0");
    dlock_info_free(ask.info);
    int64_t token;
    char owner[64], number[24];
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 7, &token), DLK_YES);
    snprintf(owner, sizeof(owner), "%s:7", w.uuid);
    snprintf(number, sizeof(number), "%" PRId64, token);
    ask = world_make(&w, DLK_INSPECT, key, 0);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_STR(dlock_info_get(ask.info, "held"), "1");
    CHECK_STR(dlock_info_get(ask.info, "kind"), "mutex");
    CHECK_STR(dlock_info_get(ask.info, "holders.0.owner"), owner);
    CHECK_STR(dlock_info_get(ask.info, "holders.0.token"), number);
    CHECK_STR(dlock_info_get(ask.info, "holders.0.count"), "1");
    CHECK(dlock_info_get(ask.info, "holders.0.remaining_ms") != NULL);
    CHECK_STR(dlock_info_get(ask.info, "layout"), "redisson");
    dlock_info_free(ask.info);
    single_tear_down();
}

TEST(list_finds_every_lock_once_and_nothing_else)
{
    if (!single_set_up(NULL))
        return;
    for (int i = 0; i < 1500; i++)
        redis_server_call(&server, "HSET job*[%04d] u:%d 1", i, i);
    redis_server_call(&server, "HSET job*x colour blue"); /* a hash, but no lock */
    redis_server_call(&server, "HSET job*y a 1 b 2");     /* neither */
    redis_server_call(&server, "SET job*z 1");            /* nor this */
    redis_server_call(&server,
                      "HSET jobs-elsewhere u:1 1"); /* doesn't begin with "job*" */
    dlk_ask ask = world_make(&w, DLK_LIST, NULL, 0);
    ask.text = "job*";
    ask.limit = 5000;
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_STR(dlock_info_get(ask.info, "locks.0.name"), "job*[0000]");
    CHECK_STR(dlock_info_get(ask.info, "locks.0.owner"), "u:0");
    CHECK_STR(dlock_info_get(ask.info, "locks.1499.name"), "job*[1499]");
    CHECK(dlock_info_get(ask.info, "locks.1500.name") == NULL);
    dlock_info_free(ask.info);
    ask = world_make(&w, DLK_LIST, NULL, 0);
    ask.text = "";
    ask.limit = 3;
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK(dlock_info_get(ask.info, "locks.2.name") != NULL);
    CHECK(dlock_info_get(ask.info, "locks.3.name") == NULL);
    dlock_info_free(ask.info);
    single_tear_down();
}

static const char *finding(const dlock_info *info, const char *id, const char *what)
{
    char name[64];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "findings.%d.id", i);
        const char *text = dlock_info_get(info, name);
        if (text && strcmp(text, id) == 0) {
            snprintf(name, sizeof(name), "findings.%d.%s", i, what);
            return dlock_info_get(info, name);
        }
    }
    return NULL;
}

TEST(doctor_sees_what_is_unsafe)
{
    if (!single_set_up(NULL))
        return;
    dlk_ask ask = world_make(&w, DLK_DOCTOR, NULL, 0);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_STR(dlock_info_get(ask.info, "verdict"), "1");
    CHECK_STR(finding(ask.info, "persistence", "severity"), "1");
    CHECK_STR(finding(ask.info, "rights", "severity"), "0");
    CHECK_STR(finding(ask.info, "eviction", "severity"), "0");
    CHECK_STR(finding(ask.info, "clock", "severity"), "0");
    CHECK_STR(finding(ask.info, "replication", "severity"), "0");
    dlock_info_free(ask.info);
    redis_server_call(&server, "CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru");
    redis_server_call(&server, "CONFIG SET appendonly yes");
    redis_server_call(&server, "ACL SETUSER default -hset");
    ask = world_make(&w, DLK_DOCTOR, NULL, 0);
    world_ask(&w, &ask);
    CHECK_EQ_INT(world_await(&w, &ask), DLK_YES);
    CHECK_STR(dlock_info_get(ask.info, "verdict"), "2");
    CHECK_STR(finding(ask.info, "eviction", "severity"), "2");
    CHECK_CONTAINS(finding(ask.info, "rights", "text"), "+hset");
    CHECK_STR(finding(ask.info, "persistence", "severity"), "0");
    dlock_info_free(ask.info);
    redis_server_call(&server, "CONFIG SET appendonly no");
    char remove[128];
    snprintf(remove, sizeof(remove), "rm -rf %s/appendonlydir", server.dir);
    CHECK_EQ_INT(system(remove), 0);
    single_tear_down();
}

TEST(a_watched_key_is_told_about_at_the_subscription_and_at_each_release)
{
    if (!single_set_up(NULL))
        return;
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    world_watch(&w, key, true);
    ROUNDS_UNTIL(&w, w.notices == 1); /* subscribed: whoever waits asks once more */
    CHECK(w.noticed == key);
    CHECK_STR(redis_server_call(&server, "PUBSUB NUMSUB redisson_lock__channel:{L}"),
              "redisson_lock__channel:{L} 1");
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    ROUNDS_UNTIL(&w, w.notices == 2);
    world_watch(&w, key, false);
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 2, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 2, NULL), DLK_YES);
    world_spin(&w, 20);
    CHECK_EQ_INT(w.notices, 2); /* nobody watches now */
    /* The subscription is kept for a moment, so the next watch is told at once … */
    world_watch(&w, key, true);
    ROUNDS_UNTIL(&w, w.notices == 3);
    world_watch(&w, key, false);
    /* … and given up after it. */
    ROUNDS_UNTIL(
        &w, strcmp(redis_server_call(&server, "PUBSUB NUMSUB redisson_lock__channel:{L}"),
                   "redisson_lock__channel:{L} 0") == 0);
    world_watch(&w, key, true);
    ROUNDS_UNTIL(&w, w.notices == 4);
    world_watch(&w, key, false);
    single_tear_down();
}

TEST(a_thousand_watched_names_are_each_told_about)
{
    enum { MANY = 1000 };
    if (!single_set_up(NULL))
        return;
    static dlk_key *keys[MANY];
    char name[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "many-%d", i);
        keys[i] = world_key(&w, name);
        CHECK(keys[i] != NULL);
        world_watch(&w, keys[i], true);
    }
    ROUNDS_UNTIL(&w, w.notices == MANY);
    redis_server_call(&server, "PUBLISH redisson_lock__channel:{many-777} 0");
    ROUNDS_UNTIL(&w, w.notices == MANY + 1);
    CHECK(w.noticed == keys[777]);
    for (int i = 0; i < MANY; i++)
        world_watch(&w, keys[i], false);
    ROUNDS_UNTIL(
        &w, strcmp(redis_server_call(&server, "PUBSUB CHANNELS redisson*"), "") == 0);
    for (int i = 0; i < MANY; i++)
        world_forget(&w, keys[i]);
    single_tear_down();
}

TEST(names_are_sent_unchanged_whatever_bytes_they_have)
{
    static const char *const names[] = {
        "a{b",          "x{}y", "{tag}n", "spaces and\r\n$3\r\nlines",
        "\xff\xfe\x80", "%s%n", "*[a]?"};
    if (!single_set_up(NULL))
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        dlk_key *odd = world_key(&w, names[i]);
        CHECK(odd != NULL);
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, odd, i + 1, NULL), DLK_YES);
        CHECK_EQ_INT(world_do(&w, DLK_VERIFY, odd, i + 1, NULL), DLK_YES);
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, odd, i + 1, NULL), DLK_YES);
        world_forget(&w, odd);
    }
    CHECK_STR(redis_server_call(&server, "EXISTS redisson_lock_token:a{b"), "1");
    CHECK_STR(redis_server_call(&server, "EXISTS redisson_lock_token:x{}y"), "1");
    single_tear_down();
}

TEST(unix_sockets_databases_and_names_of_hosts_work)
{
    if (!redis_server_available())
        return;
    CHECK(redis_server_start(&server, NULL));
    char uris[4][128];
    snprintf(uris[0], sizeof(uris[0]), "redis+unix://%s", server.path);
    snprintf(uris[1], sizeof(uris[1]), "redis://127.0.0.1:%d/3", server.port);
    snprintf(uris[2], sizeof(uris[2]), "redis://localhost:%d", server.port);
    snprintf(uris[3], sizeof(uris[3]), "redis://127.0.0.1:%d?redis.wait=poll",
             server.port);
    for (int i = 0; i < 4; i++) {
        CHECK(world_connect(&w, uris[i], NULL));
        key = world_key(&w, "L");
        CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
        world_watch(&w, key, true);
        if (i < 3)
            ROUNDS_UNTIL(&w, w.notices == 1);
        world_watch(&w, key, false);
        CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
        world_forget(&w, key);
        world_close(&w);
    }
    CHECK_CONTAINS(redis_server_call(&server, "INFO keyspace"), "db3:keys=1");
    redis_server_stop(&server);
}

/* What opening a key of this kind with one more setting answers. */
static dlock_err open_key(dlock_kind kind, const char *layout, const char *setting,
                          const char *value, dlock_error **err)
{
    dlk_settings *settings = dlk_settings_new();
    dlk_key other = {.name = "L", .size = 1, .kind = kind, .settings = settings};
    dlock_err code = dlk_settings_set(settings, "redis.layout", layout, err);
    if (code == DLOCK_OK)
        code = dlk_settings_set(settings, setting, value, err);
    if (code == DLOCK_OK)
        code = w.backend->type->key_open(w.backend, &other, err);
    if (code == DLOCK_OK)
        w.backend->type->key_close(w.backend, &other);
    dlk_settings_free(settings);
    return code;
}

TEST(a_layout_has_its_kinds_and_refuses_the_others_by_name)
{
    if (!single_set_up(NULL))
        return;
    dlock_error *err = NULL;
    static const char *const layouts[] = {"redisson", "string", "timestamp", "rueidis"};
    for (int i = 0; i < 4; i++)
        for (dlock_kind kind = DLOCK_MUTEX; kind <= DLOCK_ELECTION; kind++) {
            if (kind == DLOCK_READ)
                continue; /* both sides are one key, of the kind WRITE */
            for (int fair = 0; fair < 2; fair++) {
                bool there = kind == DLOCK_MUTEX ? i == 0 || !fair : i == 0 && !fair;
                dlock_err code =
                    open_key(kind, layouts[i], "lock.fair", fair ? "on" : "off", &err);
                CHECK_EQ_INT(code, there ? DLOCK_OK : DLOCK_ENOTSUP);
                if (!there)
                    CHECK_CONTAINS(dlock_error_text(err), layouts[i]);
                dlk_error_clear(&err);
            }
        }
    single_tear_down();
}

TEST(two_hosts_for_a_single_server_are_refused)
{
    if (!single_set_up(NULL))
        return;
    dlock_error *err = NULL;
    CHECK_ERR(world_try("redis://a,b", &err, NULL), DLOCK_EINVAL, err);
    dlk_error_clear(&err);
    single_tear_down();
}
