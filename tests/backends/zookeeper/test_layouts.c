/* The layouts beside Curator's: kazoo's, both at once, one plain node, and home-made ones. */
#include "world.h"

#include <stdio.h>
#include <string.h>

static dlock_client *one, *two;

static bool set_up(const char *query)
{
    if (!world_ready())
        return false;
    one = world_client(query);
    two = world_client(query);
    return one && two;
}

static void teardown(void)
{
    dlock_client_free(one);
    dlock_client_free(two);
}

/* One has it, the other waits, gets it, and nothing stays. @p mark: what is in the nodes' names, @p
 * folder where they lie. */
static void passes_on(dlock_kind kind, const char *name, const char *folder,
                      const char *mark, int nodes)
{
    dlock_lock *l1 = world_lock(one, kind, name, NULL),
               *l2 = world_lock(two, kind, name, NULL);
    CHECK(l1 && l2);
    dlock_err code;
    dlock_hold *a = world_try(l1, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK(dlock_hold_token(a) > 0);
    AWAIT(world_children_with(folder, mark) == nodes);
    dlock_hold *none = world_try(l2, 0, &code);
    CHECK(!none);
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    AWAIT(world_children_with(folder, mark) == nodes);
    CHECK_STR(world_inspect(l2, "holders.0.owner"), dlock_hold_owner(a));
    dlock_op *op = dlock_lock_acquire_start(l2, 60000);
    CHECK_EQ_INT(dlock_op_wait(op, 200), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_verify(a, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(a, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_hold *b = dlock_op_take_hold(op);
    CHECK_ALWAYS(dlock_hold_token(b) > dlock_hold_token(a));
    CHECK_EQ_INT(dlock_hold_release(b, NULL), DLOCK_OK);
    AWAIT(world_children_with(folder, mark) == 0);
    dlock_op_free(op);
    dlock_hold_free(a);
    dlock_hold_free(b);
    dlock_lock_free(l1);
    dlock_lock_free(l2);
}

static void make(const char *path)
{
    (void)zookeeper_wire_create(&world_wire, path, "", ZOOKEEPER_PERSISTENT, NULL, 0);
}

/* ---- kazoo ---- */

TEST(kazoos_lock_is_32_digits_and_its_mark_below_lasting_parents)
{
    if (!set_up("zookeeper.layout=kazoo"))
        return;
    passes_on(DLOCK_MUTEX, "z/kazoo", "/z/kazoo", "__lock__", 1);
    char names[100];
    dlock_hold *hold = NULL;
    CHECK_EQ_INT(dlock_acquire(one, "z/kazoo", 30000, &hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(zookeeper_wire_children(&world_wire, "/z/kazoo", names, sizeof(names)),
                 0);
    CHECK_EQ_INT(strspn(names, "0123456789abcdef"), 32);
    CHECK(strncmp(names + 32, "__lock__", 8) == 0);
    dlock_hold_free(hold);
    teardown();
}

TEST(kazoos_readers_share_and_writers_wait)
{
    if (!set_up("zookeeper.layout=kazoo"))
        return;
    dlock_lock *r1 = world_lock(one, DLOCK_READ, "z/krw", NULL);
    dlock_lock *r2 = world_lock(two, DLOCK_READ, "z/krw", NULL);
    dlock_client *three = world_client("zookeeper.layout=kazoo");
    dlock_lock *w = world_lock(three, DLOCK_WRITE, "z/krw", NULL);
    dlock_err code;
    dlock_hold *a = world_try(r1, 30000, &code), *b = world_try(r2, 30000, &code);
    CHECK(a && b);
    CHECK_EQ_INT(world_children_with("/z/krw", "__rlock__"), 2);
    dlock_op *op = dlock_lock_acquire_start(w, 60000);
    AWAIT(world_children_with("/z/krw", "__lock__") == 1);
    CHECK_EQ_INT(dlock_hold_release(a, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, 100), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_release(b, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    dlock_hold *c = dlock_op_take_hold(op);
    CHECK(c);
    CHECK_EQ_INT(dlock_hold_downgrade(c, NULL), DLOCK_OK);
    dlock_hold_free(a);
    a = world_try(r1, 30000, &code);
    CHECK(a);
    dlock_op_free(op);
    dlock_hold_free(a);
    dlock_hold_free(b);
    dlock_hold_free(c);
    dlock_lock_free(r1);
    dlock_lock_free(r2);
    dlock_lock_free(w);
    dlock_client_free(three);
    teardown();
}

TEST(kazoos_elections_and_what_it_lacks)
{
    if (!set_up("zookeeper.layout=kazoo"))
        return;
    dlock_lock *e = world_lock(one, DLOCK_ELECTION, "z/kel", "lock.data=me");
    dlock_err code;
    dlock_hold *hold = world_try(e, 30000, &code);
    CHECK(hold);
    CHECK_STR(world_inspect(e, "holders.0.data"), "me");
    dlock_hold_free(hold);
    dlock_lock_free(e);
    dlock_lock *none = NULL;
    dlock_error *err = NULL;
    CHECK_ERR(dlock_lock_new(one, DLOCK_SEMAPHORE, "z/ksem", NULL, &none, &err),
              DLOCK_ENOTSUP, err);
    CHECK_CONTAINS(dlock_error_text(err), "kazoo");
    dlock_error_free(err);
    teardown();
}

/* ---- bridge ---- */

TEST(a_bridge_holds_a_node_of_each_and_waits_for_either)
{
    if (!set_up("zookeeper.layout=bridge"))
        return;
    passes_on(DLOCK_MUTEX, "z/bridge", "/z/bridge", "lock", 2);
    make("/z");
    make("/z/bridge2");
    static const char *const others[] = {
        "/z/bridge2/0123456789ab4def0123456789abcdef__lock__",
        "/z/bridge2/_c_01234567-89ab-4def-8123-456789abcdef-lock-"};
    dlock_lock *lock = world_lock(one, DLOCK_MUTEX, "z/bridge2", NULL);
    for (size_t i = 0; i < 2; i++) {
        char made[120];
        dlock_err code;
        CHECK_EQ_INT(zookeeper_wire_create(&world_wire, others[i], "",
                                           ZOOKEEPER_EPHEMERAL | ZOOKEEPER_SEQUENTIAL,
                                           made, sizeof(made)),
                     0);
        CHECK(!world_try(lock, 0, &code));
        CHECK_EQ_INT(code, DLOCK_EBUSY);
        dlock_op *op = dlock_lock_acquire_start(lock, 60000);
        CHECK_EQ_INT(dlock_op_wait(op, 200), DLOCK_EPENDING);
        CHECK_EQ_INT(zookeeper_wire_delete(&world_wire, made), 0);
        CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
        dlock_op_free(op);
        AWAIT(world_children("/z/bridge2") == 0);
    }
    dlock_lock_free(lock);
    teardown();
}

TEST(curators_layout_doesnt_mix_with_a_bridge)
{
    if (!set_up("zookeeper.layout=bridge"))
        return;
    dlock_client *other = world_client("");
    dlock_hold *hold = NULL, *none = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(one, "z/mixed", 30000, &hold, &err), err);
    CHECK_ERR(dlock_acquire(other, "z/mixed", 30000, &none, &err), DLOCK_ECONFLICT, err);
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_client_free(other);
    teardown();
}

/* ---- exclusive ---- */

TEST(an_exclusive_lock_is_one_plain_node_at_its_name)
{
    if (!set_up("zookeeper.layout=exclusive"))
        return;
    passes_on(DLOCK_MUTEX, "z/alone", "/z", "alone ", 1);
    AWAIT(world_children("/z/alone-dlock") == 0);
    make("/z/lasting");
    dlock_hold *none = NULL;
    dlock_error *err = NULL;
    CHECK_ERR(dlock_acquire(one, "z/lasting", 30000, &none, &err), DLOCK_ECONFLICT, err);
    CHECK_CONTAINS(dlock_error_text(err), "ephemeral");
    dlock_error_free(err);
    teardown();
}

TEST(an_exclusive_lock_waits_for_somebody_elses_plain_node)
{
    if (!set_up("zookeeper.layout=exclusive"))
        return;
    make("/z");
    CHECK_EQ_INT(zookeeper_wire_create(&world_wire, "/z/theirs", "x", ZOOKEEPER_EPHEMERAL,
                                       NULL, 0),
                 0);
    dlock_lock *lock = world_lock(one, DLOCK_MUTEX, "z/theirs", NULL);
    dlock_err code;
    CHECK(!world_try(lock, 0, &code));
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    CHECK_STR(world_inspect(lock, "held"), "1");
    dlock_op *op = dlock_lock_acquire_start(lock, 60000);
    CHECK_EQ_INT(dlock_op_wait(op, 200), DLOCK_EPENDING);
    CHECK_EQ_INT(zookeeper_wire_delete(&world_wire, "/z/theirs"), 0);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_op_free(op);
    dlock_lock_free(lock);
    teardown();
}

/* ---- pattern ---- */

TEST(many_names_under_one_parent_dont_meet)
{
    if (!set_up("zookeeper.layout=pattern&zookeeper.node=/z/many/%7Bname%7D%7Bseq%7D"))
        return;
    passes_on(DLOCK_MUTEX, "alpha", "/z/many", "alpha0", 1);
    dlock_hold *a = NULL, *b = NULL, *c = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(one, "alpha", 30000, &a, &err), err);
    CHECK_OK(dlock_acquire(two, "alpha1", 30000, &b, &err), err);
    CHECK_OK(dlock_acquire(two, "alp", 30000, &c, &err), err);
    CHECK_EQ_INT(world_children("/z/many"), 3);
    dlock_hold_free(a);
    dlock_hold_free(b);
    dlock_hold_free(c);
    teardown();
}

TEST(a_parent_for_each_name_with_bare_numbers)
{
    if (!set_up("zookeeper.layout=pattern&zookeeper.node=/z/%7Bname%7D/lock%7Bseq%7D"))
        return;
    passes_on(DLOCK_MUTEX, "bare/it", "/z/bare/it", "lock", 1);
    teardown();
}

TEST(session_and_uuid_may_stand_before_the_number)
{
    if (!set_up("zookeeper.layout=pattern&zookeeper.node=%7Bname%7D/"
                "lock-%7Bsession%7D-%7Bseq%7D"))
        return;
    passes_on(DLOCK_MUTEX, "z/session", "/z/session", "lock-", 1);
    teardown();
    if (!set_up(
            "zookeeper.layout=pattern&zookeeper.node=%7Bname%7D/x-%7Buuid%7D-%7Bseq%7D"))
        return;
    passes_on(DLOCK_MUTEX, "z/uuid", "/z/uuid", "x-", 1);
    teardown();
}

TEST(the_sides_of_a_home_made_read_write_lock)
{
    if (!set_up(
            "zookeeper.layout=pattern&zookeeper.node=%7Bname%7D/%7Bside%7D-%7Bseq%7D"))
        return;
    dlock_lock *r1 = world_lock(one, DLOCK_READ, "z/sides", NULL);
    dlock_lock *r2 = world_lock(two, DLOCK_READ, "z/sides", NULL);
    dlock_client *three = world_client(
        "zookeeper.layout=pattern&zookeeper.node=%7Bname%7D/%7Bside%7D-%7Bseq%7D");
    dlock_lock *w = world_lock(three, DLOCK_WRITE, "z/sides", NULL);
    dlock_err code;
    dlock_hold *a = world_try(r1, 30000, &code), *b = world_try(r2, 30000, &code);
    CHECK(a && b);
    CHECK_EQ_INT(world_children_with("/z/sides", "R-"), 2);
    CHECK(!world_try(w, 0, &code));
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    dlock_op *op = dlock_lock_acquire_start(w, 60000);
    AWAIT(world_children_with("/z/sides", "W-") == 1);
    CHECK_EQ_INT(dlock_hold_release(a, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(b, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    dlock_hold *c = dlock_op_take_hold(op);
    CHECK(c);
    dlock_hold_free(a);
    a = world_try(r1, 0, &code);
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(c, NULL), DLOCK_OK);
    AWAIT(world_children("/z/sides") == 0);
    dlock_op_free(op);
    dlock_hold_free(b);
    dlock_hold_free(c);
    dlock_lock_free(r1);
    dlock_lock_free(r2);
    dlock_lock_free(w);
    dlock_client_free(three);
    teardown();
}

TEST(patterns_that_make_no_sense_are_refused_with_the_reason)
{
    if (!set_up(""))
        return;
    static const struct {
        const char *node, *why;
    } bad[] = {
        {"", "must be set"},
        {"/a/{seq}x{name}", "end with {seq}"},
        {"/a/lock-{seq}", "{name}"},
        {"/{session}/{name}{seq}", "last part"},
        {"/a/{name}-{session}x{uuid}-{seq}", "side by side"},
        {"/a/{name}{side}-{seq}", "{side}"},
        {"/a/../{name}{seq}", "relative"},
        {"../{name}{seq}", "relative"},
        {"/a//{name}{seq}", "empty part"},
        {"/zookeeper/{name}{seq}", "servers"},
        {"zookeeper/{name}{seq}", "servers"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        dlock_conf *conf = dlock_conf_new();
        dlock_lock *lock = NULL;
        dlock_error *err = NULL;
        CHECK_OK(dlock_conf_set(conf, "zookeeper.layout", "pattern", &err), err);
        CHECK_OK(dlock_conf_set(conf, "zookeeper.node", bad[i].node, &err), err);
        CHECK_ERR(dlock_lock_new(one, DLOCK_MUTEX, "x", conf, &lock, &err), DLOCK_EINVAL,
                  err);
        CHECK_CONTAINS(dlock_error_text(err), bad[i].why);
        dlock_error_free(err);
        dlock_conf_free(conf);
    }
    teardown();
}
