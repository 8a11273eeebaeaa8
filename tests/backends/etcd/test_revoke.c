/* Asking for a lock on etcd: its holder sees at its next look that somebody has touched its key. */
#include "world.h"

#include <string.h>

/* How many REVOKE events of this tag are there. */
static int heard(dlock_client *client, uint64_t tag)
{
    int count = 0;
    for (dlock_event *event; (event = dlock_client_next_event(client));
         dlock_event_free(event))
        count += dlock_event_what(event) == DLOCK_EVENT_REVOKE &&
                 dlock_event_tag(event) == tag;
    return count;
}

static bool listens(dlock_client *client, dlock_hold *hold, uint64_t tag)
{
    return dlock_client_event_fd(client) >= 0 && dlock_hold_notify(hold, tag) == DLOCK_OK;
}

TEST(a_holder_hears_it_with_its_next_look_and_nothing_else_changes)
{
    BEGIN();
    CLIENT(one, "");
    CLIENT(two, "");
    LOCK(lock, one, DLOCK_MUTEX, "revoke/mutex", NULL);
    LOCK(wanted, two, DLOCK_MUTEX, "revoke/mutex", NULL);
    CHECK_EQ_INT(dlock_lock_revoke(wanted, NULL), DLOCK_ENOTHELD);
    HOLD(hold, lock);
    CHECK(listens(one, hold, 7));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(dlock_lock_revoke(wanted, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
        CHECK_EQ_INT(heard(one, 7), 1);
    }
    CHECK_STR(api_seen(wanted, "holders.0.owner"), dlock_hold_owner(hold));
    CHECK_EQ_INT(world_seen(lock, "holders.0.token"), dlock_hold_token(hold));
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_STR(etcd_server_keys(&world_server, "revoke/mutex"), "");
}

TEST(a_renewal_is_such_a_look)
{
    BEGIN();
    CLIENT(one, "&lock.ttl_ms=3000");
    CLIENT(two, "");
    LOCK(lock, one, DLOCK_MUTEX, "revoke/renewed", NULL);
    LOCK(wanted, two, DLOCK_MUTEX, "revoke/renewed", NULL);
    HOLD(hold, lock);
    CHECK(listens(one, hold, 8));
    CHECK_EQ_INT(dlock_lock_revoke(wanted, NULL), DLOCK_OK);
    AWAIT(heard(one, 8) == 1);
}

TEST(all_who_hold_are_asked_and_nobody_who_waits)
{
    BEGIN();
    CLIENT(one, "");
    CLIENT(two, "");
    CLIENT(three, "");
    LOCK(first, one, DLOCK_READ, "revoke/readers", NULL);
    LOCK(second, two, DLOCK_READ, "revoke/readers", NULL);
    LOCK(third, three, DLOCK_WRITE, "revoke/readers", NULL);
    HOLD(read, first);
    HOLD(also, second);
    CHECK(listens(one, read, 1) && listens(two, also, 2));
    DLOCK_AUTO(dlock_op) waits = dlock_lock_acquire_start(third, DLOCK_FOREVER);
    AWAIT(world_seen(first, "waiters") == 1);
    CHECK_EQ_INT(dlock_lock_revoke(third, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(read, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_verify(also, NULL), DLOCK_OK);
    CHECK_EQ_INT(heard(one, 1), 1);
    CHECK_EQ_INT(heard(two, 2), 1);
    CHECK_EQ_INT(dlock_hold_release(read, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(also, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(waits, PATIENCE_MS), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) written = dlock_op_take_hold(waits);
    CHECK(listens(three, written, 3));
    CHECK_EQ_INT(dlock_hold_verify(written, NULL), DLOCK_OK);
    CHECK_EQ_INT(heard(three, 3), 0);
}

TEST(a_writer_doesnt_take_its_own_turn_for_a_wish)
{
    BEGIN();
    CLIENT(one, "&lock.ttl_ms=3000");
    LOCK(lock, one, DLOCK_WRITE, "revoke/turn", NULL);
    HOLD(hold, lock);
    CHECK(listens(one, hold, 4));
    CHECK_EQ_INT(dlock_hold_downgrade(hold, NULL), DLOCK_OK);
    AWAIT(strcmp(api_seen(lock, "kind"), "read") == 0);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(heard(one, 4), 0);
}

TEST(whose_key_says_no_owner_cant_be_asked)
{
    BEGIN();
    CLIENT(one, "");
    LOCK(wanted, one, DLOCK_MUTEX, "revoke/foreign", NULL);
    CHECK(etcd_server_put(&world_server, "revoke/foreign/abc", "")); /* as Go's package */
    CHECK_EQ_INT(dlock_lock_revoke(wanted, NULL), DLOCK_ENOTSUP);
    CHECK(etcd_server_delete(&world_server, "revoke/foreign/"));
    LOCK(vote, one, DLOCK_ELECTION, "revoke/vote", NULL);
    HOLD(term, vote);
    CHECK_EQ_INT(dlock_lock_revoke(vote, NULL), DLOCK_ENOTSUP);
}
