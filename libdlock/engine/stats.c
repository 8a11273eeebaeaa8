/* What dlock_client_stats tells. */
#include "engine/engine.h"

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
    const dlk_stats *s = &engine->core.stats;
    const dlk_host *h = &engine->host;
    const struct {
        const char *key;
        int64_t value;
    } counters[] = {
        {"grants", s->grants},
        {"reentries", s->reentries},
        {"waits", s->contended},
        {"timeouts", s->timeouts},
        {"cancels", s->cancels},
        {"refusals", s->refusals},
        {"late_grants", s->late_grants},
        {"places_lost", s->places_lost},
        {"spurious_wakes", s->spurious_wakes},
        {"releases", s->releases},
        {"releases_failed", s->releases_failed},
        {"renewals", s->renewals},
        {"renewals_failed", s->renewals_failed},
        {"suspects", s->suspects},
        {"losses", s->losses},
        {"kept", s->kept},
        {"local_grants", s->local_grants},
        {"kept_asked", s->kept_asked},
        {"kept_run_over", s->kept_run_over},
        {"kept_idle", s->kept_idle},
        {"kept_lost", s->kept_lost},
        {"commands", h->commands},
        {"bytes_sent", h->bytes_sent},
        {"bytes_received", h->bytes_received},
        {"reconnects", h->reconnects},
    };
    dlock_info *info = dlk_info_new();
    for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++)
        dlk_info_add_int(info, counters[i].value, "%s", counters[i].key);
    dlk_info_add_int(info, (int64_t)engine->core.name_count, "names");
    dlk_info_add_int(info, (int64_t)dlk_core_unconfirmed(&engine->core), "unconfirmed");
    dlk_info_add_int(info, engine->in_flight, "in_flight");
    dlk_info_add_int(info, engine->core.up, "connected");
    histogram(info, "wait", &s->wait);
    histogram(info, "hold", &s->hold);
    return info;
}
