/* redis.wait_replicas: a lock counts when replicas have it, too. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/redis_topology.h"

#include <dlock/dlock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 120000

static redis_server master, replica;

static bool is_following(void)
{
    return strstr(redis_server_call(&replica, "INFO replication"),
                  "master_link_status:up");
}

static bool have_both(void)
{
    static bool made;
    char config[128];
    if (made || !redis_server_available())
        return made;
    if (!redis_server_start(&master, "repl-diskless-sync-delay 0\nrepl-timeout 3600\n"))
        return false;
    snprintf(config, sizeof(config), "replicaof 127.0.0.1 %d\nrepl-timeout 3600\n",
             master.port);
    made = redis_server_start(&replica, config) &&
           harness_check(__FILE__, __LINE__, TOPOLOGY_AWAIT(is_following()),
                         "the replica follows");
    return made;
}

__attribute__((destructor)) static void tidy(void)
{
    redis_server_stop(&master);
    redis_server_stop(&replica);
}

static dlock_client *open_with(const char *query)
{
    return api_open("redis://127.0.0.1:%d?lock.ttl_ms=60000&client.timeout_ms=20000&"
                    "client.connect_ms=30000&client.backoff_max_ms=200&"
                    "redis.wait_replicas=1%s%s",
                    master.port, query ? "&" : "", query ? query : "");
}

TEST(a_lock_is_held_when_the_replica_has_it)
{
    if (!have_both())
        return;
    DLOCK_AUTO(dlock_client) client = open_with(NULL);
    CHECK(client);
    static const dlock_kind kinds[] = {DLOCK_MUTEX, DLOCK_WRITE, DLOCK_READ,
                                       DLOCK_ELECTION};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        DLOCK_AUTO(dlock_lock) lock = NULL;
        DLOCK_AUTO(dlock_hold) hold = NULL;
        char name[32];
        snprintf(name, sizeof(name), "copied%zu", i);
        CHECK_OK(dlock_lock_new(client, kinds[i], name, NULL, &lock, NULL), NULL);
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_OK(dlock_lock_acquire(lock, PATIENCE_MS, &hold, &err), err);
        CHECK_STR(redis_server_call(&replica, "EXISTS %s", name), "1");
        CHECK_OK(dlock_hold_extend(hold, 90000, &err), err);
        CHECK(atoll(redis_server_call(&replica, "PTTL %s", name)) > 60000);
        CHECK_OK(dlock_hold_release(hold, &err), err);
    }
}

TEST(without_the_replica_nothing_is_granted_and_nothing_stays)
{
    if (!have_both())
        return;
    DLOCK_AUTO(dlock_client) client = open_with("client.timeout_ms=2000");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK(client);
    server_freeze(replica.pid);
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err code = dlock_acquire(client, "alone", 0, &hold, &err);
    const char *kept = redis_server_call(&master, "EXISTS alone");
    char was[8];
    snprintf(was, sizeof(was), "%s", kept);
    server_thaw(replica.pid);
    CHECK_ERR(code, DLOCK_EUNAVAIL, err);
    CHECK_CONTAINS(dlock_error_text(err), "redis.wait_replicas");
    CHECK_ALWAYS(!hold);
    CHECK_STR(was, "0");
    CHECK_OK(dlock_acquire(client, "alone", PATIENCE_MS, &hold, NULL), NULL);
}

TEST(a_renewal_that_the_replica_missed_does_not_count)
{
    if (!have_both())
        return;
    DLOCK_AUTO(dlock_client) client = open_with("client.timeout_ms=2000");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK(client);
    CHECK_OK(dlock_acquire(client, "old", PATIENCE_MS, &hold, NULL), NULL);
    server_freeze(replica.pid);
    dlock_err code = dlock_hold_extend(hold, 120000, NULL);
    int64_t remaining = dlock_hold_remaining_ms(hold);
    server_thaw(replica.pid);
    CHECK(code != DLOCK_OK);
    CHECK_ALWAYS(remaining <= 60000);
    CHECK(TOPOLOGY_AWAIT(dlock_hold_extend(hold, 120000, NULL) == DLOCK_OK));
    CHECK(dlock_hold_remaining_ms(hold) > 60000);
}

TEST(a_user_who_may_not_wait_is_told_so_and_holds_nothing)
{
    if (!have_both())
        return;
    CHECK_STR(redis_server_call(&master, "ACL SETUSER eager on >pw ~* &* +@all -wait"),
              "OK");
    DLOCK_AUTO(dlock_client) client = open_with("auth.username=eager&auth.password=pw");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK(client);
    CHECK_ERR(dlock_acquire(client, "eager", PATIENCE_MS, &hold, &err), DLOCK_EACCES,
              err);
    CHECK_CONTAINS(dlock_error_text(err), "WAIT");
    CHECK_STR(redis_server_call(&master, "EXISTS eager"), "0");
}
