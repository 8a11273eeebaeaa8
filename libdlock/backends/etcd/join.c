/*
 * Getting a place in line made exactly once, and learning when it is the first.
 *
 * A join that got no answer is repeated, and finds what the first one made. A mutex' key
 * bears only the lease, so of our own numbers one has it at a time; the next one joins
 * when it is gone.
 *
 * Whoever waits watches the one before it, and looks again when that is gone: at its own
 * key as well, in one transaction, for the lease may have ended while it waited. (In
 * etcd 3.4 the server's own lock service doesn't, and says "locked" to one whose key is
 * gone.)
 */
#include "backends/etcd/inner.h"

#include "util/error.h"
#include "util/number.h"

#include <stdlib.h>
#include <string.h>

/* A place in line is looked at again after so long, though no watch has fired. */
#define LOOK_AGAIN_NS (5 * DLK_NS_PER_SEC)
#define TRIES_MAX     8

static void look(dlk_etcd_seat *seat, int64_t now);

/* ---- one after the other ---- */

/* Two of ours can't have a mutex' key; and requests overtake each other, so what we are giving back
 * could yet stand before what we ask for. */
bool dlk_etcd_seat_has_to_wait(const dlk_etcd_seat *seat)
{
    DLK_LIST_FOR (it, &seat->home->seats) {
        const dlk_etcd_seat *other = DLK_LIST_ITEM(it, dlk_etcd_seat, of_key);
        if (other != seat && other->state != DLK_SEAT_NONE &&
            (other->leaving || seat->home->line == DLK_ETCD_MUTEX))
            return true;
    }
    return false;
}

static dlk_etcd_seat *next_to_join(const dlk_etcd_key *home)
{
    DLK_LIST_FOR (it, &home->seats) {
        dlk_etcd_seat *seat = DLK_LIST_ITEM(it, dlk_etcd_seat, of_key);
        if (seat->awaits_slot && !dlk_etcd_seat_has_to_wait(seat))
            return seat;
    }
    return NULL;
}

void dlk_etcd_pass_slot(const dlk_etcd_key *home, int64_t now)
{
    dlk_etcd_seat *seat;
    while ((seat = next_to_join(home))) {
        seat->awaits_slot = false;
        dlk_etcd_seat_go(seat, now);
    }
}

/* ---- the first, or behind somebody ---- */

static void grant(dlk_etcd_seat *seat, int64_t since)
{
    dlk_ask *take = seat->take;
    seat->granted = true;
    seat->token = seat->home->kind == DLOCK_SEMAPHORE ? 0 : seat->rev;
    seat->tries = 0;
    dlk_etcd_seat_unwatch(seat);
    if (!take)
        return; /* its time was up: the engine asks again, or gives it back */
    take->token = seat->token;
    take->ttl_ms = seat->et->ttl_ms;
    if (since < take->since)
        take->since = since;
    take->lasts = true;
    dlk_etcd_seat_answer(seat, &seat->take, DLK_YES, NULL);
}

static void behind(dlk_etcd_seat *seat)
{
    seat->tries = 0;
    if (!seat->take)
        return;
    /* Whoever takes over the place of one who only tried asks again: nothing watches for it yet. */
    seat->take->wait_ms = seat->take->once ? 0 : -1;
    seat->take->new_place = seat->new_place;
    seat->new_place = false;
    dlk_etcd_seat_answer(seat, &seat->take, DLK_HELD, NULL);
}

static void on_changed(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_seat *seat = call->owner;
    dlk_host *host = seat->et->base.host;
    seat->watch = NULL;
    (void)now;
    if (call->end != DLK_ETCD_BAD && seat->home->key)
        host->notified(host, seat->home->key);
}

static void watch(dlk_etcd_seat *seat, const dlk_etcd_call *call,
                  const dlk_etcd_place *place, int64_t now)
{
    bool puts = seat->home->line == DLK_ETCD_RW && seat->shared;
    seat->looked = call->sent_at;
    if (seat->watch && seat->ahead && strcmp(seat->ahead, place->from) == 0)
        return;
    dlk_etcd_seat_unwatch(seat);
    seat->ahead = strdup(place->from);
    seat->watch =
        dlk_etcd_watch(seat->et, place->from, place->to,
                       dlk_number_sum(call->revision, 1), puts, on_changed, seat, now);
}

/* Refused for good: nothing of it stays. */
static void refuse(dlk_etcd_seat *seat, dlock_error *why, int64_t now)
{
    bool final = why->code != DLOCK_EUNAVAIL;
    seat->calls++; /* it may be given back from inside the answer */
    dlk_etcd_seat_answer(seat, &seat->take, DLK_REFUSED, why);
    if (final && !seat->leaving) {
        seat->leaving = true;
        dlk_etcd_seat_leave(seat, now);
    }
    seat->calls--;
}

/* The lease is renewed first, and the seat goes on then. */
static void await_proof(dlk_etcd_seat *seat, int64_t now)
{
    seat->awaits_proof = true;
    dlk_etcd_prove(seat->et, now);
}

/* Our key was there and isn't any more: once more, at the end of the line. */
static void start_over(dlk_etcd_seat *seat, int64_t now)
{
    dlk_etcd_seat_drop_key(seat);
    seat->new_place = true;
    if (seat->granted) {
        dlk_etcd_seat_gone(seat, now);
    } else if (++seat->tries > TRIES_MAX) {
        refuse(seat,
               dlk_error_make(DLOCK_EUNAVAIL,
                              "etcd: somebody keeps deleting our place in line"),
               now);
    } else {
        dlk_etcd_seat_go(seat, now);
    }
}

static void first(dlk_etcd_seat *seat, const dlk_etcd_call *call, int64_t now)
{
    int64_t since = dlk_etcd_proof(seat->et, call);
    if (since)
        grant(seat, since);
    else if (++seat->tries > TRIES_MAX)
        dlk_etcd_seat_fail(seat, &seat->take, DLK_UNKNOWN);
    else
        await_proof(seat, now); /* the leader may have changed: look again then */
}

static void conclude(dlk_etcd_seat *seat, const dlk_etcd_call *call,
                     dlk_etcd_verdict verdict, dlk_etcd_place *place, int64_t now)
{
    seat->below = 0;
    if (seat->leaving) {
        dlk_error_clear(&place->why);
        dlk_etcd_seat_leave(seat, now);
        return;
    }
    switch (verdict) {
    case DLK_ETCD_FIRST:
        first(seat, call, now);
        return;
    case DLK_ETCD_BEHIND:
        if (!seat->take || !seat->take->once)
            watch(seat, call, place, now);
        behind(seat);
        return;
    case DLK_ETCD_FURTHER:
        seat->below = place->below;
        look(seat, now);
        return;
    case DLK_ETCD_MISSING:
        start_over(seat, now);
        return;
    case DLK_ETCD_REFUSED:
        refuse(seat, place->why, now);
        return;
    case DLK_ETCD_NESTED:
        seat->loose = true;
        dlk_etcd_seat_go(seat, now);
        return;
    case DLK_ETCD_FENCED:
        dlk_etcd_seat_go(seat, now);
        return;
    case DLK_ETCD_UNCLEAR:
        refuse(seat,
               dlk_error_make(DLOCK_EPROTO, "etcd: an answer that isn't one: is this the "
                                            "gateway of an etcd?"),
               now);
        return;
    }
}

/* What isn't an answer to the question; true when @p call is none. */
static bool failed(dlk_etcd_seat *seat, dlk_etcd_call *call, int64_t now)
{
    dlk_etcd *et = seat->et;
    switch (call->end) {
    case DLK_ETCD_OK:
        return false;
    case DLK_ETCD_CUT:
        if (seat->leaving)
            dlk_etcd_seat_fail(seat, &seat->give, DLK_UNKNOWN);
        else
            dlk_etcd_seat_fail(seat, &seat->take, DLK_UNKNOWN);
        return true;
    case DLK_ETCD_NO_LEASE:
        dlk_etcd_lease_gone(et, now);
        return true;
    case DLK_ETCD_NO_TOKEN:
    case DLK_ETCD_DENIED:
    case DLK_ETCD_BUSY:
    case DLK_ETCD_BAD:
        break;
    }
    if (seat->leaving)
        dlk_etcd_seat_leave(seat, now);
    else
        refuse(seat, dlk_etcd_error(et, call, "use the keys of this lock"), now);
    return true;
}

/* ---- joining and looking ---- */

/* What an earlier number of ours has left there, by a request that came late. */
static bool is_stale(const dlk_etcd_seat *seat, const dlk_etcd_call *call)
{
    const json_t *kv = dlk_json_kv(dlk_json_response(call->json, 0, "response_range"), 0);
    return !dlk_json_true(call->json, "succeeded") && kv &&
           strcmp(dlk_json_text(kv, "value"), seat->value) != 0;
}

static void on_joined(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_seat *seat = call->owner;
    dlk_etcd_place place;
    seat->state = DLK_SEAT_UNSURE;
    if (call->end != DLK_ETCD_OK && call->end != DLK_ETCD_CUT && !seat->doubtful)
        seat->state = DLK_SEAT_NONE;
    seat->doubtful |= call->end == DLK_ETCD_CUT;
    seat->home->fence.wanted |= call->end == DLK_ETCD_CUT;
    if (failed(seat, call, now))
        return;
    dlk_etcd_verdict verdict = dlk_etcd_layout_joined(seat, call, &place);
    if (verdict != DLK_ETCD_UNCLEAR) {
        seat->rev = place.rev;
        seat->state = place.rev ? DLK_SEAT_THERE : DLK_SEAT_NONE;
        seat->doubtful = false;
    }
    if (is_stale(seat, call) && !seat->leaving)
        dlk_etcd_seat_remove_stale(seat, now);
    else
        conclude(seat, call, verdict, &place, now);
}

static void join(dlk_etcd_seat *seat, int64_t now)
{
    bool sent = dlk_etcd_layout_name(seat) &&
                dlk_etcd_seat_send(seat, "/v3/kv/txn", dlk_etcd_layout_join(seat),
                                   on_joined, now);
    if (sent)
        seat->state = DLK_SEAT_JOINING;
    else
        dlk_etcd_seat_fail(seat, &seat->take,
                           seat->doubtful ? DLK_UNKNOWN : DLK_NOT_SENT);
}

static void on_looked(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_seat *seat = call->owner;
    dlk_etcd_place place;
    seat->looking = false;
    if (failed(seat, call, now))
        return;
    dlk_etcd_verdict verdict = dlk_etcd_layout_looked(seat, call, &place);
    conclude(seat, call, verdict, &place, now);
}

static void look(dlk_etcd_seat *seat, int64_t now)
{
    seat->looking = dlk_etcd_seat_send(seat, "/v3/kv/txn", dlk_etcd_layout_look(seat),
                                       on_looked, now) != NULL;
    if (!seat->looking)
        dlk_etcd_seat_fail(seat, &seat->take, DLK_UNKNOWN);
}

void dlk_etcd_seat_go(dlk_etcd_seat *seat, int64_t now)
{
    bool there = seat->state == DLK_SEAT_THERE;
    if (seat->state == DLK_SEAT_JOINING || seat->state == DLK_SEAT_LEAVING ||
        seat->looking || seat->awaits_proof)
        return; /* the answer goes on */
    if (there && seat->watch && now < seat->looked + LOOK_AGAIN_NS) {
        behind(seat);
        return;
    }
    if (!there && dlk_etcd_seat_has_to_wait(seat)) {
        seat->awaits_slot = true;
        return;
    }
    if (!dlk_etcd_fresh(seat->et, now))
        await_proof(seat, now);
    else if (there)
        look(seat, now);
    else
        join(seat, now);
}

void dlk_etcd_seat_go_on(dlk_etcd_seat *seat, bool up, int64_t now)
{
    if (!seat->awaits_proof)
        return;
    seat->awaits_proof = false;
    if (!up)
        dlk_etcd_seat_fail(seat, &seat->take,
                           seat->state == DLK_SEAT_NONE ? DLK_NOT_SENT : DLK_UNKNOWN);
    else if (seat->state == DLK_SEAT_THERE)
        look(seat, now);
    else
        join(seat, now);
}

void dlk_etcd_acquire(dlk_etcd *et, dlk_ask *ask, int64_t now)
{
    dlk_etcd_seat *seat = dlk_etcd_seat_find(ask->key, ask->number);
    if (!seat)
        seat = dlk_etcd_seat_new(et, ask);
    if (!seat) {
        dlk_flight_refuse(&et->flight, ask,
                          dlk_error_make(DLOCK_ENOMEM, "out of memory"));
        return;
    }
    if (seat->leaving ||
        seat->take) { /* never: a number is given up once, asked once at a time */
        dlk_flight_answer(&et->flight, ask, DLK_NOT_SENT);
        return;
    }
    seat->take = ask;
    dlk_flight_await(&et->flight, ask);
    seat->calls++;
    dlk_etcd_seat_go(seat, now);
    seat->calls--;
    dlk_etcd_seat_settle(seat);
}
