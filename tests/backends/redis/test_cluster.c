/* A Redis Cluster, through the public API: which node has what, slots that move under holders and
 * waiters, masters that die, and how a release is heard of. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/redis_topology.h"

#include <dlock/dlock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A wait that is to be served, and nothing but a dead machine keeps it from that. */
#define PATIENCE_MS 120000
#define SETTINGS    "lock.ttl_ms=60000&client.backoff_max_ms=200&client.timeout_ms=20000"
/* So late would a waiter look that hears of nothing. */
#define DEAF "client.poll_ms=60000"

static redis_cluster cluster;

/* Made by the first test that needs it; each leaves it whole. */
static bool have_cluster(void)
{
    static bool made;
    if (!redis_server_available())
        return false;
    if (!made)
        made = redis_cluster_start(&cluster, 3, 0, 0, NULL);
    return made;
}

__attribute__((destructor)) static void tidy(void)
{
    redis_cluster_stop(&cluster);
}

static dlock_err open_code(const char *uri, const char *query, dlock_client **ret,
                           dlock_error **err)
{
    char text[512];
    snprintf(text, sizeof(text), "%s?" SETTINGS "&client.connect_ms=30000%s%s", uri,
             query ? "&" : "", query ? query : "");
    return dlock_client_open(text, NULL, ret, err);
}

static dlock_client *open_with(const char *query)
{
    return api_open("%s?" SETTINGS "&client.connect_ms=30000%s%s", cluster.uri,
                    query ? "&" : "", query ? query : "");
}

static dlock_lock *lock_of(dlock_client *client, dlock_kind kind, const char *name)
{
    return api_lock(client, kind, name,
                    kind == DLOCK_SEMAPHORE ? "lock.permits=1" : NULL);
}

static int64_t seen(dlock_lock *lock, const char *key)
{
    dlock_info *info = NULL;
    if (dlock_lock_inspect(lock, &info, NULL) != DLOCK_OK)
        return -1;
    const char *text = dlock_info_get(info, key);
    int64_t number = text ? strtoll(text, NULL, 10) : -1;
    dlock_info_free(info);
    return number;
}

/* On which node is it, and which of them has its slot? */
static int node_with(const char *name)
{
    for (int i = 0; i < cluster.count; i++)
        if (strcmp(redis_server_call(&cluster.node[i], "EXISTS %s", name), "1") == 0)
            return i;
    return -1;
}

static int owner_of(const char *name)
{
    return redis_cluster_owner(&cluster, 0, redis_cluster_slot(&cluster, name));
}

TEST(each_name_is_locked_on_the_node_that_has_its_slot)
{
    if (!have_cluster())
        return;
    DLOCK_AUTO(dlock_client) client = open_with(NULL);
    CHECK(client);
    int on[3] = {0};
    for (int i = 0; i < 30; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        char name[32];
        snprintf(name, sizeof(name), i % 3 ? "spread-%d" : "tag{%d}", i);
        CHECK_OK(dlock_acquire(client, name, PATIENCE_MS, &hold, &err), err);
        CHECK_EQ_INT(node_with(name), owner_of(name));
        on[owner_of(name)]++;
        CHECK_OK(dlock_hold_release(hold, &err), err);
    }
    CHECK(on[0] > 0 && on[1] > 0 && on[2] > 0);
}

TEST(one_seed_is_enough_and_dead_ones_are_passed_over)
{
    if (!have_cluster())
        return;
    char uri[128];
    snprintf(uri, sizeof(uri), "redis+cluster://127.0.0.1:1,127.0.0.1:%d",
             cluster.node[2].port);
    dlock_client *client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(open_code(uri, NULL, &client, &err), err);
    for (int i = 0; i < 9; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        char name[32];
        snprintf(name, sizeof(name), "seed-%d", i);
        CHECK_OK(dlock_acquire(client, name, 0, &hold, &err), err);
    }
    dlock_client_free(client);
}

/* It is there without the one that accepts and says nothing, long before that one is given up; but slower
 * ones have a second. */
TEST(who_opens_waits_a_moment_for_a_node_that_is_silent_and_no_longer)
{
    if (!have_cluster())
        return;
    char uri[128];
    snprintf(uri, sizeof(uri), "redis+cluster://127.0.0.1:%d", cluster.node[0].port);
    dlock_client *client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    server_freeze(cluster.node[2].pid);
    int64_t begun = now_ms();
    CHECK_OK(open_code(uri, NULL, &client, &err), err);
    CHECK(now_ms() - begun >= 990);
    server_thaw(cluster.node[2].pid);
    dlock_client_free(client);
}

TEST(every_kind_excludes_and_its_release_wakes_the_next)
{
    if (!have_cluster())
        return;
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_WRITE, DLOCK_SEMAPHORE,
                                       DLOCK_ELECTION};
    DLOCK_AUTO(dlock_client) one = open_with(DEAF);
    DLOCK_AUTO(dlock_client) two = open_with(DEAF);
    CHECK(one && two);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "kind-%zu", i);
        DLOCK_AUTO(dlock_lock) first = lock_of(one, kinds[i], name);
        DLOCK_AUTO(dlock_lock) second = lock_of(two, kinds[i], name);
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_hold) next = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK(first && second);
        CHECK_OK(dlock_lock_acquire(first, PATIENCE_MS, &hold, &err), err);
        CHECK_ERR(dlock_lock_acquire(second, 0, &next, &err), DLOCK_EBUSY, err);
        DLOCK_AUTO(dlock_op) wait = dlock_lock_acquire_start(second, PATIENCE_MS);
        CHECK_EQ_INT(dlock_op_wait(wait, 100), DLOCK_EPENDING);
        CHECK_OK(dlock_hold_release(hold, &err), err);
        CHECK_OK(dlock_op_wait(wait, 50000), NULL); /* before it would look by itself */
        CHECK_OK(dlock_op_result(wait), dlock_op_error(wait));
    }
}

TEST(a_fair_lock_keeps_its_line)
{
    if (!have_cluster())
        return;
    DLOCK_AUTO(dlock_client) holder = open_with("lock.fair=true&" DEAF);
    DLOCK_AUTO(dlock_client) one = open_with("lock.fair=true&" DEAF);
    DLOCK_AUTO(dlock_client) two = open_with("lock.fair=true&" DEAF);
    CHECK(holder && one && two);
    DLOCK_AUTO(dlock_lock) held = lock_of(holder, DLOCK_MUTEX, "line");
    DLOCK_AUTO(dlock_lock) first = lock_of(one, DLOCK_MUTEX, "line");
    DLOCK_AUTO(dlock_lock) second = lock_of(two, DLOCK_MUTEX, "line");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_lock_acquire(held, PATIENCE_MS, &hold, NULL), NULL);
    DLOCK_AUTO(dlock_op) wait = dlock_lock_acquire_start(first, PATIENCE_MS);
    CHECK(TOPOLOGY_AWAIT(seen(held, "waiters") == 1));
    DLOCK_AUTO(dlock_op) behind = dlock_lock_acquire_start(second, PATIENCE_MS);
    CHECK(TOPOLOGY_AWAIT(seen(held, "waiters") == 2));
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_OK(dlock_op_wait(wait, 50000), NULL);
    CHECK_OK(dlock_op_result(wait), dlock_op_error(wait));
    CHECK_EQ_INT(dlock_op_wait(behind, 0), DLOCK_EPENDING);
    dlock_hold_free(dlock_op_take_hold(wait));
    CHECK_OK(dlock_op_wait(behind, 50000), NULL);
    CHECK_OK(dlock_op_result(behind), dlock_op_error(behind));
}

TEST(names_whose_keys_would_be_apart_are_refused_with_the_reason)
{
    if (!have_cluster())
        return;
    static const char *const refused[] = {"a{b", "x{}y", "t}x", "}{", "{}"};
    static const char *const fine[] = {"plain", "{tag}", "x{tag}y", "a}b{c}", "{a}{"};
    DLOCK_AUTO(dlock_client) client = open_with(NULL);
    CHECK(client);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_ERR(dlock_acquire(client, refused[i], 0, &hold, &err), DLOCK_EINVAL, err);
        CHECK_CONTAINS(dlock_error_text(err), "hash tag");
    }
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_OK(dlock_acquire(client, fine[i], PATIENCE_MS, &hold, &err), err);
        CHECK_OK(dlock_hold_release(hold, &err), err);
    }
}

TEST(what_a_cluster_does_not_have_is_refused_at_the_opening)
{
    dlock_client *client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(open_code("redis+cluster://127.0.0.1", "redis.db=1", &client, &err),
              DLOCK_EINVAL, err);
    CHECK_ERR(open_code("redis+cluster://127.0.0.1/3", NULL, &client, &err), DLOCK_EINVAL,
              err);
    CHECK_ERR(
        open_code("redis+cluster://127.0.0.1", "client.require=fencing", &client, &err),
        DLOCK_ENOTSUP, err);
}

TEST(a_single_server_is_no_cluster)
{
    if (!redis_server_available())
        return;
    redis_server single;
    CHECK(redis_server_start(&single, NULL));
    char uri[64];
    snprintf(uri, sizeof(uri), "redis+cluster://127.0.0.1:%d", single.port);
    dlock_client *client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err code = open_code(uri, NULL, &client, &err);
    redis_server_stop(&single);
    CHECK_ERR(code, DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "no node of a cluster");
}

/* It counts the connections of its bus, and says so. */
TEST(a_node_with_too_many_clients_is_told_as_that)
{
    if (!have_cluster())
        return;
    char uri[64], maximum[32];
    dlock_client *client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    redis_server *node = &cluster.node[0];
    snprintf(maximum, sizeof(maximum), "%s",
             redis_server_call(node, "CONFIG GET maxclients"));
    CHECK_STR(redis_server_call(node, "CONFIG SET maxclients 1"), "OK");
    snprintf(uri, sizeof(uri), "redis+cluster://127.0.0.1:%d", node->port);
    dlock_err code = open_code(uri, "client.connect_ms=20000", &client, &err);
    CHECK_STR(redis_server_call(node, "CONFIG SET %s", maximum), "OK");
    CHECK_ERR(code, DLOCK_EUNAVAIL, err);
    CHECK_CONTAINS(dlock_error_backend(err), "max number of clients");
}

TEST(lists_and_examinations_are_those_of_all_nodes)
{
    if (!have_cluster())
        return;
    DLOCK_AUTO(dlock_client) client = open_with(NULL);
    dlock_hold *holds[9] = {0};
    CHECK(client);
    for (int i = 0; i < 9; i++) {
        char name[32];
        snprintf(name, sizeof(name), "listed-%d", i);
        CHECK_OK(dlock_acquire(client, name, PATIENCE_MS, &holds[i], NULL), NULL);
    }
    DLOCK_AUTO(dlock_info) list = NULL;
    DLOCK_AUTO(dlock_info) few = NULL;
    DLOCK_AUTO(dlock_info) health = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_client_list(client, "listed-", 100, &list, &err), err);
    CHECK_STR(dlock_info_get(list, "locks.0.name"), "listed-0");
    CHECK_STR(dlock_info_get(list, "locks.8.name"), "listed-8");
    CHECK(dlock_info_get(list, "locks.8.remaining_ms"));
    CHECK_OK(dlock_client_list(client, "listed-", 4, &few, &err), err);
    CHECK_STR(dlock_info_get(few, "locks.3.name"), "listed-3");
    CHECK_STR(dlock_info_get(few, "locks.4.name"), NULL);
    CHECK_OK(dlock_client_doctor(client, &health, &err), err);
    CHECK_STR(dlock_info_get(health, "findings.0.id"), "cluster");
    for (int i = 0; i < 3; i++) {
        char place[32];
        snprintf(place, sizeof(place), "127.0.0.1:%d: ", cluster.node[i].port);
        CHECK_CONTAINS(dlock_info_json(health), place);
    }
    for (int i = 0; i < 9; i++)
        dlock_hold_free(holds[i]);
}

static const char *said(dlock_info *info, const char *list, int number, const char *what)
{
    char key[64];
    snprintf(key, sizeof(key), "%s.%d.%s", list, number, what);
    const char *text = dlock_info_get(info, key);
    return text ? text : "";
}

/* How many keys there are that lead this one's owners back to a process. */
static int count_client_keys(const char *uuid)
{
    int count = 0;
    for (int i = 0; i < cluster.count; i++)
        count += atoi(redis_server_call(
            &cluster.node[i], "EVAL \"return #redis.call('keys', 'dlock_client:*%s')\" 0",
            uuid));
    return count;
}

TEST(owners_are_led_back_to_their_processes_on_every_node)
{
    enum { LOCKS = 9 };
    if (!have_cluster())
        return;
    char uuid[40] = "";
    DLOCK_AUTO(dlock_client) client = open_with("client.name=who");
    DLOCK_AUTO(dlock_client) other = open_with("client.name=looker");
    dlock_hold *holds[LOCKS] = {0};
    bool on[3] = {false};
    CHECK(client && other);
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        DLOCK_AUTO(dlock_info) info = NULL;
        snprintf(name, sizeof(name), "owned-%d", i);
        CHECK_OK(dlock_acquire(client, name, PATIENCE_MS, &holds[i], NULL), NULL);
        on[owner_of(name)] = true;
        snprintf(uuid, sizeof(uuid), "%.18s", dlock_hold_owner(holds[i]));
        DLOCK_AUTO(dlock_lock) lock = lock_of(other, DLOCK_MUTEX, name);
        CHECK_OK(dlock_lock_inspect(lock, &info, NULL), NULL);
        CHECK_STR(said(info, "holders", 0, "client"), "who");
        CHECK_EQ_INT(atoll(said(info, "holders", 0, "pid")), getpid());
    }
    CHECK(on[0] && on[1] && on[2]);
    CHECK_EQ_INT(count_client_keys(uuid), 3); /* one a node, where its first slot is */
    DLOCK_AUTO(dlock_info) list = NULL;
    CHECK_OK(dlock_client_list(other, "owned-", 100, &list, NULL), NULL);
    for (int i = 0; i < LOCKS; i++) {
        CHECK_STR(said(list, "locks", i, "client"), "who");
        CHECK_EQ_INT(atoll(said(list, "locks", i, "pid")), getpid());
        CHECK(said(list, "locks", i, "host")[0]);
    }
    for (int i = 0; i < LOCKS; i++) {
        CHECK_EQ_INT(dlock_hold_release(holds[i], NULL), DLOCK_OK);
        dlock_hold_free(holds[i]);
    }
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    AWAIT(count_client_keys(uuid) == 0);
}

/* ---- How a release is heard of ---- */

/* Somebody else holds a lock, in Redisson's layout, and releases it with this command. */
static void wakes(const char *query, const char *publish)
{
    DLOCK_AUTO(dlock_client) client = open_with(query);
    CHECK(client);
    char name[32];
    snprintf(name, sizeof(name), "told-%.7s", publish);
    DLOCK_AUTO(dlock_lock) lock = lock_of(client, DLOCK_MUTEX, name);
    redis_server *node = &cluster.node[owner_of(name)];
    redis_server_call(node, "HSET %s them:1 1", name);
    redis_server_call(node, "PEXPIRE %s 3600000", name);
    DLOCK_AUTO(dlock_op) wait = dlock_lock_acquire_start(lock, PATIENCE_MS);
    /* Heard by us, also when they were faster than our subscription: then we look again. */
    CHECK(TOPOLOGY_AWAIT(
        strstr(redis_server_call(node, "PUBSUB %s redisson_lock__channel:{%s}",
                                 publish[0] == 'S' ? "SHARDNUMSUB" : "NUMSUB", name),
               "} 1")));
    redis_server_call(node, "DEL %s", name);
    redis_server_call(node, "%s redisson_lock__channel:{%s} 0", publish, name);
    CHECK_OK(dlock_op_wait(wait, 50000), NULL);
    CHECK_OK(dlock_op_result(wait), dlock_op_error(wait));
}

TEST(a_release_told_to_the_shard_is_heard)
{
    if (have_cluster())
        wakes(DEAF, "SPUBLISH");
}

TEST(a_release_told_to_all_is_heard_where_that_is_asked_for)
{
    if (have_cluster())
        wakes("redis.publish=publish&" DEAF, "PUBLISH");
}

TEST(with_both_either_is_heard)
{
    if (!have_cluster())
        return;
    wakes("redis.publish=both&" DEAF, "SPUBLISH");
    if (!harness_failed())
        wakes("redis.publish=both&" DEAF, "PUBLISH");
}

/* Ours release; theirs hear by what they have subscribed to. */
TEST(clients_of_either_way_wake_each_other_with_both)
{
    if (!have_cluster())
        return;
    static const char *const ways[][2] = {
        {"redis.publish=both&redis.handover=false&" DEAF,
         "redis.publish=publish&redis.handover=false&" DEAF},
        {"redis.publish=both&redis.handover=false&" DEAF,
         "redis.publish=spublish&redis.handover=false&" DEAF},
    };
    for (size_t i = 0; i < 2; i++) {
        DLOCK_AUTO(dlock_client) one = open_with(ways[i][0]);
        DLOCK_AUTO(dlock_client) two = open_with(ways[i][1]);
        CHECK(one && two);
        dlock_client *clients[] = {one, two};
        for (int k = 0; k < 2; k++) {
            DLOCK_AUTO(dlock_lock) held = lock_of(clients[k], DLOCK_MUTEX, "mixed");
            DLOCK_AUTO(dlock_lock) next = lock_of(clients[!k], DLOCK_MUTEX, "mixed");
            DLOCK_AUTO(dlock_hold) hold = NULL;
            CHECK_OK(dlock_lock_acquire(held, PATIENCE_MS, &hold, NULL), NULL);
            DLOCK_AUTO(dlock_op) wait = dlock_lock_acquire_start(next, PATIENCE_MS);
            CHECK_EQ_INT(dlock_op_wait(wait, 300), DLOCK_EPENDING);
            CHECK_OK(dlock_hold_release(hold, NULL), NULL);
            CHECK_OK(dlock_op_wait(wait, 50000), NULL);
            CHECK_OK(dlock_op_result(wait), dlock_op_error(wait));
            dlock_hold *got = dlock_op_take_hold(wait);
            CHECK_OK(dlock_hold_release(got, NULL), NULL);
            dlock_hold_free(got);
        }
    }
}

TEST(a_revoke_reaches_the_holder_once)
{
    if (!have_cluster())
        return;
    DLOCK_AUTO(dlock_client) holder = open_with(NULL);
    DLOCK_AUTO(dlock_client) asker = open_with(NULL);
    CHECK(holder && asker);
    DLOCK_AUTO(dlock_lock) held = lock_of(holder, DLOCK_MUTEX, "revoked");
    DLOCK_AUTO(dlock_lock) wanted = lock_of(asker, DLOCK_MUTEX, "revoked");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_lock_acquire(held, PATIENCE_MS, &hold, NULL), NULL);
    CHECK(dlock_client_event_fd(holder) >= 0);
    CHECK_EQ_INT(dlock_hold_notify(hold, 7), DLOCK_OK);
    CHECK(TOPOLOGY_AWAIT(dlock_lock_revoke(wanted, NULL) == DLOCK_OK));
    dlock_event *event = NULL;
    CHECK(TOPOLOGY_AWAIT((event = dlock_client_next_event(holder)) &&
                         dlock_event_what(event) == DLOCK_EVENT_REVOKE));
    dlock_event_free(event);
}

/* ---- Slots that move ---- */

/* The next node of the three. */
static int elsewhere(const char *name)
{
    return (owner_of(name) + 1) % 3;
}

TEST(a_hold_and_its_waiter_move_with_the_slot)
{
    if (!have_cluster())
        return;
    DLOCK_AUTO(dlock_client) client = open_with(NULL);
    DLOCK_AUTO(dlock_client) other = open_with("client.poll_ms=1000");
    CHECK(client && other);
    DLOCK_AUTO(dlock_lock) lock = lock_of(client, DLOCK_MUTEX, "resharded");
    DLOCK_AUTO(dlock_lock) theirs = lock_of(other, DLOCK_MUTEX, "resharded");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_lock_acquire(lock, PATIENCE_MS, &hold, NULL), NULL);
    int64_t token = dlock_hold_token(hold);
    DLOCK_AUTO(dlock_op) wait = dlock_lock_acquire_start(theirs, PATIENCE_MS);
    redis_server *before = &cluster.node[owner_of("resharded")];
    CHECK(TOPOLOGY_AWAIT(
        strcmp(redis_server_call(before, "LLEN dlock_queue:{resharded}"), "1") == 0));

    int slot = redis_cluster_slot(&cluster, "resharded"), to = elsewhere("resharded");
    CHECK(redis_cluster_move(&cluster, slot, to));
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_hold_extend(hold, 90000, &err), err);
    CHECK_EQ_INT(node_with("resharded"), to);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_OK(dlock_op_wait(wait, PATIENCE_MS), NULL);
    CHECK_OK(dlock_op_result(wait), dlock_op_error(wait));
    DLOCK_AUTO(dlock_hold) next = dlock_op_take_hold(wait);
    CHECK_ALWAYS(dlock_hold_token(next) > token);
    CHECK_EQ_INT(node_with("resharded"), to);
}

/* ASK for what has moved, TRYAGAIN for what is apart: what is held stays held, and who waits gets
 * it when the slot has arrived. One that may be kept asks for more tokens with each renewal, and their counter
 * may be elsewhere. */
static void move_under_a_hold(const char *tag, const char *settings)
{
    char moving[32], waits[32];
    (void)snprintf(moving, sizeof(moving), "moving%s", tag);
    (void)snprintf(waits, sizeof(waits), "waits%s", tag);
    DLOCK_AUTO(dlock_client) client = open_with(settings);
    CHECK(client);
    DLOCK_AUTO(dlock_lock) lock = lock_of(client, DLOCK_MUTEX, moving);
    DLOCK_AUTO(dlock_lock) free = lock_of(client, DLOCK_MUTEX, waits);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_lock_acquire(lock, PATIENCE_MS, &hold, NULL), NULL);
    int slot = redis_cluster_slot(&cluster, tag), to = elsewhere(tag);
    int from = owner_of(tag);
    CHECK(redis_cluster_begin_move(&cluster, slot, to));
    CHECK_OK(dlock_hold_extend(hold, 61000, &err), err); /* where it was */
    CHECK_STR(redis_server_call(&cluster.node[from], "MIGRATE 127.0.0.1 %d %s 0 20000",
                                cluster.node[to].port, moving),
              "OK");
    CHECK_OK(dlock_hold_extend(hold, 90000, &err), err); /* and where it is: ASK */
    CHECK(atoll(redis_server_call(&cluster.node[from], "EXISTS %s", moving)) <= 0);
    DLOCK_AUTO(dlock_op) wait = dlock_lock_acquire_start(free, PATIENCE_MS);
    CHECK_EQ_INT(dlock_op_wait(wait, 300), DLOCK_EPENDING);
    CHECK(redis_cluster_end_move(&cluster, slot, to));
    CHECK_OK(dlock_op_wait(wait, PATIENCE_MS), NULL);
    CHECK_OK(dlock_op_result(wait), dlock_op_error(wait));
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
}

TEST(while_a_slot_moves_holds_live_and_waits_go_on)
{
    if (have_cluster())
        move_under_a_hold("{7}", NULL);
}

TEST(while_a_slot_moves_holds_live_that_may_be_kept)
{
    if (have_cluster())
        move_under_a_hold("{8}", "lock.keep_ms=60000");
}

/* What is said of permits beside them lies in a key that need not be there: renewals don't wait for it. */
TEST(while_a_slot_moves_permits_are_renewed)
{
    if (!have_cluster())
        return;
    DLOCK_AUTO(dlock_client) client = open_with("lock.permits=2");
    CHECK(client);
    DLOCK_AUTO(dlock_lock) lock = lock_of(client, DLOCK_SEMAPHORE, "moving{9}");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(dlock_lock_acquire(lock, PATIENCE_MS, &hold, &err), err);
    int slot = redis_cluster_slot(&cluster, "9"), to = elsewhere("{9}");
    CHECK(redis_cluster_begin_move(&cluster, slot, to));
    CHECK_OK(dlock_hold_extend(hold, 61000, &err), err);
    CHECK(redis_cluster_end_move(&cluster, slot, to));
    CHECK_OK(dlock_hold_extend(hold, 90000, &err), err);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
}

/* A move that took the lock's key with it and lost it: the new node decides, not the redirection. */
TEST(a_hold_whose_key_did_not_come_along_is_lost)
{
    if (!have_cluster())
        return;
    DLOCK_AUTO(dlock_client) client = open_with(NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK(client);
    CHECK_OK(dlock_acquire(client, "left-behind", PATIENCE_MS, &hold, NULL), NULL);
    int slot = redis_cluster_slot(&cluster, "left-behind");
    int from = node_with("left-behind"), to = elsewhere("left-behind");
    CHECK_STR(redis_server_call(&cluster.node[from], "DEL left-behind"), "1");
    CHECK(redis_cluster_move(&cluster, slot, to));
    CHECK_ERR(dlock_hold_extend(hold, 90000, &err), DLOCK_ELOST, err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
}

/* ---- Masters that die ---- */

TEST(a_replica_that_takes_over_serves_holders_and_waiters)
{
    if (!redis_server_available())
        return;
    static redis_cluster six;
    CHECK(redis_cluster_start(&six, 3, 1, 0, NULL));
    dlock_client *client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_OK(open_code(six.uri, NULL, &client, &err), err);
    dlock_hold *holds[6] = {0};
    char name[32];
    int dies = -1;
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof(name), "takes-over-%d", i);
        CHECK_OK(dlock_acquire(client, name, PATIENCE_MS, &holds[i], &err), err);
        dies = redis_cluster_owner(&six, 0, redis_cluster_slot(&six, name));
    }
    int live = (dies + 1) % 3;
    CHECK(TOPOLOGY_AWAIT(atoi(redis_server_call(&six.node[dies], "WAIT 1 1000")) >= 0 &&
                         strstr(redis_server_call(&six.node[dies], "WAIT 1 1000"), "1")));
    redis_server_kill(&six.node[dies]);
    CHECK(redis_cluster_take_over(&six, dies + 3));
    CHECK(TOPOLOGY_AWAIT(
        redis_cluster_owner(&six, live, redis_cluster_slot(&six, name)) == dies + 3 ||
        six.node[0].pid <= 0));
    for (int i = 0; i < 6; i++) {
        CHECK(TOPOLOGY_AWAIT(dlock_hold_verify(holds[i], NULL) == DLOCK_OK));
        CHECK_OK(dlock_hold_release(holds[i], &err), err);
        dlock_hold_free(holds[i]);
    }
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_OK(dlock_acquire(client, name, PATIENCE_MS, &again, &err), err);
    dlock_hold_free(again);
    again = NULL;
    dlock_client_free(client);
    redis_cluster_stop(&six);
}
