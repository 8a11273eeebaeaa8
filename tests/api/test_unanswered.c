/* A server that takes requests and answers none: what is unknown is called so, nothing that was
 * known is forgotten, and what was left behind is cleaned up when the answers come. */
#include "world.h"

#include "harness/redis_server.h"

static void thaw(int *unused)
{
    (void)unused;
    server_thaw(world_redis()->pid);
}

/* Frozen to the end of the scope at the latest. */
#define FREEZE()                                                                         \
    int frozen __attribute__((cleanup(thaw))) = 0;                                       \
    (void)frozen;                                                                        \
    server_freeze(world_redis()->pid)

TEST(an_unanswered_acquire_is_unknown_and_leaves_nothing_behind)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(client, lock, __func__, "client.timeout_ms=100");
    DLOCK_AUTO(dlock_hold) once = NULL;
    DLOCK_AUTO(dlock_hold) timed = NULL;
    {
        FREEZE();
        CHECK_ERR(dlock_lock_acquire(lock, 0, &once, &err), DLOCK_EUNKNOWN, err);
        CHECK_EQ_INT(dlock_error_retriable(err), 1);
        CHECK_CONTAINS(dlock_error_text(err), __func__);
        int64_t begin = now_ms();
        dlock_err code = dlock_lock_acquire(lock, 250, &timed, &err);
        CHECK(code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL);
        CHECK(now_ms() - begin >= 249);
        CHECK(!once && !timed);
    }
    AWAIT(world_try(__func__) ==
          DLOCK_OK); /* long before its lease of 30 s would be over */
}

TEST(a_wait_whose_place_was_not_confirmed_in_time_has_run_out)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    dlock_cond *cond = NULL;
    CHECK_EQ_INT(dlock_cond_new(client, "never signalled", NULL, &cond, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_op) op = NULL;
    {
        FREEZE();
        op = dlock_cond_wait_start(cond, hold, 1);
        CHECK_EQ_INT(dlock_op_wait(op, 20), DLOCK_EPENDING); /* it gives the lock back */
    }
    dlock_cond_free(cond);
    ENDS(op, DLOCK_ETIMEDOUT);
    DLOCK_AUTO(dlock_hold) again = dlock_op_take_hold(op);
    CHECK_EQ_INT(dlock_hold_check(again), DLOCK_OK);
}

TEST(a_cancel_needs_no_answer)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    {
        FREEZE();
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_op_wait(op, 20), DLOCK_EPENDING);
        dlock_op_cancel(op);
        CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECANCELED);
    }
    AWAIT(world_try(__func__) == DLOCK_OK);
}

TEST(unanswered_verify_and_extend_change_nothing)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__,
                     "client.timeout_ms=100 lock.renew=off");
    {
        FREEZE();
        CHECK_ERR(dlock_hold_verify(hold, &err), DLOCK_EUNKNOWN, err);
        dlock_err code =
            dlock_hold_extend(hold, 60000, &err); /* it may be known dead by now */
        CHECK(code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_HELD);
        int64_t left = dlock_hold_remaining_ms(hold);
        CHECK(left > 0 && left <= 30000);
    }
    int64_t end = now_ms() + patience_ms();
    while (dlock_hold_verify(hold, NULL) != DLOCK_OK && now_ms() < end)
        nap_ms(1);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
}

TEST(an_unanswered_release_is_unknown_and_is_repeated_until_it_is_confirmed)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, "client.timeout_ms=100");
    {
        FREEZE();
        CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_EUNKNOWN, err);
        CHECK_EQ_INT(dlock_hold_check(hold),
                     DLOCK_ENOTHELD); /* not ours whatever the answer */
        CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_ENOTHELD, err);
        CHECK_EQ_INT(api_stat(client, "unconfirmed"), 1);
    }
    AWAIT(api_stat(client, "unconfirmed") == 0);
    CHECK_EQ_INT(world_try(__func__), DLOCK_OK);
}

TEST(a_silent_server_makes_a_hold_suspect_and_its_answer_makes_it_held_again)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__,
                     "lock.ttl_ms=3000 client.timeout_ms=300");
    CHECK_EQ_INT(dlock_hold_notify(hold, 8), DLOCK_OK);
    {
        FREEZE();
        DLOCK_AUTO(dlock_event) suspect = world_event(client, DLOCK_EVENT_SUSPECT);
        CHECK_EQ_INT(dlock_event_tag(suspect), 8);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_SUSPECT);
    }
    DLOCK_AUTO(dlock_event) held = world_event(client, DLOCK_EVENT_HELD);
    CHECK_EQ_INT(dlock_event_tag(held), 8);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
}

TEST(a_silent_server_ends_the_validity_on_time_and_frees_the_waits_of_others)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__,
                     "lock.ttl_ms=300 client.timeout_ms=100");
    {
        FREEZE();
        int64_t begin = now_ms();
        while (dlock_hold_check(hold) == DLOCK_OK && now_ms() - begin < patience_ms())
            CHECK(dlock_hold_remaining_ms(hold) <= 300);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    }
    AWAIT(world_try(__func__) == DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
}
