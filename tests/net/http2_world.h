/* A client of HTTP/2 and its peer (http2_peer.h), both in a test's memory, and what comes of requests. */
#ifndef TESTS_NET_HTTP2_WORLD_H
#define TESTS_NET_HTTP2_WORLD_H

#include "harness/harness.h"
#include "http2_peer.h"
#include "net/http2.h"

#include <string.h>

#define STREAMS 300

typedef struct ask {
    dlk_http2_request request; /* first */
    char said[256];            /* ":status=200 |body|grpc-status=0 " */
    size_t size;               /* of what came in pieces, also if it isn't in `said` */
    size_t most;               /* 0: no limit */
    int overs;
    dlk_http2_outcome outcome;
    uint32_t code;
} ask;

extern struct http2_world {
    dlk_http2 http2;
    dlk_buf out;
    peer peer;
    ask asks[STREAMS];
} w;

extern const dlk_http2_header headers[4];

/* The client has greeted; both have. False after a failed check. */
bool begin(void);
bool greeted(void);
void end(void);
/* Both hear what the other has said, until nothing is left. False: the connection has to end. */
bool talk(void);

bool send_with(ask *of, const char *body, size_t size, bool last);
bool asked(ask *of, const char *body);
/* The body that the peer has heard so far, as text. */
const char *heard(int stream);
/* Of the peer: all that there is of an answer. */
void answer(int stream, const char *body);

#endif
