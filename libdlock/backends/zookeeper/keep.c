/*
 * Keeping what was granted: renewing is looking whether our node is still there, with a proof that
 * the session lives; and hearing at once when somebody deletes the node or writes into it that he
 * wants the lock (Curator's Revoker).
 */
#include "backends/zookeeper/inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REVOKE "__REVOKE__"

static void answer(dlk_zk_place *place, dlk_ask **asked, dlk_reply reply)
{
    dlk_place_answer(&place->base, asked, reply, NULL);
}

/* ---- loss ---- */

/* Nothing of it is left at the server that would be ours; what may be left of other steps goes, when
 * the loss has been told. */
static void gone(dlk_zk_place *place, int64_t now)
{
    dlk_zk_node_scatter(dlk_zk_place_prize(place), now);
    dlk_zk_node_forget(dlk_zk_place_prize(place));
    dlk_place_lost(&place->base);
    dlk_zk_place_leave(&place->base, now);
}

/* ---- looking after the node ---- */

/* Several have names that no other session has used. */
static bool is_ours(const dlk_zk_place *place, const dlk_zk_call *call)
{
    return call->end == DLK_ZK_OK && (place->nodes[place->plan->steps - 1].all ||
                                      call->stat.ephemeral_owner == place->zk->session);
}

static void hear_revoke(const dlk_zk_place *place, const dlk_zk_call *call)
{
    dlk_host *host = place->zk->base.backend.host;
    if (call->item.text && call->size == sizeof(REVOKE) - 1 &&
        memcmp(call->item.text, REVOKE, call->size) == 0)
        host->revoked(host, place->base.number);
}

static bool unanswered(const dlk_zk_call *call)
{
    return call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE;
}

/* Of several the first is who is asked, … */
static void on_first_seen(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    (void)now;
    if (call->end != DLK_ZK_OK || !place->base.granted || place->base.leaving)
        return; /* what comes next says it */
    dlk_zk_place_prize(place)->own_armed = true;
    hear_revoke(place, call);
}

/* … and all of them together say whether it is ours. */
static bool check_all(dlk_zk_place *place, dlk_zk_done *done, int64_t now)
{
    dlk_zk_node *prize = dlk_zk_place_prize(place);
    const dlk_zk_request request = {.verb = DLK_ZK_CHECK,
                                    .path = prize->path,
                                    .paths = prize->all,
                                    .count = dlk_zk_node_several(prize)};
    return dlk_zk_place_send(place, &request, done, prize, 0, now);
}

/* The node, and from now on whatever happens to it. */
static bool get_own(dlk_zk_place *place, dlk_zk_done *done, int64_t now)
{
    dlk_zk_node *prize = dlk_zk_place_prize(place);
    const dlk_zk_request request = {.verb = prize->own_armed ? DLK_ZK_EXISTS : DLK_ZK_GET,
                                    .path = prize->path,
                                    .watch = true};
    if (!prize->path)
        return false;
    if (!prize->all)
        return dlk_zk_place_send(place, &request, done, prize, 0, now);
    return dlk_zk_place_send(place, &request, on_first_seen, prize, DLK_ZK_QUIET, now) &&
           check_all(place, done, now);
}

/* On its way to the read side: the write node is about to go, or may have gone, at our own asking, which
 * would be taken for a loss. Whoever tells the turn again finds out. */
static bool turns(dlk_zk_place *place)
{
    const dlk_zk_node *prize = dlk_zk_place_prize(place);
    return prize->state != DLK_NODE_THERE || prize->asked_delete;
}

static void on_looked_after(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    if (!place->base.granted || place->base.leaving || unanswered(call))
        return;
    if (!is_ours(place, call)) {
        gone(place, now);
        return;
    }
    dlk_zk_place_prize(place)->own_armed = true;
    hear_revoke(place, call);
}

void dlk_zk_look_after(dlk_zk_place *place, int64_t now)
{
    if (place->base.granted && !place->base.leaving && !turns(place) &&
        !dlk_zk_place_prize(place)->own_armed)
        (void)get_own(place, on_looked_after, now); /* without, the next renewal looks */
}

void dlk_zk_listen(dlk_backend *backend, int64_t now)
{
    dlk_zk *zk = dlk_zk_of(backend);
    if (zk->listens)
        return;
    zk->listens = true;
    DLK_LIST_FOR (it, &zk->base.places)
        dlk_zk_look_after(DLK_ZK_PLACE_OF_ALL(it), now);
}

/* ---- from the write to the read side ---- */

/* It is still ours, for as long as the session has been proved to live; what turned it is a proof, too. */
static void kept(dlk_zk_place *place)
{
    const dlk_zk *zk = place->zk;
    const dlk_ask *keep = place->base.keep;
    int64_t ttl_ms =
        keep && keep->ttl_ms < zk->timeout_ms ? keep->ttl_ms : zk->timeout_ms;
    dlk_place_lasts(&place->base, &place->base.keep, zk->proof, ttl_ms);
}

static void on_write_deleted(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    dlk_zk_node *node = &place->nodes[0], *side = &place->side;
    if (node->state != DLK_NODE_DELETING)
        return; /* it was seen to be gone, by somebody's hand, and is forgotten */
    node->state = DLK_NODE_THERE;
    if (call->end == DLK_ZK_NO_NODE && !node->asked_delete) {
        gone(place, now); /* somebody has deleted it before us, and others may be in */
        return;
    }
    if (call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY)
        node->asked_delete = true;
    if (call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE) {
        answer(place, &place->base.keep, DLK_UNKNOWN);
        return;
    }
    free(node->path);
    if (side->state ==
        DLK_NODE_DELETING) { /* given back meanwhile: its answer comes next */
        node->path = NULL;
        node->state = DLK_NODE_NONE;
        node->own_armed = false;
        kept(place);
        return;
    }
    node->path = side->path;
    node->rule = place->home->plans[1]->step[0].rule;
    node->own_armed = node->asked_delete = false;
    side->path = NULL;
    side->state = DLK_NODE_NONE;
    place->base.shared = true;
    if (place->base.leaving)
        dlk_zk_node_leave(node, now);
    kept(place);
}

static void delete_write(dlk_zk_place *place, int64_t now)
{
    dlk_zk_node *node = &place->nodes[0];
    const dlk_zk_request request = {.verb = DLK_ZK_DELETE, .path = node->path};
    if (dlk_zk_place_send(place, &request, on_write_deleted, node, 0, now))
        node->state = DLK_NODE_DELETING;
    else
        answer(place, &place->base.keep, DLK_NOT_SENT);
}

/* A delete whose answer is lost leaves no trace of who deleted the node. So this is looked at before:
 * whoever deletes it from now on, the read node stands in its place. A server that has told us of the
 * one has nothing older to tell of the other. */
static void on_both_seen(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    place->looks = false;
    if (place->base.leaving) {
        answer(place, &place->base.keep, DLK_NOT_OURS);
    } else if (unanswered(call)) {
        answer(place, &place->base.keep, DLK_UNKNOWN);
    } else if (call->end == DLK_ZK_NO_NODE) {
        gone(place, now); /* others may have been in before the read node was there */
    } else {
        place->both = true;
        delete_write(place, now);
    }
}

static void see_both(dlk_zk_place *place, int64_t now)
{
    const dlk_zk_request request = {.verb = DLK_ZK_EXISTS, .path = place->nodes[0].path};
    place->looks = dlk_zk_place_send(place, &request, on_both_seen, NULL, 0, now);
    if (!place->looks)
        answer(place, &place->base.keep, DLK_NOT_SENT);
}

static void on_side_created(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    bool there = call->end == DLK_ZK_OK || call->end == DLK_ZK_NODE_EXISTS;
    bool unsure = call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY;
    place->sided |= there || unsure; /* and still is, should this try be refused */
    place->side.state = place->sided ? DLK_NODE_THERE : DLK_NODE_NONE;
    if (place->base.leaving)
        dlk_zk_node_leave(&place->side, now);
    else if (there && place->both)
        delete_write(place, now);
    else if (there)
        see_both(place, now);
    else if (unsure)
        answer(place, &place->base.keep, DLK_UNKNOWN);
    else
        dlk_place_answer(&place->base, &place->base.keep, DLK_REFUSED,
                         dlk_zk_error(place->zk, call, "make a read node below",
                                      place->nodes[0].parent));
}

/* Curator's nested read: no place of its own, but that of the write node, in whose name its digits
 * stand. Its name is known beforehand, so making it may be repeated. */
static bool name_side(dlk_zk_place *place)
{
    dlk_zk_node *node = &place->nodes[0];
    const char *digits = dlk_zk_digits(node->path);
    char uuid[DLK_UUID_SIZE];
    if (place->side.path)
        return true;
    memcpy(uuid, node->uuid, sizeof(uuid));
    uuid[0] = uuid[0] == '0'
                  ? '1'
                  : '0'; /* another one than the write node's, as good as new */
    const dlk_zk_rule *rule = place->home->plans[1]->step[0].rule;
    char *prefix = dlk_zk_node_prefix(place, rule, true, uuid);
    if (!digits || !prefix ||
        asprintf(&place->side.path, "%s/%s%s", node->parent, prefix, digits) < 0)
        place->side.path = NULL;
    free(prefix);
    return place->side.path != NULL;
}

static void turn(dlk_zk_place *place, int64_t now)
{
    /* A try that nobody waits for any more is still under way: its answer is this one's, too. */
    if (place->side.state == DLK_NODE_CREATING || place->looks ||
        place->nodes[0].state == DLK_NODE_DELETING)
        return;
    if (!name_side(place)) {
        answer(place, &place->base.keep, DLK_NOT_SENT);
        return;
    }
    char *data = dlk_zk_node_data(&place->side);
    const dlk_zk_request request = {.verb = DLK_ZK_CREATE,
                                    .path = place->side.path,
                                    .data = data,
                                    .size = data ? strlen(data) : 0,
                                    .mode = DLK_ZK_EPHEMERAL};
    if (data && dlk_zk_place_send(place, &request, on_side_created, &place->side, 0, now))
        place->side.state = DLK_NODE_CREATING;
    else
        answer(place, &place->base.keep, DLK_NOT_SENT);
    free(data);
}

void dlk_zk_side_heard(dlk_zk_place *place, dlk_zk_heard heard, int64_t now)
{
    (void)
        heard; /* only that it couldn't be deleted: once more with the rest of the place */
    place->zk->base.sweep_at = now + DLK_NS_PER_SEC;
}

/* ---- renew, verify ---- */

static void on_renewed(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    dlk_ask *keep = place->base.keep;
    if (!keep || place->base.leaving) {
        answer(place, &place->base.keep, DLK_NOT_OURS);
        return;
    }
    if (unanswered(call)) {
        answer(place, &place->base.keep, DLK_UNKNOWN);
        return;
    }
    if (!is_ours(place, call)) {
        gone(place, now);
        return;
    }
    dlk_zk_place_prize(place)->own_armed = true;
    hear_revoke(place, call);
    kept(place);
}

void dlk_zk_place_keep(dlk_place *base, int64_t now)
{
    dlk_zk_place *place = dlk_zk_place_of(base);
    if (base->keep->shared && !base->shared) {
        turn(place, now);
        return;
    }
    (void)dlk_zk_prove(place->zk, now);
    if (!get_own(place, on_renewed, now))
        answer(place, &base->keep, DLK_NOT_SENT);
}

static void on_verified(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    if (!place->base.verify)
        return;
    if (unanswered(call))
        answer(place, &place->base.verify, DLK_UNKNOWN);
    else if (place->base.leaving || is_ours(place, call))
        answer(place, &place->base.verify, place->base.leaving ? DLK_NOT_OURS : DLK_YES);
    else
        gone(place, now);
}

void dlk_zk_place_verify(dlk_place *base, int64_t now)
{
    dlk_zk_place *place = dlk_zk_place_of(base);
    const dlk_zk_request request = {.verb = DLK_ZK_EXISTS,
                                    .path = dlk_zk_place_prize(place)->path};
    bool sent = false;
    if (!turns(place)) { /* in between it goes by what is known */
        (void)dlk_zk_prove(place->zk, now);
        sent = dlk_zk_place_prize(place)->all
                   ? check_all(place, on_verified, now)
                   : dlk_zk_place_send(place, &request, on_verified, NULL, 0, now);
    }
    if (!sent)
        answer(place, &base->verify, DLK_NOT_SENT);
}
