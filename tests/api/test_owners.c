/* Who owns a grant: the calling thread, each _start for itself, or every acquire for itself; and
 * who shuts whom out. */
#include "world.h"

#include <string.h>

/* Tries once in a thread of its own, and gives back what it got. */
static dlock_err try_in_thread(dlock_client *client, dlock_lock *lock)
{
    WAITER(other);
    world_wait_start(&other, client, lock, 0);
    return world_wait_end(&other);
}

static dlock_err try_by_op(dlock_lock *lock, dlock_hold **ret)
{
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, 0);
    if (dlock_op_wait(op, patience_ms()) != DLOCK_OK)
        return DLOCK_EPENDING;
    dlock_hold *hold = dlock_op_take_hold(op);
    if (ret)
        *ret = hold;
    else
        dlock_hold_free(hold);
    return dlock_op_result(op);
}

TEST(a_thread_that_holds_it_gets_another_hold_of_the_same_grant_without_a_command)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, first, __func__, NULL);
    DLOCK_AUTO(dlock_hold) second = NULL;
    int64_t commands = api_stat(client, "commands");
    CHECK_OK(dlock_lock_acquire(lock, 0, &second, &err), err);
    CHECK_EQ_INT(api_stat(client, "commands"), commands);
    CHECK(first != second);
    CHECK_EQ_INT(dlock_hold_token(second), dlock_hold_token(first));
    CHECK_STR(dlock_hold_owner(second), dlock_hold_owner(first));
    CHECK_EQ_INT(api_stat(client, "grants"), 1);
    CHECK_EQ_INT(api_stat(client, "reentries"), 1);
}

TEST(reentry_works_through_another_handle_and_through_the_one_call_form)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, one, first, __func__, NULL);
    DLOCK_AUTO(dlock_lock) two = world_lock(client, __func__, "lock.ttl_ms=500");
    DLOCK_AUTO(dlock_hold) second = NULL;
    DLOCK_AUTO(dlock_hold) third = NULL;
    CHECK_OK(dlock_lock_acquire(two, 0, &second, &err), err);
    CHECK_OK(dlock_acquire(client, __func__, 0, &third, &err), err);
    CHECK_EQ_INT(dlock_hold_token(second), dlock_hold_token(first));
    CHECK_EQ_INT(dlock_hold_token(third), dlock_hold_token(first));
    /* ttl and renewal stay those of the handle that won the grant. */
    CHECK(dlock_hold_remaining_ms(second) > 10000);
}

TEST(another_thread_is_shut_out_also_through_the_same_handle)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_lock) other = world_lock(client, __func__, NULL);
    CHECK_EQ_INT(try_in_thread(client, lock), DLOCK_EBUSY);
    CHECK_EQ_INT(try_in_thread(client, other), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(try_in_thread(client, lock), DLOCK_OK);
}

TEST(two_clients_of_one_process_and_thread_shut_each_other_out)
{
    BEGIN();
    TWO_CLIENTS(one, two);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) other = NULL;
    CHECK_EQ_INT(dlock_acquire(one, __func__, 0, &hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(two, __func__, 0, &other, NULL), DLOCK_EBUSY);
    CHECK(other == NULL);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_acquire(two, __func__, 0, &other, NULL), DLOCK_OK);
    CHECK(dlock_hold_token(other) > dlock_hold_token(hold));
    CHECK(strcmp(dlock_hold_owner(other), dlock_hold_owner(hold)) != 0);
}

static void *release_it(void *hold)
{
    return (void *)(intptr_t)dlock_hold_release(hold, NULL);
}

static dlock_err release_in_thread(dlock_hold *hold)
{
    pthread_t thread;
    void *code;
    if (pthread_create(&thread, NULL, release_it, hold) != 0)
        return DLOCK_ENOMEM;
    pthread_join(thread, &code);
    return (dlock_err)(intptr_t)code;
}

TEST(the_holds_of_a_grant_end_in_any_order_from_any_thread_and_the_last_frees_the_lock)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    static const int orders[][3] = {
        {0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}};
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        DLOCK_AUTO(dlock_hold) a = world_take(lock);
        DLOCK_AUTO(dlock_hold) b = world_take(lock);
        DLOCK_AUTO(dlock_hold) c = world_take(lock);
        dlock_hold *holds[] = {a, b, c};
        CHECK_EQ_INT(dlock_hold_release(holds[orders[i][0]], NULL), DLOCK_OK);
        CHECK_EQ_INT(release_in_thread(holds[orders[i][1]]), DLOCK_OK);
        CHECK_EQ_INT(world_try(__func__), DLOCK_EBUSY);
        CHECK_EQ_INT(dlock_hold_check(holds[orders[i][0]]), DLOCK_ENOTHELD);
        CHECK_EQ_INT(dlock_hold_check(holds[orders[i][2]]), DLOCK_OK);
        CHECK_EQ_INT(release_in_thread(holds[orders[i][2]]), DLOCK_OK);
        CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
    }
}

TEST(each_start_is_an_owner_of_its_own)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    DLOCK_AUTO(dlock_hold) by_op = NULL;
    CHECK_EQ_INT(try_by_op(lock, &by_op), DLOCK_OK);
    CHECK_EQ_INT(try_by_op(lock, NULL), DLOCK_EBUSY);
    DLOCK_AUTO(dlock_hold) blocking = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(lock, 0, &blocking, NULL), DLOCK_EBUSY);
}

TEST(with_owner_thread_a_start_acts_for_its_calling_thread)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, "lock.owner=thread");
    DLOCK_AUTO(dlock_hold) first = world_take(lock);
    DLOCK_AUTO(dlock_hold) second = NULL;
    CHECK_EQ_INT(try_by_op(lock, &second), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_token(second), dlock_hold_token(first));
    CHECK_EQ_INT(try_in_thread(client, lock), DLOCK_EBUSY);
}

TEST(all_waits_of_one_thread_are_granted_together)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("lock.owner=thread");
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, NULL);
    DLOCK_AUTO(dlock_lock) theirs = world_lock(other, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(theirs);
    DLOCK_AUTO(dlock_op) one = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_op) two = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(two, 0), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(one, patience_ms()), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(two, patience_ms()), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) first = dlock_op_take_hold(one);
    DLOCK_AUTO(dlock_hold) second = dlock_op_take_hold(two);
    CHECK(first && second);
    CHECK_EQ_INT(dlock_hold_token(second), dlock_hold_token(first));
}

TEST(with_owner_none_even_the_same_thread_is_shut_out)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, "lock.owner=none");
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(lock, 0, &again, NULL), DLOCK_EBUSY);
    CHECK_EQ_INT(try_by_op(lock, NULL), DLOCK_EBUSY);
}

TEST(without_reentry_the_same_thread_is_told_of_the_deadlock_at_once)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "lock.reentrant=false");
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_ERR(dlock_lock_acquire(lock, DLOCK_FOREVER, &again, &err), DLOCK_EDEADLK, err);
    CHECK_CONTAINS(dlock_error_text(err), "lock.reentrant");
    CHECK_EQ_INT(dlock_lock_acquire(lock, 0, &again, NULL), DLOCK_EDEADLK);
    CHECK(again == NULL);
    CHECK_EQ_INT(try_in_thread(client, lock), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
}

TEST(handles_that_disagree_on_what_the_server_sees_conflict_at_acquire)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    DLOCK_AUTO(dlock_lock) other = world_lock(client, __func__, "lock.permits=3");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK(lock && other);
    CHECK_OK(dlock_lock_acquire(lock, 0, &hold, &err), err);
    CHECK_ERR(dlock_lock_acquire(other, 0, &theirs, &err), DLOCK_ECONFLICT, err);
    CHECK_CONTAINS(dlock_error_text(err), __func__);
    CHECK_EQ_INT(try_by_op(other, NULL), DLOCK_ECONFLICT);
}

static void *take_and_end(void *lock)
{
    return world_take(lock);
}

TEST(the_end_of_a_thread_does_nothing_to_its_grants_and_nobody_inherits_them)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    pthread_t thread;
    void *hold;
    CHECK(pthread_create(&thread, NULL, take_and_end, lock) == 0);
    pthread_join(thread, &hold);
    CHECK(hold != NULL);
    for (int i = 0; i < 8; i++) /* a new thread may look like the old one to the system */
        CHECK_EQ_INT(try_in_thread(client, lock), DLOCK_EBUSY);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    dlock_hold_free(hold);
    CHECK_EQ_INT(try_in_thread(client, lock), DLOCK_OK);
}

TEST(an_owner_with_a_lost_hold_has_to_release_it_before_it_contends_anew)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_hold) again = NULL;
    int64_t token = dlock_hold_token(hold);
    CHECK(world_lose(__func__, hold));
    CHECK_ERR(dlock_lock_acquire(lock, 0, &again, &err), DLOCK_ELOST, err);
    CHECK_ERR(dlock_lock_acquire(lock, DLOCK_FOREVER, &again, &err), DLOCK_ELOST, err);
    CHECK_EQ_INT(try_in_thread(client, lock),
                 DLOCK_OK); /* it isn't that thread's trouble */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    CHECK_OK(dlock_lock_acquire(lock, patience_ms(), &again, &err), err);
    CHECK(dlock_hold_token(again) > token);
}

TEST(with_owner_none_a_lost_hold_is_no_hindrance)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "lock.owner=none");
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK(world_lose(__func__, hold));
    CHECK_OK(dlock_lock_acquire(lock, patience_ms(), &again, &err), err);
    CHECK(dlock_hold_token(again) > dlock_hold_token(hold));
}
