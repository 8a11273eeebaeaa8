/* Messages taken apart: where each is whole. */
#ifndef TESTS_PROXY_WHOLE_H
#define TESTS_PROXY_WHOLE_H

#include "proxy/framing.h"

/* Of a request or an answer, from a copy of just that size, so that a byte read too far is found. */
ssize_t whole_size(const proxy_framing *framing, bool request, const char *bytes,
                   size_t size);
/* Whole at the last byte of @p message and not before, with @p more behind it. */
bool whole_is_one(const proxy_framing *framing, bool request, const char *message,
                  const char *more);

#endif
