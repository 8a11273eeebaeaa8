/* Several permits of a semaphore at once: a lease for each, which come and go together. */
#include "world.h"

#include <stdio.h>
#include <string.h>

static dlock_client *one, *two, *three;

#define SETUP()                                                                          \
    do {                                                                                 \
        BEGIN();                                                                         \
        one = world_client("");                                                          \
        two = world_client("");                                                          \
        three = world_client("");                                                        \
        CHECK(one &&two &&three);                                                        \
    } while (0)

static void teardown(void)
{
    dlock_client_free(one);
    dlock_client_free(two);
    dlock_client_free(three);
}

/* Permits of a semaphore of 5. */
static dlock_lock *of(dlock_client *client, const char *name, int take)
{
    char settings[80];
    (void)snprintf(settings, sizeof(settings), "lock.permits=5 lock.take=%d", take);
    return world_lock(client, DLOCK_SEMAPHORE, name, settings);
}

static int leases(const char *name)
{
    char path[80];
    (void)snprintf(path, sizeof(path), "/%s/leases", name);
    return world_children_with(path, "lease-");
}

static int waiting(const char *name)
{
    char path[80];
    (void)snprintf(path, sizeof(path), "/%s/locks", name);
    return world_children(path);
}

/* The names of the leases, in their order; with a space behind each. */
static const char *lease(const char *name, int number)
{
    static char path[200];
    char folder[80], names[2000], *all[32], *save = NULL;
    int count = 0;
    (void)snprintf(folder, sizeof(folder), "/%s/leases", name);
    if (zookeeper_wire_children(&world_wire, folder, names, sizeof(names)) !=
        ZOOKEEPER_OK)
        return "";
    for (char *at = strtok_r(names, " ", &save); at; at = strtok_r(NULL, " ", &save)) {
        int place = count++;
        for (; place > 0 &&
               strcmp(all[place - 1] + strlen(at) - 10, at + strlen(at) - 10) > 0;
             place--)
            all[place] = all[place - 1];
        all[place] = at;
    }
    if (number >= count)
        return "";
    (void)snprintf(path, sizeof(path), "%s/%s", folder, all[number]);
    return path;
}

static bool wait_for(dlock_op *op)
{
    return dlock_op_wait(op, 30000) == DLOCK_OK && dlock_op_result(op) == DLOCK_OK;
}

TEST(several_are_taken_at_once_or_not_at_all)
{
    SETUP();
    dlock_lock *a = of(one, "p/once", 3), *b = of(two, "p/once", 3),
               *c = of(two, "p/once", 2);
    dlock_err code;
    dlock_hold *first = world_try(a, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(leases("p/once"), 3);
    CHECK_STR(world_inspect(b, "holders.0.owner"), dlock_hold_owner(first));
    CHECK_STR(world_inspect(b, "holders.0.count"), "3");
    CHECK_STR(world_inspect(b, "holders.1.owner"), "");
    CHECK_STR(world_inspect(b, "permits"), "5");
    CHECK_STR(world_inspect(b, "permits_free"), "2");
    CHECK(!world_try(b, 0, &code));
    CHECK_EQ_INT(code, DLOCK_EBUSY);
    CHECK(!world_try(b, 200, &code));
    CHECK_EQ_INT(code, DLOCK_ETIMEDOUT);
    AWAIT(leases("p/once") == 3 && waiting("p/once") == 0);
    dlock_hold *second = world_try(c, 0, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(leases("p/once"), 5);
    CHECK_STR(world_inspect(b, "holders.1.count"), "2");
    CHECK_STR(world_inspect(b, "permits_free"), "0");
    CHECK_EQ_INT(dlock_hold_verify(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(leases("p/once"), 2);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    CHECK_EQ_INT(leases("p/once"), 0);
    dlock_hold_free(first);
    dlock_hold_free(second);
    dlock_lock_free(a);
    dlock_lock_free(b);
    dlock_lock_free(c);
    teardown();
}

TEST(a_wish_for_many_is_not_starved_by_wishes_for_few)
{
    SETUP();
    dlock_lock *few = of(one, "p/many", 2), *all = of(two, "p/many", 5),
               *next = of(three, "p/many", 1);
    dlock_err code;
    dlock_hold *first = world_try(few, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    dlock_op *many = dlock_lock_acquire_start(all, 60000);
    AWAIT(leases("p/many") == 7); /* the head's are there already */
    CHECK_STR(world_inspect(few, "holders.0.count"), "2");
    CHECK_STR(world_inspect(few, "holders.1.count"), "");
    CHECK_STR(world_inspect(few, "permits_free"), "3");
    dlock_op *one_more = dlock_lock_acquire_start(next, 60000);
    AWAIT(waiting("p/many") == 2);
    CHECK_EQ_INT(dlock_op_wait(one_more, 200),
                 DLOCK_EPENDING); /* though three are free */
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK(wait_for(many));
    CHECK_EQ_INT(dlock_op_wait(one_more, 0), DLOCK_EPENDING);
    dlock_hold *second = dlock_op_take_hold(many);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    CHECK(wait_for(one_more));
    dlock_hold *third = dlock_op_take_hold(one_more);
    CHECK_EQ_INT(dlock_hold_release(third, NULL), DLOCK_OK);
    AWAIT(leases("p/many") == 0 && waiting("p/many") == 0);
    dlock_op_free(many);
    dlock_op_free(one_more);
    dlock_hold_free(first);
    dlock_hold_free(second);
    dlock_hold_free(third);
    dlock_lock_free(few);
    dlock_lock_free(all);
    dlock_lock_free(next);
    teardown();
}

TEST(a_wait_for_several_that_is_given_up_leaves_the_line_free)
{
    SETUP();
    dlock_lock *few = of(one, "p/up", 2), *all = of(two, "p/up", 5),
               *next = of(three, "p/up", 3);
    dlock_err code;
    dlock_hold *first = world_try(few, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    dlock_op *many = dlock_lock_acquire_start(all, 60000);
    AWAIT(leases("p/up") == 7);
    dlock_op *others = dlock_lock_acquire_start(next, 60000);
    AWAIT(waiting("p/up") == 2);
    dlock_op_cancel(many);
    CHECK(wait_for(others));
    dlock_hold *second = dlock_op_take_hold(others);
    AWAIT(leases("p/up") == 5 && waiting("p/up") == 0);
    dlock_op_free(many);
    dlock_op_free(others);
    dlock_hold_free(first);
    dlock_hold_free(second);
    AWAIT(leases("p/up") == 0);
    dlock_lock_free(few);
    dlock_lock_free(all);
    dlock_lock_free(next);
    teardown();
}

/* Whichever of them it is. */
TEST(who_has_lost_one_of_several_has_lost_them_all)
{
    SETUP();
    dlock_lock *lock = of(one, "p/lost", 3);
    for (int i = 0; i < 3; i++) {
        dlock_err code;
        dlock_hold *hold = world_try(lock, 30000, &code);
        CHECK_EQ_INT(code, DLOCK_OK);
        CHECK_EQ_INT(zookeeper_wire_delete(&world_wire, lease("p/lost", i)),
                     ZOOKEEPER_OK);
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
        AWAIT(leases("p/lost") == 0);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
        dlock_hold_free(hold);
        hold = world_try(lock, 30000, &code);
        CHECK_EQ_INT(zookeeper_wire_delete(&world_wire, lease("p/lost", i)),
                     ZOOKEEPER_OK);
        code = dlock_hold_release(hold, NULL);
        CHECK(code == DLOCK_ELOST || code == DLOCK_ENOTHELD);
        AWAIT(leases("p/lost") == 0);
        dlock_hold_free(hold);
    }
    dlock_lock_free(lock);
    teardown();
}

/* It stands at the head, and its leases aren't its own yet. */
TEST(who_waits_with_several_and_loses_one_makes_all_of_them_anew)
{
    SETUP();
    dlock_lock *few = of(one, "p/anew", 2), *many = of(two, "p/anew", 4);
    dlock_err code;
    dlock_hold *first = world_try(few, 30000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    dlock_op *op = dlock_lock_acquire_start(many, 60000);
    AWAIT(leases("p/anew") == 6);
    CHECK_EQ_INT(zookeeper_wire_delete(&world_wire, lease("p/anew", 4)), ZOOKEEPER_OK);
    CHECK_EQ_INT(dlock_hold_release(first, NULL), DLOCK_OK);
    CHECK(wait_for(op));
    dlock_hold *second = dlock_op_take_hold(op);
    AWAIT(leases("p/anew") == 4);
    CHECK_EQ_INT(dlock_hold_verify(second, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(second, NULL), DLOCK_OK);
    AWAIT(leases("p/anew") == 0 && waiting("p/anew") == 0);
    dlock_op_free(op);
    dlock_hold_free(first);
    dlock_hold_free(second);
    dlock_lock_free(few);
    dlock_lock_free(many);
    teardown();
}

TEST(a_break_takes_all_of_a_holders_whatever_names_him)
{
    SETUP();
    dlock_lock *lock = of(one, "p/break", 3), *other = of(two, "p/break", 2);
    dlock_err code;
    for (int how = 0; how < 3; how++) {
        dlock_hold *hold = world_try(lock, 30000, &code),
                   *rest = world_try(other, 30000, &code);
        CHECK(hold && rest);
        CHECK_EQ_INT(leases("p/break"), 5);
        const char *node = strrchr(lease("p/break", 1), '/') + 1;
        CHECK_EQ_INT(dlock_lock_break(other,
                                      how == 0   ? dlock_hold_owner(hold)
                                      : how == 1 ? node
                                                 : NULL,
                                      NULL),
                     DLOCK_OK);
        AWAIT(leases("p/break") == (how == 2 ? 0 : 2));
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
        CHECK_EQ_INT(dlock_hold_verify(rest, NULL), how == 2 ? DLOCK_ELOST : DLOCK_OK);
        dlock_hold_free(hold);
        dlock_hold_free(rest);
        AWAIT(leases("p/break") == 0);
    }
    dlock_lock_free(lock);
    dlock_lock_free(other);
    teardown();
}

/* What one has the others lack; whoever took one permit after the other would stand there for ever. */
TEST(two_that_want_most_of_them_dont_wait_for_each_other)
{
    SETUP();
    dlock_lock *a = of(one, "p/both", 4), *b = of(two, "p/both", 3),
               *c = of(three, "p/both", 5);
    dlock_lock *locks[] = {a, b, c};
    dlock_op *ops[3];
    for (int i = 0; i < 30; i++) {
        for (int k = 0; k < 3; k++)
            ops[k] = dlock_lock_acquire_start(locks[k], 60000);
        for (int k = 0; k < 3; k++) {
            int first = 0;
            while (dlock_op_wait(ops[first], 0) == DLOCK_EPENDING)
                first = (first + 1) % 3;
            CHECK_EQ_INT(dlock_op_result(ops[first]), DLOCK_OK);
            dlock_hold *hold = dlock_op_take_hold(ops[first]);
            for (int other = 0; other < 3; other++)
                CHECK_ALWAYS(other == first ||
                             dlock_op_wait(ops[other], 0) == DLOCK_EPENDING);
            CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
            dlock_hold_free(hold);
            dlock_op_free(ops[first]);
            ops[first] = dlock_lock_acquire_start(locks[first], 60000);
        }
        for (int k = 0; k < 3; k++) {
            dlock_op_cancel(ops[k]);
            dlock_op_free(ops[k]);
        }
    }
    AWAIT(leases("p/both") == 0 && waiting("p/both") == 0);
    for (int k = 0; k < 3; k++)
        dlock_lock_free(locks[k]);
    teardown();
}

TEST(very_many_are_one_request_or_are_refused)
{
    SETUP();
    dlock_err code;
    dlock_lock *lock =
        world_lock(one, DLOCK_SEMAPHORE, "p/very", "lock.permits=3000 lock.take=3000");
    dlock_hold *hold = world_try(lock, 60000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(world_children("/p/very/leases"), 3000);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_children("/p/very/leases"), 0);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    lock =
        world_lock(one, DLOCK_SEMAPHORE, "p/very", "lock.permits=30000 lock.take=30000");
    dlock_error *err = NULL;
    CHECK_ERR(dlock_lock_acquire(lock, 60000, &hold, &err), DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "lock.take=30000");
    AWAIT(waiting("p/very") == 0);
    dlock_error_free(err);
    dlock_lock_free(lock);
    teardown();
}
