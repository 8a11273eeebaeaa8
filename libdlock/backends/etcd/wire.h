/*
 * HTTP to one member of the cluster, by libcurl: calls are put in, and come out when they are over.
 *
 * A multi handle is nobody's in particular, but one thread's at a time: that of whoever has `io`.
 * The driver has it while it sleeps. Who puts a call in when nobody sleeps tries for `io` and
 * writes for himself; else the sleeper is kicked. `mail` guards the lists between them, for a
 * moment only, and is taken with or without the client's mutex; `io` is never waited for with it.
 */
#ifndef DLK_BACKENDS_ETCD_WIRE_H
#define DLK_BACKENDS_ETCD_WIRE_H

#include "curl_calls.h"
#include "jansson_calls.h"
#include "net/kicks.h"
#include "net/socket.h"
#include "util/buf.h"
#include "util/list.h"
#include "util/settings.h"
#include "util/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dlk_etcd_call dlk_etcd_call;
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
    dlk_list link; /* outbox, going or inbox: `mail`, `io`, `mail` */

    /* what is asked */
    const char *path; /* static: "/v3/kv/txn" */
    char *body;
    char *token;        /* of authentication, or NULL */
    int64_t timeout_ms; /* 0: none, for one that watches */
    bool watch;         /* is over as soon as anything happens to what it watches */

    /* for whoever asked */
    dlk_etcd_done *done, *then;
    void *owner;
    int64_t sent_at; /* when it was put in, which is before it goes out */
    uint32_t epoch;
    int64_t lease; /* the session's at that time */
    bool asked;    /* somebody's ask waits for it, and drives */
    bool again;    /* it has been sent once more with a new token */
    bool dropped;  /* nobody waits for it: client's mutex */
    _Atomic bool unwanted;

    /* what came of it */
    CURL *easy;
    struct curl_slist *headers; /* its own, with its token */
    CURLcode code;
    long status;
    bool fired;                /* a watch has seen something */
    bool no_memory;            /* … for the answer */
    bool begun;                /* the request may have been sent … */
    bool cut;                  /* … and the connection was cut behind it */
    char why[CURL_ERROR_SIZE]; /* libcurl's words; from its end on ours (failure.c) */
    dlk_buf answer;
    size_t looked; /* a watch: so much of it has no end of a line */
    json_t *json;  /* or NULL */
    dlk_etcd_end end;
    int64_t term, revision; /* of the answer's header; 0: it had none */
};

/* Where to; never changed while it is in use. */
typedef struct dlk_etcd_way {
    char *url;                  /* "https://host:2379" */
    struct curl_slist *resolve; /* a name's addresses, looked up before */
    struct curl_slist *headers; /* of a call without a token */
    char *key_password;         /* a secret */
} dlk_etcd_way;

/* A call under way has one socket, or while it connects maybe one of either family. */
#define DLK_ETCD_SOCKS 320

typedef struct dlk_etcd_sock {
    int fd;
    short events; /* what libcurl waits for */
    int polled;   /* its place in the present sleep, or -1 */
} dlk_etcd_sock;

typedef struct dlk_etcd_wire {
    const dlk_settings *settings; /* lent, fixed */
    bool tls;

    pthread_mutex_t mail; /* guards: */
    dlk_list outbox, inbox;
    dlk_etcd_way *next; /* to be taken instead of `way`, or NULL */
    bool leave;         /* what is under way on the present one is to end */
    bool drop;          /* some that are under way are unwanted */

    pthread_mutex_t io; /* guards: */
    CURLM *multi;
    dlk_etcd_way *way;
    dlk_list going;
    CURL *spare[32];
    size_t spare_count;
    dlk_ending ending; /* of the sockets that libcurl closes now */

    dlk_etcd_sock socks[DLK_ETCD_SOCKS]; /* with `io` */
    size_t sock_count;

    dlk_kicks *kicks; /* the driver's */
    _Atomic int64_t bytes_sent, bytes_received;
    pthread_t farewell;
    dlk_thread_role role;
    bool parting;
} dlk_etcd_wire;

dlock_err dlk_etcd_wire_init(dlk_etcd_wire *wire, const dlk_settings *settings, bool tls,
                             dlk_kicks *kicks, dlock_error **err);
/* No other thread is in it; waits for the farewell. */
void dlk_etcd_wire_free(dlk_etcd_wire *wire);
/* Everything under way ends as CUT; what is sent from now on goes there. NULL: nowhere. */
void dlk_etcd_wire_go(dlk_etcd_wire *wire, dlk_etcd_way *way);
/* way.c: with what it is reached by. */
void dlk_etcd_way_free(dlk_etcd_way *way);

/* Takes the call over; it comes back by the inbox. */
void dlk_etcd_wire_send(dlk_etcd_wire *wire, dlk_etcd_call *call);
/* Ends a call whose outcome nobody wants; it comes back, too. */
void dlk_etcd_wire_drop(dlk_etcd_wire *wire, dlk_etcd_call *call);
/* Takes out what is over. */
void dlk_etcd_wire_take(dlk_etcd_wire *wire, dlk_list *ret);
void dlk_etcd_call_free(dlk_etcd_call *call);
/* failure.c: puts into call->why what became of it, while its handle is there. */
void dlk_etcd_explain(const dlk_etcd_wire *wire, dlk_etcd_call *call);
/* handle.c: one that is set up for this wire, io held; NULL without memory. */
CURL *dlk_etcd_handle_new(dlk_etcd_wire *wire);
/* libcurl's: a piece of the answer has come. Here for the tests. */
size_t dlk_etcd_call_hears(char *data, size_t one, size_t size, void *user);

/* The driver's, without the client's mutex: push writes, and says what to sleep on; pull reads. In
 * between the caller has `io`. */
void dlk_etcd_wire_push(dlk_etcd_wire *wire, dlk_polls *polls);
void dlk_etcd_wire_pull(dlk_etcd_wire *wire, const dlk_polls *polls);
/* Without it, too: writes what is to be written, unless somebody sleeps, who is told to. True when
 * something is over already. */
bool dlk_etcd_wire_flush(dlk_etcd_wire *wire);
/* A thread of its own says this one thing, waits for the answer a moment, and ends it all. Nobody
 * else may be inside, then or later. @p call may be NULL. */
void dlk_etcd_wire_part(dlk_etcd_wire *wire, dlk_etcd_call *call);

#endif
