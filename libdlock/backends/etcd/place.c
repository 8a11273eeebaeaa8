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

dlk_etcd_place *dlk_etcd_place_find(const dlk_key *key, uint64_t number)
{
    DLK_LIST_FOR (it, &dlk_etcd_key_of(key)->places) {
        dlk_etcd_place *place = DLK_LIST_ITEM(it, dlk_etcd_place, of_key);
        if (place->number == number)
            return place;
    }
    return NULL;
}

dlk_etcd_place *dlk_etcd_place_new(dlk_etcd *et, const dlk_ask *ask)
{
    const char *data = dlk_ask_data(ask);
    dlk_etcd_place *place = calloc(1, sizeof(*place));
    if (!place || (data[0] && !(place->data = strdup(data)))) {
        free(place);
        return NULL;
    }
    place->et = et;
    place->home = dlk_etcd_key_of(ask->key);
    place->home->refs++;
    place->number = ask->number;
    place->shared = ask->shared;
    place->weight = ask->take;
    dlk_list_append(&et->places, &place->all);
    dlk_list_append(&place->home->places, &place->of_key);
    return place;
}

void dlk_etcd_place_unwatch(dlk_etcd_place *place)
{
    if (place->watch)
        dlk_etcd_drop(place->et, place->watch);
    place->watch = NULL;
    free(place->ahead);
    place->ahead = NULL;
}

void dlk_etcd_place_drop_key(dlk_etcd_place *place)
{
    free(place->key);
    free(place->value);
    place->key = place->value = NULL;
    place->rev = place->below = 0;
    place->state = DLK_PLACE_NONE;
    place->looking = false;
    dlk_etcd_place_unwatch(place);
}

void dlk_etcd_place_free(dlk_etcd_place *place)
{
    dlk_etcd_place_drop_key(place);
    dlk_list_remove(&place->all);
    dlk_list_remove(&place->of_key);
    dlk_etcd_key_unref(place->et, place->home);
    free(place->data);
    free(place);
}

void dlk_etcd_place_settle(dlk_etcd_place *place)
{
    bool asked = place->take || place->give || place->keep || place->verify;
    bool wanted = place->granted && !place->leaving;
    if (place->calls == 0 && !wanted && !asked && place->state == DLK_PLACE_NONE)
        dlk_etcd_place_free(place);
}

/* ---- asking and answering ---- */

void dlk_etcd_place_answer(dlk_etcd_place *place, dlk_ask **asked, dlk_reply reply,
                           dlock_error *why)
{
    dlk_ask *ask = *asked;
    *asked = NULL;
    if (!ask) {
        dlk_error_clear(&why);
        return;
    }
    if (why) {
        dlk_error_clear(&ask->error);
        ask->error = why;
    }
    dlk_flight_answer(&place->et->flight, ask, reply);
}

void dlk_etcd_place_fail(dlk_etcd_place *place, dlk_ask **asked, dlk_reply reply)
{
    dlk_etcd_place_answer(place, asked, reply,
                          *asked ? dlk_error_copy(place->et->why_down) : NULL);
}

static void on_place_answer(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    if (!dlk_etcd_stale(place->et, call)) /* else its key went with the lease */
        call->then(call, now);
    place->calls--;
    dlk_etcd_place_settle(place);
}

dlk_etcd_call *dlk_etcd_place_send(dlk_etcd_place *place, const char *path, char *body,
                                   dlk_etcd_done *done, int64_t now)
{
    dlk_etcd_call *call =
        dlk_etcd_send_then(place->et, path, body, on_place_answer, done, place, now);
    if (call)
        place->calls++;
    return call;
}

/* ---- what befalls it ---- */

static void keep_no_more(dlk_etcd_place *place)
{
    dlk_etcd_place_answer(place, &place->keep, DLK_NOT_OURS, NULL);
    dlk_etcd_place_answer(place, &place->verify, DLK_NOT_OURS, NULL);
}

void dlk_etcd_place_gone(dlk_etcd_place *place, int64_t now)
{
    dlk_host *host = place->et->base.host;
    bool told = place->keep || place->verify || place->take;
    if (place->leaving) { /* whatever its key is, it is being deleted */
        keep_no_more(place);
        return;
    }
    place->leaving = true;
    dlk_etcd_place_drop_key(place);
    keep_no_more(place);
    dlk_etcd_place_answer(place, &place->take, DLK_NOT_SENT, NULL);
    if (!told && place->home->key)
        host->lost(host, place->home->key, place->number);
    dlk_etcd_pass_slot(place->home, now);
}

/* ---- all of them ---- */

/* Does it to every place there is, though the host may ask for others from inside. */
static void for_all(dlk_etcd *et,
                    void (*act)(dlk_etcd_place *place, const void *with, int64_t now),
                    const void *with, int64_t now)
{
    dlk_list todo, *link;
    dlk_list_init(&todo);
    dlk_list_splice(&todo, &et->places);
    while ((link = dlk_list_take_first(&todo))) {
        dlk_etcd_place *place = DLK_LIST_ITEM(link, dlk_etcd_place, all);
        dlk_list_append(&et->places, link);
        place->calls++;
        act(place, with, now);
        place->calls--;
        dlk_etcd_place_settle(place);
    }
}

static void proved(dlk_etcd_place *place, const void *with, int64_t now)
{
    dlk_etcd_place_go_on(place, *(const bool *)with, now);
    dlk_etcd_keep_on(place, now);
}

void dlk_etcd_places_proved(dlk_etcd *et, int64_t now)
{
    const bool up = et->phase == DLK_ETCD_UP;
    for_all(et, proved, &up, now);
}

static void sweep(dlk_etcd_place *place, const void *with, int64_t now)
{
    (void)with;
    if (place->leaving)
        dlk_etcd_place_leave(place, now);
}

void dlk_etcd_places_sweep(dlk_etcd *et, int64_t now)
{
    for_all(et, sweep, NULL, now);
}

/* Nothing watches for it any more. */
static void nudge(dlk_etcd_place *place, const void *with, int64_t now)
{
    dlk_host *host = place->et->base.host;
    (void)with, (void)now;
    if (!place->watch && !place->granted && !place->leaving && place->home->key &&
        place->state == DLK_PLACE_THERE)
        host->notified(host, place->home->key);
}

void dlk_etcd_places_nudge(dlk_etcd *et, int64_t now)
{
    for_all(et, nudge, NULL, now);
}

static void forget(dlk_etcd_place *place, const void *with, int64_t now)
{
    const dlock_error *why = with;
    place->awaits_proof = place->awaits_slot = place->doubtful = false;
    if (place->state != DLK_PLACE_NONE)
        place->new_place = true;
    dlk_etcd_place_drop_key(place);
    if (place->granted && !place->leaving)
        dlk_etcd_place_gone(place, now);
    dlk_etcd_place_answer(place, &place->give, place->granted ? DLK_NOT_OURS : DLK_YES,
                          NULL);
    dlk_etcd_place_answer(place, &place->take, DLK_NOT_SENT,
                          place->take ? dlk_error_copy(why) : NULL);
}

void dlk_etcd_places_forget(dlk_etcd *et, const dlock_error *why, int64_t now)
{
    for_all(et, forget, why, now);
}

/* Nobody asks about the name any more; what is still being given back goes on. */
static void orphan(dlk_etcd_place *place, const void *home, int64_t now)
{
    if (place->home != home || place->leaving)
        return;
    place->leaving = true;
    dlk_etcd_place_leave(place, now);
}

void dlk_etcd_key_orphan(dlk_etcd *et, dlk_etcd_key *home, int64_t now)
{
    for_all(et, orphan, home, now);
}
