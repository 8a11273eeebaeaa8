/* How long a wait lasts, what it ends with, and who comes next. */
#include "world.h"

#include <string.h>

#define QUEUE 6

TEST(a_wait_of_zero_tries_once_and_says_who_is_in_the_way_of_what)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_OK(dlock_acquire(client, __func__, 0, &hold, &err), err);
    CHECK_ERR(dlock_acquire(other, __func__, 0, &theirs, &err), DLOCK_EBUSY, err);
    CHECK_EQ_INT(dlock_error_code(err), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_error_retriable(err), 1);
    CHECK_CONTAINS(dlock_error_text(err), __func__);
    CHECK(theirs == NULL);
}

TEST(a_timed_wait_ends_etimedout_and_not_before_its_time)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    int64_t begin = now_ms();
    CHECK_ERR(dlock_acquire(other, __func__, SHORT_MS, &theirs, &err), DLOCK_ETIMEDOUT,
              err);
    CHECK(now_ms() - begin >= SHORT_MS - 1); /* both ends are cut to whole ms */
    CHECK_EQ_INT(dlock_error_code(err), DLOCK_ETIMEDOUT);
    CHECK_EQ_INT(dlock_error_retriable(err), 1);
    CHECK(theirs == NULL);
    /* Of one client, too, and what gave up leaves nothing behind. */
    WAITER(thread);
    world_wait_start(&thread, client, lock, SHORT_MS);
    CHECK_EQ_INT(world_wait_end(&thread), DLOCK_ETIMEDOUT);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
}

TEST(a_wait_without_limit_gets_it_when_it_is_released)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    WAITER(same);
    WAITER(foreign);
    world_wait_start(&same, client, lock, DLOCK_FOREVER);
    world_wait_start(&foreign, other, theirs, INT64_MAX);
    AWAIT(world_asleep(same.tid) && world_asleep(foreign.tid));
    CHECK(!same.over && !foreign.over);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    AWAIT(same.over || foreign.over);
    world_waiter *first = same.over ? &same : &foreign;
    world_waiter *second = same.over ? &foreign : &same;
    CHECK_EQ_INT(world_wait_end(first), DLOCK_OK);
    CHECK(dlock_hold_token(first->hold) > dlock_hold_token(hold));
    CHECK(!second->over);
    CHECK_EQ_INT(dlock_hold_release(first->hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_wait_end(second), DLOCK_OK);
    CHECK(dlock_hold_token(second->hold) > dlock_hold_token(first->hold));
}

static void drop_all(world_waiter (*waiters)[QUEUE])
{
    for (int i = 0; i < QUEUE; i++)
        world_waiter_drop(&(*waiters)[i]);
}

TEST(threads_of_one_client_are_served_in_the_order_in_which_they_came)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    world_waiter waiters[QUEUE] __attribute__((cleanup(drop_all))) = {{0}};
    for (int i = 0; i < QUEUE; i++) {
        world_wait_start(&waiters[i], client, lock, DLOCK_FOREVER);
        AWAIT(world_asleep(waiters[i].tid));
    }
    dlock_hold *last = hold;
    for (int i = 0; i < QUEUE; i++) {
        CHECK_EQ_INT(dlock_hold_release(last, NULL), DLOCK_OK);
        AWAIT(waiters[i].over);
        for (int j = i + 1; j < QUEUE; j++)
            CHECK(!waiters[j].over);
        CHECK_EQ_INT(world_wait_end(&waiters[i]), DLOCK_OK);
        CHECK(dlock_hold_token(waiters[i].hold) > dlock_hold_token(last));
        last = waiters[i].hold;
    }
}

TEST(ops_of_one_client_are_served_in_the_order_in_which_they_were_started)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    dlock_op *ops[50];
    for (int i = 0; i < 50; i++)
        ops[i] = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ_INT(dlock_op_wait(ops[i], patience_ms()), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(ops[i]), DLOCK_OK);
        for (int j = i + 1; j < 50; j++)
            CHECK_EQ_INT(dlock_op_result(ops[j]), DLOCK_EPENDING);
        dlock_op_free(ops[i]); /* releases the hold that nobody took */
    }
}

TEST(clients_are_served_in_the_order_in_which_they_came)
{
    BEGIN();
    if (!world_is_fair())
        LEAVE_OUT("this lock is for whoever comes first after a release");
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    dlock_client *clients[QUEUE];
    dlock_lock *locks[QUEUE];
    dlock_op *ops[QUEUE];
    for (int i = 0; i < QUEUE; i++) {
        clients[i] = world_client(NULL);
        locks[i] = world_lock(clients[i], __func__, NULL);
        ops[i] = dlock_lock_acquire_start(locks[i], DLOCK_FOREVER);
        AWAIT(world_seen(lock, "waiters") == i + 1);
    }
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    for (int i = 0; i < QUEUE; i++) {
        CHECK_EQ_INT(dlock_op_wait(ops[i], patience_ms()), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(ops[i]), DLOCK_OK);
        for (int j = i + 1; j < QUEUE; j++)
            CHECK_EQ_INT(dlock_op_result(ops[j]), DLOCK_EPENDING);
        dlock_op_free(ops[i]);
        dlock_lock_free(locks[i]);
        dlock_client_free(clients[i]);
    }
}

TEST(who_gives_up_waiting_keeps_nobody_else_waiting)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    CLIENT_WITH_LOCK(other, theirs, __func__, NULL);
    DLOCK_AUTO(dlock_op) first = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_op) second = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_op) third = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    dlock_op_cancel(first);
    dlock_op_cancel(second);
    CHECK_EQ_INT(dlock_op_wait(first, patience_ms()), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    ENDS(third, DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(second), DLOCK_ECANCELED);
}

TEST(who_tries_once_does_not_pass_those_who_wait)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    CLIENT_WITH_HOLD(other, theirs, hold, __func__, NULL);
    DLOCK_AUTO(dlock_hold) once = NULL;
    DLOCK_AUTO(dlock_op) waits = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_lock_acquire(lock, 0, &once, NULL), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_op_result(waits), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(waits, patience_ms()), DLOCK_OK);
}

TEST(failure_replaces_the_error_and_writes_no_hold_and_success_clears_it)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client("lock.owner=none");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_hold *untouched = (dlock_hold *)&err;
    CHECK_ERR(dlock_acquire(client, "", 0, &untouched, &err), DLOCK_EINVAL, err);
    CHECK_OK(dlock_acquire(client, __func__, 0, &hold, &err), err);
    CHECK(err == NULL);
    CHECK_ERR(dlock_acquire(client, __func__, 0, &untouched, &err), DLOCK_EBUSY, err);
    CHECK_ERR(dlock_acquire(client, __func__, SHORT_MS, &untouched, &err),
              DLOCK_ETIMEDOUT, err);
    CHECK_EQ_INT(dlock_error_code(err), DLOCK_ETIMEDOUT);
    CHECK(untouched == (dlock_hold *)&err);
    CHECK_EQ_INT(dlock_acquire(client, __func__, 0, &untouched, NULL), DLOCK_EBUSY);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK(err == NULL);
}

TEST(with_the_server_away_a_try_says_so_at_once_and_a_wait_goes_to_its_end)
{
    if (!strstr(dlock_backends(), "redis"))
        LEAVE_OUT("this build has no backend with a server");
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_conf) conf = api_conf("client.lazy=true");
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    /* Nobody listens on the port that was given to nobody. */
    CHECK_OK(dlock_client_open("redis://127.0.0.1:1", conf, &client, &err), err);
    CHECK_ERR(dlock_acquire(client, __func__, 0, &hold, &err), DLOCK_EUNAVAIL, err);
    CHECK_EQ_INT(dlock_error_retriable(err), 1);
    int64_t begin = now_ms();
    CHECK_ERR(dlock_acquire(client, __func__, 150, &hold, &err), DLOCK_EUNAVAIL, err);
    CHECK(now_ms() - begin >= 149);
    CHECK_CONTAINS(dlock_error_text(err), "127.0.0.1");
    WAITER(forever);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, NULL);
    world_wait_start(&forever, client, lock, DLOCK_FOREVER);
    AWAIT(world_asleep(forever.tid));
    CHECK(!forever.over);
    CHECK_OK(dlock_client_close(client, &err), err);
    CHECK_EQ_INT(world_wait_end(&forever), DLOCK_ECLOSED);
}
