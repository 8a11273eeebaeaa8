/* A client of HTTP/2 and its peer; see the header. */
#include "http2_world.h"

#include <stdio.h>

struct http2_world w;

/* ---- what is told ---- */

static ask *ask_of(dlk_http2_request *request)
{
    return (ask *)(void *)request;
}

static void add(ask *of, const char *text, size_t size)
{
    size_t used = strlen(of->said), room = sizeof(of->said) - used - 1;
    size = size < room ? size : room;
    memcpy(of->said + used, text, size);
    of->said[used + size] = '\0';
}

static void on_header(dlk_http2_request *request, const char *name, const char *value)
{
    ask *of = ask_of(request);
    add(of, name, strlen(name));
    add(of, "=", 1);
    add(of, value, strlen(value));
    add(of, " ", 1);
}

static bool on_data(dlk_http2_request *request, const char *data, size_t size)
{
    ask *of = ask_of(request);
    of->size += size;
    add(of, "|", 1);
    add(of, data, size);
    return !of->most || of->size <= of->most;
}

static void on_over(dlk_http2_request *request, dlk_http2_outcome outcome, uint32_t code)
{
    ask *of = ask_of(request);
    of->overs++;
    of->outcome = outcome;
    of->code = code;
}

static const dlk_http2_ops ops = {.header = on_header, .data = on_data, .over = on_over};

/* ---- set-up ---- */

bool talk(void)
{
    bool goes_on = true;
    do {
        peer_hear(&w.peer, &w.out);
        goes_on = dlk_http2_feed(&w.http2, dlk_buf_head(&w.peer.out),
                                 dlk_buf_size(&w.peer.out));
        dlk_buf_eat(&w.peer.out, dlk_buf_size(&w.peer.out));
    } while (goes_on && dlk_buf_size(&w.out) > 0);
    return goes_on;
}

bool begin(void)
{
    memset(&w, 0, sizeof(w));
    peer_begin(&w.peer);
    bool fine =
        dlk_http2_need(NULL) == DLOCK_OK && dlk_http2_begin(&w.http2, &ops, &w.out);
    return harness_check(__FILE__, __LINE__, fine, "a session");
}

bool greeted(void)
{
    if (!begin())
        return false;
    peer_frame(&w.peer, NGHTTP2_SETTINGS, 0, 0, "", 0);
    bool fine = talk() && w.http2.settled && w.peer.greeted && w.peer.acks == 1;
    return harness_check(__FILE__, __LINE__, fine, "both have greeted");
}

void end(void)
{
    dlk_http2_end(&w.http2);
    for (int i = 0; i < STREAMS; i++)
        CHECK(!dlk_http2_is_open(&w.asks[i].request));
    CHECK(!w.peer.broken);
    peer_end(&w.peer);
    dlk_buf_free(&w.out);
}

const dlk_http2_header headers[4] = {{":method", "POST", .lasts = true},
                                     {":scheme", "http", .lasts = false},
                                     {":path", "/a", .lasts = true},
                                     {":authority", "there", .lasts = false}};

bool send_with(ask *of, const char *body, size_t size, bool last)
{
    of->request.last = last;
    return dlk_buf_append(&of->request.body, body, size) &&
           dlk_http2_ask(&w.http2, &of->request, headers, 4);
}

bool asked(ask *of, const char *body)
{
    return send_with(of, body, strlen(body), true) && talk();
}

const char *heard(int stream)
{
    static char text[64];
    const peer_request *request = peer_find(&w.peer, stream);
    snprintf(text, sizeof(text), "%.*s", request ? (int)dlk_buf_size(&request->body) : 0,
             request && request->body.data ? dlk_buf_head(&request->body) : "");
    return text;
}

void answer(int stream, const char *body)
{
    peer_headers(&w.peer, 0, stream, ":status=200");
    peer_data(&w.peer, 0, stream, body, strlen(body));
    peer_headers(&w.peer, NGHTTP2_FLAG_END_STREAM, stream, "grpc-status=0");
}
