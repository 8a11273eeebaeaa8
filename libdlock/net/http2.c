/*
 * HTTP/2, the client's side; see the header.
 *
 * What a server can make us keep: libnghttp2 keeps no more of a block of headers than the one field that it
 * decodes (64 KiB), a table of 4 KiB and what stands for a stream that we have opened; bodies are the
 * owner's, who says when it is enough. Whatever else comes (pings, settings, windows, headers before
 * headers, empty pieces) is answered or passed over; but only as long as it is little compared with what
 * was asked and with the bodies that came, or else the connection ends. So neither the answers to pings
 * pile up in `out` nor does a server keep us busy for nothing.
 *
 * Windows are given back as data comes: what has come is the owner's at once, and isn't held up here.
 */
#include "net/http2.h"

#include "util/error.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* An answer of this size needs no round trip within. */
#define WINDOW     (1 << 20)
#define WINDOW_ALL (4 << 20)
/* Of one block, decoded. */
#define HEADERS_MAX 16384
/* Bytes that say nothing: so many in a row, and so many a request, which are taken off when it has ended. */
#define IDLE_MAX ((size_t)64 << 10)
#define IDLE_ASK ((size_t)2 << 10)
/* What it hasn't read of ours by then it doesn't want to. */
#define OUT_MAX     ((size_t)8 << 20)
#define FRAME_BYTES 9
#define HEADERS_FEW 16

/* ---- failure ---- */

static void fail(dlk_http2 *http2, dlock_err code, const char *why)
{
    if (http2->failed)
        return;
    http2->failed = true;
    http2->code = code;
    snprintf(http2->why, sizeof(http2->why), "%s", why);
}

/* By a number of libnghttp2's own. */
static void fail_by(dlk_http2 *http2, int number)
{
    if (number == NGHTTP2_ERR_NOMEM)
        fail(http2, DLOCK_ENOMEM, "out of memory");
    else
        fail(http2, DLOCK_EPROTO, "it breaks the rules of HTTP/2");
}

/* We have ended it, by a GOAWAY that is under way: something was against the rules, or there was no memory for it. */
static void fail_rules(dlk_http2 *http2, uint32_t code)
{
    char why[sizeof(http2->why)];
    if (code ==
        NGHTTP2_INTERNAL_ERROR) { /* which is all that can fail in libnghttp2 itself */
        fail_by(http2, NGHTTP2_ERR_NOMEM);
        return;
    }
    snprintf(why, sizeof(why), "it breaks the rules of HTTP/2 (%s)",
             nghttp2_http2_strerror(code));
    fail(http2, DLOCK_EPROTO,
         http2->settled ? why : "it doesn't answer in HTTP/2: is it the right port?");
}

/* ---- requests ---- */

static dlk_http2_request *request_of(dlk_http2 *http2, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(http2->session, stream);
}

static void end_request(dlk_http2 *http2, dlk_http2_request *request,
                        dlk_http2_outcome outcome, uint32_t code)
{
    http2->idle -= IDLE_ASK < http2->idle ? IDLE_ASK : http2->idle;
    dlk_list_remove(&request->link);
    request->stream = 0;
    request->waits = false;
    dlk_buf_free(&request->body);
    http2->ops->over(request, outcome, code);
}

/* What is on its way there goes on to come, and nobody is to blame. */
static int break_off(dlk_http2 *http2, int32_t stream)
{
    http2->late += WINDOW;
    if (http2->late > WINDOW_ALL)
        http2->late = WINDOW_ALL;
    return nghttp2_submit_rst_stream(http2->session, NGHTTP2_FLAG_NONE, stream,
                                     NGHTTP2_CANCEL);
}

/* Whether more has come for nothing than has to be borne. */
static bool is_flood(dlk_http2 *http2)
{
    if (http2->idle > IDLE_MAX) {
        size_t late = http2->late < http2->idle ? http2->late : http2->idle;
        http2->late -= late;
        http2->idle -= late;
    }
    return http2->idle > IDLE_MAX;
}

/* ---- what libnghttp2 calls ---- */

static int on_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    dlk_http2 *http2 = user;
    (void)session, (void)frame;
    http2->headers = 0;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
                     const uint8_t *name, size_t name_size, const uint8_t *value,
                     size_t value_size, uint8_t flags, void *user)
{
    dlk_http2 *http2 = user;
    (void)session, (void)flags;
    http2->headers += name_size + value_size;
    if (http2->headers > HEADERS_MAX) {
        fail(http2, DLOCK_EPROTO, "its headers are too long");
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    dlk_http2_request *request = request_of(http2, frame->hd.stream_id);
    if (request) /* there is a '\0' behind both, and none in them */
        http2->ops->header(request, (const char *)name, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream,
                   const uint8_t *data, size_t size, void *user)
{
    dlk_http2 *http2 = user;
    (void)session, (void)flags;
    http2->idle -= size < http2->idle ? size : http2->idle;
    dlk_http2_request *request = request_of(http2, stream);
    if (!request || request->too_much ||
        http2->ops->data(request, (const char *)data, size))
        return 0;
    request->too_much = true;
    return break_off(http2, stream) == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* The server says no more. Is there more for us to say, nobody wants to hear it. */
static int on_answered(dlk_http2 *http2, int32_t stream)
{
    dlk_http2_request *request = request_of(http2, stream);
    if (!request)
        return 0;
    request->answered = true;
    if (request->last && dlk_buf_size(&request->body) == 0)
        return 0; /* it is closed by itself */
    return nghttp2_submit_rst_stream(http2->session, NGHTTP2_FLAG_NONE, stream,
                                     NGHTTP2_NO_ERROR) == 0
               ? 0
               : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_received(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    dlk_http2 *http2 = user;
    (void)session;
    bool answers = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (answers && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        return on_answered(http2, frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_SETTINGS)
        http2->settled = true; /* no answer to ours comes before its own */
    if (frame->hd.type == NGHTTP2_GOAWAY)
        http2->leaves = true;
    return 0;
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY) /* we say that for one reason only */
        fail_rules(user, frame->goaway.error_code);
    return 0;
}

/* It stood in the line of those that the server doesn't want yet. */
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int why,
                       void *user)
{
    dlk_http2 *http2 = user;
    int32_t stream = frame->hd.stream_id;
    dlk_http2_request *request = request_of(http2, stream);
    (void)why;
    if (frame->hd.type != NGHTTP2_HEADERS || !request)
        return 0;
    (void)nghttp2_session_set_stream_user_data(session, stream,
                                               NULL); /* it is closed next */
    end_request(http2, request, DLK_HTTP2_UNDONE, 0);
    return 0;
}

static int on_closed(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    dlk_http2 *http2 = user;
    (void)session;
    dlk_http2_request *request = request_of(http2, stream);
    if (!request)
        return 0;
    dlk_http2_outcome outcome = request->answered                ? DLK_HTTP2_ANSWERED
                                : code == NGHTTP2_REFUSED_STREAM ? DLK_HTTP2_UNDONE
                                                                 : DLK_HTTP2_BROKEN;
    end_request(http2, request, outcome, code);
    return 0;
}

/* How much of a body goes next; it is put into `out` below, past libnghttp2: it may be a password. */
static ssize_t offer_body(nghttp2_session *session, int32_t stream,
                          uint8_t *to, /* NOLINT(readability-non-const-parameter) */
                          size_t room, uint32_t *flags, nghttp2_data_source *source,
                          void *user)
{
    dlk_http2_request *request = request_of(user, stream);
    (void)session, (void)to, (void)source;
    if (!request)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t size = dlk_buf_size(&request->body);
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (size <= room && request->last)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    request->waits = size == 0 && !request->last;
    if (request->waits)
        return NGHTTP2_ERR_DEFERRED;
    return (ssize_t)(size < room ? size : room);
}

static int put_body(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                    size_t size, nghttp2_data_source *source, void *user)
{
    dlk_http2 *http2 = user;
    dlk_http2_request *request = request_of(http2, frame->hd.stream_id);
    (void)session, (void)source;
    bool hides = request && request->body.hidden;
    bool there = request && (!hides || dlk_buf_hide(http2->out, FRAME_BYTES + size));
    /* It has no padding. */
    char *room = there ? dlk_buf_room(http2->out, FRAME_BYTES + size) : NULL;
    if (!room) {
        fail_by(http2, NGHTTP2_ERR_NOMEM);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    memcpy(room, head, FRAME_BYTES);
    if (size > 0)
        memcpy(room + FRAME_BYTES, dlk_buf_head(&request->body), size);
    dlk_buf_added(http2->out, FRAME_BYTES + size);
    dlk_buf_eat(&request->body, size);
    return 0;
}

/* ---- out ---- */

/* What there is to say goes into `out`. */
static bool pump(dlk_http2 *http2)
{
    const uint8_t *data;
    ssize_t size = 0;
    while (!http2->failed && (size = nghttp2_session_mem_send(http2->session, &data)) > 0)
        if (!dlk_buf_append(http2->out, data, (size_t)size))
            fail_by(http2, NGHTTP2_ERR_NOMEM);
    if (size < 0)
        fail_by(http2, (int)size);
    return !http2->failed;
}

/* ---- beginning and end ---- */

static nghttp2_session *session_new(dlk_http2 *http2)
{
    nghttp2_session *session = NULL;
    nghttp2_session_callbacks *calls;
    if (nghttp2_session_callbacks_new(&calls) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_headers);
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_received);
    nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_sent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(calls, on_not_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_closed);
    nghttp2_session_callbacks_set_send_data_callback(calls, put_body);
    if (nghttp2_session_client_new(&session, calls, http2) != 0)
        session = NULL;
    nghttp2_session_callbacks_del(calls);
    return session;
}

static bool greet(const dlk_http2 *http2)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
    };
    return nghttp2_submit_settings(http2->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof(settings) / sizeof(*settings)) == 0 &&
           nghttp2_session_set_local_window_size(http2->session, NGHTTP2_FLAG_NONE, 0,
                                                 WINDOW_ALL) == 0;
}

bool dlk_http2_begin(dlk_http2 *http2, const dlk_http2_ops *ops, dlk_buf *out)
{
    *http2 = (dlk_http2){.ops = ops, .out = out};
    dlk_list_init(&http2->requests);
    http2->session = session_new(http2);
    if (http2->session && greet(http2) && pump(http2))
        return true;
    dlk_http2_end(http2);
    return false;
}

void dlk_http2_end(dlk_http2 *http2)
{
    dlk_list *link;
    if (!http2->session)
        return;
    nghttp2_session_del(http2->session); /* which tells nobody */
    http2->session = NULL;
    while ((link = dlk_list_take_first(&http2->requests)))
        end_request(http2, DLK_LIST_ITEM(link, dlk_http2_request, link), DLK_HTTP2_BROKEN,
                    NGHTTP2_NO_ERROR);
}

bool dlk_http2_feed(dlk_http2 *http2, const char *data, size_t size)
{
    if (!http2->session || http2->failed)
        return false;
    http2->idle += size; /* and less again by the bodies that are in it */
    ssize_t used = nghttp2_session_mem_recv(http2->session, (const uint8_t *)data, size);
    if (used < 0)
        fail_by(http2, (int)used);
    if (is_flood(http2))
        fail(http2, DLOCK_EPROTO, "it sends what says nothing, and no end of it");
    if (pump(http2) && dlk_buf_size(http2->out) > OUT_MAX)
        fail(http2, DLOCK_EPROTO, "it asks, and doesn't read what it is answered");
    return !http2->failed;
}

/* ---- requests ---- */

bool dlk_http2_ask(dlk_http2 *http2, dlk_http2_request *request,
                   const dlk_http2_header *headers, size_t count)
{
    nghttp2_nv fields[HEADERS_FEW];
    const nghttp2_data_provider body = {.read_callback = offer_body};
    assert(count <= HEADERS_FEW);
    request->stream = 0;
    request->waits = request->answered = request->too_much = false;
    if (!http2->session || http2->failed || http2->leaves)
        return false;
    for (size_t i = 0; i < count; i++)
        fields[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)headers[i].name,
                                 (uint8_t *)(uintptr_t)headers[i].value,
                                 strlen(headers[i].name), strlen(headers[i].value),
                                 headers[i].lasts ? NGHTTP2_NV_FLAG_NO_COPY_NAME |
                                                        NGHTTP2_NV_FLAG_NO_COPY_VALUE
                                                  : NGHTTP2_NV_FLAG_NONE};
    int32_t stream =
        nghttp2_submit_request(http2->session, NULL, fields, count, &body, request);
    if (stream < 0) {
        http2->leaves |= stream == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE;
        return false;
    }
    request->stream = stream;
    dlk_list_append(&http2->requests, &request->link);
    (void)pump(http2);
    return true;
}

void dlk_http2_more(dlk_http2 *http2, dlk_http2_request *request)
{
    if (!http2->session || http2->failed || !request->waits)
        return; /* it is looked at when there is room for it */
    request->waits = false;
    int number = nghttp2_session_resume_data(http2->session, request->stream);
    if (number != 0)
        fail_by(http2, number);
    (void)pump(http2);
}

void dlk_http2_drop(dlk_http2 *http2, dlk_http2_request *request)
{
    int32_t stream = request->stream;
    dlk_buf_free(&request->body);
    if (!dlk_http2_is_open(request))
        return;
    request->stream = 0;
    request->waits = false;
    dlk_list_remove(&request->link);
    if (http2->failed) /* that is over as it is */
        return;
    (void)nghttp2_session_set_stream_user_data(http2->session, stream, NULL);
    int number = break_off(http2, stream);
    if (number != 0)
        fail_by(http2, number);
    (void)pump(http2);
}
