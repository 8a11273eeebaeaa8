/* Beside others' programs: the server's own lock service, which is Go's package, and transactions that
 * ask for a hold. */
#include "queue.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char waiters_answer[4096];

static void *wait_there(void *lease)
{
    const char *said =
        etcd_server_say(&world_server, "/v3/lock/lock",
                        "{\"name\":\"bG9ja3Mvc2VydmVycw==\",\"lease\":\"%s\"}",
                        (const char *)lease); /* "locks/servers" */
    snprintf(waiters_answer, sizeof(waiters_answer), "%s", said);
    return NULL;
}

static bool new_lease(char *ret, size_t size)
{
    world_field(etcd_server_say(&world_server, "/v3/lease/grant", "{\"TTL\":\"60\"}"),
                "ID", ret, size);
    return ret[0] != '\0';
}

TEST(the_servers_own_lock_service_lets_in_whose_lease_ended_beside_ours)
{
    BEGIN();
    CLIENT(client, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/servers", NULL);
    HOLD(first, lock);
    CLIENT(other, "");
    LOCK(wanted, other, DLOCK_MUTEX, "locks/servers", NULL);
    char lease[32];
    pthread_t thread;
    CHECK(new_lease(lease, sizeof(lease)));
    CHECK(pthread_create(&thread, NULL, wait_there, lease) == 0);
    AWAIT(world_keys("locks/servers/") == 2);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
    AWAIT(world_keys("locks/servers/") == 3);
    CHECK(world_revoke(strtoull(lease, NULL, 10)));
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, PATIENCE_MS), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
    pthread_join(thread, NULL);
    /* Ours has it by the keys that there are; to 3.4's waiter it was said, too. */
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    const char *version = etcd_server_say(&world_server, "/v3/maintenance/status", "{}");
    bool is_old = strstr(version, "\"version\":\"3.4.") != NULL;
    harness_note("the server's own waiter without a key was told: %s", waiters_answer);
    CHECK_EQ_INT(strstr(waiters_answer, "\"key\"") != NULL, is_old);
    CHECK_EQ_INT(world_keys("locks/servers/"), 1);
}

/* What Go's Mutex.Header() has, etcdctl's ETCD_LOCK_REV, and the service's answer: of the moment in
 * which it was granted. */
static int64_t revision_in(const char *said)
{
    char text[32];
    world_field(said, "revision", text, sizeof(text));
    return atoll(text);
}

TEST(tokens_rise_beside_those_of_the_servers_lock_service_whoever_joined_first)
{
    BEGIN();
    CLIENT(client, "");
    CLIENT(other, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/servers", NULL);
    LOCK(wanted, other, DLOCK_MUTEX, "locks/servers", NULL);
    HOLD(first, lock);
    char lease[32], key[256];
    pthread_t thread;
    CHECK(new_lease(lease, sizeof(lease)));
    CHECK(pthread_create(&thread, NULL, wait_there, lease) == 0);
    AWAIT(world_keys("locks/servers/") == 2);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
    AWAIT(world_keys("locks/servers/") == 3);
    CHECK(etcd_server_put(&world_server, "elsewhere", "")); /* a revision more */
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    pthread_join(thread, NULL);
    int64_t theirs = revision_in(waiters_answer);
    CHECK(theirs > dlock_hold_token(first));
    world_field(waiters_answer, "key", key, sizeof(key));
    CHECK(revision_in(etcd_server_say(&world_server, "/v3/lock/unlock",
                                      "{\"key\":\"%s\"}", key)) > theirs);
    CHECK_EQ_INT(dlock_op_wait(op, PATIENCE_MS), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
    CHECK(dlock_hold_token(hold) > theirs);
    /* Whoever hasn't been told of the grant can't know it. */
    CHECK_EQ_INT(world_seen(wanted, "holders.0.token"), dlock_hold_token(hold));
    CHECK_EQ_INT(world_seen(lock, "holders.0.token"), -1);
}

/* Who knows nothing of tickets goes by the keys. */
TEST(the_servers_lock_service_waits_for_who_imports_before_it)
{
    BEGIN();
    CLIENT(giver, "");
    CLIENT(taker, "");
    LOCK(lock, giver, DLOCK_MUTEX, "locks/servers", NULL);
    HOLD(hold, lock);
    char lease[32], key[256];
    pthread_t thread;
    const char *ticket = NULL;
    DLOCK_AUTO(dlock_hold) taken = NULL;
    CHECK(new_lease(lease, sizeof(lease)));
    CHECK(pthread_create(&thread, NULL, wait_there, lease) == 0);
    AWAIT(world_keys("locks/servers/") == 2);
    CHECK_EQ_INT(dlock_hold_export(hold, &ticket, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_import(taker, ticket, &taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(giver, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(taken, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_keys("locks/servers/"), 2);
    CHECK_EQ_INT(dlock_hold_release(taken, NULL), DLOCK_OK);
    pthread_join(thread, NULL);
    CHECK(revision_in(waiters_answer) > dlock_hold_token(taken));
    CHECK_EQ_INT(world_keys("locks/servers/"), 1);
    world_field(waiters_answer, "key", key, sizeof(key));
    CHECK(revision_in(etcd_server_say(&world_server, "/v3/lock/unlock",
                                      "{\"key\":\"%s\"}", key)) > 0);
}

/* As docs/how-to/etcd.md has it, of the only key below "locks/guarded/": two comparisons. */
static bool is_guarded(uint64_t lease, int64_t token)
{
    static const char range[] = "{\"key\":\"bG9ja3MvZ3VhcmRlZC8=\","
                                "\"range_end\":\"bG9ja3MvZ3VhcmRlZDA=\"}";
    char key[256];
    world_field(etcd_server_say(&world_server, "/v3/kv/range", "%s", range), "key", key,
                sizeof(key));
    const char *said = etcd_server_say(
        &world_server, "/v3/kv/txn",
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"result\":\"LESS\","
        "\"create_revision\":\"%" PRId64 "\"},{\"key\":\"%s\",\"target\":\"LEASE\","
        "\"lease\":\"%" PRIu64 "\"}]}",
        key, token + 1, key, lease);
    return strstr(said, "\"succeeded\":true") != NULL;
}

TEST(a_transaction_can_ask_for_a_hold_by_its_token_and_lease)
{
    BEGIN();
    CLIENT(client, "");
    CLIENT(other, "");
    LOCK(lock, client, DLOCK_MUTEX, "locks/guarded", NULL);
    LOCK(wanted, other, DLOCK_MUTEX, "locks/guarded", NULL);
    HOLD(first, lock);
    uint64_t lease = world_lease("locks/guarded/", 0);
    CHECK(is_guarded(lease, dlock_hold_token(first)));
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
    AWAIT(world_seen(lock, "waiters") == 1);
    uint64_t next = world_lease("locks/guarded/", lease);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, PATIENCE_MS), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
    CHECK(is_guarded(next, dlock_hold_token(hold)));
    CHECK(!is_guarded(lease, dlock_hold_token(first)));
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    HOLD(again, wanted); /* by the same key */
    CHECK(is_guarded(next, dlock_hold_token(again)));
    CHECK(!is_guarded(next, dlock_hold_token(hold)));
}
