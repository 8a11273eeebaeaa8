/* Making a node: with the parents it needs, the name and the data of its layout, and once; what a
 * create without an answer has made is searched for. node.c says how that hangs together. */
#include "backends/zookeeper/inner.h"

#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making it ---- */

char *dlk_zk_node_prefix(const dlk_zk_place *place, const dlk_zk_rule *rule, bool shared,
                         const char *uuid)
{
    const dlk_zk_form *form = place->home->forms[shared];
    char *text = NULL;
    if (form)
        return dlk_zk_form_expand(form, place->zk->session, uuid);
    if (asprintf(&text, "%s%s%s%s", rule->kazoo ? "" : "_c_", uuid,
                 rule->kazoo ? "" : "-", rule->mark) < 0)
        return NULL;
    return text;
}

static char *prefix_of(const dlk_zk_node *node)
{
    return dlk_zk_node_prefix(node->place, node->rule, node->place->base.shared,
                              node->uuid);
}

/* What it says about us: others' layouts leave that open, and show it. Who was a writer before has
 * that grant's token, and another node. */
char *dlk_zk_node_data(const dlk_zk_node *node)
{
    const dlk_zk_place *place = node->place;
    const dlk_host *host = place->zk->base.backend.host;
    const char *data = place->base.data ? place->base.data : "";
    char *text = NULL, token[24] = "";
    if (node == &place->side)
        (void)snprintf(token, sizeof(token), " %" PRId64, place->base.token);
    int size = place->plan->publishes
                   ? asprintf(&text, "%s", data)
                   : asprintf(&text, "%s:%" PRIu64 "%s\n%s\n%s", host->uuid,
                              place->base.number, token, host->who, data);
    return size < 0 ? NULL : text;
}

static void on_parent(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    (void)now;
    if (call->end == DLK_ZK_NOT_KNOWN)
        node->place->zk->no_containers = true; /* the next try makes persistent ones */
    else if (call->end == DLK_ZK_NO_AUTH || call->end == DLK_ZK_NO_CHILDREN) {
        dlk_error_clear(&node->refused);
        node->refused =
            dlk_zk_error(node->place->zk, call, "make the nodes above", node->parent);
    }
}

/* Top down, all in one burst: those that exist are simply refused. */
bool dlk_zk_node_make_parents(dlk_zk_node *node, int64_t now)
{
    dlk_zk *zk = node->place->zk;
    bool persistent = zk->no_containers || node->rule->persistent, fine = true;
    char *path = strdup(node->parent);
    char *at = path ? path + strlen(zk->chroot) : NULL;
    while (fine && at && *at) {
        char *end = strchr(at + 1, '/');
        if (!end && node->rule->plain)
            break; /* that is the node itself */
        if (end)
            *end = '\0';
        bool shared = node->rule->signals &&
                      strcmp(path + strlen(zk->chroot), DLK_ZK_CONDITIONS) == 0;
        const dlk_zk_request request = {.verb = DLK_ZK_CREATE,
                                        .path = path,
                                        .data = "",
                                        .open = shared, /* by all who have conditions */
                                        .mode = persistent ? DLK_ZK_PERSISTENT
                                                           : DLK_ZK_CONTAINER};
        fine = dlk_zk_node_send(node, &request, on_parent, DLK_ZK_QUIET, now);
        if (end)
            *end = '/';
        at = end;
    }
    fine = fine && path;
    free(path);
    return fine;
}

static void take_name(dlk_zk_node *node, dlk_zk_call *call)
{
    free(node->path);
    node->path = call->child_count ? strdup(call->children[0]) : call->item.text;
    node->state =
        node->path ? DLK_NODE_THERE : DLK_NODE_UNSURE; /* which finds it again */
    if (node->path && call->child_count) {
        node->all = call->children;
        call->children = NULL;
    }
    call->item.text = NULL;
    node->czxid = call->stat.czxid;
    /* A parent that couldn't be made was there already. */
    dlk_error_clear(&node->refused);
}

/* The list that was sent along comes next, and says what to do about it. */
static void on_created(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    node->state = DLK_NODE_NONE;
    switch (call->end) {
    case DLK_ZK_OK:
        take_name(node, call);
        break;
    case DLK_ZK_NO_NODE:
        node->parents = true;
        break;
    case DLK_ZK_CUT:
    case DLK_ZK_NO_MEMORY:
        node->state = DLK_NODE_UNSURE;
        break;
    case DLK_ZK_GONE:
        break;
    case DLK_ZK_NODE_EXISTS:
        dlk_error_clear(&node->refused);
        node->refused = dlk_error_make(DLOCK_EOVERFLOW,
                                       "zookeeper: the counter of %s has come to its "
                                       "end; take another name, or delete that "
                                       "node when it is empty",
                                       node->parent);
        break;
    case DLK_ZK_NOT_EMPTY:
    case DLK_ZK_NO_AUTH:
    case DLK_ZK_NO_CHILDREN:
    case DLK_ZK_NOT_KNOWN:
    case DLK_ZK_OTHER_VERSION:
    case DLK_ZK_BAD:
    case DLK_ZK_BUSY:
        dlk_error_clear(&node->refused);
        node->refused =
            dlk_zk_error(node->place->zk, call, "make a node below", node->parent);
        break;
    }
    if (!node->listing && node->place->base.leaving) /* the list couldn't be sent */
        dlk_zk_node_leave(node, now);
}

/* A mutex finds a semaphore's folders among its own nodes; a semaphore has to look above its own. */
static void on_beside(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    dlk_zk_key *home = node->place->home;
    (void)now;
    if (call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE)
        return; /* what comes next says what is wrong */
    free(home->beside);
    home->beside = NULL;
    home->alone = call->end == DLK_ZK_OK;
    for (size_t i = 0; i < call->child_count && home->alone; i++) {
        dlk_zk_sort sort = dlk_zk_sort_of(call->children[i]);
        home->alone = sort == DLK_SORT_OTHER || sort == DLK_SORT_PART;
        if (!home->alone)
            home->beside = strdup(call->children[i]);
    }
}

static bool look_beside(dlk_zk_node *node, int64_t now)
{
    const dlk_zk_key *home = node->place->home;
    const dlk_zk_request list = {.verb = DLK_ZK_CHILDREN, .path = home->path};
    return home->base.kind != DLOCK_SEMAPHORE || home->alone || node->place->step > 0 ||
           dlk_zk_node_send(node, &list, on_beside, DLK_ZK_QUIET, now);
}

/* What a server reads at once, unless it is told otherwise (jute.maxbuffer): for a longer request it
 * closes the connection. */
#define REQUEST_MAX 0xfffffu
/* A create in a multi-request, beside path and data: lengths, the ACL, what kind of request it is. */
#define CREATE_SIZE 100u

/* False: refused, as more than a server takes. */
static bool fits(dlk_zk_node *node, const dlk_zk_request *request, int64_t now)
{
    size_t each = request->path ? strlen(request->path) + request->size + CREATE_SIZE : 0;
    if (request->count * each <= REQUEST_MAX)
        return true;
    dlk_zk_node_refuse(node,
                       dlk_error_make(DLOCK_EINVAL,
                                      "zookeeper: lock.take=%zu takes a request of %zu "
                                      "bytes, and a server reads %u at most",
                                      request->count, request->count * each, REQUEST_MAX),
                       now);
    return false;
}

void dlk_zk_node_join(dlk_zk_node *node, int64_t now)
{
    dlk_zk_uuid_new(node);
    size_t count = dlk_zk_node_count(node);
    char *prefix = prefix_of(node), *data = dlk_zk_node_data(node);
    char *path = prefix ? dlk_zk_join(node->parent, prefix) : NULL;
    const dlk_zk_request request = {.verb = DLK_ZK_CREATE,
                                    .path = path,
                                    .data = data,
                                    .size = data ? strlen(data) : 0,
                                    .count = count > 1 ? count : 0,
                                    .mode = DLK_ZK_SEQUENTIAL};
    bool refused = !fits(node, &request, now);
    bool sent = !refused && path && data && look_beside(node, now) &&
                (!node->parents || dlk_zk_node_make_parents(node, now)) &&
                dlk_zk_node_send(node, &request, on_created, DLK_ZK_QUIET, now);
    free(path);
    free(prefix);
    free(data);
    if (!sent) {
        if (!refused)
            dlk_zk_node_hear(node, DLK_HEARD_UNSENT, now);
        return;
    }
    node->parents = false;
    node->state = DLK_NODE_CREATING;
    dlk_zk_node_look(node, now);
}

/* ---- searching for what an unanswered create has made ---- */

static void go_on(dlk_zk_node *node, int64_t now)
{
    if (node->place->base.leaving)
        dlk_zk_node_leave(node, now);
    else
        dlk_zk_node_go(node, now);
}

void dlk_zk_node_drop_candidates(dlk_zk_node *node)
{
    while (node->candidate_count > 0)
        free(node->candidates[--node->candidate_count]);
    free(node->candidates);
    node->candidates = NULL;
}

static void drop_paths(dlk_zk_node *node)
{
    free(node->path);
    free(node->all);
    node->path = NULL;
    node->all = NULL;
}

static void next_candidate(dlk_zk_node *node, int64_t now);

/* Names without a UUID may be anybody's: then what lies in the node says whose it is. */
static void on_found(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    const dlk_zk_form *form = node->place->home->forms[node->place->base.shared];
    char *data = dlk_zk_node_data(node);
    bool there = call->end == DLK_ZK_OK;
    bool ours = there && call->stat.ephemeral_owner == node->place->zk->session;
    if (form && !form->uuid)
        ours = ours && data && call->item.text && strcmp(call->item.text, data) == 0;
    else if (there && !ours) { /* of a session that is over: not to be used */
        dlk_zk_litter_add(node->place->zk, node->path, now);
        dlk_zk_node_scatter(node, now);
    }
    free(data);
    if (ours) {
        dlk_zk_node_drop_candidates(node);
        node->czxid = call->stat.czxid;
        node->state = DLK_NODE_THERE;
        go_on(node, now);
        return;
    }
    if (call->end == DLK_ZK_NO_NODE)
        dlk_zk_node_scatter(node, now);
    drop_paths(node);
    if (there || call->end == DLK_ZK_NO_NODE) {
        next_candidate(node, now);
        return;
    }
    dlk_zk_node_drop_candidates(node);
    node->state = DLK_NODE_UNSURE;
    dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
}

static void next_candidate(dlk_zk_node *node, int64_t now)
{
    if (node->candidate_count == 0) {
        dlk_zk_node_drop_candidates(node);
        node->state = DLK_NODE_NONE; /* it was never carried out */
        go_on(node, now);
        return;
    }
    node->path = node->candidates[--node->candidate_count];
    const dlk_zk_request request = {.verb = DLK_ZK_GET, .path = node->path};
    node->state = DLK_NODE_SEARCHING;
    if (dlk_zk_node_send(node, &request, on_found, 0, now))
        return;
    drop_paths(node);
    dlk_zk_node_drop_candidates(node);
    node->state = DLK_NODE_UNSURE;
    dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
}

static char **in_one_block(char *const *paths, size_t count)
{
    size_t size = count * sizeof(char *);
    for (size_t i = 0; i < count; i++)
        size += strlen(paths[i]) + 1;
    char **block = malloc(size);
    if (!block)
        return NULL;
    char *to = (char *)(block + count);
    for (size_t i = 0; i < count; i++)
        to = stpcpy(block[i] = to, paths[i]) + 1;
    return block;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Several were made at once: the first, as a candidate, stands for all of them. If there are fewer,
 * somebody has deleted some, and none of them is used. */
static bool settle_several(dlk_zk_node *node, int64_t now)
{
    size_t count = dlk_zk_node_count(node), kept = 0;
    if (count == 1)
        return true;
    if (node->candidate_count == count) {
        qsort(node->candidates, count, sizeof(*node->candidates), by_text);
        node->all = in_one_block(node->candidates, count);
        kept = 1;
    } else {
        for (size_t i = 0; i < node->candidate_count; i++)
            dlk_zk_litter_add(node->place->zk, node->candidates[i], now);
    }
    while (node->candidate_count > kept)
        free(node->candidates[--node->candidate_count]);
    return kept == 0 || node->all;
}

/* With a UUID there can't be more than were made at once, unless a create that was given up arrived late:
 * the others go. */
static bool find_own(dlk_zk_node *node, const dlk_zk_call *call, int64_t now)
{
    const dlk_zk_form *form = node->place->home->forms[node->place->base.shared];
    char *prefix = prefix_of(node);
    node->candidates = calloc(call->child_count + 1, sizeof(*node->candidates));
    bool fine = prefix && node->candidates;
    for (size_t i = 0; fine && i < call->child_count; i++) {
        const char *child = call->children[i], *digits = dlk_zk_digits(child);
        size_t size = strlen(prefix);
        if (!digits || (size_t)(digits - child) != size ||
            memcmp(child, prefix, size) != 0)
            continue;
        char *path = dlk_zk_join(node->parent, child);
        fine = path != NULL;
        if (fine && node->candidate_count >= dlk_zk_node_count(node) &&
            (!form || form->uuid)) {
            dlk_zk_litter_add(node->place->zk, path, now);
            free(path);
        } else if (fine) {
            node->candidates[node->candidate_count++] = path;
        }
    }
    free(prefix);
    return fine && settle_several(node, now);
}

static void on_searched(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    node->state = DLK_NODE_UNSURE;
    bool answered = call->end == DLK_ZK_OK || call->end == DLK_ZK_NO_NODE;
    if (answered && find_own(node, call, now)) {
        next_candidate(node, now);
        return;
    }
    dlk_zk_node_drop_candidates(node);
    dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
}

static void on_synced(dlk_zk_call *call, int64_t now)
{
    (void)call; /* the list that is right behind it says everything */
    (void)now;
}

void dlk_zk_node_search(dlk_zk_node *node, int64_t now)
{
    const dlk_zk_request sync = {.verb = DLK_ZK_SYNC, .path = node->parent};
    const dlk_zk_request list = {.verb = DLK_ZK_CHILDREN, .path = node->parent};
    node->state = DLK_NODE_SEARCHING;
    if (dlk_zk_node_send(node, &sync, on_synced, DLK_ZK_QUIET, now) &&
        dlk_zk_node_send(node, &list, on_searched, 0, now))
        return;
    node->state = DLK_NODE_UNSURE;
    dlk_zk_node_hear(node, DLK_HEARD_UNSENT, now);
}
