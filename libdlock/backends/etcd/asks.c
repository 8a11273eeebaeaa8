/* What is asked of a lock's keys: each step is one transaction. Which keys these are, and what the answers say,
 * stands in layout.c. */
#include "backends/etcd/inner.h"

/* So many mutexes are looked at to see whether one is there. */
#define MUTEXES_SEEN 64

/* Those before us, as far as this kind of place has to know them; @p below 0: all there are. */
static void read_line(dlk_etcd_txn *txn, const dlk_etcd_place *place, int64_t below)
{
    const dlk_etcd_key *home = place->home;
    bool reads = home->line == DLK_ETCD_RW && place->base.shared;
    bool all = reads || home->line == DLK_ETCD_SEMAPHORE;
    const dlk_etcd_span *span = reads ? &home->writers : &home->all;
    DlkEtcd__RangeRequest *range = dlk_etcd_txn_range(txn, DLK_ETCD_THEN, span->from);
    range->range_end = span->to;
    range->sort_target = DLK_ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    range->sort_order = DLK_ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
    range->max_create_revision = below ? below - 1 : 0;
    range->keys_only = !all;
    range->limit = all ? 0 : DLK_ETCD_NEIGHBOURS;
}

static void put(dlk_etcd_txn *txn, const dlk_etcd_place *place, dlk_etcd_bytes value)
{
    DlkEtcd__PutRequest *it = dlk_etcd_txn_put(txn, DLK_ETCD_THEN, place->key);
    it->value = value;
    it->lease = place->et->lease;
}

static void read_mutexes(dlk_etcd_txn *txn, const dlk_etcd_key *home,
                         dlk_etcd_branch branch)
{
    DlkEtcd__RangeRequest *range = dlk_etcd_txn_range(txn, branch, home->mutexes.from);
    range->range_end = home->mutexes.to;
    range->keys_only = true;
    range->limit = MUTEXES_SEEN;
}

/* ---- comparisons ---- */

static void if_empty(dlk_etcd_txn *txn, dlk_etcd_span span)
{
    dlk_etcd_txn_if(txn, span.from)->range_end = span.to;
}

static void if_fence(dlk_etcd_txn *txn, const dlk_etcd_key *home)
{
    DlkEtcd__Compare *it = dlk_etcd_txn_if(txn, home->fence.key);
    if (home->fence.rev != 0)
        dlk_etcd_if_changed(it, home->fence.rev);
}

/* By what can't be any other's that ever has this key, even years later. */
static void if_made(dlk_etcd_txn *txn, dlk_etcd_bytes key, int64_t rev)
{
    dlk_etcd_if_made(dlk_etcd_txn_if(txn, key), rev);
}

/* A mutex' value has its holder's number in it, which no other has had. */
static void if_value(dlk_etcd_txn *txn, dlk_etcd_bytes key, dlk_etcd_bytes value)
{
    DlkEtcd__Compare *it = dlk_etcd_txn_if(txn, key);
    it->target = DLK_ETCD__COMPARE__TARGET__VALUE;
    it->to_case = DLK_ETCD__COMPARE__TO_VALUE;
    it->value = value;
}

static void if_lease(dlk_etcd_txn *txn, dlk_etcd_bytes key, int64_t lease)
{
    DlkEtcd__Compare *it = dlk_etcd_txn_if(txn, key);
    it->target = DLK_ETCD__COMPARE__TARGET__LEASE;
    it->to_case = DLK_ETCD__COMPARE__TO_LEASE;
    it->lease = lease;
}

/* ---- getting a place, and looking at it ---- */

/* One step: the place is ours by now, or it was, and who is before it. Where another kind of lock
 * of the name is in use nothing is done. */
dlk_etcd_request dlk_etcd_layout_join(const dlk_etcd_place *place)
{
    const dlk_etcd_key *home = place->home;
    bool apart = home->line == DLK_ETCD_RW || home->line == DLK_ETCD_SEMAPHORE;
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    (void)dlk_etcd_txn_if(&txn, place->key);
    if_fence(&txn, home);
    for (size_t i = 0; i < dlk_etcd_layout_others(home); i++)
        if_empty(&txn, home->others[i]);
    if (apart && !place->loose)
        if_empty(&txn, home->mutexes);
    put(&txn, place, place->value);
    if (home->line != DLK_ETCD_CONDITION) /* no signal is for who comes now */
        read_line(&txn, place, 0);
    if (apart && place->loose)
        read_mutexes(&txn, home, DLK_ETCD_THEN);
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_ELSE, place->key);
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_ELSE, home->fence.key);
    if (apart)
        read_mutexes(&txn, home, DLK_ETCD_ELSE);
    return dlk_etcd_txn_end(&txn);
}

dlk_etcd_request dlk_etcd_layout_look(const dlk_etcd_place *place)
{
    dlk_etcd_txn txn;
    if (place->home->line == DLK_ETCD_CONDITION)
        return dlk_etcd_condition_look(place);
    dlk_etcd_txn_begin(&txn);
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_THEN, place->key);
    read_line(&txn, place, place->below ? place->below : place->rev);
    return dlk_etcd_txn_end(&txn);
}

dlk_etcd_request dlk_etcd_layout_read(dlk_etcd_bytes key)
{
    DlkEtcd__RangeRequest range = DLK_ETCD__RANGE_REQUEST__INIT;
    range.key = key;
    return dlk_etcd_request_of(&range.base);
}

dlk_etcd_request dlk_etcd_layout_line(const dlk_etcd_key *home)
{
    DlkEtcd__RangeRequest range = DLK_ETCD__RANGE_REQUEST__INIT;
    range.key = home->all.from;
    range.range_end = home->all.to;
    range.sort_target = DLK_ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    range.sort_order = DLK_ETCD__RANGE_REQUEST__SORT_ORDER__ASCEND;
    return dlk_etcd_request_of(&range.base);
}

/* ---- changing a key that is there ---- */

dlk_etcd_request dlk_etcd_layout_delete(dlk_etcd_bytes key, int64_t rev,
                                        const dlk_etcd_bytes *value, int64_t lease)
{
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    if_made(&txn, key, rev);
    if (value)
        if_value(&txn, key, *value);
    if (lease)
        if_lease(&txn, key, lease);
    (void)dlk_etcd_txn_delete(&txn, DLK_ETCD_THEN, key);
    return dlk_etcd_txn_end(&txn);
}

dlk_etcd_request dlk_etcd_layout_touch(dlk_etcd_bytes key, int64_t rev)
{
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    if_made(&txn, key, rev);
    dlk_etcd_touch(dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, key));
    return dlk_etcd_txn_end(&txn);
}

dlk_etcd_request dlk_etcd_layout_fence(const dlk_etcd_place *place)
{
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, place->home->fence.key)->lease =
        place->et->lease;
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_THEN, place->key);
    return dlk_etcd_txn_end(&txn);
}

dlk_etcd_request dlk_etcd_layout_turn(const dlk_etcd_place *place)
{
    dlk_etcd_bytes value = dlk_etcd_layout_value(place, true);
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    if_made(&txn, place->key, place->rev);
    put(&txn, place, value);
    txn.failed |= !value.data;
    dlk_etcd_request request = dlk_etcd_txn_end(&txn);
    dlk_etcd_bytes_free(&value);
    return request;
}

/* ---- handing on ---- */

dlk_etcd_request dlk_etcd_layout_export(const dlk_etcd_place *place)
{
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    if_made(&txn, place->key, place->rev);
    if_value(&txn, place->key, place->value);
    if_lease(&txn, place->key, place->et->lease);
    DlkEtcd__PutRequest *it = dlk_etcd_txn_put(&txn, DLK_ETCD_THEN, place->key);
    it->ignore_value = true;
    it->lease = place->ticket;
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_ELSE, place->key);
    return dlk_etcd_txn_end(&txn);
}

dlk_etcd_request dlk_etcd_layout_import(const dlk_etcd_place *place, dlk_etcd_bytes value)
{
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    if_made(&txn, place->key, place->rev);
    if_value(&txn, place->key, value);
    if_fence(&txn, place->home);
    put(&txn, place, place->value);
    (void)dlk_etcd_txn_range(&txn, DLK_ETCD_ELSE, place->home->fence.key);
    return dlk_etcd_txn_end(&txn);
}
