/* Lists and examinations of a cluster: each node is asked, and the answers are put together. A
 * list fails when one of them does; an examination says what it could not look at. */
#include "backends/redis/topology/cluster_inner.h"

#include "util/error.h"
#include "util/findings.h"
#include "util/info.h"
#include "util/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct report report;

typedef struct part {
    dlk_ask ask;
    report *of;
    const dlk_cluster_node *node;
    size_t at; /* how far its answer is merged */
} part;

struct report {
    dlk_ask *ask;
    size_t count, to_come;
    part parts[];
};

/* ---- Putting together ---- */

static const char *value_of(const part *from, const char *list, size_t at,
                            const char *key)
{
    char name[64];
    snprintf(name, sizeof(name), "%s.%zu.%s", list, at, key);
    return from->ask.info ? dlock_info_get(from->ask.info, name) : NULL;
}

/* The one whose next name comes first. */
static part *first_of(report *all)
{
    part *best = NULL;
    const char *least = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const char *name = value_of(&all->parts[i], "locks", all->parts[i].at, "name");
        if (name && (!least || strcmp(name, least) < 0)) {
            least = name;
            best = &all->parts[i];
        }
    }
    return best;
}

static void merge_text(const part *from, const char *key, int64_t i, dlock_info *into)
{
    dlk_info_add_text(into, value_of(from, "locks", from->at, key),
                      "locks.%" PRId64 ".%s", i, key);
}

static void merge_number(const part *from, const char *key, int64_t i, dlock_info *into)
{
    const char *text = value_of(from, "locks", from->at, key);
    if (text)
        dlk_info_add_int(into, dlk_number_or(text, 0, INT64_MAX, 0),
                         "locks.%" PRId64 ".%s", i, key);
}

static void merge_lists(report *all, dlock_info *into)
{
    part *from;
    for (int64_t i = 0; i < all->ask->limit && (from = first_of(all)); i++) {
        merge_text(from, "name", i, into);
        merge_text(from, "owner", i, into);
        merge_number(from, "remaining_ms", i, into);
        merge_text(from, "client", i, into);
        merge_text(from, "host", i, into);
        merge_number(from, "pid", i, into);
        merge_text(from, "kind", i, into);
        merge_number(from, "taken", i, into);
        from->at++;
    }
}

static void merge_findings(const part *from, dlock_info *into)
{
    const char *peer = from->node->redis->peer;
    const dlock_error *why = from->ask.error;
    if (from->ask.reply == DLK_YES)
        dlk_find_all(into, from->ask.info, peer);
    else
        dlk_find(into, "node", DLK_UNSAFE, "%s: %s", peer,
                 why ? why->text : "it doesn't answer");
}

static void add_coverage(const dlk_cluster *cluster, dlock_info *into)
{
    size_t uncovered = 0;
    for (size_t i = 0; i < DLK_SLOTS; i++)
        uncovered += cluster->map[i] == 0;
    if (uncovered == 0)
        dlk_find(into, "cluster", DLK_FINE, "cluster: every slot has a node");
    else
        dlk_find(into, "cluster", DLK_UNSAFE,
                 "cluster: %zu of %d slots have no node: their locks can't be taken",
                 uncovered, DLK_SLOTS);
}

static void merge_examinations(const dlk_cluster *cluster, report *all, dlock_info *into)
{
    add_coverage(cluster, into);
    for (size_t i = 0; i < all->count; i++)
        merge_findings(&all->parts[i], into);
    dlk_find_verdict(into);
}

/* What one node couldn't say, the list would be silent about. */
static bool take_failure(report *all)
{
    for (size_t i = 0; i < all->count; i++) {
        dlk_ask *one = &all->parts[i].ask;
        if (one->reply == DLK_YES)
            continue;
        all->ask->reply = one->reply == DLK_UNKNOWN ? DLK_UNKNOWN : DLK_REFUSED;
        all->ask->error =
            one->error ? one->error
                       : dlk_error_make(DLOCK_EUNAVAIL, "redis+cluster: a node is away");
        one->error = NULL;
        return true;
    }
    return false;
}

static void put_together(const dlk_cluster *cluster, report *all)
{
    dlk_ask *ask = all->ask;
    if (ask->verb == DLK_LIST && take_failure(all))
        return;
    dlock_info *info = dlk_info_new();
    if (ask->verb == DLK_LIST)
        merge_lists(all, info);
    else
        merge_examinations(cluster, all, info);
    if (dlk_info_failed(info)) {
        dlk_info_free(info);
        (void)dlk_ask_refuse(
            ask, dlk_error_make(DLOCK_ENOMEM, "redis+cluster: out of memory"));
        return;
    }
    ask->info = info;
    ask->reply = DLK_YES;
}

static void finish(const dlk_cluster *cluster, report *all)
{
    put_together(cluster, all);
    for (size_t i = 0; i < all->count; i++) {
        dlk_info_free(all->parts[i].ask.info);
        dlk_error_clear(&all->parts[i].ask.error);
    }
    free(all);
}

/* ---- Asking ---- */

void dlk_cluster_report_answered(dlk_cluster *cluster, dlk_ask *ask)
{
    report *all = DLK_LIST_ITEM(ask, part, ask)->of;
    if (--all->to_come > 0)
        return;
    dlk_ask *whole = all->ask;
    finish(cluster, all);
    cluster->base.host->answered(cluster->base.host, whole);
}

void dlk_cluster_report(dlk_cluster *cluster, dlk_ask *ask, int64_t now)
{
    report *all = calloc(1, sizeof(*all) + cluster->count * sizeof(part));
    if (!all) {
        (void)dlk_ask_refuse(
            ask, dlk_error_make(DLOCK_ENOMEM, "redis+cluster: out of memory"));
        return;
    }
    all->ask = ask;
    ask->reply = DLK_PENDING;
    dlk_list_init(&ask->link);
    for (size_t i = 0; i < cluster->count; i++) {
        if (!cluster->nodes[i]->in_map)
            continue;
        part *one = &all->parts[all->count++];
        *one = (part){.of = all, .node = cluster->nodes[i]};
        one->ask = (dlk_ask){.verb = ask->verb,
                             .deadline = ask->deadline,
                             .text = ask->text,
                             .limit = ask->limit};
        dlk_redis_ask(&cluster->nodes[i]->redis->base, &one->ask, now);
        all->to_come += one->ask.reply == DLK_PENDING;
    }
    if (all->to_come == 0)
        finish(cluster, all);
}
