/* RESP taken apart, at every byte where a packet may end. */
#include "harness/harness.h"
#include "proxy/framing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const proxy_framing *const resp = &proxy_resp;
static int state;

/* From a copy of just that size, so that a byte read too far is found. */
static ssize_t measure(bool request, const char *text, size_t size)
{
    char *copy = malloc(size + 1);
    memcpy(copy, text, size);
    copy = realloc(copy, size ? size : 1);
    ssize_t whole = (request ? resp->request : resp->answer)(&state, copy, size);
    free(copy);
    return whole;
}

static void check_whole(bool request, const char *text)
{
    size_t size = strlen(text);
    char twice[4096];
    snprintf(twice, sizeof(twice), "%s%s", text, text);
    for (size_t cut = 0; cut < size; cut++)
        CHECK_EQ_INT(measure(request, text, cut), 0);
    for (size_t more = 0; more <= size; more++)
        CHECK_EQ_INT(measure(request, twice, size + more), size);
}

TEST(a_message_is_whole_at_its_last_byte_and_not_before)
{
    static const char *const requests[] = {
        "*1\r\n$4\r\nPING\r\n",
        "*3\r\n$7\r\nEVALSHA\r\n$0\r\n\r\n$11\r\n*2\r\n$1\r\nx\r\n\r\n",
        "*0\r\n",
    };
    static const char *const answers[] = {
        "+OK\r\n",
        "-ERR no\r\n",
        ":-12\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$5\r\na\r\nb\n\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n*1\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n",
        "%1\r\n+a\r\n*1\r\n_\r\n",
        "|1\r\n+ttl\r\n:3\r\n*1\r\n#t\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
        "=5\r\ntxt:a\r\n",
        "~1\r\n,1.5\r\n",
        "(123456789012345678901\r\n",
    };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        check_whole(true, requests[i]);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        check_whole(false, answers[i]);
}

TEST(what_is_not_in_the_protocol_is_said_to_be_none)
{
    static const char *const requests[] = {
        "PING\r\n",         "*x\r\n",  "*-2\r\n", "*1\r\n:1\r\n",
        "*99999999999\r\n", "*1 \r\n", "*1\n",    "*1\r\n$9999999999\r\n",
        "*1\r\n$+\r\n",
    };
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\n", "*2000000\r\n", "$\r\n",
                                          "*1\r\nx\r\n", "\r\n"};
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        CHECK_EQ_INT(measure(true, requests[i], strlen(requests[i])), -1);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        CHECK_EQ_INT(measure(false, answers[i], strlen(answers[i])), -1);
}

TEST(answers_nested_very_deeply_need_no_stack)
{
    enum { DEPTH = 500000 };
    char *deep = malloc(DEPTH * 4 + 5);
    for (int i = 0; i < DEPTH; i++)
        memcpy(deep + i * 4, "*1\r\n", 4);
    memcpy(deep + DEPTH * 4, "+OK\r\n", 5);
    CHECK_EQ_INT(resp->answer(&state, deep, DEPTH * 4 + 5), DEPTH * 4 + 5);
    CHECK_EQ_INT(resp->answer(&state, deep, DEPTH * 4 + 4), 0);
    free(deep);
}

static bool word_is(const char *request, int number, const char *text)
{
    proxy_span word = resp->word(&state, request, strlen(request), number);
    return word.at ? text && word.size == strlen(text) &&
                         memcmp(word.at, text, word.size) == 0
                   : !text;
}

TEST(words_are_found_by_number)
{
    const char *request = "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$3\r\n\r\nx\r\n";
    CHECK(word_is(request, 0, "SET"));
    CHECK(word_is(request, 1, ""));
    CHECK(word_is(request, 2, "\r\nx"));
    CHECK(word_is(request, 3, NULL));
    CHECK(word_is("*0\r\n", 0, NULL));
}

static int answers_to(const char *request)
{
    return resp->answers(&state, request, strlen(request));
}

static bool unasked(const char *answer)
{
    return resp->unasked(&state, answer, strlen(answer));
}

TEST(news_of_a_channel_answers_nothing_and_each_subscription_is_confirmed)
{
    const char *news = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
    state = 0;
    CHECK_EQ_INT(answers_to("*1\r\n$4\r\nPING\r\n"), 1);
    CHECK(!unasked(news)); /* the answer to some LRANGE */
    CHECK(unasked(">2\r\n$10\r\ninvalidate\r\n*-1\r\n"));
    CHECK_EQ_INT(answers_to("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n$1\r\nb\r\n"), 2);
    CHECK(unasked(news));
    CHECK(!unasked("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"));
    CHECK(!unasked(">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"));
    CHECK(!unasked("+PONG\r\n"));
    CHECK_EQ_INT(answers_to("*1\r\n$11\r\nUNSUBSCRIBE\r\n"), 1);
    state = 0;
}
