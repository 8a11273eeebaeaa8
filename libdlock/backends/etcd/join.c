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

#include <string.h>

/* A place in line is looked at again after so long, though no watch has fired. */
#define LOOK_AGAIN_NS (5 * DLK_NS_PER_SEC)
#define TRIES_MAX     8

static void look(dlk_etcd_place *place, int64_t now);

/* ---- one after the other ---- */

/* Two of ours can't have a mutex' key; and requests overtake each other, so what we are giving back
 * could yet stand before what we ask for. */
bool dlk_etcd_place_has_to_wait(const dlk_etcd_place *place)
{
    DLK_LIST_FOR (it, &place->home->base.places) {
        const dlk_etcd_place *other = DLK_ETCD_PLACE_IN_LINE(it);
        if (other != place && other->state != DLK_PLACE_NONE &&
            (other->base.leaving ||
             (place->home->line == DLK_ETCD_MUTEX && !other->imports)))
            return true;
    }
    return false;
}

static dlk_etcd_place *next_to_join(const dlk_etcd_key *home)
{
    DLK_LIST_FOR (it, &home->base.places) {
        dlk_etcd_place *place = DLK_ETCD_PLACE_IN_LINE(it);
        if (place->awaits_slot && !dlk_etcd_place_has_to_wait(place))
            return place;
    }
    return NULL;
}

void dlk_etcd_pass_slot(const dlk_etcd_key *home, int64_t now)
{
    dlk_etcd_place *place;
    while ((place = next_to_join(home))) {
        place->awaits_slot = false;
        dlk_etcd_place_go(place, now);
    }
}

/* ---- the first, or behind somebody ---- */

/* A mutex' token is of the answer by which we know that it is ours: as Go's Mutex.Header() has it, and
 * so ours and theirs rise together, whoever joined first. An election's is its key's, as Go's Rev(). */
static int64_t token_of(const dlk_etcd_place *place, const dlk_etcd_call *call)
{
    switch ((int)place->home->base.kind) {
    case DLOCK_MUTEX:
        return call->revision;
    case DLOCK_SEMAPHORE:
        return 0;
    default:
        return place->rev;
    }
}

static void on_somebody(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    place->watch = NULL;
    (void)now;
    dlk_place_wanted(&place->base); /* or nobody tells us any more: then it isn't kept */
}

/* One that may be kept hears of whoever has come since its own key was put, before the grant, too. (Of an
 * import the line is known to the giver alone.) */
static void hear_who_comes(dlk_etcd_place *place, int64_t now)
{
    const dlk_etcd_span *line = &place->home->all;
    if (!dlk_number_keeps(place->base.number) || place->imports)
        return;
    place->watch =
        dlk_etcd_watch(place->et, line->from, line->to, dlk_number_sum(place->rev, 1),
                       DLK_ETCD_PUTS, on_somebody, NULL, place, now);
    place->base.wanted = !place->watch;
}

static void grant(dlk_etcd_place *place, const dlk_etcd_call *call, int64_t since,
                  int64_t now)
{
    place->tries = 0;
    if (!place->base.granted) { /* asked again it has its token again */
        place->base.token = token_of(place, call);
        dlk_etcd_place_unwatch(place);
        hear_who_comes(place, now);
    }
    place->base.granted = true;
    /* Its time may be up: the engine asks again, or gives it back. */
    dlk_place_lasts(&place->base, &place->base.take, since, place->et->ttl_ms);
}

static void behind(dlk_etcd_place *place)
{
    place->tries = 0;
    dlk_place_behind(&place->base);
}

static void on_changed(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    dlk_host *host = place->et->base.backend.host;
    place->watch = NULL;
    (void)now;
    if (call->end != DLK_ETCD_BAD && place->home->base.key)
        host->notified(host, place->home->base.key);
}

/* It may have gone between our look and the watch: one look more, behind which the watch stands. */
static void on_past(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    dlk_host *host = place->et->base.backend.host;
    place->looked = now - LOOK_AGAIN_NS;
    if (place->home->base.key)
        host->notified(host, place->home->base.key);
}

static void watch(dlk_etcd_place *place, const dlk_etcd_call *call,
                  const dlk_etcd_position *position, int64_t now)
{
    bool puts = (place->home->line == DLK_ETCD_RW && place->base.shared) ||
                place->home->line == DLK_ETCD_CONDITION;
    /* One that stands since this look was under way tells nothing of what lies between them. */
    bool tells_all =
        place->watch && place->watch->tells_from <= dlk_number_sum(call->revision, 1);
    place->looked = call->sent_at;
    if (tells_all && dlk_etcd_bytes_same(place->ahead, position->from))
        return;
    dlk_etcd_place_unwatch(place);
    place->ahead = dlk_etcd_bytes_copy(position->from.data, position->from.len);
    place->watch = dlk_etcd_watch(
        place->et, position->from, position->to, dlk_number_sum(call->revision, 1),
        puts ? DLK_ETCD_CHANGES : DLK_ETCD_DELETES, on_changed, on_past, place, now);
}

/* Refused for good: nothing of it stays. */
static void refuse(dlk_etcd_place *place, dlock_error *why, int64_t now)
{
    bool final = why->code != DLOCK_EUNAVAIL;
    place->base.calls++; /* it may be given back from inside the answer */
    dlk_place_answer(&place->base, &place->base.take, DLK_REFUSED, why);
    if (final && !place->base.leaving) {
        place->base.leaving = true;
        dlk_etcd_place_leave(&place->base, now);
    }
    place->base.calls--;
}

/* The lease is renewed first, and the place goes on then. */
static void await_proof(dlk_etcd_place *place, int64_t now)
{
    place->awaits_proof = true;
    dlk_etcd_prove(place->et, now);
}

/* Our key was there and isn't any more: once more, at the end of the line. */
static void start_over(dlk_etcd_place *place, int64_t now)
{
    dlk_etcd_place_drop_key(place);
    place->base.new_place = true;
    if (place->base.granted) {
        dlk_etcd_place_gone(place, now);
    } else if (++place->tries > TRIES_MAX) {
        refuse(place,
               dlk_error_make(DLOCK_EUNAVAIL,
                              "etcd: somebody keeps deleting our place in line"),
               now);
    } else {
        dlk_etcd_place_go(place, now);
    }
}

static void first(dlk_etcd_place *place, const dlk_etcd_call *call, int64_t now)
{
    int64_t since = dlk_etcd_proof(place->et, call);
    if (since)
        grant(place, call, since, now);
    else if (++place->tries > TRIES_MAX)
        dlk_place_fail(&place->base, &place->base.take, DLK_UNKNOWN);
    else
        await_proof(place, now); /* the leader may have changed: look again then */
}

/* Our key of that name is with a ticket, or with who has used it. A join by that name which got no answer
 * might be done when it is free: nobody would know of that key. */
static void rename_key(dlk_etcd_place *place, int64_t now)
{
    if (dlk_etcd_place_clear_doubts(place, now))
        return;
    place->home->spare++;
    dlk_etcd_place_drop_key(place);
    if (++place->tries > TRIES_MAX)
        dlk_place_fail(&place->base, &place->base.take, DLK_NOT_SENT);
    else
        dlk_etcd_place_go(place, now);
}

void dlk_etcd_place_conclude(dlk_etcd_place *place, const dlk_etcd_call *call,
                             dlk_etcd_verdict verdict, dlk_etcd_position *position,
                             int64_t now)
{
    place->below = 0;
    if (place->base.leaving) {
        dlk_error_clear(&position->why);
        dlk_etcd_place_leave(&place->base, now);
        return;
    }
    switch (verdict) {
    case DLK_ETCD_FIRST:
        place->signals = position->signals;
        first(place, call, now);
        return;
    case DLK_ETCD_BEHIND:
        if (!place->base.take || !place->base.take->once)
            watch(place, call, position, now);
        behind(place);
        return;
    case DLK_ETCD_FURTHER:
        place->below = position->below;
        look(place, now);
        return;
    case DLK_ETCD_MISSING:
        start_over(place, now);
        return;
    case DLK_ETCD_REFUSED:
        refuse(place, position->why, now);
        return;
    case DLK_ETCD_NESTED:
        place->loose = true;
        dlk_etcd_place_go(place, now);
        return;
    case DLK_ETCD_FENCED:
        dlk_etcd_place_go(place, now);
        return;
    case DLK_ETCD_TAKEN:
        rename_key(place, now);
        return;
    case DLK_ETCD_UNCLEAR:
        refuse(place,
               dlk_error_make(DLOCK_EPROTO, "etcd: an answer that isn't one: is this an "
                                            "etcd?"),
               now);
        return;
    }
}

bool dlk_etcd_place_failed(dlk_etcd_place *place, dlk_etcd_call *call, int64_t now)
{
    bool nowhere = place->state == DLK_PLACE_NONE;
    dlk_etcd *et = place->et;
    switch (call->end) {
    case DLK_ETCD_OK:
        return false;
    case DLK_ETCD_CUT:
        if (place->base.leaving)
            dlk_place_fail(&place->base, &place->base.give, DLK_UNKNOWN);
        else
            dlk_place_fail(&place->base, &place->base.take,
                           nowhere ? DLK_NOT_SENT : DLK_UNKNOWN);
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
    if (place->base.leaving)
        dlk_etcd_place_leave(&place->base, now);
    else
        refuse(place, dlk_etcd_error(et, call, "use the keys of this lock"), now);
    return true;
}

/* ---- joining and looking ---- */

/* What an earlier number of ours has left there, by a request that came late: its value, or NULL. */
static const dlk_etcd_bytes *stale_value(const dlk_etcd_place *place,
                                         const dlk_etcd_call *call)
{
    const DlkEtcd__KeyValue *kv = dlk_etcd_kv(dlk_etcd_found(call, 0), 0);
    bool stale =
        !dlk_etcd_succeeded(call) && kv && !dlk_etcd_bytes_same(kv->value, place->value);
    return stale ? &kv->value : NULL;
}

static void on_joined(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    dlk_etcd_position position;
    place->state = DLK_PLACE_UNSURE;
    if (call->end != DLK_ETCD_OK && !dlk_etcd_unsure(call) && !place->doubtful)
        place->state = DLK_PLACE_NONE;
    place->doubtful |= dlk_etcd_unsure(call);
    place->home->fence.wanted |= dlk_etcd_unsure(call);
    if (dlk_etcd_place_failed(place, call, now))
        return;
    dlk_etcd_verdict verdict = dlk_etcd_layout_joined(place, call, &position);
    if (verdict != DLK_ETCD_UNCLEAR) {
        place->rev = place->changed = position.rev;
        place->state = position.rev ? DLK_PLACE_THERE : DLK_PLACE_NONE;
        place->doubtful = false;
    }
    const dlk_etcd_bytes *stale =
        verdict == DLK_ETCD_TAKEN ? NULL : stale_value(place, call);
    bool noted = !stale || dlk_etcd_place_note_found(place, *stale);
    if (!noted) /* no memory: it is asked again, or read again */
        place->state = DLK_PLACE_UNSURE;
    if (!noted && !place->base.leaving)
        dlk_place_fail(&place->base, &place->base.take, DLK_UNKNOWN);
    else if (stale && !place->base.leaving)
        dlk_etcd_place_remove_stale(place, now);
    else
        dlk_etcd_place_conclude(place, call, verdict, &position, now);
}

static void join(dlk_etcd_place *place, int64_t now)
{
    if (place->imports) {
        dlk_etcd_place_import(place, now);
        return;
    }
    bool sent = dlk_etcd_layout_name(place) &&
                dlk_etcd_place_send(place, DLK_ETCD_TXN, dlk_etcd_layout_join(place),
                                    on_joined, now);
    if (sent)
        place->state = DLK_PLACE_JOINING;
    else
        dlk_place_fail(&place->base, &place->base.take,
                       place->doubtful ? DLK_UNKNOWN : DLK_NOT_SENT);
}

static void on_looked(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    dlk_etcd_position position;
    place->looking = false;
    if (dlk_etcd_place_failed(place, call, now))
        return;
    dlk_etcd_verdict verdict = dlk_etcd_layout_looked(place, call, &position);
    dlk_etcd_place_conclude(place, call, verdict, &position, now);
}

static void look(dlk_etcd_place *place, int64_t now)
{
    place->looking = dlk_etcd_place_send(place, DLK_ETCD_TXN, dlk_etcd_layout_look(place),
                                         on_looked, now) != NULL;
    if (!place->looking)
        dlk_place_fail(&place->base, &place->base.take, DLK_UNKNOWN);
}

void dlk_etcd_place_go(dlk_etcd_place *place, int64_t now)
{
    bool there = place->state == DLK_PLACE_THERE;
    if (place->state == DLK_PLACE_JOINING || place->state == DLK_PLACE_LEAVING ||
        place->looking || place->awaits_proof)
        return; /* the answer goes on */
    /* At a condition no watch tells of all that may concern it. */
    bool hears = place->watch && place->home->line != DLK_ETCD_CONDITION;
    if (there && hears && now < place->looked + LOOK_AGAIN_NS) {
        behind(place);
        return;
    }
    if (!there && !place->imports && dlk_etcd_place_has_to_wait(place)) {
        place->awaits_slot = true;
        return;
    }
    if (!dlk_etcd_fresh(place->et, now))
        await_proof(place, now);
    else if (there)
        look(place, now);
    else
        join(place, now);
}

void dlk_etcd_place_go_on(dlk_etcd_place *place, bool up, int64_t now)
{
    if (!place->awaits_proof)
        return;
    place->awaits_proof = false;
    if (!up)
        dlk_place_fail(&place->base, &place->base.take,
                       place->state == DLK_PLACE_NONE ? DLK_NOT_SENT : DLK_UNKNOWN);
    else if (place->state == DLK_PLACE_THERE)
        look(place, now);
    else
        join(place, now);
}

void dlk_etcd_place_take(dlk_place *place, int64_t now)
{
    dlk_etcd_place_go(dlk_etcd_place_of(place), now);
}
