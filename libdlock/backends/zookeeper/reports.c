/* Inspect, break, revoke: who holds a lock is found by listing its nodes and reading those of the
 * holders; then it is told, deleted or written to. */
#include "backends/zookeeper/reports.h"

#include "util/error.h"
#include "util/grow.h"
#include "util/info.h"
#include "util/kind.h"

#include <stdlib.h>
#include <string.h>

#define REVOKE "__REVOKE__"

/* ---- the life of a report ---- */

static void free_finding(dlk_zk_finding *item)
{
    free(item->path);
    free(item->node);
    free(item->owner);
    free(item->text);
    while (item->more_count > 0)
        free(item->more[--item->more_count]);
    free(item->more);
}

void dlk_zk_report_forget(dlk_zk_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        free_finding(&report->found[i]);
    report->count = 0;
}

void dlk_zk_report_close(dlk_report *base)
{
    dlk_zk_report *report = (dlk_zk_report *)(void *)base;
    dlk_zk_report_forget(report);
    for (size_t i = 0; i < report->waiting_count; i++)
        free_finding(&report->waiting[i]);
    free(report->waiting);
    free(report->text);
    free(report->tally);
    free(report->beside);
    for (size_t i = 0; i < report->folder_count; i++)
        free(report->folders[i]);
    free(report->folders);
    free(report->found);
}

/* What was asked in a session that is over says nothing any more, and what would follow from it isn't
 * asked in the next. */
static void on_report_answer(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    if (report->base.ask && !dlk_zk_stale(report->zk, call)) {
        report->base.unanswered |= call->end == DLK_ZK_CUT || call->end == DLK_ZK_GONE ||
                                   call->end == DLK_ZK_NO_MEMORY;
        call->then(call, now);
    }
    dlk_report_settle(&report->base);
}

bool dlk_zk_report_send(dlk_zk_report *report, const dlk_zk_request *request,
                        dlk_zk_done *then, void *extra, int64_t now)
{
    if (!dlk_zk_send_then(report->zk, request, on_report_answer, then, report, extra,
                          DLK_ZK_ASKED, now))
        return false;
    report->base.calls++;
    return true;
}

void dlk_zk_report_no_memory(dlk_zk_report *report)
{
    if (!report->base.why)
        report->base.why = dlk_error_make(DLOCK_ENOMEM, "out of memory");
}

dlk_zk_finding *dlk_zk_report_find(dlk_zk_report *report, char *path)
{
    dlk_zk_finding *found =
        path ? dlk_grow(report->found, report->count, &report->capacity, sizeof(*found))
             : NULL;
    if (!found) {
        dlk_zk_report_no_memory(report);
        free(path);
        return NULL;
    }
    report->found = found;
    dlk_zk_finding *item = &report->found[report->count++];
    *item = (dlk_zk_finding){.report = report, .path = path};
    return item;
}

/* ---- who holds it ---- */

static dlk_zk_rule const *rule_of(const dlk_zk_report *report)
{
    const dlk_zk_plan *plan = report->home->plans[0];
    return plan->step[plan->steps - 1].rule;
}

static const char *folder_of(const dlk_zk_report *report)
{
    const dlk_zk_key *home = report->home;
    return home->parents[rule_of(report)->plain ? 0 : home->plans[0]->steps - 1];
}

/* Is it in line for this lock, on either side? */
static bool contends(const dlk_zk_report *report, const char *child)
{
    const dlk_zk_key *home = report->home;
    if (home->forms[0])
        return dlk_zk_has_form(home->forms[0], child) ||
               (home->forms[1] && dlk_zk_has_form(home->forms[1], child));
    return dlk_zk_contends(rule_of(report), child);
}

static bool is_node(const dlk_zk_node *node, const char *folder, const char *child)
{
    if (!node->parent || strcmp(node->parent, folder) != 0)
        return false;
    return node->path ? strcmp(dlk_zk_base_name(node->path), child) == 0
                      : node->uuid[0] && strstr(child, node->uuid);
}

/* Is it a node of this client's, of whichever handle? Of its waiters the core knows. */
static bool is_own(const dlk_zk_report *report, const char *folder, const char *child)
{
    DLK_LIST_FOR (it, &report->zk->base.places) {
        const dlk_zk_place *place = DLK_ZK_PLACE_OF_ALL(it);
        if (place->sided && is_node(&place->side, folder, child))
            return true;
        for (int i = 0; i < place->plan->steps; i++)
            if (is_node(&place->nodes[i], folder, child))
                return true;
    }
    return false;
}

static bool is_reader(const dlk_zk_report *report, const char *child)
{
    const dlk_zk_form *form = report->home->forms[1];
    if (form)
        return dlk_zk_has_form(form, child);
    dlk_zk_sort sort = dlk_zk_sort_of(child);
    return sort == DLK_SORT_READ || sort == DLK_SORT_KREAD;
}

static bool is_named(const dlk_zk_report *report, const dlk_zk_finding *item)
{
    const char *wanted = report->base.ask->text, *name = dlk_zk_base_name(item->path);
    if (!wanted || (item->owner && strcmp(wanted, item->owner) == 0) ||
        strcmp(wanted, name) == 0 || dlk_zk_uuid_is_of(name, wanted))
        return true;
    for (size_t i = 0; i < item->more_count; i++)
        if (strcmp(wanted, dlk_zk_base_name(item->more[i])) == 0)
            return true;
    return false;
}

/* ---- telling ---- */

static void tell(dlk_zk_report *report)
{
    const dlk_zk_key *home = report->home;
    bool reads = home->base.kind == DLOCK_WRITE && report->count > 0 &&
                 is_reader(report, dlk_zk_base_name(report->found[0].path));
    dlock_info *info = report->base.info = dlk_info_new();
    dlk_info_add_int(info, report->count > 0, "held");
    int kind = report->condition ? (int)DLK_KIND_CONDITION
               : reads           ? DLOCK_READ
                                 : (int)home->base.kind;
    dlk_info_add_text(info, dlk_kind_of(kind)->name, "kind");
    for (size_t i = 0; i < report->count; i++) {
        const dlk_zk_finding *item = &report->found[i];
        dlk_zk_party_tell(report, item, "holders", i);
        if (home->plans[0]->tokens)
            dlk_info_add_int(info, item->token, "holders.%zu.token", i);
        dlk_info_add_int(info, (int64_t)item->more_count + 1, "holders.%zu.count", i);
    }
    dlk_info_add_int(info, report->waiters, "waiters");
    for (size_t i = 0, told = 0; i < report->waiting_count; i++)
        if (!report->waiting[i].gone)
            dlk_zk_party_tell(report, &report->waiting[i], "waiting", told++);
    if (home->base.kind == DLOCK_SEMAPHORE) {
        dlk_info_add_int(info, home->permits, "permits");
        dlk_info_add_int(info, report->left, "permits_free");
    }
    dlk_info_add_text(
        info, dlk_settings_word(home->base.key->settings, DLK_KEY_ZOOKEEPER_LAYOUT),
        "layout");
    report->base.ask->wait_ms = -1;
    dlk_report_tell(&report->base);
}

/* ---- acting ---- */

static void on_acted(dlk_zk_call *call, int64_t now)
{
    (void)now;
    dlk_zk_report *report = call->owner;
    bool there = call->end == DLK_ZK_OK;
    report->base.acted += there;
    if (!there && call->end != DLK_ZK_NO_NODE && !report->base.unanswered &&
        !report->base.why)
        report->base.why = dlk_zk_error(report->zk, call, "change", folder_of(report));
    if (report->base.calls == 1) /* the last one */
        dlk_report_answer(&report->base, report->base.acted ? DLK_YES : DLK_NOT_OURS);
}

/* By now its holder has lost it, so that some of them may go later. */
static void delete_more(dlk_zk_report *report, const dlk_zk_finding *item, int64_t now)
{
    for (size_t i = 0; i < item->more_count; i++) {
        const dlk_zk_request request = {.verb = DLK_ZK_DELETE, .path = item->more[i]};
        (void)dlk_zk_report_send(report, &request, on_acted, NULL, now);
    }
}

static void act(dlk_zk_report *report, int64_t now)
{
    bool breaks = report->base.ask->verb == DLK_BREAK, sent = false;
    report->base.calls++;
    for (size_t i = 0; i < report->count; i++) {
        if (breaks && !is_named(report, &report->found[i]))
            continue;
        const dlk_zk_request request = {.verb = breaks ? DLK_ZK_DELETE : DLK_ZK_SET,
                                        .path = report->found[i].path,
                                        .data = REVOKE,
                                        .size = sizeof(REVOKE) - 1};
        sent |= dlk_zk_report_send(report, &request, on_acted, NULL, now);
        if (breaks)
            delete_more(report, &report->found[i], now);
    }
    report->base.calls--;
    if (!sent)
        dlk_report_answer(&report->base, DLK_NOT_OURS);
}

static void name_owners(dlk_zk_report *report, dlk_zk_finding *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        items[i].owner = dlk_zk_party_owner(report, &items[i]);
        if (!items[i].owner)
            dlk_zk_report_no_memory(report);
    }
}

static void finish(dlk_zk_report *report, int64_t now)
{
    if (dlk_zk_condition_inspect(report, now))
        return;
    name_owners(report, report->found, report->count);
    name_owners(report, report->waiting, report->waiting_count);
    if (report->base.why || report->base.unanswered)
        dlk_report_answer(&report->base, DLK_UNKNOWN);
    else if (report->base.ask->verb == DLK_INSPECT)
        tell(report);
    else
        act(report, now);
}

/* ---- reading ---- */

static void on_read(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    dlk_zk_finding *item = call->extra;
    if (call->end == DLK_ZK_OK) {
        item->text = call->item.text;
        call->item.text = NULL;
        item->token = dlk_zk_party_token(item->text, call->stat.czxid);
        if (report->home && report->home->hands_on && item->token < report->written)
            item->token = report->written;
        item->since_ms = call->stat.ctime_ms;
    }
    item->gone = call->end == DLK_ZK_NO_NODE;
    bool only = rule_of(report)->plain && !report->condition && item == report->found;
    if (item->gone && only)
        dlk_zk_report_forget(report);
    if (report->base.calls == 1)
        finish(report, now);
}

static bool read_all(dlk_zk_report *report, dlk_zk_finding *items, size_t count,
                     int64_t now)
{
    bool sent = false;
    for (size_t i = 0; i < count; i++) {
        const dlk_zk_request request = {.verb = DLK_ZK_GET, .path = items[i].path};
        sent |= dlk_zk_report_send(report, &request, on_read, &items[i], now);
    }
    return sent;
}

/* … and those who wait. */
void dlk_zk_report_read_holders(dlk_zk_report *report, int64_t now)
{
    bool sent = read_all(report, report->found, report->count, now);
    sent |= read_all(report, report->waiting, report->waiting_count, now);
    if (!sent)
        finish(report, now);
}

/* Somebody in the line of this step. */
static void waits(dlk_zk_report *report, int step, const char *folder, const char *child)
{
    report->waiters += !is_own(report, folder, child);
    dlk_zk_party_waits(report, report->home->plans[0]->step[step].rule, folder, child);
}

static void on_queue(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    for (size_t i = 0; i < call->child_count; i++)
        waits(report, 0, report->home->parents[0], call->children[i]);
    dlk_zk_report_read_holders(report, now);
}

static void add_holder(dlk_zk_report *report, const char *child)
{
    if (report->count < DLK_ZK_HOLDERS_MAX)
        (void)dlk_zk_report_find(report, dlk_zk_join(folder_of(report), child));
}

/* The first of the line, and behind a reader all readers up to the next writer. */
static void find_first(dlk_zk_report *report, char **children, size_t count)
{
    const dlk_zk_rule *rule = rule_of(report);
    const char *first = NULL, *writer = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!contends(report, children[i]))
            continue;
        if (!first || dlk_zk_before(rule, children[i], first))
            first = children[i];
        if (!is_reader(report, children[i]) &&
            (!writer || dlk_zk_before(rule, children[i], writer)))
            writer = children[i];
    }
    if (!first)
        return;
    bool many = report->home->base.kind == DLOCK_WRITE && is_reader(report, first);
    for (size_t i = 0; i < count; i++) {
        if (!contends(report, children[i]))
            continue;
        if (children[i] == first ||
            (many && is_reader(report, children[i]) &&
             (!writer || dlk_zk_before(rule, children[i], writer))))
            add_holder(report, children[i]);
        else
            waits(report, report->home->plans[0]->steps - 1, folder_of(report),
                  children[i]);
    }
}

/* A bridge stands in kazoo's line first. Its head has, or will have at once, a node in the other one
 * as well, or is kazoo's own holder. */
static void find_bridges(dlk_zk_report *report, char **children, size_t count)
{
    const dlk_zk_rule *rule = report->home->plans[0]->step[0].rule;
    const char *first = NULL;
    if (!rule->bridge)
        return;
    for (size_t i = 0; i < count; i++)
        if (dlk_zk_contends(rule, children[i]) &&
            (!first || dlk_zk_before(rule, children[i], first)))
            first = children[i];
    for (size_t i = 0; i < count; i++)
        if (dlk_zk_contends(rule, children[i]) && children[i] != first)
            waits(report, 0, folder_of(report), children[i]);
}

static void on_children(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    const dlk_zk_plan *plan = report->home->plans[0];
    if (call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE) {
        if (!report->base.unanswered)
            report->base.why = dlk_zk_error(report->zk, call, "list", folder_of(report));
        dlk_report_answer(&report->base, DLK_UNKNOWN);
        return;
    }
    report->written = call->stat.mzxid;
    if (rule_of(report)->plain) { /* the line beside it, of ours */
        for (size_t i = 0; i < call->child_count; i++)
            waits(report, 0, folder_of(report), call->children[i]);
        (void)dlk_zk_report_find(report, strdup(report->home->path));
        dlk_zk_report_read_holders(report, now);
        return;
    }
    if (!rule_of(report)->counts) {
        find_first(report, call->children, call->child_count);
        find_bridges(report, call->children, call->child_count);
        dlk_zk_report_read_holders(report, now);
        return;
    }
    dlk_zk_report_leases(report, call->children, call->child_count);
    const dlk_zk_request queue = {.verb = DLK_ZK_CHILDREN,
                                  .path = report->home->parents[0]};
    if (plan->steps < 2 || !dlk_zk_report_send(report, &queue, on_queue, NULL, now))
        dlk_zk_report_read_holders(report, now);
}

static void look(dlk_zk_report *report, int64_t now)
{
    const dlk_zk_request request = {.verb = DLK_ZK_CHILDREN,
                                    .path = folder_of(report),
                                    .watch = !dlk_list_empty(&report->home->idle)};
    (void)dlk_zk_report_send(report, &request, on_children, NULL, now);
}

void dlk_zk_report_open(dlk_report *base, int64_t now)
{
    dlk_zk_report *report = (dlk_zk_report *)(void *)base;
    report->zk = (dlk_zk *)(void *)base->session;
    if (base->line)
        report->home = dlk_zk_key_of(base->line);
    if (base->ask->verb == DLK_SIGNAL) {
        dlk_zk_signal_begin(report, now);
    } else if (base->line) {
        look(report, now);
    } else if (base->ask->verb == DLK_LIST) {
        dlk_zk_list_begin(report, now);
    } else {
        dlk_zk_doctor_begin(report, now);
    }
}

/* ---- those who only wait for it to be free ---- */

void dlk_zk_line_watch(dlk_line *base, bool on)
{
    dlk_zk_key *home = dlk_zk_key_of(base);
    dlk_zk *zk = (dlk_zk *)(void *)base->session;
    dlk_list_remove(&home->idle);
    if (on)
        dlk_list_append(&zk->idle, &home->idle);
}

void dlk_zk_idle_changed(dlk_zk *zk, const char *path)
{
    dlk_host *host = zk->base.backend.host;
    DLK_LIST_FOR (it, &zk->idle) {
        dlk_zk_key *home = DLK_LIST_ITEM(it, dlk_zk_key, idle);
        const dlk_zk_plan *plan = home->plans[0];
        if (strcmp(home->parents[plan->steps - 1], path) == 0 &&
            !dlk_line_waits(&home->base))
            host->notified(host, home->base.key);
    }
}
