/* What dlock_client_stats tells, and the table that dlock_client_metrics has in common with it. */
#include "engine/metrics.h"

#include <stddef.h>

#define AT(member)    offsetof(dlk_snapshot, member)
#define CORE(member)  offsetof(dlk_snapshot, stats.member)
#define LENGTH(array) (sizeof(array) / sizeof(*(array)))
#define CAUSE(name)   "cause=\"" name "\""
#define WHY(name)     "why=\"" name "\""
#define STATE(name)   "state=\"" name "\""
#define RESULT(name)  "result=\"" name "\""
#define REQUEST(name) "request=\"" name "\""

/* clang-format off */
const dlk_count dlk_counts[] = {
    {"grants", "grants", NULL, "Locks that the service gave.", CORE(grants), DLK_COUNT_UP},
    {"reentries", "reentries", NULL, "Further holds of a lock that its owner has.", CORE(reentries), DLK_COUNT_UP},
    {"waits", "waits", NULL, "Acquires that found the lock held by somebody else.", CORE(contended), DLK_COUNT_UP},
    {"timeouts", "timeouts", NULL, "Acquires whose time was over.", CORE(timeouts), DLK_COUNT_UP},
    {"cancels", "cancels", NULL, "Acquires that were cancelled.", CORE(cancels), DLK_COUNT_UP},
    {"refusals", "refusals", NULL, "Acquires that the service refused, for a missing right and the like.", CORE(refusals), DLK_COUNT_UP},
    {"late_grants", "late_grants", NULL, "Grants that came when nobody wanted them any more; they went back.", CORE(late_grants), DLK_COUNT_UP},
    {"places_lost", "places_lost", NULL, "Places in a line of the service that were lost.", CORE(places_lost), DLK_COUNT_UP},
    {"spurious_wakes", "spurious_wakes", NULL, "Waits at a condition that ended without a signal.", CORE(spurious_wakes), DLK_COUNT_UP},
    {"releases", "releases", NULL, "Locks that were given back.", CORE(releases), DLK_COUNT_UP},
    {"releases_failed", "releases_failed", NULL, "Releases that were not confirmed in time, or came too late.", CORE(releases_failed), DLK_COUNT_UP},
    {"renewals", "renewals", NULL, "Leases that were renewed.", CORE(renewals), DLK_COUNT_UP},
    {"renewals_failed", "renewals_failed", NULL, "Renewals that came to nothing, and were tried again.", CORE(renewals_failed), DLK_COUNT_UP},
    {"suspects", "suspects", NULL, "Times that a lock wasn't renewed for half its lease.", CORE(suspects), DLK_COUNT_UP},
    {"losses_expired", "losses", CAUSE("expired"), "Locks that were lost: no renewal came through in time (expired), the service said on being asked that they aren't ours (denied), or told so by itself, as at the end of a session (taken).", CORE(losses[DLK_LOSS_EXPIRED]), DLK_COUNT_UP},
    {"losses_denied", "losses", CAUSE("denied"), NULL, CORE(losses[DLK_LOSS_DENIED]), DLK_COUNT_UP},
    {"losses_taken", "losses", CAUSE("taken"), NULL, CORE(losses[DLK_LOSS_TAKEN]), DLK_COUNT_UP},
    {"kept", "kept", NULL, "Releases after which the client kept the lock, and sent nothing.", CORE(kept), DLK_COUNT_UP},
    {"local_grants", "local_grants", NULL, "Acquires that were given a kept lock, and sent nothing.", CORE(local_grants), DLK_COUNT_UP},
    {"kept_asked", "kept_ended", WHY("asked"), "Kept locks that went back: others asked, had waited for long enough (run_over), nobody used it (idle), or the service took it (lost).", CORE(kept_asked), DLK_COUNT_UP},
    {"kept_run_over", "kept_ended", WHY("run_over"), NULL, CORE(kept_run_over), DLK_COUNT_UP},
    {"kept_idle", "kept_ended", WHY("idle"), NULL, CORE(kept_idle), DLK_COUNT_UP},
    {"kept_lost", "kept_ended", WHY("lost"), NULL, CORE(kept_lost), DLK_COUNT_UP},
    {"commands", "commands", NULL, "Commands sent to the service.", AT(commands), DLK_COUNT_UP},
    {"unanswered", "unanswered", NULL, "Requests that got no answer in time, or whose connection broke.", CORE(unanswered), DLK_COUNT_UP},
    {"bytes_sent", "sent_bytes", NULL, "Bytes sent to the service.", AT(bytes_sent), DLK_COUNT_BYTES},
    {"bytes_received", "received_bytes", NULL, "Bytes received from the service.", AT(bytes_received), DLK_COUNT_BYTES},
    {"reconnects", "reconnects", NULL, "Connections that were made anew.", AT(reconnects), DLK_COUNT_UP},
    {"names", "names", NULL, "Names in use.", AT(names), DLK_COUNT_GAUGE},
    {"unconfirmed", "unconfirmed", NULL, "Locks that are being given back.", AT(unconfirmed), DLK_COUNT_GAUGE},
    {"in_flight", "in_flight", NULL, "Requests that have no answer yet.", AT(in_flight), DLK_COUNT_GAUGE},
    {"connected", "connected", NULL, "Whether the service can be asked.", AT(connected), DLK_COUNT_GAUGE},
    {NULL, "holds", STATE("held"), "Locks that this client has: held, not renewed for half the lease (suspect), or kept for the next who wants it (kept).", AT(held), DLK_COUNT_GAUGE},
    {NULL, "holds", STATE("suspect"), NULL, AT(suspect), DLK_COUNT_GAUGE},
    {NULL, "holds", STATE("kept"), NULL, AT(kept), DLK_COUNT_GAUGE},
    {NULL, "waiting", NULL, "Acquires of this client that wait.", AT(waiting), DLK_COUNT_GAUGE},
    {NULL, "longest_wait_seconds", NULL, "How long the one that has waited longest has waited.", AT(longest_wait), DLK_COUNT_GAUGE_SECONDS},
};
const dlk_spread dlk_spreads[] = {
    {"wait", "wait_seconds", RESULT("granted"), "How long acquires took until the lock was there, their time was over, or they were cancelled.", CORE(wait[DLK_WAITED_GRANTED])},
    {"wait_timed_out", "wait_seconds", RESULT("timed_out"), NULL, CORE(wait[DLK_WAITED_TIMED_OUT])},
    {"wait_cancelled", "wait_seconds", RESULT("cancelled"), NULL, CORE(wait[DLK_WAITED_CANCELLED])},
    {"hold", "hold_seconds", NULL, "How long locks were held.", CORE(hold)},
    {"request_acquire", "request_seconds", REQUEST("acquire"), "How long requests took that the service doesn't answer at once, those without an answer among them.", CORE(request[DLK_ASKED_ACQUIRE])},
    {"request_renewal", "request_seconds", REQUEST("renewal"), NULL, CORE(request[DLK_ASKED_RENEWAL])},
    {"request_release", "request_seconds", REQUEST("release"), NULL, CORE(request[DLK_ASKED_RELEASE])},
    {"request_other", "request_seconds", REQUEST("other"), NULL, CORE(request[DLK_ASKED_OTHER])},
};
/* clang-format on */
const size_t dlk_count_count = LENGTH(dlk_counts);
const size_t dlk_spread_count = LENGTH(dlk_spreads);

void dlk_engine_count(const dlk_engine *engine, dlk_snapshot *ret)
{
    const dlk_core *core = &engine->core;
    const dlk_host *host = &engine->host;
    *ret = (dlk_snapshot){
        .stats = core->stats,
        .commands = host->commands,
        .bytes_sent = host->bytes_sent,
        .bytes_received = host->bytes_received,
        .reconnects = host->reconnects,
        .names = (int64_t)core->name_count,
        .unconfirmed = (int64_t)dlk_core_unconfirmed(core),
        .in_flight = engine->in_flight,
        .connected = core->up,
    };
}

static void histogram(dlock_info *info, const char *name, const dlk_hist *hist)
{
    dlk_info_add_int(info, hist->count, "%s.count", name);
    dlk_info_add_int(info, hist->sum, "%s.sum_ns", name);
    dlk_info_add_int(info, hist->max, "%s.max_ns", name);
    dlk_info_add_int(info, dlk_hist_percentile(hist, 50), "%s.p50_ns", name);
    dlk_info_add_int(info, dlk_hist_percentile(hist, 99), "%s.p99_ns", name);
    for (int i = 0, n = 0; i < DLK_HIST_BUCKETS; i++) {
        if (hist->bucket[i] == 0)
            continue;
        dlk_info_add_int(info, INT64_C(2) << i, "%s.buckets.%d.below_ns", name, n);
        dlk_info_add_int(info, hist->bucket[i], "%s.buckets.%d.count", name, n);
        n++;
    }
}

dlock_info *dlk_engine_stats(dlk_engine *engine)
{
    dlk_snapshot snapshot;
    dlk_engine_count(engine, &snapshot);
    dlock_info *info = dlk_info_new();
    int64_t losses = 0;
    for (int i = 0; i < DLK_LOSSES; i++)
        losses += snapshot.stats.losses[i];
    dlk_info_add_int(info, losses, "losses");
    for (size_t i = 0; i < dlk_count_count; i++)
        if (dlk_counts[i].key)
            dlk_info_add_int(info, dlk_count_of(&snapshot, &dlk_counts[i]), "%s",
                             dlk_counts[i].key);
    for (size_t i = 0; i < dlk_spread_count; i++)
        histogram(info, dlk_spreads[i].key, dlk_spread_of(&snapshot, &dlk_spreads[i]));
    return info;
}
