/* The messages of etcd's gateway taken apart. */
#include "harness/harness.h"
#include "proxy/whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const proxy_framing *const http = &proxy_http;

static const char put[] =
    "POST /v3/kv/txn HTTP/1.1\r\nHost: a\r\ncontent-length: 17\r\n\r\n"
    "{\"request_put\":1}";
static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char chunk[] = "a\r\n0123456789\r\n";

static bool is_one(bool request, const char *message)
{
    return whole_is_one(http, request, message, request ? put : chunk);
}

TEST(a_message_is_whole_at_its_last_byte_and_not_before)
{
    CHECK(is_one(true, put));
    CHECK(is_one(false, "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n"));
    CHECK(is_one(false, head));
    CHECK(is_one(false, chunk));
}

TEST(the_head_of_a_stream_is_the_answer_and_what_follows_is_news)
{
    int state = 0;
    CHECK(!http->unasked(&state, head, sizeof(head) - 1));
    CHECK(http->unasked(&state, chunk, sizeof(chunk) - 1));
}

TEST(a_transaction_is_known_by_what_it_does_and_others_by_their_path)
{
    static const char renewal[] = "POST /v3/lease/keepalive HTTP/1.1\r\n\r\n";
    int state = 0;
    proxy_span word = http->word(&state, put, sizeof(put) - 1, 0);
    CHECK(word.size == 3 && memcmp(word.at, "put", 3) == 0);
    word = http->word(&state, renewal, sizeof(renewal) - 1, 0);
    CHECK(word.size == 9 && memcmp(word.at, "keepalive", 9) == 0);
    word = http->word(&state, renewal, sizeof(renewal) - 1, 1);
    CHECK(word.size == 19 && memcmp(word.at, "/v3/lease/keepalive", 19) == 0);
}

TEST(what_is_not_in_the_protocol_is_said_to_be_none)
{
    static const char endless[] = "this isn't the size of a chunk, and never will be";
    CHECK_EQ_INT(whole_size(http, false, endless, sizeof(endless) - 1), -1);
}
