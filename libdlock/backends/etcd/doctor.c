/* Examining a service: may we do what locks need, how long is the lease, how many members vote, is
 * there room. */
#include "backends/etcd/reports.h"

#include "util/error.h"
#include "util/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rights ---- */

static void on_probe(dlk_etcd_call *call, int64_t now)
{
    (void)now;
    dlk_etcd_report *report = call->owner;
    if (call->end == DLK_ETCD_OK) {
        dlk_find(report->base.info, "rights", DLK_FINE,
                 "keys can be written, read and deleted");
    } else {
        dlock_error *why = dlk_etcd_error(report->et, call, "write a key");
        dlk_find(report->base.info, "rights", DLK_UNSAFE,
                 "no key can be written below client.prefix: %s", dlock_error_text(why));
        dlk_error_clear(&why);
    }
    dlk_report_conclude(&report->base);
}

/* Written and deleted in two steps: one transaction may not touch a key twice. */
static void on_written(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    dlk_etcd_txn txn;
    if (call->end != DLK_ETCD_OK) {
        on_probe(call, now);
        return;
    }
    dlk_etcd_txn_begin(&txn);
    (void)dlk_etcd_txn_delete(&txn, DLK_ETCD_THEN, report->probe);
    if (!dlk_etcd_report_send(report, DLK_ETCD_TXN, dlk_etcd_txn_end(&txn), on_probe,
                              now))
        dlk_report_conclude(&report->base);
}

static void try_rights(dlk_etcd_report *report, int64_t now)
{
    const dlk_etcd *et = report->et;
    const char *prefix = dlk_settings_text(et->settings, DLK_KEY_CLIENT_PREFIX);
    char *name = NULL;
    dlk_etcd_txn txn;
    if (asprintf(&name, "%sdlock-doctor/%" PRIx64, prefix, (uint64_t)et->lease) < 0)
        name = NULL;
    report->probe = (dlk_etcd_bytes){name ? strlen(name) : 0, (uint8_t *)name};
    dlk_etcd_txn_begin(&txn);
    dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, report->probe)->lease = et->lease;
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_THEN, report->probe);
    txn.failed |= !name;
    if (!dlk_etcd_report_send(report, DLK_ETCD_TXN, dlk_etcd_txn_end(&txn), on_written,
                              now))
        dlk_report_conclude(&report->base);
}

/* ---- members and room ---- */

/* Where a member is; one that has never been started has told no address for clients. */
static void put_place(const DlkEtcd__Member *member, char *to, size_t room)
{
    const ProtobufCBinaryData *at = member->n_clienturls > 0 ? member->clienturls
                                    : member->n_peerurls > 0 ? member->peerurls
                                                             : NULL;
    snprintf(to, room, "%.*s", at && at->len < room ? (int)at->len : 0,
             at && at->data ? (const char *)at->data : "");
}

/* Who was added and isn't there counts among those of whom most are needed, and can't be asked. */
static void judge_members(dlk_etcd_report *report,
                          const DlkEtcd__MemberListResponse *list)
{
    char place[256];
    for (size_t i = 0; i < list->n_members; i++) {
        const DlkEtcd__Member *member = list->members[i];
        put_place(member, place, sizeof(place));
        if (member->name.len == 0)
            dlk_find(report->base.info, "member", DLK_WARNING,
                     "%s: this member was added and never started%s", place,
                     member->islearner
                         ? ""
                         : ": it counts among those of whom most are needed");
        else
            dlk_find(report->base.info, "member", DLK_FINE, "%s: %s", place,
                     member->islearner ? "learns, and doesn't vote" : "votes");
    }
}

static void on_members(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    const DlkEtcd__MemberListResponse *list = (const void *)call->answer;
    size_t voting = 0;
    for (size_t i = 0; list && i < list->n_members; i++)
        voting += !list->members[i]->islearner;
    if (call->end != DLK_ETCD_OK)
        dlk_find(report->base.info, "members", DLK_WARNING,
                 "the members can't be listed: how many there are is unknown");
    else if (voting >= 3)
        dlk_find(report->base.info, "members", DLK_FINE, "%zu members vote", voting);
    else
        dlk_find(report->base.info, "members", DLK_WARNING,
                 "%zu member%s vote%s: when one is gone, nothing is granted", voting,
                 voting > 1 ? "s" : "", voting > 1 ? "" : "s");
    if (call->end == DLK_ETCD_OK && list)
        judge_members(report, list);
    try_rights(report, now);
}

static void on_status(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    const DlkEtcd__StatusResponse *status = (const void *)call->answer;
    if (call->end != DLK_ETCD_OK) {
        dlk_find(report->base.info, "status", DLK_WARNING,
                 "the member doesn't tell its state");
    } else {
        dlk_find(report->base.info, "server", DLK_FINE,
                 "etcd %.*s, term %" PRIu64 ", %" PRId64 " MiB", (int)status->version.len,
                 (const char *)status->version.data, status->raftterm,
                 status->dbsize >> 20);
        if (status->leader == 0)
            dlk_find(report->base.info, "leader", DLK_UNSAFE,
                     "there is no leader: nothing is granted");
        if (status->n_errors > 0)
            dlk_find(report->base.info, "alarm", DLK_UNSAFE,
                     "the cluster has raised an alarm (%.*s): new locks are "
                     "refused",
                     (int)status->errors[0].len, (const char *)status->errors[0].data);
    }
    DlkEtcd__MemberListRequest list = DLK_ETCD__MEMBER_LIST_REQUEST__INIT;
    if (!dlk_etcd_report_send(report, DLK_ETCD_MEMBERS, dlk_etcd_request_of(&list.base),
                              on_members, now))
        dlk_report_conclude(&report->base);
}

static void judge_lease(dlk_etcd_report *report)
{
    const dlk_etcd *et = report->et;
    int64_t asked = dlk_settings_int(et->settings, DLK_KEY_LOCK_TTL_MS);
    if (et->lease_ms < asked + 1000)
        dlk_find(report->base.info, "lease", DLK_FINE,
                 "lease %" PRIx64 " of %" PRId64 " ms", (uint64_t)et->lease,
                 et->lease_ms);
    else
        dlk_find(report->base.info, "lease", DLK_WARNING,
                 "the lease lasts %" PRId64 " ms, not the %" PRId64
                 " that lock.ttl_ms asks for: the cluster's election time-out allows no "
                 "shorter one",
                 et->lease_ms, asked);
}

static void judge_transport(dlk_etcd_report *report)
{
    dlk_link_judge(&report->et->calls.link,
                   "plain: whoever is on the way can read the password "
                   "and forge grants (etcds://)",
                   report->base.info);
}

void dlk_etcd_doctor_begin(dlk_etcd_report *report, int64_t now)
{
    report->base.info = dlk_info_new();
    judge_lease(report);
    judge_transport(report);
    DlkEtcd__StatusRequest status = DLK_ETCD__STATUS_REQUEST__INIT;
    if (!dlk_etcd_report_send(report, DLK_ETCD_STATUS, dlk_etcd_request_of(&status.base),
                              on_status, now))
        dlk_report_conclude(&report->base);
}
