/* Signals at a condition, and who is seen to wait there. condition.c says what lies there, and how it is read. */
#include "backends/zookeeper/reports.h"

#include "session/tally.h"
#include "util/error.h"
#include "util/info.h"

#include <stdlib.h>
#include <string.h>

/* ---- a signal ---- */

static const char *folder_of(const dlk_zk_report *report)
{
    return report->home->parents[0];
}

static void tell(dlk_zk_report *report)
{
    report->base.info = dlk_info_new();
    dlk_info_add_int(report->base.info, (int64_t)report->signalled, "signalled");
    dlk_report_tell(&report->base);
}

/* Before anything was done. */
static void not_signalled(dlk_zk_report *report, const dlk_zk_call *call,
                          const char *what)
{
    bool nothing = report->base.unanswered;
    report->base.unanswered = false;
    if (nothing)
        dlk_report_answer(&report->base, DLK_NOT_SENT);
    else
        dlk_report_refuse(&report->base,
                          dlk_zk_error(report->zk, call, what, folder_of(report)));
}

static void look_at_line(dlk_zk_report *report, int64_t now);

static void on_set(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    if (call->end == DLK_ZK_OK)
        tell(report);
    else if (call->end == DLK_ZK_OTHER_VERSION || call->end == DLK_ZK_NO_NODE)
        look_at_line(report, now); /* somebody else was before */
    else if (report->base.unanswered)
        dlk_report_answer(&report->base, DLK_UNKNOWN);
    else
        not_signalled(report, call, "set the data of");
}

/* Whoever it is looks before long, though it isn't told. */
static void on_touched(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    (void)now;
    report->base.unanswered = false;
}

/* The places' data stays as it is: that it is set is what they hear of. */
static void put_signals(dlk_zk_report *report, int64_t now)
{
    const dlk_zk_request set = {.verb = DLK_ZK_SET,
                                .path = folder_of(report),
                                .data = report->tally,
                                .size = strlen(report->tally),
                                .versioned = true,
                                .version = report->version};
    if (!dlk_zk_report_send(report, &set, on_set, NULL, now)) {
        dlk_report_answer(&report->base, DLK_NOT_SENT);
        return;
    }
    for (size_t i = 0; i < report->count; i++) {
        const dlk_zk_finding *item = &report->found[i];
        const dlk_zk_request touch = {.verb = DLK_ZK_SET,
                                      .path = item->path,
                                      .data = item->text,
                                      .size = item->text ? strlen(item->text) : 0};
        if (item->text)
            (void)dlk_zk_report_send(report, &touch, on_touched, NULL, now);
    }
}

static void on_place(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    dlk_zk_finding *item = &report->found[(uintptr_t)call->extra];
    if (call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE) {
        not_signalled(report, call, "read what lies in");
        return;
    }
    item->text = call->end == DLK_ZK_OK ? call->item.text : NULL; /* NULL: it has gone */
    call->item.text = item->text ? NULL : call->item.text;
    if (report->base.calls == 1)
        put_signals(report, now);
}

/* With who is signalled the next in the line is to hear of it. */
static void read_places(dlk_zk_report *report, char **children, size_t count, int64_t now)
{
    size_t end = report->signalled + 1 < count ? report->signalled + 1 : count;
    for (size_t i = 0; i < end; i++)
        (void)dlk_zk_report_find(report, dlk_zk_join(folder_of(report), children[i]));
    if (report->base.why) {
        dlk_report_answer(&report->base, DLK_UNKNOWN);
        return;
    }
    for (size_t i = 0; i < report->count; i++) {
        const dlk_zk_request get = {.verb = DLK_ZK_GET, .path = report->found[i].path};
        (void)dlk_zk_report_send(report, &get, on_place, (void *)(uintptr_t)i, now);
    }
}

/* What is to be set; false: not known, for this reason. */
static bool plan(dlk_zk_report *report, dlk_queue line, size_t *ret_first,
                 dlock_error **err)
{
    dlk_tally tally;
    if (dlk_tally_read(&tally, report->text, "zookeeper", err) != DLOCK_OK)
        return false;
    *ret_first = dlk_tally_signalled(&tally, line);
    free(report->tally);
    report->tally =
        dlk_tally_add(&tally, line, report->base.ask->limit, &report->signalled)
            ? dlk_tally_text(&tally)
            : NULL;
    dlk_tally_free(&tally);
    if (!report->tally)
        (void)dlk_error_nomem(err);
    return report->tally;
}

static void on_signal_line(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    dlock_error *why = NULL;
    size_t first = 0;
    if (call->end == DLK_ZK_NO_NODE || (call->end == DLK_ZK_OK && !report->text)) {
        tell(report); /* nobody has waited there */
        return;
    }
    if (call->end != DLK_ZK_OK) {
        not_signalled(report, call, "list");
        return;
    }
    if (call->stat.version != report->version) {
        look_at_line(report, now);
        return;
    }
    int64_t *line = dlk_zk_condition_line(call);
    dlk_queue queue = {line, call->child_count};
    dlk_zk_report_forget(report);
    if (!line || !plan(report, queue, &first, &why))
        dlk_report_refuse(&report->base,
                          why ? why : dlk_error_make(DLOCK_ENOMEM, "out of memory"));
    else if (report->signalled == 0)
        tell(report);
    else
        read_places(report, call->children + first, queue.count - first, now);
    free(line);
}

static void on_text(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    (void)now;
    free(report->text);
    report->text = call->end == DLK_ZK_OK ? call->item.text : NULL;
    if (report->text)
        call->item.text = NULL;
    report->version = call->stat.version;
}

static void on_signal_text(dlk_zk_call *call, int64_t now)
{
    on_text(call, now);
    if (call->end != DLK_ZK_OK && call->end != DLK_ZK_NO_NODE)
        not_signalled(call->owner, call, "read");
}

/* Without it the server may not know yet who waits. */
static void on_synced(dlk_zk_call *call, int64_t now)
{
    (void)now;
    if (call->end != DLK_ZK_OK)
        not_signalled(call->owner, call, "sync");
}

static void look_at_line(dlk_zk_report *report, int64_t now)
{
    report->signalled = 0;
    const dlk_zk_request sync = {.verb = DLK_ZK_SYNC, .path = folder_of(report)};
    const dlk_zk_request text = {.verb = DLK_ZK_GET, .path = folder_of(report)};
    const dlk_zk_request line = {.verb = DLK_ZK_CHILDREN, .path = folder_of(report)};
    if (!dlk_zk_report_send(report, &sync, on_synced, NULL, now) ||
        !dlk_zk_report_send(report, &text, on_signal_text, NULL, now) ||
        !dlk_zk_report_send(report, &line, on_signal_line, NULL, now))
        dlk_report_answer(&report->base, DLK_NOT_SENT);
}

void dlk_zk_signal_begin(dlk_zk_report *report, int64_t now)
{
    look_at_line(report, now);
}

/* ---- an inspection, by the name of a lock that isn't in use ---- */

static void on_inspected(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    dlk_tally tally = {.count = 0};
    dlock_error *why = NULL;
    size_t signalled = 0;
    int64_t *line = call->end == DLK_ZK_OK ? dlk_zk_condition_line(call) : NULL;
    dlk_queue queue = {line, line ? call->child_count : 0};
    if (report->text &&
        dlk_tally_read(&tally, report->text, "zookeeper", &why) == DLOCK_OK)
        signalled = dlk_tally_signalled(&tally, queue);
    report->condition = queue.count > 0;
    report->waiters = (int64_t)(queue.count - signalled);
    for (size_t i = 0; i < signalled && i < DLK_ZK_HOLDERS_MAX; i++)
        (void)dlk_zk_report_find(report, dlk_zk_join(report->beside, call->children[i]));
    for (size_t i = signalled; i < queue.count; i++)
        dlk_zk_party_waits(report, NULL, report->beside, call->children[i]);
    dlk_error_clear(&why);
    dlk_tally_free(&tally);
    free(line);
    dlk_zk_report_read_holders(report, now);
}

static bool is_free_mutex(const dlk_zk_report *report)
{
    return report->base.ask->verb == DLK_INSPECT && !report->base.ask->brief &&
           report->home->base.kind == DLOCK_MUTEX && report->count == 0 &&
           report->waiters == 0 && report->waiting_count == 0 && !report->base.why &&
           !report->base.unanswered;
}

bool dlk_zk_condition_inspect(dlk_zk_report *report, int64_t now)
{
    if (!is_free_mutex(report) || report->beside)
        return false;
    report->beside = dlk_zk_condition_path(report->zk, report->home->path);
    const dlk_zk_request text = {.verb = DLK_ZK_GET, .path = report->beside};
    const dlk_zk_request line = {.verb = DLK_ZK_CHILDREN, .path = report->beside};
    return report->beside && dlk_zk_report_send(report, &text, on_text, NULL, now) &&
           dlk_zk_report_send(report, &line, on_inspected, NULL, now);
}
