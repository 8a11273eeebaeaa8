/*
 * What the files about calls share: call.c (each by itself), batch.c (several in one request), watches.c
 * (those that watch), and above these calls.c (the connection).
 */
#ifndef DLK_BACKENDS_ETCD_CALLS_INNER_H
#define DLK_BACKENDS_ETCD_CALLS_INNER_H

#include "backends/etcd/calls.h"

/* So many calls go together at most, of etcd's own limit of 128 operations. */
#define DLK_ETCD_TOGETHER 16

struct dlk_etcd_batch {
    dlk_grpc_call grpc;
    dlk_list link;
    int64_t asked_at;
    size_t count;
    dlk_etcd_call *calls[DLK_ETCD_TOGETHER]; /* NULL: it doesn't wait any more */
    size_t users;                            /* calls, and whoever works on it just now */
};

/* ---- call.c ---- */
/* It is over, and waits to be taken; "": `why` is as it was. */
void dlk_etcd_call_end(dlk_etcd_calls *calls, dlk_etcd_call *call, dlk_etcd_end how,
                       const char *why);
void dlk_etcd_calls_end_all(dlk_etcd_calls *calls, dlk_list *all, dlk_etcd_end how,
                            const char *why);
/* Puts it on the connection, alone; it ends if that can't be. */
void dlk_etcd_call_ask(dlk_etcd_calls *calls, dlk_etcd_call *call);
void dlk_etcd_call_not_sent(dlk_etcd_calls *calls, dlk_etcd_call *call);
/* It is over: what came is no answer. */
void dlk_etcd_call_refuse_answer(dlk_etcd_calls *calls, dlk_etcd_call *call,
                                 const char *why);
/* Ends it with its answer; NULL: there is none that can be read. @p header is that of what it was a part of; NULL:
 * it has its own. */
void dlk_etcd_call_read(dlk_etcd_calls *calls, dlk_etcd_call *call, const void *message,
                        size_t size, const DlkEtcd__ResponseHeader *header);
/* The one message that there has to be, lent; NULL: there is another number of them. */
const char *dlk_etcd_only_message(dlk_grpc_call *grpc, size_t *ret_size);
/* What one that isn't OK comes to, and why. */
dlk_etcd_end dlk_etcd_failure(const dlk_grpc_call *grpc, char *why, size_t size);
/* Why it is over. */
const char *dlk_etcd_words_of(const dlk_grpc_call *grpc);
/* It is over, or goes on alone. */
void dlk_etcd_call_leave_batch(dlk_etcd_calls *calls, dlk_etcd_call *call);
/* One user less; with the last it is gone. */
void dlk_etcd_batch_let_go(dlk_etcd_calls *calls, dlk_etcd_batch *batch);

/* ---- batch.c ---- */
void dlk_etcd_batches_init(dlk_etcd_calls *calls);
/* On a new connection. */
void dlk_etcd_batches_begin(dlk_etcd_calls *calls);
/* Whether it waits here instead of going out by itself. */
bool dlk_etcd_batch_holds(dlk_etcd_calls *calls, dlk_etcd_call *call);
/* One of those that count has its answer. */
void dlk_etcd_batch_note_time(dlk_etcd_calls *calls, int64_t asked_at);
/* Sends what may go out now. */
void dlk_etcd_batches_flush(dlk_etcd_calls *calls);
/* The batch that has this request; NULL: none has. */
dlk_etcd_batch *dlk_etcd_batch_of(dlk_etcd_calls *calls, const dlk_grpc_call *grpc);
void dlk_etcd_batch_conclude(dlk_etcd_calls *calls, dlk_etcd_batch *batch);

/* ---- watches.c ---- */
bool dlk_etcd_watches_begin(dlk_etcd_calls *calls, dlk_etcd_call *call);
/* Something has come of their stream. */
void dlk_etcd_watches_hear(dlk_etcd_calls *calls);
dlk_etcd_call *dlk_etcd_watches_find(dlk_etcd_calls *calls, int64_t number);
/* Without memory the server goes on to tell us of it, which does no harm. */
void dlk_etcd_watches_cancel(dlk_etcd_calls *calls, int64_t number);

#endif
