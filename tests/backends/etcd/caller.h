/* Calls and watches (backends/etcd/calls.h) without a client around them: a driver of the test's, which has them on
 * a connection to a port of this host. */
#ifndef TESTS_BACKENDS_ETCD_CALLER_H
#define TESTS_BACKENDS_ETCD_CALLER_H

#include "backends/etcd/calls.h"

#define BYTES(text) ((dlk_etcd_bytes){sizeof(text) - 1, (uint8_t *)(uintptr_t)(text)})

extern struct caller {
    dlk_etcd_calls calls;
    dlk_link_common common;
    dlk_kicks kicks;
    dlk_rand rand;
    int64_t sent, received, now;
    uint64_t wiring;
    char peer[32];
    int ups, downs;
    char text[256]; /* of the last time it went down */
} caller;

/* All anew, and on its way to that port; by TLS, if there is one. */
bool caller_begin(int port, dlk_tls *tls);
/* As at its beginning once more, behind dlk_etcd_calls_free. */
void caller_init(void);
void caller_end(void);
/* One round of a driver, which sleeps no longer than until something has come. */
void caller_turn(void);

/* One to be sent; without memory that is the end. */
dlk_etcd_call *caller_call(dlk_etcd_method method, dlk_etcd_request request);
static inline dlk_etcd_call *caller_ask(dlk_etcd_method method,
                                        const ProtobufCMessage *message)
{
    return caller_call(method, dlk_etcd_request_of(message));
}

/* Sent: watches that key. */
dlk_etcd_call *caller_watch(int64_t number, dlk_etcd_bytes key, int64_t from, bool puts);

#endif
