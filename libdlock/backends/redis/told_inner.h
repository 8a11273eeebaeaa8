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
    /* of the first line of a lock: it was asked about, or what is remembered of it, see below, is good still */
    bool asked;
    struct told_lock *known;
} told_line;

/* A client that tells, as it was read: as long as its key ends at the same time, it has told nothing else. */
typedef struct told_client {
    char half[DLK_REDIS_CLIENT_HALF + 1];
    int64_t ends; /* -1: no client writes such a date, so nothing is known by it */
    char *text;   /* NULL: it is to be read */
    size_t size;
} told_client;

/* What the server has said of a lock when its lines were such. */
typedef struct told_lock {
    char *name, *owner, *client; /* owner: NULL, nobody has it */
    uint64_t lines;              /* a hash of them */
    bool by_teller;              /* the owner is one of those who tell */
    int64_t left, whole, at;     /* of the lease, then; the most there was; then */
} told_lock;

/* From one list to the next. */
struct dlk_redis_told_memory {
    told_client *clients; /* by their halves */
    size_t client_count;
    int64_t date; /* when they were looked for, by the server's clock; 0: all are to be */
    int64_t asked_at; /* … and by ours, before that was asked */
    bool lacks_count; /* we have no right to count them */
    told_lock *locks; /* by name; no semaphores */
    size_t lock_count;
};

/* told_memory.c: what the index says, @p count pairs of half and end, of all (@p whole) or of those that have
 * changed. Counts what makes no sense. False without memory. */
bool dlk_told_memory_merge(dlk_redis_told_memory *memory, const dlk_resp *pairs,
                           size_t count, bool whole, int64_t now, int64_t *unread);
void dlk_told_memory_clear(dlk_redis_told_memory *memory);
void dlk_told_lock_clear(told_lock *lock);
/* Takes over @p locks, NULL: there are none, in the place of those that were. */
void dlk_told_memory_keep(dlk_redis_told_memory *memory, told_lock *locks, size_t count);
told_lock *dlk_told_memory_of(dlk_redis_told_memory *memory, const char *name);
/* What is remembered of a lock with these lines, if it is good still. */
told_lock *dlk_told_memory_find(dlk_redis_told_memory *memory, const char *name,
                                uint64_t lines, int64_t now);

/* Where the names of suspects are given, then those of the others. */
typedef struct told_cursor {
    size_t next;
    bool others;
} told_cursor;

struct dlk_redis_told_list {
    char *begin;
    int64_t limit;
    bool
        whole; /* all who tell are asked for, not those alone who have told something since */
    bool asked;       /* who tells is known; else that is to be asked yet */
    int64_t asked_at; /* by our clock, before that */
    dlk_redis_told_memory *memory;
    size_t next;    /* the first client that wasn't asked */
    int64_t now_ms; /* the server's */
    told_line *lines;
    size_t count, capacity;
    told_by **parties;
    size_t who_count, who_capacity;
    int64_t client_count;
    int64_t more, unread; /* lines that weren't told, or made no sense */
    bool sorted, cut;     /* cut: more clients tell than are asked */
    told_cursor named[2]; /* lines whose names were given, and whose permits' */
    size_t passed;        /* lines that dlk_redis_told_list_passed went past */
    char why[200];
};

#endif
