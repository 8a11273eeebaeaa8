/*
 * One number of the engine's on one key: taking its nodes one after the other, and giving them
 * back until the server has surely let go.
 */
#include "backends/zookeeper/inner.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* What couldn't be deleted for other reasons than the connection is tried again after so long. */
#define AGAIN_NS DLK_NS_PER_SEC

/* ---- memory ---- */

dlk_zk_place *dlk_zk_place_find(const dlk_key *key, uint64_t number)
{
    DLK_LIST_FOR (it, &dlk_zk_key_of(key)->places) {
        dlk_zk_place *place = DLK_LIST_ITEM(it, dlk_zk_place, of_key);
        if (place->number == number)
            return place;
    }
    return NULL;
}

static dlk_zk_place *new_place_of(dlk_zk *zk, const dlk_ask *ask)
{
    dlk_zk_key *key = dlk_zk_key_of(ask->key);
    const char *data = dlk_ask_data(ask);
    dlk_zk_place *place = calloc(1, sizeof(*place));
    if (!place || (data[0] && !(place->data = strdup(data)))) {
        free(place);
        return NULL;
    }
    place->zk = zk;
    place->home = key;
    key->refs++;
    place->number = ask->number;
    place->shared = ask->shared;
    place->plan = key->plans[ask->shared];
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        dlk_zk_node_init(&place->nodes[i], place, place->plan->step[i].rule,
                         key->parents[i]);
    dlk_zk_node_init(&place->side, place, NULL, key->parents[0]);
    dlk_list_append(&zk->places, &place->all);
    dlk_list_append(&key->places, &place->of_key);
    return place;
}

void dlk_zk_place_free(dlk_zk_place *place)
{
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        dlk_zk_node_forget(&place->nodes[i]);
    dlk_zk_node_forget(&place->side);
    dlk_list_remove(&place->all);
    dlk_list_remove(&place->of_key);
    dlk_zk_key_unref(place->home);
    free(place->data);
    free(place);
}

static bool has_nodes(const dlk_zk_place *place)
{
    for (int i = 0; i < place->plan->steps; i++)
        if (place->nodes[i].state != DLK_NODE_NONE)
            return true;
    return place->side.state != DLK_NODE_NONE;
}

void dlk_zk_place_settle(dlk_zk_place *place)
{
    bool asked = place->take || place->give || place->keep || place->verify;
    /* Without a node it is nothing: whoever asks on gets another one. */
    bool wanted = place->granted && !place->leaving;
    if (place->calls == 0 && !wanted && !asked && !has_nodes(place))
        dlk_zk_place_free(place);
}

/* ---- answering ---- */

/* Takes the ask out of its place: it may be asked anew from inside the answer. */
static void answer(dlk_zk_place *place, dlk_ask **asked, dlk_reply reply)
{
    dlk_ask *ask = *asked;
    *asked = NULL;
    if (ask)
        dlk_flight_answer(&place->zk->flight, ask, reply);
}

static void refuse(dlk_zk_place *place, dlk_ask **asked, dlock_error *why)
{
    dlk_ask *ask = *asked;
    *asked = NULL;
    if (ask)
        dlk_flight_refuse(&place->zk->flight, ask, why);
    else
        dlk_error_clear(&why);
}

static void fail(dlk_zk_place *place, dlk_ask **asked, dlk_reply reply,
                 const dlock_error *why)
{
    if (*asked && why && !(*asked)->error)
        (*asked)->error = dlk_error_copy(why);
    answer(place, asked, reply);
}

/* ---- taking ---- */

static void leave_all(dlk_zk_place *place, int64_t now)
{
    place->leaving = true;
    for (int i = place->plan->steps; i-- > 0;)
        dlk_zk_node_leave(&place->nodes[i], now);
}

static void grant(dlk_zk_place *place, int64_t now)
{
    dlk_zk *zk = place->zk;
    dlk_ask *take = place->take;
    if (!take) /* its time was up. Who asks again looks again: this look is old by then */
        return;
    if (!place->granted)
        place->since = zk->proof; /* of this look; newer proofs say nothing of the node */
    place->granted = true;
    place->token = place->plan->tokens ? dlk_zk_place_prize(place)->czxid : 0;
    for (int i = 0; i < place->plan->steps; i++)
        if (place->plan->step[i].passing)
            dlk_zk_node_leave(&place->nodes[i], now);
    if (zk->listens)
        dlk_zk_look_after(place, now);
    take->token = place->token;
    take->ttl_ms = zk->timeout_ms;
    if (place->since < take->since)
        take->since = place->since;
    take->lasts = true;
    answer(place, &place->take, DLK_YES);
}

static void behind(dlk_zk_place *place)
{
    if (!place->take)
        return;
    /* For who only tries nothing is watched. Should somebody go on with his place, he asks again. */
    place->take->wait_ms = place->take->once ? 0 : -1;
    place->take->new_place = place->new_place;
    place->new_place = false;
    answer(place, &place->take, DLK_HELD);
}

/* Refused for good: nothing of it stays. */
static void refused(dlk_zk_place *place, dlk_zk_node *node, int64_t now)
{
    dlock_error *why = node->refused;
    node->refused = NULL;
    if (why->code == DLOCK_EUNAVAIL && has_nodes(place)) {
        /* Something has been done, and must be given back should nobody ask again. */
        fail(place, &place->take, DLK_UNKNOWN, why);
        dlk_error_clear(&why);
        return;
    }
    if (why->code != DLOCK_EUNAVAIL)
        leave_all(place, now);
    refuse(place, &place->take, why);
}

void dlk_zk_place_heard(dlk_zk_place *place, dlk_zk_node *node, dlk_zk_heard heard,
                        int64_t now)
{
    if (node == &place->side) {
        dlk_zk_side_heard(place, heard, now);
        return;
    }
    if (place->leaving) { /* it wants to be gone, and couldn't say so */
        fail(place, &place->give, heard == DLK_HEARD_UNSENT ? DLK_NOT_SENT : DLK_UNKNOWN,
             NULL);
        place->zk->sweep_at = now + AGAIN_NS;
        return;
    }
    switch (heard) {
    case DLK_HEARD_FIRST:
        if (place->granted)
            return;
        if (place->step + 1 < place->plan->steps)
            dlk_zk_node_go(&place->nodes[++place->step], now);
        else
            grant(place, now);
        return;
    case DLK_HEARD_BEHIND:
        behind(place);
        return;
    case DLK_HEARD_UNKNOWN:
        fail(place, &place->take, DLK_UNKNOWN, place->zk->why_down);
        return;
    case DLK_HEARD_UNSENT:
        fail(place, &place->take, DLK_NOT_SENT, place->zk->why_down);
        return;
    case DLK_HEARD_REFUSED:
        refused(place, node, now);
        return;
    }
}

void dlk_zk_acquire(dlk_zk *zk, dlk_ask *ask, int64_t now)
{
    dlk_zk_place *place = dlk_zk_place_find(ask->key, ask->number);
    if (!place)
        place = new_place_of(zk, ask);
    if (!place) {
        dlk_flight_refuse(&zk->flight, ask,
                          dlk_error_make(DLOCK_ENOMEM, "out of memory"));
        return;
    }
    if (place->leaving ||
        place->take) { /* never: a number is given up once, asked once at a time */
        dlk_flight_answer(&zk->flight, ask, DLK_NOT_SENT);
        return;
    }
    place->take = ask;
    dlk_flight_await(&zk->flight, ask);
    place->calls++;
    if (place->granted)
        grant(place, now);
    else
        dlk_zk_node_go(&place->nodes[place->step], now);
    place->calls--;
    dlk_zk_place_settle(place);
}

/* ---- giving back ---- */

void dlk_zk_place_left(dlk_zk_place *place, dlk_zk_node *node, const dlk_zk_call *call,
                       int64_t now)
{
    if (!place->leaving)
        return; /* a step that has served its turn */
    bool prize = node == dlk_zk_place_prize(place);
    if (call && call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE &&
        call->end != DLK_ZK_GONE) {
        place->zk->sweep_at = now + AGAIN_NS;
        if (call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY)
            fail(place, &place->give, DLK_UNKNOWN, place->zk->why_down);
        else
            refuse(place, &place->give,
                   dlk_zk_error(place->zk, call, "delete", node->path));
        return;
    }
    /* It was ours until somebody else took it away. */
    if (place->granted && prize && call && call->end != DLK_ZK_OK)
        answer(place, &place->give, DLK_NOT_OURS);
    if (!has_nodes(place))
        answer(place, &place->give, DLK_YES);
}

void dlk_zk_release(dlk_zk *zk, dlk_ask *ask, int64_t now)
{
    dlk_zk_place *place = dlk_zk_place_find(ask->key, ask->number);
    if (!place || place->give) {
        dlk_flight_answer(&zk->flight, ask, DLK_NOT_OURS);
        return;
    }
    place->give = ask;
    dlk_flight_await(&zk->flight, ask);
    place->calls++;
    answer(place, &place->take,
           DLK_NOT_SENT); /* given up: whatever comes of it goes back now */
    leave_all(place, now);
    if (place->side.state != DLK_NODE_NONE)
        dlk_zk_node_leave(&place->side, now);
    place->calls--;
    dlk_zk_place_settle(place);
}

/* Does it to every place there is, though the host may ask for others from inside. */
static void for_all(dlk_zk *zk,
                    void (*act)(dlk_zk_place *place, const void *with, int64_t now),
                    const void *with, int64_t now)
{
    dlk_list todo, *link;
    dlk_list_init(&todo);
    dlk_list_splice(&todo, &zk->places);
    while ((link = dlk_list_take_first(&todo))) {
        dlk_zk_place *place = DLK_LIST_ITEM(link, dlk_zk_place, all);
        dlk_list_append(&zk->places, link);
        place->calls++;
        act(place, with, now);
        place->calls--;
        dlk_zk_place_settle(place);
    }
}

static void sweep(dlk_zk_place *place, const void *with, int64_t now)
{
    (void)with;
    if (place->leaving) {
        leave_all(place, now);
        if (place->side.state != DLK_NODE_NONE)
            dlk_zk_node_leave(&place->side, now);
        return;
    }
    for (int i = 0; place->granted && i < place->plan->steps;
         i++) /* what has served its turn */
        if (place->plan->step[i].passing && place->nodes[i].state != DLK_NODE_NONE)
            dlk_zk_node_leave(&place->nodes[i], now);
}

void dlk_zk_places_sweep(dlk_zk *zk, int64_t now)
{
    for_all(zk, sweep, NULL, now);
    dlk_zk_litter_sweep(zk, now);
}

/* ---- the end of a session ---- */

static void forget(dlk_zk_place *place, const void *why, int64_t now)
{
    (void)now;
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        dlk_zk_node_forget(&place->nodes[i]);
    dlk_zk_node_forget(&place->side);
    place->step = 0;
    if (place->granted && !place->leaving)
        dlk_zk_place_lost(place);
    answer(place, &place->give, place->granted ? DLK_NOT_OURS : DLK_YES);
    place->new_place = true;
    fail(place, &place->take, DLK_NOT_SENT, why);
}

void dlk_zk_places_forget(dlk_zk *zk, const dlock_error *why)
{
    for_all(zk, forget, why, 0);
    DLK_LIST_FOR (it, &zk->litter) {
        dlk_zk_litter *litter = DLK_LIST_ITEM(it, dlk_zk_litter, link);
        if (litter->sent)
            continue; /* its answer is on the way */
        dlk_list_remove(it);
        free(litter);
    }
}

/* Nobody asks about the name any more; what is still being given back goes on. */
static void orphan(dlk_zk_place *place, const void *home, int64_t now)
{
    if (place->home == home && !place->leaving)
        leave_all(place, now);
}

void dlk_zk_key_orphan(dlk_zk *zk, dlk_zk_key *home)
{
    for_all(zk, orphan, home, dlk_clock_now());
}

/* ---- watches ---- */

static void changed(dlk_zk_place *place, const void *path, int64_t now)
{
    bool waits = false;
    for (int i = 0; i < place->plan->steps; i++)
        waits |= dlk_zk_node_changed(&place->nodes[i], path);
    dlk_host *host = place->zk->base.host;
    if (waits && !place->granted && !place->leaving)
        host->notified(host, place->home->key);
    dlk_zk_node *prize = dlk_zk_place_prize(place);
    if (prize->own_armed && prize->path && strcmp(prize->path, path) == 0) {
        prize->own_armed = false;
        dlk_zk_look_after(place, now);
    }
}

void dlk_zk_places_changed(dlk_zk *zk, const char *path, int64_t now)
{
    for_all(zk, changed, path, now);
}
