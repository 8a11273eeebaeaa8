/*
 * etcd's calls and watches, on a connection to one member at a time: they are put in, and come out when they
 * are over. Everything happens under the client's mutex but for what the link does without it (net/link.h).
 *
 * A watch is over as soon as anything happens to what it watches. All of them are on one stream, which is
 * opened with the first.
 */
#ifndef DLK_BACKENDS_ETCD_CALLS_H
#define DLK_BACKENDS_ETCD_CALLS_H

#include "backends/etcd/messages.h"
#include "net/grpc.h"
#include "net/link.h"
#include "util/thread.h"

typedef struct dlk_etcd_call dlk_etcd_call;
typedef struct dlk_etcd_batch dlk_etcd_batch;
typedef struct dlk_etcd_calls dlk_etcd_calls;
typedef void dlk_etcd_done(dlk_etcd_call *call, int64_t now);

/* How a call can end. */
typedef enum dlk_etcd_end {
    DLK_ETCD_OK,
    DLK_ETCD_CUT,      /* no answer, or none that says whether it was done */
    DLK_ETCD_NO_LEASE, /* there is no such lease (any more) */
    DLK_ETCD_NO_TOKEN, /* who we are has to be said anew; nothing was done */
    DLK_ETCD_DENIED,
    DLK_ETCD_BUSY, /* not now: no space, too much to do */
    DLK_ETCD_BAD,  /* this is no etcd, or it doesn't know what we say */
} dlk_etcd_end;

struct dlk_etcd_call {
    dlk_grpc_call grpc; /* first */
    dlk_list link;      /* among those under way, or over */

    /* what is asked */
    dlk_etcd_method method;
    dlk_buf request;    /* packed */
    int64_t timeout_ms; /* 0: none, for one that watches */
    int64_t until;
    int64_t watch;      /* its number */
    int64_t start;      /* the first revision that matters to it; 0: the next */
    int64_t tells_from; /* the first that it tells of; 0: it doesn't stand yet */
    /* A transaction's, lent: all its keys begin so. Those that are about others, neither beginning with the
     * other, may go out together with it. No data: it goes alone. */
    dlk_etcd_bytes about;
    dlk_list wait;         /* among those that are held back until more can go out */
    dlk_etcd_batch *batch; /* it went out in */
    /* since then it is among those that others wait for; 0: it isn't (batch.c) */
    int64_t asked_at;
    bool stands;    /* the server has said that it watches */
    bool compacted; /* what it was to watch from on is forgotten: that is news, too */

    /* for whoever asked */
    dlk_etcd_done *done, *then;
    /* Of a watch, or NULL: it stands, tells of what comes from now on, and something may have happened since
     * `start`, which has to be looked for. (A member tells of the past, too, if it is asked for it, but of that
     * and of all that comes meanwhile only when it goes through such watches, every 100 ms.) Called from
     * dlk_link_process, at most once; may not end or put in calls. */
    dlk_etcd_done *past;
    void *owner;
    int64_t sent_at; /* when it was put in, which is before it goes out */
    uint32_t epoch;
    int64_t lease; /* the session's at that time */
    bool asked;    /* somebody's ask waits for it, and drives */
    bool again;    /* it has been sent once more with a new token */
    bool dropped;  /* nobody waits for it */

    /* what came of it */
    int64_t term, revision; /* of the answer's header; 0: it had none */
    dlk_arena arena;
    const ProtobufCMessage *answer; /* of one that is OK, and no watch */
    dlk_etcd_end end;
    bool unread; /* BAD, but by what it answers: done or not, as one that is CUT */
    bool no_memory;
    char why[200]; /* in words, where it isn't OK */
};

typedef struct dlk_etcd_calls_ops {
    void (*up)(dlk_etcd_calls *calls, int64_t now);
    /* All calls are over, and wait to be taken. */
    void (*down)(dlk_etcd_calls *calls, const dlock_error *error, int64_t now);
    void (*warn)(dlk_etcd_calls *calls, const char *text);
} dlk_etcd_calls_ops;

struct dlk_etcd_calls {
    dlk_link link; /* first */
    const dlk_etcd_calls_ops *ops;
    dlk_grpc grpc;
    const char *token;  /* lent: of authentication, or NULL */
    int64_t silence_ms; /* so long the member may be silent: who watches waits for ever */
    int64_t now;        /* by the last who told us */
    dlk_list going, over; /* dlk_etcd_call.link */
    dlk_list watching;    /* … of those that watch */
    dlk_grpc_call stream; /* theirs */
    struct {
        dlk_list held;           /* dlk_etcd_call.wait */
        dlk_list going;          /* dlk_etcd_batch.link */
        int under_way;           /* requests that may have others in them */
        int64_t quickest, usual; /* how long an answer to one of them takes, ns */
        bool off;                /* this member doesn't take them */
        bool never;              /* set by the owner */
    } batches;
    /* Of the end. */
    bool parting;
    pthread_mutex_t *mutex;
    pthread_t farewell;
    dlk_thread_role role;
};

/* Loads what it needs. */
dlock_err dlk_etcd_calls_need(dlock_error **err);
/* dlk_link_aim, start, arm, push, pull and the rest are called on its link. */
void dlk_etcd_calls_init(dlk_etcd_calls *calls, dlk_link_common *common,
                         const dlk_etcd_calls_ops *owner);
/* The end: what is under way is over, as CUT, and the connection ends; behind the answer to this last call, or
 * half a second, in a thread of its own, which has @p mutex, the client's, as any driver: a server doesn't carry
 * out what was asked on a connection that is closed. @p call may be NULL. Nobody else may drive, then or later. */
void dlk_etcd_calls_part(dlk_etcd_calls *calls, dlk_etcd_call *call,
                         pthread_mutex_t *mutex, int64_t now);
/* Without the mutex: waits for the farewell, or the link is stopped; frees what is left. */
void dlk_etcd_calls_free(dlk_etcd_calls *calls);

/* Takes the call over, with method, request and timeout_ms, until it comes out of `take`. */
void dlk_etcd_calls_send(dlk_etcd_calls *calls, dlk_etcd_call *call, int64_t now);
/* Nobody wants to know any more: it comes out, too, as CUT. */
void dlk_etcd_calls_drop(dlk_etcd_calls *calls, dlk_etcd_call *call);
/* One that is over; NULL: no other is. */
dlk_etcd_call *dlk_etcd_calls_take(dlk_etcd_calls *calls);
/* Its request wasn't answered, or was refused: it can be sent once more. */
void dlk_etcd_call_reset(dlk_etcd_call *call);
void dlk_etcd_call_free(dlk_etcd_call *call);

/* Ends what has taken too long. Returns when to call it again; the link's tick is apart. */
int64_t dlk_etcd_calls_tick(dlk_etcd_calls *calls, int64_t now);
/* The present token isn't good any more: all watches are over, as CUT, and the next ones begin anew. */
void dlk_etcd_calls_end_watches(dlk_etcd_calls *calls, const char *why);

/* ---- status.c ---- */
/* What a call comes to that ended with this status, and the server's words for it. */
dlk_etcd_end dlk_etcd_end_of(int status, const char *words);
/* What one comes to that watches and is refused: that has words only. */
dlk_etcd_end dlk_etcd_refused_watch(const char *words);
const char *dlk_etcd_status_name(int status);

#endif
