/* Examining a service: may we do what locks need, how long is the session, how many servers. */
#include "backends/zookeeper/reports.h"

#include "util/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void judge_session(dlk_zk_report *report)
{
    const dlk_zk *zk = report->zk;
    int64_t asked = dlk_settings_int(zk->settings, DLK_KEY_LOCK_TTL_MS);
    dlk_find(report->base.info, "session", DLK_FINE, "session 0x%" PRIx64 ", layout %s",
             zk->session, dlk_settings_word(zk->settings, DLK_KEY_ZOOKEEPER_LAYOUT));
    if (asked == zk->timeout_ms)
        dlk_find(report->base.info, "lease", DLK_FINE,
                 "the session lasts the %" PRId64 " ms that were asked for", asked);
    else
        dlk_find(report->base.info, "lease", DLK_WARNING,
                 "the session lasts %" PRId64 " ms, not the %" PRId64
                 " that lock.ttl_ms asks for: "
                 "the servers' minSessionTimeout and maxSessionTimeout say so",
                 zk->timeout_ms, asked);
}

/* One line for each server: server.1=host:2888:3888:participant;2181 */
static void judge_servers(dlk_zk_report *report, const dlk_zk_call *call)
{
    int servers = 0;
    const char *text = call->end == DLK_ZK_OK && call->item.text ? call->item.text : "";
    for (const char *at = text; (at = strstr(at, "server.")); at++) {
        const char *end = strchrnul(at, '\n'), *observer = strstr(at, ":observer");
        servers += !observer || observer > end;
    }
    if (servers >= 3)
        dlk_find(report->base.info, "servers", DLK_FINE, "%d servers vote", servers);
    else if (call->end == DLK_ZK_OK)
        dlk_find(report->base.info, "servers", DLK_WARNING,
                 "%d server%s vote%s: when one is gone, nothing is granted",
                 servers ? servers : 1, servers > 1 ? "s" : "", servers > 1 ? "" : "s");
    else
        dlk_find(report->base.info, "servers", DLK_WARNING,
                 "/zookeeper/config can't be read: how many servers there "
                 "are is unknown");
}

static void on_config(dlk_zk_call *call, int64_t now)
{
    (void)now;
    dlk_zk_report *report = call->owner;
    judge_servers(report, call);
    dlk_report_conclude(&report->base);
}

static void look_at_servers(dlk_zk_report *report, int64_t now)
{
    const dlk_zk_request request = {.verb = DLK_ZK_GET, .path = "/zookeeper/config"};
    if (!dlk_zk_report_send(report, &request, on_config, NULL, now))
        dlk_report_conclude(&report->base);
}

static void on_probe_gone(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    if (call->end == DLK_ZK_OK ||
        call->end == DLK_ZK_NO_NODE) /* another doctor's delete */
        dlk_find(report->base.info, "rights", DLK_FINE,
                 "nodes can be made, listed and deleted");
    else
        dlk_find(report->base.info, "rights", DLK_UNSAFE,
                 "a node that was made can't be deleted: it keeps its lock "
                 "until the session ends");
    look_at_servers(report, now);
}

/* A node of this client's own; NULL without memory. */
static char *probe_path(const dlk_zk_report *report)
{
    char *path = NULL;
    int size = asprintf(&path, "%s/dlock-doctor-%s", report->zk->chroot,
                        report->zk->base.backend.host->uuid);
    return size < 0 ? NULL : path;
}

/* It may be there already: made for another doctor, or by a request that got no answer. */
static void on_probe(dlk_zk_call *call, int64_t now)
{
    dlk_zk_report *report = call->owner;
    char *path = probe_path(report);
    const dlk_zk_request request = {.verb = DLK_ZK_DELETE, .path = path};
    bool made = call->end == DLK_ZK_OK || call->end == DLK_ZK_NODE_EXISTS;
    bool sent =
        made && path && dlk_zk_report_send(report, &request, on_probe_gone, NULL, now);
    free(path);
    if (sent)
        return;
    if (!made)
        dlk_find(report->base.info, "rights", DLK_UNSAFE, "no node can be made in %s: %s",
                 report->zk->chroot[0] ? report->zk->chroot : "/",
                 call->end == DLK_ZK_NO_AUTH ? "its ACL forbids it"
                                             : "the server refuses it");
    look_at_servers(report, now);
}

void dlk_zk_doctor_begin(dlk_zk_report *report, int64_t now)
{
    char *path = probe_path(report);
    report->base.info = dlk_info_new();
    judge_session(report);
    const dlk_zk_request request = {
        .verb = DLK_ZK_CREATE, .path = path, .data = "", .mode = DLK_ZK_EPHEMERAL};
    if (!path || !dlk_zk_report_send(report, &request, on_probe, NULL, now))
        dlk_report_conclude(&report->base);
    free(path);
}
