/*
 * gRPC on one connection of HTTP/2: calls of one message each way, and calls that stream, many of them at
 * once. What has come of them is taken out one by one, when everything that came has been fed. Messages are
 * bytes here, and the time that a call may take is its owner's.
 */
#ifndef DLK_NET_GRPC_H
#define DLK_NET_GRPC_H

#include "net/http2.h"

typedef struct dlk_grpc dlk_grpc;

/* gRPC's codes, by their numbers; and of a call that has none. */
enum {
    DLK_GRPC_NONE = -1,
    DLK_GRPC_OK = 0,
    DLK_GRPC_CANCELLED = 1,
    DLK_GRPC_UNKNOWN = 2,
    DLK_GRPC_INVALID_ARGUMENT = 3,
    DLK_GRPC_DEADLINE_EXCEEDED = 4,
    DLK_GRPC_NOT_FOUND = 5,
    DLK_GRPC_ALREADY_EXISTS = 6,
    DLK_GRPC_PERMISSION_DENIED = 7,
    DLK_GRPC_RESOURCE_EXHAUSTED = 8,
    DLK_GRPC_FAILED_PRECONDITION = 9,
    DLK_GRPC_ABORTED = 10,
    DLK_GRPC_OUT_OF_RANGE = 11,
    DLK_GRPC_UNIMPLEMENTED = 12,
    DLK_GRPC_INTERNAL = 13,
    DLK_GRPC_UNAVAILABLE = 14,
    DLK_GRPC_DATA_LOSS = 15,
    DLK_GRPC_UNAUTHENTICATED = 16,
};

typedef struct dlk_grpc_call {
    dlk_http2_request request; /* first */
    dlk_grpc *grpc;
    bool streams; /* it is told of each message, not at its end only */
    bool secret;  /* what it says is kept out of core dumps, and wiped */

    dlk_list news;   /* in dlk_grpc.news: something has come */
    dlk_buf in;      /* what has come and wasn't taken … */
    size_t taken;    /* … but for what was taken last, which is lent */
    int http;        /* HTTP's status; 0: it wasn't answered */
    int status;      /* when it is over: gRPC's, or NONE if it was broken off */
    char words[200]; /* what the server says to that */
    bool over;
    bool undone; /* … and certainly nothing was done */
    bool no_memory;
} dlk_grpc_call;

struct dlk_grpc {
    dlk_http2 http2;
    const char *scheme, *authority; /* lent until its end: "http", "host:port" */
    dlk_list news;
    size_t held; /* bytes in all `in` */
};

/* What is behind a call's last message. */
typedef enum dlk_grpc_got {
    DLK_GRPC_MESSAGE,
    DLK_GRPC_NOTHING, /* none that is complete */
    DLK_GRPC_BAD,     /* what isn't a message */
} dlk_grpc_got;

/* As dlk_http2_begin. */
bool dlk_grpc_begin(dlk_grpc *grpc, const char *scheme, const char *authority,
                    dlk_buf *out);
/* All calls are over, and stand in the news. */
void dlk_grpc_end(dlk_grpc *grpc);
/* As dlk_http2_feed. What has come of calls is in the news then. */
static inline bool dlk_grpc_feed(dlk_grpc *grpc, const char *data, size_t size)
{
    return dlk_http2_feed(&grpc->http2, data, size);
}
/* A call of which something has come, each once; NULL: there is no other. */
dlk_grpc_call *dlk_grpc_next(dlk_grpc *grpc);

/* Begins it, with its first message: "/package.Service/Method", which is lent until the connection's end, and who
 * we are (NULL: nobody). One that streams may say more. False: not sent, see dlk_http2_ask, and it is as one that
 * was dropped. The call is the caller's, who must drop it before its memory goes; it must be all zero but for what
 * it is, or have been dropped. */
bool dlk_grpc_ask(dlk_grpc *grpc, dlk_grpc_call *call, const char *path,
                  const char *token, const void *message, size_t size);
/* One message more, of one that streams. False without memory, or as long as the server doesn't take what was
 * said before. */
bool dlk_grpc_say(dlk_grpc_call *call, const void *message, size_t size);
/* The next message of the answer, lent until the next call for it. */
dlk_grpc_got dlk_grpc_take(dlk_grpc_call *call, const char **ret_message,
                           size_t *ret_size);
/* Nobody wants to know any more; what it has is freed. Of one that is over, too. */
void dlk_grpc_drop(dlk_grpc_call *call);

#endif
