/* See the header. */
#include "proxy/whole.h"

#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ssize_t whole_size(const proxy_framing *framing, bool request, const char *bytes,
                   size_t size)
{
    int state = 0;
    char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    ssize_t whole = (request ? framing->request : framing->answer)(&state, copy, size);
    free(copy);
    return whole;
}

bool whole_is_one(const proxy_framing *framing, bool request, const char *message,
                  const char *more)
{
    char text[256];
    size_t size = strlen(message);
    snprintf(text, sizeof(text), "%s%s", message, more);
    for (size_t cut = 0; cut < size; cut++)
        if (!harness_eq_int(__FILE__, __LINE__, message,
                            whole_size(framing, request, message, cut), 0))
            return false;
    return harness_eq_int(__FILE__, __LINE__, message,
                          whole_size(framing, request, text, strlen(text)),
                          (int64_t)size);
}
