/* Threads that write lines to one stream. */
#ifndef TESTS_NET_LINES_H
#define TESTS_NET_LINES_H

#include "net/stream.h"

#include <pthread.h>
#include <stdbool.h>

enum { LINE = 64, WRITERS_MAX = 8 }; /* a line's bytes */

extern dlk_stream stream;
extern pthread_mutex_t mutex;    /* of the stream */
extern _Atomic int asked_to_arm; /* how often the socket was full */

typedef struct writers {
    pthread_t threads[WRITERS_MAX];
    int numbers[WRITERS_MAX], next[WRITERS_MAX], count;
} writers;

/* So many, each of so many lines. */
bool writers_start(writers *all, int count, int lines);
/* Whether this line is the next of whoever wrote it: it has both numbers. */
bool writers_wrote(writers *all, const char *line);
void writers_join(writers *all);

#endif
