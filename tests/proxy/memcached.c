/* memcached's text protocol (doc/protocol.txt of its sources). A request is a line, behind which a
 * store has its data; an answer is a line, behind which a value has its own, or the lines of
 * statistics up to END. A request's words are those of its line. */
#include "proxy/framing.h"

#include <stdint.h>
#include <string.h>

enum { LINE_SIZE_MAX = 65536, DATA_MAX = 64 << 20 };

static proxy_span word_at(const char *line, const char *end, int number)
{
    for (;;) {
        while (line < end && *line == ' ')
            line++;
        const char *from = line;
        while (line < end && *line != ' ')
            line++;
        if (from == line)
            return (proxy_span){NULL, 0};
        if (number-- == 0)
            return (proxy_span){from, (size_t)(line - from)};
    }
}

static bool is(proxy_span word, const char *text)
{
    return word.at && word.size == strlen(text) && memcmp(word.at, text, word.size) == 0;
}

/* The end of the first line, before its \r\n. 1: it is there, 0: more has to come, -1: that isn't
 * the protocol. */
static int find_line(const char *bytes, size_t size, const char **ret_end)
{
    const char *newline =
        memchr(bytes, '\n', size < LINE_SIZE_MAX ? size : LINE_SIZE_MAX);
    if (!newline)
        return size < LINE_SIZE_MAX ? 0 : -1;
    if (newline == bytes || newline[-1] != '\r')
        return -1;
    *ret_end = newline - 1;
    return 1;
}

/* How much data the line announces in that word; -1: none. */
static int64_t data_of(const char *line, const char *end, int number)
{
    proxy_span word = word_at(line, end, number);
    int64_t size = 0;
    if (!word.at || word.size > 9)
        return -1;
    for (size_t i = 0; i < word.size; i++) {
        if (word.at[i] < '0' || word.at[i] > '9')
            return -1;
        size = size * 10 + (word.at[i] - '0');
    }
    return size <= DATA_MAX ? size : -1;
}

static ssize_t whole(size_t line, int64_t data, size_t end, size_t size)
{
    size_t all = line + (size_t)data + end;
    return size < all ? 0 : (ssize_t)all;
}

static ssize_t measure_request(const void *state, const char *bytes, size_t size)
{
    static const char *const classic[] = {"set", "add", "replace", "cas", "append"};
    const char *end;
    (void)state;
    int there = find_line(bytes, size, &end);
    if (there <= 0)
        return there;
    size_t line = (size_t)(end - bytes) + 2;
    proxy_span command = word_at(bytes, end, 0);
    int number = is(command, "ms") ? 2 : 0;
    for (size_t i = 0; i < sizeof(classic) / sizeof(*classic); i++)
        if (is(command, classic[i]))
            number = 4;
    int64_t data = number ? data_of(bytes, end, number) : -1;
    return data < 0 ? (ssize_t)line : whole(line, data, 2, size);
}

/* Up to the line "END". */
static ssize_t measure_lines(const char *bytes, size_t size)
{
    const char *found = memmem(bytes, size, "\r\nEND\r\n", 7);
    return found ? found - bytes + 7 : 0;
}

static ssize_t measure_answer(const void *state, const char *bytes, size_t size)
{
    const char *end;
    (void)state;
    int there = find_line(bytes, size, &end);
    if (there <= 0)
        return there;
    size_t line = (size_t)(end - bytes) + 2;
    proxy_span word = word_at(bytes, end, 0);
    if (is(word, "STAT"))
        return measure_lines(bytes, size);
    bool meta = is(word, "VA");
    if (!meta && !is(word, "VALUE"))
        return (ssize_t)line;
    int64_t data = data_of(bytes, end, meta ? 1 : 3);
    return data < 0 ? -1 : whole(line, data, meta ? 2 : strlen("\r\nEND\r\n"), size);
}

static proxy_span find_word(const void *state, const char *request, size_t size,
                            int number)
{
    const char *end;
    (void)state;
    return find_line(request, size, &end) == 1 ? word_at(request, end, number)
                                               : (proxy_span){NULL, 0};
}

const proxy_framing proxy_memcached = {
    .name = "memcached",
    .request = measure_request,
    .answer = measure_answer,
    .word = find_word,
};
