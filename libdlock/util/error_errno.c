/* What an errno means; see error.h. Without GNU's extensions, as glibc's strerror_r is another function
 * with them than anybody else's. */
#undef _GNU_SOURCE
#define _POSIX_C_SOURCE 200809L
#include "util/error.h"

#include <stdio.h>
#include <string.h>

const char *dlk_error_errno(int number, char *text, size_t size)
{
    if (strerror_r(number, text, size) != 0)
        (void)snprintf(text, size, "error %d", number); /* fits, or is cut */
    return text;
}
