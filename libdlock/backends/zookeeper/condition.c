/*
 * Conditions: a line in which nobody is first until there is a signal.
 *
 *     /dlock-conditions/<name>                        its data: how many signals are out (session/tally.h)
 *     /dlock-conditions/<name>/_c_<uuid>-wait-<ten digits>   a place, ephemeral
 *
 * They lie apart from the locks, beside whose nodes nothing else may lie, and whose names a condition's name
 * mostly goes on behind. The folder is a container: with the last place its data goes as well.
 *
 * A signal sets the folder's data as it was read, and then touches the places of those who are signalled
 * by it, each of whom watches its own, and that of the next in the line. That one watches the folder's
 * children from then on, since who leaves it unused, or dies, makes room for it.
 *
 * The line and the signals are two reads, and each tells the version of the signals: where these differ somebody
 * has given or used one in between, and both are read again. A change names the version that was read.
 */
#include "backends/zookeeper/inner.h"

#include "session/tally.h"
#include "util/error.h"
#include "util/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *dlk_zk_condition_path(const dlk_zk *zk, const char *path)
{
    char *folder = NULL;
    if (asprintf(&folder, "%s%s%s", zk->chroot, DLK_ZK_CONDITIONS,
                 path + strlen(zk->chroot)) < 0)
        return NULL;
    return folder;
}

/* ---- the line ---- */

/* The number of a place; -1: it is none. */
static int64_t place_of(const char *child)
{
    if (dlk_zk_sort_of(child) != DLK_SORT_WAIT)
        return -1;
    return dlk_number_or(dlk_zk_digits(child), 0, INT64_MAX, -1);
}

static int by_place(const void *a, const void *b)
{
    int64_t x = place_of(*(char *const *)a), y = place_of(*(char *const *)b);
    return x < y ? -1 : x > y;
}

int64_t *dlk_zk_condition_line(dlk_zk_call *call)
{
    int64_t *line = calloc(call->child_count + 1, sizeof(*line));
    size_t count = 0;
    for (size_t i = 0; i < call->child_count; i++)
        if (place_of(call->children[i]) >= 0)
            call->children[count++] = call->children[i];
    call->child_count = count;
    if (count > 0)
        qsort(call->children, count, sizeof(*call->children), by_place);
    for (size_t i = 0; line && i < count; i++)
        line[i] = place_of(call->children[i]);
    return line;
}

/* ---- waiting ---- */

static void look(dlk_zk_node *node, int64_t now);

static void wait_on(dlk_zk_node *node, int64_t now)
{
    dlk_zk_place *place = node->place;
    node->ahead = strdup(node->path); /* which the look has begun to watch */
    node->armed = node->ahead && !place->wait.unheard; /* else each ask looks */
    place->wait.watched = place->wait.watches;
    dlk_zk_node_hear(node, DLK_HEARD_BEHIND, now);
}

/* By the line and the signals. */
static void judge(dlk_zk_node *node, const dlk_tally *tally, int64_t now)
{
    dlk_zk_place *place = node->place;
    const dlk_queue line = {place->wait.line, place->wait.count};
    size_t signalled = dlk_tally_signalled(tally, line), index = 0;
    int64_t own = place_of(dlk_zk_base_name(node->path));
    while (index < line.count && line.places[index] != own)
        index++;
    bool next = index == signalled && signalled > 0;
    if (index == line.count) {
        dlk_zk_node_start_over(node, false, now);
    } else if (own >= DLK_ZK_SEQUENCE_LIMIT) {
        dlk_zk_node_refuse(
            node,
            dlk_error_make(DLOCK_EOVERFLOW,
                           "zookeeper: the counter of %s is near its end; take another "
                           "name, or delete that node when it is empty",
                           node->parent),
            now);
    } else if (index < signalled) { /* its own watch goes with the node */
        dlk_zk_node_hear(node, DLK_HEARD_FIRST, now);
    } else if (place->wait.changed || (next && !place->wait.watches)) {
        place->wait.next = next; /* who goes before it is to be heard of */
        look(node, now);
    } else {
        place->wait.next = next;
        wait_on(node, now);
    }
}

static void on_signals(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    dlk_tally tally;
    dlock_error *why = NULL;
    node->listing = false;
    bool no_line = call->end == DLK_ZK_OK && !node->place->wait.gone &&
                   !node->place->wait.line; /* no memory, or no answer */
    if (node->place->base.leaving) {
        dlk_zk_node_leave(node, now);
    } else if (call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY || no_line) {
        dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
    } else if (call->end == DLK_ZK_NO_NODE || node->place->wait.gone) {
        dlk_zk_node_start_over(node, call->end == DLK_ZK_NO_NODE, now);
    } else if (call->end != DLK_ZK_OK) {
        dlk_zk_node_refuse(
            node, dlk_zk_error(node->place->zk, call, "read", node->parent), now);
    } else if (call->stat.version != node->place->wait.version) {
        look(node, now);
    } else if (dlk_tally_read(&tally, call->item.text, "zookeeper", &why) != DLOCK_OK) {
        dlk_zk_node_refuse(node, why, now);
    } else {
        node->looked = call->sent_at;
        judge(node, &tally, now);
        dlk_tally_free(&tally);
    }
}

static void on_line(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    (void)now;
    free(place->wait.line);
    place->wait.line = call->end == DLK_ZK_OK ? dlk_zk_condition_line(call) : NULL;
    place->wait.count = call->child_count;
    place->wait.version = call->stat.version;
}

static void on_own(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    (void)now;
    place->wait.gone = call->end == DLK_ZK_NO_NODE;
    place->wait.unheard = call->end != DLK_ZK_OK;
}

/* Its own node first: from then on it is told. */
static void look(dlk_zk_node *node, int64_t now)
{
    dlk_zk_place *place = node->place;
    const dlk_zk_request own = {.verb = DLK_ZK_GET, .path = node->path, .watch = true};
    const dlk_zk_request line = {
        .verb = DLK_ZK_CHILDREN, .path = node->parent, .watch = place->wait.next};
    const dlk_zk_request signals = {.verb = DLK_ZK_GET, .path = node->parent};
    free(node->ahead);
    node->ahead = NULL;
    node->armed = false;
    place->wait.watches = place->wait.next;
    place->wait.gone = place->wait.changed = false;
    node->listing = dlk_zk_node_send(node, &own, on_own, DLK_ZK_QUIET, now) &&
                    dlk_zk_node_send(node, &line, on_line, DLK_ZK_QUIET, now) &&
                    dlk_zk_node_send(node, &signals, on_signals, 0, now);
    if (!node->listing)
        dlk_zk_node_hear(node, DLK_HEARD_UNKNOWN, now);
}

void dlk_zk_condition_look(dlk_zk_node *node, int64_t now)
{
    /* Whoever is signalled by this look relies on the session. */
    (void)dlk_zk_prove(node->place->zk, now);
    look(node, now);
}

bool dlk_zk_condition_changed(dlk_zk_node *node, const char *path)
{
    dlk_zk_place *place = node->place;
    if (node->path && strcmp(node->path, path) == 0)
        place->wait.changed = true;
    if (strcmp(node->parent, path) != 0)
        return false;
    bool watched = place->wait.watched;
    place->wait.changed |= place->wait.watches;
    place->wait.watched = false;
    if (watched)
        node->armed = false; /* it looks when it asks */
    return watched;
}

/* ---- a signal that has done its work ---- */

static void on_used(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    if (call->end == DLK_ZK_OTHER_VERSION) { /* somebody else was before */
        node->state = DLK_NODE_THERE;
        dlk_zk_node_leave(node, now);
    } else {
        dlk_zk_node_deleted(call, now);
    }
}

static bool send_use(dlk_zk_node *node, const dlk_tally *tally, int64_t now)
{
    char *text = dlk_tally_text(tally);
    const dlk_zk_request set = {.verb = DLK_ZK_SET,
                                .path = node->parent,
                                .data = text,
                                .size = text ? strlen(text) : 0,
                                .versioned = true,
                                .version = node->place->wait.version};
    const dlk_zk_request request = {
        .verb = DLK_ZK_DELETE, .path = node->path, .also = &set};
    bool sent = text && dlk_zk_node_send(node, &request, on_used, 0, now);
    free(text);
    if (sent)
        node->state = DLK_NODE_DELETING;
    return sent;
}

/* Without its signal: whoever is signalled in its stead wakes up for nothing. */
static bool use(dlk_zk_node *node, dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = node->place;
    dlk_tally tally = {.count = 0};
    dlock_error *why = NULL;
    int64_t *line = call->end == DLK_ZK_OK ? dlk_zk_condition_line(call) : NULL;
    bool read =
        line && dlk_tally_read(&tally, place->wait.text, "zookeeper", &why) == DLOCK_OK;
    if (read)
        dlk_tally_use(&tally, (dlk_queue){line, call->child_count},
                      place_of(dlk_zk_base_name(node->path)));
    bool sent = read && send_use(node, &tally, now);
    dlk_error_clear(&why);
    dlk_tally_free(&tally);
    free(line);
    return sent;
}

static void on_use_line(dlk_zk_call *call, int64_t now)
{
    dlk_zk_node *node = call->extra;
    node->state = DLK_NODE_THERE;
    if (call->end == DLK_ZK_OK && !node->place->wait.text)
        call->end = DLK_ZK_BUSY; /* the other one was refused */
    if (call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE)
        dlk_zk_place_left(node->place, node, call, now);
    else if (!use(node, call, now))
        dlk_zk_node_delete(node, now);
}

static void on_use_signals(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    (void)now;
    free(place->wait.text);
    place->wait.text = call->item.text;
    call->item.text = NULL;
    place->wait.version = call->stat.version;
}

void dlk_zk_condition_use(dlk_zk_node *node, int64_t now)
{
    const dlk_zk_request sync = {.verb = DLK_ZK_SYNC, .path = node->parent};
    const dlk_zk_request signals = {.verb = DLK_ZK_GET, .path = node->parent};
    const dlk_zk_request line = {.verb = DLK_ZK_CHILDREN, .path = node->parent};
    dlk_zk_node_stop_watching(node, now);
    if (dlk_zk_node_send(node, &sync, dlk_zk_on_nothing, DLK_ZK_QUIET, now) &&
        dlk_zk_node_send(node, &signals, on_use_signals, DLK_ZK_QUIET, now) &&
        dlk_zk_node_send(node, &line, on_use_line, 0, now))
        node->state = DLK_NODE_DELETING;
    else
        dlk_zk_node_hear(node, DLK_HEARD_UNSENT, now);
}
