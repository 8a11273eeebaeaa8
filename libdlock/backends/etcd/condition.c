/*
 * Conditions: a line in which nobody is first until there is a signal.
 *
 *     dlock-conditions/<name>\0w/<lease>-<number>   a place, bound to its client's lease
 *     dlock-conditions/<name>\0signals              how many signals are out (session/tally.h); not
 *                                                   there: none
 *
 * They lie apart from the locks: a waiter of Go's package takes the oldest key behind "<name>/" for its
 * holder, whatever it is, and a condition's name mostly goes on behind its lock's.
 *
 * A signal changes the second key as it was read, and in the same step touches the places of those who are
 * signalled by it, each of whom watches its own, and that of the next in the line. That one watches the
 * whole line from then on, since who leaves it unused, or dies, makes room for it.
 *
 * The second key outlives whoever signals and whoever is signalled, but not for ever: it has a lease of its
 * own, which the signalled renew with theirs.
 */
#include "backends/etcd/reports.h"

#include "session/tally.h"
#include "util/error.h"
#include "util/info.h"

#include <stdlib.h>
#include <string.h>

/* So many keys are named in a step: a server takes 128, unless it is told otherwise. */
#define BLOCK 100
/* So long the signals stay at least that nobody uses and nobody renews. */
#define LEASE_S INT64_C(600)

/* ---- what a look finds ---- */

typedef struct view {
    int64_t *places; /* owned */
    dlk_queue line;
    dlk_tally tally;
    int64_t rev, lease; /* of the second key; 0: it isn't there */
} view;

static void free_view(view *seen)
{
    free(seen->places);
    dlk_tally_free(&seen->tally);
}

static dlock_err read_tally(view *ret, const DlkEtcd__KeyValue *kv, dlock_error **err)
{
    if (!kv)
        return dlk_tally_read(&ret->tally, "", "etcd", err);
    dlk_etcd_bytes text = dlk_etcd_bytes_copy(kv->value.data, kv->value.len);
    dlock_err code = text.data
                         ? dlk_tally_read(&ret->tally, (char *)text.data, "etcd", err)
                         : dlk_error_nomem(err);
    dlk_etcd_bytes_free(&text);
    ret->rev = kv->mod_revision;
    ret->lease = kv->lease;
    return code;
}

/* From the answers to read_line's two requests, of which the first is at @p index. */
static dlock_err read_view(view *ret, const dlk_etcd_call *call, size_t index,
                           dlock_error **err)
{
    const DlkEtcd__RangeResponse *line = dlk_etcd_found(call, index);
    const DlkEtcd__RangeResponse *tally = dlk_etcd_found(call, index + 1);
    size_t count = dlk_etcd_kv_count(line);
    *ret = (view){.places = calloc(count + 1, sizeof(*ret->places))};
    if (!ret->places)
        return dlk_error_nomem(err);
    for (size_t i = 0; i < count; i++)
        ret->places[i] = dlk_etcd_kv(line, i)->create_revision;
    ret->line = (dlk_queue){ret->places, count};
    dlock_err code = read_tally(ret, dlk_etcd_kv(tally, 0), err);
    if (code != DLOCK_OK)
        free_view(ret);
    return code;
}

/* Where it stands; the line's length: nowhere. */
static size_t index_of(const view *seen, int64_t place)
{
    size_t i = 0;
    while (i < seen->line.count && seen->places[i] != place)
        i++;
    return i;
}

/* ---- what is asked ---- */

/* The line and the signals. */
static DlkEtcd__RangeRequest *read_line(dlk_etcd_txn *txn, const dlk_etcd_key *home,
                                        bool keys_only)
{
    DlkEtcd__RangeRequest *line = dlk_etcd_txn_range(txn, DLK_ETCD_THEN, home->all.from);
    line->range_end = home->all.to;
    line->sort_target = DLK_ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    line->sort_order = DLK_ETCD__RANGE_REQUEST__SORT_ORDER__ASCEND;
    line->keys_only = keys_only;
    (void)dlk_etcd_txn_range(txn, DLK_ETCD_THEN, home->tally);
    return line;
}

dlk_etcd_request dlk_etcd_condition_look(const dlk_etcd_place *place)
{
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_THEN, place->key);
    /* Nobody has to know of those behind it. */
    read_line(&txn, place->home, true)->max_create_revision = place->rev;
    return dlk_etcd_txn_end(&txn);
}

static dlk_etcd_request whole_line(const dlk_etcd_key *home, bool keys_only)
{
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    (void)read_line(&txn, home, keys_only);
    return dlk_etcd_txn_end(&txn);
}

/* The signals are as they were read. */
static void if_same(dlk_etcd_txn *txn, const dlk_etcd_key *home, int64_t rev)
{
    DlkEtcd__Compare *it = dlk_etcd_txn_if(txn, home->tally);
    if (rev != 0)
        dlk_etcd_if_changed(it, rev);
}

/* ---- waiting ---- */

dlk_etcd_verdict dlk_etcd_condition_waits(const dlk_etcd_place *place,
                                          dlk_etcd_position *position)
{
    position->from = place->key;
    return DLK_ETCD_BEHIND;
}

dlk_etcd_verdict dlk_etcd_condition_judge(const dlk_etcd_place *place,
                                          const dlk_etcd_call *call,
                                          dlk_etcd_position *position)
{
    view seen;
    if (read_view(&seen, call, 1, &position->why) != DLOCK_OK)
        return DLK_ETCD_REFUSED;
    size_t signalled = dlk_tally_signalled(&seen.tally, seen.line);
    size_t index = index_of(&seen, place->rev);
    position->signals = seen.lease;
    free_view(&seen);
    if (index < signalled)
        return DLK_ETCD_FIRST;
    if (index > signalled || signalled == 0)
        return dlk_etcd_condition_waits(place, position);
    position->from = place->home->all.from;
    position->to = place->home->all.to;
    return DLK_ETCD_BEHIND;
}

static void on_nothing(dlk_etcd_call *call, int64_t now)
{
    (void)call, (void)now; /* it is said again with the next renewal */
}

void dlk_etcd_condition_keep(dlk_etcd_place *place, int64_t now)
{
    if (place->signals)
        (void)dlk_etcd_place_send(place, DLK_ETCD_KEEP_ALIVE,
                                  dlk_etcd_renewal_of(place->signals), on_nothing, now);
}

/* ---- a signal that has done its work ---- */

static dlk_etcd_request say_use(const dlk_etcd_place *place, const view *seen,
                                const char *tally)
{
    const dlk_etcd_key *home = place->home;
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    dlk_etcd_if_made(dlk_etcd_txn_if(&txn, place->key), place->rev);
    if_same(&txn, home, seen->rev);
    (void)dlk_etcd_txn_delete(&txn, DLK_ETCD_THEN, place->key);
    if (tally[0]) {
        DlkEtcd__PutRequest *put = dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, home->tally);
        put->value =
            (dlk_etcd_bytes){strlen(tally), (uint8_t *)(uintptr_t)tally}; /* lent */
        put->ignore_lease = true;
    } else if (seen->rev) {
        (void)dlk_etcd_txn_delete(&txn, DLK_ETCD_THEN, home->tally);
    }
    return dlk_etcd_txn_end(&txn);
}

static void on_used(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    place->state = DLK_PLACE_THERE;
    if (call->end != DLK_ETCD_OK) {
        place->asked_delete |= dlk_etcd_unsure(call);
        dlk_etcd_place_not_left(place, call, now);
    } else if (dlk_etcd_succeeded(call)) {
        dlk_etcd_place_left(place, DLK_YES, now);
    } else {
        dlk_etcd_place_leave(&place->base, now); /* somebody has changed it meanwhile */
    }
}

static bool send_use(dlk_etcd_place *place, view *seen, int64_t now)
{
    dlk_tally_use(&seen->tally, seen->line, place->rev);
    char *tally = dlk_tally_text(&seen->tally);
    bool sent = tally && dlk_etcd_place_send(place, DLK_ETCD_TXN,
                                             say_use(place, seen, tally), on_used, now);
    free(tally);
    if (sent)
        place->state = DLK_PLACE_LEAVING;
    return sent;
}

static void on_use_looked(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_place *place = call->owner;
    dlock_error *why = NULL;
    view seen;
    place->state = DLK_PLACE_THERE;
    if (call->end != DLK_ETCD_OK) {
        dlk_etcd_place_not_left(place, call, now);
        return;
    }
    bool read = read_view(&seen, call, 0, &why) == DLOCK_OK;
    dlk_error_clear(&why);
    if (read && index_of(&seen, place->rev) == seen.line.count)
        dlk_etcd_place_left(place, place->asked_delete ? DLK_YES : DLK_NOT_OURS, now);
    else if (!(read && send_use(place, &seen, now)) && !dlk_etcd_place_delete(place, now))
        dlk_place_fail(&place->base, &place->base.give, DLK_NOT_SENT);
    if (read)
        free_view(&seen);
}

bool dlk_etcd_condition_use(dlk_etcd_place *place, int64_t now)
{
    if (!dlk_etcd_place_send(place, DLK_ETCD_TXN, whole_line(place->home, true),
                             on_use_looked, now))
        return false;
    place->state = DLK_PLACE_LEAVING;
    return true;
}

/* ---- a signal ---- */

static void tell(dlk_etcd_report *report)
{
    report->base.info = dlk_info_new();
    dlk_info_add_int(report->base.info, (int64_t)report->signalled, "signalled");
    dlk_report_tell(&report->base);
}

/* Before anything was done. */
static void not_signalled(dlk_etcd_report *report, const dlk_etcd_call *call)
{
    if (call->end == DLK_ETCD_CUT)
        dlk_report_answer(&report->base, DLK_NOT_SENT);
    else
        dlk_etcd_report_failed(report, call, "signal a condition");
}

/* Behind those who are to hear of it: with who is signalled the next in the line. */
static size_t end_of(const dlk_etcd_report *report)
{
    size_t end = report->first + report->signalled + 1;
    size_t count = dlk_etcd_kv_count(dlk_etcd_response(report->found, 0));
    return end < count ? end : count;
}

/* Those from @p from on who are to hear of it, as many as go into one step; answers where the others begin. */
static size_t touch_places(const dlk_etcd_report *report, size_t from, dlk_etcd_txn *txn)
{
    const DlkEtcd__RangeResponse *line = dlk_etcd_response(report->found, 0);
    size_t end = end_of(report);
    end = end < from + BLOCK ? end : from + BLOCK;
    for (size_t i = from; i < end; i++) {
        const DlkEtcd__KeyValue *kv = dlk_etcd_kv(line, i);
        dlk_etcd_if_made(dlk_etcd_txn_if(txn, kv->key), kv->create_revision);
        dlk_etcd_touch(dlk_etcd_txn_put(txn, DLK_ETCD_THEN, kv->key));
    }
    return end;
}

/* One step; with the signals themselves, if it is the first. */
static bool send_block(dlk_etcd_report *report, size_t *from, dlk_etcd_done *done,
                       int64_t now)
{
    const dlk_etcd_key *home = report->home;
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    if (*from == report->first) {
        if_same(&txn, home, report->rev);
        DlkEtcd__PutRequest *put = dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, home->tally);
        put->value = (dlk_etcd_bytes){strlen(report->tally), (uint8_t *)report->tally};
        put->lease = report->et->signals.lease;
    }
    *from = touch_places(report, *from, &txn);
    return dlk_etcd_report_send(report, DLK_ETCD_TXN, dlk_etcd_txn_end(&txn), done, now);
}

/* What it told them has no answer: who hasn't heard of it looks before long. */
static void on_block(dlk_etcd_call *call, int64_t now)
{
    (void)call, (void)now;
}

static void look(dlk_etcd_report *report, int64_t now);
static void put_signals(dlk_etcd_report *report, int64_t now);

static void on_written(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    size_t from = report->first + BLOCK;
    if (call->end == DLK_ETCD_NO_LEASE) {
        report->et->signals.lease = 0;
        put_signals(report, now);
    } else if (call->end != DLK_ETCD_OK) {
        dlk_etcd_report_failed(report, call, "signal a condition");
    } else if (!dlk_etcd_succeeded(call)) {
        look(report, now); /* somebody has signalled, or used a signal, or has died */
    } else {
        while (from < end_of(report) && send_block(report, &from, on_block, now))
            ;
        tell(report);
    }
}

static void on_lease(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    if (call->end != DLK_ETCD_OK) {
        not_signalled(report, call);
        return;
    }
    report->et->signals.lease = dlk_etcd_lease_id(call);
    report->et->signals.made_at = call->sent_at;
    if (report->et->signals.lease) {
        put_signals(report, now);
    } else {
        call->end = DLK_ETCD_BAD;
        not_signalled(report, call);
    }
}

/* One for all that this client signals, which ends by itself: what is signalled now has half of it. */
static void put_signals(dlk_etcd_report *report, int64_t now)
{
    const dlk_etcd *et = report->et;
    int64_t own_s = dlk_settings_int(et->settings, DLK_KEY_LOCK_TTL_MS) / 500;
    int64_t seconds = own_s > LEASE_S ? own_s : LEASE_S;
    size_t from = report->first;
    if (et->signals.lease && now < et->signals.made_at + seconds * DLK_NS_PER_SEC / 2) {
        (void)send_block(report, &from, on_written, now);
        return;
    }
    (void)dlk_etcd_report_send(report, DLK_ETCD_GRANT, dlk_etcd_lease_of(seconds),
                               on_lease, now);
}

void dlk_etcd_report_forget(dlk_etcd_report *report)
{
    dlk_arena_free(&report->found_in);
    free(report->tally);
    report->found = NULL;
    report->tally = NULL;
}

/* Keeps the answer, which was the call's. False without memory. */
static bool plan(dlk_etcd_report *report, view *seen, dlk_etcd_call *call)
{
    report->first = dlk_tally_signalled(&seen->tally, seen->line);
    if (!dlk_tally_add(&seen->tally, seen->line, report->base.ask->limit,
                       &report->signalled))
        return false;
    report->tally = dlk_tally_text(&seen->tally);
    report->found = (const DlkEtcd__TxnResponse *)(const void *)call->answer;
    report->found_in = call->arena;
    call->arena = (dlk_arena){0};
    call->answer = NULL;
    report->rev = seen->rev;
    return report->tally;
}

static void on_looked(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    dlock_error *why = NULL;
    view seen;
    if (call->end != DLK_ETCD_OK) {
        not_signalled(report, call);
        return;
    }
    dlk_etcd_report_forget(report);
    if (read_view(&seen, call, 0, &why) != DLOCK_OK) {
        dlk_report_refuse(&report->base, why);
        return;
    }
    if (!plan(report, &seen, call))
        dlk_report_refuse(&report->base, dlk_error_make(DLOCK_ENOMEM, "out of memory"));
    else if (report->signalled == 0)
        tell(report);
    else
        put_signals(report, now);
    free_view(&seen);
}

static void look(dlk_etcd_report *report, int64_t now)
{
    (void)dlk_etcd_report_send(report, DLK_ETCD_TXN, whole_line(report->home, true),
                               on_looked, now);
}

void dlk_etcd_signal_begin(dlk_etcd_report *report, int64_t now)
{
    look(report, now);
}

/* ---- an inspection ---- */

dlk_etcd_request dlk_etcd_condition_inspect(const dlk_etcd_key *home)
{
    return whole_line(home, false);
}

size_t dlk_etcd_condition_signalled(const dlk_etcd_call *call)
{
    view seen;
    dlock_error *why = NULL;
    size_t signalled = 0;
    if (read_view(&seen, call, 0, &why) == DLOCK_OK) {
        signalled = dlk_tally_signalled(&seen.tally, seen.line);
        free_view(&seen);
    }
    dlk_error_clear(&why); /* nobody, as it seems */
    return signalled;
}
