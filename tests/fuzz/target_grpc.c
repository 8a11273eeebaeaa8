/* What a server says in HTTP/2: frames as they should be and as none should, bodies that are messages of
 * gRPC and of etcd, and others. However it lies, each call is over once, what we keep is little, and what we
 * answer doesn't grow beyond what it has said. */
#include "fuzz.h"

#include "backends/etcd/messages.h"
#include "net/grpc.h"

#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "grpc";
const size_t fuzz_longest = 600;
const char *const fuzz_words[] = {":status",
                                  "200",
                                  "grpc-status",
                                  "grpc-message",
                                  "\x88",
                                  "\x40\x07:status\x03"
                                  "200",
                                  "\x40\x0bgrpc-status\x01"
                                  "0",
                                  "\x0f\x0d",
                                  "\xbe\xbf\xc0",
                                  "\x3f\xe1\x1f",
                                  "%20%1b%",
                                  "\x1a\x0a\x0a\x08\x12\x06",
                                  "\x12\x08\x0a\x01k\x10\x01\x2a\x01v",
                                  "\x7f\xff\xff\xff",
                                  NULL};

enum { CALLS = 4 };

static struct {
    dlk_grpc grpc;
    dlk_buf out;
    dlk_grpc_call calls[CALLS];
    int overs[CALLS];
    bool asked[CALLS];
    size_t fed, said;
} w;

/* ---- what has come ---- */

static void unpack(const char *message, size_t size, uint8_t which)
{
    dlk_arena arena;
    bool no_memory;
    const ProtobufCMessage *answer =
        dlk_etcd_unpack(dlk_etcd_rpcs[which % DLK_ETCD_METHODS].answer, message, size,
                        &arena, &no_memory);
    FUZZ_CHECK(arena.total <= 16 * size + (16u << 10), "%zu bytes of %zu", arena.total,
               size);
    if (answer)
        (void)dlk_etcd_header(answer);
    dlk_arena_free(&arena);
}

static void collect(void)
{
    dlk_grpc_call *call;
    while ((call = dlk_grpc_next(&w.grpc))) {
        size_t which = (size_t)(call - w.calls);
        const char *message;
        size_t size;
        FUZZ_CHECK(which < CALLS && w.asked[which], "it is one of ours");
        while (dlk_grpc_take(call, &message, &size) == DLK_GRPC_MESSAGE)
            unpack(message, size, (uint8_t)(which + size));
        w.overs[which] += call->over;
        FUZZ_CHECK(w.overs[which] <= 1, "%d times over", w.overs[which]);
        FUZZ_CHECK(call->status >= DLK_GRPC_NONE && call->status <= 16, "status %d",
                   call->status);
        FUZZ_CHECK(strlen(call->words) < sizeof(call->words), "words without an end");
        FUZZ_CHECK(!call->undone || call->over, "undone, and goes on");
    }
}

static void feed(const void *data, size_t size)
{
    size_t before = dlk_buf_size(&w.out);
    bool failed = w.grpc.http2.failed;
    bool goes_on = dlk_grpc_feed(&w.grpc, data, size);
    FUZZ_CHECK(goes_on == !w.grpc.http2.failed, "failed, and goes on");
    FUZZ_CHECK(goes_on || w.grpc.http2.why[0], "it fails without a word");
    FUZZ_CHECK(!failed || dlk_buf_size(&w.out) == before, "it talks when it is over");
    collect();
    w.fed += size;
    w.said += dlk_buf_size(&w.out) - before;
    /* A settings frame of nine bytes is answered by one; a window of ours by 13 for each body. */
    FUZZ_CHECK(w.said <= 4 * w.fed + 4096, "%zu bytes for %zu", w.said, w.fed);
}

/* ---- what the input wants ---- */

static void frame(fuzz_bytes *bytes)
{
    static const unsigned char streams[] = {0, 1, 1, 3, 5, 7, 2, 255};
    unsigned char head[9] = {0}, how = fuzz_byte(bytes);
    fuzz_bytes body = fuzz_take(bytes, fuzz_byte(bytes));
    head[2] = (unsigned char)body.left;
    head[3] = (how & 15) % 12;
    head[4] = fuzz_byte(bytes);
    head[8] = streams[how >> 5];
    feed(head, sizeof(head));
    feed(body.at, body.left);
}

/* Data of a call, with the prefix of a message as long as it is, or as it says. */
static void message(fuzz_bytes *bytes, uint8_t how)
{
    fuzz_bytes body = fuzz_take_until(bytes, '\n');
    size_t size = body.left < 200 ? body.left : 200;
    unsigned char head[14] = {[2] = (unsigned char)(size + 5),
                              [4] = (unsigned char)(how & 1),
                              [8] = (unsigned char)(2 * (how >> 1 & 3) + 1),
                              [13] = (unsigned char)(how & 8 ? size + how : size)};
    feed(head, sizeof(head));
    feed(body.at, size);
}

static void ask(uint8_t how)
{
    size_t which = how % CALLS;
    dlk_grpc_call *call = &w.calls[which];
    if (w.asked[which]) {
        if (call->streams)
            (void)dlk_grpc_say(call, "more", 4);
        return;
    }
    call->streams = how & 4;
    w.asked[which] =
        dlk_grpc_ask(&w.grpc, call, "/a", how & 8 ? "token" : NULL, "ask", 3);
    collect();
}

static void drop(uint8_t how)
{
    size_t which = how % CALLS;
    dlk_grpc_drop(&w.calls[which]);
    w.asked[which] = false;
    w.overs[which] = 0;
}

static void step(fuzz_bytes *bytes, uint8_t what, uint8_t how)
{
    switch (what) {
    case 0:
    case 1:
        frame(bytes);
        return;
    case 2:
    case 3:
        message(bytes, how);
        return;
    case 4: {
        fuzz_bytes raw = fuzz_take(bytes, how);
        feed(raw.at, raw.left);
        return;
    }
    case 5:
        dlk_buf_eat(&w.out, dlk_buf_size(&w.out));
        return;
    case 6:
        ask(how);
        return;
    default:
        drop(how);
        return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char greeting[] = "\0\0\0\4\0\0\0\0\0";
    fuzz_bytes bytes = {data, size};
    memset(&w, 0, sizeof(w));
    FUZZ_CHECK(dlk_http2_need(NULL) == DLOCK_OK &&
                   dlk_etcd_messages_need(NULL) == DLOCK_OK &&
                   dlk_grpc_begin(&w.grpc, "http", "there:1", &w.out),
               "a session");
    if (fuzz_byte(&bytes) % 8 != 0)
        feed(greeting, sizeof(greeting) - 1);
    for (uint8_t i = 0; i < 3; i++)
        ask((uint8_t)(i == 2 ? i | 4 : i));
    for (int steps = 0; bytes.left > 0 && steps < 64; steps++) {
        uint8_t what = fuzz_byte(&bytes);
        step(&bytes, what % 8, what >> 3);
    }
    dlk_grpc_end(&w.grpc);
    collect();
    for (int i = 0; i < CALLS; i++) {
        FUZZ_CHECK(!w.asked[i] || w.overs[i] == 1, "call %d is over %d times", i,
                   w.overs[i]);
        dlk_grpc_drop(&w.calls[i]);
    }
    FUZZ_CHECK(w.grpc.held == 0, "%zu bytes are held by nobody", w.grpc.held);
    dlk_buf_free(&w.out);
    return 0;
}
