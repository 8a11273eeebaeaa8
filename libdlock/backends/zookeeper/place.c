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

dlk_zk_seat *dlk_zk_seat_find(const dlk_key *key, uint64_t number)
{
    DLK_LIST_FOR (it, &dlk_zk_key_of(key)->seats) {
        dlk_zk_seat *seat = DLK_LIST_ITEM(it, dlk_zk_seat, of_key);
        if (seat->number == number)
            return seat;
    }
    return NULL;
}

static dlk_zk_seat *new_seat(dlk_zk *zk, const dlk_ask *ask)
{
    dlk_zk_key *key = dlk_zk_key_of(ask->key);
    const char *data = dlk_ask_data(ask);
    dlk_zk_seat *seat = calloc(1, sizeof(*seat));
    if (!seat || (data[0] && !(seat->data = strdup(data)))) {
        free(seat);
        return NULL;
    }
    seat->zk = zk;
    seat->home = key;
    key->refs++;
    seat->number = ask->number;
    seat->shared = ask->shared;
    seat->plan = key->plans[ask->shared];
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        dlk_zk_node_init(&seat->nodes[i], seat, seat->plan->step[i].rule,
                         key->parents[i]);
    dlk_zk_node_init(&seat->side, seat, NULL, key->parents[0]);
    dlk_list_append(&zk->seats, &seat->all);
    dlk_list_append(&key->seats, &seat->of_key);
    return seat;
}

void dlk_zk_seat_free(dlk_zk_seat *seat)
{
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        dlk_zk_node_forget(&seat->nodes[i]);
    dlk_zk_node_forget(&seat->side);
    dlk_list_remove(&seat->all);
    dlk_list_remove(&seat->of_key);
    dlk_zk_key_unref(seat->home);
    free(seat->data);
    free(seat);
}

static bool has_nodes(const dlk_zk_seat *seat)
{
    for (int i = 0; i < seat->plan->steps; i++)
        if (seat->nodes[i].state != DLK_NODE_NONE)
            return true;
    return seat->side.state != DLK_NODE_NONE;
}

void dlk_zk_seat_settle(dlk_zk_seat *seat)
{
    bool asked = seat->take || seat->give || seat->keep || seat->verify;
    /* Without a node it is nothing: whoever asks on gets another one. */
    bool wanted = seat->granted && !seat->leaving;
    if (seat->calls == 0 && !wanted && !asked && !has_nodes(seat))
        dlk_zk_seat_free(seat);
}

/* ---- answering ---- */

/* Takes the ask out of its place: it may be asked anew from inside the answer. */
static void answer(dlk_zk_seat *seat, dlk_ask **place, dlk_reply reply)
{
    dlk_ask *ask = *place;
    *place = NULL;
    if (ask)
        dlk_flight_answer(&seat->zk->flight, ask, reply);
}

static void refuse(dlk_zk_seat *seat, dlk_ask **place, dlock_error *why)
{
    dlk_ask *ask = *place;
    *place = NULL;
    if (ask)
        dlk_flight_refuse(&seat->zk->flight, ask, why);
    else
        dlk_error_clear(&why);
}

static void fail(dlk_zk_seat *seat, dlk_ask **place, dlk_reply reply,
                 const dlock_error *why)
{
    if (*place && why && !(*place)->error)
        (*place)->error = dlk_error_copy(why);
    answer(seat, place, reply);
}

/* ---- taking ---- */

static void leave_all(dlk_zk_seat *seat, int64_t now)
{
    seat->leaving = true;
    for (int i = seat->plan->steps; i-- > 0;)
        dlk_zk_node_leave(&seat->nodes[i], now);
}

static void grant(dlk_zk_seat *seat, int64_t now)
{
    dlk_zk *zk = seat->zk;
    dlk_ask *take = seat->take;
    if (!take) /* its time was up. Who asks again looks again: this look is old by then */
        return;
    if (!seat->granted)
        seat->since = zk->proof; /* of this look; newer proofs say nothing of the node */
    seat->granted = true;
    seat->token = seat->plan->tokens ? dlk_zk_seat_prize(seat)->czxid : 0;
    for (int i = 0; i < seat->plan->steps; i++)
        if (seat->plan->step[i].passing)
            dlk_zk_node_leave(&seat->nodes[i], now);
    if (zk->listens)
        dlk_zk_look_after(seat, now);
    take->token = seat->token;
    take->ttl_ms = zk->timeout_ms;
    if (seat->since < take->since)
        take->since = seat->since;
    take->lasts = true;
    answer(seat, &seat->take, DLK_YES);
}

static void behind(dlk_zk_seat *seat)
{
    if (!seat->take)
        return;
    /* For who only tries nothing is watched. Should somebody go on with his place, he asks again. */
    seat->take->wait_ms = seat->take->once ? 0 : -1;
    seat->take->new_place = seat->new_place;
    seat->new_place = false;
    answer(seat, &seat->take, DLK_HELD);
}

/* Refused for good: nothing of it stays. */
static void refused(dlk_zk_seat *seat, dlk_zk_node *node, int64_t now)
{
    dlock_error *why = node->refused;
    node->refused = NULL;
    if (why->code == DLOCK_EUNAVAIL && has_nodes(seat)) {
        /* Something has been done, and must be given back should nobody ask again. */
        fail(seat, &seat->take, DLK_UNKNOWN, why);
        dlk_error_clear(&why);
        return;
    }
    if (why->code != DLOCK_EUNAVAIL)
        leave_all(seat, now);
    refuse(seat, &seat->take, why);
}

void dlk_zk_seat_heard(dlk_zk_seat *seat, dlk_zk_node *node, dlk_zk_heard heard,
                       int64_t now)
{
    if (node == &seat->side) {
        dlk_zk_side_heard(seat, heard, now);
        return;
    }
    if (seat->leaving) { /* it wants to be gone, and couldn't say so */
        fail(seat, &seat->give, heard == DLK_HEARD_UNSENT ? DLK_NOT_SENT : DLK_UNKNOWN,
             NULL);
        seat->zk->sweep_at = now + AGAIN_NS;
        return;
    }
    switch (heard) {
    case DLK_HEARD_FIRST:
        if (seat->granted)
            return;
        if (seat->step + 1 < seat->plan->steps)
            dlk_zk_node_go(&seat->nodes[++seat->step], now);
        else
            grant(seat, now);
        return;
    case DLK_HEARD_BEHIND:
        behind(seat);
        return;
    case DLK_HEARD_UNKNOWN:
        fail(seat, &seat->take, DLK_UNKNOWN, seat->zk->why_down);
        return;
    case DLK_HEARD_UNSENT:
        fail(seat, &seat->take, DLK_NOT_SENT, seat->zk->why_down);
        return;
    case DLK_HEARD_REFUSED:
        refused(seat, node, now);
        return;
    }
}

void dlk_zk_acquire(dlk_zk *zk, dlk_ask *ask, int64_t now)
{
    dlk_zk_seat *seat = dlk_zk_seat_find(ask->key, ask->number);
    if (!seat)
        seat = new_seat(zk, ask);
    if (!seat) {
        dlk_flight_refuse(&zk->flight, ask,
                          dlk_error_make(DLOCK_ENOMEM, "out of memory"));
        return;
    }
    if (seat->leaving ||
        seat->take) { /* never: a number is given up once, asked once at a time */
        dlk_flight_answer(&zk->flight, ask, DLK_NOT_SENT);
        return;
    }
    seat->take = ask;
    dlk_flight_await(&zk->flight, ask);
    seat->calls++;
    if (seat->granted)
        grant(seat, now);
    else
        dlk_zk_node_go(&seat->nodes[seat->step], now);
    seat->calls--;
    dlk_zk_seat_settle(seat);
}

/* ---- giving back ---- */

void dlk_zk_seat_left(dlk_zk_seat *seat, dlk_zk_node *node, const dlk_zk_call *call,
                      int64_t now)
{
    if (!seat->leaving)
        return; /* a step that has served its turn */
    bool prize = node == dlk_zk_seat_prize(seat);
    if (call && call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE &&
        call->end != DLK_ZK_GONE) {
        seat->zk->sweep_at = now + AGAIN_NS;
        if (call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY)
            fail(seat, &seat->give, DLK_UNKNOWN, seat->zk->why_down);
        else
            refuse(seat, &seat->give, dlk_zk_error(seat->zk, call, "delete", node->path));
        return;
    }
    /* It was ours until somebody else took it away. */
    if (seat->granted && prize && call && call->end != DLK_ZK_OK)
        answer(seat, &seat->give, DLK_NOT_OURS);
    if (!has_nodes(seat))
        answer(seat, &seat->give, DLK_YES);
}

void dlk_zk_release(dlk_zk *zk, dlk_ask *ask, int64_t now)
{
    dlk_zk_seat *seat = dlk_zk_seat_find(ask->key, ask->number);
    if (!seat || seat->give) {
        dlk_flight_answer(&zk->flight, ask, DLK_NOT_OURS);
        return;
    }
    seat->give = ask;
    dlk_flight_await(&zk->flight, ask);
    seat->calls++;
    answer(seat, &seat->take,
           DLK_NOT_SENT); /* given up: whatever comes of it goes back now */
    leave_all(seat, now);
    if (seat->side.state != DLK_NODE_NONE)
        dlk_zk_node_leave(&seat->side, now);
    seat->calls--;
    dlk_zk_seat_settle(seat);
}

/* Does it to every seat there is, though the host may ask for others from inside. */
static void for_all(dlk_zk *zk,
                    void (*act)(dlk_zk_seat *seat, const void *with, int64_t now),
                    const void *with, int64_t now)
{
    dlk_list todo, *link;
    dlk_list_init(&todo);
    dlk_list_splice(&todo, &zk->seats);
    while ((link = dlk_list_take_first(&todo))) {
        dlk_zk_seat *seat = DLK_LIST_ITEM(link, dlk_zk_seat, all);
        dlk_list_append(&zk->seats, link);
        seat->calls++;
        act(seat, with, now);
        seat->calls--;
        dlk_zk_seat_settle(seat);
    }
}

static void sweep(dlk_zk_seat *seat, const void *with, int64_t now)
{
    (void)with;
    if (seat->leaving) {
        leave_all(seat, now);
        if (seat->side.state != DLK_NODE_NONE)
            dlk_zk_node_leave(&seat->side, now);
        return;
    }
    for (int i = 0; seat->granted && i < seat->plan->steps;
         i++) /* what has served its turn */
        if (seat->plan->step[i].passing && seat->nodes[i].state != DLK_NODE_NONE)
            dlk_zk_node_leave(&seat->nodes[i], now);
}

void dlk_zk_seats_sweep(dlk_zk *zk, int64_t now)
{
    for_all(zk, sweep, NULL, now);
    dlk_zk_litter_sweep(zk, now);
}

/* ---- the end of a session ---- */

static void forget(dlk_zk_seat *seat, const void *why, int64_t now)
{
    (void)now;
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        dlk_zk_node_forget(&seat->nodes[i]);
    dlk_zk_node_forget(&seat->side);
    seat->step = 0;
    if (seat->granted && !seat->leaving)
        dlk_zk_seat_lost(seat);
    answer(seat, &seat->give, seat->granted ? DLK_NOT_OURS : DLK_YES);
    seat->new_place = true;
    fail(seat, &seat->take, DLK_NOT_SENT, why);
}

void dlk_zk_seats_forget(dlk_zk *zk, const dlock_error *why)
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
static void orphan(dlk_zk_seat *seat, const void *home, int64_t now)
{
    if (seat->home == home && !seat->leaving)
        leave_all(seat, now);
}

void dlk_zk_key_orphan(dlk_zk *zk, dlk_zk_key *home)
{
    for_all(zk, orphan, home, dlk_clock_now());
}

/* ---- watches ---- */

static void changed(dlk_zk_seat *seat, const void *path, int64_t now)
{
    bool waits = false;
    for (int i = 0; i < seat->plan->steps; i++)
        waits |= dlk_zk_node_changed(&seat->nodes[i], path);
    dlk_host *host = seat->zk->base.host;
    if (waits && !seat->granted && !seat->leaving)
        host->notified(host, seat->home->key);
    dlk_zk_node *prize = dlk_zk_seat_prize(seat);
    if (prize->own_armed && prize->path && strcmp(prize->path, path) == 0) {
        prize->own_armed = false;
        dlk_zk_look_after(seat, now);
    }
}

void dlk_zk_seats_changed(dlk_zk *zk, const char *path, int64_t now)
{
    for_all(zk, changed, path, now);
}
