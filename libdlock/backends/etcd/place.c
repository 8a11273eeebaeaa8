/*
 * One number of the engine's on one key: what we know of its place in line, who has asked
 * what of it, and what befalls all of them at once.
 *
 * NONE → JOINING → THERE → LEAVING → NONE. A join without an answer leaves UNSURE. How a place is
 * got and looked at stands in join.c, how it is given back in leave.c, how a hold is kept in keep.c.
 */
#include "backends/etcd/inner.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

dlk_etcd_seat *dlk_etcd_seat_find(const dlk_key *key, uint64_t number)
{
    DLK_LIST_FOR (it, &dlk_etcd_key_of(key)->seats) {
        dlk_etcd_seat *seat = DLK_LIST_ITEM(it, dlk_etcd_seat, of_key);
        if (seat->number == number)
            return seat;
    }
    return NULL;
}

dlk_etcd_seat *dlk_etcd_seat_new(dlk_etcd *et, const dlk_ask *ask)
{
    const char *data = dlk_ask_data(ask);
    dlk_etcd_seat *seat = calloc(1, sizeof(*seat));
    if (!seat || (data[0] && !(seat->data = strdup(data)))) {
        free(seat);
        return NULL;
    }
    seat->et = et;
    seat->home = dlk_etcd_key_of(ask->key);
    seat->home->refs++;
    seat->number = ask->number;
    seat->shared = ask->shared;
    seat->weight = ask->take;
    dlk_list_append(&et->seats, &seat->all);
    dlk_list_append(&seat->home->seats, &seat->of_key);
    return seat;
}

void dlk_etcd_seat_unwatch(dlk_etcd_seat *seat)
{
    if (seat->watch)
        dlk_etcd_drop(seat->et, seat->watch);
    seat->watch = NULL;
    free(seat->ahead);
    seat->ahead = NULL;
}

void dlk_etcd_seat_drop_key(dlk_etcd_seat *seat)
{
    free(seat->key);
    free(seat->value);
    seat->key = seat->value = NULL;
    seat->rev = seat->below = 0;
    seat->state = DLK_SEAT_NONE;
    seat->looking = false;
    dlk_etcd_seat_unwatch(seat);
}

void dlk_etcd_seat_free(dlk_etcd_seat *seat)
{
    dlk_etcd_seat_drop_key(seat);
    dlk_list_remove(&seat->all);
    dlk_list_remove(&seat->of_key);
    dlk_etcd_key_unref(seat->et, seat->home);
    free(seat->data);
    free(seat);
}

void dlk_etcd_seat_settle(dlk_etcd_seat *seat)
{
    bool asked = seat->take || seat->give || seat->keep || seat->verify;
    bool wanted = seat->granted && !seat->leaving;
    if (seat->calls == 0 && !wanted && !asked && seat->state == DLK_SEAT_NONE)
        dlk_etcd_seat_free(seat);
}

/* ---- asking and answering ---- */

void dlk_etcd_seat_answer(dlk_etcd_seat *seat, dlk_ask **place, dlk_reply reply,
                          dlock_error *why)
{
    dlk_ask *ask = *place;
    *place = NULL;
    if (!ask) {
        dlk_error_clear(&why);
        return;
    }
    if (why) {
        dlk_error_clear(&ask->error);
        ask->error = why;
    }
    dlk_flight_answer(&seat->et->flight, ask, reply);
}

void dlk_etcd_seat_fail(dlk_etcd_seat *seat, dlk_ask **place, dlk_reply reply)
{
    dlk_etcd_seat_answer(seat, place, reply,
                         *place ? dlk_error_copy(seat->et->why_down) : NULL);
}

static void on_seat_answer(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_seat *seat = call->owner;
    if (!dlk_etcd_stale(seat->et, call)) /* else its key went with the lease */
        call->then(call, now);
    seat->calls--;
    dlk_etcd_seat_settle(seat);
}

dlk_etcd_call *dlk_etcd_seat_send(dlk_etcd_seat *seat, const char *path, char *body,
                                  dlk_etcd_done *done, int64_t now)
{
    dlk_etcd_call *call =
        dlk_etcd_send_then(seat->et, path, body, on_seat_answer, done, seat, now);
    if (call)
        seat->calls++;
    return call;
}

/* ---- what befalls it ---- */

static void keep_no_more(dlk_etcd_seat *seat)
{
    dlk_etcd_seat_answer(seat, &seat->keep, DLK_NOT_OURS, NULL);
    dlk_etcd_seat_answer(seat, &seat->verify, DLK_NOT_OURS, NULL);
}

void dlk_etcd_seat_gone(dlk_etcd_seat *seat, int64_t now)
{
    dlk_host *host = seat->et->base.host;
    bool told = seat->keep || seat->verify || seat->take;
    if (seat->leaving) { /* whatever its key is, it is being deleted */
        keep_no_more(seat);
        return;
    }
    seat->leaving = true;
    dlk_etcd_seat_drop_key(seat);
    keep_no_more(seat);
    dlk_etcd_seat_answer(seat, &seat->take, DLK_NOT_SENT, NULL);
    if (!told && seat->home->key)
        host->lost(host, seat->home->key, seat->number);
    dlk_etcd_pass_slot(seat->home, now);
}

/* ---- all of them ---- */

/* Does it to every seat there is, though the host may ask for others from inside. */
static void for_all(dlk_etcd *et,
                    void (*act)(dlk_etcd_seat *seat, const void *with, int64_t now),
                    const void *with, int64_t now)
{
    dlk_list todo, *link;
    dlk_list_init(&todo);
    dlk_list_splice(&todo, &et->seats);
    while ((link = dlk_list_take_first(&todo))) {
        dlk_etcd_seat *seat = DLK_LIST_ITEM(link, dlk_etcd_seat, all);
        dlk_list_append(&et->seats, link);
        seat->calls++;
        act(seat, with, now);
        seat->calls--;
        dlk_etcd_seat_settle(seat);
    }
}

static void proved(dlk_etcd_seat *seat, const void *with, int64_t now)
{
    dlk_etcd_seat_go_on(seat, *(const bool *)with, now);
    dlk_etcd_keep_on(seat, now);
}

void dlk_etcd_seats_proved(dlk_etcd *et, int64_t now)
{
    const bool up = et->phase == DLK_ETCD_UP;
    for_all(et, proved, &up, now);
}

static void sweep(dlk_etcd_seat *seat, const void *with, int64_t now)
{
    (void)with;
    if (seat->leaving)
        dlk_etcd_seat_leave(seat, now);
}

void dlk_etcd_seats_sweep(dlk_etcd *et, int64_t now)
{
    for_all(et, sweep, NULL, now);
}

/* Nothing watches for it any more. */
static void nudge(dlk_etcd_seat *seat, const void *with, int64_t now)
{
    dlk_host *host = seat->et->base.host;
    (void)with, (void)now;
    if (!seat->watch && !seat->granted && !seat->leaving && seat->home->key &&
        seat->state == DLK_SEAT_THERE)
        host->notified(host, seat->home->key);
}

void dlk_etcd_seats_nudge(dlk_etcd *et, int64_t now)
{
    for_all(et, nudge, NULL, now);
}

static void forget(dlk_etcd_seat *seat, const void *with, int64_t now)
{
    const dlock_error *why = with;
    seat->awaits_proof = seat->awaits_slot = seat->doubtful = false;
    if (seat->state != DLK_SEAT_NONE)
        seat->new_place = true;
    dlk_etcd_seat_drop_key(seat);
    if (seat->granted && !seat->leaving)
        dlk_etcd_seat_gone(seat, now);
    dlk_etcd_seat_answer(seat, &seat->give, seat->granted ? DLK_NOT_OURS : DLK_YES, NULL);
    dlk_etcd_seat_answer(seat, &seat->take, DLK_NOT_SENT,
                         seat->take ? dlk_error_copy(why) : NULL);
}

void dlk_etcd_seats_forget(dlk_etcd *et, const dlock_error *why, int64_t now)
{
    for_all(et, forget, why, now);
}

/* Nobody asks about the name any more; what is still being given back goes on. */
static void orphan(dlk_etcd_seat *seat, const void *home, int64_t now)
{
    if (seat->home != home || seat->leaving)
        return;
    seat->leaving = true;
    dlk_etcd_seat_leave(seat, now);
}

void dlk_etcd_key_orphan(dlk_etcd *et, dlk_etcd_key *home, int64_t now)
{
    for_all(et, orphan, home, now);
}
