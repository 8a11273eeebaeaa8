/* Curator's read/write lock, semaphore and elections, and looking at locks, through the public API. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlock_client *one, *two;

#define SETUP(query)                                                                     \
    do {                                                                                 \
        BEGIN();                                                                         \
        one = world_client(query);                                                       \
        two = world_client(query);                                                       \
        CHECK(one &&two);                                                                \
    } while (0)

static void teardown(void)
{
    dlock_client_free(one);
    dlock_client_free(two);
}

/* ---- read/write ---- */

TEST(readers_share_and_a_writer_waits_for_all_of_them)
{
    SETUP("");
    dlock_lock *r1 = world_lock(one, DLOCK_READ, "k/rw", NULL);
    dlock_lock *r2 = world_lock(two, DLOCK_READ, "k/rw", NULL);
    dlock_client *three = world_client("");
    CHECK(three);
    dlock_lock *w2 = world_lock(three, DLOCK_WRITE, "k/rw", NULL);
    dlock_err code;
    dlock_hold *a = world_try(r1, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    dlock_hold *b = world_try(r2, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(world_children_with("/k/rw", "__READ__"), 2);
    CHECK_STR(world_inspect(r1, "kind"), "read");
    dlock_op *op = dlock_lock_acquire_start(w2, 60000);
    AWAIT(world_children_with("/k/rw", "__WRIT__") == 1);
    CHECK_EQ_INT(dlock_hold_release(a, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, 100), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_release(b, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    dlock_hold *w = dlock_op_take_hold(op);
    CHECK_ALWAYS(dlock_hold_token(w) > dlock_hold_token(b));
    dlock_hold *none = world_try(r1, 0, &code);
    CHECK(!none);
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    CHECK_STR(world_inspect(r1, "kind"), "write");
    dlock_op_free(op);
    dlock_hold_free(a);
    dlock_hold_free(b);
    dlock_hold_free(w);
    dlock_lock_free(r1);
    dlock_lock_free(r2);
    dlock_lock_free(w2);
    dlock_client_free(three);
    teardown();
}

TEST(a_downgraded_write_lets_readers_in_and_keeps_its_token_and_place)
{
    SETUP("");
    dlock_lock *w1 = world_lock(one, DLOCK_WRITE, "k/down", NULL);
    dlock_lock *r2 = world_lock(two, DLOCK_READ, "k/down", NULL);
    dlock_err code;
    dlock_hold *w = world_try(w1, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    int64_t token = dlock_hold_token(w);
    CHECK_EQ_INT(dlock_hold_downgrade(w, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_token(w), token);
    AWAIT(world_children_with("/k/down", "__READ__0000000000") == 1);
    AWAIT(world_children("/k/down") == 1); /* the write node is gone */
    CHECK_STR(world_inspect(r2, "kind"), "read");
    CHECK_STR(world_inspect(r2, "holders.0.owner"), dlock_hold_owner(w));
    CHECK_EQ_INT(atoll(world_inspect(r2, "holders.0.token")), token);
    dlock_hold *r = world_try(r2, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(w), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(w, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(w, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(r, NULL), DLOCK_OK);
    AWAIT(world_children("/k/down") == 0);
    dlock_hold_free(w);
    dlock_hold_free(r);
    dlock_lock_free(w1);
    dlock_lock_free(r2);
    teardown();
}

/* ---- semaphore ---- */

TEST(a_semaphore_gives_as_many_leases_as_it_has_permits)
{
    SETUP("");
    dlock_lock *s1 = world_lock(one, DLOCK_SEMAPHORE, "k/sem", "lock.permits=2");
    dlock_lock *s2 = world_lock(two, DLOCK_SEMAPHORE, "k/sem", "lock.permits=2");
    dlock_err code;
    dlock_hold *a = world_try(s1, 30000, &code), *b = world_try(s2, 30000, &code);
    CHECK(a && b);
    CHECK_EQ_INT(dlock_hold_token(a), 0);
    AWAIT(world_children("/k/sem/leases") == 2 && world_children("/k/sem/locks") == 0);
    dlock_hold *none = world_try(s1, 0, &code);
    CHECK(!none);
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    AWAIT(world_children("/k/sem/leases") == 2 && world_children("/k/sem/locks") == 0);
    dlock_op *op = dlock_lock_acquire_start(s2, 60000);
    AWAIT(world_children("/k/sem/leases") == 3);
    CHECK_STR(world_inspect(s1, "waiters"), "1");
    CHECK_STR(world_inspect(s1, "holders.0.owner"), dlock_hold_owner(a));
    CHECK_STR(world_inspect(s1, "holders.1.owner"), dlock_hold_owner(b));
    /* But for its node, it has none. */
    CHECK_STR(world_inspect(s1, "holders.2.owner"), "");
    CHECK_EQ_INT(dlock_hold_release(a, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_hold *c = dlock_op_take_hold(op);
    CHECK_EQ_INT(dlock_hold_release(b, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(c, NULL), DLOCK_OK);
    AWAIT(world_children("/k/sem/leases") == 0 && world_children("/k/sem/locks") == 0);
    dlock_op_free(op);
    dlock_hold_free(a);
    dlock_hold_free(b);
    dlock_hold_free(c);
    dlock_lock_free(s1);
    dlock_lock_free(s2);
    teardown();
}

TEST(a_semaphore_without_a_size_is_refused)
{
    SETUP("");
    dlock_lock *lock = NULL;
    dlock_error *err = NULL;
    CHECK_ERR(dlock_lock_new(one, DLOCK_SEMAPHORE, "k/sem0", NULL, &lock, &err),
              DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "lock.permits");
    dlock_error_free(err);
    teardown();
}

/* ---- elections ---- */

static void elect(const char *path, const char *mark, const char *more)
{
    char settings[100], name[40];
    snprintf(name, sizeof(name), "%s", path + 1);
    snprintf(settings, sizeof(settings), "lock.data=first %s", more);
    dlock_lock *e1 = world_lock(one, DLOCK_ELECTION, name, settings);
    snprintf(settings, sizeof(settings), "lock.data=second %s", more);
    dlock_lock *e2 = world_lock(two, DLOCK_ELECTION, name, settings);
    dlock_err code;
    dlock_hold *a = world_try(e1, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(world_children_with(path, mark), 1);
    CHECK_STR(world_inspect(e2, "holders.0.data"), "first");
    dlock_op *op = dlock_lock_acquire_start(e2, 60000);
    AWAIT(world_children(path) == 2);
    int64_t token = dlock_hold_token(a);
    CHECK_EQ_INT(dlock_hold_release(a, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    dlock_hold *b = dlock_op_take_hold(op);
    CHECK(b);
    CHECK_ALWAYS(dlock_hold_token(b) > token);
    CHECK_STR(world_inspect(e1, "holders.0.data"), "second");
    dlock_op_free(op);
    dlock_hold_free(a);
    dlock_hold_free(b);
    dlock_lock_free(e1);
    dlock_lock_free(e2);
}

TEST(leaders_of_a_latch_follow_each_other)
{
    SETUP("");
    elect("/k/latch", "latch-", "");
    teardown();
}

TEST(leaders_of_a_selector_follow_each_other)
{
    SETUP("");
    elect("/k/selector", "-lock-", "zookeeper.election=selector");
    teardown();
}

/* ---- looking, breaking, asking ---- */

TEST(inspect_says_who_holds_and_how_many_wait)
{
    SETUP("client.name=somebody");
    dlock_lock *l1 = world_lock(one, DLOCK_MUTEX, "k/look", "lock.data=what_for");
    dlock_lock *l2 = world_lock(two, DLOCK_MUTEX, "k/look", NULL);
    CHECK_STR(world_inspect(l2, "held"), "0");
    dlock_err code;
    dlock_hold *hold = world_try(l1, 30000, &code);
    CHECK(hold);
    dlock_op *op = dlock_lock_acquire_start(l2, 60000);
    AWAIT(world_children("/k/look") == 2);
    CHECK_STR(world_inspect(l2, "held"), "1");
    CHECK_STR(world_inspect(l2, "kind"), "mutex");
    CHECK_STR(world_inspect(l2, "holders.0.owner"), dlock_hold_owner(hold));
    CHECK_STR(world_inspect(l2, "holders.0.client"), "somebody");
    CHECK_STR(world_inspect(l2, "holders.0.data"), "what_for");
    CHECK_STR(world_inspect(l2, "waiters"), "1");
    CHECK_STR(world_inspect(l2, "layout"), "curator");
    dlock_op_free(op);
    dlock_hold_free(hold);
    dlock_lock_free(l1);
    dlock_lock_free(l2);
    teardown();
}

TEST(list_names_the_locks_below_a_beginning)
{
    SETUP("");
    dlock_hold *a = NULL, *b = NULL, *c = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(one, "l/orders/1", 30000, &a, &err), err);
    CHECK_OK(dlock_acquire(one, "l/orders/2", 30000, &b, &err), err);
    CHECK_OK(dlock_acquire(one, "l/other", 30000, &c, &err), err);
    dlock_info *info = NULL;
    CHECK_OK(dlock_client_list(two, "l/orders/", 100, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "locks.0.name"), "l/orders/1");
    CHECK_STR(dlock_info_get(info, "locks.1.name"), "l/orders/2");
    CHECK_STR(dlock_info_get(info, "locks.2.name"), NULL);
    dlock_info_free(info);
    dlock_hold_free(a);
    dlock_hold_free(b);
    dlock_hold_free(c);
    teardown();
}

TEST(a_leader_is_found_by_his_owner_though_his_node_says_another_name)
{
    SETUP("");
    static const char *const elections[] = {"latch", "selector"};
    for (size_t i = 0; i < sizeof(elections) / sizeof(*elections); i++) {
        char name[40], settings[80];
        snprintf(name, sizeof(name), "k/led-%s", elections[i]);
        snprintf(settings, sizeof(settings), "lock.data=me zookeeper.election=%s",
                 elections[i]);
        dlock_lock *l1 = world_lock(one, DLOCK_ELECTION, name, settings);
        dlock_lock *l2 = world_lock(two, DLOCK_ELECTION, name, settings);
        dlock_err code;
        dlock_hold *hold = world_try(l1, 30000, &code);
        CHECK(hold);
        CHECK_EQ_INT(dlock_lock_break(l2, "00000000-0000-4000-8000-000000000000:1", NULL),
                     DLOCK_ENOTHELD);
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_lock_break(l2, dlock_hold_owner(hold), NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
        dlock_hold_free(hold);
        dlock_lock_free(l1);
        dlock_lock_free(l2);
    }
    teardown();
}

TEST(break_takes_the_lock_from_the_named_owner_only_and_he_hears_of_it)
{
    SETUP("");
    dlock_lock *l1 = world_lock(one, DLOCK_MUTEX, "k/break", NULL);
    dlock_lock *l2 = world_lock(two, DLOCK_MUTEX, "k/break", NULL);
    dlock_err code;
    dlock_hold *hold = world_try(l1, 30000, &code);
    CHECK(hold);
    CHECK_EQ_INT(dlock_hold_notify(hold, 7), DLOCK_OK);
    CHECK_EQ_INT(dlock_lock_break(l2, "nobody:1", NULL), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_lock_break(l2, dlock_hold_owner(hold), NULL), DLOCK_OK);
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST);
    dlock_hold *next = world_try(l2, 30000, &code);
    CHECK(next);
    CHECK_ALWAYS(dlock_hold_token(next) > dlock_hold_token(hold));
    dlock_hold_free(hold);
    dlock_hold_free(next);
    dlock_lock_free(l1);
    dlock_lock_free(l2);
    teardown();
}

/* Whether an event of this kind and tag comes. */
static bool hears(dlock_client *client, dlock_what what, uint64_t tag)
{
    bool heard = false;
    for (dlock_event *event; (event = dlock_client_next_event(client));
         dlock_event_free(event))
        heard |= dlock_event_what(event) == what && dlock_event_tag(event) == tag;
    return heard;
}

TEST(a_holder_hears_that_its_lock_is_wanted_by_us_or_by_curators_revoker)
{
    SETUP("");
    dlock_lock *l1 = world_lock(one, DLOCK_MUTEX, "k/revoke", NULL);
    dlock_lock *l2 = world_lock(two, DLOCK_MUTEX, "k/revoke", NULL);
    dlock_err code;
    CHECK_EQ_INT(dlock_lock_revoke(l2, NULL), DLOCK_ENOTHELD);
    dlock_hold *hold = world_try(l1, 30000, &code);
    CHECK(hold);
    CHECK_EQ_INT(dlock_hold_notify(hold, 9), DLOCK_OK);
    CHECK_EQ_INT(dlock_lock_revoke(l2, NULL), DLOCK_OK);
    AWAIT(hears(one, DLOCK_EVENT_REVOKE, 9));
    char names[200], path[300];
    CHECK_EQ_INT(zookeeper_wire_children(&world_wire, "/k/revoke", names, sizeof(names)),
                 0);
    names[strcspn(names, " ")] = '\0';
    snprintf(path, sizeof(path), "/k/revoke/%s", names);
    CHECK_EQ_INT(zookeeper_wire_get(&world_wire, path, names, sizeof(names)), 0);
    CHECK_STR(names, "__REVOKE__");
    CHECK_EQ_INT(zookeeper_wire_set(&world_wire, path, "__REVOKE__"), 0);
    AWAIT(hears(one, DLOCK_EVENT_REVOKE, 9));
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    dlock_hold_free(hold);
    dlock_lock_free(l1);
    dlock_lock_free(l2);
    teardown();
}

TEST(whoever_only_waits_for_it_to_be_free_hears_of_it)
{
    SETUP("client.poll_ms=60000");
    dlock_lock *l1 = world_lock(one, DLOCK_MUTEX, "k/idle", NULL);
    dlock_lock *l2 = world_lock(two, DLOCK_MUTEX, "k/idle", NULL);
    dlock_err code;
    CHECK_EQ_INT(dlock_lock_wait_idle(l2, 0, NULL), DLOCK_OK);
    dlock_hold *hold = world_try(l1, 30000, &code);
    CHECK(hold);
    CHECK_EQ_INT(dlock_lock_wait_idle(l2, 0, NULL), DLOCK_EBUSY);
    dlock_op *op = dlock_lock_wait_idle_start(l2, 60000);
    CHECK_EQ_INT(dlock_op_wait(op, 300), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_op_free(op);
    dlock_hold_free(hold);
    dlock_lock_free(l1);
    dlock_lock_free(l2);
    teardown();
}

TEST(doctor_tells_of_rights_session_and_servers)
{
    SETUP("");
    dlock_info *info = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_client_doctor(one, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "verdict"), "1"); /* one server only */
    CHECK_CONTAINS(dlock_info_json(info), "\"rights\"");
    CHECK_CONTAINS(dlock_info_json(info), "\"lease\"");
    CHECK_CONTAINS(dlock_info_json(info), "\"servers\"");
    dlock_info_free(info);
    teardown();
}
