/* What a list of what clients tell is made of: it is read by told_list.c, and made use of by told_names.c. */
#ifndef DLK_BACKENDS_REDIS_TOLD_INNER_H
#define DLK_BACKENDS_REDIS_TOLD_INNER_H

#include "backends/redis/client_key.h"
#include "backends/redis/told.h"
#include "backends/redis/told_list.h"

/* Who said a line; its client's lines share it. */
typedef struct told_by {
    char uuid[DLK_UUID_SIZE];
    char who[];
} told_by;

typedef struct told_line {
    char *name, *permits; /* permits: the key of a semaphore's, once it was asked for */
    const told_by *by;
    uint64_t number, thread;
    int64_t token, since_ms; /* by the server's clock */
    char kind[16];
    bool waits;
    /* of a lock that seems to be part of a circle, and is asked about first */
    bool suspect;
    bool denied; /* the service says otherwise */
} told_line;

/* Where the names of suspects are given, then those of the others. */
typedef struct told_cursor {
    size_t next;
    bool others;
} told_cursor;

struct dlk_redis_told_list {
    char *begin;
    int64_t limit;
    bool asked; /* who tells; else: what they say is to be read yet */
    char (*clients)[DLK_REDIS_CLIENT_HALF + 1]; /* halves of their uuids */
    size_t client_count, next;                  /* the first that wasn't asked */
    int64_t now_ms;                             /* the server's */
    told_line *lines;
    size_t count, capacity;
    told_by **parties;
    size_t who_count, who_capacity;
    int64_t more, unread; /* lines that weren't told, or made no sense */
    bool sorted, cut;     /* cut: more clients tell than are asked */
    told_cursor named[2]; /* lines whose names were given, and whose permits' */
    char why[200];
};

#endif
