/* The other side of HTTP/2; see the header. Frames are put together here, field by field; only the client's
 * header blocks need a table, which is libnghttp2's. */
#include "http2_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(bool fine)
{
    if (!fine)
        abort(); /* no memory: of the test's, not of what it tests */
}

/* ---- what it says ---- */

static void put_number(unsigned char *to, uint32_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (unsigned char)(number >> 8 * (size - 1 - i));
}

void peer_frame(peer *p, int type, int flags, int stream, const void *data, size_t size)
{
    unsigned char head[HTTP2_HEAD];
    put_number(head, (uint32_t)size, 3);
    head[3] = (unsigned char)type;
    head[4] = (unsigned char)flags;
    put_number(head + 5, (uint32_t)stream, 4);
    need(dlk_buf_append(&p->out, head, HTTP2_HEAD) &&
         dlk_buf_append(&p->out, data, size));
}

/* RFC 7541, 5.1: with seven bits in the first byte. */
static size_t put_string(unsigned char *to, const char *text, size_t size)
{
    size_t used = 0, rest = size;
    if (size < 127) {
        to[used++] = (unsigned char)size;
    } else {
        to[used++] = 127;
        for (rest = size - 127; rest >= 128; rest >>= 7)
            to[used++] = (unsigned char)(rest | 128);
        to[used++] = (unsigned char)rest;
    }
    memcpy(to + used, text, size);
    return used + size;
}

size_t peer_block(const char *fields, unsigned char *to, size_t room)
{
    size_t used = 0;
    while (*fields) {
        size_t name = strcspn(fields, "="), value = strcspn(fields + name + 1, " ");
        need(used + name + value + 16 < room);
        to[used++] = 0; /* literal, isn't put into a table */
        used += put_string(to + used, fields, name);
        used += put_string(to + used, fields + name + 1, value);
        fields += name + 1 + value;
        fields += *fields == ' ';
    }
    return used;
}

void peer_headers(peer *p, int flags, int stream, const char *fields)
{
    static unsigned char block[65536];
    peer_frame(p, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, stream, block,
               peer_block(fields, block, sizeof(block)));
}

void peer_data(peer *p, int flags, int stream, const char *data, size_t size)
{
    peer_frame(p, NGHTTP2_DATA, flags, stream, data, size);
}

void peer_setting(peer *p, int what, uint32_t value)
{
    unsigned char entry[6];
    put_number(entry, (uint32_t)what, 2);
    put_number(entry + 2, value, 4);
    peer_frame(p, NGHTTP2_SETTINGS, 0, 0, entry, sizeof(entry));
}

void peer_number(peer *p, int type, int stream, uint32_t number)
{
    unsigned char bytes[4];
    put_number(bytes, number, sizeof(bytes));
    peer_frame(p, type, 0, stream, bytes, sizeof(bytes));
}

void peer_goaway(peer *p, int last_stream, uint32_t code)
{
    unsigned char bytes[8];
    put_number(bytes, (uint32_t)last_stream, 4);
    put_number(bytes + 4, code, 4);
    peer_frame(p, NGHTTP2_GOAWAY, 0, 0, bytes, sizeof(bytes));
}

/* ---- what it hears ---- */

peer_request *peer_find(peer *p, int stream)
{
    for (int i = 0; i < p->count; i++)
        if (p->requests[i].stream == stream)
            return &p->requests[i];
    return NULL;
}

void peer_forget(peer *p, peer_request *request)
{
    dlk_buf_free(&request->body);
    *request = p->requests[--p->count];
}

static void hear_headers(peer *p, int stream, const unsigned char *block, size_t size)
{
    need(p->count < PEER_REQUESTS);
    peer_request *request = &p->requests[p->count++];
    *request = (peer_request){.stream = stream};
    p->broken =
        !http2_fields(p->inflater, block, size, request->fields, sizeof(request->fields));
}

static void hear_frame(peer *p, const http2_frame *frame)
{
    int type = frame->type, flags = frame->flags, stream = frame->stream;
    const unsigned char *data = frame->data;
    size_t size = frame->size;
    if (type == NGHTTP2_HEADERS)
        hear_headers(p, stream, data, size);
    peer_request *request = peer_find(p, stream);
    bool of_stream = type == NGHTTP2_HEADERS || type == NGHTTP2_DATA ||
                     type == NGHTTP2_RST_STREAM || type == NGHTTP2_CONTINUATION;
    if (of_stream && !request) {
        p->broken = true;
        return;
    }
    if (type == NGHTTP2_DATA)
        need(dlk_buf_append(&request->body, data, size));
    if (type == NGHTTP2_RST_STREAM) {
        request->reset = true;
        request->code = http2_number(data, 4);
    }
    if ((type == NGHTTP2_DATA || type == NGHTTP2_HEADERS) &&
        flags & NGHTTP2_FLAG_END_STREAM)
        request->ended = true;
    p->acks += type == NGHTTP2_SETTINGS && flags & NGHTTP2_FLAG_ACK;
    p->pongs += type == NGHTTP2_PING && flags & NGHTTP2_FLAG_ACK;
    p->windows += type == NGHTTP2_WINDOW_UPDATE;
    if (type == NGHTTP2_SETTINGS && !(flags & NGHTTP2_FLAG_ACK))
        peer_frame(p, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "", 0);
    if (type == NGHTTP2_GOAWAY) {
        p->says_bye = true;
        p->bye = http2_number(data + 4, 4);
    }
}

void peer_hear(peer *p, dlk_buf *from)
{
    if (dlk_buf_size(from) == 0)
        return;
    need(dlk_buf_append(&p->heard, dlk_buf_head(from), dlk_buf_size(from)));
    dlk_buf_eat(from, dlk_buf_size(from));
    if (!p->greeted) {
        if (dlk_buf_size(&p->heard) < HTTP2_PREFACE)
            return;
        p->greeted = true;
        p->broken = memcmp(dlk_buf_head(&p->heard), http2_preface, HTTP2_PREFACE) != 0;
        dlk_buf_eat(&p->heard, HTTP2_PREFACE);
    }
    http2_frame frame;
    while (!p->broken &&
           http2_frame_read(dlk_buf_head(&p->heard), dlk_buf_size(&p->heard), &frame)) {
        hear_frame(p, &frame);
        dlk_buf_eat(&p->heard, HTTP2_HEAD + frame.size);
    }
}

/* ---- beginning and end ---- */

void peer_begin(peer *p)
{
    memset(p, 0, sizeof(*p));
    need(nghttp2_hd_inflate_new(&p->inflater) == 0);
}

void peer_end(peer *p)
{
    nghttp2_hd_inflate_del(p->inflater);
    dlk_buf_free(&p->heard);
    dlk_buf_free(&p->out);
    for (int i = 0; i < p->count; i++)
        dlk_buf_free(&p->requests[i].body);
}
