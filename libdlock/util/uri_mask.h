/* The raw parts of a URI, shared by parsing it and by showing it without its secrets. */
#ifndef DLK_UTIL_URI_MASK_H
#define DLK_UTIL_URI_MASK_H

#include "util/uri.h"

#include <stdbool.h>

typedef struct dlk_slice {
    const char *at;
    size_t size;
} dlk_slice;

/* The first @p c, or the slice's size. */
size_t dlk_slice_find(dlk_slice slice, char c);

/* What is left from @p start on; empty at or beyond the end. */
dlk_slice dlk_slice_from(dlk_slice slice, size_t start);

typedef struct dlk_uri_parts {
    dlk_slice scheme, user, hosts, path, query; /* as written, not decoded */
    bool has_authority;                         /* there is a // */
    bool stray_at;                              /* there is an @ behind the authority */
} dlk_uri_parts;

/* @p text has a colon. */
dlk_uri_parts dlk_uri_split(const char *text);

/* NULL without memory. */
char *dlk_uri_mask(const dlk_uri *uri, const dlk_uri_parts *parts);

#endif
