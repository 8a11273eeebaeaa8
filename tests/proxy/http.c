/* etcd's JSON gateway: HTTP/1.1 with a size in front of each request. An answer has one, too, or
 * comes in chunks, which may have no end: then its head is the answer, and each chunk is news. A
 * request's words are what it does ("put", "delete" and "read" are transactions) and its path. */
#include "proxy/framing.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HEAD_MAX = 64 << 10, BODY_MAX = 16 << 20 };

static size_t head_size(const char *bytes, size_t size)
{
    const char *end = memmem(bytes, size, "\r\n\r\n", 4);
    return end ? (size_t)(end - bytes) + 4 : 0;
}

/* The value of a line of the head, or NULL. */
static const char *field(const char *bytes, size_t head, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = bytes; at + length + 2 < bytes + head;) {
        const char *end = memmem(at, (size_t)(bytes + head - at), "\r\n", 2);
        if (!end)
            return NULL;
        if ((size_t)(end - at) > length && strncasecmp(at, name, length) == 0 &&
            at[length] == ':')
            return at + length + 1;
        at = end + 2;
    }
    return NULL;
}

static ssize_t whole(const char *bytes, size_t size)
{
    size_t head = head_size(bytes, size);
    if (head == 0)
        return size > HEAD_MAX ? -1 : 0;
    const char *length = field(bytes, head, "Content-Length");
    long body = length ? strtol(length, NULL, 10) : 0;
    if (body < 0 || body > BODY_MAX)
        return -1;
    return size < head + (size_t)body ? 0 : (ssize_t)(head + (size_t)body);
}

static bool is_head(const char *bytes, size_t size)
{
    return size >= 5 && memcmp(bytes, "HTTP/", 5) == 0;
}

static ssize_t chunk(const char *bytes, size_t size)
{
    const char *end = memmem(bytes, size, "\r\n", 2);
    if (!end)
        return size > 32 ? -1 : 0;
    size_t all = (size_t)(end - bytes) + 2 + (size_t)strtoul(bytes, NULL, 16) + 2;
    if (all > BODY_MAX)
        return -1;
    return size < all ? 0 : (ssize_t)all;
}

static ssize_t measure_request(const int *state, const char *bytes, size_t size)
{
    (void)state;
    return whole(bytes, size);
}

static ssize_t measure_answer(const int *state, const char *bytes, size_t size)
{
    (void)state;
    if (size < 5)
        return 0;
    return is_head(bytes, size) ? whole(bytes, size) : chunk(bytes, size);
}

static proxy_span path_of(const char *request, size_t size)
{
    const char *begin = memchr(request, ' ', size);
    if (!begin)
        return (proxy_span){NULL, 0};
    begin++;
    const char *end = memchr(begin, ' ', size - (size_t)(begin - request));
    return (proxy_span){begin, end ? (size_t)(end - begin) : 0};
}

static proxy_span find_word(const int *state, const char *request, size_t size,
                            int number)
{
    (void)state;
    proxy_span path = path_of(request, size);
    if (number == 1 || !path.at)
        return path;
    if (number > 1)
        return (proxy_span){NULL, 0};
    const char *slash = memrchr(path.at, '/', path.size);
    size_t skip = slash ? (size_t)(slash + 1 - path.at) : 0;
    proxy_span name = {path.at + skip, path.size - skip};
    if (name.size != 3 || memcmp(name.at, "txn", 3) != 0)
        return name;
    const char *what = memmem(request, size, "\"request_put\"", 13)            ? "put"
                       : memmem(request, size, "\"request_delete_range\"", 22) ? "delete"
                                                                               : "read";
    return (proxy_span){what, strlen(what)};
}

static bool is_unasked(const int *state, const char *answer, size_t size)
{
    (void)state;
    return !is_head(answer, size);
}

const proxy_framing proxy_http = {
    .name = "http",
    .request = measure_request,
    .answer = measure_answer,
    .word = find_word,
    .unasked = is_unasked,
};
