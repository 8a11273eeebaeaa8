/*
 * One node of ours: getting it made exactly once, learning where it stands, and seeing to it that
 * it is gone.
 *
 * NONE → CREATING → THERE → DELETING → NONE. A create without an answer leaves UNSURE: after the
 * link is up again the parent is listed behind a sync (another server may lag) and searched for
 * the UUID in the name. A list is sent right behind each create, on the same pipe: when the lock
 * is free, one round trip says so.
 *
 * Answers of an earlier session are stale and only counted: whoever ended the session has put
 * everything right already.
 */
#include "backends/zookeeper/inner.h"

#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So often a node may get lost between our create and our list before we give up for now. */
#define TRIES_MAX 8
/* A place in line is looked at again after so long, though no watch has fired. */
#define LOOK_AGAIN_NS (5 * DLK_NS_PER_SEC)

char *dlk_zk_join(const char *parent, const char *child)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, child) < 0)
        return NULL;
    return path;
}

const char *dlk_zk_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void dlk_zk_node_init(dlk_zk_node *node, dlk_zk_place *place, const dlk_zk_rule *rule,
                      const char *parent)
{
    *node = (dlk_zk_node){.place = place, .rule = rule, .parent = parent};
}

void dlk_zk_node_hear(dlk_zk_node *node, dlk_zk_heard heard, int64_t now)
{
    node->tries = 0;
    dlk_zk_place_heard(node->place, node, heard, now);
}

void dlk_zk_node_refuse(dlk_zk_node *node, dlock_error *why, int64_t now)
{
    dlk_error_clear(&node->refused);
    node->refused = why;
    dlk_zk_node_hear(node, DLK_HEARD_REFUSED, now);
}

/* ---- watches ---- */

static bool watched_by_others(const dlk_zk_node *node)
{
    DLK_LIST_FOR (it, &node->place->zk->base.places) {
        const dlk_zk_place *place = DLK_ZK_PLACE_OF_ALL(it);
        for (int i = 0; i < DLK_ZK_STEPS; i++) {
            const dlk_zk_node *other = &place->nodes[i];
            if (other != node && other->ahead && strcmp(other->ahead, node->ahead) == 0)
                return true;
            if (other->own_armed && other->path && strcmp(other->path, node->ahead) == 0)
                return true;
        }
    }
    return false;
}

void dlk_zk_on_nothing(dlk_zk_call *call, int64_t now)
{
    (void)call, (void)now;
}

void dlk_zk_node_stop_watching(dlk_zk_node *node, int64_t now)
{
    if (!node->ahead)
        return;
    const dlk_zk_request request = {.verb = DLK_ZK_UNWATCH, .path = node->ahead};
    /* That of a list goes with the next change there, as our own going is, and may be another
     * place's by now. */
    if (node->armed && !node->rule->counts && !watched_by_others(node))
        (void)dlk_zk_send(node->place->zk, &request, dlk_zk_on_nothing, NULL, NULL,
                          DLK_ZK_QUIET, now);
    free(node->ahead);
    node->ahead = NULL;
    node->armed = false;
}

bool dlk_zk_node_is_wanted(dlk_zk_node *node, const char *path)
{
    bool wanted = node->hears && strcmp(node->parent, path) == 0;
    node->hears &= !wanted; /* a watch tells once */
    return wanted;
}

bool dlk_zk_node_changed(dlk_zk_node *node, const char *path)
{
    if (node->rule && node->rule->signals && dlk_zk_condition_changed(node, path))
        return true;
    if (!node->ahead || strcmp(node->ahead, path) != 0)
        return false;
    free(node->ahead);
    node->ahead = NULL;
    node->armed = false;
    return true;
}

/* ---- where it stands ---- */

static void on_watched(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    node->listing = false;
    if (node->place->base.leaving || node->state != DLK_NODE_THERE)
        return;
    switch (call->end) {
    case DLK_ZK_OK:
        node->armed = node->ahead != NULL; /* it may have fired already */
        if (node->ahead)
            dlk_zk_node_hear(node, DLK_HEARD_BEHIND, now);
        else
            dlk_zk_node_look(node, now);
        return;
    case DLK_ZK_NO_NODE:
        free(node->ahead);
        node->ahead = NULL;
        dlk_zk_node_look(node, now);
        return;
    case DLK_ZK_NO_AUTH: /* can't be watched: the engine looks again from time to time */
        free(node->ahead);
        node->ahead = NULL;
        dlk_zk_node_hear(node, DLK_HEARD_BEHIND, now);
        return;
    case DLK_ZK_NODE_EXISTS:
    case DLK_ZK_NOT_EMPTY:
    case DLK_ZK_NO_CHILDREN:
    case DLK_ZK_NOT_KNOWN:
    case DLK_ZK_OTHER_VERSION:
    case DLK_ZK_BAD:
    case DLK_ZK_BUSY:
    case DLK_ZK_GONE:
    case DLK_ZK_CUT:
    case DLK_ZK_NO_MEMORY:
        break;
    }
    free(node->ahead);
    node->ahead = NULL;
    dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
}

static void watch(dlk_zk_node *node, const char *child, int64_t now)
{
    char *path = dlk_zk_join(node->parent, child);
    if (path && node->armed && strcmp(path, node->ahead) == 0) {
        free(path);
        dlk_zk_node_hear(node, DLK_HEARD_BEHIND, now);
        return;
    }
    dlk_zk_node_stop_watching(node, now);
    node->ahead = path;
    const dlk_zk_request request = {.verb = DLK_ZK_GET, .path = path, .watch = true};
    if (path && dlk_zk_node_send(node, &request, on_watched, 0, now)) {
        node->listing = true;
        return;
    }
    free(node->ahead);
    node->ahead = NULL;
    dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
}

static dlock_error *foreign_error(const dlk_zk_node *node, const char *child)
{
    dlk_zk_sort sort = dlk_zk_sort_of(child);
    return dlk_error_make(
        DLOCK_ECONFLICT,
        "zookeeper: beside this lock's nodes lies %.200s%s (zookeeper.strict=false: only "
        "a "
        "warning)",
        child,
        sort == DLK_SORT_OTHER
            ? ", which is no lock's of this layout; perhaps another lock's name "
              "goes on where this one ends"
        : sort == DLK_SORT_PART ? ", which belongs to a semaphore"
        : node->place->home->base.kind == DLOCK_WRITE
            ? ", which is no read/write lock's"
            : ", which is of another kind of lock");
}

static void warn_foreign(const dlk_zk_node *node, const char *child)
{
    dlk_zk_key *key = node->place->home;
    if (!child || key->warned)
        return;
    key->warned = true;
    dlk_host *host = node->place->zk->base.backend.host;
    host->log(host, DLOCK_LOG_WARN,
              "%s: beside its nodes lies %.200s, of another kind or layout",
              node->place->home->path, child);
}

static dlk_zk_verdict judge(dlk_zk_node *node, dlk_zk_look *at, const dlk_zk_call *call)
{
    dlk_zk_place *place = node->place;
    *at =
        (dlk_zk_look){.rule = node->rule,
                      .forms = {node->place->home->forms[0],
                                place->base.shared ? NULL : node->place->home->forms[1]},
                      .own = dlk_zk_base_name(node->path),
                      .permits = node->place->home->permits,
                      .take = (int64_t)place->take,
                      .strict = node->place->home->strict};
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        if (&place->nodes[i] != node && place->nodes[i].path &&
            strcmp(place->nodes[i].parent, node->parent) == 0)
            at->also_own = dlk_zk_base_name(place->nodes[i].path);
    return dlk_zk_judge(at, call->children, call->child_count);
}

static void drop_name(dlk_zk_node *node)
{
    free(node->path);
    free(node->all);
    node->path = NULL;
    node->all = NULL;
    node->counts_from = 0;
    node->own_armed = node->hears = false;
    node->state = DLK_NODE_NONE;
}

void dlk_zk_node_scatter(dlk_zk_node *node, int64_t now)
{
    for (size_t i = 0; i < dlk_zk_node_several(node); i++)
        dlk_zk_litter_add(node->place->zk, node->all[i], now);
}

void dlk_zk_node_start_over(dlk_zk_node *node, bool parents, int64_t now)
{
    dlk_zk_node_scatter(node, now);
    drop_name(node);
    dlk_zk_node_stop_watching(node, now);
    node->parents = parents;
    node->place->base.new_place = true;
    if (++node->tries > TRIES_MAX) {
        dlk_zk_node_refuse(
            node,
            dlk_error_make(DLOCK_EUNAVAIL,
                           "zookeeper: somebody keeps deleting what we make "
                           "below %s",
                           node->parent),
            now);
        return;
    }
    dlk_zk_node_go(node, now);
}

static void act_on(dlk_zk_node *node, dlk_zk_call *call, int64_t now)
{
    dlk_zk_look at;
    if (node->rule->signals) {
        dlk_zk_condition_look(node, now);
        return;
    }
    dlk_zk_verdict verdict = judge(node, &at, call);
    const char *beside = node->place->home->beside;
    if (beside && at.strict) {
        dlk_zk_node_refuse(node, foreign_error(node, beside), now);
        return;
    }
    warn_foreign(node, beside ? beside : at.foreign);
    const dlk_ask *take = node->place->base.take;
    node->written = call->stat.mzxid;
    switch (verdict) {
    case DLK_ZK_FIRST:
        node->hears = dlk_zk_node_keeps(node);
        node->place->base.wanted = node->hears && at.others;
        if (!node->rule
                 ->counts) /* a watch on the leases fires, or goes with the session */
            dlk_zk_node_stop_watching(node, now);
        dlk_zk_node_hear(node, DLK_HEARD_FIRST, now);
        return;
    case DLK_ZK_MISSING:
        dlk_zk_node_start_over(node, false, now);
        return;
    case DLK_ZK_FOREIGN:
        dlk_zk_node_refuse(node, foreign_error(node, at.ahead), now);
        return;
    case DLK_ZK_LIMIT:
        dlk_zk_node_refuse(
            node,
            dlk_error_make(DLOCK_EOVERFLOW,
                           "zookeeper: the counter of %s is near its end (%.200s); take "
                           "another name, or delete that node when it is empty",
                           node->parent, at.ahead),
            now);
        return;
    case DLK_ZK_BEHIND:
        break;
    }
    node->looked = call->sent_at;
    if (node->rule->counts || (take && take->once))
        dlk_zk_node_hear(node, DLK_HEARD_BEHIND,
                         now); /* nobody waits, or the list itself watches */
    else
        watch(node, at.ahead, now);
}

static void on_listed(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    bool unheard = call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY;
    node->listing = false;
    if (node->rule->counts && call->end == DLK_ZK_OK && !node->ahead) {
        node->ahead = strdup(node->parent);
        node->armed = node->ahead != NULL;
    }
    if (node->place->base.leaving) {
        dlk_zk_node_leave(node, now);
        return;
    }
    if (node->refused && node->state != DLK_NODE_THERE) {
        dlk_zk_node_hear(node, DLK_HEARD_REFUSED, now);
    } else if (node->state == DLK_NODE_UNSURE ||
               (unheard && node->state != DLK_NODE_NONE)) {
        dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
    } else if (node->state == DLK_NODE_NONE || call->end == DLK_ZK_NO_NODE) {
        dlk_zk_node_start_over(node, node->parents || call->end == DLK_ZK_NO_NODE, now);
    } else if (call->end == DLK_ZK_OK) {
        act_on(node, call, now);
    } else {
        dlk_zk_node_refuse(
            node, dlk_zk_error(node->place->zk, call, "list", node->parent), now);
    }
}

void dlk_zk_node_look(dlk_zk_node *node, int64_t now)
{
    if (node->rule->signals && node->state == DLK_NODE_THERE) {
        dlk_zk_condition_look(node, now);
        return;
    }
    const dlk_zk_request request = {
        .verb = DLK_ZK_CHILDREN,
        .path = node->parent,
        /* One that may be kept hears of the next: by this very list, since who comes behind it may be
         * who asks. While it waits itself the watch tells at most one change in vain. */
        .watch = node->rule->counts || dlk_zk_node_keeps(node)};
    /* Whoever is first by this list relies on the session. */
    if (node->state == DLK_NODE_THERE)
        (void)dlk_zk_prove(node->place->zk, now);
    if (node->rule->counts) { /* the new list watches in its place */
        free(node->ahead);
        node->ahead = NULL;
        node->armed = false;
    }
    bool before = node->state != DLK_NODE_NONE; /* a create may be under way */
    node->listing = dlk_zk_node_send(node, &request, on_listed, 0, now);
    if (!node->listing)
        dlk_zk_node_hear(node, before ? DLK_HEARD_UNKNOWN : DLK_HEARD_UNSENT, now);
}

void dlk_zk_node_go(dlk_zk_node *node, int64_t now)
{
    if (node->listing)
        return; /* its answer goes on */
    if (node->rule->plain) {
        dlk_zk_plain_go(node, now);
        return;
    }
    switch (node->state) {
    case DLK_NODE_NONE:
        if (node->place->imports)
            dlk_zk_place_import(node->place, now);
        else
            dlk_zk_node_join(node, now);
        return;
    case DLK_NODE_UNSURE:
        dlk_zk_node_search(node, now);
        return;
    case DLK_NODE_THERE:
        if (node->armed && now < node->looked + LOOK_AGAIN_NS)
            dlk_zk_node_hear(node, DLK_HEARD_BEHIND, now);
        else
            dlk_zk_node_look(node, now);
        return;
    case DLK_NODE_CREATING:
    case DLK_NODE_SEARCHING:
    case DLK_NODE_DELETING:
        return;
    }
}

/* ---- away with it ---- */

void dlk_zk_node_deleted(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    bool unanswered = call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY;
    if (call->end == DLK_ZK_NO_NODE) /* of several the others are there still */
        dlk_zk_node_scatter(node, now);
    if (call->end == DLK_ZK_NO_NODE && node->asked_delete)
        call->end = DLK_ZK_OK;
    if (call->end == DLK_ZK_OK || call->end == DLK_ZK_NO_NODE || call->end == DLK_ZK_GONE)
        drop_name(node);
    else
        node->state = DLK_NODE_THERE;
    node->asked_delete |= unanswered;
    dlk_zk_place_left(node->place, node, call, now);
}

void dlk_zk_node_delete(dlk_zk_node *node, int64_t now)
{
    const dlk_zk_request request = {.verb = DLK_ZK_DELETE,
                                    .path = node->path,
                                    .paths = node->all,
                                    .count = dlk_zk_node_several(node)};
    dlk_zk_node_stop_watching(node, now);
    if (dlk_zk_node_send(node, &request, dlk_zk_node_deleted, 0, now))
        node->state = DLK_NODE_DELETING;
    else
        dlk_zk_node_hear(node, DLK_HEARD_UNSENT, now);
}

/* The path of a plain node is the next holder's when ours has gone, by a delete without an answer
 * or by somebody's hand: so it is looked at first, behind a sync, and only ours is deleted. */
static void on_looked_at(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    node->state = DLK_NODE_THERE;
    if (call->end == DLK_ZK_OK && call->stat.czxid == node->czxid) {
        dlk_zk_node_delete(node, now);
        return;
    }
    if (call->end == DLK_ZK_OK)
        call->end = DLK_ZK_NO_NODE;
    if (call->end == DLK_ZK_NO_NODE || call->end == DLK_ZK_GONE)
        dlk_zk_node_deleted(call, now);
    else
        dlk_zk_place_left(node->place, node, call, now);
}

static void delete_plain(dlk_zk_node *node, int64_t now)
{
    const dlk_zk_request sync = {.verb = DLK_ZK_SYNC, .path = node->path};
    const dlk_zk_request look = {.verb = DLK_ZK_EXISTS, .path = node->path};
    if (dlk_zk_node_send(node, &sync, dlk_zk_on_nothing, DLK_ZK_QUIET, now) &&
        dlk_zk_node_send(node, &look, on_looked_at, 0, now))
        node->state = DLK_NODE_DELETING;
    else
        dlk_zk_node_hear(node, DLK_HEARD_UNSENT, now);
}

void dlk_zk_node_leave(dlk_zk_node *node, int64_t now)
{
    switch (node->state) {
    case DLK_NODE_NONE:
        dlk_zk_node_stop_watching(node, now);
        dlk_zk_place_left(node->place, node, NULL, now);
        return;
    case DLK_NODE_UNSURE:
        if (node->rule && node->rule->plain)
            dlk_zk_plain_search(node, now);
        else
            dlk_zk_node_search(node, now);
        return;
    case DLK_NODE_THERE:
        if (node->rule && node->rule->plain)
            delete_plain(node, now);
        else if (node->place->base.used)
            dlk_zk_condition_use(node, now);
        else
            dlk_zk_node_delete(node, now);
        return;
    case DLK_NODE_CREATING: /* their answers go on */
    case DLK_NODE_SEARCHING:
    case DLK_NODE_DELETING:
        return;
    }
}

void dlk_zk_node_forget(dlk_zk_node *node)
{
    free(node->path);
    free(node->all);
    free(node->ahead);
    dlk_zk_node_drop_candidates(node);
    dlk_error_clear(&node->refused);
    dlk_zk_node_init(node, node->place, node->rule, node->parent);
}
