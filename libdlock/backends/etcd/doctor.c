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
        dlk_report_find(&report->base, "rights", DLK_FINE,
                        "keys can be written, read and deleted");
    } else {
        dlock_error *why = dlk_etcd_error(report->et, call, "write a key");
        dlk_report_find(&report->base, "rights", DLK_UNSAFE,
                        "no key can be written below client.prefix: %s",
                        dlock_error_text(why));
        dlk_error_clear(&why);
    }
    dlk_report_conclude(&report->base);
}

/* Written and deleted in two steps: one transaction may not touch a key twice. */
static void on_written(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    dlk_say say = {0};
    dlk_say_text(&say, "{\"success\":[{\"request_delete_range\":{\"key\":\"%s\"}}]}",
                 report->probe);
    if (call->end != DLK_ETCD_OK)
        on_probe(call, now);
    else if (!dlk_etcd_report_send(report, "/v3/kv/txn", dlk_say_end(&say), on_probe,
                                   now))
        dlk_report_conclude(&report->base);
    if (call->end != DLK_ETCD_OK)
        dlk_buf_free(&say.buf);
}

static void try_rights(dlk_etcd_report *report, int64_t now)
{
    const dlk_etcd *et = report->et;
    const char *prefix = dlk_settings_text(et->settings, DLK_KEY_CLIENT_PREFIX);
    char *name = NULL;
    dlk_say say = {0};
    if (asprintf(&name, "%sdlock-doctor/%" PRIx64, prefix, (uint64_t)et->lease) < 0)
        name = NULL;
    report->probe = name ? dlk_base64_text(name) : NULL;
    free(name);
    dlk_say_text(&say,
                 "{\"success\":[{\"request_put\":{\"key\":\"%s\",\"lease\":\"%" PRId64
                 "\"}},{\"request_range\":{\"key\":\"%s\"}}]}",
                 report->probe ? report->probe : "", et->lease,
                 report->probe ? report->probe : "");
    say.failed |= !report->probe;
    if (!dlk_etcd_report_send(report, "/v3/kv/txn", dlk_say_end(&say), on_written, now))
        dlk_report_conclude(&report->base);
}

/* ---- members and room ---- */

static void on_members(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    const json_t *members = json_object_get(call->json, "members");
    size_t voting = 0;
    for (size_t i = 0; i < json_array_size(members); i++)
        voting += !dlk_json_true(json_array_get(members, i), "isLearner");
    if (call->end != DLK_ETCD_OK)
        dlk_report_find(&report->base, "members", DLK_WARNING,
                        "the members can't be listed: how many there are is unknown");
    else if (voting >= 3)
        dlk_report_find(&report->base, "members", DLK_FINE, "%zu members vote", voting);
    else
        dlk_report_find(&report->base, "members", DLK_WARNING,
                        "%zu member%s vote%s: when one is gone, nothing is granted",
                        voting, voting > 1 ? "s" : "", voting > 1 ? "" : "s");
    try_rights(report, now);
}

static void on_status(dlk_etcd_call *call, int64_t now)
{
    dlk_etcd_report *report = call->owner;
    const char *version = dlk_json_text(call->json, "version");
    if (call->end != DLK_ETCD_OK) {
        dlk_report_find(&report->base, "status", DLK_WARNING,
                        "the member doesn't tell its state");
    } else {
        dlk_report_find(&report->base, "server", DLK_FINE,
                        "etcd %s, term %" PRId64 ", %" PRId64 " MiB", version,
                        dlk_json_int(call->json, "raftTerm"),
                        dlk_json_int(call->json, "dbSize") >> 20);
        if (!dlk_json_text(call->json, "leader")[0]) /* unsigned: no int64 */
            dlk_report_find(&report->base, "leader", DLK_UNSAFE,
                            "there is no leader: nothing is granted");
        if (json_array_size(json_object_get(call->json, "errors")) > 0)
            dlk_report_find(&report->base, "alarm", DLK_UNSAFE,
                            "the cluster has raised an alarm (%s): new locks are refused",
                            json_string_value(json_array_get(
                                json_object_get(call->json, "errors"), 0)));
    }
    if (!dlk_etcd_report_send(report, "/v3/cluster/member/list", strdup("{}"), on_members,
                              now))
        dlk_report_conclude(&report->base);
}

static void judge_lease(dlk_etcd_report *report)
{
    const dlk_etcd *et = report->et;
    int64_t asked = dlk_settings_int(et->settings, DLK_KEY_LOCK_TTL_MS);
    if (et->lease_ms < asked + 1000)
        dlk_report_find(&report->base, "lease", DLK_FINE,
                        "lease %" PRIx64 " of %" PRId64 " ms", (uint64_t)et->lease,
                        et->lease_ms);
    else
        dlk_report_find(
            &report->base, "lease", DLK_WARNING,
            "the lease lasts %" PRId64 " ms, not the %" PRId64
            " that lock.ttl_ms asks for: the cluster's election time-out allows no "
            "shorter one",
            et->lease_ms, asked);
    if (!et->tls && et->user)
        dlk_report_find(&report->base, "secrets", DLK_WARNING,
                        "the password goes over the network as it is: use etcds://");
}

void dlk_etcd_doctor_begin(dlk_etcd_report *report, int64_t now)
{
    report->base.info = dlk_info_new();
    judge_lease(report);
    if (!dlk_etcd_report_send(report, "/v3/maintenance/status", strdup("{}"), on_status,
                              now))
        dlk_report_conclude(&report->base);
}
