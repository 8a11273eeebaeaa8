/*
 * HTTP/2 on one connection, the client's side (RFC 9113), by libnghttp2: requests on streams of their
 * own, many at once, each of which may be long. It does no I/O: what it has to say is appended to a
 * buffer, what has come is fed to it. Everything happens under the owner's mutex.
 *
 * A server may be hostile. What it makes us keep is bounded (see http2.c), and what breaks the rules, or
 * says nothing at length, ends the connection.
 */
#ifndef DLK_NET_HTTP2_H
#define DLK_NET_HTTP2_H

#include "nghttp2_calls.h"
#include "util/buf.h"
#include "util/list.h"

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_http2_request dlk_http2_request;

/* How a request can end. */
typedef enum dlk_http2_outcome {
    DLK_HTTP2_ANSWERED, /* the server has said all that it wanted to */
    DLK_HTTP2_UNDONE, /* it was refused before anything of it was done, or hasn't been sent */
    DLK_HTTP2_BROKEN, /* it was broken off, or the connection was: done or not */
} dlk_http2_outcome;

/* What comes of requests. It is told from inside of what stands below: who hears it takes notes, and calls
 * nothing of this header. */
typedef struct dlk_http2_ops {
    /* Of the answer, ":status" first, or of its trailer. */
    void (*header)(dlk_http2_request *request, const char *name, const char *value);
    /* False: this is too much, and the request is broken off. */
    bool (*data)(dlk_http2_request *request, const char *data, size_t size);
    /* Nothing more comes. @p code: RFC 9113, 7, of one that was broken off by the server. */
    void (*over)(dlk_http2_request *request, dlk_http2_outcome outcome, uint32_t code);
} dlk_http2_ops;

struct dlk_http2_request {
    dlk_list link; /* among those that are open */
    int32_t stream;
    dlk_buf body; /* what isn't sent yet */
    bool last;    /* nothing comes behind it */
    bool waits;   /* … for more of it */
    bool answered, too_much;
};

typedef struct dlk_http2 {
    const dlk_http2_ops *ops;
    dlk_buf *out;
    nghttp2_session *session; /* NULL: not begun, or over */
    dlk_list requests;
    bool settled; /* the server has greeted */
    bool leaves;  /* … and takes no more requests */
    bool failed;
    size_t idle;    /* bytes that said nothing, less those that did */
    size_t late;    /* … that may come on streams which were broken off */
    size_t headers; /* bytes of the present block */
    dlock_err code; /* why it has failed … */
    char why[128];  /* … in words that go behind "host:port: " */
} dlk_http2;

typedef struct dlk_http2_header {
    const char *name, *value;
    bool lasts; /* both are there as long as the connection is: they aren't copied */
} dlk_http2_header;

/* Loads the library. */
static inline dlock_err dlk_http2_need(dlock_error **err)
{
    return dlk_loaded_need(&dlk_nghttp2, err);
}

/* Of a new connection: appends our greeting to @p out. False without memory, and then there is nothing to
 * end. */
bool dlk_http2_begin(dlk_http2 *http2, const dlk_http2_ops *ops, dlk_buf *out);
/* The connection is over: all requests are, too. Again is fine. */
void dlk_http2_end(dlk_http2 *http2);
/* Takes what has come, and appends what that asks for. False: the connection has to end, `code` and `why` say
 * why. */
bool dlk_http2_feed(dlk_http2 *http2, const char *data, size_t size);

/* Asks, with what is in request->body. False: nothing was sent, and it isn't open: the connection takes no
 * more (`leaves`), has failed, or there is no memory. What the server doesn't want to have at once waits until
 * others have ended. Whatever fails later is seen at `failed`, here and below, and the connection has to end. */
bool dlk_http2_ask(dlk_http2 *http2, dlk_http2_request *request,
                   const dlk_http2_header *headers, size_t count);
/* `body` has grown, or `last` is set. */
void dlk_http2_more(dlk_http2 *http2, dlk_http2_request *request);
/* Nobody wants to know any more: it is broken off, and is told nothing. */
void dlk_http2_drop(dlk_http2 *http2, dlk_http2_request *request);

static inline bool dlk_http2_is_open(const dlk_http2_request *request)
{
    return request->stream > 0;
}

#endif
