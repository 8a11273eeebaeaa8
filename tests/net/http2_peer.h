/* The other side of HTTP/2, in a test's memory: it reads what a client has said, and says what the test
 * wants, also what no server would. */
#ifndef TESTS_NET_HTTP2_PEER_H
#define TESTS_NET_HTTP2_PEER_H

#include "http2_frames.h"
#include "util/buf.h"

#define PEER_REQUESTS 512

typedef struct peer_request {
    int stream;
    char fields[1024]; /* ":method=POST :path=/a " */
    dlk_buf body;
    bool ended; /* with all of it */
    bool reset;
    uint32_t code;
} peer_request;

typedef struct peer {
    nghttp2_hd_inflater *inflater;
    dlk_buf heard; /* not yet a whole frame */
    dlk_buf out;   /* for the client */
    bool greeted;  /* by its preface and its settings */
    bool says_bye; /* GOAWAY … */
    uint32_t bye;
    int acks, pongs,
        windows; /* settings that were acknowledged, pings answered, windows enlarged */
    bool broken; /* what it says isn't HTTP/2 */
    peer_request requests[PEER_REQUESTS];
    int count;
} peer;

void peer_begin(peer *peer);
void peer_end(peer *peer);
/* Takes all that is in there. */
void peer_hear(peer *peer, dlk_buf *from);
/* NULL: it was never asked. */
peer_request *peer_find(peer *peer, int stream);
/* It has been answered: there is room for another, which takes its place. */
void peer_forget(peer *peer, peer_request *request);

/* One frame, as it is. */
void peer_frame(peer *peer, int type, int flags, int stream, const void *data,
                size_t size);
/* "name=value name=value", none of them out of a table. */
void peer_headers(peer *peer, int flags, int stream, const char *fields);
/* The same as a block, for who frames it by himself. */
size_t peer_block(const char *fields, unsigned char *to, size_t room);
void peer_data(peer *peer, int flags, int stream, const char *data, size_t size);
void peer_setting(peer *peer, int what, uint32_t value);
void peer_number(peer *peer, int type, int stream, uint32_t number);
void peer_goaway(peer *peer, int last_stream, uint32_t code);

#endif
