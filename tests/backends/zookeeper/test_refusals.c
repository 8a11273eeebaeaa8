/* What can't be: names, chroots, rights, settings, and what lies beside the locks. */
#include "world.h"

#include "harness/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlock_client *client;

#define SETUP(query)                                                                     \
    do {                                                                                 \
        BEGIN();                                                                         \
        client = world_client(query);                                                    \
        CHECK(client);                                                                   \
    } while (0)

static dlock_err new_lock(const char *name, const char **ret_text)
{
    static char text[300];
    dlock_lock *lock = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_lock_new(client, DLOCK_MUTEX, name, NULL, &lock, &err);
    snprintf(text, sizeof(text), "%s", err ? dlock_error_text(err) : "");
    *ret_text = text;
    dlock_error_free(err);
    dlock_lock_free(lock);
    return code;
}

TEST(a_name_that_is_too_long_is_refused)
{
    SETUP("");
    const char *text;
    char *huge = malloc(1 << 20);
    memset(huge, 'x', (1 << 20) - 1);
    huge[(1 << 20) - 1] = '\0';
    CHECK_EQ_INT(new_lock(huge, &text), DLOCK_EINVAL);
    huge[1025] = '\0';
    CHECK_EQ_INT(new_lock(huge, &text), DLOCK_EINVAL);
    CHECK_CONTAINS(text, "1024");
    huge[1024] = '\0';
    memset(huge, '\n', 1024); /* three for each in the path */
    CHECK_EQ_INT(new_lock(huge, &text), DLOCK_OK);
    free(huge);
    dlock_client_free(client);
}

TEST(a_lock_with_a_lease_of_its_own_is_refused)
{
    SETUP("");
    dlock_conf *conf = dlock_conf_new();
    dlock_lock *lock = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_conf_set(conf, "lock.ttl_ms", "5000", &err), err);
    CHECK_ERR(dlock_lock_new(client, DLOCK_MUTEX, "r/ttl", conf, &lock, &err),
              DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "session");
    CHECK_OK(dlock_conf_set(conf, "lock.ttl_ms", "60000", &err), err);
    CHECK_OK(dlock_lock_new(client, DLOCK_MUTEX, "r/ttl", conf, &lock, &err), err);
    dlock_hold *hold = NULL;
    CHECK_OK(dlock_lock_acquire(lock, 30000, &hold, &err), err);
    CHECK_ERR(dlock_hold_extend(hold, 90000, &err), DLOCK_ENOTSUP, err);
    CHECK_ERR(dlock_hold_extend(hold, 100, &err), DLOCK_ENOTSUP, err); /* it has more */
    dlock_info *features = NULL;
    CHECK_OK(dlock_client_features(client, &features, &err), err);
    CHECK_STR(dlock_info_get(features, "extend"), "0");
    dlock_info_free(features);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_conf_free(conf);
    dlock_client_free(client);
}

static dlock_err open_at(const char *path, const char *query, char *text, size_t size)
{
    dlock_client *none = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_client_open(world_uri(path, query), NULL, &none, &err);
    snprintf(text, size, "%s", err ? dlock_error_text(err) : "");
    dlock_error_free(err);
    dlock_client_free(none);
    return code;
}

TEST(a_chroot_must_exist_and_is_kept_to)
{
    BEGIN();
    char text[300];
    CHECK_EQ_INT(open_at("/no/such/chroot", "", text, sizeof(text)), DLOCK_EINVAL);
    CHECK_CONTAINS(text, "/no/such/chroot");
    CHECK_EQ_INT(open_at("/a//b", "", text, sizeof(text)), DLOCK_EINVAL);
    CHECK_EQ_INT(open_at("/a/../b", "", text, sizeof(text)), DLOCK_EINVAL);
    static const struct {
        const char *path, *why;
    } bad[] = {
        {"/a/", "empty part"},  {"/a%01", "U+0001"},          {"/a%FF", "UTF-8"},
        {"/a%C2%85", "U+0085"}, {"/%F0%9F%94%92", "U+1F512"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        CHECK_EQ_INT(open_at(bad[i].path, "", text, sizeof(text)), DLOCK_EINVAL);
        CHECK_CONTAINS(text, bad[i].why);
    }
    int code =
        zookeeper_wire_create(&world_wire, "/rooted", "", ZOOKEEPER_PERSISTENT, NULL, 0);
    CHECK(code == ZOOKEEPER_OK || code == ZOOKEEPER_NODE_EXISTS);
    dlock_error *err = NULL;
    CHECK_OK(dlock_client_open(world_uri("/rooted", ""), NULL, &client, &err), err);
    dlock_hold *hold = NULL;
    CHECK_OK(dlock_acquire(client, "here", 30000, &hold, &err), err);
    CHECK_EQ_INT(world_children("/rooted/here"), 1);
    dlock_hold_free(hold);
    dlock_client_free(client);
}

TEST(settings_that_the_library_cannot_serve_are_refused_with_the_reason)
{
    BEGIN();
    char text[300];
    CHECK_EQ_INT(open_at("", "tls.min_version=1.3", text, sizeof(text)), DLOCK_ENOTSUP);
    CHECK_CONTAINS(text, "TLS");
    CHECK_EQ_INT(open_at("", "zookeeper.acl=creator", text, sizeof(text)), DLOCK_EINVAL);
    CHECK_CONTAINS(text, "auth.username");
}

TEST(where_no_server_answers_the_open_ends_in_time)
{
    BEGIN();
    dlock_client *none = NULL;
    dlock_error *err = NULL;
    CHECK_ERR(dlock_client_open("zookeeper://127.0.0.1:1?client.connect_ms=500", NULL,
                                &none, &err),
              DLOCK_EUNAVAIL, err);
    CHECK_OK(
        dlock_client_open("zookeeper://127.0.0.1:1?client.lazy=true", NULL, &none, &err),
        err);
    dlock_hold *hold = NULL;
    CHECK_ERR(dlock_acquire(none, "x", 0, &hold, &err), DLOCK_EUNAVAIL, err);
    dlock_error_free(err);
    dlock_client_free(none);
}

TEST(with_creators_acls_nobody_else_may_touch_the_lock)
{
    SETUP("zookeeper.acl=creator&auth.username=joe&auth.password=secret");
    /* A parent of its own: that of the other tests goes when it is empty, and would be made anew. */
    dlock_hold *hold = NULL, *none = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(client, "creators/mine", 30000, &hold, &err), err);
    dlock_client *other = world_client("auth.username=joe&auth.password=wrong");
    CHECK(other);
    CHECK_ERR(dlock_acquire(other, "creators/mine", 30000, &none, &err), DLOCK_EACCES,
              err);
    CHECK_CONTAINS(dlock_error_text(err), "ACL");
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    dlock_client *same = world_client("auth.username=joe&auth.password=secret");
    CHECK(same);
    CHECK_OK(dlock_acquire(same, "creators/mine", 30000, &none, &err), err);
    dlock_hold_free(hold);
    dlock_hold_free(none);
    dlock_client_free(same);
    dlock_client_free(other);
    dlock_client_free(client);
}

/* The folder that all conditions lie in is nobody's. */
TEST(with_creators_acls_each_user_has_his_conditions)
{
    SETUP("zookeeper.acl=creator&auth.username=joe&auth.password=secret");
    dlock_client *other =
        world_client("zookeeper.acl=creator&auth.username=jane&auth.password=secret");
    CHECK(other);
    dlock_cond *joes = NULL, *janes = NULL;
    CHECK_EQ_INT(dlock_cond_new(client, "joes/cond", NULL, &joes, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_cond_new(other, "janes/cond", NULL, &janes, NULL), DLOCK_OK);
    dlock_op *joe = dlock_cond_wait_start(joes, NULL, DLOCK_FOREVER);
    AWAIT(world_children_with("/dlock-conditions", "joes") == 1);
    dlock_op *jane = dlock_cond_wait_start(janes, NULL, DLOCK_FOREVER);
    AWAIT(api_signal(janes, 1) == 1);
    CHECK(api_ends(jane, 30000, DLOCK_OK));
    dlock_op_free(jane);
    dlock_op_free(joe);
    dlock_cond_free(janes);
    dlock_cond_free(joes);
    dlock_client_free(other);
    dlock_client_free(client);
}

/* ---- what lies beside ---- */

static void make(const char *path)
{
    (void)zookeeper_wire_create(&world_wire, path, "", ZOOKEEPER_PERSISTENT, NULL, 0);
}

TEST(children_that_are_no_locks_are_a_conflict_and_nothing_of_ours_stays)
{
    SETUP("");
    make("/r");
    static const char *const strange[] = {"0", "zzz", "42"};
    for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
        char name[40], path[60], child[100];
        snprintf(name, sizeof(name), "r/beside%zu", i);
        snprintf(path, sizeof(path), "/%s", name);
        snprintf(child, sizeof(child), "%s/%s", path, strange[i]);
        make(path);
        make(child);
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        CHECK_ERR(dlock_acquire(client, name, 30000, &hold, &err), DLOCK_ECONFLICT, err);
        CHECK_CONTAINS(dlock_error_text(err), strange[i]);
        dlock_error_free(err);
        AWAIT(world_children(path) == 1);
    }
    dlock_client_free(client);
}

TEST(not_strict_they_are_only_warned_of_and_sorted_as_curator_sorts_them)
{
    SETUP("zookeeper.strict=false");
    make("/r");
    make("/r/loose");
    make("/r/loose/zzz");
    dlock_hold *hold = NULL, *none = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(client, "r/loose", 30000, &hold, &err), err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    make("/r/loose/0");
    CHECK_ERR(dlock_acquire(client, "r/loose", 2000, &none, &err), DLOCK_ETIMEDOUT, err);
    CHECK_EQ_INT(zookeeper_wire_delete(&world_wire, "/r/loose/0"), 0);
    dlock_hold_free(hold);
    CHECK_OK(dlock_acquire(client, "r/loose", 30000, &hold, &err), err);
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_client_free(client);
}

TEST(another_kind_on_the_path_is_a_conflict)
{
    SETUP("");
    dlock_client *other = world_client("");
    dlock_lock *write = world_lock(client, DLOCK_WRITE, "r/kinds", NULL);
    dlock_lock *mutex = world_lock(other, DLOCK_MUTEX, "r/kinds", NULL);
    dlock_err code;
    dlock_hold *hold = world_try(write, 30000, &code), *none;
    CHECK(hold);
    none = world_try(mutex, 30000, &code);
    CHECK(!none);
    CHECK_EQ_INT(code, DLOCK_ECONFLICT);
    AWAIT(world_children("/r/kinds") == 1);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    dlock_hold_free(hold);
    hold = world_try(mutex, 30000, &code);
    CHECK(hold);
    none = world_try(write, 0, &code);
    CHECK_EQ_INT(code, DLOCK_ECONFLICT);
    dlock_hold_free(hold);
    dlock_lock_free(write);
    dlock_lock_free(mutex);
    dlock_client_free(other);
    dlock_client_free(client);
}

TEST(a_semaphore_among_another_locks_nodes_is_a_conflict_while_they_are_there)
{
    SETUP("");
    dlock_client *other = world_client("");
    dlock_lock *mutex = world_lock(other, DLOCK_MUTEX, "r/mixed", NULL);
    dlock_lock *semaphore =
        world_lock(client, DLOCK_SEMAPHORE, "r/mixed", "lock.permits=2");
    dlock_err code;
    dlock_hold *hold = world_try(mutex, 30000, &code), *lease;
    CHECK(hold);
    lease = world_try(semaphore, 30000, &code);
    CHECK(!lease);
    CHECK_EQ_INT(code, DLOCK_ECONFLICT);
    AWAIT(world_children("/r/mixed/locks") + world_children("/r/mixed/leases") == 0);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    lease = world_try(semaphore, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    dlock_hold_free(lease);
    dlock_hold_free(hold);
    dlock_lock_free(mutex);
    dlock_lock_free(semaphore);
    dlock_client_free(other);
    dlock_client_free(client);
}

TEST(a_name_below_a_locks_name_is_a_conflict_where_it_is_seen)
{
    SETUP("");
    dlock_hold *hold = NULL, *none = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(client, "r/orders/42", 30000, &hold, &err), err);
    CHECK_ERR(dlock_acquire(client, "r/orders", 30000, &none, &err), DLOCK_ECONFLICT,
              err);
    CHECK_CONTAINS(dlock_error_text(err), "42");
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_client_free(client);
}

TEST(we_wait_behind_a_node_of_kazoos)
{
    SETUP("");
    make("/r");
    make("/r/kazoo");
    char made[100];
    CHECK_EQ_INT(zookeeper_wire_create(
                     &world_wire, "/r/kazoo/0123456789abcdef0123456789abcdef__lock__", "",
                     ZOOKEEPER_EPHEMERAL | ZOOKEEPER_SEQUENTIAL, made, sizeof(made)),
                 0);
    dlock_lock *lock = world_lock(client, DLOCK_MUTEX, "r/kazoo", NULL);
    dlock_err code;
    dlock_hold *hold = world_try(lock, 0, &code);
    CHECK(!hold);
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    dlock_op *op = dlock_lock_acquire_start(lock, 60000);
    AWAIT(world_children("/r/kazoo") == 2);
    CHECK_EQ_INT(zookeeper_wire_delete(&world_wire, made), 0);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_op_free(op);
    dlock_lock_free(lock);
    dlock_client_free(client);
}
