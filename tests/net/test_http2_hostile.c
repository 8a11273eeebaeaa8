/* HTTP/2, the client's side: what nobody can make it do. */
#include "http2_world.h"

#include <stdio.h>

/* It is over, with these words, and we keep little. */
static bool ends_with(const char *words)
{
    bool over = !talk();
    bool fine = over && strstr(w.http2.why, words) && w.http2.code == DLOCK_EPROTO &&
                dlk_buf_size(&w.out) < 1 << 20;
    if (!fine)
        harness_str(__FILE__, __LINE__, "w.http2.why", over ? w.http2.why : "goes on",
                    words);
    dlk_http2_end(&w.http2);
    return fine;
}

TEST(who_doesn_t_speak_http2_is_told_to_be_the_wrong_one)
{
    static const char *const lines[] = {
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n400 Bad Request",
        "-ERR unknown command `PRI`\r\n",
        "\x15\x03\x01\x00\x02\x02\x16 and so on, what TLS says to it",
        "ERROR\r\nERROR\r\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        if (!begin())
            return;
        CHECK(dlk_buf_append(&w.peer.out, lines[i], strlen(lines[i])));
        CHECK(ends_with("it doesn't answer in HTTP/2"));
        end();
    }
}

/* What is said again and again, until the connection ends. */
typedef void nonsense(int i);

static void ping(int i)
{
    (void)i;
    peer_frame(&w.peer, NGHTTP2_PING, 0, 0, "12345678", 8);
}

static void settings(int i)
{
    peer_setting(&w.peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 65535 + (uint32_t)i % 7);
}

static void empty_settings(int i)
{
    (void)i;
    peer_frame(&w.peer, NGHTTP2_SETTINGS, 0, 0, "", 0);
}

static void windows(int i)
{
    (void)i;
    peer_number(&w.peer, NGHTTP2_WINDOW_UPDATE, 0, 1);
}

static void unknown(int i)
{
    (void)i;
    peer_frame(&w.peer, 0xfa, 0, 1, "what is that", 12);
}

static void early_hints(int i)
{
    (void)i;
    peer_headers(&w.peer, 0, 1, ":status=103 link=there");
}

static void empty_data(int i)
{
    if (i == 0)
        peer_headers(&w.peer, 0, 1, ":status=200");
    peer_data(&w.peer, 0, 1, "", 0);
}

static void empty_continuation(int i)
{
    unsigned char block[64];
    size_t size = peer_block(":status=200", block, sizeof(block));
    if (i == 0)
        peer_frame(&w.peer, NGHTTP2_HEADERS, 0, 1, block, size);
    else
        peer_frame(&w.peer, NGHTTP2_CONTINUATION, 0, 1, "", 0);
}

static void priorities(int i)
{
    peer_frame(&w.peer, NGHTTP2_PRIORITY, 0, 2 * i + 3, "\0\0\0\1\7", 5);
}

TEST(who_says_nothing_and_no_end_of_it_is_left)
{
    static const struct {
        nonsense *say;
        const char *what;
    } all[] = {{ping, "pings"},
               {settings, "settings"},
               {empty_settings, "empty settings"},
               {windows, "windows"},
               {unknown, "what nobody knows"},
               {early_hints, "headers before headers"},
               {empty_data, "empty data"},
               {priorities, "priorities"},
               {empty_continuation, "headers without end"}};
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
        int64_t said = 0;
        if (!greeted())
            return;
        CHECK(asked(&w.asks[0], "question"));
        bool goes_on = true;
        for (int i = 0; i < 100000 && goes_on; i++) {
            all[k].say(i);
            said += (int64_t)dlk_buf_size(&w.peer.out);
            /* It reads nothing of ours. */
            goes_on = dlk_http2_feed(&w.http2, dlk_buf_head(&w.peer.out),
                                     dlk_buf_size(&w.peer.out));
            dlk_buf_eat(&w.peer.out, dlk_buf_size(&w.peer.out));
        }
        CHECK_STR(goes_on ? all[k].what : "", "");
        CHECK(said < 80000);
        CHECK(dlk_buf_size(&w.out) < 80000);
        CHECK_EQ_INT(w.http2.code, DLOCK_EPROTO);
        end();
        CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_BROKEN);
    }
}

TEST(pings_are_answered_as_long_as_there_is_something_to_ask)
{
    if (!greeted())
        return;
    for (int i = 0; i < 20000; i++) {
        ask *of = &w.asks[0];
        *of = (ask){0};
        w.peer.count = 0;
        CHECK(asked(of, "question"));
        ping(i);
        answer(of->request.stream, "answer");
        CHECK(talk());
        CHECK_EQ_INT(of->outcome, DLK_HTTP2_ANSWERED);
        dlk_buf_free(&w.peer.requests[0].body);
    }
    CHECK_EQ_INT(w.peer.pongs, 20000);
    end();
}

/* Whatever was asked before, and however long ago. */
TEST(hundreds_of_answers_in_a_row_are_no_flood)
{
    char fields[400];
    snprintf(fields, sizeof(fields), ":status=200 grpc-status=5 grpc-message=%0300d", 7);
    if (!greeted())
        return;
    for (int i = 0; i < STREAMS; i++)
        CHECK(send_with(&w.asks[i], "abc", 3, true));
    CHECK(talk());
    for (int i = 0; i < STREAMS; i++)
        peer_headers(&w.peer, NGHTTP2_FLAG_END_STREAM, 2 * i + 1, fields);
    CHECK(talk());
    CHECK_EQ_INT(w.asks[STREAMS - 1].overs, 1);
    end();
}

TEST(headers_that_are_too_long_end_it)
{
    static char fields[32768];
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question"));
    size_t used = (size_t)snprintf(fields, sizeof(fields), ":status=200");
    for (int i = 0; used < 17000; i++)
        used +=
            (size_t)snprintf(fields + used, sizeof(fields) - used, " h%d=%0100d", i, i);
    unsigned char block[32768];
    size_t size = peer_block(fields, block, sizeof(block));
    peer_frame(&w.peer, NGHTTP2_HEADERS, 0, 1, block, 16000);
    peer_frame(&w.peer, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, block + 16000,
               size - 16000);
    CHECK(ends_with("headers are too long"));
    end();
}

TEST(a_block_that_unpacks_to_a_thousand_times_its_size_ends_it)
{
    /* One field of 3,000 bytes that goes into the table, and is named again by one byte each. */
    unsigned char block[8192] = {0x88, 0x40, 1, 'a', 127, 0xb9, 0x16};
    size_t used = 7;
    memset(block + used, 'x', 3000);
    used += 3000;
    memset(block + used, 0xbe, 4000);
    used += 4000;
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question"));
    peer_frame(&w.peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, block, used);
    CHECK(ends_with("headers are too long"));
    end();
}

TEST(what_is_against_the_rules_ends_it)
{
    static const struct {
        int type, flags, stream;
        size_t size;
        const char *data;
    } frames[] = {
        {NGHTTP2_PUSH_PROMISE, 4, 1, 5, "\0\0\0\2\x88"},      /* we want none */
        {NGHTTP2_DATA, 0, 0, 1, "x"},                         /* of no stream */
        {NGHTTP2_DATA, 0, 7, 1, "x"},                         /* of one that never was */
        {NGHTTP2_HEADERS, 4, 2, 1, "\x88"},                   /* of the server's own */
        {NGHTTP2_HEADERS, 4, 1, 1, "\xff"},                   /* no such field */
        {NGHTTP2_CONTINUATION, 4, 1, 1, "\x88"},              /* of nothing */
        {NGHTTP2_WINDOW_UPDATE, 0, 0, 4, "\0\0\0\0"},         /* by nothing */
        {NGHTTP2_WINDOW_UPDATE, 0, 0, 4, "\x7f\xff\xff\xff"}, /* more than there is */
        {NGHTTP2_WINDOW_UPDATE, 0, 0, 3, "\0\0\1"},
        {NGHTTP2_SETTINGS, 0, 0, 5, "\0\4\0\0\0"},
        {NGHTTP2_SETTINGS, 0, 0, 6, "\0\5\0\0\0\1"},         /* frames of 1 byte */
        {NGHTTP2_SETTINGS, 0, 0, 6, "\0\4\xff\xff\xff\xff"}, /* a window without end */
        {NGHTTP2_SETTINGS, 0, 1, 0, ""},
        {NGHTTP2_PING, 0, 0, 7, "1234567"},
        {NGHTTP2_GOAWAY, 0, 1, 8, "\0\0\0\0\0\0\0\0"},
        {NGHTTP2_RST_STREAM, 0, 7, 4, "\0\0\0\1"},
    };
    for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
        if (!greeted())
            return;
        CHECK(asked(&w.asks[0], "question"));
        peer_frame(&w.peer, frames[i].type, frames[i].flags, frames[i].stream,
                   frames[i].data, frames[i].size);
        CHECK(ends_with("it breaks the rules of HTTP/2"));
        end();
        CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_BROKEN);
    }
}

TEST(more_than_there_is_a_window_for_ends_it)
{
    static const char piece[16384];
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question"));
    peer_headers(&w.peer, 0, 1, ":status=200");
    for (int i = 0; i < 64 + 1;
         i++) /* 1 MiB, and a piece; we can't say that there is room */
        peer_data(&w.peer, 0, 1, piece, sizeof(piece));
    size_t size = dlk_buf_size(&w.peer.out);
    bool goes_on = dlk_http2_feed(&w.http2, dlk_buf_head(&w.peer.out), size);
    dlk_buf_eat(&w.peer.out, size);
    CHECK(!goes_on || w.asks[0].overs == 0); /* it was given room meanwhile */
    end();
}
