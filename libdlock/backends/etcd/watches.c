/*
 * Watches, on their one stream; see calls.h.
 */
#include "backends/etcd/calls_inner.h"

#include "util/number.h"

#include <stdio.h>

dlk_etcd_call *dlk_etcd_watches_find(dlk_etcd_calls *calls, int64_t number)
{
    DLK_LIST_FOR (it, &calls->watching) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        if (call->watch == number)
            return call;
    }
    return NULL;
}

/* A server of 3.5 that refuses to watch says a number of its own. It answers in our order. */
static dlk_etcd_call *find_next(dlk_etcd_calls *calls)
{
    DLK_LIST_FOR (it, &calls->watching) {
        dlk_etcd_call *call = DLK_LIST_ITEM(it, dlk_etcd_call, link);
        if (!call->stands)
            return call;
    }
    return NULL;
}

/* Without memory the server goes on to tell us of it, which does no harm. */
void dlk_etcd_watches_cancel(dlk_etcd_calls *calls, int64_t number)
{
    DlkEtcd__WatchCancelRequest cancel = DLK_ETCD__WATCH_CANCEL_REQUEST__INIT;
    DlkEtcd__WatchRequest request = DLK_ETCD__WATCH_REQUEST__INIT;
    dlk_buf packed = {0};
    cancel.watch_id = number;
    request.request_case = DLK_ETCD__WATCH_REQUEST__REQUEST_CANCEL_REQUEST;
    request.cancel_request = &cancel;
    if (dlk_etcd_pack(&request.base, &packed))
        (void)dlk_grpc_say(&calls->stream, dlk_buf_head(&packed), dlk_buf_size(&packed));
    dlk_buf_free(&packed);
}

static void end_refused(dlk_etcd_calls *calls, dlk_etcd_call *call,
                        ProtobufCBinaryData reason)
{
    char why[sizeof(call->why)];
    snprintf(why, sizeof(why), "%.*s",
             (int)(reason.len < sizeof(why) ? reason.len : sizeof(why)),
             reason.data ? (const char *)reason.data : "");
    dlk_etcd_call_end(calls, call, dlk_etcd_refused_watch(why),
                      why[0] ? why : "it refuses to watch");
}

/* What others do at any other key counts as well: a look in vain is cheaper than the wait. Without a header
 * nobody knows from when on it tells. */
static bool begins_in_the_past(const dlk_etcd_call *call,
                               const DlkEtcd__WatchResponse *said)
{
    return call->start > 0 && (!said->header || said->header->revision >= call->start);
}

/* False: the stream is of no use any more. One of 3.4 that has refused to watch something reads no more there. */
static bool hear_watch(dlk_etcd_calls *calls, const DlkEtcd__WatchResponse *said)
{
    dlk_etcd_call *call = dlk_etcd_watches_find(calls, said->watch_id);
    if (!call && said->created && said->canceled)
        call = find_next(calls);
    if (!call)
        return true;
    const bool stood = said->created && !call->stands;
    call->stands |= said->created;
    if (stood && said->header)
        call->tells_from = dlk_number_sum(said->header->revision, 1);
    if (said->canceled && said->compact_revision == 0) {
        end_refused(calls, call, said->cancel_reason);
        return !said->created;
    }
    if (said->canceled || said->n_events > 0) {
        call->compacted = said->canceled;
        dlk_etcd_call_end(calls, call, DLK_ETCD_OK, "");
        if (!said->canceled)
            dlk_etcd_watches_cancel(calls, call->watch);
    } else if (stood && call->past && begins_in_the_past(call, said)) {
        call->past(call, calls->now);
    }
    return true;
}

void dlk_etcd_calls_end_watches(dlk_etcd_calls *calls, const char *why)
{
    dlk_grpc_drop(&calls->stream);
    dlk_etcd_calls_end_all(calls, &calls->watching, DLK_ETCD_CUT, why);
}

/* Why the stream has to end; NULL: it goes on. */
static const char *hear_message(dlk_etcd_calls *calls, const char *message, size_t size)
{
    dlk_arena arena;
    bool no_memory;
    const ProtobufCMessage *said = dlk_etcd_unpack(dlk_etcd_rpcs[DLK_ETCD_WATCH].answer,
                                                   message, size, &arena, &no_memory);
    const char *why = "what it says of a watch isn't to be read";
    if (said)
        why = hear_watch(calls, (const DlkEtcd__WatchResponse *)(const void *)said)
                  ? NULL
                  : "it has refused another watch";
    dlk_arena_free(&arena);
    return why;
}

void dlk_etcd_watches_hear(dlk_etcd_calls *calls)
{
    const char *message, *bad = NULL;
    size_t size;
    dlk_grpc_got got;
    while (!bad &&
           (got = dlk_grpc_take(&calls->stream, &message, &size)) == DLK_GRPC_MESSAGE)
        bad = hear_message(calls, message, size);
    if (!bad && got == DLK_GRPC_BAD)
        bad = "what it says of a watch isn't a message";
    if (bad) {
        dlk_etcd_calls_end_watches(calls, bad);
    } else if (calls->stream.over) {
        dlk_etcd_end how = dlk_etcd_end_of(calls->stream.status, calls->stream.words);
        char why[sizeof(calls->stream.words)];
        snprintf(why, sizeof(why), "%s", dlk_etcd_words_of(&calls->stream));
        dlk_grpc_drop(&calls->stream);
        dlk_etcd_calls_end_all(calls, &calls->watching,
                               how == DLK_ETCD_OK ? DLK_ETCD_CUT : how, why);
    }
}

static bool open_stream(dlk_etcd_calls *calls, const dlk_etcd_call *first)
{
    calls->stream.streams = true;
    return dlk_grpc_ask(&calls->grpc, &calls->stream, dlk_etcd_rpcs[DLK_ETCD_WATCH].path,
                        calls->token, dlk_buf_head(&first->request),
                        dlk_buf_size(&first->request));
}

bool dlk_etcd_watches_begin(dlk_etcd_calls *calls, dlk_etcd_call *call)
{
    if (!calls->stream.grpc)
        return open_stream(calls, call);
    return dlk_grpc_say(&calls->stream, dlk_buf_head(&call->request),
                        dlk_buf_size(&call->request));
}
