/*
 * Transactions of several callers in one request, as transactions within one.
 *
 * A request costs the server much, and a transaction in it little. So as soon as answers take three times as long as the
 * quickest one has, because requests wait for each other at the server, only one may be under way: what
 * comes meanwhile waits for the next answer, and then goes out together. Who is alone never waits.
 *
 * Etcd makes the comparisons of all of them before it does anything. So only those go together that have no
 * key in common. It does all of them or refuses all: then each is asked by itself.
 */
#include "backends/etcd/calls_inner.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define FEW  1
#define MANY 64

void dlk_etcd_batches_init(dlk_etcd_calls *calls)
{
    dlk_list_init(&calls->batches.held);
    dlk_list_init(&calls->batches.going);
}

void dlk_etcd_batches_begin(dlk_etcd_calls *calls)
{
    calls->batches.off = false;
    calls->batches.quickest = INT64_MAX;
    calls->batches.usual = 0;
}

/* ---- who goes with whom ---- */

static bool is_full(const dlk_etcd_calls *calls)
{
    bool they_queue = calls->batches.usual / 3 > calls->batches.quickest;
    return calls->batches.under_way >= (they_queue ? FEW : MANY);
}

/* One name may be the beginning of the other: then that one's keys may lie among this one's. */
static bool have_keys_in_common(dlk_etcd_bytes a, dlk_etcd_bytes b)
{
    size_t size = a.len < b.len ? a.len : b.len;
    return memcmp(a.data, b.data, size) == 0;
}

static bool fits(const dlk_etcd_batch *batch, const dlk_etcd_call *call)
{
    for (size_t i = 0; i < batch->count; i++)
        if (have_keys_in_common(batch->calls[i]->about, call->about))
            return false;
    return batch->count < DLK_ETCD_TOGETHER;
}

static void count(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    call->asked_at = calls->now;
    calls->batches.under_way++;
}

bool dlk_etcd_batch_holds(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    if (!call->about.data || calls->batches.off || calls->batches.never ||
        calls->link.phase != DLK_LINK_READY)
        return false;
    if (is_full(calls)) {
        dlk_list_append(&calls->batches.held, &call->wait);
        return true;
    }
    count(calls, call);
    return false;
}

void dlk_etcd_batch_note_time(dlk_etcd_calls *calls, int64_t asked_at)
{
    int64_t took = calls->now - asked_at;
    if (asked_at == 0)
        return;
    if (took < calls->batches.quickest)
        calls->batches.quickest = took;
    calls->batches.usual += (took - calls->batches.usual) / 8;
}

/* ---- a batch ---- */

static void ask_alone(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    dlk_list_remove(&call->wait);
    count(calls, call);
    dlk_etcd_call_ask(calls, call);
}

static dlk_etcd_batch *gather(dlk_etcd_calls *calls)
{
    dlk_etcd_batch *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return NULL;
    DLK_LIST_FOR (it, &calls->batches.held) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, wait);
        if (fits(batch, call))
            batch->calls[batch->count++] = call;
    }
    return batch;
}

static bool ask_together(dlk_etcd_calls *calls, dlk_etcd_batch *batch)
{
    dlk_etcd_txn txn;
    dlk_etcd_txn_begin(&txn);
    for (size_t i = 0; i < batch->count; i++) {
        const dlk_buf *packed = &batch->calls[i]->request;
        dlk_etcd_txn_nest(&txn, (dlk_etcd_bytes){dlk_buf_size(packed),
                                                 (uint8_t *)dlk_buf_head(packed)});
    }
    dlk_etcd_request request = dlk_etcd_txn_end(&txn);
    bool sent = !request.failed &&
                dlk_grpc_ask(&calls->grpc, &batch->grpc, dlk_etcd_rpcs[DLK_ETCD_TXN].path,
                             calls->token, dlk_buf_head(&request.packed),
                             dlk_buf_size(&request.packed));
    dlk_buf_free(&request.packed);
    return sent;
}

static void send_batch(dlk_etcd_calls *calls, dlk_etcd_batch *batch)
{
    dlk_list_append(&calls->batches.going, &batch->link);
    calls->batches.under_way++;
    batch->asked_at = calls->now;
    batch->users = 1;
    for (size_t i = 0; i < batch->count; i++) {
        dlk_list_remove(&batch->calls[i]->wait);
        batch->calls[i]->batch = batch;
        batch->users++;
    }
    if (!ask_together(calls, batch))
        for (size_t i = 0; i < batch->count; i++)
            dlk_etcd_call_not_sent(calls, batch->calls[i]);
    dlk_etcd_batch_let_go(calls, batch);
}

void dlk_etcd_batches_flush(dlk_etcd_calls *calls)
{
    dlk_list *held = &calls->batches.held;
    while (!dlk_list_empty(held) && !is_full(calls)) {
        dlk_etcd_call *first = DLK_LIST_ITEM(held->next, dlk_etcd_call, wait);
        bool one = held->next == held->prev;
        dlk_etcd_batch *batch = one ? NULL : gather(calls);
        if (batch && batch->count > 1) {
            send_batch(calls, batch);
        } else {
            free(batch);
            ask_alone(calls, first);
        }
    }
}

/* ---- its answer ---- */

dlk_etcd_batch *dlk_etcd_batch_of(dlk_etcd_calls *calls, const dlk_grpc_call *grpc)
{
    DLK_LIST_FOR (it, &calls->batches.going) {
        dlk_etcd_batch *batch = DLK_LIST_ITEM(it, dlk_etcd_batch, link);
        if (&batch->grpc == grpc)
            return batch;
    }
    return NULL;
}

/* Each has the revision and the term of the whole: its own header is empty. */
static void read_one(dlk_etcd_calls *calls, dlk_etcd_call *call,
                     const DlkEtcd__TxnResponse *said, size_t index)
{
    static const DlkEtcd__ResponseHeader none = DLK_ETCD__RESPONSE_HEADER__INIT;
    const dlk_etcd_bytes *own = said ? dlk_etcd_nested(said, index) : NULL;
    const void *packed = own && own->len > 0 ? own->data : (const void *)"";
    dlk_etcd_call_read(calls, call, own ? packed : NULL, own ? own->len : 0,
                       said && said->header ? said->header : &none);
}

static void read_all(dlk_etcd_calls *calls, dlk_etcd_batch *batch)
{
    dlk_arena arena = {0};
    bool no_memory = false;
    size_t size;
    const char *message = dlk_etcd_only_message(&batch->grpc, &size);
    const void *said = message ? dlk_etcd_unpack(dlk_etcd_rpcs[DLK_ETCD_TXN].answer,
                                                 message, size, &arena, &no_memory)
                               : NULL;
    for (size_t i = 0; i < batch->count; i++) {
        dlk_etcd_call *call = batch->calls[i];
        if (call) {
            call->no_memory = no_memory;
            read_one(calls, call, said, i);
        }
    }
    dlk_arena_free(&arena);
}

/* What was certainly refused may be one's fault. */
static void fail_all(dlk_etcd_calls *calls, dlk_etcd_batch *batch)
{
    char why[sizeof(batch->calls[0]->why)];
    dlk_etcd_end how = dlk_etcd_failure(&batch->grpc, why, sizeof(why));
    calls->batches.off |= how == DLK_ETCD_BAD;
    for (size_t i = 0; i < batch->count; i++) {
        dlk_etcd_call *call = batch->calls[i];
        if (!call)
            continue;
        call->no_memory = batch->grpc.no_memory;
        if (how == DLK_ETCD_CUT) {
            dlk_etcd_call_end(calls, call, how, why);
        } else {
            dlk_etcd_call_leave_batch(calls, call);
            ask_alone(calls, call);
        }
    }
}

void dlk_etcd_batch_conclude(dlk_etcd_calls *calls, dlk_etcd_batch *batch)
{
    bool too_much = batch->grpc.request.too_much && !batch->grpc.no_memory;
    batch->users++;
    dlk_etcd_batch_note_time(calls, batch->asked_at);
    if (batch->grpc.status == DLK_GRPC_OK || too_much)
        read_all(calls, batch);
    else
        fail_all(calls, batch);
    dlk_etcd_batch_let_go(calls, batch);
}
