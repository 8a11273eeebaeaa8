/* Conditions: which locks can be given back for one, what is left when that fails, and who may signal. */
#include "party.h"

#include <stdio.h>
#include <string.h>

/* ---- the lock ---- */

/* It fails with this code, and the lock is as it was. */
static void refused(dlock_cond *cond, dlock_hold *hold, dlock_err expected)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) again = NULL;
    dlock_err before = dlock_hold_check(hold);
    CHECK_ERR(dlock_cond_wait(cond, hold, DLOCK_FOREVER, &again, &err), expected, err);
    CHECK(!again);
    CHECK(dlock_error_text(err)[0]);
    CHECK_EQ_INT(dlock_hold_check(hold), before);
}

TEST(what_fails_before_the_lock_was_given_back_leaves_it_held)
{
    BEGIN_HERE();
    party one = {0}, other = {0};
    come(&one, __func__, NULL);
    come(&other, __func__, NULL);
    one.hold = world_take(one.lock);
    refused(other.cond, one.hold, DLOCK_EINVAL);
    DLOCK_AUTO(dlock_hold) twice = world_take(one.lock);
    refused(one.cond, one.hold, DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(twice, NULL), DLOCK_OK);
    refused(one.cond, twice, DLOCK_ENOTHELD);
    go(&one);
    go(&other);
}

TEST(a_lock_of_the_condition_s_name_is_in_the_way_or_apart)
{
    BEGIN_HERE();
    party one = {0}, other = {0};
    come(&one, __func__, NULL);
    come(&other, __func__, NULL);
    DLOCK_AUTO(dlock_lock) namesake = namesake_of(other.client, __func__);
    DLOCK_AUTO(dlock_hold) held = world_take(namesake);
    if (world_is("zookeeper") || world_is("etcd")) {
        one.op = dlock_cond_wait_start(one.cond, NULL, DLOCK_FOREVER);
        AWAIT(signal_by(&other, 1) == 1);
        ENDS(one.op, DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_check(held), DLOCK_OK);
    } else {
        one.hold = world_take(one.lock);
        refused(one.cond, one.hold, DLOCK_ECONFLICT);
        CHECK_EQ_INT(dlock_cond_signal(one.cond, 1, NULL, NULL, NULL), DLOCK_ECONFLICT);
        CHECK_EQ_INT(dlock_hold_check(one.hold), DLOCK_OK);
    }
    go(&one);
    go(&other);
}

TEST(only_what_one_holds_alone_can_be_given_back)
{
    BEGIN_HERE();
    party one = {0};
    come(&one, __func__, NULL);
    const dlock_kind kinds[] = {DLOCK_READ, DLOCK_SEMAPHORE, DLOCK_ELECTION};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char name[128];
        (void)snprintf(name, sizeof(name), "%s-%d", __func__, (int)kinds[i]);
        DLOCK_AUTO(dlock_lock)
        lock = api_lock(one.client, kinds[i], name, "lock.permits=1");
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        refused(one.cond, hold, DLOCK_ENOTSUP);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
    DLOCK_AUTO(dlock_lock) several = NULL;
    CHECK_EQ_INT(dlock_multi_new(&one.lock, 1, NULL, &several, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) all = world_take(several);
    refused(one.cond, all, DLOCK_ENOTSUP);
    CHECK_EQ_INT(dlock_hold_release(all, NULL), DLOCK_OK);
    go(&one);
}

TEST(a_writer_waits_as_a_mutex_does)
{
    BEGIN_HERE();
    party one = {0}, other = {0};
    come(&one, __func__, NULL);
    come(&other, __func__, NULL);
    DLOCK_AUTO(dlock_lock) writes = api_lock(one.client, DLOCK_WRITE, "writer", NULL);
    DLOCK_AUTO(dlock_lock) reads = api_lock(other.client, DLOCK_READ, "writer", NULL);
    one.hold = world_take(writes);
    one.op = dlock_cond_wait_start(one.cond, one.hold, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_hold) read = world_take(reads);
    CHECK_EQ_INT(signal_by(&other, 1), 1);
    CHECK(waits(&one));
    CHECK_EQ_INT(dlock_hold_release(read, NULL), DLOCK_OK);
    CHECK(ends_held(&one, DLOCK_OK));
    go(&one);
    go(&other);
}

TEST(a_lock_that_was_lost_ends_the_wait)
{
    BEGIN_HERE();
    party one = {0}, other = {0};
    come(&one, __func__, NULL);
    come(&other, __func__, NULL);
    one.hold = world_take(one.lock);
    CHECK_OK(world_evict(__func__), NULL); /* which nobody here has heard of */
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_cond_wait(one.cond, one.hold, DLOCK_FOREVER, &again, NULL),
                 DLOCK_ELOST);
    CHECK(!again);
    AWAIT(signal_by(&other, 1) == 0); /* it left the line */
    go(&one);
    go(&other);
}

/* The thread is the owner again, not the op. */
TEST(the_lock_is_the_thread_s_again)
{
    BEGIN_HERE();
    party one = {0};
    come(&one, __func__, NULL);
    one.hold = world_take(one.lock);
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_cond_wait(one.cond, one.hold, 1, &again, NULL), DLOCK_ETIMEDOUT);
    DLOCK_AUTO(dlock_hold) twice = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(one.lock, 0, &twice, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_token(twice), dlock_hold_token(again));
    go(&one);
}

TEST(closing_the_client_ends_a_wait)
{
    BEGIN_HERE();
    party one = {0};
    come(&one, __func__, NULL);
    line_up(&one, DLOCK_FOREVER);
    close_waiter(&one);
    CHECK(!dlock_op_take_hold(one.op));
    CHECK_EQ_INT(dlock_cond_signal(one.cond, 1, NULL, NULL, NULL), DLOCK_ECLOSED);
    go(&one);
}

/* ---- who may signal ---- */

TEST(with_cond_owner_a_signal_brings_a_valid_hold)
{
    BEGIN_HERE();
    party one = {0};
    come(&one, __func__, NULL);
    DLOCK_AUTO(dlock_cond) owned = condition_of(one.client, __func__, "cond.owner=true");
    CHECK_EQ_INT(dlock_cond_signal(owned, 1, NULL, NULL, NULL), DLOCK_ENOTHELD);
    one.hold = world_take(one.lock);
    CHECK_EQ_INT(dlock_cond_signal(owned, 1, one.hold, NULL, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(one.hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_cond_broadcast(owned, one.hold, NULL, NULL), DLOCK_ENOTHELD);
    go(&one);
}

TEST(what_isn_t_there_is_refused)
{
    BEGIN_HERE();
    party one = {0};
    come(&one, __func__, NULL);
    DLOCK_AUTO(dlock_cond) none = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    dlock_hold *hold = NULL;
    CHECK_EQ_INT(dlock_cond_new(one.client, "", NULL, &none, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_cond_new(NULL, "c", NULL, &none, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_cond_wait(NULL, NULL, 1, &hold, NULL), DLOCK_EINVAL);
    one.hold = world_take(one.lock);
    CHECK_EQ_INT(dlock_cond_wait(one.cond, one.hold, -2, &hold, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_cond_wait(one.cond, one.hold, 1, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_cond_signal(one.cond, 0, NULL, NULL, NULL), DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_cond_signal(NULL, 1, NULL, NULL, NULL), DLOCK_EINVAL);
    /* It is no kind of lock. */
    CHECK_EQ_INT(dlock_lock_new(one.client, (dlock_kind)(DLOCK_ELECTION + 1), "c", NULL,
                                &lock, NULL),
                 DLOCK_EINVAL);
    dlock_cond_free(NULL);
    go(&one);
}

static void use_inherited(void *arg)
{
    party *one = arg;
    dlock_cond *cond = NULL;
    dlock_hold *hold = NULL;
    CHECK_EQ_INT(dlock_cond_new(one->client, "c", NULL, &cond, NULL), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_cond_wait(one->cond, one->hold, 1, &hold, NULL), DLOCK_EFORKED);
    CHECK_EQ_INT(dlock_cond_signal(one->cond, 1, NULL, NULL, NULL), DLOCK_EFORKED);
    dlock_cond_free(one->cond);
}

TEST(a_fork_s_child_can_t_use_it)
{
    BEGIN_HERE();
    party one = {0};
    come(&one, __func__, NULL);
    one.hold = world_take(one.lock);
    CHECK_EQ_INT(world_child(use_inherited, &one), 0);
    CHECK_EQ_INT(dlock_hold_check(one.hold), DLOCK_OK);
    go(&one);
}

/* ---- where there is none ---- */

TEST(a_service_without_conditions_says_why)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    if (api_has(client, "kinds.condition"))
        LEAVE_OUT("it has them");
    DLOCK_AUTO(dlock_cond) cond = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_EQ_INT(dlock_cond_new(client, "c", NULL, &cond, &err), DLOCK_ENOTSUP);
    CHECK_CONTAINS(dlock_error_text(err), "has no conditions");
    CHECK(strlen(strstr(dlock_error_text(err), "conditions")) > strlen("conditions"));
}
