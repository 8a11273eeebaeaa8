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

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS DLK_NS_PER_SEC

void dlk_etcd_place_left(dlk_etcd_place *place, dlk_reply reply, int64_t now)
{
    dlk_etcd_key *home = place->home;
    dlk_etcd_place_drop_key(place);
    dlk_place_answer(&place->base, &place->base.give, reply, NULL);
    dlk_etcd_pass_slot(home, now);
}

void dlk_etcd_place_not_left(dlk_etcd_place *place, const dlk_etcd_call *call,
                             int64_t now)
{
    place->et->base.sweep_at = now + AGAIN_NS;
    if (call->end == DLK_ETCD_CUT) {
        dlk_place_fail(&place->base, &place->base.give, DLK_UNKNOWN);
        dlk_place_fail(&place->base, &place->base.take, DLK_UNKNOWN);
        return;
    }
    dlk_place_answer(
        &place->base, place->base.leaving ? &place->base.give : &place->base.take,
        DLK_REFUSED, dlk_etcd_error(place->et, call, "delete the key of a lock"));
}

/* ---- our key ---- */

static void on_left(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    bool gone = dlk_etcd_succeeded(call);
    place->state = DLK_PLACE_THERE;
    if (call->end != DLK_ETCD_OK) {
        place->asked_delete |= dlk_etcd_unsure(call);
        dlk_etcd_place_not_left(place, call, now);
        return;
    }
    if (!place->base.leaving) { /* somebody's before us, which was in our place */
        dlk_etcd_place_drop_key(place);
        dlk_etcd_place_go(place, now);
        return;
    }
    bool taken_away = ((!gone && !place->asked_delete) || place->remade) &&
                      (place->base.granted || place->stranger);
    dlk_etcd_place_left(place, taken_away ? DLK_NOT_OURS : DLK_YES, now);
}

bool dlk_etcd_place_delete(dlk_etcd_place *place, int64_t now)
{
    const dlk_etcd_bytes *found = place->found.data ? &place->found : NULL;
    int64_t lease = found ? place->et->lease : 0;
    dlk_etcd_request request =
        dlk_etcd_layout_delete(place->key, place->rev, found, lease);
    if (!dlk_etcd_place_send(place, DLK_ETCD_TXN, request, on_left, now))
        return false;
    place->state = DLK_PLACE_LEAVING;
    return true;
}

bool dlk_etcd_place_note_found(dlk_etcd_place *place, dlk_etcd_bytes value)
{
    dlk_etcd_bytes_free(&place->found);
    if (place->home->line != DLK_ETCD_MUTEX)
        return true;
    place->found = dlk_etcd_bytes_copy(value.data, value.len);
    return place->found.data != NULL;
}

void dlk_etcd_place_remove_stale(dlk_etcd_place *place, int64_t now)
{
    if (!dlk_etcd_place_delete(place, now))
        dlk_place_fail(&place->base, &place->base.take, DLK_UNKNOWN);
}

/* ---- the fence ---- */

static bool wants_fence(const dlk_etcd *et, const dlk_etcd_key *home)
{
    return home->fence.wanted && home->fence.lease == et->lease;
}

/* Nothing that was sent before will be done any more. */
static void on_fenced(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    place->state = place->before;
    if (call->end == DLK_ETCD_NO_LEASE) {
        dlk_etcd_lease_gone(place->et, now);
        return;
    }
    if (call->end != DLK_ETCD_OK) {
        dlk_etcd_place_not_left(place, call, now);
        return;
    }
    const DlkEtcd__KeyValue *own = dlk_etcd_layout_fenced(place, call);
    int64_t made = own ? own->create_revision : 0;
    if (place->state == DLK_PLACE_THERE && own && made != place->rev) {
        place->remade = true;
        place->state = DLK_PLACE_UNSURE;
    }
    if (place->state == DLK_PLACE_UNSURE && own &&
        !dlk_etcd_place_note_found(place, own->value)) {
        dlk_etcd_place_not_left(place, call, now);
        return;
    }
    if (place->state == DLK_PLACE_UNSURE) {
        place->rev = place->changed = made;
        place->state = own ? DLK_PLACE_THERE : DLK_PLACE_NONE;
    }
    if (place->base.leaving)
        dlk_etcd_place_leave(&place->base, now);
    else if (own && !dlk_etcd_layout_is_mine(place, own))
        dlk_etcd_place_remove_stale(place, now);
    else
        dlk_etcd_place_go(place, now);
}

static bool send_fence(dlk_etcd_place *place, int64_t now)
{
    if (!dlk_etcd_layout_name(place) ||
        !dlk_etcd_place_send(place, DLK_ETCD_TXN, dlk_etcd_layout_fence(place), on_fenced,
                             now))
        return false;
    place->before = place->state;
    place->state = DLK_PLACE_LEAVING;
    return true;
}

bool dlk_etcd_place_clear_doubts(dlk_etcd_place *place, int64_t now)
{
    if (!wants_fence(place->et, place->home))
        return false;
    place->state = DLK_PLACE_UNSURE;
    if (!send_fence(place, now))
        dlk_place_fail(&place->base, &place->base.take, DLK_UNKNOWN);
    return true;
}

/* ---- all of it ---- */

void dlk_etcd_place_leave(dlk_place *base, int64_t now)
{
    dlk_etcd_place *place = dlk_etcd_place_of(base);
    bool sent = true;
    dlk_etcd_place_unwatch(place);
    place->awaits_proof = place->awaits_slot = false;
    place->exported |= base->granted && base->give && base->give->exported;
    if (place->state == DLK_PLACE_JOINING || place->state == DLK_PLACE_LEAVING)
        return;                             /* the answer goes on */
    if (place->imports && !place->key.data) /* it hasn't come so far */
        dlk_etcd_place_left(place, DLK_YES, now);
    else if (place->state == DLK_PLACE_UNSURE || wants_fence(place->et, place->home))
        sent = send_fence(place, now);
    else if (place->state == DLK_PLACE_NONE)
        dlk_etcd_place_left(place, place->stranger ? DLK_NOT_OURS : DLK_YES, now);
    else if (place->exported && !place->remade)
        sent = dlk_etcd_place_export(place, now);
    else if (base->used)
        sent = dlk_etcd_condition_use(place, now);
    else
        sent = dlk_etcd_place_delete(place, now);
    if (!sent)
        dlk_place_fail(&place->base, &place->base.give,
                       DLK_NOT_SENT); /* swept when the link is up */
}

/* Without a fence a request of its may come late. */
dlk_place *dlk_etcd_place_stranger(dlk_session *session, const dlk_ask *ask)
{
    const dlk_etcd *et = (const dlk_etcd *)(const void *)session;
    bool fenced = !wants_fence(et, dlk_etcd_key_of(dlk_line_of(ask->key)));
    dlk_place *base = fenced ? NULL : dlk_place_new(session, ask);
    if (!base)
        return NULL;
    dlk_etcd_place *place = dlk_etcd_place_of(base);
    place->stranger = true;
    /* What is at a mutex' key may be another number's of ours by now. */
    if (place->home->line != DLK_ETCD_MUTEX || !dlk_etcd_place_has_to_wait(place))
        place->state = DLK_PLACE_UNSURE;
    return base;
}
