/* gRPC's calls against a peer in memory (http2_peer.h): how messages lie in the bodies, how a call has
 * ended, and what comes of bodies that hold no messages. */
#include "harness/harness.h"
#include "http2_peer.h"
#include "net/grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    dlk_grpc grpc;
    dlk_buf out;
    peer peer;
    dlk_grpc_call calls[4];
} w;

static bool talk(void)
{
    bool goes_on = true;
    do {
        peer_hear(&w.peer, &w.out);
        goes_on =
            dlk_grpc_feed(&w.grpc, dlk_buf_head(&w.peer.out), dlk_buf_size(&w.peer.out));
        dlk_buf_eat(&w.peer.out, dlk_buf_size(&w.peer.out));
    } while (goes_on && dlk_buf_size(&w.out) > 0);
    return goes_on;
}

static bool begin(void)
{
    memset(&w, 0, sizeof(w));
    peer_begin(&w.peer);
    peer_frame(&w.peer, NGHTTP2_SETTINGS, 0, 0, "", 0);
    bool fine = dlk_http2_need(NULL) == DLOCK_OK &&
                dlk_grpc_begin(&w.grpc, "http", "there:2379", &w.out) && talk();
    return harness_check(__FILE__, __LINE__, fine, "both have greeted");
}

static void end(void)
{
    dlk_grpc_end(&w.grpc);
    for (size_t i = 0; i < sizeof(w.calls) / sizeof(*w.calls); i++)
        dlk_grpc_drop(&w.calls[i]);
    CHECK_EQ_INT(w.grpc.held, 0);
    CHECK(dlk_grpc_next(&w.grpc) == NULL);
    peer_end(&w.peer);
    dlk_buf_free(&w.out);
}

static bool asks(dlk_grpc_call *call, const char *message)
{
    return dlk_grpc_ask(&w.grpc, call, "/etcd.KV/Range", NULL, message,
                        strlen(message)) &&
           talk();
}

/* The messages that have come and weren't taken: "one,two,"; "!" behind them for what is none. */
static const char *messages(dlk_grpc_call *call)
{
    static char text[128];
    const char *message;
    size_t size, used = 0;
    dlk_grpc_got got;
    text[0] = '\0';
    while ((got = dlk_grpc_take(call, &message, &size)) == DLK_GRPC_MESSAGE)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s,", (int)size,
                                 message);
    if (got == DLK_GRPC_BAD)
        snprintf(text + used, sizeof(text) - used, "!");
    return text;
}

#define DATA(flags, bytes) peer_data(&w.peer, flags, 1, bytes, sizeof(bytes) - 1)
#define HEAD               peer_headers(&w.peer, 0, 1, ":status=200 content-type=application/grpc")
#define TAIL(fields)       peer_headers(&w.peer, NGHTTP2_FLAG_END_STREAM, 1, fields)

/* ---- what is said ---- */

TEST(a_call_says_its_message_and_what_http2_and_grpc_want_to_know)
{
    if (!begin())
        return;
    CHECK(asks(&w.calls[0], "abc"));
    const peer_request *request = peer_find(&w.peer, 1);
    CHECK_STR(request->fields,
              ":method=POST :scheme=http :path=/etcd.KV/Range :authority=there:2379 "
              "content-type=application/grpc te=trailers ");
    CHECK_EQ_INT(dlk_buf_size(&request->body), 8);
    CHECK(memcmp(dlk_buf_head(&request->body), "\0\0\0\0\3abc", 8) == 0);
    CHECK(request->ended);
    CHECK(dlk_grpc_next(&w.grpc) == NULL);
    end();
}

TEST(who_we_are_goes_along)
{
    if (!begin())
        return;
    CHECK(dlk_grpc_ask(&w.grpc, &w.calls[0], "/a", "secret.1", "", 0) && talk());
    CHECK_CONTAINS(peer_find(&w.peer, 1)->fields, "token=secret.1");
    end();
}

TEST(a_message_of_300_bytes_has_its_size_before_it)
{
    static const char message[300];
    if (!begin())
        return;
    CHECK(dlk_grpc_ask(&w.grpc, &w.calls[0], "/a", NULL, message, sizeof(message)));
    CHECK(talk());
    CHECK(memcmp(dlk_buf_head(&peer_find(&w.peer, 1)->body), "\0\0\0\1\x2c", 5) == 0);
    end();
}

TEST(one_that_streams_says_one_message_after_the_other)
{
    if (!begin())
        return;
    w.calls[0].streams = true;
    CHECK(asks(&w.calls[0], "one"));
    CHECK(dlk_grpc_say(&w.calls[0], "two", 3) && talk());
    const peer_request *request = peer_find(&w.peer, 1);
    CHECK_EQ_INT(dlk_buf_size(&request->body), 16);
    CHECK(memcmp(dlk_buf_head(&request->body), "\0\0\0\0\3one\0\0\0\0\3two", 16) == 0);
    CHECK(!request->ended);
    dlk_grpc_drop(&w.calls[0]);
    CHECK(talk());
    CHECK(request->reset);
    end();
}

/* ---- how it ends ---- */

TEST(an_answer_is_news_when_all_of_it_has_come)
{
    if (!begin())
        return;
    CHECK(asks(&w.calls[0], "abc"));
    HEAD;
    DATA(0, "\0\0\0\0\6answer");
    CHECK(talk());
    CHECK(dlk_grpc_next(&w.grpc) == NULL);
    TAIL("grpc-status=0 grpc-message=");
    CHECK(talk());
    CHECK(dlk_grpc_next(&w.grpc) == &w.calls[0]);
    CHECK(w.calls[0].over && !w.calls[0].undone);
    CHECK_EQ_INT(w.calls[0].status, DLK_GRPC_OK);
    CHECK_STR(messages(&w.calls[0]), "answer,");
    CHECK(dlk_grpc_next(&w.grpc) == NULL);
    end();
}

TEST(a_refusal_says_why_in_words_that_can_be_shown)
{
    static const struct {
        const char *said, *words;
    } all[] = {
        {"etcdserver:%20requested%20lease%20not%20found",
         "etcdserver: requested lease not found"},
        {"100%", "100%"},
        {"%4", "%4"},
        {"%zz%e2%82%ac", "%zz\xe2\x82\xac"},
        {"%1b%5b2J%0d%0A%00.", " [2J   ."},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        char fields[128];
        if (!begin())
            return;
        CHECK(asks(&w.calls[0], "abc"));
        snprintf(fields, sizeof(fields), ":status=200 grpc-status=5 grpc-message=%s",
                 all[i].said);
        TAIL(fields); /* a header that is a trailer, too */
        CHECK(talk());
        CHECK(dlk_grpc_next(&w.grpc) == &w.calls[0]);
        CHECK_EQ_INT(w.calls[0].status, DLK_GRPC_NOT_FOUND);
        CHECK_STR(w.calls[0].words, all[i].words);
        CHECK_STR(messages(&w.calls[0]), "");
        end();
    }
}

TEST(words_without_end_are_cut_off)
{
    char fields[8192];
    if (!begin())
        return;
    CHECK(asks(&w.calls[0], "abc"));
    snprintf(fields, sizeof(fields), ":status=200 grpc-status=13 grpc-message=%04000d",
             7);
    TAIL(fields);
    CHECK(talk());
    CHECK_EQ_INT(strlen(w.calls[0].words), sizeof(w.calls[0].words) - 1);
    end();
}

TEST(what_has_no_status_has_the_one_of_http)
{
    static const struct {
        const char *fields;
        int status;
    } all[] = {
        {":status=404", DLK_GRPC_UNIMPLEMENTED},
        {":status=401", DLK_GRPC_UNAUTHENTICATED},
        {":status=403", DLK_GRPC_PERMISSION_DENIED},
        {":status=503", DLK_GRPC_UNAVAILABLE},
        {":status=400", DLK_GRPC_INTERNAL},
        {":status=200", DLK_GRPC_UNKNOWN},
        {":status=302", DLK_GRPC_UNKNOWN},
        {":status=200 grpc-status=", DLK_GRPC_UNKNOWN},
        {":status=200 grpc-status=-1", DLK_GRPC_UNKNOWN},
        {":status=200 grpc-status=17", DLK_GRPC_UNKNOWN},
        {":status=200 grpc-status=4294967296", DLK_GRPC_UNKNOWN},
        {":status=200 grpc-status=0x0", DLK_GRPC_UNKNOWN},
        {":status=200 grpc-status=16", DLK_GRPC_UNAUTHENTICATED},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        if (!begin())
            return;
        CHECK(asks(&w.calls[0], "abc"));
        TAIL(all[i].fields);
        CHECK(talk());
        CHECK(dlk_grpc_next(&w.grpc) == &w.calls[0]);
        CHECK_EQ_INT(w.calls[0].status, all[i].status);
        bool none = !strstr(all[i].fields, "grpc-status");
        CHECK_STR(w.calls[0].words, none ? "its answer has no status" : "");
        end();
    }
}

TEST(one_that_is_broken_off_has_no_status_whatever_was_said_before)
{
    if (!begin())
        return;
    CHECK(asks(&w.calls[0], "abc") && asks(&w.calls[1], "abc") && asks(&w.calls[2], "a"));
    peer_headers(&w.peer, 0, 1, ":status=200 grpc-status=0");
    peer_number(&w.peer, NGHTTP2_RST_STREAM, 1, NGHTTP2_INTERNAL_ERROR);
    peer_number(&w.peer, NGHTTP2_RST_STREAM, 3, NGHTTP2_REFUSED_STREAM);
    CHECK(talk());
    CHECK(dlk_grpc_next(&w.grpc) == &w.calls[0]);
    CHECK(dlk_grpc_next(&w.grpc) == &w.calls[1]);
    CHECK(dlk_grpc_next(&w.grpc) == NULL);
    CHECK_EQ_INT(w.calls[0].status, DLK_GRPC_NONE);
    CHECK(w.calls[0].over && !w.calls[0].undone);
    CHECK_EQ_INT(w.calls[1].status, DLK_GRPC_NONE);
    CHECK(w.calls[1].undone);
    dlk_grpc_end(&w.grpc);
    CHECK(dlk_grpc_next(&w.grpc) == &w.calls[2]);
    CHECK(w.calls[2].over && !w.calls[2].undone);
    end();
}

/* ---- messages ---- */

TEST(messages_of_a_stream_are_news_in_whatever_pieces_they_come)
{
    static const char all[] = "\0\0\0\0\3one\0\0\0\0\0\0\0\0\0\5three";
    char seen[32] = "";
    if (!begin())
        return;
    w.calls[0].streams = true;
    CHECK(asks(&w.calls[0], "abc"));
    HEAD;
    for (size_t i = 0; i < sizeof(all) - 1; i++) {
        peer_data(&w.peer, 0, 1, all + i, 1);
        CHECK(talk());
        CHECK(dlk_grpc_next(&w.grpc) == &w.calls[0]);
        strcat(seen, messages(&w.calls[0]));
    }
    CHECK_STR(seen, "one,,three,");
    CHECK_EQ_INT(w.grpc.held, 0);
    DATA(0, "\0\0\0\0\1a\0\0\0\0\1b\0\0\0");
    CHECK(talk());
    CHECK(dlk_grpc_next(&w.grpc) == &w.calls[0]);
    CHECK(dlk_grpc_next(&w.grpc) == NULL); /* once, however much has come */
    CHECK_STR(messages(&w.calls[0]), "a,b,");
    TAIL("grpc-status=0");
    CHECK(talk());
    CHECK(dlk_grpc_next(&w.grpc) == &w.calls[0]);
    CHECK(w.calls[0].over);
    CHECK_STR(messages(&w.calls[0]), ""); /* three bytes of no message */
    end();
}

TEST(what_isn_t_a_message_is_said_to_be_none)
{
    static const struct {
        size_t size;
        const char *bytes, *seen;
    } all[] = {
        {0, "", ""},               /* nothing at all */
        {4, "\0\0\0\0", ""},       /* no size */
        {6, "\0\0\0\0\2a", ""},    /* shorter than it says */
        {6, "\1\0\0\0\1a", "!"},   /* compressed */
        {6, "\xff\0\0\0\1a", "!"}, /* as nothing is */
        {6,
         "\0\xff\xff\xff\xff"
         "a",
         "!"},                                 /* 4 GiB */
        {6, "\0\0\x80\0\1a", "!"},             /* one byte too many */
        {6, "\0\0\x80\0\0a", ""},              /* the longest, cut off */
        {12, "\0\0\0\0\1a\1\0\0\0\1b", "a,!"}, /* none behind one */
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        if (!begin())
            return;
        CHECK(asks(&w.calls[0], "abc"));
        HEAD;
        peer_data(&w.peer, 0, 1, all[i].bytes, all[i].size);
        TAIL("grpc-status=0");
        CHECK(talk());
        CHECK(dlk_grpc_next(&w.grpc) == &w.calls[0]);
        CHECK_STR(messages(&w.calls[0]), all[i].seen);
        end();
    }
}

/* 8 MiB, and that many bytes more, in pieces. */
static bool pour(int stream, size_t more)
{
    static const char piece[16384];
    for (size_t left = ((size_t)8 << 20) + more; left > 0;) {
        size_t size = left < sizeof(piece) ? left : sizeof(piece);
        peer_data(&w.peer, 0, stream, piece, size);
        if (!talk())
            return false;
        left -= size;
    }
    return true;
}

TEST(a_body_without_end_is_broken_off_and_the_others_go_on)
{
    if (!begin())
        return;
    CHECK(asks(&w.calls[0], "abc"));
    HEAD;
    CHECK(pour(1, 5));
    CHECK(!w.calls[0].over);
    DATA(0, "x");
    CHECK(talk());
    CHECK(w.calls[0].over);
    CHECK_EQ_INT(w.calls[0].status, DLK_GRPC_NONE);
    CHECK(peer_find(&w.peer, 1)->reset);
    CHECK(asks(&w.calls[1], "abc"));
    end();
}

TEST(four_bodies_together_are_no_longer_than_that)
{
    if (!begin())
        return;
    for (int i = 0; i < 4; i++) {
        CHECK(asks(&w.calls[i], "abc"));
        peer_headers(&w.peer, 0, 2 * i + 1, ":status=200");
        CHECK(pour(2 * i + 1, i < 3 ? 5 : 0));
    }
    CHECK(!w.calls[0].over && w.calls[3].over);
    CHECK(w.grpc.held <= (size_t)32 << 20);
    end();
}

TEST(a_call_is_not_sent_when_nobody_is_there)
{
    if (!begin())
        return;
    peer_goaway(&w.peer, 0, NGHTTP2_NO_ERROR);
    CHECK(talk());
    CHECK(!dlk_grpc_ask(&w.grpc, &w.calls[0], "/a", NULL, "abc", 3));
    CHECK(dlk_grpc_next(&w.grpc) == NULL);
    CHECK(w.calls[0].grpc == NULL); /* as one that was dropped */
    end();
}

TEST(what_the_server_does_not_take_is_not_piled_up_for_ever)
{
    static char message[1 << 20];
    int said = 0;
    if (!begin())
        return;
    w.calls[0].streams = true;
    CHECK(asks(&w.calls[0], "abc")); /* the window has 64 KiB */
    while (said < 100 && dlk_grpc_say(&w.calls[0], message, sizeof(message)))
        said++;
    CHECK(said >= 8 && said < 10);
    end();
}

TEST(a_secret_is_hidden_as_long_as_it_is_here)
{
    if (!begin())
        return;
    w.calls[0].secret = true;
    CHECK(dlk_grpc_ask(&w.grpc, &w.calls[0], "/a", NULL, "abc", 3));
    CHECK(w.calls[0].request.body.hidden);
    CHECK(talk());
    end();
}
