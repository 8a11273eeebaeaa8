/* gRPC, as etcd has it: HTTP/2's frames, of which those of one stream belong together. A message of a client's
 * is a request once its last byte is there, and the first that its stream hears behind it is the answer: what
 * comes later, and the heads before it, are passed on beside that. A request's words are what it does (its
 * method, or the first that a transaction does: "put", "delete" or "look") and its path.
 *
 * Frames as no client of ours sends them (padded, headers in several) aren't taken apart. */
#include "net/http2_frames.h"
#include "proxy/framing.h"

#include <stdlib.h>
#include <string.h>

enum {
    FRAME_MAX = 16384, /* nobody asks for larger ones */
    MESSAGE_MAX = 16 << 20,
    PREFIX = 5, /* of a message: its size behind a flag */
    ODD = NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY
};

typedef struct call {
    struct call *next;
    int stream;
    char path[64];
    const char *verb;
    bool waits; /* for an answer */
    unsigned char *begun;
    size_t size; /* of a message that isn't whole */
} call;

typedef struct connection {
    nghttp2_hd_inflater *inflater;
    call *calls;
} connection;

/* ---- calls ---- */

static call *find(const connection *of, int stream)
{
    call *it = of->calls;
    while (it && it->stream != stream)
        it = it->next;
    return it;
}

static void drop(connection *of, int stream)
{
    call **at = &of->calls;
    while (*at && (*at)->stream != stream)
        at = &(*at)->next;
    call *it = *at;
    if (!it)
        return;
    *at = it->next;
    free(it->begun);
    free(it);
}

static void forget(void *state)
{
    connection *of = state;
    while (of->calls)
        drop(of, of->calls->stream);
    if (of->inflater)
        nghttp2_hd_inflate_del(of->inflater);
}

/* Without memory it has no name. */
static void begin_call(connection *of, const http2_frame *frame)
{
    char fields[4096];
    if (!of->inflater && nghttp2_hd_inflate_new(&of->inflater) != 0)
        return;
    if (!http2_fields(of->inflater, frame->data, frame->size, fields, sizeof(fields)))
        return;
    call *it = calloc(1, sizeof(*it));
    const char *path = strstr(fields, ":path=");
    if (!it || !path) {
        free(it);
        return;
    }
    path += strlen(":path=");
    *it = (call){.next = of->calls, .stream = frame->stream};
    size_t size = strcspn(path, " ");
    memcpy(it->path, path, size < sizeof(it->path) ? size : sizeof(it->path) - 1);
    it->verb = strrchr(it->path, '/') ? strrchr(it->path, '/') + 1 : it->path;
    of->calls = it;
}

/* ---- what a transaction does ---- */

/* A varint of up to 28 bits; false: there is none. */
static bool read_number(proxy_span *from, size_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; from->size > 0 && shift < 28; shift += 7) {
        unsigned char byte = (unsigned char)*from->at;
        from->at++;
        from->size--;
        *ret |= (size_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The first field of a message; all that there are here are messages themselves. */
static bool read_field(proxy_span *from, size_t *ret_number, proxy_span *ret)
{
    size_t tag, size;
    if (!read_number(from, &tag) || (tag & 7) != 2 || !read_number(from, &size) ||
        size > from->size)
        return false;
    *ret_number = tag >> 3;
    *ret = (proxy_span){from->at, size};
    from->at += size;
    from->size -= size;
    return true;
}

/* TxnRequest and RequestOp of libdlock/backends/etcd/rpc.proto. */
static const char *verb_of(proxy_span txn)
{
    static const char *const operations[] = {[1] = "look", [2] = "put", [3] = "delete"};
    enum { SUCCESS = 2 };
    size_t number, operation;
    proxy_span in, what;
    while (read_field(&txn, &number, &in))
        if (number == SUCCESS && read_field(&in, &operation, &what) && operation > 0 &&
            operation < sizeof(operations) / sizeof(*operations))
            return operations[operation];
    return "Txn";
}

/* ---- what a client says ---- */

/* Whole messages are taken out of it; whether there were any. */
static bool take_messages(call *it)
{
    bool any = false;
    size_t size;
    while (it->size >= PREFIX &&
           it->size - PREFIX >= (size = http2_number(it->begun + 1, 4))) {
        if (strcmp(it->path, "/etcdserverpb.KV/Txn") == 0)
            it->verb = verb_of((proxy_span){(const char *)it->begun + PREFIX, size});
        it->size -= PREFIX + size;
        memmove(it->begun, it->begun + PREFIX + size, it->size);
        any = true;
    }
    return any;
}

static bool hear_data(connection *of, const http2_frame *frame)
{
    call *it = find(of, frame->stream);
    if (!it || it->size + frame->size > MESSAGE_MAX)
        return false;
    unsigned char *grown = realloc(it->begun, it->size + frame->size + 1);
    if (!grown)
        return false;
    it->begun = grown;
    memcpy(it->begun + it->size, frame->data, frame->size);
    it->size += frame->size;
    bool asks = take_messages(it);
    it->waits |= asks;
    return asks;
}

static bool is_preface(const char *bytes)
{
    return bytes[0] == http2_preface[0]; /* no frame is so long */
}

static bool hear(void *state, const char *message, size_t size)
{
    http2_frame frame;
    if (is_preface(message) || !http2_frame_read(message, size, &frame))
        return false;
    if (frame.type == NGHTTP2_HEADERS)
        begin_call(state, &frame);
    else if (frame.type == NGHTTP2_RST_STREAM)
        drop(state, frame.stream);
    return frame.type == NGHTTP2_DATA && hear_data(state, &frame);
}

static int64_t stream_of(const char *message, size_t size)
{
    http2_frame frame;
    return http2_frame_read(message, size, &frame) ? frame.stream : 0;
}

static proxy_span find_word(const void *state, const char *request, size_t size,
                            int number)
{
    const call *it = find(state, (int)stream_of(request, size));
    if (!it || number > 1)
        return (proxy_span){NULL, 0};
    const char *word = number == 0 ? it->verb : it->path;
    return (proxy_span){word, strlen(word)};
}

/* ---- frames ---- */

static ssize_t measure(const char *bytes, size_t size)
{
    http2_frame frame;
    if (size >= 3 && http2_number((const unsigned char *)bytes, 3) > FRAME_MAX)
        return -1;
    if (!http2_frame_read(bytes, size, &frame))
        return 0;
    bool parted =
        frame.type == NGHTTP2_CONTINUATION ||
        (frame.type == NGHTTP2_HEADERS && !(frame.flags & NGHTTP2_FLAG_END_HEADERS));
    bool odd = (frame.type == NGHTTP2_HEADERS || frame.type == NGHTTP2_DATA) &&
               frame.flags & ODD;
    return parted || odd ? -1 : (ssize_t)(HTTP2_HEAD + frame.size);
}

static ssize_t measure_request(const void *state, const char *bytes, size_t size)
{
    (void)state;
    if (size == 0 || !is_preface(bytes))
        return measure(bytes, size);
    size_t same = size < HTTP2_PREFACE ? size : HTTP2_PREFACE;
    if (memcmp(bytes, http2_preface, same) != 0)
        return -1;
    return same < HTTP2_PREFACE ? 0 : HTTP2_PREFACE;
}

static ssize_t measure_answer(const void *state, const char *bytes, size_t size)
{
    (void)state;
    return measure(bytes, size);
}

static bool is_unasked(void *state, const char *answer, size_t size)
{
    http2_frame frame;
    call *it = http2_frame_read(answer, size, &frame) ? find(state, frame.stream) : NULL;
    if (!it)
        return true;
    bool headers = frame.type == NGHTTP2_HEADERS, data = frame.type == NGHTTP2_DATA;
    bool reset = frame.type == NGHTTP2_RST_STREAM;
    bool ends = reset || ((headers || data) && frame.flags & NGHTTP2_FLAG_END_STREAM);
    bool answers = it->waits && (ends || data);
    if (answers)
        it->waits = false;
    if (ends)
        drop(state, frame.stream);
    return !answers;
}

const proxy_framing proxy_grpc = {
    .name = "grpc",
    .state_size = sizeof(connection),
    .forget = forget,
    .request = measure_request,
    .answer = measure_answer,
    .hear = hear,
    .word = find_word,
    .unasked = is_unasked,
    .stream = stream_of,
};
