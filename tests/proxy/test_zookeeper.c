/* ZooKeeper's messages taken apart. */
#include "harness/harness.h"
#include "proxy/framing.h"

#include <stdlib.h>
#include <string.h>

static const proxy_framing *const zookeeper = &proxy_zookeeper;

#define CONNECT "\0\0\0\4\0\0\0\0"
#define CREATE  "\0\0\0\21\0\0\0\1\0\0\0\1\0\0\0\5/a/b-"
#define PING    "\0\0\0\10\377\377\377\376\0\0\0\13"
#define CLOSE   "\0\0\0\10\0\0\0\7\377\377\377\365"

/* From a copy of just that size, so that a byte read too far is found. */
static ssize_t measure(const char *bytes, size_t size)
{
    int state = 0;
    char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    ssize_t whole = zookeeper->request(&state, copy, size);
    ssize_t answered = zookeeper->answer(&state, copy, size);
    free(copy);
    return whole == answered ? whole : -2;
}

TEST(a_message_is_whole_at_its_last_byte_and_not_before)
{
    static const char twice[] = CREATE PING;
    for (size_t cut = 0; cut < sizeof(CREATE) - 1; cut++)
        CHECK_EQ_INT(measure(twice, cut), 0);
    for (size_t size = sizeof(CREATE) - 1; size < sizeof(twice); size++)
        CHECK_EQ_INT(measure(twice, size), sizeof(CREATE) - 1);
    CHECK_EQ_INT(measure("\0\0\0\0", 4), 4);
}

TEST(what_is_not_in_the_protocol_is_said_to_be_none)
{
    CHECK_EQ_INT(measure("srvr", 4), -1);
    CHECK_EQ_INT(measure("\377\377\377\377", 4), -1);
}

static bool word_is(int state, const char *bytes, size_t size, int number,
                    const char *text)
{
    proxy_span word = zookeeper->word(&state, bytes, size, number);
    if (!word.at || !text)
        return !word.at && !text;
    return word.size == strlen(text) && memcmp(word.at, text, word.size) == 0;
}

#define WORD_IS(state, message, number, text)                                            \
    word_is((state), (message), sizeof(message) - 1, (number), (text))

TEST(a_request_is_known_by_its_operation_and_its_path)
{
    int state = 0;
    CHECK(WORD_IS(state, CONNECT, 0, "connect"));
    CHECK(WORD_IS(state, CONNECT, 1, NULL));
    CHECK_EQ_INT(zookeeper->answers(&state, CONNECT, sizeof(CONNECT) - 1), 1);
    CHECK(WORD_IS(state, CREATE, 0, "create"));
    CHECK(WORD_IS(state, CREATE, 1, "/a/b-"));
    CHECK(WORD_IS(state, CREATE, 2, NULL));
    CHECK(WORD_IS(state, PING, 0, "ping"));
    CHECK(WORD_IS(state, PING, 1, NULL));
    CHECK(WORD_IS(state, CLOSE, 0, "close"));
    CHECK(WORD_IS(state, "\0\0\0\0", 0, "?"));
    /* A path that would end behind the message isn't one. */
    CHECK(WORD_IS(state, "\0\0\0\16\0\0\0\1\0\0\0\1\0\0\0\5/a", 1, NULL));
}

TEST(an_event_answers_nobody)
{
    static const char event[] = "\0\0\0\4\377\377\377\377", answer[] = "\0\0\0\4\0\0\0\1";
    int state = 1;
    CHECK(zookeeper->unasked(&state, event, sizeof(event) - 1));
    CHECK(!zookeeper->unasked(&state, answer, sizeof(answer) - 1));
    CHECK(!zookeeper->unasked(&state, PING, sizeof(PING) - 1));
}
