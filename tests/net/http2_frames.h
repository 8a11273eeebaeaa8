/* HTTP/2's frames as they lie in bytes, for those who play a server, or stand between (tests/proxy). */
#ifndef TESTS_NET_HTTP2_FRAMES_H
#define TESTS_NET_HTTP2_FRAMES_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP2_HEAD 9

/* What a client begins with; without a '\0' at its end. */
enum { HTTP2_PREFACE = 24 };
extern const char http2_preface[HTTP2_PREFACE];

typedef struct http2_frame {
    int type, flags, stream;
    const unsigned char *data;
    size_t size; /* of the data */
} http2_frame;

/* The whole frame in front. False: more has to come. */
bool http2_frame_read(const void *bytes, size_t size, http2_frame *ret);

uint32_t http2_number(const unsigned char *at, size_t size);

/* A block of headers as "name=value name=value ". False: it is none, or longer than that. Blocks build on
 * each other, so that none may be left out. */
bool http2_fields(nghttp2_hd_inflater *inflater, const unsigned char *block, size_t size,
                  char *ret, size_t room);

#endif
