/*
 * One number of the engine's on one key: taking its nodes one after the other, and giving them
 * back until the server has surely let go.
 */
#include "backends/zookeeper/inner.h"

#include <stdlib.h>
#include <string.h>

/* What couldn't be deleted for other reasons than the connection is tried again after so long. */
#define AGAIN_NS DLK_NS_PER_SEC

/* ---- what it has ---- */

void dlk_zk_place_open(dlk_place *base, const dlk_ask *ask)
{
    dlk_zk_place *place = dlk_zk_place_of(base);
    place->zk = (dlk_zk *)(void *)base->session;
    place->home = dlk_zk_key_of(base->line);
    place->plan = place->home->plans[ask->shared];
    place->take = (size_t)ask->take;
    place->imports = ask->verb == DLK_IMPORT;
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        dlk_zk_node_init(&place->nodes[i], place, place->plan->step[i].rule,
                         place->home->parents[i]);
    dlk_zk_node_init(&place->side, place, NULL, place->home->parents[0]);
}

static void forget_nodes(dlk_zk_place *place)
{
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        dlk_zk_node_forget(&place->nodes[i]);
    dlk_zk_node_forget(&place->side);
}

void dlk_zk_place_close(dlk_place *base)
{
    forget_nodes(dlk_zk_place_of(base));
    free(dlk_zk_place_of(base)->wait.line);
    free(dlk_zk_place_of(base)->wait.text);
    free(dlk_zk_place_of(base)->folder.text);
}

static bool has_nodes(const dlk_zk_place *place)
{
    for (int i = 0; i < place->plan->steps; i++)
        if (place->nodes[i].state != DLK_NODE_NONE)
            return true;
    return place->side.state != DLK_NODE_NONE;
}

bool dlk_zk_place_is_nowhere(const dlk_place *base)
{
    return !has_nodes((const dlk_zk_place *)(const void *)base);
}

/* ---- taking ---- */

static void grant(dlk_zk_place *place, int64_t now)
{
    dlk_zk *zk = place->zk;
    if (!place->base.take)
        return; /* its time was up. Who asks again looks again: this look is old by then */
    if (!place->base.granted)
        place->since = zk->proof; /* of this look; newer proofs say nothing of the node */
    place->base.granted = true;
    const dlk_zk_node *prize = dlk_zk_place_prize(place);
    place->base.token = !place->plan->tokens ? 0
                        : prize->counts_from ? prize->counts_from
                                             : prize->czxid;
    dlk_zk_place_tidy(&place->base, now);
    if (zk->listens)
        dlk_zk_look_after(place, now);
    dlk_place_lasts(&place->base, &place->base.take, place->since, zk->timeout_ms);
}

/* Refused for good: nothing of it stays. */
static void refused(dlk_zk_place *place, dlk_zk_node *node, int64_t now)
{
    dlock_error *why = node->refused;
    dlk_reply reply = DLK_REFUSED;
    node->refused = NULL;
    if (why->code != DLOCK_EUNAVAIL) {
        place->base.leaving = true;
        dlk_zk_place_leave(&place->base, now);
    } else if (has_nodes(place)) {
        /* Something has been done, and must be given back should nobody ask again. */
        reply = DLK_UNKNOWN;
    }
    dlk_place_answer(&place->base, &place->base.take, reply, why);
}

void dlk_zk_place_heard(dlk_zk_place *place, dlk_zk_node *node, dlk_zk_heard heard,
                        int64_t now)
{
    if (node == &place->side) {
        dlk_zk_side_heard(place, heard, now);
        return;
    }
    if (place->base.leaving) { /* it wants to be gone, and couldn't say so */
        dlk_place_answer(&place->base, &place->base.give,
                         heard == DLK_HEARD_UNSENT ? DLK_NOT_SENT : DLK_UNKNOWN, NULL);
        place->zk->base.sweep_at = now + AGAIN_NS;
        return;
    }
    switch (heard) {
    case DLK_HEARD_FIRST:
        if (place->base.granted)
            return;
        if (place->step + 1 < place->plan->steps)
            dlk_zk_node_go(&place->nodes[++place->step], now);
        else if (!dlk_zk_place_has_to_mark(place, now))
            grant(place, now);
        return;
    case DLK_HEARD_BEHIND:
        dlk_place_behind(&place->base);
        return;
    case DLK_HEARD_UNKNOWN:
        dlk_place_fail(&place->base, &place->base.take, DLK_UNKNOWN);
        return;
    case DLK_HEARD_UNSENT:
        dlk_place_fail(&place->base, &place->base.take, DLK_NOT_SENT);
        return;
    case DLK_HEARD_REFUSED:
        refused(place, node, now);
        return;
    }
}

void dlk_zk_place_take(dlk_place *base, int64_t now)
{
    dlk_zk_place *place = dlk_zk_place_of(base);
    if (base->granted)
        grant(place, now);
    else
        dlk_zk_node_go(&place->nodes[place->step], now);
}

/* ---- giving back ---- */

void dlk_zk_place_left(dlk_zk_place *place, dlk_zk_node *node, const dlk_zk_call *call,
                       int64_t now)
{
    dlk_place *base = &place->base;
    if (!base->leaving)
        return; /* a step that has served its turn */
    bool prize = node == dlk_zk_place_prize(place);
    if (call && call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE &&
        call->end != DLK_ZK_GONE) {
        place->zk->base.sweep_at = now + AGAIN_NS;
        if (call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY)
            dlk_place_fail(base, &base->give, DLK_UNKNOWN);
        else
            dlk_place_answer(base, &base->give, DLK_REFUSED,
                             dlk_zk_error(place->zk, call, "delete", node->path));
        return;
    }
    /* It was ours until somebody else took it away. */
    if (base->granted && prize && call && call->end != DLK_ZK_OK)
        dlk_place_answer(base, &base->give, DLK_NOT_OURS, NULL);
    if (!has_nodes(place))
        dlk_place_answer(base, &base->give, DLK_YES, NULL);
}

void dlk_zk_place_leave(dlk_place *base, int64_t now)
{
    dlk_zk_place *place = dlk_zk_place_of(base);
    place->exported |= base->granted && base->give && base->give->exported;
    if (place->exported && (!place->lapses_at || dlk_zk_place_is_out(place, now))) {
        dlk_zk_place_export(place, now);
        return;
    }
    for (int i = place->plan->steps; i-- > 0;)
        dlk_zk_node_leave(&place->nodes[i], now);
    if (place->side.state != DLK_NODE_NONE)
        dlk_zk_node_leave(&place->side, now);
}

void dlk_zk_place_tidy(dlk_place *base, int64_t now)
{
    dlk_zk_place *place = dlk_zk_place_of(base);
    for (int i = 0; base->granted && i < place->plan->steps; i++)
        if (place->plan->step[i].passing && place->nodes[i].state != DLK_NODE_NONE)
            dlk_zk_node_leave(&place->nodes[i], now);
}

void dlk_zk_place_forget(dlk_place *base, int64_t now)
{
    dlk_zk_place *place = dlk_zk_place_of(base);
    (void)now;
    forget_nodes(place);
    place->step = 0;
    place->marks = false;
    base->new_place = true;
    if (base->granted && !base->leaving)
        dlk_place_lost(base);
}

/* ---- watches ---- */

static void changed(dlk_place *base, const void *path, int64_t now)
{
    dlk_zk_place *place = dlk_zk_place_of(base);
    bool waits = false;
    for (int i = 0; i < place->plan->steps; i++)
        waits |= dlk_zk_node_changed(&place->nodes[i], path);
    dlk_host *host = base->session->backend.host;
    if (waits && !base->granted && !base->leaving)
        host->notified(host, base->line->key);
    dlk_zk_node *prize = dlk_zk_place_prize(place);
    if (dlk_zk_node_is_wanted(prize, path))
        dlk_place_wanted(base);
    if (prize->own_armed && prize->path && strcmp(prize->path, path) == 0) {
        prize->own_armed = false;
        dlk_zk_look_after(place, now);
    }
}

void dlk_zk_places_changed(dlk_zk *zk, const char *path, int64_t now)
{
    dlk_places_each(&zk->base, changed, path, now);
}
