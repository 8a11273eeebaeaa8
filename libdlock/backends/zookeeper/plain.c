/*
 * The exclusive layout: one plain ephemeral node at the name itself. Whoever makes it has the lock;
 * everybody else watches it, and all of them wake when it goes. Ours stand in a line beside it, so
 * that of them only one does.
 *
 * A create without an answer is cleared up by looking: the node says whose it is.
 */
#include "backends/zookeeper/inner.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* An election's node says nothing of its owner but the session. So it is that of a place which has
 * seen it made, or else of the first that asked for it: one that is given back may still have it,
 * when the next stands first in the line already. */
static bool is_anothers(const dlk_zk_node *node, int64_t czxid)
{
    bool before = true;
    DLK_LIST_FOR (it, &node->place->home->base.places) {
        dlk_zk_place *place = DLK_ZK_PLACE_IN_LINE(it);
        const dlk_zk_node *other = dlk_zk_place_prize(place);
        bool unsure =
            other->state == DLK_NODE_UNSURE || other->state == DLK_NODE_CREATING;
        before = before && other != node;
        if (other != node && (other->path ? other->czxid == czxid : before && unsure))
            return true;
    }
    return false;
}

static bool is_ours(const dlk_zk_node *node, const dlk_zk_call *call)
{
    char *data = dlk_zk_node_data(node);
    bool ours =
        data && call->item.text && call->stat.ephemeral_owner == node->place->zk->session;
    if (node->place->plan->publishes)
        ours = ours && !is_anothers(node, call->stat.czxid);
    else
        ours = ours && strcmp(call->item.text, data) == 0;
    free(data);
    return ours;
}

static void have_it(dlk_zk_node *node, int64_t czxid, int64_t now)
{
    free(node->path);
    node->path = strdup(node->parent);
    node->czxid = czxid;
    node->state = node->path ? DLK_NODE_THERE : DLK_NODE_UNSURE;
    if (node->place->base.leaving)
        dlk_zk_node_leave(node, now);
    else
        dlk_zk_node_hear(node, node->path ? DLK_HEARD_FIRST : DLK_HEARD_UNKNOWN, now);
}

/* Somebody else has it, and its watch is set. */
static void behind(dlk_zk_node *node, const dlk_zk_call *call, int64_t now)
{
    node->state = DLK_NODE_NONE;
    if (node->place->base.leaving) {
        dlk_zk_node_leave(node, now);
        return;
    }
    if (call->stat.ephemeral_owner == 0 && node->place->home->strict) {
        dlk_zk_node_refuse(
            node,
            dlk_error_make(DLOCK_ECONFLICT,
                           "zookeeper: %s isn't ephemeral: it is no lock, or other "
                           "locks' names go on behind it",
                           node->parent),
            now);
        return;
    }
    free(node->ahead);
    node->ahead = strdup(node->parent);
    node->armed = node->ahead != NULL;
    dlk_zk_node_hear(node, DLK_HEARD_BEHIND, now);
}

static void on_seen(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    node->listing = false;
    switch (call->end) {
    case DLK_ZK_OK:
        if (is_ours(node, call))
            have_it(node, call->stat.czxid, now);
        else
            behind(node, call, now);
        return;
    case DLK_ZK_NO_NODE:
        node->state = DLK_NODE_NONE;
        if (node->place->base.leaving)
            dlk_zk_node_leave(node, now);
        else
            dlk_zk_plain_go(node, now);
        return;
    case DLK_ZK_CUT:
    case DLK_ZK_NO_MEMORY:
        dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
        return;
    case DLK_ZK_NODE_EXISTS:
    case DLK_ZK_NOT_EMPTY:
    case DLK_ZK_NO_AUTH:
    case DLK_ZK_NO_CHILDREN:
    case DLK_ZK_NOT_KNOWN:
    case DLK_ZK_OTHER_VERSION:
    case DLK_ZK_BAD:
    case DLK_ZK_BUSY:
    case DLK_ZK_GONE:
        break;
    }
    dlk_zk_node_refuse(node, dlk_zk_error(node->place->zk, call, "read", node->parent),
                       now);
}

static void on_synced(dlk_zk_call *call, int64_t now)
{
    (void)call; /* what is right behind it says everything */
    (void)now;
}

static void see(dlk_zk_node *node, int64_t now)
{
    const dlk_zk_request sync = {.verb = DLK_ZK_SYNC, .path = node->parent};
    const dlk_zk_request request = {
        .verb = DLK_ZK_GET, .path = node->parent, .watch = true};
    bool known = node->state != DLK_NODE_UNSURE; /* else another server may lag */
    node->listing = (known || dlk_zk_place_send(node->place, &sync, on_synced, node,
                                                DLK_ZK_QUIET, now)) &&
                    dlk_zk_place_send(node->place, &request, on_seen, node, 0, now);
    if (!node->listing)
        dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
}

void dlk_zk_plain_search(dlk_zk_node *node, int64_t now)
{
    if (!node->listing)
        see(node, now);
}

static void on_made(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    node->listing = false;
    node->state = DLK_NODE_NONE;
    switch (call->end) {
    case DLK_ZK_OK:
        have_it(node, call->stat.czxid, now);
        return;
    case DLK_ZK_NODE_EXISTS:
        see(node, now);
        return;
    case DLK_ZK_NO_NODE:
        node->parents = true;
        if (++node->tries < 8 && !node->place->base.leaving) {
            dlk_zk_plain_go(node, now);
            return;
        }
        break;
    case DLK_ZK_CUT:
    case DLK_ZK_NO_MEMORY:
        node->state = DLK_NODE_UNSURE;
        dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
        return;
    case DLK_ZK_NOT_EMPTY:
    case DLK_ZK_NO_AUTH:
    case DLK_ZK_NO_CHILDREN:
    case DLK_ZK_NOT_KNOWN:
    case DLK_ZK_OTHER_VERSION:
    case DLK_ZK_BAD:
    case DLK_ZK_BUSY:
    case DLK_ZK_GONE:
        break;
    }
    if (node->place->base.leaving)
        dlk_zk_node_leave(node, now);
    else
        dlk_zk_node_refuse(
            node, dlk_zk_error(node->place->zk, call, "make", node->parent), now);
}

static void make(dlk_zk_node *node, int64_t now)
{
    char *data = dlk_zk_node_data(node);
    const dlk_zk_request request = {.verb = DLK_ZK_CREATE,
                                    .path = node->parent,
                                    .data = data,
                                    .size = data ? strlen(data) : 0,
                                    .mode = DLK_ZK_EPHEMERAL};
    bool sent = data && (!node->parents || dlk_zk_node_make_parents(node, now)) &&
                dlk_zk_place_send(node->place, &request, on_made, node, 0, now);
    free(data);
    node->listing = sent;
    if (sent) {
        node->parents = false;
        node->state = DLK_NODE_CREATING;
    } else {
        dlk_zk_node_hear(node, DLK_HEARD_UNSENT, now);
    }
}

void dlk_zk_plain_go(dlk_zk_node *node, int64_t now)
{
    if (node->listing)
        return;
    if (node->state == DLK_NODE_UNSURE)
        see(node, now);
    else if (node->state == DLK_NODE_THERE)
        dlk_zk_node_hear(node, DLK_HEARD_FIRST, now);
    else if (node->armed)
        dlk_zk_node_hear(node, DLK_HEARD_BEHIND, now);
    else if (node->state == DLK_NODE_NONE)
        make(node, now);
}
