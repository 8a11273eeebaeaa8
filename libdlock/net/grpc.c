/* Calls by gRPC: how messages lie in the bodies of HTTP/2, and how a call has ended; see the header. */
#include "net/grpc.h"

#include "util/digits.h"
#include "util/number.h"
#include "util/text.h"

#include <string.h>

/* Before each message: whether it is compressed, which we don't allow, and its size. */
#define PREFIX 5
/* Nothing that we ask for is anywhere near as long, of one call and of all together. */
#define MESSAGE_MAX ((size_t)8 << 20)
#define HELD_MAX    ((size_t)32 << 20)

static dlk_grpc_call *call_of(dlk_http2_request *request)
{
    return (dlk_grpc_call *)(void *)request;
}

static void add_news(dlk_grpc_call *call)
{
    if (dlk_list_empty(&call->news))
        dlk_list_append(&call->grpc->news, &call->news);
}

/* ---- what HTTP/2 tells ---- */

static int hex(char digit)
{
    return dlk_digits_hex((char)(digit | 0x20));
}

/* "%20" is a blank. People read it, so nothing stays in it that a terminal would obey. */
static void note_words(dlk_grpc_call *call, const char *value)
{
    size_t used = 0;
    for (; *value && used + 1 < sizeof(call->words); value++) {
        char letter = *value;
        int high = letter == '%' ? hex(value[1]) : -1;
        int low = high >= 0 ? hex(value[2]) : -1;
        if (low >= 0) {
            letter = (char)(high << 4 | low);
            value += 2;
        }
        call->words[used++] = letter ? letter : ' ';
    }
    call->words[used] = '\0';
    dlk_text_one_line(call->words);
}

static void on_header(dlk_http2_request *request, const char *name, const char *value)
{
    dlk_grpc_call *call = call_of(request);
    if (strcmp(name, ":status") == 0)
        call->http = (int)dlk_number_or(value, 0, 999, 0);
    else if (strcmp(name, "grpc-status") == 0)
        call->status = (int)dlk_number_or(value, 0, 16, DLK_GRPC_UNKNOWN);
    else if (strcmp(name, "grpc-message") == 0)
        note_words(call, value);
}

static bool on_data(dlk_http2_request *request, const char *data, size_t size)
{
    dlk_grpc_call *call = call_of(request);
    if (dlk_buf_size(&call->in) + size > PREFIX + MESSAGE_MAX)
        return false;
    call->no_memory =
        call->grpc->held + size > HELD_MAX || !dlk_buf_append(&call->in, data, size);
    if (call->no_memory)
        return false;
    call->grpc->held += size;
    if (call->streams)
        add_news(call);
    return true;
}

/* Of an answer that isn't gRPC's: as its protocol maps them. */
static int status_of(int http)
{
    switch (http) {
    case 400:
        return DLK_GRPC_INTERNAL;
    case 401:
        return DLK_GRPC_UNAUTHENTICATED;
    case 403:
        return DLK_GRPC_PERMISSION_DENIED;
    case 404:
        return DLK_GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return DLK_GRPC_UNAVAILABLE;
    default:
        return DLK_GRPC_UNKNOWN;
    }
}

static void on_over(dlk_http2_request *request, dlk_http2_outcome outcome, uint32_t code)
{
    dlk_grpc_call *call = call_of(request);
    (void)code;
    call->over = true;
    call->undone = outcome == DLK_HTTP2_UNDONE;
    if (outcome == DLK_HTTP2_ANSWERED && call->status == DLK_GRPC_NONE) {
        call->status = status_of(call->http);
        note_words(call, "its answer has no status");
    } else if (outcome != DLK_HTTP2_ANSWERED) {
        call->status = DLK_GRPC_NONE;
    }
    add_news(call);
}

static const dlk_http2_ops ops = {.header = on_header, .data = on_data, .over = on_over};

/* ---- the connection ---- */

bool dlk_grpc_begin(dlk_grpc *grpc, const char *scheme, const char *authority,
                    dlk_buf *out)
{
    *grpc = (dlk_grpc){.scheme = scheme, .authority = authority};
    dlk_list_init(&grpc->news);
    return dlk_http2_begin(&grpc->http2, &ops, out);
}

void dlk_grpc_end(dlk_grpc *grpc)
{
    dlk_http2_end(&grpc->http2);
}

dlk_grpc_call *dlk_grpc_next(dlk_grpc *grpc)
{
    dlk_list *link = dlk_list_take_first(&grpc->news);
    return link ? DLK_LIST_ITEM(link, dlk_grpc_call, news) : NULL;
}

/* ---- calls ---- */

static bool append(dlk_grpc_call *call, const void *message, size_t size)
{
    dlk_buf *body = &call->request.body;
    if (size > MESSAGE_MAX || dlk_buf_size(body) > MESSAGE_MAX ||
        (call->secret && !dlk_buf_hide(body, PREFIX + size)))
        return false;
    unsigned char *prefix = (void *)dlk_buf_room(body, PREFIX + size);
    if (!prefix)
        return false;
    prefix[0] = 0;
    for (int i = 1; i < PREFIX; i++)
        prefix[i] = (unsigned char)(size >> 8 * (PREFIX - 1 - i));
    if (size > 0)
        memcpy(prefix + PREFIX, message, size);
    dlk_buf_added(body, PREFIX + size);
    return true;
}

bool dlk_grpc_ask(dlk_grpc *grpc, dlk_grpc_call *call, const char *path,
                  const char *token, const void *message, size_t size)
{
    const dlk_http2_header headers[] = {
        {":method", "POST", .lasts = true},
        {":scheme", grpc->scheme, .lasts = true},
        {":path", path, .lasts = true},
        {":authority", grpc->authority, .lasts = true},
        {"content-type", "application/grpc", .lasts = true},
        {"te", "trailers", .lasts = true},
        {"token", token ? token : "", .lasts = false},
    };
    size_t count = sizeof(headers) / sizeof(*headers) - !token;
    call->grpc = grpc;
    call->status = DLK_GRPC_NONE;
    call->request.last = !call->streams;
    dlk_list_init(&call->news);
    bool sent = append(call, message, size) &&
                dlk_http2_ask(&grpc->http2, &call->request, headers, count);
    if (!sent)
        dlk_grpc_drop(call);
    return sent;
}

bool dlk_grpc_say(dlk_grpc_call *call, const void *message, size_t size)
{
    if (!dlk_http2_is_open(&call->request))
        return true; /* its end is in the news */
    if (!append(call, message, size))
        return false;
    dlk_http2_more(&call->grpc->http2, &call->request);
    return true;
}

static void let_go(dlk_grpc_call *call, size_t size)
{
    dlk_buf_eat(&call->in, size);
    call->grpc->held -= size;
}

dlk_grpc_got dlk_grpc_take(dlk_grpc_call *call, const char **ret_message,
                           size_t *ret_size)
{
    size_t size = 0;
    let_go(call, call->taken);
    call->taken = 0;
    if (dlk_buf_size(&call->in) < PREFIX)
        return DLK_GRPC_NOTHING;
    const unsigned char *prefix = (const void *)dlk_buf_head(&call->in);
    for (int i = 1; i < PREFIX; i++)
        size = size << 8 | prefix[i];
    if (prefix[0] != 0 || size > MESSAGE_MAX)
        return DLK_GRPC_BAD;
    if (dlk_buf_size(&call->in) < PREFIX + size)
        return DLK_GRPC_NOTHING;
    *ret_message = (const char *)prefix + PREFIX;
    *ret_size = size;
    call->taken = PREFIX + size;
    return DLK_GRPC_MESSAGE;
}

void dlk_grpc_drop(dlk_grpc_call *call)
{
    if (!call->grpc)
        return;
    dlk_http2_drop(&call->grpc->http2, &call->request);
    dlk_list_remove(&call->news);
    let_go(call, dlk_buf_size(&call->in));
    dlk_buf_free(&call->in);
    *call = (dlk_grpc_call){.streams = call->streams};
}
