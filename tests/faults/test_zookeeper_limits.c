/* What is refused on ZooKeeper, and said why: sequences near their end, leases that differ from the
 * session's, nodes that are no locks, rights that are missing. */
#include "zookeeper_stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlock_lock *lock_with(dlock_client *client, dlock_kind kind, const char *name,
                             const char *key, const char *value)
{
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_lock *lock = NULL;
    if (key)
        (void)harness_err(__FILE__, __LINE__, key, dlock_conf_set(conf, key, value, &err),
                          DLOCK_OK, err);
    dlock_err code = dlock_lock_new(client, kind, name, conf, &lock, &err);
    (void)harness_err(__FILE__, __LINE__, name, code, DLOCK_OK, err);
    return lock;
}

/* ---- Sequences ---- */

/* A server on which /near has had @p count children. */
static bool start_near(zookeeper_server *server, const char *count)
{
    char command[512];
    if (!zookeeper_server_start(server, NULL))
        return false;
    zookeeper_server_kill(server);
    snprintf(command, sizeof(command),
             "rm -r %s/data/version-2 && java -XX:TieredStopAtLevel=1 -XX:-UsePerfData "
             "-cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar "
             "%s %s/data /near %s",
             server->dir, getenv("DLK_TEST_PRESET"), server->dir, count);
    return harness_eq_int(__FILE__, __LINE__, command, system(command), 0) &&
           zookeeper_server_restart(server);
}

TEST(near_the_end_of_a_sequence_nobody_is_granted_anything_twice)
{
    BEGIN();
    zookeeper_server server;
    char uri[128];
    if (!start_near(&server, "2147483640"))
        return;
    snprintf(uri, sizeof(uri), "zookeeper://127.0.0.1:%d?lock.ttl_ms=%d", server.port,
             KEPT_MS);
    for (int i = 0; i < 12; i++) {
        DLOCK_AUTO(dlock_client) client = stage_open(uri, NULL);
        DLOCK_AUTO(dlock_lock) lock = stage_lock(client, "near");
        DLOCK_AUTO(dlock_error) err = NULL;
        DLOCK_AUTO(dlock_hold) hold = NULL;
        CHECK(lock != NULL);
        CHECK_ERR(dlock_lock_acquire(lock, patience_ms(), &hold, &err), DLOCK_EOVERFLOW,
                  err);
        CHECK_CONTAINS(dlock_error_text(err), "near");
    }
    zookeeper_wire hand;
    CHECK(zookeeper_wire_open(&hand, server.port));
    CHECK_EQ_INT(zookeeper_wire_count(&hand, "/near"), 0);
    zookeeper_wire_close(&hand);
    zookeeper_server_stop(&server);
}

/* ---- Settings and names ---- */

TEST(a_lease_other_than_the_sessions_is_refused)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_lock *lock = NULL;
    CHECK(client != NULL);
    CHECK_OK(dlock_conf_set_int(conf, "lock.ttl_ms", KEPT_MS / 2, &err), err);
    CHECK_ERR(dlock_lock_new(client, DLOCK_MUTEX, "limits/ttl", conf, &lock, &err),
              DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "session");
}

TEST(a_name_that_is_the_beginning_of_another_ones_path_is_a_conflict_where_it_is_seen)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_lock) longer = stage_lock(client, "limits/orders/42");
    DLOCK_AUTO(dlock_lock) shorter = stage_lock(client, "limits/orders");
    DLOCK_AUTO(dlock_hold) hold = stage_take(longer);
    DLOCK_AUTO(dlock_hold) none = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK(!harness_failed());
    CHECK_ERR(dlock_lock_acquire(shorter, patience_ms(), &none, &err), DLOCK_ECONFLICT,
              err);
    AWAIT(keeper_count("/limits/orders") == 1); /* its own node is gone again */
    CHECK_OK(dlock_hold_release(hold, &err), err);
}

TEST(a_session_that_the_server_makes_shorter_is_as_short_as_that)
{
    enum { MOST_MS = 60000 };
    BEGIN();
    DLOCK_AUTO(dlock_client) client = keeper_client(3 * MOST_MS);
    DLOCK_AUTO(dlock_lock) lock = stage_lock(client, "limits/negotiated");
    DLOCK_AUTO(dlock_hold) hold = stage_take(lock);
    CHECK(hold != NULL);
    CHECK_ALWAYS(dlock_hold_remaining_ms(hold) <= MOST_MS);
    CHECK_EQ_INT(dlock_hold_ttl_ms(hold), MOST_MS);
    CHECK(dlock_hold_remaining_ms(hold) > MOST_MS / 2);
}

TEST(a_parent_that_is_collected_is_made_again)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_lock) lock = stage_lock(client, "limits/collected");
    for (int i = 0; i < 2; i++) {
        DLOCK_AUTO(dlock_hold) hold = stage_take(lock);
        CHECK(hold != NULL);
        CHECK_EQ_INT(keeper_count("/limits/collected"), 1);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        AWAIT(keeper_count("/limits/collected") == -1);
    }
}

/* ---- Nodes of others ---- */

static dlock_err try_kind(dlock_client *client, dlock_kind kind, const char *name,
                          const char *key, const char *value)
{
    DLOCK_AUTO(dlock_lock) lock = lock_with(client, kind, name, key, value);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = lock ? dlock_lock_acquire(lock, 0, &hold, NULL) : DLOCK_EINVAL;
    if (code == DLOCK_OK)
        code = dlock_hold_release(hold, NULL);
    return code;
}

static bool plant_node(const char *path)
{
    return harness_eq_int(
        __FILE__, __LINE__, path,
        zookeeper_wire_create(keeper_hand(), path, "", ZOOKEEPER_PERSISTENT, NULL, 0),
        ZOOKEEPER_OK);
}

TEST(a_child_that_sorts_in_front_of_all_is_no_lock_and_is_said_to_be_there)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = keeper_client(KEPT_MS);
    CHECK(client && plant_node("/zero") && plant_node("/zero/0"));
    CHECK_EQ_INT(try_kind(client, DLOCK_MUTEX, "zero", NULL, NULL), DLOCK_ECONFLICT);
    AWAIT(keeper_count("/zero") ==
          1); /* our own node is taken back once that has been told */
}

TEST(a_child_that_sorts_behind_all_is_a_conflict_unless_that_is_not_asked_for)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = keeper_client(KEPT_MS);
    CHECK(client && plant_node("/zzz") && plant_node("/zzz/zzz"));
    CHECK_EQ_INT(try_kind(client, DLOCK_MUTEX, "zzz", NULL, NULL), DLOCK_ECONFLICT);
    CHECK_EQ_INT(try_kind(client, DLOCK_MUTEX, "zzz", "zookeeper.strict", "false"),
                 DLOCK_OK);
    CHECK_EQ_INT(keeper_count("/zzz"), 1);
}

TEST(another_kind_on_the_same_path_is_a_conflict)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_client) other = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_lock) mutex = stage_lock(client, "limits/kinds");
    DLOCK_AUTO(dlock_hold) hold = stage_take(mutex);
    CHECK(!harness_failed());
    CHECK_EQ_INT(try_kind(other, DLOCK_WRITE, "limits/kinds", NULL, NULL),
                 DLOCK_ECONFLICT);
    CHECK_EQ_INT(try_kind(other, DLOCK_ELECTION, "limits/kinds", NULL, NULL),
                 DLOCK_ECONFLICT);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    /* A semaphore's nodes are below others, which it doesn't look beside; who comes later does. */
    DLOCK_AUTO(dlock_lock)
    counted = lock_with(other, DLOCK_SEMAPHORE, "limits/counted", "lock.permits", "1");
    DLOCK_AUTO(dlock_hold) permit = stage_take(counted); /* so that its folders stay */
    CHECK(!harness_failed());
    CHECK_EQ_INT(try_kind(other, DLOCK_MUTEX, "limits/counted", NULL, NULL),
                 DLOCK_ECONFLICT);
}

/* ---- Rights ---- */

/* A node for one user, who has these rights there. */
static bool plant_for(const char *path, int perms)
{
    /* base64(sha1("user:secret")) */
    static const char id[] = "user:5w9W4eL3797Y4Wq8AcKUPPk8ha4=";
    return harness_eq_int(
        __FILE__, __LINE__, path,
        zookeeper_wire_create_for(keeper_hand(), path, "digest", id, perms),
        ZOOKEEPER_OK);
}

TEST(a_right_that_is_missing_is_eacces_at_once)
{
    enum { READ = 1, CREATE = 4, DELETE = 8, ALL = 31 };
    BEGIN();
    DLOCK_AUTO(dlock_client) nobody = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_client)
    wrong =
        stage_open(keeper_uri(KEPT_MS, "&auth.username=user&auth.password=guess"), NULL);
    DLOCK_AUTO(dlock_client)
    user =
        stage_open(keeper_uri(KEPT_MS, "&auth.username=user&auth.password=secret"), NULL);
    CHECK(nobody && wrong && user);
    CHECK(plant_for("/acl-all", ALL) && plant_for("/acl-no-create", READ | DELETE) &&
          plant_for("/acl-no-list", CREATE | DELETE));
    CHECK_EQ_INT(try_kind(nobody, DLOCK_MUTEX, "acl-all", NULL, NULL), DLOCK_EACCES);
    CHECK_EQ_INT(try_kind(wrong, DLOCK_MUTEX, "acl-all", NULL, NULL), DLOCK_EACCES);
    CHECK_EQ_INT(try_kind(user, DLOCK_MUTEX, "acl-all", NULL, NULL), DLOCK_OK);
    CHECK_EQ_INT(try_kind(user, DLOCK_MUTEX, "acl-no-create", NULL, NULL), DLOCK_EACCES);
    CHECK_EQ_INT(try_kind(user, DLOCK_MUTEX, "acl-no-list", NULL, NULL), DLOCK_EACCES);
}

TEST(a_chroot_that_is_not_there_is_said_to_be_missing)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_client *client = NULL;
    char uri[128];
    snprintf(uri, sizeof(uri), "zookeeper://127.0.0.1:%d/no/such/place",
             keeper_server()->port);
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    CHECK(code != DLOCK_OK);
    CHECK_CONTAINS(dlock_error_text(err), "/no/such/place");
    dlock_client_free(client);
}
