/* Locks on three and five real servers, some of which are killed, wiped or frozen. */
#include "harness/api.h"
#include "harness/certificates.h"
#include "world.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static world w;

#define SET(count, query)                                                                \
    do {                                                                                 \
        if (!world_set(&w, count, query)) {                                              \
            world_clear(&w);                                                             \
            return;                                                                      \
        }                                                                                \
    } while (0)

/* Once its key lies on all nodes: one of them may be slow to be connected. */
static dlock_hold *take_everywhere(dlock_lock *lock, const char *key)
{
    int64_t end = awake_now_ms() + AWAIT_LIMIT_MS;
    while (awake_now_ms() < end) {
        dlock_hold *hold = world_take(lock, 60000);
        for (int i = 0; hold && i < 100 && world_keys(&w, key) < w.count; i++)
            nap_ms(5);
        if (!hold || world_keys(&w, key) == w.count)
            return hold;
        world_give(hold);
    }
    return NULL;
}

/* A client that has L on all nodes. */
static dlock_hold *open_and_take(dlock_client **ret_client, dlock_lock **ret_lock)
{
    *ret_client = world_open(&w);
    *ret_lock = *ret_client ? world_lock(*ret_client, "L") : NULL;
    return *ret_lock ? take_everywhere(*ret_lock, "L") : NULL;
}

static const char *owner_at(int index)
{
    return redis_server_call(&w.node[index], "GET L");
}

/* ---- addresses ---- */

static void is_refused(const char *uri, dlock_err code, const char *why)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    CHECK_ERR(dlock_client_open(uri, NULL, &client, &err), code, err);
    CHECK_CONTAINS(dlock_error_text(err), why);
    dlock_error_free(err);
}

TEST(addresses_that_make_no_majority_are_refused_with_the_reason)
{
    is_refused("redlock://a,b,c,d", DLOCK_EINVAL,
               "4 nodes bear the loss of no more than 3 do: name an odd number");
    is_refused("redlock://a,b", DLOCK_EINVAL, "3 to 15 nodes");
    is_refused("redlock://a", DLOCK_EINVAL, "3 to 15 nodes");
    is_refused("redlock://a,b,A:6379", DLOCK_EINVAL, "named twice");
    is_refused("redlock://[::1],b,[::1]:6379", DLOCK_EINVAL, "named twice");
    is_refused("redlock://a,b,c?redis.layout=redisson", DLOCK_EINVAL, "layout is string");
    is_refused("redlock://a,b,c?client.require=fencing", DLOCK_ENOTSUP,
               "can promise efficiency");
}

static void has_features(const char *query, const char *class, const char *tokens)
{
    char uri[128];
    dlock_client *client = NULL;
    dlock_info *info = NULL;
    snprintf(uri, sizeof(uri), "redlock://a,b,c?client.lazy=true&%s", query);
    CHECK_OK(dlock_client_open(uri, NULL, &client, NULL), NULL);
    CHECK_OK(dlock_client_features(client, &info, NULL), NULL);
    CHECK_STR(dlock_info_get(info, "backend"), "redlock");
    CHECK_STR(dlock_info_get(info, "layout"), "string");
    CHECK_STR(dlock_info_get(info, "class"), class);
    CHECK_STR(dlock_info_get(info, "tokens"), tokens);
    dlock_info_free(info);
    dlock_client_free(client);
}

TEST(features_say_what_fencing_adds)
{
    has_features("", "efficiency", "0");
    has_features("redlock.fencing=on", "fencing", "1");
    has_features("redlock.fencing=on&client.require=fencing", "fencing", "1");
}

/* ---- all is well ---- */

TEST(a_lock_lies_on_every_node_and_is_given_back_on_every_node)
{
    SET(5, "");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = lock ? take_everywhere(lock, "L") : NULL;
    CHECK(hold);
    CHECK_EQ_INT(dlock_hold_token(hold), 0);
    for (int i = 0; i < 5; i++)
        CHECK_STR(owner_at(i), dlock_hold_owner(hold));
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    CHECK(api_stat(client, "commands") >= 5 && api_stat(client, "bytes_sent") > 0 &&
          api_stat(client, "bytes_received") > 0);
    world_give(hold);
    AWAIT(world_keys(&w, "L") == 0);
    for (int i = 0; i < 5; i++) /* but for the client's own key */
        CHECK_STR(redis_server_call(&w.node[i], "KEYS [^d]*"), "");
    CHECK_OK(dlock_client_close(client, NULL), NULL);
    for (int i = 0; i < 5; i++)
        AWAIT(redis_server_call(&w.node[i], "KEYS *")[0] == '\0');
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

TEST(a_client_s_own_key_on_a_node_is_no_lock)
{
    SET(3, "?client.prefix=dlock_");
    char name[64];
    DLOCK_AUTO(dlock_info) list = NULL;
    DLOCK_AUTO(dlock_lock) none = NULL;
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = lock ? take_everywhere(lock, "dlock_L") : NULL;
    CHECK(hold);
    snprintf(name, sizeof(name), "dlock_client:%.18s", dlock_hold_owner(hold));
    CHECK_EQ_INT(world_keys(&w, name), 3);
    CHECK_EQ_INT(dlock_client_list(client, "", 10, &list, NULL), DLOCK_OK);
    CHECK_STR(dlock_info_get(list, "locks.0.name"), "dlock_L");
    CHECK(!dlock_info_get(list, "locks.1.name"));
    CHECK_EQ_INT(
        dlock_lock_new(client, DLOCK_MUTEX, name + strlen("dlock_"), NULL, &none, NULL),
        DLOCK_EINVAL);
    world_give(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

TEST(a_free_lock_is_asked_for_without_a_script)
{
    SET(3, "");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = lock ? take_everywhere(lock, "L") : NULL;
    CHECK(hold);
    world_give(hold);
    AWAIT(world_keys(&w, "L") == 0);
    for (int i = 0; i < 3;
         i++) /* where its rights were asked for, and the release was one */
        CHECK_STR(redis_server_call(&w.node[i], "CONFIG RESETSTAT"), "OK");
    hold = world_take(lock, 60000);
    CHECK(hold);
    AWAIT(world_keys(&w, "L") == 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(world_calls(&w, i, "evalsha") + world_calls(&w, i, "eval"), 0);
    world_give(hold);
    AWAIT(world_keys(&w, "L") == 0);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

TEST(who_is_refused_by_most_nodes_leaves_nothing_on_the_others)
{
    SET(5, "");
    for (int i = 0; i < 3; i++)
        CHECK_STR(redis_server_call(&w.node[i], "SET L theirs"), "OK");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK(lock);
    dlock_err code;
    AWAIT((code = dlock_lock_acquire(lock, 0, &hold, &err)) != DLOCK_EQUORUM);
    CHECK_ERR(code, DLOCK_EBUSY, err);
    dlock_error_free(err);
    AWAIT(world_keys(&w, "L") == 3);
    for (int i = 0; i < 3; i++)
        CHECK_STR(owner_at(i), "theirs");
    CHECK_EQ_INT(atoi(redis_server_call(&w.node[0], "DEL L")), 1);
    hold = world_take(lock, 60000); /* now it is most of them */
    CHECK(hold);
    world_give(hold);
    AWAIT(world_keys(&w, "L") == 2);
    CHECK_STR(owner_at(1), "theirs");
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

/* ---- some nodes fail ---- */

TEST(two_of_five_killed_are_not_missed)
{
    SET(5, "");
    redis_server_kill(&w.node[1]);
    redis_server_kill(&w.node[4]);
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    CHECK(lock);
    for (int i = 0; i < 20; i++) {
        dlock_hold *hold = world_take(lock, 60000);
        CHECK(hold);
        world_give(hold);
    }
    AWAIT(world_keys(&w, "L") == 0);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

TEST(two_of_five_frozen_are_not_waited_for_and_keep_nothing_when_they_go_on)
{
    SET(5, "?lock.ttl_ms=600000&client.timeout_ms=60000");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    CHECK(lock);
    server_freeze(w.node[0].pid);
    server_freeze(w.node[3].pid);
    int64_t began = awake_now_ms();
    for (int i = 0; i < 20; i++) {
        dlock_hold *hold = world_take(lock, 60000);
        CHECK(hold);
        world_give(hold);
    }
    CHECK(awake_now_ms() - began <
          60000); /* one of them alone would have taken so long */
    server_thaw(w.node[0].pid);
    server_thaw(w.node[3].pid);
    AWAIT(world_keys(&w, "L") == 0);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

/* One that takes connections and says nothing isn't known to be away. */
TEST(only_nodes_that_failed_are_counted_as_away)
{
    SET(3, "");
    char uri[192];
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    snprintf(uri, sizeof(uri),
             "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:%d?client.connect_ms=60000",
             w.node[2].port);
    server_freeze(w.node[2].pid);
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    server_thaw(w.node[2].pid);
    CHECK_ERR(code, DLOCK_EQUORUM, err);
    CHECK_CONTAINS(dlock_error_text(err),
                   "redlock: 2 of 3 nodes can't be used, 2 are needed");
    CHECK_CONTAINS(dlock_error_text(err), ": not connected yet)");
    dlock_error_free(err);
    world_clear(&w);
}

/* What the nodes said that were asked counts, whatever it was. */
TEST(a_break_that_too_few_answer_says_how_many_did)
{
    SET(3, "");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_error *err = NULL;
    CHECK(lock);
    for (int i = 0; i < 2; i++)
        CHECK_STR(redis_server_call(&w.node[i], "HSET L not ours"), "1");
    CHECK_ERR(dlock_lock_break(lock, NULL, &err), DLOCK_EQUORUM, err);
    CHECK_CONTAINS(dlock_error_text(err), "redlock: 1 of 3 nodes could say whose it is");
    CHECK_CONTAINS(dlock_error_text(err), "not ours)");
    dlock_error_free(err);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

TEST(a_majority_that_is_down_is_EQUORUM_and_says_the_state_of_each_node)
{
    SET(3, "?client.timeout_ms=20000");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    char part[64];
    CHECK(lock);
    redis_server_kill(&w.node[0]);
    redis_server_kill(&w.node[2]);
    dlock_err code = dlock_lock_acquire(lock, 0, &hold, &err);
    /* Its request may have been under way when the second one died. */
    for (int i = 0; i < 100 && code == DLOCK_EUNKNOWN; i++)
        code = dlock_lock_acquire(lock, 0, &hold, &err);
    CHECK_ERR(code, DLOCK_EQUORUM, err);
    CHECK(dlock_error_retriable(err));
    CHECK_CONTAINS(dlock_error_text(err), "of 3 nodes");
    CHECK_CONTAINS(dlock_error_text(err), "2 are needed");
    for (int i = 0; i < 3; i++) {
        snprintf(part, sizeof(part), "127.0.0.1:%d: ", w.node[i].port);
        CHECK_CONTAINS(dlock_error_text(err), part);
    }
    CHECK_ERR(dlock_lock_acquire(lock, 300, &hold, &err), DLOCK_EQUORUM, err);
    AWAIT(strcmp(owner_at(1), "(nil)") == 0);
    CHECK(redis_server_restart(&w.node[0])); /* and with one of them back it goes on */
    hold = world_take(lock, 60000);
    CHECK(hold);
    world_give(hold);
    dlock_error_free(err);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

TEST(a_client_is_not_opened_without_a_majority)
{
    SET(3, "");
    redis_server_kill(&w.node[0]);
    redis_server_kill(&w.node[1]);
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    CHECK_ERR(dlock_client_open(w.uri, NULL, &client, &err), DLOCK_EQUORUM, err);
    CHECK_CONTAINS(dlock_error_text(err), "Connection refused");
    dlock_error_free(err);
    world_clear(&w);
}

/* What they answer later counts for nothing, and what they did is undone. */
TEST(nodes_that_answer_after_the_deadline_grant_nothing_and_keep_nothing)
{
    SET(5, "?lock.ttl_ms=600000&client.timeout_ms=400");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK(lock);
    for (int i = 0; i < 3; i++)
        server_freeze(w.node[i].pid);
    CHECK_ERR(dlock_lock_acquire(lock, 0, &hold, &err), DLOCK_EQUORUM, err);
    CHECK(!hold);
    CHECK_CONTAINS(dlock_error_text(err), "did not answer in time");
    for (int i = 0; i < 3; i++)
        server_thaw(w.node[i].pid);
    AWAIT(world_keys(&w, "L") == 0);
    dlock_error_free(err);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

/* Each round is told anew why that node can't be asked. Sanitizers have memory of their own, and look
 * for leaks themselves. */
TEST(a_node_that_is_down_costs_no_memory_with_each_acquire)
{
    enum { WARM = 50, TIMES = 300 };
    size_t before = 0;
    SET(3, "");
    redis_server_kill(&w.node[2]);
    DLOCK_AUTO(dlock_client) client = world_open(&w);
    DLOCK_AUTO(dlock_lock) lock = client ? world_lock(client, "L") : NULL;
    CHECK(lock);
    for (int i = 0; i < WARM + TIMES; i++) {
        if (i == WARM)
            before = mallinfo2().uordblks;
        dlock_hold *hold = world_take(lock, 60000);
        CHECK(hold);
        world_give(hold);
    }
    CHECK(mallinfo2().uordblks < before + TIMES * 50);
    world_clear(&w);
}

/* ---- while it is held ---- */

/* Of so many frozen nodes the first. */
static void freeze(int count)
{
    for (int i = 0; i < count; i++)
        server_freeze(w.node[i].pid);
}

static void thaw(int count)
{
    for (int i = 0; i < count; i++)
        server_thaw(w.node[i].pid);
}

TEST(a_client_that_closes_says_whether_a_majority_has_given_back_what_it_gave_up)
{
    static const struct {
        int frozen;
        bool back; /* and gone on before it closes */
        const char *query;
        dlock_err closes;
    } cases[] = {
        {5, false, "?client.timeout_ms=500&client.close_ms=300", DLOCK_EUNKNOWN},
        {3, false, "?client.timeout_ms=500&client.close_ms=300", DLOCK_EUNKNOWN},
        {5, true, "?client.timeout_ms=500&client.close_ms=60000", DLOCK_OK},
        {2, false, "?client.timeout_ms=2000&client.close_ms=60000", DLOCK_OK},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        SET(5, cases[i].query);
        harness_note("%d frozen%s", cases[i].frozen, cases[i].back ? " for a while" : "");
        DLOCK_AUTO(dlock_error) err = NULL;
        DLOCK_AUTO(dlock_client) client = world_open(&w);
        DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__);
        DLOCK_AUTO(dlock_hold) hold = NULL;
        freeze(cases[i].frozen);
        dlock_err code = dlock_lock_acquire(lock, 0, &hold, NULL);
        CHECK_EQ_INT(code == DLOCK_OK, cases[i].frozen == 2);
        if (cases[i].back)
            thaw(cases[i].frozen);
        CHECK_ERR(dlock_client_close(client, &err), cases[i].closes, err);
        thaw(cases[i].frozen);
        world_clear(&w);
    }
}

/* A connection that ends with something unanswered is reset, and what the node hasn't read is gone. */
TEST(a_client_that_closes_waits_for_nodes_that_have_yet_to_give_back)
{
    SET(5, "?lock.ttl_ms=600000&client.timeout_ms=60000&client.close_ms=60000");
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    dlock_hold *hold = open_and_take(&client, &lock);
    CHECK(hold);
    freeze(2);
    world_give(hold);
    DLOCK_AUTO(dlock_op) op = dlock_client_close_start(client);
    CHECK_EQ_INT(dlock_op_wait(op, 200), DLOCK_EPENDING);
    thaw(2);
    CHECK_OK(dlock_op_wait(op, patience_ms()), NULL);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    AWAIT(world_keys(&w, "L") == 0);
    world_clear(&w);
}

/* Nor does it go without a node whose connection has broken over that, and can be had again. */
TEST(a_client_that_closes_gives_back_over_another_connection)
{
    SET(5, "?lock.ttl_ms=600000&client.timeout_ms=300&client.connect_ms=60000&client."
           "close_ms=60000");
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    dlock_hold *hold = open_and_take(&client, &lock);
    CHECK(hold);
    freeze(2);
    world_give(hold);
    int64_t before = api_stat(client, "reconnects");
    DLOCK_AUTO(dlock_op) op = dlock_client_close_start(client);
    CHECK_EQ_INT(dlock_op_wait(op, 1000), DLOCK_EPENDING); /* the release had 300 */
    thaw(2);
    CHECK_OK(dlock_op_wait(op, patience_ms()), NULL);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    CHECK(api_stat(client, "reconnects") > before);
    AWAIT(world_keys(&w, "L") == 0);
    world_clear(&w);
}

/* One that is gone isn't waited for. */
TEST(a_client_that_closes_waits_for_no_node_that_is_gone)
{
    SET(5, "?lock.ttl_ms=600000&client.close_ms=60000");
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    dlock_hold *hold = open_and_take(&client, &lock);
    CHECK(hold);
    redis_server_stop(&w.node[2]);
    world_give(hold);
    CHECK_OK(dlock_client_close(client, NULL), NULL);
    AWAIT(world_keys(&w, "L") == 0);
    world_clear(&w);
}

TEST(a_held_lock_is_put_back_where_nodes_have_forgotten_it)
{
    SET(5, "?lock.ttl_ms=9000");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = lock ? take_everywhere(lock, "L") : NULL;
    CHECK(hold);
    CHECK_STR(redis_server_call(&w.node[2], "FLUSHALL"), "OK");
    CHECK(redis_server_restart(&w.node[4])); /* with nothing, nor any script */
    AWAIT(world_keys(&w, "L") == 5);
    CHECK_STR(owner_at(2), dlock_hold_owner(hold));
    CHECK_STR(owner_at(4), dlock_hold_owner(hold));
    CHECK_OK(dlock_hold_check(hold), NULL);
    world_give(hold);
    AWAIT(world_keys(&w, "L") == 0);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

TEST(what_a_minority_still_has_is_lost_and_given_back)
{
    SET(5, "?lock.ttl_ms=600000");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = lock ? take_everywhere(lock, "L") : NULL;
    CHECK(hold);
    for (int i = 0; i < 3; i++)
        CHECK_STR(redis_server_call(&w.node[i], "FLUSHALL"), "OK");
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_LOST);
    AWAIT(world_keys(&w, "L") == 0);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    dlock_hold_free(hold);
    hold = world_take(lock, 60000);
    CHECK(hold);
    world_give(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

/* ---- fencing ---- */

TEST(tokens_rise_though_any_two_nodes_forget_them_in_between)
{
    SET(5, "?redlock.fencing=on&client.require=fencing");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    int64_t last = 0;
    CHECK(lock);
    for (int round = 0; round < 10; round++) {
        dlock_hold *hold = world_take(lock, 60000);
        CHECK(hold);
        CHECK_ALWAYS(dlock_hold_token(hold) > last);
        last = dlock_hold_token(hold);
        world_give(hold);
        for (int i = 0; i < 2; i++)
            CHECK_STR(redis_server_call(&w.node[(round + 2 * i) % 5], "FLUSHALL"), "OK");
    }
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

TEST(a_token_goes_beyond_what_any_of_the_majority_knows_and_is_written_to_most)
{
    const char counter[] = "redisson_lock_token:{L}", high[] = "9000000000000000";
    SET(3, "?redlock.fencing=on");
    redis_server_kill(&w.node[2]); /* so both of the others are needed */
    CHECK_STR(redis_server_call(&w.node[1], "SET %s %s", counter, high), "OK");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = lock ? world_take(lock, 60000) : NULL;
    CHECK(hold);
    CHECK_EQ_INT(dlock_hold_token(hold), atoll(high) + 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(atoll(redis_server_call(&w.node[i], "GET %s", counter)),
                     dlock_hold_token(hold));
    /* … as its own, which ends after the token, by whichever clock that was made; what had no end has
     * none. */
    CHECK(atoll(redis_server_call(&w.node[0], "PEXPIRETIME %s", counter)) >
          dlock_hold_token(hold) / 1000);
    CHECK_STR(redis_server_call(&w.node[1], "PTTL %s", counter), "-1");
    world_give(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

/* An acquire and a release are two scripts on each node; a second round is a third one. */
TEST(one_round_is_enough_where_the_nodes_know_the_name)
{
    enum { PAIRS = 40, LEAST = 2 * NODES * PAIRS };
    SET(NODES, "?redlock.fencing=on");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    int64_t last = 0, scripts = 0;
    CHECK(lock);
    for (int i = 0; i < PAIRS; i++) {
        dlock_hold *hold = world_take(lock, 60000);
        CHECK(hold);
        CHECK_ALWAYS(dlock_hold_token(hold) > last);
        last = dlock_hold_token(hold);
        world_give(hold);
    }
    AWAIT(world_keys(&w, "L") == 0);
    for (int i = 0; i < NODES; i++)
        scripts += world_calls(&w, i, "evalsha");
    CHECK(scripts < LEAST + LEAST / 4);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

/* ---- asking about it ---- */

/* Also as dlock ls asks for it, and where a client of one node alone tells what it has there. */
static void list_goes_by_the_majority(dlock_client *client)
{
    DLOCK_AUTO(dlock_info) list = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_client_list(client, "", 10, &list, &err), err);
    CHECK_STR(dlock_info_get(list, "locks.0.name"), "p:L");
    CHECK(!dlock_info_get(list, "locks.1.name"));
}

TEST(inspect_list_and_break_go_by_the_majority)
{
    SET(3, "?client.prefix=p:&redis.list=clients");
    dlock_client *client = world_open(&w);
    dlock_lock *lock = client ? world_lock(client, "L") : NULL;
    dlock_hold *hold = lock ? take_everywhere(lock, "p:L") : NULL;
    dlock_info *info = NULL;
    CHECK(hold);
    CHECK_STR(redis_server_call(&w.node[0], "SET p:M stray PX 60000"), "OK");
    redis_server_kill(&w.node[2]);
    dlock_error *err = NULL;
    CHECK_OK(dlock_lock_inspect(lock, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "held"), "1");
    CHECK_STR(dlock_info_get(info, "holders.0.owner"), dlock_hold_owner(hold));
    CHECK(atoll(dlock_info_get(info, "holders.0.remaining_ms")) > 0);
    char peer[64];
    snprintf(peer, sizeof(peer), "127.0.0.1:%d", w.node[1].port);
    CHECK_STR(dlock_info_get(info, "nodes.1.peer"), peer);
    CHECK_STR(dlock_info_get(info, "nodes.1.state"), "held");
    CHECK_STR(dlock_info_get(info, "nodes.2.state"), "no answer");
    dlock_info_free(info);
    info = NULL;
    list_goes_by_the_majority(client);
    CHECK_EQ_INT(dlock_lock_break(lock, "somebody", NULL), DLOCK_ENOTHELD);
    CHECK_OK(dlock_lock_break(lock, dlock_hold_owner(hold), &err), err);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
}

static bool finds(const dlock_info *info, const char *id, const char *part)
{
    char key[64];
    for (int i = 0;; i++) {
        snprintf(key, sizeof(key), "findings.%d.id", i);
        const char *found = dlock_info_get(info, key);
        if (!found)
            return false;
        snprintf(key, sizeof(key), "findings.%d.text", i);
        if (strcmp(found, id) == 0 && strstr(dlock_info_get(info, key), part))
            return true;
    }
}

/* Whether the doctor finds that; a node that is slow to be connected isn't examined. */
static bool examines(dlock_client *client, dlock_info **info, const char *id)
{
    dlock_info_free(*info);
    *info = NULL;
    return dlock_client_doctor(client, info, NULL) == DLOCK_OK && finds(*info, id, "");
}

TEST(the_doctor_names_a_node_that_is_down_and_one_that_counts_twice)
{
    char uri[256], place[64];
    dlock_client *client = NULL;
    dlock_info *info = NULL;
    SET(3, "");
    snprintf(uri, sizeof(uri), "redlock://127.0.0.1:%d,127.0.0.1:%d,localhost:%d",
             w.node[0].port, w.node[1].port, w.node[0].port);
    CHECK_OK(dlock_client_open(uri, NULL, &client, NULL), NULL);
    AWAIT(examines(client, &info, "twins"));
    CHECK(finds(info, "twins", "one server"));
    CHECK_STR(dlock_info_get(info, "verdict"), "2");
    dlock_info_free(info);
    dlock_client_free(client);
    redis_server_kill(&w.node[2]);
    client = world_open(&w);
    CHECK(client);
    CHECK_OK(dlock_client_doctor(client, &info, NULL), NULL);
    snprintf(place, sizeof(place), "127.0.0.1:%d", w.node[2].port);
    CHECK(finds(info, "node", place));
    CHECK(finds(info, "fencing", "off"));
    CHECK(!finds(info, "twins", ""));
    dlock_info_free(info);
    dlock_client_free(client);
    world_clear(&w);
}

/* ---- TLS ---- */

TEST(redlocks_checks_the_certificate_of_each_node)
{
    certificates made;
    char uri[512];
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    size_t used = (size_t)snprintf(uri, sizeof(uri), "redlocks://");
    if (dlock_client_open("redlocks://a,b,c?client.lazy=true", NULL, &client, NULL) ==
        DLOCK_ENOTSUP)
        LEAVE_OUT("a build without TLS");
    dlock_client_free(client);
    client = NULL;
    if (!redis_server_available() || !certificates_make(&made))
        return;
    for (w.count = 0; w.count < 3; w.count++) {
        CHECK(redis_server_start_tls(&w.node[w.count], made.dir, NULL));
        used += (size_t)snprintf(uri + used, sizeof(uri) - used, "%slocalhost:%d",
                                 w.count ? "," : "", w.node[w.count].tls_port);
    }
    /* Who vouches for them isn't known to the system. */
    CHECK_ERR(dlock_client_open(uri, NULL, &client, &err), DLOCK_EACCES, err);
    dlock_error_free(err);
    snprintf(uri + used, sizeof(uri) - used, "?tls.ca_file=%s",
             certificates_path(&made, "ca.pem"));
    CHECK_OK(dlock_client_open(uri, NULL, &client, NULL), NULL);
    dlock_lock *lock = world_lock(client, "L");
    dlock_hold *hold = lock ? world_take(lock, 60000) : NULL;
    CHECK(hold);
    world_give(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    world_clear(&w);
    certificates_remove(&made);
}
