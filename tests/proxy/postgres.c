/* PostgreSQL's protocol, version 3: each message is a letter, the size of what follows, and that; the first of a
 * client has no letter. A request is all up to and including Sync, an answer all up to ReadyForQuery. A
 * request's words are the name of the function of the schema dlock that it calls, or the statement's first word. */
#include "proxy/framing.h"

#include <stdint.h>
#include <string.h>

enum { MESSAGE_MAX = 16 << 20, HAS_GREETED = 1, IS_UP = 2 };

static uint32_t number_at(const char *bytes)
{
    const unsigned char *from = (const unsigned char *)bytes;
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 |
           from[3];
}

/* Of the message that begins there, with its letter; 0: more has to come. */
static ssize_t measure_one(const char *bytes, size_t size)
{
    if (size < 5)
        return 0;
    uint32_t body = number_at(bytes + 1);
    if (body < 4 || body > MESSAGE_MAX)
        return -1;
    return size < (size_t)body + 1 ? 0 : (ssize_t)body + 1;
}

/* Up to the first message that begins with one of these letters. */
static ssize_t measure_to(const char *bytes, size_t size, const char *ends)
{
    for (size_t at = 0;;) {
        ssize_t one = measure_one(bytes + at, size - at);
        if (one <= 0)
            return one;
        if (strchr(ends, bytes[at]))
            return (ssize_t)at + one;
        at += (size_t)one;
    }
}

static ssize_t measure_request(const void *state, const char *bytes, size_t size)
{
    if (*(const int *)state & HAS_GREETED)
        return measure_to(bytes, size, "SXpQ");
    if (size < 4)
        return 0;
    uint32_t whole = number_at(bytes);
    if (whole < 8 || whole > MESSAGE_MAX)
        return -1;
    return size < whole ? 0 : (ssize_t)whole;
}

/* A message that comes by itself, or all that answers: to the greeting ReadyForQuery belongs as well, or an
 * authentication that asks for more (which trust doesn't). */
static ssize_t measure_answer(const void *state, const char *bytes, size_t size)
{
    (void)state;
    if (size > 0 && bytes[0] == 'A')
        return measure_one(bytes, size);
    return measure_to(bytes, size, "Z");
}

static bool hear(void *state, const char *message, size_t size)
{
    (void)message;
    (void)size;
    *(int *)state |= HAS_GREETED;
    return true;
}

/* Of a Parse: the statement behind the name of it. */
static proxy_span find_word(const void *state, const char *request, size_t size,
                            int number)
{
    static const char schema[] = "dlock.";
    (void)state;
    if (number > 0)
        return (proxy_span){NULL, 0};
    if (size < 6 || request[0] != 'P')
        return (proxy_span){"?", 1};
    const char *end = request + size;
    const char *name = memchr(request + 5, '\0', size - 5);
    const char *at =
        name ? memmem(name, (size_t)(end - name), schema, strlen(schema)) : NULL;
    const char *word = at ? at + strlen(schema) : name ? name + 1 : request;
    size_t used = 0;
    while (word + used < end &&
           (strchr("_", word[used]) == NULL ? (word[used] >= 'a' && word[used] <= 'z') ||
                                                  (word[used] >= 'A' && word[used] <= 'Z')
                                            : word[used] == '_'))
        used++;
    return (proxy_span){word, used};
}

static int count_answers(void *state, const char *request, size_t size)
{
    (void)state;
    (void)size;
    return request[0] == 'X' ? 0 : 1;
}

static bool is_unasked(void *state, const char *answer, size_t size)
{
    (void)state;
    (void)size;
    return answer[0] == 'A';
}

const proxy_framing proxy_postgres = {
    .name = "postgres",
    .state_size = sizeof(int),
    .request = measure_request,
    .answer = measure_answer,
    .hear = hear,
    .word = find_word,
    .answers = count_answers,
    .unasked = is_unasked,
};
