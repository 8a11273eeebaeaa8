/* Promises about waiting for a lock: its bounds, its order, giving it up. */
#include "grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ROW(P21, a_try_ends_at_once, "a wait of 0 tries once and says EBUSY")
{
    PARTY(holder) = party_new(NULL, NULL);
    PARTY(other) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    int64_t began = now_ms();
    CHECK_EQ_INT(party_take(other, "L", 0), DLOCK_EBUSY);
    CHECK(grid_in_time("a try", began, 0));
}

/* Nobody is in the way any more, long before a lease would end. What was given up last, a place in a
 * line for one, may still be on its way back. */
static void gets_free(void)
{
    int64_t began = now_ms();
    AWAIT(world_try("L") == DLOCK_OK);
    CHECK(grid_in_time("giving back", began, 10000));
    CHECK(grid_settles());
}

ROW(P22, a_wait_ends_in_time,
    "a wait ends ETIMEDOUT, not before its time, and leaves nothing")
{
    PARTY(holder) = party_new(NULL, NULL);
    PARTY(other) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    int64_t began = now_ms();
    CHECK(grid_timed_out(party_take(other, "L", 300)));
    CHECK(now_ms() - began >= 299);
    CHECK(grid_in_time("a wait", began, 300));
    CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
    gets_free();
}

ROW(P23, woken_by_the_release, "who waits is woken by the release, not by looking again")
{
    PARTY(holder) = party_new(NULL, NULL);
    PARTY(other) = party_new(NULL, NULL); /* looks by itself once a minute */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
        party_ask(other, "L", DLOCK_FOREVER);
        for (int nap = 0; nap < 50 + 50 * i; nap++)
            nap_ms(1);
        CHECK(!party_answered(other));
        CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
        CHECK_EQ_INT(party_answer(other), DLOCK_OK);
        CHECK(grid_rises(party_token(holder), party_token(other)));
        CHECK_EQ_INT(party_give_back(other), DLOCK_OK);
    }
}

ROW(P24, cancel, "giving up a wait is prompt and leaves nothing")
{
    PARTY(holder) = party_new(NULL, NULL);
    PARTY(other) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    for (int i = 0; i < 3; i++) {
        party_ask(other, "L", DLOCK_FOREVER);
        for (int nap = 0; nap < 100; nap++)
            nap_ms(1);
        CHECK(!party_answered(other));
        int64_t began = now_ms();
        CHECK_EQ_INT(party_give_up(other), DLOCK_ECANCELED);
        CHECK(grid_in_time("giving up", began, 0));
    }
    CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
    gets_free();
}

/* Awaits that so many stand there, wherever the queue is: an op that is pending may still be on
 * its way to it. */
static void stand_there(dlock_lock *lock, int waiters)
{
    int64_t seen = -1, end = now_ms() + patience_ms();
    while (seen != waiters && now_ms() < end) {
        DLOCK_AUTO(dlock_info) info = NULL;
        nap_ms(1);
        CHECK_EQ_INT(dlock_lock_inspect(lock, &info, NULL), DLOCK_OK);
        seen = atoll(dlock_info_get(info, "waiters"));
    }
    CHECK_EQ_INT(seen, waiters);
}

/* Waiters ask one after the other, and get it in that order; those of one client stand in its own
 * queue as soon as they have asked. */
static void check_order(dlock_client *const *clients, int waiters, bool apart)
{
    dlock_op *ops[8];
    CLIENT_WITH_HOLD(first, lock, hold, "L", NULL);
    for (int i = 0; i < waiters; i++) {
        DLOCK_AUTO(dlock_lock) wanted = world_lock(clients[i], "L", NULL);
        ops[i] = dlock_lock_acquire_start(wanted, DLOCK_FOREVER);
        if (apart)
            stand_there(lock, i + 1);
        if (harness_failed())
            return;
    }
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    for (int i = 0; i < waiters; i++) {
        CHECK_EQ_INT(dlock_op_wait(ops[i], patience_ms()), DLOCK_OK);
        CHECK_ERR(dlock_op_result(ops[i]), DLOCK_OK, dlock_op_error(ops[i]));
        for (int later = i + 1; later < waiters; later++)
            CHECK_EQ_INT(dlock_op_result(ops[later]), DLOCK_EPENDING);
        DLOCK_AUTO(dlock_hold) mine = dlock_op_take_hold(ops[i]);
        CHECK_EQ_INT(dlock_hold_release(mine, NULL), DLOCK_OK);
        dlock_op_free(ops[i]);
    }
}

ROW(P25, fifo_of_clients, "clients get it in the order in which they asked")
{
    enum { WAITERS = 5 };
    NEEDS(CAN_CALL, CAN_QUEUE);
    dlock_client *clients[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        clients[i] = world_client(NULL);
    check_order(clients, WAITERS, true);
    for (int i = 0; i < WAITERS; i++)
        dlock_client_free(clients[i]);
}

ROW(P26, fifo_of_owners, "owners of one client get it in the order in which they asked")
{
    enum { WAITERS = 5 };
    NEEDS(CAN_CALL);
    dlock_client *client = world_client(NULL);
    dlock_client *clients[WAITERS] = {client, client, client, client, client};
    check_order(clients, WAITERS, false);
    dlock_client_free(client);
}

ROW(P27, an_op_completes_once,
    "an op completes once, is told once, and gives its hold once")
{
    NEEDS(CAN_CALL);
    enum { TAG = 7 };
    CLIENT_WITH_HOLD(client, lock, hold, "L", NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_notify(op, TAG), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
    dlock_op_cancel(op); /* too late to matter */
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) next = dlock_op_take_hold(op);
    CHECK(next && !dlock_op_take_hold(op));
    CHECK_EQ_INT(dlock_hold_check(next), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    int told = 0;
    dlock_event *event;
    while ((event = dlock_client_next_event(client))) {
        told +=
            dlock_event_what(event) == DLOCK_EVENT_DONE && dlock_event_tag(event) == TAG;
        dlock_event_free(event);
    }
    CHECK_EQ_INT(told, 1);
}

ROW(P28, close,
    "close: waits end ECLOSED, holds are given back, CLOSED is the last event")
{
    NEEDS(CAN_CALL);
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_lock) held = world_lock(client, "held", NULL);
    DLOCK_AUTO(dlock_lock) wanted = world_lock(client, "wanted", NULL);
    DLOCK_AUTO(dlock_lock) theirs = world_lock(other, "wanted", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(held);
    DLOCK_AUTO(dlock_hold) their = world_take(theirs);
    WAITER(waiter);
    world_wait_start(&waiter, client, wanted, DLOCK_FOREVER);
    AWAIT(world_asleep(waiter.tid));
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_wait_end(&waiter), DLOCK_ECLOSED);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_RELEASED);
    CHECK_EQ_INT(world_try("held"), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(their), DLOCK_OK);
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    dlock_event *event, *last = NULL;
    while ((event = dlock_client_next_event(client))) {
        dlock_event_free(last);
        last = event;
    }
    CHECK_EQ_INT(dlock_event_what(last), DLOCK_EVENT_CLOSED);
    dlock_event_free(last);
}

/* ---- For operators ---- */

ROW(P29, inspect_and_list,
    "inspect and list show the holder, its token and lease, and the waiters")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    CLIENT_WITH_LOCK(other, same, "L", NULL);
    CHECK_EQ_INT(world_seen(same, "held"), 0);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(same, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_info) info = NULL;
    DLOCK_AUTO(dlock_info) list = NULL;
    CHECK_OK(dlock_lock_inspect(same, &info, &err), err);
    CHECK_STR(dlock_info_get(info, "held"), "1");
    CHECK_STR(dlock_info_get(info, "holders.0.owner"), dlock_hold_owner(hold));
    CHECK_EQ_INT(world_seen(same, "holders.0.token"), dlock_hold_token(hold));
    CHECK(world_seen(same, "holders.0.remaining_ms") > 10000);
    if (!service_here()->lacks[CAN_QUEUE])
        AWAIT(world_seen(same, "waiters") == 1);
    CHECK_OK(dlock_client_list(other, "L", 10, &list, &err), err);
    CHECK_STR(dlock_info_get(list, "locks.0.name"), "L");
    CHECK(!dlock_info_get(list, "locks.1.name"));
}

ROW(P30, break_the_named,
    "break takes it from the one that was named, and from nobody else")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    CLIENT_WITH_LOCK(other, same, "L", NULL);
    CHECK_ERR(dlock_lock_break(same, NULL, &err), DLOCK_ENOTHELD, err);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_ERR(dlock_lock_break(same, "somebody:1", &err), DLOCK_ENOTHELD, err);
    CHECK_ERR(dlock_lock_break(same, "", &err), DLOCK_ENOTHELD, err);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_lock_break(same, dlock_hold_owner(hold), &err), err);
    DLOCK_AUTO(dlock_hold) next = world_take(same);
    CHECK(grid_rises(dlock_hold_token(hold), dlock_hold_token(next)));
    CHECK_ERR(dlock_hold_verify(hold, &err), DLOCK_ELOST, err);
    CHECK_OK(dlock_hold_verify(next, &err), err);
}

ROW(P38, several_permits, "several permits at once: all of them or none")
{
    NEEDS(CAN_CALL);
    if (!grid_kind_is("semaphore") && !grid_kind_is("plain semaphore"))
        CANNOT("only a semaphore has permits");
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_lock)
    two = world_lock(client, "several", "lock.permits=3 lock.take=2");
    DLOCK_AUTO(dlock_lock)
    all = world_lock(other, "several", "lock.permits=3 lock.take=3");
    DLOCK_AUTO(dlock_lock)
    one = world_lock(other, "several", "lock.permits=3 lock.take=1");
    DLOCK_AUTO(dlock_hold) hold = world_take(two);
    DLOCK_AUTO(dlock_hold) third = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_ERR(dlock_lock_acquire(all, 0, &none, &err), DLOCK_EBUSY, err);
    third = world_take(one); /* of what is there nothing was taken */
    CHECK_OK(dlock_hold_release(third, &err), err);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(all, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(op, 50), DLOCK_EPENDING);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    ENDS(op, DLOCK_OK);
    DLOCK_AUTO(dlock_hold) every = dlock_op_take_hold(op);
    CHECK_ERR(dlock_lock_acquire(one, 0, &none, &err), DLOCK_EBUSY, err);
    CHECK_OK(dlock_hold_release(every, &err), err);
    DLOCK_AUTO(dlock_hold) last = world_take(one);
    CHECK_OK(dlock_hold_release(last, &err), err);
}

ROW(P31, wait_idle, "wait_idle ends when nobody holds it, and takes nothing")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    CLIENT_WITH_LOCK(other, same, "L", NULL);
    CHECK_OK(dlock_lock_wait_idle(same, 0, &err), err);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_ERR(dlock_lock_wait_idle(same, 0, &err), DLOCK_EBUSY, err);
    CHECK(grid_timed_out(dlock_lock_wait_idle(same, 50, &err)));
    DLOCK_AUTO(dlock_op) op = dlock_lock_wait_idle_start(same, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(op, 50), DLOCK_EPENDING);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    ENDS(op, DLOCK_OK);
    CHECK_EQ_INT(world_try("L"), DLOCK_OK);
}

ROW(P32, verify, "verify knows of a break before the next renewal, and renews nothing")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(client, lock, hold, "L", "lock.ttl_ms=600000");
    int64_t before = dlock_hold_remaining_ms(hold);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK(dlock_hold_remaining_ms(hold) <= before);
    CHECK_EQ_INT(world_evict("L"), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK); /* nobody has said so yet */
    CHECK_ERR(dlock_hold_verify(hold, &err), DLOCK_ELOST, err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
}

ROW(P33, what_is_not_there,
    "kinds, layouts and orders that don't exist are refused when asked for")
{
    NEEDS(CAN_CALL);
    static const dlock_kind absent[] = {DLOCK_READ, DLOCK_WRITE, DLOCK_SEMAPHORE,
                                        DLOCK_ELECTION};
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_info) features = NULL;
    static const char *const names[] = {"kinds.read", "kinds.write", "kinds.semaphore",
                                        "kinds.election"};
    CHECK_OK(dlock_client_features(client, &features, &err), err);
    for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++) {
        DLOCK_AUTO(dlock_lock) lock = NULL;
        dlock_err code = dlock_lock_new(client, absent[i], "L", NULL, &lock, &err);
        bool offered = strcmp(dlock_info_get(features, names[i]), "1") == 0;
        CHECK_ERR(code, offered ? DLOCK_OK : DLOCK_ENOTSUP, err);
    }
    DLOCK_AUTO(dlock_conf) fair = api_conf("lock.fair=true");
    DLOCK_AUTO(dlock_lock) lock = NULL;
    bool in_order = !service_here()->lacks[CAN_QUEUE] || grid_layout_is("redisson");
    CHECK_ERR(dlock_lock_new(client, DLOCK_MUTEX, "L", fair, &lock, &err),
              in_order ? DLOCK_OK : DLOCK_ENOTSUP, err);
}

static bool opens_requiring(const char *what)
{
    char settings[64];
    snprintf(settings, sizeof(settings), "client.require=%s", what);
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    DLOCK_AUTO(dlock_client) client = NULL;
    dlock_err code = dlock_client_open(world_uri(), conf, &client, NULL);
    (void)harness_check(__FILE__, __LINE__, code == DLOCK_OK || code == DLOCK_ENOTSUP,
                        "opened, or refused as such");
    return code == DLOCK_OK;
}

ROW(P34, class, "client.require opens what can promise it, and nothing less")
{
    NEEDS(CAN_CALL);
    CHECK(opens_requiring("efficiency"));
    /* That the layout's locks can't is said when one is made. */
    bool fences =
        strcmp(service_here()->class, "efficiency") != 0 || grid_layout_is("timestamp");
    CHECK_EQ_INT(opens_requiring("fencing"), fences);
    bool correct = strcmp(service_here()->class, "correctness") == 0;
    CHECK_EQ_INT(opens_requiring("correctness"), correct);
}
