/* Promises about a lock that goes to somebody else: handed on by a ticket, or asked for. */
#include "grid.h"

#define TAG 77

static const char no_tickets[] = "locks of this kind aren't handed on there";
static const char no_ears[] = "nobody can be asked for a lock there";

ROW(P35, a_ticket_moves_it_once,
    "handed on: nobody comes between, the giver is fenced, a ticket works once")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    CLIENT_WITH_HOLD(giver, lock, hold, "L", NULL);
    DLOCK_AUTO(dlock_client) taker = world_client(NULL);
    DLOCK_AUTO(dlock_hold) taken = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    const char *ticket = NULL;
    dlock_err code = dlock_hold_export(hold, &ticket, &err);
    if (code == DLOCK_ENOTSUP) {
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
        CHECK_OK(dlock_hold_release(hold, &err), err);
        CANNOT(no_tickets);
    }
    CHECK_OK(code, err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    MUST(world_try("L") == DLOCK_EBUSY);
    CHECK_OK(dlock_client_import(taker, ticket, &taken, &err), err);
    CHECK(grid_rises(dlock_hold_token(hold), dlock_hold_token(taken)));
    CHECK_ERR(dlock_client_import(giver, ticket, &none, &err), DLOCK_ENOTHELD, err);
    CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_ENOTHELD, err);
    CHECK_OK(dlock_client_close(giver, &err), err);
    CHECK_OK(dlock_hold_verify(taken, &err), err);
    MUST(world_try("L") == DLOCK_EBUSY);
    CHECK_OK(dlock_hold_release(taken, &err), err);
    CHECK(grid_settles());
}

ROW(P36, a_ticket_lapses,
    "handed on to nobody: free with the end of the lease, then no ticket")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    CLIENT_WITH_HOLD(giver, lock, hold, "L", "lock.ttl_ms=1000");
    const char *ticket = NULL;
    dlock_err code = dlock_hold_export(hold, &ticket, &err);
    if (code == DLOCK_ENOTSUP) {
        CHECK_OK(dlock_hold_release(hold, &err), err);
        CANNOT(no_tickets);
    }
    CHECK_OK(code, err);
    CHECK_OK(dlock_client_close(giver, &err), err);
    DLOCK_AUTO(dlock_client) taker = world_client(NULL);
    AWAIT(world_try("L") == DLOCK_OK);
    CHECK_ERR(dlock_client_import(taker, ticket, &none, &err), DLOCK_ENOTHELD, err);
}

ROW(P37, who_holds_it_is_asked,
    "asked for: a holder that listens hears of it, and keeps it")
{
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) other = world_client(NULL);
    DLOCK_AUTO(dlock_lock) wanted = world_lock(other, "L", NULL);
    if (!api_has(other, "revoke")) {
        CHECK_ERR(dlock_lock_revoke(wanted, &err), DLOCK_ENOTSUP, err);
        CANNOT(no_ears);
    }
    CLIENT_WITH_HOLD(holder, lock, hold, "L", "lock.ttl_ms=6000");
    CHECK(dlock_client_event_fd(holder) >= 0);
    CHECK_EQ_INT(dlock_hold_notify(hold, TAG), DLOCK_OK);
    AWAIT(dlock_lock_revoke(wanted, NULL) == DLOCK_OK);
    DLOCK_AUTO(dlock_event) event = world_event(holder, DLOCK_EVENT_REVOKE);
    CHECK(event != NULL);
    CHECK_EQ_INT((int64_t)dlock_event_tag(event), TAG);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    MUST(world_try("L") == DLOCK_EBUSY);
    CHECK_OK(dlock_hold_release(hold, &err), err);
}
