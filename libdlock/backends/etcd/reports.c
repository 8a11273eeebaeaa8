/* Inspect, break and revoke: the line of a lock is read, and who of it holds is worked out as those
 * who wait there do. */
#include "backends/etcd/reports.h"

#include "util/error.h"
#include "util/info.h"
#include "util/kind.h"
#include "util/number.h"
#include "util/who.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDERS_MAX 128

/* ---- the life of a report ---- */

void dlk_etcd_report_close(dlk_report *base)
{
    dlk_etcd_report *report = (dlk_etcd_report *)(void *)base;
    dlk_etcd_report_forget(report);
    dlk_etcd_listed_free(report);
    dlk_etcd_layout_free(&report->condition);
    free(report->condition.name);
    dlk_etcd_bytes_free(&report->probe);
}

static void on_report_answer(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    if (report->base.ask)
        call->then(call, now);
    dlk_report_settle(&report->base);
}

bool dlk_etcd_report_send(dlk_etcd_report *report, dlk_etcd_method method,
                          dlk_etcd_request request, dlk_etcd_done *then, int64_t now)
{
    if (!dlk_etcd_send_then(report->et, method, request, (dlk_etcd_bytes){0},
                            on_report_answer, then, report, now))
        return false;
    report->base.calls++;
    return true;
}

void dlk_etcd_report_failed(dlk_etcd_report *report, const dlk_etcd_call *call,
                            const char *what)
{
    if (call->end == DLK_ETCD_CUT)
        dlk_report_answer(&report->base, DLK_UNKNOWN);
    else
        dlk_report_refuse(&report->base, dlk_etcd_error(report->et, call, what));
}

/* ---- who holds it ---- */

static char *cut_line(char **rest)
{
    char *line = *rest;
    size_t size = strcspn(line, "\n");
    *rest = line + size + (line[size] == '\n');
    line[size] = '\0';
    return line;
}

bool dlk_etcd_entry_read(const dlk_etcd_key *home, const DlkEtcd__KeyValue *kv,
                         dlk_etcd_entry *ret)
{
    char *rest = (char *)dlk_etcd_bytes_copy(kv->value.data, kv->value.len).data;
    const char *name = memrchr(kv->key.data, '/', kv->key.len);
    *ret = (dlk_etcd_entry){.text = rest, .weight = 1, .rev = kv->create_revision};
    /* A mutex' is its holder's alone, and permits have none. */
    if (home->base.kind != DLOCK_MUTEX && home->base.kind != DLOCK_SEMAPHORE)
        ret->token = ret->rev;
    if (!rest)
        return false;
    size_t size =
        name ? (size_t)((const char *)kv->key.data + kv->key.len - name - 1) : 0;
    (void)snprintf(ret->name, sizeof(ret->name), "%.*s",
                   (int)(size < sizeof(ret->name) ? size : sizeof(ret->name)),
                   name ? name + 1 : "");
    ret->owner = ret->name;
    if (home->base.kind == DLOCK_ELECTION) {
        ret->data = rest;
        return true;
    }
    if (home->line == DLK_ETCD_RW)
        ret->reads = name && cut_line(&rest)[0] == 'R';
    if (home->line == DLK_ETCD_SEMAPHORE) {
        ret->weight = dlk_etcd_weight(kv->value);
        (void)cut_line(&rest);
    }
    if (rest[0])
        ret->owner = cut_line(&rest);
    ret->who = cut_line(&rest);
    ret->data = rest;
    return true;
}

/* Of this client's waiters the core knows. */
static bool is_own(const dlk_etcd_report *report, const DlkEtcd__KeyValue *kv)
{
    return report->et->lease != 0 && kv->lease == report->et->lease;
}

/* An election's key says what is published and no owner, and none says a mutex' token: of ours we know
 * both. */
static void know_own(const dlk_etcd_report *report, const DlkEtcd__KeyValue *kv,
                     dlk_etcd_entry *item, char *room, size_t size)
{
    DLK_LIST_FOR (it, &report->home->base.places) {
        const dlk_etcd_place *place = DLK_ETCD_PLACE_IN_LINE(it);
        if (!place->key.data || !dlk_etcd_bytes_same(place->key, kv->key) ||
            !is_own(report, kv))
            continue;
        (void)snprintf(room, size, "%s:%" PRIu64, report->et->base.backend.host->uuid,
                       place->base.number);
        item->owner = room;
        item->token = place->base.granted ? place->base.token : item->token;
    }
}

/* Whether the next in line holds it as well; @p taken by those before. */
static bool holds(const dlk_etcd_report *report, const dlk_etcd_entry *item,
                  int64_t before, int64_t taken, bool all_read)
{
    const dlk_etcd_key *home = report->home;
    switch (home->line) {
    case DLK_ETCD_MUTEX:
        return before == 0;
    case DLK_ETCD_RW:
        return before == 0 || (item->reads && all_read);
    case DLK_ETCD_SEMAPHORE:
        return taken + item->weight <= home->permits;
    case DLK_ETCD_CONDITION:
        return before < (int64_t)report->signalled;
    }
    return false;
}

/* What is told of whoever holds it, and of whoever waits. */
static void add_entry(dlock_info *info, const dlk_etcd_entry *item, const char *list,
                      size_t number)
{
    dlk_info_add_text(info, item->owner, "%s.%zu.owner", list, number);
    dlk_info_add_text(info, item->name, "%s.%zu.key", list, number);
    if (item->who)
        (void)dlk_who_tell_text(info, item->who, strlen(item->who), list, number);
    if (item->data && item->data[0])
        dlk_info_add_text(info, item->data, "%s.%zu.data", list, number);
}

static void add_holder(dlock_info *info, const dlk_etcd_entry *item, size_t number)
{
    add_entry(info, item, "holders", number);
    if (item->token)
        dlk_info_add_int(info, item->token, "holders.%zu.token", number);
    dlk_info_add_int(info, item->weight, "holders.%zu.count", number);
}

/* Somebody was broken, or asked. */
static void on_acted(dlk_etcd_call *call, int64_t now)
{
    (void)now;
    dlk_etcd_report *report = call->owner;
    bool breaks = report->base.ask->verb == DLK_BREAK;
    if (call->end != DLK_ETCD_OK) {
        dlk_etcd_report_failed(report, call,
                               breaks ? "delete the key of a lock"
                                      : "touch the key of a lock");
        return;
    }
    report->base.acted += dlk_etcd_succeeded(call);
    if (report->base.calls == 1) /* the last one */
        dlk_report_answer(&report->base, report->base.acted ? DLK_YES : DLK_NOT_OURS);
}

static void break_one(dlk_etcd_report *report, const DlkEtcd__KeyValue *kv,
                      const dlk_etcd_entry *item, int64_t now)
{
    const char *wanted = report->base.ask->text;
    if (wanted && strcmp(wanted, item->owner) != 0 && strcmp(wanted, item->name) != 0)
        return;
    /* Who has imported it meanwhile isn't meant. */
    const dlk_etcd_bytes *value =
        report->home->base.kind == DLOCK_MUTEX ? &kv->value : NULL;
    (void)dlk_etcd_report_send(report, DLK_ETCD_TXN,
                               dlk_etcd_layout_delete(kv->key, item->rev, value, 0),
                               on_acted, now);
}

/* Others' mutexes, and elections, say no owner: nobody there would hear of it. */
static void ask_one(dlk_etcd_report *report, const DlkEtcd__KeyValue *kv,
                    const dlk_etcd_entry *item, int64_t now)
{
    if (item->owner != item->name && report->home->base.kind != DLOCK_ELECTION)
        (void)dlk_etcd_report_send(report, DLK_ETCD_TXN,
                                   dlk_etcd_layout_touch(kv->key, item->rev), on_acted,
                                   now);
}

/* What a whole line comes to. */
typedef struct line {
    int64_t before, taken;          /* of what was gone through, whoever has it */
    int64_t holders, held, waiters; /* held: the permits of the holders */
    size_t waiting;                 /* those that were told */
    bool all_read, still, reads;    /* still: the next one may hold it as well */
} line;

static void tell_rest(dlk_etcd_report *report, const line *seen)
{
    const dlk_etcd_key *home = report->home;
    dlk_info_add_int(report->base.info, seen->holders > 0, "held");
    dlk_info_add_text(report->base.info,
                      dlk_kind_of(seen->reads ? DLOCK_READ : (int)home->base.kind)->name,
                      "kind");
    dlk_info_add_int(report->base.info, seen->waiters, "waiters");
    if (home->base.kind == DLOCK_SEMAPHORE) {
        dlk_info_add_int(report->base.info, home->permits, "permits");
        dlk_info_add_int(report->base.info, home->permits - seen->held, "permits_free");
    }
    dlk_info_add_text(report->base.info, "concurrency", "layout");
}

static void on_changed(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_key *home = call->owner;
    (void)now;
    dlk_host *host = home->base.session->backend.host;
    home->idle_watch = NULL;
    if (home->base.key && (call->end == DLK_ETCD_OK || call->end == DLK_ETCD_CUT))
        host->notified(host, home->base.key);
}

/* Whoever waits for the name to be free hears of the next change. */
static void watch_idle(dlk_etcd_report *report, const dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_key *home = report->home;
    if (home->idle && !home->idle_watch && home->base.key)
        home->idle_watch = dlk_etcd_watch(report->et, home->all.from, home->all.to,
                                          dlk_number_sum(call->revision, 1),
                                          DLK_ETCD_DELETES, on_changed, NULL, home, now);
}

/* Of this client's waiters the core knows, but not of those at the condition of a lock's name. */
static bool is_known(const dlk_etcd_report *report, const DlkEtcd__KeyValue *kv)
{
    return report->home->line != DLK_ETCD_CONDITION && is_own(report, kv);
}

/* How many hold it. */
static int64_t go_through(dlk_etcd_report *report, const DlkEtcd__RangeResponse *found,
                          int64_t now)
{
    const dlk_etcd_key *home = report->home;
    line seen = {.all_read = true, .still = true};
    const dlk_verb verb = report->base.ask->verb;
    for (size_t i = 0; i < dlk_etcd_kv_count(found); i++) {
        const DlkEtcd__KeyValue *kv = dlk_etcd_kv(found, i);
        char own[DLK_UUID_SIZE + 24];
        dlk_etcd_entry item;
        if (!dlk_etcd_layout_direct(home, kv->key) ||
            !dlk_etcd_entry_read(home, kv, &item)) /* no memory: it may not be seen */
            continue;
        know_own(report, kv, &item, own, sizeof(own));
        seen.still =
            seen.still && holds(report, &item, seen.before, seen.taken, seen.all_read);
        if (seen.still && verb == DLK_BREAK)
            break_one(report, kv, &item, now);
        else if (seen.still && verb == DLK_REVOKE)
            ask_one(report, kv, &item, now);
        else if (seen.still && seen.holders < HOLDERS_MAX)
            add_holder(report->base.info, &item, (size_t)seen.holders);
        else if (!seen.still && verb == DLK_INSPECT && seen.waiting < DLK_WAITING_MAX)
            add_entry(report->base.info, &item, "waiting", seen.waiting++);
        seen.reads |= seen.still && item.reads;
        seen.all_read &= item.reads;
        seen.before++;
        seen.taken += item.weight;
        seen.held += seen.still ? item.weight : 0;
        seen.holders += seen.still;
        seen.waiters += !seen.still && !is_known(report, kv);
        free(item.text);
    }
    if (verb == DLK_INSPECT)
        tell_rest(report, &seen);
    return seen.holders;
}

/* What is known of the lock is told, if nobody waits there. */
static void on_condition(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    const DlkEtcd__RangeResponse *found = dlk_etcd_found(call, 0);
    if (call->end == DLK_ETCD_OK && dlk_etcd_kv_count(found) > 0) {
        dlk_info_free(report->base.info);
        report->base.info = dlk_info_new();
        report->home = &report->condition;
        report->signalled = dlk_etcd_condition_signalled(call);
        (void)go_through(report, found, now);
    }
    dlk_report_tell(&report->base);
}

/* A lock that isn't in use may have the name of a condition. */
static bool look_beside(dlk_etcd_report *report, int64_t now)
{
    dlk_etcd_key *home = &report->condition;
    if (report->base.ask->brief || report->home->base.kind != DLOCK_MUTEX ||
        asprintf(&home->name, "%s%s", DLK_ETCD_CONDITIONS, report->home->name) < 0) {
        home->name = NULL;
        return false;
    }
    home->size = strlen(home->name);
    home->et = report->et;
    home->base.kind = DLK_KIND_CONDITION;
    dlk_list_init(&home->base.places);
    return dlk_etcd_layout_open(home, NULL) == DLOCK_OK &&
           dlk_etcd_report_send(report, DLK_ETCD_TXN, dlk_etcd_condition_inspect(home),
                                on_condition, now);
}

static void on_line(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    if (call->end != DLK_ETCD_OK) {
        dlk_etcd_report_failed(report, call, "read the keys of this lock");
        return;
    }
    const DlkEtcd__RangeResponse *found = dlk_etcd_range(call);
    if (report->base.ask->verb == DLK_INSPECT) {
        report->base.info = dlk_info_new();
        watch_idle(report, call, now);
        report->base.ask->wait_ms = -1;
        if (go_through(report, found, now) > 0 || !look_beside(report, now))
            dlk_report_tell(&report->base);
        return;
    }
    bool asks = report->base.ask->verb == DLK_REVOKE;
    bool held = go_through(report, found, now) > 0;
    if (report->base.calls > 1)
        return;
    if (asks && held) /* by somebody who can't be asked */
        dlk_report_refuse(&report->base,
                          dlk_error_make(DLOCK_ENOTSUP,
                                         "etcd: the holder's key doesn't say that it is "
                                         "libdlock's, so it would hear nothing"));
    else
        dlk_report_answer(&report->base, DLK_NOT_OURS);
}

static void read_line(dlk_etcd_report *report, int64_t now)
{
    (void)dlk_etcd_report_send(report, DLK_ETCD_RANGE, dlk_etcd_layout_line(report->home),
                               on_line, now);
}

void dlk_etcd_report_open(dlk_report *base, int64_t now)
{
    dlk_etcd_report *report = (dlk_etcd_report *)(void *)base;
    report->et = (dlk_etcd *)(void *)base->session;
    if (base->line)
        report->home = dlk_etcd_key_of(base->line);
    if (base->ask->verb == DLK_SIGNAL) {
        dlk_etcd_signal_begin(report, now);
    } else if (base->line) {
        read_line(report, now);
    } else if (base->ask->verb == DLK_LIST) {
        dlk_etcd_list_begin(report, now);
    } else {
        dlk_etcd_doctor_begin(report, now);
    }
}

/* ---- those who only wait for it to be free ---- */

void dlk_etcd_line_watch(dlk_line *base, bool on)
{
    dlk_etcd_key *home = dlk_etcd_key_of(base);
    home->idle = on;
    if (!on && home->idle_watch) {
        dlk_etcd_drop(home->et, home->idle_watch);
        home->idle_watch = NULL;
    }
}
