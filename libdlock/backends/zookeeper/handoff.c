/*
 * Handing a mutex on: one transaction deletes the giver's node and makes the importer's, of its own session,
 * with the giver's digits. So it stands where that stood, and there is no moment in which neither is there.
 *
 * Nothing is sent for the export: the giver's node is left, and deleted when the lease is over; who closes
 * before that leaves the session to its time-out (dlk_zk_holds_tickets). No node that is made has the
 * giver's name, so what still comes from the giver finds nothing.
 *
 * The importer's node is younger than those of all who wait, and its number is its token: theirs would be
 * smaller. So the transaction also writes what lies in the folder, as it is: whose node is older than that
 * does the same when it is granted, and has the number of that as its token.
 */
#include "backends/zookeeper/inner.h"

#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 8
/* A server reads so much, and others' requests beside it; for more it closes the connection. */
#define FOLDER_MAX ((size_t)512 * 1024)

/* A folder of many locks is written for each of them, and says nothing of one. */
bool dlk_zk_keeps(const dlk_settings *settings)
{
    int64_t layout = dlk_settings_int(settings, DLK_KEY_ZOOKEEPER_LAYOUT);
    if (layout != DLK_ZK_PATTERN)
        return layout != DLK_ZK_EXCLUSIVE;
    const char *name =
        strstr(dlk_settings_text(settings, DLK_KEY_ZOOKEEPER_NODE), "{name}");
    return name && strchr(name, '/');
}

bool dlk_zk_hands_on(const dlk_settings *settings)
{
    int64_t layout = dlk_settings_int(settings, DLK_KEY_ZOOKEEPER_LAYOUT);
    const char *node = dlk_settings_text(settings, DLK_KEY_ZOOKEEPER_NODE);
    return dlk_zk_keeps(settings) && (layout != DLK_ZK_PATTERN || strstr(node, "{uuid}"));
}

/* ---- away ---- */

/* Whether its node is left to whoever has the ticket. */
bool dlk_zk_place_is_out(const dlk_zk_place *place, int64_t now)
{
    return place->exported && now < place->lapses_at &&
           place->nodes[place->plan->steps - 1].state == DLK_NODE_THERE;
}

void dlk_zk_place_export(dlk_zk_place *place, int64_t now)
{
    int64_t *sweep_at = &place->zk->base.sweep_at;
    if (!place->lapses_at)
        place->lapses_at = now + place->zk->timeout_ms * DLK_NS_PER_MS;
    if (place->lapses_at < *sweep_at)
        *sweep_at = place->lapses_at;
    dlk_place_answer(&place->base, &place->base.give, DLK_YES, NULL);
}

bool dlk_zk_holds_tickets(const dlk_zk *zk, int64_t now)
{
    DLK_LIST_FOR (it, &zk->base.places)
        if (dlk_zk_place_is_out(DLK_ZK_PLACE_OF_ALL(it), now))
            return true;
    return false;
}

/* ---- what lies in the folder ---- */

static void fail(dlk_zk_place *place, bool unsure)
{
    dlk_place_fail(&place->base, &place->base.take, unsure ? DLK_UNKNOWN : DLK_NOT_SENT);
}

static bool unanswered(const dlk_zk_call *call)
{
    return call->end == DLK_ZK_CUT || call->end == DLK_ZK_NO_MEMORY ||
           call->end == DLK_ZK_GONE;
}

static void refuse(dlk_zk_place *place, const dlk_zk_call *call, const char *what,
                   int64_t now)
{
    dlk_zk_node *node = &place->nodes[0];
    dlk_zk_node_refuse(node, dlk_zk_error(place->zk, call, what, node->parent), now);
}

static void note_folder(dlk_zk_place *place, dlk_zk_call *call)
{
    free(place->folder.text);
    place->folder.text = call->item.text;
    place->folder.size = call->size;
    place->folder.version = call->stat.version;
    place->folder.known = true;
    call->item.text = NULL;
}

/* False: refused, as more than a server may take. */
static bool may_write(dlk_zk_place *place, int64_t now)
{
    dlk_zk_node *node = &place->nodes[0];
    if (place->folder.size <= FOLDER_MAX)
        return true;
    dlk_zk_node_refuse(
        node,
        dlk_error_make(
            DLOCK_ECONFLICT,
            "zookeeper: in %s lie %zu bytes: too many to be written once more, "
            "as handing on does",
            node->parent, place->folder.size),
        now);
    return false;
}

/* The same once more: only that it was written counts. */
static dlk_zk_request touch_of(const dlk_zk_place *place)
{
    return (dlk_zk_request){.verb = DLK_ZK_SET,
                            .path = place->nodes[0].parent,
                            .data = place->folder.text ? place->folder.text : "",
                            .size = place->folder.text ? place->folder.size : 0,
                            .versioned = true,
                            .version = place->folder.version};
}

static bool read_folder(dlk_zk_place *place, dlk_zk_done *done, int flags, int64_t now)
{
    const dlk_zk_request get = {.verb = DLK_ZK_GET, .path = place->nodes[0].parent};
    return dlk_zk_place_send(place, &get, done, NULL, flags, now);
}

/* ---- the token of who has stood in the line since before an import ---- */

static void on_touched(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    dlk_zk_node *prize = dlk_zk_place_prize(place);
    place->marks = false;
    if (place->base.leaving || prize->state != DLK_NODE_THERE)
        return; /* what it waits for goes on */
    if (call->end == DLK_ZK_OK) {
        prize->counts_from = call->stat.mzxid;
        dlk_zk_node_hear(prize, DLK_HEARD_FIRST, now);
    } else if (unanswered(call) || call->end == DLK_ZK_OTHER_VERSION) {
        fail(place, true); /* whoever writes there again and again isn't run after */
    } else {
        refuse(place, call, "write what lies in", now);
    }
}

static void on_read(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    place->marks = false;
    if (place->base.leaving)
        return;
    if (call->end != DLK_ZK_OK) {
        if (unanswered(call))
            fail(place, true);
        else
            refuse(place, call, "read what lies in", now);
        return;
    }
    note_folder(place, call);
    if (!may_write(place, now))
        return;
    const dlk_zk_request touch = touch_of(place);
    place->marks = dlk_zk_place_send(place, &touch, on_touched, NULL, 0, now);
    if (!place->marks)
        fail(place, true);
}

bool dlk_zk_place_has_to_mark(dlk_zk_place *place, int64_t now)
{
    const dlk_zk_node *prize = dlk_zk_place_prize(place);
    if (!place->home->hands_on || prize->counts_from ||
        prize->written <= prize->czxid) /* the same: by the import that made it */
        return false;
    if (!place->marks && !(place->marks = read_folder(place, on_read, 0, now)))
        fail(place, true);
    return true;
}

/* ---- over ---- */

static void answer_nowhere(dlk_zk_place *place, int64_t now)
{
    place->base.leaving = true; /* of several there may be others */
    dlk_zk_place_leave(&place->base, now);
    dlk_place_answer(&place->base, &place->base.take, DLK_NOT_OURS, NULL);
}

static void on_moved(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    bool done = call->end == DLK_ZK_OK, unsure = unanswered(call);
    for (int i = 0; i < place->plan->steps; i++) {
        dlk_zk_node *node = &place->nodes[i];
        node->state = done ? DLK_NODE_THERE : unsure ? DLK_NODE_UNSURE : DLK_NODE_NONE;
        node->czxid = node->written = call->stat.mzxid;
        if (!done) {
            free(node->path);
            node->path = NULL;
        }
    }
    if (place->base.leaving) {
        dlk_zk_place_leave(&place->base, now);
    } else if (done) {
        place->step = place->plan->steps - 1;
        dlk_zk_node_hear(dlk_zk_place_prize(place), DLK_HEARD_FIRST, now);
    } else if (unsure || ++place->nodes[0].tries > TRIES_MAX) {
        place->nodes[0].tries = 0;
        fail(place, unsure);
    } else if (call->end == DLK_ZK_NO_NODE || call->end == DLK_ZK_OTHER_VERSION) {
        dlk_zk_place_import(place, now); /* somebody was before us */
    } else {
        refuse(place, call, "hand on a lock below", now);
    }
}

/* What it will be called: with the giver's digits. */
static bool name_node(dlk_zk_node *node, const char *giver)
{
    const dlk_zk_place *place = node->place;
    const char *digits = dlk_zk_digits(giver);
    char *prefix = NULL;
    if (!node->uuid[0])
        dlk_zk_uuid_new(node);
    prefix = dlk_zk_node_prefix(place, node->rule, false, node->uuid);
    free(node->path);
    if (!prefix || !digits ||
        asprintf(&node->path, "%s/%s%s", node->parent, prefix, digits) < 0)
        node->path = NULL;
    free(prefix);
    return node->path != NULL;
}

static bool move(dlk_zk_place *place, char *const *from, int64_t now)
{
    char *made[DLK_ZK_STEPS] = {NULL};
    size_t count = (size_t)place->plan->steps;
    char *data = dlk_zk_node_data(&place->nodes[0]);
    const dlk_zk_request touch = touch_of(place);
    bool fine = data != NULL;
    for (size_t i = 0; i < count; i++) {
        fine = fine && name_node(&place->nodes[i], from[i]);
        made[i] = place->nodes[i].path;
    }
    const dlk_zk_request request = {.verb = DLK_ZK_MOVE,
                                    .path = from[0],
                                    .paths = from,
                                    .made = made,
                                    .count = count,
                                    .data = data,
                                    .size = data ? strlen(data) : 0,
                                    .also = &touch};
    fine = fine && dlk_zk_place_send(place, &request, on_moved, NULL, 0, now);
    for (size_t i = 0; i < count; i++)
        place->nodes[i].state = fine ? DLK_NODE_CREATING : DLK_NODE_NONE;
    free(data);
    return fine;
}

/* Of a pattern it is the last that differs. */
static const char *uuid_in(const dlk_zk_form *form, const char *name)
{
    size_t before = DLK_UUID_SIZE - 1 + (form ? strlen(form->tail) : 0);
    const char *digits = form ? dlk_zk_digits(name) : NULL;
    if (!form)
        return name;
    return digits && (size_t)(digits - name) >= before ? digits - before : "";
}

/* The giver's node of this step, if it is the first in the line. */
static const char *giver_of(const dlk_zk_node *node, const dlk_zk_call *call,
                            const char *also)
{
    const dlk_zk_place *place = node->place;
    const char *giver = place->base.take->text;
    dlk_zk_look at = {.rule = node->rule,
                      .forms = {place->home->forms[0]},
                      .own = "",
                      .also_own = also};
    for (size_t i = 0; i < call->child_count; i++) {
        const char *child = call->children[i];
        bool ours = node->rule->sort == DLK_SORT_OTHER
                        ? dlk_zk_has_form(place->home->forms[0], child)
                        : dlk_zk_sort_of(child) == node->rule->sort;
        if (ours && dlk_zk_uuid_is_of(uuid_in(place->home->forms[0], child), giver))
            at.own = child;
    }
    return at.own[0] &&
                   dlk_zk_judge(&at, call->children, call->child_count) == DLK_ZK_FIRST
               ? at.own
               : NULL;
}

/* Of each step; @p ret_fine says whether there was memory for them. */
static bool find_giver(dlk_zk_place *place, const dlk_zk_call *call,
                       char *ret[DLK_ZK_STEPS], bool *ret_fine)
{
    const char *also = NULL;
    for (int i = place->plan->steps; i-- > 0;) {
        const dlk_zk_node *node = &place->nodes[i];
        const char *name = giver_of(node, call, also);
        if (!name)
            return false;
        ret[i] = dlk_zk_join(node->parent, name);
        *ret_fine = *ret_fine && ret[i];
        also = name;
    }
    return true;
}

static void on_line(dlk_zk_call *call, int64_t now)
{
    dlk_zk_place *place = call->owner;
    char *from[DLK_ZK_STEPS] = {NULL};
    bool fine = true;
    place->marks = false;
    if (place->base.leaving) {
        dlk_zk_place_leave(&place->base, now);
        return;
    }
    if (!place->base.take || !place->base.take->text)
        return; /* nobody waits for it just now */
    if (unanswered(call))
        fail(place, true);
    else if (call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE)
        refuse(place, call, "list", now);
    else if (call->end == DLK_ZK_NO_NODE || !find_giver(place, call, from, &fine))
        answer_nowhere(place, now);
    else if (!place->folder.known || !fine ||
             (may_write(place, now) && !move(place, from, now)))
        fail(place, false);
    for (int i = 0; i < DLK_ZK_STEPS; i++)
        free(from[i]);
}

static void on_folder(dlk_zk_call *call, int64_t now)
{
    (void)now;
    dlk_zk_place *place = call->owner;
    place->folder.known = false; /* nor is anything written there then */
    if (call->end == DLK_ZK_OK)  /* else the list that is right behind it says why not */
        note_folder(place, call);
}

/* A server that lags may show the giver's node, and never hides it: the transaction finds out. That our own
 * isn't there is known, by the answer or by a search behind a sync. */
void dlk_zk_place_import(dlk_zk_place *place, int64_t now)
{
    const dlk_zk_request list = {.verb = DLK_ZK_CHILDREN, .path = place->nodes[0].parent};
    if (place->marks)
        return; /* its answer goes on */
    place->marks = read_folder(place, on_folder, DLK_ZK_QUIET, now) &&
                   dlk_zk_place_send(place, &list, on_line, NULL, 0, now);
    if (!place->marks)
        fail(place, false);
}
