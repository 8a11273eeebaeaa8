/* See the header. */
#include "poller.h"

#include "service.h"
#include "stage.h"
#include "strand.h"
#include "wire.h"

static int poll_fd;

void with_a_poller(void)
{
    begin_with("lock.owner=none");
    poll_fd = dlock_client_poll_fd(client);
    if (poll_fd < 0)
        explore_fail("nothing to poll");
}

void hung_up_unread(void)
{
    with_a_poller();
    service_give_away("a", began + LONG);
    ops[0] = dlock_lock_acquire_start(locks[0], DLOCK_FOREVER);
    nap_until(began + 60 * MS);
    service_cut();
}

static void read_events(void)
{
    dlock_event *event;
    do {
        call made = enter(0, "next_event()");
        event = dlock_client_next_event(client);
        (void)leave(&made, DLOCK_OK);
        dlock_event_free(event);
    } while (event);
}

static dlock_op *visit_until_taken(void)
{
    dlock_op *op = start(0, DLOCK_FOREVER);
    call made = enter(0, "op_notify()");
    (void)leave(&made, dlock_op_notify(op, 5) == DLOCK_OK ? DLOCK_OK : DLOCK_EPENDING);
    while (dlock_op_result(op) == DLOCK_EPENDING) {
        wire_await_change(poll_fd);
        dlock_err code;
        do {
            made = enter(0, "drive()");
            code = leave(&made, dlock_client_drive(client));
            read_events();
        } while (code == DLOCK_EPENDING);
    }
    expect(dlock_op_result(op), DLOCK_OK, DLOCK_OK);
    return op;
}

void visit_until_over(void)
{
    free_op(visit_until_taken());
}

void visit_and_rest(void)
{
    ops[0] = visit_until_taken();
    nap_until(began + MS);
}

void leave_it_lying(void)
{
    ops[0] = start(0, DLOCK_FOREVER);
    nap_until(began + 60 * MS);
    expect(dlock_op_result(ops[0]), DLOCK_OK, DLOCK_OK);
}

void visit_once(void)
{
    call made = enter(0, "drive()");
    (void)leave(&made, dlock_client_drive(client));
    read_events();
}

void wait_30_for_it(void)
{
    call made = enter(30, "op_wait(30)");
    (void)leave(&made, dlock_op_wait(ops[0], 30));
}
