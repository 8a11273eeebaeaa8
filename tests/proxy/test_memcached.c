/* memcached's messages taken apart. */
#include "harness/harness.h"
#include "proxy/whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const proxy_framing *const memcached = &proxy_memcached;

static bool is_one(bool request, const char *message)
{
    return whole_is_one(memcached, request, message, "mn\r\n");
}

TEST(a_message_is_whole_at_its_last_byte_and_not_before)
{
    static const char *const requests[] = {
        "mn\r\n",
        "ms key 4 T30 c ME\r\n\r\nab\r\n",
        "md key C7\r\n",
        "add key 0 30 3\r\nabc\r\n",
        "cas key 0 -1 0 7\r\n\r\n",
        "gets key\r\n",
    };
    static const char *const answers[] = {
        "MN\r\n",
        "HD c12\r\n",
        "VA 5 c12 t3\r\na\r\nbc\r\n",
        "VALUE key 0 3 12\r\nabc\r\nEND\r\n",
        "END\r\n",
        "STAT pid 1\r\nSTAT time 2\r\nEND\r\n",
        "SERVER_ERROR out of memory storing object\r\n",
    };
    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++)
        CHECK(is_one(true, requests[i]));
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
        CHECK(is_one(false, answers[i]));
}

TEST(what_is_not_in_the_protocol_is_said_to_be_none)
{
    CHECK_EQ_INT(whole_size(memcached, true, "mn\n", 3), -1);
    CHECK_EQ_INT(whole_size(memcached, false, "VA x\r\n", 6), -1);
}

TEST(a_request_is_known_by_the_words_of_its_line)
{
    static const char request[] = "ms key 4 T30 ME\r\nab c\r\n";
    static const char *const words[] = {"ms", "key", "4", "T30", "ME"};
    int state = 0;
    for (int i = 0; i < 5; i++) {
        proxy_span word = memcached->word(&state, request, sizeof(request) - 1, i);
        CHECK(word.at && word.size == strlen(words[i]) &&
              memcmp(word.at, words[i], word.size) == 0);
    }
    CHECK(!memcached->word(&state, request, sizeof(request) - 1, 5).at);
}
