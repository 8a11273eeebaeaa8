/*
 * What etcd's places have beyond others: a key at the server, bound to the lease.
 *
 * NONE → JOINING → THERE → LEAVING → NONE. A join without an answer leaves UNSURE. How a place is
 * got and looked at stands in join.c, how it is given back in leave.c, how a hold is kept in keep.c.
 */
#include "backends/etcd/inner.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

/* ---- what it has ---- */

void dlk_etcd_place_open(dlk_place *base, const dlk_ask *ask)
{
    dlk_etcd_place *place = dlk_etcd_place_of(base);
    place->et = (dlk_etcd *)(void *)base->session;
    place->home = dlk_etcd_key_of(base->line);
    place->weight = ask->take;
    place->imports = ask->verb == DLK_IMPORT;
    place->since_ms = dlk_clock_date_ms();
}

void dlk_etcd_place_unwatch(dlk_etcd_place *place)
{
    if (place->watch)
        dlk_etcd_drop(place->et, place->watch);
    place->watch = NULL;
    dlk_etcd_bytes_free(&place->ahead);
}

void dlk_etcd_place_drop_key(dlk_etcd_place *place)
{
    dlk_etcd_bytes_free(&place->key);
    dlk_etcd_bytes_free(&place->value);
    dlk_etcd_bytes_free(&place->found);
    place->rev = place->below = 0;
    place->state = DLK_PLACE_NONE;
    place->looking = false;
    dlk_etcd_place_unwatch(place);
}

void dlk_etcd_place_close(dlk_place *place)
{
    dlk_etcd_place_drop_key(dlk_etcd_place_of(place));
}

bool dlk_etcd_place_is_nowhere(const dlk_place *place)
{
    return ((const dlk_etcd_place *)(const void *)place)->state == DLK_PLACE_NONE;
}

/* ---- asking ---- */

static void on_place_answer(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    if (!dlk_etcd_stale(place->et, call)) /* else its key went with the lease */
        call->then(call, now);
    place->base.calls--;
    dlk_place_settle(&place->base);
}

dlk_etcd_call *dlk_etcd_place_send(dlk_etcd_place *place, dlk_etcd_method method,
                                   dlk_etcd_request request, dlk_etcd_done *done,
                                   int64_t now)
{
    dlk_etcd_bytes about = {0};
    if (method == DLK_ETCD_TXN)
        about = (dlk_etcd_bytes){place->home->size, (uint8_t *)place->home->name};
    dlk_etcd_call *call = dlk_etcd_send_then(place->et, method, request, about,
                                             on_place_answer, done, place, now);
    if (call)
        place->base.calls++;
    return call;
}

/* ---- what befalls it ---- */

void dlk_etcd_place_gone(dlk_etcd_place *place, int64_t now)
{
    bool left = place->base.leaving; /* whatever its key is, it is being deleted */
    if (!left)
        dlk_etcd_place_drop_key(place);
    dlk_place_lost(&place->base);
    if (!left)
        dlk_etcd_pass_slot(place->home, now);
}

void dlk_etcd_place_forget(dlk_place *base, int64_t now)
{
    dlk_etcd_place *place = dlk_etcd_place_of(base);
    place->awaits_proof = place->awaits_slot = place->doubtful = false;
    if (place->state != DLK_PLACE_NONE)
        base->new_place = true;
    dlk_etcd_place_drop_key(place);
    if (base->granted && !base->leaving)
        dlk_etcd_place_gone(place, now);
}

/* ---- all of them ---- */

static void proved(dlk_place *base, const void *with, int64_t now)
{
    dlk_etcd_place *place = dlk_etcd_place_of(base);
    dlk_etcd_place_go_on(place, *(const bool *)with, now);
    dlk_etcd_keep_on(place, now);
}

void dlk_etcd_places_proved(dlk_etcd *et, int64_t now)
{
    const bool up = et->phase == DLK_ETCD_UP;
    dlk_places_each(&et->base, proved, &up, now);
}

/* Nothing watches for it any more. */
static void nudge(dlk_place *base, const void *with, int64_t now)
{
    const dlk_etcd_place *place = dlk_etcd_place_of(base);
    dlk_host *host = base->session->backend.host;
    (void)with, (void)now;
    if (!place->watch && !base->granted && !base->leaving && base->line->key &&
        place->state == DLK_PLACE_THERE)
        host->notified(host, base->line->key);
}

void dlk_etcd_places_nudge(dlk_etcd *et, int64_t now)
{
    dlk_places_each(&et->base, nudge, NULL, now);
}
