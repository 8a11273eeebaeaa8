/* gRPC taken apart: frames, the calls that they belong to, and which answer is whose. */
#include "harness/harness.h"
#include "harness/server.h"
#include "net/http2_peer.h"
#include "proxy/whole.h"
#include "proxy/wire.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const proxy_framing *const grpc = &proxy_grpc;

/* One side's frames, and the connection that they go through. */
static peer said;
static void *state;

#define DONE NGHTTP2_FLAG_END_STREAM
#define TXN  ":method=POST :path=/etcdserverpb.KV/Txn"

static void begin(void)
{
    peer_begin(&said);
    state = calloc(1, grpc->state_size);
}

static void end(void)
{
    grpc->forget(state);
    free(state);
    peer_end(&said);
}

/* What has been said since: one frame, of which the framing is asked. */
static bool asks(void)
{
    static char frame[1024];
    size_t size = dlk_buf_size(&said.out);
    memcpy(frame, dlk_buf_head(&said.out), size);
    dlk_buf_eat(&said.out, size);
    return harness_eq_int(__FILE__, __LINE__, "whole", grpc->request(state, frame, size),
                          (int64_t)size) &&
           grpc->hear(state, frame, size);
}

static bool answers(int64_t stream)
{
    size_t size = dlk_buf_size(&said.out);
    const char *frame = dlk_buf_head(&said.out);
    bool its = harness_eq_int(__FILE__, __LINE__, "whole",
                              grpc->answer(state, frame, size), (int64_t)size) &&
               !grpc->unasked(state, frame, size) && grpc->stream(frame, size) == stream;
    dlk_buf_eat(&said.out, size);
    return its;
}

static bool open_call(int stream, const char *fields)
{
    peer_headers(&said, 0, stream, fields);
    return !asks();
}

/* A message of up to 255 bytes. */
static void say(int stream, int flags, const char *message, size_t size)
{
    char body[300] = {0};
    body[4] = (char)size;
    memcpy(body + 5, message, size);
    peer_data(&said, flags, stream, body, size + 5);
}

static const char *word(int stream, int number)
{
    static char text[64];
    peer_data(&said, 0, stream, "", 0);
    proxy_span it =
        grpc->word(state, dlk_buf_head(&said.out), dlk_buf_size(&said.out), number);
    snprintf(text, sizeof(text), "%.*s", (int)it.size, it.at ? it.at : "");
    dlk_buf_eat(&said.out, dlk_buf_size(&said.out));
    return text;
}

/* ---- frames ---- */

static bool is_one(bool request, const char *bytes, size_t size)
{
    bool fine = true;
    for (size_t cut = 0; cut < size; cut++)
        fine = fine && whole_size(grpc, request, bytes, cut) == 0;
    char *more = calloc(1, size + 20);
    memcpy(more, bytes, size);
    fine = fine && whole_size(grpc, request, more, size) == (ssize_t)size &&
           whole_size(grpc, request, more, size + 20) == (ssize_t)size;
    free(more);
    return fine;
}

TEST(a_frame_is_whole_at_its_last_byte_and_not_before)
{
    begin();
    say(1, DONE, "hello", 5);
    CHECK(is_one(true, http2_preface, HTTP2_PREFACE));
    CHECK(is_one(true, dlk_buf_head(&said.out), dlk_buf_size(&said.out)));
    CHECK(is_one(false, dlk_buf_head(&said.out), dlk_buf_size(&said.out)));
    end();
}

TEST(what_is_not_in_the_protocol_or_odd_is_said_to_be_none)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n",
                      get[] = "POST / HTTP/1.1\r\n\r\n";
    CHECK_EQ_INT(whole_size(grpc, false, http, sizeof(http) - 1), -1);
    CHECK_EQ_INT(whole_size(grpc, true, get, sizeof(get) - 1), -1);
    CHECK_EQ_INT(whole_size(grpc, false, "\0\x40\1\0\0", 5), -1); /* 16385 bytes */
    static const struct {
        int type, flags;
    } odd[] = {{NGHTTP2_HEADERS, 0},
               {NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_PADDED},
               {NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_PRIORITY},
               {NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS},
               {NGHTTP2_DATA, NGHTTP2_FLAG_PADDED}};
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        begin();
        peer_frame(&said, odd[i].type, odd[i].flags, 1, "....", 4);
        CHECK_EQ_INT(
            whole_size(grpc, true, dlk_buf_head(&said.out), dlk_buf_size(&said.out)), -1);
        end();
    }
}

/* ---- requests ---- */

TEST(a_message_is_a_request_once_its_last_byte_is_there)
{
    begin();
    CHECK(!grpc->hear(state, http2_preface, HTTP2_PREFACE));
    peer_setting(&said, NGHTTP2_SETTINGS_ENABLE_PUSH, 0);
    CHECK(!asks());
    CHECK(open_call(1, ":path=/etcdserverpb.Lease/LeaseGrant"));
    peer_data(&said, 0, 1, "\0\0\0\0\2x", 6);
    CHECK(!asks());
    peer_data(&said, 0, 1, "y", 1);
    CHECK(asks());
    peer_data(&said, DONE, 1, "", 0);
    CHECK(!asks());
    CHECK(open_call(3, ":path=/etcdserverpb.Watch/Watch"));
    for (int i = 0; i < 3; i++) { /* one each, on one stream */
        say(3, 0, "new", 3);
        CHECK(asks());
    }
    peer_data(&said, 0, 3, "\0\0\0\0\1a\0\0", 8); /* … and a piece of the next */
    CHECK(asks());
    peer_data(&said, 0, 3, "\0\0\1b", 4);
    CHECK(asks());
    CHECK_STR(word(3, 0), "Watch");
    peer_number(&said, NGHTTP2_RST_STREAM, 3, NGHTTP2_CANCEL);
    CHECK(!asks());
    CHECK_STR(word(3, 0), "");
    end();
}

TEST(a_transaction_is_known_by_what_it_does_first_and_others_by_their_method)
{
    static const struct {
        const char *bytes, *verb; /* the first a success; each of some key */
        size_t size;
    } txns[] = {
        {"\x12\5\x12\3\n\1a", "put", 7},
        {"\x12\5\x1a\3\n\1a", "delete", 7},
        {"\x12\5\n\3\n\1a", "look", 7},
        {"\n\3\x1a\1a\x12\5\x12\3\n\1a\x12\5\n\3\n\1b", "put", 19}, /* if … */
        {"\n\3\x1a\1a\x1a\5\x12\3\n\1a", "Txn", 12},                /* nothing but else */
        {"\x12\5\x12", "Txn", 3},                                   /* not a message */
        {"\x12\xff\xff\xff\xff\xff\xff", "Txn", 7},
        {"\x08\1", "Txn", 2},
        {"\x10\0\x12\5\x12\3\n\1a", "Txn", 9}, /* a number where that should be */
        {"", "Txn", 0},
    };
    for (size_t i = 0; i < sizeof(txns) / sizeof(*txns); i++) {
        begin();
        CHECK(open_call(1, TXN));
        say(1, DONE, txns[i].bytes, txns[i].size);
        CHECK(asks());
        CHECK_STR(word(1, 0), txns[i].verb);
        CHECK_STR(word(1, 1), "/etcdserverpb.KV/Txn");
        CHECK_STR(word(1, 2), "");
        end();
    }
    begin();
    CHECK(open_call(5, ":path=/etcdserverpb.Lease/LeaseKeepAlive"));
    CHECK_STR(word(5, 0), "LeaseKeepAlive");
    CHECK(open_call(7, ":method=POST"));
    CHECK_STR(word(7, 0), "");
    end();
}

/* Of HPACK: the second block is short for what the first has said. */
TEST(headers_that_build_on_others_are_read)
{
    static char path[] = ":path", at[] = "/etcdserverpb.KV/Range", agent[] = "user-agent",
                me[] = "libdlock";
    nghttp2_nv fields[] = {{(uint8_t *)path, (uint8_t *)at, sizeof(path) - 1,
                            sizeof(at) - 1, NGHTTP2_NV_FLAG_NONE},
                           {(uint8_t *)agent, (uint8_t *)me, sizeof(agent) - 1,
                            sizeof(me) - 1, NGHTTP2_NV_FLAG_NONE}};
    nghttp2_hd_deflater *deflater;
    unsigned char block[64];
    ssize_t size = 0, first = 0;
    CHECK(nghttp2_hd_deflate_new(&deflater, 4096) == 0);
    begin();
    for (int stream = 1; stream < 6; stream += 2) {
        size = nghttp2_hd_deflate_hd(deflater, block, sizeof(block), fields, 2);
        peer_frame(&said, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream, block,
                   (size_t)size);
        CHECK(!asks());
        CHECK_STR(word(stream, 0), "Range");
        first = stream == 1 ? size : first;
    }
    CHECK(size < first);
    end();
    nghttp2_hd_deflate_del(deflater);
}

/* ---- answers ---- */

static bool asked(int stream, const char *fields)
{
    if (!open_call(stream, fields))
        return false;
    say(stream, DONE, "", 0);
    return asks();
}

TEST(an_answer_is_the_first_that_its_stream_hears_behind_the_head)
{
    begin();
    CHECK(asked(1, TXN));
    CHECK(asked(3, TXN));
    CHECK(asked(5, TXN));
    peer_setting(&said, NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16384);
    CHECK(!answers(0));
    peer_headers(&said, 0, 3, ":status=200");
    CHECK(!answers(3));
    say(3, 0, "x", 1);
    CHECK(answers(3)); /* it has overtaken */
    say(3, 0, "y", 1);
    CHECK(!answers(3));
    peer_headers(&said, DONE, 3, "grpc-status=0");
    CHECK(!answers(3));
    peer_headers(&said, DONE, 1, ":status=200 grpc-status=14");
    CHECK(answers(1));
    peer_number(&said, NGHTTP2_RST_STREAM, 5, NGHTTP2_REFUSED_STREAM);
    CHECK(answers(5));
    peer_number(&said, NGHTTP2_RST_STREAM, 5, NGHTTP2_REFUSED_STREAM);
    CHECK(!answers(5));
    end();
}

/* ---- through the proxy ---- */

static int listen_there(int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 &&
                listen(fd, 4) == 0 && getsockname(fd, (struct sockaddr *)&at, &size) == 0;
    (void)harness_check(__FILE__, __LINE__, fine, "a server of our own");
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static bool send_out(int fd)
{
    size_t size = dlk_buf_size(&said.out);
    bool sent = write(fd, dlk_buf_head(&said.out), size) == (ssize_t)size;
    dlk_buf_eat(&said.out, size);
    return sent;
}

TEST(whose_answer_is_to_be_lost_loses_it_also_when_others_overtake_it)
{
    char target[16], bytes[256];
    const char *why = NULL;
    int port, listener = listen_there(&port);
    snprintf(target, sizeof(target), "%d", port);
    proxy *way = proxy_new(1);
    proxy_link *link = proxy_listen(way, NULL, 0, target, "grpc", &why);
    CHECK(link && !why);
    const proxy_plan cut = {.deed = PROXY_CUT_REPLY, .number = 1, .command = "put"};
    CHECK(proxy_add_plan(link, cut));
    int client = wire_open(proxy_port(link)), server = accept(listener, NULL, NULL);
    begin();
    peer_headers(&said, 0, 5, TXN);
    say(5, DONE, "\x12\5\x12\3\n\1a", 7);
    peer_headers(&said, 0, 7, ":path=/etcdserverpb.KV/Range");
    say(7, DONE, "", 0);
    size_t asked_bytes = dlk_buf_size(&said.out);
    CHECK(send_out(client));
    for (size_t got = 0; got < asked_bytes;) {
        ssize_t more = read(server, bytes, sizeof(bytes));
        CHECK(more > 0);
        got += (size_t)more;
    }
    say(7, 0, "seven", 5);
    size_t heard = dlk_buf_size(&said.out);
    say(5, 0, "five", 4);
    CHECK(send_out(server));
    ssize_t got = recv(client, bytes, heard, MSG_WAITALL);
    CHECK_EQ_INT(got, (int64_t)heard);
    CHECK(got > 5 && memcmp(bytes + got - 5, "seven", 5) == 0);
    CHECK(read(client, bytes, 1) <= 0);
    CHECK_EQ_INT(proxy_requests(link, "put"), 1);
    CHECK_EQ_INT(proxy_requests(link, "*"), 2);
    CHECK_EQ_INT(proxy_get_stats(link).answers, 2);
    end();
    close(client);
    close(server);
    close(listener);
    proxy_free(way);
}
