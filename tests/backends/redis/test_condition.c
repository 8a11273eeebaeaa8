/* Conditions on a real server, request by request: who is signalled, where a signal goes that isn't used, and
 * what is left. That a whole wait gives its lock back and has it again says tests/api/test_condition.c. */
#include "harness/redis_server.h"
#include "util/error.h"
#include "util/info.h"
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 3, SHORT_MS = 200 };

static redis_server server;
static world w[CLIENTS];
static dlk_key *key[CLIENTS];

static bool set_up(const char *setting, const char *value)
{
    char uri[64];
    if (!redis_server_available() || !redis_server_start(&server, NULL))
        return false;
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.port);
    for (int i = 0; i < CLIENTS; i++) {
        if (!world_connect(&w[i], uri, "redis.claim_ms", "60000", setting, value, NULL))
            return false;
        key[i] = world_key_of(&w[i], DLK_KIND_CONDITION, "C");
        if (!key[i])
            return false;
    }
    return true;
}

static void leave(int i)
{
    if (!key[i])
        return;
    world_watch(&w[i], key[i], false);
    world_forget(&w[i], key[i]);
    key[i] = NULL;
    world_close(&w[i]);
}

static void tear_down(void)
{
    for (int i = 0; i < CLIENTS; i++)
        leave(i);
    redis_server_stop(&server);
}

/* ---- short ways ---- */

/* Client @p i asks for its signal. */
static dlk_ask asked(int i, uint64_t number, int64_t ttl_ms)
{
    dlk_ask ask = world_make(&w[i], DLK_ACQUIRE, key[i], number);
    ask.ttl_ms = ttl_ms;
    world_ask(&w[i], &ask);
    (void)world_await(&w[i], &ask);
    return ask;
}

static dlk_reply waits(int i)
{
    return asked(i, 1, 10000).reply;
}

/* Stands in the line and hears what is told there. */
static bool join(int i)
{
    dlk_ask ask = asked(i, 1, 10000);
    char channel[128];
    snprintf(channel, sizeof(channel), "PUBSUB NUMSUB dlock_client:%s", w[i].uuid);
    world_watch(&w[i], key[i], true);
    return harness_eq_int(__FILE__, __LINE__, "joins", ask.reply, DLK_HELD) &&
           harness_check(__FILE__, __LINE__, ask.new_place, "the place is a new one") &&
           ROUNDS_REACH(
               &w[i],
               atoi(strrchr(redis_server_call(&server, "%s", channel), ' ') + 1) == 1) &&
           harness_eq_int(__FILE__, __LINE__, "waits", waits(i), DLK_HELD);
}

static dlk_reply give_back(int i, uint64_t number, int64_t used)
{
    dlk_ask ask = world_make(&w[i], DLK_RELEASE, key[i], number);
    ask.used = used;
    world_ask(&w[i], &ask);
    return world_await(&w[i], &ask);
}

static int64_t signals(int i, int64_t count)
{
    dlk_ask ask = world_make(&w[i], DLK_SIGNAL, key[i], 0);
    ask.limit = count;
    world_ask(&w[i], &ask);
    int64_t signalled =
        world_await(&w[i], &ask) == DLK_YES ? dlock_info_int(ask.info, 0) : -1;
    dlk_info_free(ask.info);
    return signalled;
}

static bool nothing_is_left(void)
{
    return harness_str(__FILE__, __LINE__, "KEYS *",
                       redis_server_call(&server, "KEYS *C*"), "");
}

/* ---- the line ---- */

TEST(who_waits_is_granted_nothing_until_a_signal_and_then_in_order)
{
    int64_t tokens[CLIENTS] = {0};
    if (!set_up(NULL, NULL))
        return;
    CHECK_EQ_INT(signals(0, 1), 0);
    for (int i = 0; i < CLIENTS; i++)
        CHECK(join(i));
    CHECK_EQ_INT(signals(2, 2), 2);
    for (int i = 0; i < CLIENTS; i++) {
        dlk_ask ask = asked(i, 1, 10000);
        CHECK_EQ_INT(ask.reply, i < 2 ? DLK_YES : DLK_HELD);
        CHECK(i == 2 || ask.lasts);
        tokens[i] = ask.token;
    }
    CHECK_EQ_INT(asked(0, 1, 10000).token, tokens[0]); /* asked again, the same */
    CHECK_EQ_INT(world_do(&w[0], DLK_VERIFY, key[0], 1, NULL), DLK_YES);
    CHECK_EQ_INT(world_do(&w[2], DLK_VERIFY, key[2], 1, NULL), DLK_NOT_OURS);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(give_back(i, 1, tokens[i]), DLK_YES);
    CHECK_EQ_INT(waits(2), DLK_HELD); /* they were used */
    CHECK_EQ_INT(give_back(2, 1, 0), DLK_YES);
    CHECK_EQ_INT(give_back(2, 1, 0), DLK_NOT_OURS); /* the same request once more */
    CHECK(nothing_is_left());
    tear_down();
}

TEST(who_is_signalled_is_told_and_so_is_who_is_next)
{
    if (!set_up(NULL, NULL))
        return;
    for (int i = 0; i < CLIENTS; i++)
        CHECK(join(i));
    for (int i = 0; i < CLIENTS; i++) {
        world_spin(&w[i], 1);
        w[i].notices = 0;
    }
    CHECK_EQ_INT(signals(2, 1), 1);
    for (int i = 0; i < 2; i++) {
        ROUNDS_UNTIL(&w[i], w[i].notices > 0);
        CHECK(w[i].noticed == key[i]);
    }
    CHECK_EQ_INT(waits(0), DLK_YES);
    /* It looks again when that signal would come to it. */
    dlk_ask next = asked(1, 1, 60000);
    CHECK_EQ_INT(next.reply, DLK_HELD);
    CHECK(!next.new_place && next.wait_ms <= 10000);
    CHECK_EQ_INT(w[2].notices, 0);
    tear_down();
}

TEST(a_broadcast_goes_to_all_who_wait)
{
    if (!set_up(NULL, NULL))
        return;
    for (int i = 0; i < CLIENTS; i++)
        CHECK(join(i));
    CHECK_EQ_INT(signals(0, INT64_MAX), CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ_INT(waits(i), DLK_YES);
    tear_down();
}

/* ---- a signal that isn't used ---- */

TEST(a_signal_that_was_not_used_goes_on)
{
    if (!set_up(NULL, NULL))
        return;
    for (int i = 0; i < CLIENTS; i++)
        CHECK(join(i));
    CHECK_EQ_INT(signals(2, 1), 1);
    CHECK_EQ_INT(waits(0), DLK_YES);
    CHECK_EQ_INT(give_back(0, 1, 0), DLK_YES);
    CHECK_EQ_INT(waits(1), DLK_YES);
    CHECK_EQ_INT(waits(2), DLK_HELD);
    CHECK_EQ_INT(give_back(1, 1, 0), DLK_YES);
    CHECK_EQ_INT(waits(2), DLK_YES);
    CHECK_EQ_INT(give_back(2, 1, 0), DLK_YES); /* nobody is left: it is lost */
    CHECK(nothing_is_left());
    tear_down();
}

/* The wait that used one is over; a request of it that was on its way takes a place after that, and is
 * signalled there. Nobody comes for it but the release that is repeated. */
TEST(a_late_place_s_signal_was_not_used_by_whoever_used_an_earlier_one)
{
    if (!set_up(NULL, NULL))
        return;
    CHECK(join(0));
    CHECK_EQ_INT(signals(2, 1), 1);
    int64_t token = asked(0, 1, 10000).token;
    CHECK_EQ_INT(give_back(0, 1, token), DLK_YES);
    CHECK(asked(0, 1, 10000).new_place);
    CHECK(join(1));
    CHECK_EQ_INT(signals(2, 1), 1);
    CHECK_EQ_INT(give_back(0, 1, token), DLK_YES);
    CHECK_EQ_INT(waits(1), DLK_YES);
    tear_down();
}

TEST(a_signal_that_nobody_comes_for_goes_on)
{
    if (!set_up("redis.claim_ms", "50"))
        return;
    CHECK(join(0) && join(1));
    CHECK_EQ_INT(signals(2, 1), 1);
    ROUNDS_UNTIL(&w[1], waits(1) == DLK_YES);
    dlk_ask late = asked(0, 1, 10000);
    CHECK_EQ_INT(late.reply, DLK_HELD);
    CHECK(late.new_place);
    tear_down();
}

TEST(a_lease_that_is_over_passes_its_signal_on)
{
    if (!set_up(NULL, NULL))
        return;
    CHECK(join(0) && join(1));
    CHECK_EQ_INT(signals(2, 1), 1);
    CHECK_EQ_INT(asked(0, 1, SHORT_MS).reply, DLK_YES);
    ROUNDS_UNTIL(&w[1], waits(1) == DLK_YES);
    CHECK_EQ_INT(world_do(&w[0], DLK_RENEW, key[0], 1, NULL), DLK_NOT_OURS);
    CHECK_EQ_INT(world_do(&w[1], DLK_RENEW, key[1], 1, NULL), DLK_YES);
    CHECK_EQ_INT(give_back(0, 1, 1), DLK_NOT_OURS);
    tear_down();
}

TEST(a_renewed_lease_keeps_its_signal)
{
    if (!set_up(NULL, NULL))
        return;
    CHECK(join(0) && join(1));
    CHECK_EQ_INT(signals(2, 1), 1);
    CHECK_EQ_INT(asked(0, 1, SHORT_MS).reply, DLK_YES);
    CHECK_EQ_INT(world_do(&w[0], DLK_RENEW, key[0], 1, NULL), DLK_YES); /* 10 s */
    world_spin(&w[0], 2 * SHORT_MS);
    CHECK_EQ_INT(waits(1), DLK_HELD);
    CHECK_EQ_INT(world_do(&w[0], DLK_VERIFY, key[0], 1, NULL), DLK_YES);
    tear_down();
}

TEST(asking_again_never_shortens_the_lease_of_a_signal)
{
    if (!set_up(NULL, NULL))
        return;
    CHECK(join(0) && join(1));
    CHECK_EQ_INT(signals(2, 1), 1);
    CHECK_EQ_INT(waits(0), DLK_YES); /* 10 s */
    CHECK_EQ_INT(asked(0, 1, SHORT_MS).reply, DLK_YES);
    world_spin(&w[0], 2 * SHORT_MS);
    CHECK_EQ_INT(waits(1), DLK_HELD);
    CHECK_EQ_INT(world_do(&w[0], DLK_VERIFY, key[0], 1, NULL), DLK_YES);
    tear_down();
}

/* ---- the dead ---- */

TEST(the_dead_are_not_signalled)
{
    if (!set_up(NULL, NULL))
        return;
    CHECK(join(0) && join(1));
    leave(0); /* without a word: its place stays */
    CHECK_EQ_INT(signals(2, 1), 1);
    CHECK_EQ_INT(waits(1), DLK_YES);
    tear_down();
}

TEST(who_is_passed_over_though_it_lives_finds_its_place_gone)
{
    if (!set_up(NULL, NULL))
        return;
    CHECK(join(0) && join(1));
    (void)redis_server_call(&server, "CLIENT KILL TYPE pubsub");
    CHECK_EQ_INT(signals(2, 1), 0); /* nobody is there to be heard of just now */
    for (int i = 0; i < 2; i++) {
        dlk_ask ask = asked(i, 1, 10000);
        CHECK_EQ_INT(ask.reply, DLK_HELD);
        CHECK(ask.new_place); /* so it wakes up */
    }
    tear_down();
}

/* Told of nothing, it looks by itself; its place lapses all the sooner when it doesn't. */
TEST(who_only_polls_is_signalled_as_well)
{
    if (!set_up("redis.wait", "poll"))
        return;
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(waits(i), DLK_HELD);
    CHECK_EQ_INT(signals(2, 1), 1);
    CHECK_EQ_INT(waits(0), DLK_YES);
    CHECK_EQ_INT(waits(1), DLK_HELD);
    tear_down();
}

static int64_t server_ms(void)
{
    char *rest;
    int64_t seconds = strtoll(redis_server_call(&server, "TIME"), &rest, 10);
    return seconds * 1000 + strtoll(rest, NULL, 10) / 1000;
}

/* When client @p i's place lapses, unless it asks for it. */
static int64_t lapses(int i)
{
    return atoll(redis_server_call(&server, "HGET C %s:1", w[i].uuid));
}

TEST(a_place_that_nobody_asks_for_lapses_and_is_kept_from_that_by_asking)
{
    if (!set_up(NULL, NULL))
        return;
    CHECK(join(0) && join(1));
    CHECK_EQ_INT(asked(0, 1, SHORT_MS).reply, DLK_HELD); /* the last that it asks */
    int64_t end = lapses(0);
    CHECK(end > 0 && lapses(1) > end);
    ROUNDS_UNTIL(&w[1], server_ms() > end);
    CHECK_EQ_INT(waits(1), DLK_HELD);
    CHECK_EQ_INT(signals(2, 1), 1);
    CHECK_EQ_INT(waits(1), DLK_YES);
    CHECK(asked(0, 1, SHORT_MS).new_place);
    tear_down();
}

/* ---- what lies there ---- */

TEST(nothing_stays_for_ever)
{
    static const char *const keys[] = {"C", "dlock_cond:{C}", "dlock_signals:{C}"};
    if (!set_up(NULL, NULL))
        return;
    CHECK(join(0) && join(1));
    CHECK_EQ_INT(signals(2, 1), 1);
    for (int i = 0; i < 3; i++) {
        int64_t left = atoll(redis_server_call(&server, "PTTL %s", keys[i]));
        CHECK(left > 0 && left <= 70000);
    }
    tear_down();
}

/* A server that evicts takes one key and leaves the others: nobody waits for ever behind that. */
TEST(whoever_may_have_lost_its_place_to_an_eviction_finds_it_gone)
{
    static const char *const keys[] = {"C", "dlock_cond:{C}", "dlock_signals:{C}"};
    for (int k = 0; k < 3; k++) {
        if (!set_up(NULL, NULL))
            return;
        CHECK(join(0) && join(1) && join(2));
        CHECK_EQ_INT(signals(2, 1), 1);
        CHECK_EQ_INT(waits(0), DLK_YES);
        CHECK_STR(redis_server_call(&server, "DEL %s", keys[k]), "1");
        for (int i = 1; i < 3; i++)
            CHECK(asked(i, 1, 10000).new_place);
        CHECK_EQ_INT(signals(0, 2), 2);
        for (int i = 1; i < 3; i++)
            CHECK_EQ_INT(waits(i), DLK_YES);
        tear_down();
        CHECK(!harness_failed());
    }
}

TEST(a_lock_and_a_condition_of_one_name_are_in_each_other_s_way)
{
    if (!set_up(NULL, NULL))
        return;
    dlk_key *lock = world_key(&w[2], "C");
    CHECK(lock);
    CHECK_EQ_INT(world_do(&w[2], DLK_ACQUIRE, lock, 7, NULL), DLK_YES);
    CHECK_EQ_INT(waits(0), DLK_REFUSED);
    CHECK_EQ_INT(w[0].code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(signals(1, 1), -1);
    CHECK_EQ_INT(w[1].code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(world_do(&w[2], DLK_RELEASE, lock, 7, NULL), DLK_YES);
    CHECK_EQ_INT(waits(0), DLK_HELD);
    CHECK_EQ_INT(world_do(&w[2], DLK_ACQUIRE, lock, 8, NULL), DLK_REFUSED);
    CHECK_EQ_INT(w[2].code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(signals(1, 1), 1); /* who is signalled has nothing to give up, either */
    const dlk_verb verbs[] = {DLK_BREAK, DLK_REVOKE};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(world_do(&w[2], verbs[i], lock, 0, NULL), DLK_REFUSED);
        CHECK_EQ_INT(w[2].code, DLOCK_ECONFLICT);
    }
    CHECK_EQ_INT(give_back(0, 1, 0), DLK_YES);
    (void)redis_server_call(&server, "SET C other");
    CHECK_EQ_INT(waits(0), DLK_REFUSED);
    CHECK_EQ_INT(w[0].code, DLOCK_ECONFLICT);
    world_forget(&w[2], lock);
    tear_down();
}

/* What an inspection of the name says of it, "" nothing; until the next call. */
static const char *seen(dlk_key *lock, const char *what)
{
    static char text[128];
    dlk_ask ask = world_make(&w[2], DLK_INSPECT, lock, 0);
    text[0] = '\0';
    world_ask(&w[2], &ask);
    if (world_await(&w[2], &ask) == DLK_YES) {
        const char *found = dlock_info_get(ask.info, what);
        snprintf(text, sizeof(text), "%s", found ? found : "");
    }
    dlk_info_free(ask.info);
    return text;
}

static const char *owner_of(int i)
{
    static char text[64];
    snprintf(text, sizeof(text), "%s:1", w[i].uuid);
    return text;
}

TEST(an_inspection_of_the_name_shows_who_waits)
{
    if (!set_up(NULL, NULL))
        return;
    dlk_key *lock = world_key(&w[2], "C");
    CHECK(lock && join(1) && join(0));
    CHECK_STR(seen(lock, "kind"), "condition");
    CHECK_STR(seen(lock, "held"), "0");
    CHECK_STR(seen(lock, "waiters"), "2");
    CHECK_STR(seen(lock, "waiting.0.owner"), owner_of(1));
    CHECK_STR(seen(lock, "waiting.1.owner"), owner_of(0));
    int64_t since = strtoll(seen(lock, "waiting.0.since"), NULL, 10);
    CHECK(since > 0 && since <= strtoll(seen(lock, "waiting.1.since"), NULL, 10));
    CHECK_EQ_INT(signals(2, 1), 1);
    CHECK_STR(seen(lock, "held"), "1");
    CHECK_STR(seen(lock, "holders.0.owner"), owner_of(1));
    CHECK_STR(seen(lock, "waiters"), "1");
    CHECK_STR(seen(lock, "waiting.0.owner"), owner_of(0));
    world_forget(&w[2], lock);
    tear_down();
}

TEST(a_server_that_forgot_the_scripts_is_told_them_again)
{
    if (!set_up(NULL, NULL))
        return;
    CHECK(join(0));
    CHECK_EQ_INT(signals(2, 1), 1);
    int64_t token = asked(0, 1, 10000).token;
    (void)redis_server_call(&server, "SCRIPT FLUSH");
    CHECK_EQ_INT(signals(2, 1), 0);
    (void)redis_server_call(&server, "SCRIPT FLUSH");
    CHECK_EQ_INT(world_do(&w[0], DLK_RENEW, key[0], 1, NULL), DLK_YES);
    (void)redis_server_call(&server, "SCRIPT FLUSH");
    CHECK_EQ_INT(give_back(0, 1, token), DLK_YES);
    CHECK(nothing_is_left());
    tear_down();
}
