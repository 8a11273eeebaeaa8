/* HTTP/2, the client's side: what is said, and what comes of requests. */
#include "http2_world.h"

#include <stdio.h>
#include <stdlib.h>

static void more(ask *of, const char *body, bool last)
{
    CHECK(body[0] == '\0' || dlk_buf_append(&of->request.body, body, strlen(body)));
    of->request.last = last;
    dlk_http2_more(&w.http2, &of->request);
}

/* ---- requests ---- */

TEST(a_request_is_sent_whole_and_its_answer_is_told_piece_by_piece)
{
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question"));
    CHECK_STR(peer_find(&w.peer, 1)->fields,
              ":method=POST :scheme=http :path=/a :authority=there ");
    CHECK_STR(heard(1), "question");
    CHECK(peer_find(&w.peer, 1)->ended);
    answer(1, "answer");
    CHECK(talk());
    CHECK_STR(w.asks[0].said, ":status=200 |answergrpc-status=0 ");
    CHECK_EQ_INT(w.asks[0].overs, 1);
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_ANSWERED);
    CHECK(!dlk_http2_is_open(&w.asks[0].request));
    end();
}

TEST(many_are_under_way_at_once_and_are_answered_in_any_order)
{
    if (!greeted())
        return;
    for (int i = 0; i < STREAMS; i++) {
        char body[24];
        snprintf(body, sizeof(body), "question %d", i);
        CHECK(send_with(&w.asks[i], body, strlen(body), true));
    }
    CHECK(talk());
    CHECK_STR(heard(2 * 17 + 1), "question 17");
    /* So many there are that each of them is answered while others are new. */
    for (int i = STREAMS; i-- > 0;) {
        char body[24];
        snprintf(body, sizeof(body), "answer %d", i);
        if (!peer_find(&w.peer, 2 * i + 1)) {
            CHECK(i >= 100); /* what is said of the server's limit before it says one */
            continue;
        }
        answer(2 * i + 1, body);
        CHECK(talk());
    }
    for (int i = 0; i < STREAMS; i++) {
        if (w.asks[i].overs == 0) {
            answer(2 * i + 1, "late");
            CHECK(talk());
        }
        CHECK_EQ_INT(w.asks[i].overs, 1);
        CHECK_EQ_INT(w.asks[i].outcome, DLK_HTTP2_ANSWERED);
    }
    CHECK_CONTAINS(w.asks[17].said, "|answer 17");
    end();
}

TEST(no_more_than_the_server_wants_are_under_way)
{
    if (!greeted())
        return;
    peer_setting(&w.peer, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2);
    CHECK(talk());
    for (int i = 0; i < 4; i++)
        CHECK(asked(&w.asks[i], "question"));
    CHECK_EQ_INT(w.peer.count, 2);
    answer(1, "answer");
    CHECK(talk());
    CHECK_EQ_INT(w.peer.count, 3);
    dlk_http2_drop(&w.http2, &w.asks[3].request); /* it never goes out */
    answer(3, "answer");
    answer(5, "answer");
    CHECK(talk());
    CHECK_EQ_INT(w.peer.count, 3);
    CHECK_EQ_INT(w.asks[2].outcome, DLK_HTTP2_ANSWERED);
    CHECK_EQ_INT(w.asks[3].overs, 0);
    end();
}

TEST(a_long_one_says_and_hears_as_it_goes)
{
    if (!greeted())
        return;
    CHECK(send_with(&w.asks[0], "one", 3, false));
    CHECK(talk());
    CHECK_STR(heard(1), "one");
    peer_headers(&w.peer, 0, 1, ":status=200");
    peer_data(&w.peer, 0, 1, "first", 5);
    CHECK(talk());
    CHECK_STR(w.asks[0].said, ":status=200 |first");
    more(&w.asks[0], "two", false);
    CHECK(talk());
    CHECK_STR(heard(1), "onetwo");
    CHECK(!peer_find(&w.peer, 1)->ended);
    peer_data(&w.peer, 0, 1, "second", 6);
    CHECK(talk());
    more(&w.asks[0], "", true);
    CHECK(talk());
    CHECK(peer_find(&w.peer, 1)->ended);
    CHECK_EQ_INT(w.asks[0].overs, 0);
    peer_headers(&w.peer, NGHTTP2_FLAG_END_STREAM, 1, "grpc-status=0");
    CHECK(talk());
    CHECK_STR(w.asks[0].said, ":status=200 |first|secondgrpc-status=0 ");
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_ANSWERED);
    end();
}

TEST(a_long_one_that_the_server_ends_is_answered_though_there_was_more_to_say)
{
    if (!greeted())
        return;
    CHECK(send_with(&w.asks[0], "one", 3, false));
    CHECK(talk());
    peer_headers(&w.peer, NGHTTP2_FLAG_END_STREAM, 1, ":status=200 grpc-status=14");
    CHECK(talk());
    CHECK_EQ_INT(w.asks[0].overs, 1);
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_ANSWERED);
    CHECK(peer_find(&w.peer, 1)->reset); /* nobody is left to hear it */
    CHECK_EQ_INT(peer_find(&w.peer, 1)->code, NGHTTP2_NO_ERROR);
    end();
}

TEST(a_body_goes_no_further_than_the_server_has_room_for)
{
    if (!greeted())
        return;
    size_t size = 200000;
    char *body = calloc(1, size);
    CHECK(body && send_with(&w.asks[0], body, size, true));
    CHECK(talk());
    const peer_request *request = peer_find(&w.peer, 1);
    CHECK_EQ_INT(dlk_buf_size(&request->body), 65535); /* its window, as it is at first */
    peer_number(&w.peer, NGHTTP2_WINDOW_UPDATE, 1, 300000);
    CHECK(talk());
    CHECK_EQ_INT(dlk_buf_size(&request->body), 65535); /* all of them have one */
    peer_number(&w.peer, NGHTTP2_WINDOW_UPDATE, 0, 300000);
    CHECK(talk());
    CHECK_EQ_INT(dlk_buf_size(&request->body), 200000);
    CHECK(request->ended);
    answer(1, "answer");
    CHECK(talk());
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_ANSWERED);
    free(body);
    end();
}

TEST(a_server_without_a_window_gets_headers_only)
{
    if (!greeted())
        return;
    peer_setting(&w.peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    CHECK(talk());
    CHECK(asked(&w.asks[0], "question"));
    CHECK_STR(heard(1), "");
    peer_setting(&w.peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1);
    CHECK(talk());
    CHECK_STR(heard(1), "q");
    peer_setting(&w.peer, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 3);
    CHECK(talk());
    CHECK_STR(heard(1), "que");
    end();
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_BROKEN);
}

TEST(more_may_be_said_again_and_again_while_there_is_no_room_for_it)
{
    static const char filling[65535];
    if (!greeted())
        return;
    CHECK(send_with(&w.asks[0], "one", 3, false));
    CHECK(talk());
    CHECK(send_with(&w.asks[1], filling, sizeof(filling), true));
    CHECK(talk()); /* all of them have one window, which is used up now */
    more(&w.asks[0], "two", false);
    more(&w.asks[0], "three", false);
    CHECK(talk());
    CHECK_STR(heard(1), "one");
    peer_number(&w.peer, NGHTTP2_WINDOW_UPDATE, 0, 300);
    CHECK(talk());
    CHECK_STR(heard(1), "onetwothree");
    end();
}

TEST(what_is_read_makes_room_for_more)
{
    static const char piece[16384];
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question"));
    peer_headers(&w.peer, 0, 1, ":status=200");
    for (int i = 0; i < 1000; i++) { /* 16 MiB, more than any window */
        peer_data(&w.peer, 0, 1, piece, sizeof(piece));
        CHECK(talk());
    }
    CHECK_EQ_INT(w.asks[0].size, 1000 * sizeof(piece));
    CHECK(w.peer.windows > 4);
    end();
}

/* ---- ends ---- */

TEST(one_that_was_refused_was_not_done)
{
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question") && asked(&w.asks[1], "question"));
    peer_number(&w.peer, NGHTTP2_RST_STREAM, 1, NGHTTP2_REFUSED_STREAM);
    peer_number(&w.peer, NGHTTP2_RST_STREAM, 3, NGHTTP2_INTERNAL_ERROR);
    CHECK(talk());
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_UNDONE);
    CHECK_EQ_INT(w.asks[1].outcome, DLK_HTTP2_BROKEN);
    CHECK_EQ_INT(w.asks[1].code, NGHTTP2_INTERNAL_ERROR);
    end();
}

TEST(one_that_is_reset_in_the_midst_of_its_answer_is_broken_off)
{
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question"));
    peer_headers(&w.peer, 0, 1, ":status=200");
    peer_data(&w.peer, 0, 1, "answ", 4);
    peer_number(&w.peer, NGHTTP2_RST_STREAM, 1, NGHTTP2_NO_ERROR);
    CHECK(talk());
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_BROKEN);
    end();
}

TEST(who_leaves_answers_what_it_has_taken_and_nothing_behind_it)
{
    if (!greeted())
        return;
    for (int i = 0; i < 3; i++)
        CHECK(asked(&w.asks[i], "question"));
    peer_goaway(&w.peer, 3, NGHTTP2_NO_ERROR);
    CHECK(talk());
    CHECK(w.http2.leaves);
    CHECK_EQ_INT(w.asks[2].outcome, DLK_HTTP2_UNDONE);
    CHECK_EQ_INT(w.asks[0].overs + w.asks[1].overs, 0);
    CHECK(!asked(&w.asks[3], "question"));
    CHECK_EQ_INT(w.asks[3].overs, 0);
    dlk_buf_free(&w.asks[3].request.body);
    answer(1, "answer");
    answer(3, "answer");
    CHECK(talk());
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_ANSWERED);
    CHECK_EQ_INT(w.asks[1].outcome, DLK_HTTP2_ANSWERED);
    end();
}

TEST(those_that_waited_when_the_server_leaves_were_not_sent)
{
    if (!greeted())
        return;
    peer_setting(&w.peer, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    CHECK(talk());
    CHECK(asked(&w.asks[0], "question") && asked(&w.asks[1], "question"));
    peer_goaway(&w.peer, 1, NGHTTP2_NO_ERROR);
    answer(1, "answer");
    CHECK(talk());
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_ANSWERED);
    CHECK_EQ_INT(w.asks[1].outcome, DLK_HTTP2_UNDONE);
    CHECK_EQ_INT(w.asks[1].overs, 1);
    end();
}

TEST(with_the_connection_all_are_broken_off)
{
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question") && asked(&w.asks[1], "question"));
    dlk_http2_end(&w.http2);
    CHECK_EQ_INT(w.asks[0].overs, 1);
    CHECK_EQ_INT(w.asks[1].outcome, DLK_HTTP2_BROKEN);
    CHECK(!dlk_http2_ask(&w.http2, &w.asks[2].request, headers, 4));
    CHECK(!dlk_http2_feed(&w.http2, "", 0));
    end();
}

TEST(one_that_was_dropped_is_told_nothing_and_told_off)
{
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question") && asked(&w.asks[1], "question"));
    dlk_http2_drop(&w.http2, &w.asks[0].request);
    dlk_http2_drop(&w.http2, &w.asks[0].request); /* again is fine */
    answer(1, "late"); /* on its way before the server hears of it */
    answer(3, "answer");
    CHECK(talk());
    CHECK(peer_find(&w.peer, 1)->reset);
    CHECK_STR(w.asks[0].said, "");
    CHECK_EQ_INT(w.asks[0].overs, 0);
    CHECK_EQ_INT(w.asks[1].outcome, DLK_HTTP2_ANSWERED);
    end();
}

TEST(an_answer_that_is_too_much_is_broken_off)
{
    if (!greeted())
        return;
    w.asks[0].most = 4;
    CHECK(asked(&w.asks[0], "question"));
    answer(1, "answer");
    CHECK(talk());
    CHECK_EQ_INT(w.asks[0].overs, 1);
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_BROKEN);
    CHECK(peer_find(&w.peer, 1)->reset);
    CHECK(asked(&w.asks[1], "question")); /* that is no reason to leave */
    end();
}

TEST(it_doesn_t_matter_in_which_pieces_things_come)
{
    if (!greeted())
        return;
    CHECK(asked(&w.asks[0], "question"));
    peer_headers(&w.peer, 0, 1, ":status=200");
    peer_data(&w.peer, 0, 1, "a", 1);
    peer_headers(&w.peer, NGHTTP2_FLAG_END_STREAM, 1, "grpc-status=0");
    while (dlk_buf_size(&w.peer.out) > 0) {
        CHECK(dlk_http2_feed(&w.http2, dlk_buf_head(&w.peer.out), 1));
        dlk_buf_eat(&w.peer.out, 1);
    }
    CHECK_STR(w.asks[0].said, ":status=200 |agrpc-status=0 ");
    CHECK_EQ_INT(w.asks[0].outcome, DLK_HTTP2_ANSWERED);
    end();
}

TEST(pings_are_answered)
{
    if (!greeted())
        return;
    peer_frame(&w.peer, NGHTTP2_PING, 0, 0, "12345678", 8);
    CHECK(talk());
    CHECK_EQ_INT(w.peer.pongs, 1);
    end();
}
