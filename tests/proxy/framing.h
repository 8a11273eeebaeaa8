/* Where a message begins and ends, and what the proxy has to know of it: all that it learns about
 * a protocol stands in one such table. A new protocol is a file with its table and a line in
 * framing.c. */
#ifndef TESTS_PROXY_FRAMING_H
#define TESTS_PROXY_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct proxy_span {
    const char *at; /* not terminated; NULL = there is none */
    size_t size;
} proxy_span;

/* `state` belongs to one connection and begins as zeros: what a framing has to remember of it. */
typedef struct proxy_framing {
    const char *name;
    size_t state_size;
    /* Frees what the state has. NULL: nothing. */
    void (*forget)(void *state);
    /* The size of the whole message in front; 0: more has to come, -1: it isn't in the protocol.
     * They may be asked again about the same bytes. */
    ssize_t (*request)(const void *state, const char *bytes, size_t size);
    ssize_t (*answer)(const void *state, const char *bytes, size_t size);
    /* Hears what the client says: each message once, in their order, before anything else is asked of
     * it. False: it asks for nothing, or not yet. NULL: each is a request. */
    bool (*hear)(void *state, const char *message, size_t size);
    /* The number-th word of a request; the 0th names the command. */
    proxy_span (*word)(const void *state, const char *request, size_t size, int number);
    /* How many answers it gets. Asked once for each request, in their order. NULL: one. */
    int (*answers)(void *state, const char *request, size_t size);
    /* Whether this answers no request, as news for a subscriber. Asked once for each answer, in their
     * order. NULL: none does. */
    bool (*unasked)(void *state, const char *answer, size_t size);
    /* Where answers may overtake each other: what a request and its answer have in common. NULL: they
     * come in the order of the requests. */
    int64_t (*stream)(const char *message, size_t size);
} proxy_framing;

extern const proxy_framing proxy_resp;
extern const proxy_framing proxy_zookeeper;
extern const proxy_framing proxy_memcached;
/* Where HTTP/2 is there. */
extern const proxy_framing proxy_grpc;
extern const proxy_framing proxy_line;
extern const proxy_framing proxy_postgres;

/* "raw" gives *ret = NULL. False: there is no such framing. */
bool proxy_framing_find(const char *name, const proxy_framing **ret);

#endif
