/* What an errno means, in English and for any thread: glibc's name for that is its own, and musl's texts are
 * static. Safe between fork and exec. */
#ifndef ERRNO_TEXT_H
#define ERRNO_TEXT_H

#include <string.h>

static inline const char *errno_text(int number)
{
#ifdef __GLIBC__
    const char *text = strerrordesc_np(number);
#else
    const char *text = strerror(number); /* NOLINT(concurrency-mt-unsafe) */
#endif
    return text != NULL ? text : "unknown error";
}

#endif
