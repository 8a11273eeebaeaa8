/* What a process has at a moment, to see whether it grows. */
#ifndef TESTS_STORM_DRIFT_H
#define TESTS_STORM_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct drift {
    int fds, threads;
    int64_t heap, rss; /* bytes; 0 where a sanitizer has an allocator of its own */
} drift;

drift drift_now(void);
void drift_note(const char *when, const drift *d);

#endif
