/* One call: how it goes out alone, how it leaves others' batch, and how it ends; see the header. */
#include "backends/etcd/calls_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- it goes out ---- */

void dlk_etcd_call_ask(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    const char *message = dlk_buf_head(&call->request);
    size_t size = dlk_buf_size(&call->request);
    bool ready = calls->link.phase == DLK_LINK_READY;
    if (!ready ||
        !dlk_grpc_ask(&calls->grpc, &call->grpc, dlk_etcd_rpcs[call->method].path,
                      calls->token, message, size))
        dlk_etcd_call_not_sent(calls, call);
}

void dlk_etcd_call_not_sent(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    dlk_etcd_call_end(calls, call, DLK_ETCD_CUT,
                      calls->grpc.http2.leaves ? "the member leaves" : "it wasn't sent");
    dlk_kick(calls->link.common->kicks); /* somebody has to take it out */
}

/* ---- with others ---- */

void dlk_etcd_batch_let_go(dlk_etcd_calls *calls, dlk_etcd_batch *batch)
{
    if (--batch->users > 0)
        return;
    calls->batches.under_way--;
    dlk_grpc_drop(&batch->grpc);
    dlk_list_remove(&batch->link);
    free(batch);
}

void dlk_etcd_call_leave_batch(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    dlk_etcd_batch *batch = call->batch;
    dlk_list_remove(&call->wait);
    if (call->asked_at)
        calls->batches.under_way--;
    call->asked_at = 0;
    call->batch = NULL;
    for (size_t i = 0; batch && i < batch->count; i++)
        if (batch->calls[i] == call)
            batch->calls[i] = NULL;
    if (batch)
        dlk_etcd_batch_let_go(calls, batch);
}

/* ---- it is over ---- */

void dlk_etcd_call_end(dlk_etcd_calls *calls, dlk_etcd_call *call, dlk_etcd_end how,
                       const char *why)
{
    call->end = how;
    if (why[0])
        snprintf(call->why, sizeof(call->why), "%s", why);
    dlk_etcd_call_leave_batch(calls, call);
    dlk_list_remove(&call->link);
    dlk_list_append(&calls->over, &call->link);
}

void dlk_etcd_call_refuse_answer(dlk_etcd_calls *calls, dlk_etcd_call *call,
                                 const char *why)
{
    call->answer = NULL;
    call->unread = true;
    dlk_etcd_call_end(calls, call, DLK_ETCD_BAD, why);
}

void dlk_etcd_call_read(dlk_etcd_calls *calls, dlk_etcd_call *call, const void *message,
                        size_t size, const DlkEtcd__ResponseHeader *header)
{
    if (message)
        call->answer = dlk_etcd_unpack(dlk_etcd_rpcs[call->method].answer, message, size,
                                       &call->arena, &call->no_memory);
    if (!header)
        header = dlk_etcd_header(call->answer);
    call->term = header ? (int64_t)header->raft_term : 0;
    call->revision = header ? header->revision : 0;
    if (call->no_memory)
        dlk_etcd_call_end(calls, call, DLK_ETCD_CUT, "there is no memory for its answer");
    else if (!call->answer)
        dlk_etcd_call_refuse_answer(calls, call, "its answer isn't one");
    else
        dlk_etcd_call_end(calls, call, DLK_ETCD_OK, "");
}

const char *dlk_etcd_only_message(dlk_grpc_call *grpc, size_t *ret_size)
{
    const char *message, *more;
    size_t more_size;
    bool one = dlk_grpc_take(grpc, &message, ret_size) == DLK_GRPC_MESSAGE &&
               dlk_grpc_take(grpc, &more, &more_size) == DLK_GRPC_NOTHING;
    return one ? message : NULL;
}

const char *dlk_etcd_words_of(const dlk_grpc_call *grpc)
{
    if (grpc->words[0])
        return grpc->words;
    if (grpc->undone)
        return "it takes no more";
    return grpc->status == DLK_GRPC_NONE ? "the request was broken off"
                                         : dlk_etcd_status_name(grpc->status);
}

dlk_etcd_end dlk_etcd_failure(const dlk_grpc_call *grpc, char *why, size_t size)
{
    bool http = grpc->http != 0 && grpc->http != 200;
    if (http)
        snprintf(why, size, "it answers with status %d", grpc->http);
    else
        snprintf(why, size, "%s", dlk_etcd_words_of(grpc));
    return dlk_etcd_end_of(grpc->status, http ? "" : grpc->words);
}

void dlk_etcd_calls_end_all(dlk_etcd_calls *calls, dlk_list *all, dlk_etcd_end how,
                            const char *why)
{
    DLK_LIST_FOR (it, all) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        dlk_etcd_call_end(calls, call, how, why);
        dlk_grpc_drop(&call->grpc);
    }
}
