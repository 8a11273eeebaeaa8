/* Putting the nodes' reports together: what most of them say. */
#include "backends/redlock/inner.h"
#include "backends/redlock/redlock.h"
#include "util/findings.h"
#include "util/info.h"
#include "util/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static bool give(dlk_redlock_round *round, dlock_info *info)
{
    if (dlk_info_failed(info)) {
        dlk_info_free(info);
        return false;
    }
    round->parent->info = info;
    return true;
}

static const dlock_info *report_of(const dlk_redlock_round *round, int index)
{
    return round->yes & dlk_node_bit(index) ? round->asks[index].info : NULL;
}

static int64_t number_of(const dlock_info *info, const char *key, int64_t otherwise)
{
    const char *text = dlock_info_get(info, key);
    return dlk_number_or(text, INT64_MIN, INT64_MAX, otherwise);
}

/* ---- inspect ---- */

static const char *owner_at(const dlk_redlock_round *round, int index)
{
    return dlock_info_get(report_of(round, index), "holders.0.owner");
}

/* On how many nodes this owner has the lock. */
static int count_owner(const dlk_redlock_round *round, const char *owner)
{
    int count = 0;
    for (int i = 0; i < round->redlock->count; i++) {
        const char *other = owner_at(round, i);
        count += other && strcmp(other, owner) == 0;
    }
    return count;
}

/* Who has it on most nodes, or NULL. */
static const char *holder_of(const dlk_redlock_round *round)
{
    for (int i = 0; i < round->redlock->count; i++) {
        const char *owner = owner_at(round, i);
        if (owner && count_owner(round, owner) >= round->redlock->quorum)
            return owner;
    }
    return NULL;
}

static int descending(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

/* Held until it is over on so many nodes that the others are too few. */
static int64_t left_of(const dlk_redlock_round *round, const char *owner)
{
    int64_t left[DLK_REDLOCK_MAX] = {0};
    size_t count = 0;
    for (int i = 0; i < round->redlock->count; i++) {
        const char *other = owner_at(round, i);
        if (other && strcmp(other, owner) == 0)
            left[count++] =
                number_of(report_of(round, i), "holders.0.remaining_ms", INT64_MAX);
    }
    qsort(left, count, sizeof(*left), descending);
    return left[round->redlock->quorum - 1];
}

/* Written by most nodes. Others may have proposed a larger one too late, or not be told yet. */
static int64_t token_of(const dlk_redlock_round *round, const char *owner)
{
    int64_t tokens[DLK_REDLOCK_MAX] = {0};
    size_t count = 0;
    for (int i = 0; i < round->redlock->count; i++) {
        const char *other = owner_at(round, i);
        if (other && strcmp(other, owner) == 0)
            tokens[count++] = number_of(report_of(round, i), "holders.0.token", 0);
    }
    qsort(tokens, count, sizeof(*tokens), descending);
    return tokens[round->redlock->quorum - 1];
}

/* As our own grants call themselves, where the nodes know them by another number. */
static void add_owner(const dlk_redlock *redlock, dlock_info *info, const char *owner)
{
    char text[DLK_UUID_SIZE + 24];
    uint64_t number = dlk_claim_number_of(redlock, owner);
    if (number)
        snprintf(text, sizeof(text), "%s:%" PRIu64, redlock->base.host->uuid, number);
    dlk_info_add_text(info, number ? text : owner, "holders.0.owner");
}

/* What the first of the nodes says that has it from him and says so: the others have the same, or nothing. */
static void add_whose(const dlk_redlock_round *round, dlock_info *info, const char *owner)
{
    static const char *const keys[] = {"holders.0.client", "holders.0.host",
                                       "holders.0.data"};
    const char *said[COUNT(keys)] = {NULL};
    int64_t pid = 0, since = 0;
    for (int i = 0; i < round->redlock->count; i++) {
        const dlock_info *report = report_of(round, i);
        const char *other = owner_at(round, i);
        if (!other || strcmp(other, owner) != 0)
            continue;
        for (size_t key = 0; key < COUNT(keys); key++)
            said[key] = said[key] ? said[key] : dlock_info_get(report, keys[key]);
        pid = pid ? pid : number_of(report, "holders.0.pid", 0);
        since = since ? since : number_of(report, "holders.0.since", 0);
    }
    for (size_t key = 0; key < COUNT(keys); key++)
        dlk_info_add_text(info, said[key], "%s", keys[key]);
    if (pid)
        dlk_info_add_int(info, pid, "holders.0.pid");
    if (since)
        dlk_info_add_int(info, since, "holders.0.since");
}

static void add_nodes(const dlk_redlock_round *round, dlock_info *info)
{
    for (int i = 0; i < round->redlock->count; i++) {
        const char *owner = owner_at(round, i);
        bool answered = report_of(round, i) != NULL;
        dlk_info_add_text(info, round->redlock->nodes[i].peer, "nodes.%d.peer", i);
        dlk_info_add_text(info,
                          !answered ? "no answer"
                          : owner   ? "held"
                                    : "free",
                          "nodes.%d.state", i);
        if (owner)
            dlk_info_add_text(info, owner, "nodes.%d.owner", i);
    }
}

bool dlk_report_inspect(dlk_redlock_round *round)
{
    dlk_redlock *redlock = round->redlock;
    const char *owner = holder_of(round);
    dlock_info *info = dlk_info_new();
    dlk_info_add_int(info, owner != NULL, "held");
    dlk_info_add_text(info, "mutex", "kind");
    if (owner) {
        int64_t left = left_of(round, owner);
        add_owner(redlock, info, owner);
        add_whose(round, info, owner);
        if (redlock->fencing)
            dlk_info_add_int(info, token_of(round, owner), "holders.0.token");
        if (left < INT64_MAX)
            dlk_info_add_int(info, left, "holders.0.remaining_ms");
        dlk_info_add_int(info, 1, "holders.0.count");
        round->parent->wait_ms =
            dlk_rand_jitter(redlock->base.host->rand, redlock->retry_ms, 33);
    }
    dlk_info_add_text(info, redlock->base.type->traits.layout, "layout");
    add_nodes(round, info);
    return give(round, info);
}

/* ---- list ---- */

typedef struct listed {
    const char *name, *owner, *client, *host; /* NULL: not known */
    int64_t pid, left;                        /* 0: likewise; INT64_MAX */
} listed;

/* One owner's lock side by side, the longest lease first. */
static int by_name(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order == 0)
        order = strcmp(x->owner, y->owner);
    return order ? order : (x->left < y->left) - (x->left > y->left);
}

/* The entries of a report come as name, owner and perhaps more of each lock. */
static size_t collect(const dlock_info *info, listed *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < dlock_info_count(info); i++) {
        const char *last = strrchr(dlock_info_key(info, i), '.');
        const char *text = dlock_info_text(info, i);
        if (!last || strncmp(dlock_info_key(info, i), "locks.", 6) != 0)
            continue; /* says something of the list itself, or of clients */
        if (strcmp(last, ".name") == 0)
            ret[count++] = (listed){.name = text, .owner = "", .left = INT64_MAX};
        else if (count && strcmp(last, ".owner") == 0)
            ret[count - 1].owner = text;
        else if (count && strcmp(last, ".remaining_ms") == 0)
            ret[count - 1].left = dlock_info_int(info, i);
        else if (count && strcmp(last, ".client") == 0)
            ret[count - 1].client = text;
        else if (count && strcmp(last, ".host") == 0)
            ret[count - 1].host = text;
        else if (count && strcmp(last, ".pid") == 0)
            ret[count - 1].pid = dlock_info_int(info, i);
    }
    return count;
}

static bool same(const listed *a, const listed *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->owner, b->owner) == 0;
}

/* One lock of one owner, of which @p count nodes tell. */
static void add_listed(dlock_info *info, const listed *all, size_t count, int64_t left,
                       size_t number)
{
    listed whose = all[0];
    for (size_t i = 1; i < count; i++) {
        whose.client = whose.client ? whose.client : all[i].client;
        whose.host = whose.host ? whose.host : all[i].host;
        whose.pid = whose.pid ? whose.pid : all[i].pid;
    }
    dlk_info_add_text(info, whose.name, "locks.%zu.name", number);
    dlk_info_add_text(info, whose.owner, "locks.%zu.owner", number);
    if (left < INT64_MAX)
        dlk_info_add_int(info, left, "locks.%zu.remaining_ms", number);
    dlk_info_add_text(info, whose.client, "locks.%zu.client", number);
    dlk_info_add_text(info, whose.host, "locks.%zu.host", number);
    if (whose.pid)
        dlk_info_add_int(info, whose.pid, "locks.%zu.pid", number);
}

/* Those that one owner has on most nodes; how many. *ret_doubt: there may be more, with nodes that are
 * silent. */
static int64_t add_held(const dlk_redlock_round *round, const listed *all, size_t count,
                        size_t silent, dlock_info *info, bool *ret_doubt)
{
    size_t quorum = (size_t)round->redlock->quorum, found = 0;
    *ret_doubt = false;
    for (size_t i = 0; i < count && (int64_t)found < round->parent->limit;) {
        size_t next = i + 1;
        while (next < count && same(&all[next], &all[i]))
            next++;
        if (next - i >= quorum)
            add_listed(info, &all[i], next - i, all[i + quorum - 1].left, found++);
        else if (next - i + silent >= quorum)
            *ret_doubt = true;
        i = next;
    }
    return (int64_t)found;
}

bool dlk_report_list(dlk_redlock_round *round)
{
    size_t room = 1, count = 0, silent = 0;
    for (int i = 0; i < round->redlock->count; i++) {
        room += dlock_info_count(report_of(round, i));
        silent += report_of(round, i) == NULL;
    }
    listed *all = calloc(room, sizeof(*all));
    if (!all)
        return false;
    const char *incomplete = NULL;
    for (int i = 0; i < round->redlock->count; i++) {
        const dlock_info *report = report_of(round, i);
        size_t told = collect(report, &all[count]);
        /* Nodes tell in any order: what one tells first, the others may have left out. */
        if ((int64_t)told >= round->parent->limit)
            incomplete = "nodes have more locks than were asked for";
        else if (dlock_info_get(report, "incomplete"))
            incomplete = dlock_info_get(report, "incomplete");
        count += told;
    }
    qsort(all, count, sizeof(*all), by_name);
    dlock_info *info = dlk_info_new();
    bool doubt;
    int64_t found = add_held(round, all, count, silent, info, &doubt);
    if (doubt && !incomplete)
        incomplete = "not every node has answered, and what the others tell of may be "
                     "held with those";
    if (found < round->parent->limit)
        dlk_info_add_text(info, incomplete, "incomplete");
    free(all);
    return give(round, info);
}

/* ---- doctor ---- */

/* Two addresses may lead to one server, which then counts twice. */
static void find_twins(const dlk_redlock_round *round, dlock_info *all)
{
    const dlk_redlock *redlock = round->redlock;
    for (int i = 0; i < redlock->count; i++) {
        const char *run = dlock_info_get(report_of(round, i), "server.run_id");
        for (int k = 0; run && k < i; k++) {
            const char *other = dlock_info_get(report_of(round, k), "server.run_id");
            if (other && strcmp(run, other) == 0)
                dlk_find(all, "twins", DLK_UNSAFE,
                         "%s and %s are one server: it counts as two nodes",
                         redlock->nodes[k].peer, redlock->nodes[i].peer);
        }
    }
}

static void find_absent(const dlk_redlock_round *round, dlock_info *all)
{
    const dlk_redlock *redlock = round->redlock;
    bool few = dlk_nodes_count(round->yes) < redlock->quorum;
    for (int i = 0; i < redlock->count; i++) {
        const dlk_redlock_node *node = &redlock->nodes[i];
        const dlk_ask *ask = &round->asks[i];
        if (report_of(round, i))
            continue;
        dlk_find(all, "node", few ? DLK_UNSAFE : DLK_WARNING, "%s: %s", node->peer,
                 ask->error       ? ask->error->text
                 : node->why_down ? node->why_down->text
                                  : "no answer");
    }
}

static void find_fencing(const dlk_redlock *redlock, dlock_info *all)
{
    if (redlock->base.type == &dlk_memlock_backend) /* its nodes say what they promise */
        return;
    if (redlock->fencing)
        dlk_find(
            all, "fencing", DLK_FINE,
            "redlock.fencing is on: each grant has a token, which the resource has to "
            "check");
    else
        dlk_find(all, "fencing", DLK_WARNING,
                 "redlock.fencing is off: grants have no token, so nothing protects the "
                 "resource "
                 "when nodes forget a lock or their clocks are set");
}

bool dlk_report_doctor(dlk_redlock_round *round)
{
    const dlk_redlock *redlock = round->redlock;
    dlock_info *all = dlk_info_new();
    find_absent(round, all);
    find_twins(round, all);
    find_fencing(redlock, all);
    for (int i = 0; i < redlock->count; i++)
        dlk_find_all(all, report_of(round, i), redlock->nodes[i].peer);
    dlk_find_verdict(all);
    return give(round, all);
}
