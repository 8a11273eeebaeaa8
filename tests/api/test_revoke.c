/* Asking for a lock: its holders hear of it, as often as they are asked, and decide. */
#include "world.h"

#define TAG                77

#define CAN_REVOKE(client) NEED(client, "revoke", "nobody can be asked for a lock here")

/* Somebody's REVOKE event has come, with this tag. */
static bool hears(dlock_client *client, uint64_t tag)
{
    DLOCK_AUTO(dlock_event) event = world_event(client, DLOCK_EVENT_REVOKE);
    return event && dlock_event_tag(event) == tag;
}

TEST(a_holder_that_listens_hears_it_and_keeps_the_lock)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(holder, lock, __func__, NULL);
    CLIENT_WITH_LOCK(other, wanted, __func__, NULL);
    CAN_REVOKE(holder);
    CHECK(dlock_client_event_fd(holder) >= 0);
    CHECK_ERR(dlock_lock_revoke(wanted, &err), DLOCK_ENOTHELD, err);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(dlock_hold_notify(hold, TAG), DLOCK_OK);
    AWAIT(dlock_lock_revoke(wanted, NULL) == DLOCK_OK);
    CHECK(hears(holder, TAG));
    CHECK_OK(dlock_lock_revoke(wanted, &err), err);
    CHECK(hears(holder, TAG));
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_EQ_INT(world_try(__func__), DLOCK_EBUSY);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_ERR(dlock_lock_revoke(wanted, &err), DLOCK_ENOTHELD, err);
}

TEST(who_gets_the_lock_later_hears_nothing_of_what_was_asked_before)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(holder, lock, __func__, NULL);
    CLIENT_WITH_LOCK(other, wanted, __func__, NULL);
    CAN_REVOKE(holder);
    CHECK(dlock_client_event_fd(holder) >= 0);
    DLOCK_AUTO(dlock_hold) first = world_take(lock);
    CHECK_EQ_INT(dlock_hold_notify(first, TAG), DLOCK_OK);
    AWAIT(dlock_lock_revoke(wanted, NULL) == DLOCK_OK);
    CHECK(hears(holder, TAG));
    CHECK_OK(dlock_hold_release(first, &err), err);
    DLOCK_AUTO(dlock_hold) second = world_take(lock);
    CHECK_EQ_INT(dlock_hold_notify(second, TAG + 1), DLOCK_OK);
    AWAIT(dlock_lock_revoke(wanted, NULL) == DLOCK_OK);
    CHECK(hears(holder, TAG + 1)); /* and nothing before it */
}

TEST(the_holder_may_be_another_thread_of_the_one_who_asks)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    CAN_REVOKE(client);
    CHECK(dlock_client_event_fd(client) >= 0);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(dlock_hold_notify(hold, TAG), DLOCK_OK);
    AWAIT(dlock_lock_revoke(lock, NULL) == DLOCK_OK);
    CHECK(hears(client, TAG));
}

TEST(where_nobody_can_be_asked_it_is_said)
{
    BEGIN();
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    if (world_is("etcd") || world_is("zookeeper")) /* which don't know who listens */
        CHECK_OK(dlock_lock_revoke(lock, &err), err);
    else
        CHECK_ERR(dlock_lock_revoke(lock, &err), DLOCK_ENOTSUP, err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
}
