/*
 * Handing a mutex on: its key goes from the giver's lease to the ticket's, and from there to the
 * importer's. It keeps its name and its create revision, and so stands where it stood, before all who wait.
 *
 * The ticket's lease is made for it and renewed by nobody: when it is over, the key goes. Whose the key
 * is its value says, by a number that no other holder has had: a transaction that names the value, and comes
 * late, finds another one or none.
 */
#include "backends/etcd/inner.h"

#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 8

/* ---- away ---- */

static void on_ticket(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    place->state = DLK_PLACE_THERE;
    if (call->end == DLK_ETCD_OK)
        place->ticket = dlk_etcd_lease_id(call);
    if (place->ticket)
        dlk_etcd_place_leave(&place->base, now);
    else
        dlk_etcd_place_not_left(place, call, now);
}

/* One that isn't on our lease any more, or says another number, was exported by an earlier request that
 * got no answer; it may be its importer's by now. */
static void on_exported(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    const DlkEtcd__KeyValue *own = dlk_etcd_kv(dlk_etcd_found(call, 0), 0);
    bool done = dlk_etcd_succeeded(call) || (own && own->create_revision == place->rev);
    place->state = DLK_PLACE_THERE;
    if (call->end == DLK_ETCD_OK) {
        dlk_etcd_place_left(place, done ? DLK_YES : DLK_NOT_OURS, now);
        return;
    }
    if (call->end == DLK_ETCD_NO_LEASE)
        place->ticket = 0; /* it took too long */
    dlk_etcd_place_not_left(place, call, now);
}

bool dlk_etcd_place_export(dlk_etcd_place *place, int64_t now)
{
    dlk_etcd_call *call =
        place->ticket
            ? dlk_etcd_place_send(place, DLK_ETCD_TXN, dlk_etcd_layout_export(place),
                                  on_exported, now)
            : dlk_etcd_place_send(place, DLK_ETCD_GRANT, dlk_etcd_lease_wanted(place->et),
                                  on_ticket, now);
    if (call)
        place->state = DLK_PLACE_LEAVING;
    return call != NULL;
}

/* ---- over ---- */

static void fail(dlk_etcd_place *place)
{
    dlk_place_fail(&place->base, &place->base.take,
                   place->doubtful ? DLK_UNKNOWN : DLK_NOT_SENT);
}

static void answer_nowhere(dlk_etcd_place *place, int64_t now)
{
    dlk_etcd_key *home = place->home;
    dlk_etcd_place_drop_key(place);
    place->doubtful = false;
    dlk_place_answer(&place->base, &place->base.take, DLK_NOT_OURS, NULL);
    dlk_etcd_pass_slot(home, now);
}

/* It is ours: from here on it is a place as others are, the first in the line. */
static void is_there(dlk_etcd_place *place, const dlk_etcd_call *call, int64_t changed,
                     int64_t now)
{
    dlk_etcd_position position = {.rev = place->rev};
    bool sound = call->revision > 0; /* that is our token */
    place->state = DLK_PLACE_THERE;
    place->changed = changed;
    place->doubtful = false;
    dlk_etcd_place_conclude(place, call, sound ? DLK_ETCD_FIRST : DLK_ETCD_UNCLEAR,
                            &position, now);
}

/* The fence may be another than was known, or the key has changed: that is looked at anew. */
static void on_imported(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    const DlkEtcd__KeyValue *fence = dlk_etcd_kv(dlk_etcd_found(call, 0), 0);
    place->doubtful |= dlk_etcd_unsure(call);
    place->home->fence.wanted |= dlk_etcd_unsure(call);
    place->state = place->doubtful ? DLK_PLACE_UNSURE : DLK_PLACE_NONE;
    if (dlk_etcd_place_failed(place, call, now))
        return;
    if (dlk_etcd_succeeded(call)) {
        is_there(place, call, call->revision, now);
        return;
    }
    place->home->fence.rev = fence ? fence->mod_revision : 0;
    if (place->base.leaving)
        dlk_etcd_place_leave(&place->base, now);
    else if (++place->tries > TRIES_MAX)
        fail(place);
    else
        dlk_etcd_place_import(place, now);
}

static void send_import(dlk_etcd_place *place, dlk_etcd_bytes value, int64_t now)
{
    if (dlk_etcd_place_send(place, DLK_ETCD_TXN, dlk_etcd_layout_import(place, value),
                            on_imported, now))
        place->state = DLK_PLACE_JOINING;
    else
        fail(place);
}

/* A value begins with its holder: "<owner>\n…". */
static bool says(const DlkEtcd__KeyValue *kv, const char *owner)
{
    size_t size = strlen(owner);
    return kv && kv->value.len > size && memcmp(kv->value.data, owner, size) == 0 &&
           kv->value.data[size] == '\n';
}

static const DlkEtcd__KeyValue *first_of(const dlk_etcd_key *home,
                                         const DlkEtcd__RangeResponse *range)
{
    for (size_t i = 0; i < dlk_etcd_kv_count(range); i++)
        if (dlk_etcd_layout_direct(home, dlk_etcd_kv(range, i)->key))
            return dlk_etcd_kv(range, i);
    return NULL;
}

static void on_found(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    place->looking = false;
    if (dlk_etcd_place_failed(place, call, now))
        return;
    const dlk_ask *take = place->base.take;
    if (place->base.leaving) {
        dlk_etcd_place_leave(&place->base, now);
        return;
    }
    if (!take || !take->text) /* nobody waits for it just now */
        return;
    const DlkEtcd__KeyValue *kv = first_of(place->home, dlk_etcd_range(call));
    bool mine = kv && dlk_etcd_layout_is_mine(place, kv);
    if (!mine && !says(kv, take->text)) {
        answer_nowhere(place, now);
        return;
    }
    dlk_etcd_bytes_free(&place->key);
    place->key = dlk_etcd_bytes_copy(kv->key.data, kv->key.len);
    place->rev = kv->create_revision;
    if (!place->key.data)
        fail(place);
    else if (mine)
        is_there(place, call, kv->mod_revision, now);
    else
        send_import(place, kv->value, now);
}

/* Whoever has the lock is the first in its line; nobody gets before him while his key is there. */
void dlk_etcd_place_import(dlk_etcd_place *place, int64_t now)
{
    place->looking =
        dlk_etcd_layout_name(place) &&
        dlk_etcd_place_send(place, DLK_ETCD_RANGE, dlk_etcd_layout_line(place->home),
                            on_found, now);
    if (!place->looking)
        fail(place);
}
