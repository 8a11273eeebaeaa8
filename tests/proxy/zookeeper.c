/* ZooKeeper's protocol (src/zookeeper.jute of its sources): each message has its size in front of
 * it. The first of either side shakes hands; then a request is a number, an operation and, in most,
 * a path, and an answer begins with the request's number. A request's words are the operation's
 * name and the path. */
#include "proxy/framing.h"

#include <stdint.h>
#include <string.h>

enum {
    MESSAGE_MAX = 16 << 20,
    HAS_GREETED = 1, /* state */
    XID_WATCH = -1,  /* instead of a request's number: an event */
    SIZE_AT = 0,
    XID_AT = 4,
    TYPE_AT = 8,
    PATH_AT = 12
};

static const char *const operations[] = {
    [1] = "create",        [2] = "delete",         [3] = "exists",
    [4] = "getData",       [5] = "setData",        [6] = "getACL",
    [7] = "setACL",        [8] = "getChildren",    [9] = "sync",
    [11] = "ping",         [12] = "getChildren2",  [13] = "check",
    [14] = "multi",        [15] = "create2",       [16] = "reconfig",
    [17] = "checkWatches", [18] = "removeWatches", [19] = "createContainer",
    [21] = "createTTL",    [22] = "multiRead",     [100] = "auth",
    [101] = "setWatches",  [105] = "setWatches2",  [106] = "addWatch",
};
enum {
    OPERATIONS = sizeof(operations) / sizeof(*operations),
    CLOSE = -11,
    NO_PATH = 100
};

static int32_t number_at(const char *bytes, size_t at)
{
    const unsigned char *from = (const unsigned char *)bytes + at;
    return (int32_t)((uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 |
                     (uint32_t)from[2] << 8 | from[3]);
}

static ssize_t measure(const void *state, const char *bytes, size_t size)
{
    (void)state;
    if (size < 4)
        return 0;
    int32_t body = number_at(bytes, SIZE_AT);
    if (body < 0 || body > MESSAGE_MAX)
        return -1;
    return size < (size_t)body + 4 ? 0 : (ssize_t)body + 4;
}

static bool has_greeted(const int *state)
{
    return *state == HAS_GREETED;
}

static proxy_span name_of(const void *state, const char *request, size_t size)
{
    const char *name = "?";
    if (!has_greeted(state)) {
        name = "connect";
    } else if (size >= PATH_AT) {
        int32_t type = number_at(request, TYPE_AT);
        if (type == CLOSE)
            name = "close";
        else if (type > 0 && type < OPERATIONS && operations[type])
            name = operations[type];
    }
    return (proxy_span){name, strlen(name)};
}

static proxy_span find_word(const void *state, const char *request, size_t size,
                            int number)
{
    proxy_span none = {NULL, 0};
    if (number == 0)
        return name_of(state, request, size);
    if (number > 1 || !has_greeted(state) || size < PATH_AT + 4 ||
        number_at(request, TYPE_AT) >= NO_PATH)
        return none;
    int32_t length = number_at(request, PATH_AT);
    if (length < 0 || (size_t)length > size - PATH_AT - 4)
        return none;
    return (proxy_span){request + PATH_AT + 4, (size_t)length};
}

static int count_answers(void *state, const char *request, size_t size)
{
    (void)request;
    (void)size;
    *(int *)state = HAS_GREETED;
    return 1;
}

/* The answer to the handshake has the protocol's version there, which is 0. */
static bool is_unasked(void *state, const char *answer, size_t size)
{
    (void)state;
    return size >= XID_AT + 4 && number_at(answer, XID_AT) == XID_WATCH;
}

const proxy_framing proxy_zookeeper = {
    .name = "zookeeper",
    .state_size = sizeof(int),
    .request = measure,
    .answer = measure,
    .word = find_word,
    .answers = count_answers,
    .unasked = is_unasked,
};
