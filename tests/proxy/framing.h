/* Where a message begins and ends, and what the proxy has to know of it: all that it learns about
 * a protocol stands in one such table. A new protocol is a file with its table and a line in
 * framing.c. */
#ifndef TESTS_PROXY_FRAMING_H
#define TESTS_PROXY_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct proxy_span {
    const char *at; /* not terminated; NULL = there is none */
    size_t size;
} proxy_span;

/* `state` belongs to one connection and begins as 0: what a framing has to remember of it. */
typedef struct proxy_framing {
    const char *name;
    /* The size of the whole message in front; 0: more has to come, -1: it isn't in the protocol.
     * They may be asked again about the same bytes. */
    ssize_t (*request)(const int *state, const char *bytes, size_t size);
    ssize_t (*answer)(const int *state, const char *bytes, size_t size);
    /* The number-th word of a request; the 0th names the command. */
    proxy_span (*word)(const int *state, const char *request, size_t size, int number);
    /* How many answers it gets. Asked once for each request, in their order. NULL: one. */
    int (*answers)(int *state, const char *request, size_t size);
    /* Whether this answers no request, as news for a subscriber. NULL: none does. */
    bool (*unasked)(const int *state, const char *answer, size_t size);
} proxy_framing;

extern const proxy_framing proxy_resp;
extern const proxy_framing proxy_zookeeper;
extern const proxy_framing proxy_memcached;
extern const proxy_framing proxy_http;
extern const proxy_framing proxy_line;

/* "raw" gives *ret = NULL. False: there is no such framing. */
bool proxy_framing_find(const char *name, const proxy_framing **ret);

#endif
