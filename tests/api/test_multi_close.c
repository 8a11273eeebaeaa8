/* Several locks as one, when a member's client is closed: the whole belongs to the first one's. */
#include "world.h"

#include <stdio.h>

enum { TAG = 12 };

static char names[3][128];

static void name_them(const char *test)
{
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof(names[i]), "%.100s/%c", test, 'a' + i);
}

/* The second name is the first client's: it is taken last. */
static dlock_lock *both(dlock_client *first, dlock_client *other)
{
    DLOCK_AUTO(dlock_lock) last = world_lock(first, names[1], NULL);
    DLOCK_AUTO(dlock_lock) front = world_lock(other, names[0], NULL);
    dlock_lock *const members[] = {last, front};
    dlock_lock *multi = NULL;
    (void)harness_eq_int(__FILE__, __LINE__, "a multi-lock",
                         dlock_multi_new(members, 2, NULL, &multi, NULL), DLOCK_OK);
    return multi;
}

TEST(an_acquire_of_a_closed_first_client_is_told_so_though_another_s_member_is_held)
{
    BEGIN();
    name_them(__func__);
    DLOCK_AUTO(dlock_client) rival = world_client(NULL);
    DLOCK_AUTO(dlock_client) first = world_client(NULL);
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) multi = both(first, other);
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_EQ_INT(dlock_acquire(rival, names[0], 0, &theirs, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(first, NULL), DLOCK_OK);
    static const int64_t waits[] = {0, SHORT_MS, DLOCK_FOREVER};
    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(multi, waits[i]);
        CHECK_EQ_INT(dlock_op_wait(op, world_limit_ms()), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECLOSED);
    }
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
