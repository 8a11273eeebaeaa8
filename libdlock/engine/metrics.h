/* What one client counts, at one moment, and the one table of what those numbers are called. */
#ifndef DLK_ENGINE_METRICS_H
#define DLK_ENGINE_METRICS_H

#include "engine/engine.h"

typedef struct dlk_snapshot {
    dlk_stats stats;
    int64_t commands, bytes_sent, bytes_received, reconnects;
    int64_t names, unconfirmed, in_flight, connected;
    /* What there is just now; only made for dlock_client_metrics, which has time. */
    int64_t held, suspect, kept, waiting, longest_wait; /* the last one in ns */
} dlk_snapshot;

/* One number of a snapshot. */
typedef struct dlk_count {
    const char *key; /* in dlock_client_stats; NULL: not there */
    const char
        *family; /* in dlock_client_metrics, without dlock_; NULL: not there. One family's
                         * follow each other */
    const char *label; /* "cause=\"expired\"", or NULL */
    const char *help;  /* of the family's first */
    size_t at;         /* in dlk_snapshot */
    enum { DLK_COUNT_UP, DLK_COUNT_BYTES, DLK_COUNT_GAUGE, DLK_COUNT_GAUGE_SECONDS } type;
} dlk_count;

typedef struct dlk_spread {
    const char *key; /* as above */
    const char *family, *label, *help;
    size_t at;
} dlk_spread;

extern const dlk_count dlk_counts[];
extern const size_t dlk_count_count;
extern const dlk_spread dlk_spreads[];
extern const size_t dlk_spread_count;

static inline int64_t dlk_count_of(const dlk_snapshot *snapshot, const dlk_count *count)
{
    return *(const int64_t *)((const char *)snapshot + count->at);
}
static inline const dlk_hist *dlk_spread_of(const dlk_snapshot *snapshot,
                                            const dlk_spread *spread)
{
    return (const dlk_hist *)((const char *)snapshot + spread->at);
}

/* Mutex held. */
void dlk_engine_count(const dlk_engine *engine, dlk_snapshot *ret);
/* The same, and what there is just now: looks at each grant and each name. */
void dlk_engine_count_all(const dlk_engine *engine, int64_t now, dlk_snapshot *ret);

#endif
