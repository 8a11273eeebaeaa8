/*
 * Giving a place in line back until the server has surely let go.
 *
 * A request that got no answer may still come, whenever its member goes on; and what it
 * made then would live as long as the lease, known to nobody. So before a place is given
 * back behind a join that got no answer a fence is put up: a key of ours whose last
 * change each join names, so that those which were sent before are void from then on.
 * With it the own key is read, so that only what is surely there, or surely isn't, is
 * given back, and by its revision.
 */
#include "backends/etcd/inner.h"

#include "util/error.h"

#define AGAIN_NS DLK_NS_PER_SEC

static void left(dlk_etcd_seat *seat, dlk_reply reply, int64_t now)
{
    dlk_etcd_key *home = seat->home;
    dlk_etcd_seat_drop_key(seat);
    dlk_etcd_seat_answer(seat, &seat->give, reply, NULL);
    dlk_etcd_pass_slot(home, now);
}

/* It is tried again. */
static void not_left(dlk_etcd_seat *seat, const dlk_etcd_call *call, int64_t now)
{
    seat->et->sweep_at = now + AGAIN_NS;
    if (call->end == DLK_ETCD_CUT) {
        dlk_etcd_seat_fail(seat, &seat->give, DLK_UNKNOWN);
        dlk_etcd_seat_fail(seat, &seat->take, DLK_UNKNOWN);
        return;
    }
    dlk_etcd_seat_answer(seat, seat->leaving ? &seat->give : &seat->take, DLK_REFUSED,
                         dlk_etcd_error(seat->et, call, "delete the key of a lock"));
}

/* ---- our key ---- */

static void on_left(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_seat *seat = call->owner;
    bool gone = dlk_json_true(call->json, "succeeded");
    seat->state = DLK_SEAT_THERE;
    if (call->end != DLK_ETCD_OK) {
        seat->asked_delete |= call->end == DLK_ETCD_CUT;
        not_left(seat, call, now);
        return;
    }
    if (!seat->leaving) { /* somebody's before us, which was in our place */
        dlk_etcd_seat_drop_key(seat);
        dlk_etcd_seat_go(seat, now);
        return;
    }
    bool taken_away = !gone && !seat->asked_delete && (seat->granted || seat->stranger);
    left(seat, taken_away ? DLK_NOT_OURS : DLK_YES, now);
}

static bool send_leave(dlk_etcd_seat *seat, int64_t now)
{
    if (!dlk_etcd_seat_send(seat, "/v3/kv/txn",
                            dlk_etcd_layout_delete(seat->key, seat->rev), on_left, now))
        return false;
    seat->state = DLK_SEAT_LEAVING;
    return true;
}

void dlk_etcd_seat_remove_stale(dlk_etcd_seat *seat, int64_t now)
{
    if (!send_leave(seat, now))
        dlk_etcd_seat_fail(seat, &seat->take, DLK_UNKNOWN);
}

/* ---- the fence ---- */

static bool wants_fence(const dlk_etcd *et, const dlk_etcd_key *home)
{
    return home->fence.wanted && home->fence.lease == et->lease;
}

/* Nothing that was sent before will be done any more. */
static void on_fenced(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_seat *seat = call->owner;
    seat->state = seat->before;
    if (call->end == DLK_ETCD_NO_LEASE) {
        dlk_etcd_lease_gone(seat->et, now);
        return;
    }
    if (call->end != DLK_ETCD_OK) {
        not_left(seat, call, now);
        return;
    }
    int64_t rev = dlk_etcd_layout_fenced(seat, call);
    if (seat->state == DLK_SEAT_UNSURE) {
        seat->rev = rev;
        seat->state = rev ? DLK_SEAT_THERE : DLK_SEAT_NONE;
    }
    dlk_etcd_seat_leave(seat, now);
}

static bool send_fence(dlk_etcd_seat *seat, int64_t now)
{
    if (!dlk_etcd_layout_name(seat) ||
        !dlk_etcd_seat_send(seat, "/v3/kv/txn", dlk_etcd_layout_fence(seat), on_fenced,
                            now))
        return false;
    seat->before = seat->state;
    seat->state = DLK_SEAT_LEAVING;
    return true;
}

/* ---- all of it ---- */

void dlk_etcd_seat_leave(dlk_etcd_seat *seat, int64_t now)
{
    bool sent = true;
    dlk_etcd_seat_unwatch(seat);
    seat->awaits_proof = seat->awaits_slot = false;
    if (seat->state == DLK_SEAT_JOINING || seat->state == DLK_SEAT_LEAVING)
        return; /* the answer goes on */
    if (seat->state == DLK_SEAT_UNSURE || wants_fence(seat->et, seat->home))
        sent = send_fence(seat, now);
    else if (seat->state == DLK_SEAT_NONE)
        left(seat, seat->stranger ? DLK_NOT_OURS : DLK_YES, now);
    else
        sent = send_leave(seat, now);
    if (!sent)
        dlk_etcd_seat_fail(seat, &seat->give,
                           DLK_NOT_SENT); /* swept when the link is up */
}

/* A number that we know nothing of any more: without a fence a request of its may come
 * late. */
static dlk_etcd_seat *stranger(dlk_etcd *et, const dlk_ask *ask)
{
    bool fenced = !wants_fence(et, dlk_etcd_key_of(ask->key));
    dlk_etcd_seat *seat = fenced ? NULL : dlk_etcd_seat_new(et, ask);
    if (!seat)
        return NULL;
    seat->stranger = true;
    /* What is at a mutex' key may be another number's of ours by now. */
    if (seat->home->line != DLK_ETCD_MUTEX || !dlk_etcd_seat_has_to_wait(seat))
        seat->state = DLK_SEAT_UNSURE;
    return seat;
}

void dlk_etcd_release(dlk_etcd *et, dlk_ask *ask, int64_t now)
{
    dlk_etcd_seat *seat = dlk_etcd_seat_find(ask->key, ask->number);
    if (!seat)
        seat = stranger(et, ask);
    if (!seat || seat->give) {
        dlk_flight_answer(&et->flight, ask, DLK_NOT_OURS);
        return;
    }
    seat->give = ask;
    dlk_flight_await(&et->flight, ask);
    seat->calls++;
    seat->leaving = true;
    dlk_etcd_seat_answer(seat, &seat->take, DLK_NOT_SENT, NULL); /* given up */
    dlk_etcd_seat_leave(seat, now);
    seat->calls--;
    dlk_etcd_seat_settle(seat);
}
