/* Several locks as one, when a member's client is closed: the whole belongs to the first one's. */
#include "several.h"

#include <malloc.h>
#include <stdio.h>

enum { TAG = 12 };

TEST(an_acquire_with_a_closed_client_is_told_so_though_another_s_member_is_held)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_client) rival = world_client(NULL);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_EQ_INT(dlock_acquire(rival, names[0], 0, &theirs, NULL), DLOCK_OK);
    for (int closed = 0; closed < 2; closed++) {
        DLOCK_AUTO(dlock_client) first = world_client(NULL);
        DLOCK_AUTO(dlock_client) other = world_client(NULL);
        DLOCK_AUTO(dlock_lock) multi = both(first, other);
        CHECK_EQ_INT(dlock_client_close(closed ? other : first, NULL), DLOCK_OK);
        static const int64_t waits[] = {0, SHORT_MS, DLOCK_FOREVER};
        for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
            DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(multi, waits[i]);
            CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
            CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECLOSED);
            WAITER(waiter);
            world_wait_start(&waiter, other, multi, waits[i]);
            AWAIT(waiter.over);
            CHECK_EQ_INT(world_wait_end(&waiter), DLOCK_ECLOSED);
        }
    }
}

/* ---- closed while it waits ---- */

static bool is_free(dlock_client *client, const char *name)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    return dlock_acquire(client, name, 0, &hold, NULL) == DLOCK_OK;
}

/* A multi-lock of three clients, the first of which has the member that is taken last. */
static dlock_lock *three(dlock_client *const *clients)
{
    dlock_lock *members[3], *multi = NULL;
    for (int i = 0; i < 3; i++)
        members[2 - i] = world_lock(clients[i], names[i], NULL);
    (void)harness_eq_int(__FILE__, __LINE__, "a multi-lock",
                         dlock_multi_new(members, 3, NULL, &multi, NULL), DLOCK_OK);
    for (int i = 0; i < 3; i++)
        dlock_lock_free(members[i]);
    return multi;
}

/* While it waits for @p held, which is another's, the client of @p closed is closed. */
static void wait_and_close(dlock_client *rival, int held, int closed, bool as_op)
{
    dlock_client *clients[3];
    for (int i = 0; i < 3; i++)
        clients[i] = world_client(NULL);
    DLOCK_AUTO(dlock_client) first = clients[0];
    DLOCK_AUTO(dlock_client) second = clients[1];
    DLOCK_AUTO(dlock_client) third = clients[2];
    DLOCK_AUTO(dlock_lock) multi = three(clients);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    DLOCK_AUTO(dlock_op) op = NULL;
    WAITER(waiter);
    CHECK_EQ_INT(dlock_acquire(rival, names[held], 0, &theirs, NULL), DLOCK_OK);
    if (as_op)
        op = dlock_lock_acquire_start(multi, DLOCK_FOREVER);
    else
        world_wait_start(&waiter, clients[held], multi, DLOCK_FOREVER);
    AWAIT(held == 0 || !is_free(rival, names[held - 1]));
    AWAIT(as_op || world_asleep(waiter.tid));
    CHECK_EQ_INT(dlock_client_close(clients[closed], NULL), DLOCK_OK);
    if (as_op) {
        CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECLOSED);
    } else {
        AWAIT(waiter.over);
        CHECK_EQ_INT(world_wait_end(&waiter), DLOCK_ECLOSED);
        CHECK_CONTAINS(dlock_error_text(waiter.err), "closed");
    }
    for (int i = 0; i < 3; i++)
        AWAIT(i == held || is_free(rival, names[i]));
    CHECK_EQ_INT(dlock_hold_check(theirs), DLOCK_OK);
}

TEST(a_wait_ends_with_any_of_its_clients_though_it_is_for_another_s_member)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) rival = world_client(NULL);
    for (int i = 0; i < 18; i++) {
        char name[64];
        snprintf(name, sizeof(name), "multi_close/%d", i);
        name_them(name);
        wait_and_close(rival, i / 6, i / 2 % 3, i % 2);
        if (harness_failed())
            harness_note("member %d is held, the client of %d is closed, %s", i / 6,
                         i / 2 % 3, i % 2 ? "an op" : "a call");
        CHECK(!harness_failed());
    }
}

/* Each listens for the end of all its clients. Counts what is in use, where the allocator can say, once the
 * buffers are as large as they get: on a busy machine that takes some hundred waits. */
TEST(a_wait_that_is_over_leaves_nothing_with_its_clients)
{
    enum { TIMES = 300, LEAST = 32 }; /* bytes of what one would leave */
    BEGIN();
    name_them(__func__);
    TWO_CLIENTS(first, other);
    DLOCK_AUTO(dlock_client) rival = world_client(NULL);
    DLOCK_AUTO(dlock_lock) multi = both(first, other);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_EQ_INT(dlock_acquire(rival, names[0], 0, &theirs, NULL), DLOCK_OK);
    size_t before = 0;
    for (int i = -3 * TIMES; i < TIMES; i++) {
        if (i == 0)
            before = mallinfo2().uordblks;
        CHECK(dlock_lock_acquire(multi, 1, &none, NULL) != DLOCK_OK);
    }
    CHECK(mallinfo2().uordblks < before + TIMES * LEAST);
}

/* Of the events of a closed client that come after its last. */
static int after_closed(dlock_client *client)
{
    bool closed = false;
    int after = 0;
    dlock_event *event;
    while ((event = dlock_client_next_event(client))) {
        after += closed;
        closed |= dlock_event_what(event) == DLOCK_EVENT_CLOSED;
        dlock_event_free(event);
    }
    return closed ? after : -1;
}

TEST(with_its_first_client_closed_it_is_released_whatever_becomes_of_a_member)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_client) first = world_client(NULL);
    DLOCK_AUTO(dlock_client) other = world_client("lock.ttl_ms=1500 lock.renew=off");
    DLOCK_AUTO(dlock_lock) multi = both(first, other);
    CHECK(dlock_client_event_fd(first) >= 0);
    DLOCK_AUTO(dlock_hold) hold = world_take(multi);
    DLOCK_AUTO(dlock_lock) later = world_lock(other, names[2], NULL);
    DLOCK_AUTO(dlock_hold) longer = world_take(later); /* than the member before it */
    if (dlock_hold_notify(hold, TAG) != DLOCK_OK)
        TOO_SLOW();
    CHECK_EQ_INT(dlock_client_close(first, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_RELEASED);
    CHECK_EQ_INT(after_closed(first), 0);
    AWAIT(dlock_hold_check(longer) == DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_RELEASED);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_notify(hold, TAG), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_client_event_fd(first), -1);
    CHECK(dlock_client_next_event(first) == NULL);
}
