/* Redis' protocol, versions 2 and 3 (redis.io/docs/reference/protocol-spec). Requests are arrays of
 * bulk strings; answers are anything. Nothing recurses, so no answer is nested too deeply. */
#include "proxy/framing.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

enum {
    LINE_MAX_SIZE = 65536,
    PARTS_MAX = 1 << 20,
    BULK_MAX = 512 << 20,
    SUBSCRIBED = 1 /* state: from here on news may come */
};

/* One line of a message: its type, and the number behind it if it has one. */
typedef struct head {
    char type;
    int64_t number;
    size_t size; /* with the line's end */
} head;

/* All of it, without spaces; strtoll would look for digits beyond the end. */
static bool read_number(const char *at, const char *end, int64_t *ret)
{
    bool minus = at < end && *at == '-';
    at += minus;
    if (at == end || end - at > 18)
        return false;
    int64_t number = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        number = number * 10 + (*at - '0');
    }
    *ret = minus ? -number : number;
    return true;
}

/* 1: read, 0: more has to come, -1: that isn't RESP. */
static int read_head(const char *at, size_t size, head *ret)
{
    const char *newline = memchr(at, '\n', size);
    if (!newline)
        return size > LINE_MAX_SIZE ? -1 : 0;
    if (newline - at < 2 || newline[-1] != '\r')
        return -1;
    *ret = (head){.type = *at, .size = (size_t)(newline - at) + 1};
    if (!strchr("*$~>%|!=", ret->type))
        return 1;
    return read_number(at + 1, newline - 1, &ret->number) && ret->number >= -1 ? 1 : -1;
}

static ssize_t measure_bulk(const head *first, size_t size)
{
    if (first->number < 0)
        return (ssize_t)first->size;
    if (first->number > BULK_MAX)
        return -1;
    size_t whole = first->size + (size_t)first->number + 2;
    return whole <= size ? (ssize_t)whole : 0;
}

/* What a message consists of besides its head, or -1. */
static int64_t parts_of(const head *first)
{
    int64_t count = first->number < 0 ? 0 : first->number;
    if (count > PARTS_MAX)
        return -1;
    switch (first->type) {
    case '*':
    case '~':
    case '>':
        return count;
    case '%':
        return 2 * count;
    case '|': /* attributes come before the thing itself */
        return 2 * count + 1;
    default:
        return 0;
    }
}

static ssize_t measure_answer(const void *state, const char *bytes, size_t size)
{
    (void)state;
    size_t used = 0;
    for (int64_t left = 1; left > 0; left--) {
        head first;
        int got = used < size ? read_head(bytes + used, size - used, &first) : 0;
        if (got <= 0)
            return got;
        ssize_t part = (ssize_t)first.size;
        if (strchr("$!=", first.type))
            part = measure_bulk(&first, size - used);
        else if (!strchr("+-:_#,(*~>%|", first.type))
            part = -1;
        int64_t more = parts_of(&first);
        if (part <= 0 || more < 0 || left + more > 2 * PARTS_MAX)
            return part <= 0 ? part : -1;
        used += (size_t)part;
        left += more;
    }
    return (ssize_t)used;
}

static ssize_t measure_request(const void *state, const char *bytes, size_t size)
{
    (void)state;
    head array, bulk;
    if (size > 0 && bytes[0] != '*')
        return -1;
    int got = read_head(bytes, size, &array);
    if (got <= 0)
        return got;
    if (array.number > PARTS_MAX)
        return -1;
    size_t used = array.size;
    for (int64_t i = 0; i < array.number; i++) {
        if (used < size && bytes[used] != '$')
            return -1;
        got = used < size ? read_head(bytes + used, size - used, &bulk) : 0;
        ssize_t part = got <= 0 ? got : measure_bulk(&bulk, size - used);
        if (part <= 0)
            return part;
        used += (size_t)part;
    }
    return (ssize_t)used;
}

/* The number-th bulk string of an array that is whole. */
static proxy_span find_word(const void *state, const char *bytes, size_t size, int number)
{
    (void)state;
    head array = {0}, bulk = {0};
    proxy_span none = {NULL, 0};
    if (read_head(bytes, size, &array) <= 0 || number >= array.number)
        return none;
    size_t used = array.size;
    for (int i = 0; i <= number; i++) {
        if (used >= size || read_head(bytes + used, size - used, &bulk) <= 0 ||
            bulk.type != '$' || bulk.number < 0)
            return none;
        if (i < number)
            used += bulk.size + (size_t)bulk.number + 2;
    }
    return (proxy_span){bytes + used + bulk.size, (size_t)bulk.number};
}

static bool is_word(proxy_span word, const char *text)
{
    return word.at && word.size == strlen(text) &&
           strncasecmp(word.at, text, word.size) == 0;
}

/* Each channel is confirmed by a message of its own. */
static int count_answers(void *state, const char *request, size_t size)
{
    static const char *const names[] = {"SUBSCRIBE",   "PSUBSCRIBE",   "SSUBSCRIBE",
                                        "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"};
    proxy_span command = find_word(state, request, size, 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (is_word(command, names[i])) {
            *(int *)state |= SUBSCRIBED;
            head array = {0};
            (void)read_head(request, size, &array); /* it is whole, so that can be read */
            return array.number > 2 ? (int)array.number - 1 : 1;
        }
    return 1;
}

static bool is_unasked(void *state, const char *answer, size_t size)
{
    static const char *const names[] = {"message", "pmessage", "smessage", "invalidate"};
    /* An ordinary array may begin with such a word as well. */
    if (answer[0] != '>' && !(answer[0] == '*' && (*(int *)state & SUBSCRIBED)))
        return false;
    proxy_span what = find_word(state, answer, size, 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (is_word(what, names[i]))
            return true;
    return false;
}

const proxy_framing proxy_resp = {
    .name = "resp",
    .state_size = sizeof(int),
    .request = measure_request,
    .answer = measure_answer,
    .word = find_word,
    .answers = count_answers,
    .unasked = is_unasked,
};
