/* See the header. */
#include "http2_frames.h"

#include <stdio.h>

const char http2_preface[HTTP2_PREFACE] = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};

uint32_t http2_number(const unsigned char *at, size_t size)
{
    uint32_t number = 0;
    for (size_t i = 0; i < size; i++)
        number = number << 8 | at[i];
    return number;
}

bool http2_frame_read(const void *bytes, size_t size, http2_frame *ret)
{
    const unsigned char *at = bytes;
    if (size < HTTP2_HEAD || size - HTTP2_HEAD < http2_number(at, 3))
        return false;
    *ret = (http2_frame){.type = at[3],
                         .flags = at[4],
                         .stream = (int)(http2_number(at + 5, 4) & INT32_MAX),
                         .data = at + HTTP2_HEAD,
                         .size = http2_number(at, 3)};
    return true;
}

bool http2_fields(nghttp2_hd_inflater *inflater, const unsigned char *block, size_t size,
                  char *ret, size_t room)
{
    int flags = 0;
    size_t used = 0;
    ret[0] = '\0';
    while (size > 0 || !(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv field;
        ssize_t got = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, size, 1);
        if (got < 0)
            return false;
        block += got;
        size -= (size_t)got;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            used += (size_t)snprintf(ret + used, room - used, "%.*s=%.*s ",
                                     (int)field.namelen, field.name, (int)field.valuelen,
                                     field.value);
        if (used >= room)
            return false;
    }
    return nghttp2_hd_inflate_end_headers(inflater) == 0;
}
