/* What a worker of a long run writes down: one record for each begin and end of what it did.
 *
 * A file per process, mapped and shared, so that what was noted survives SIGKILL. A slot is
 * claimed before the clock is read and is ready when all of it is written. Who reads "all claimed
 * slots are ready" at a time T has therefore seen everything that happened in this process before
 * T; that is how the checker can follow a running history without guessing.
 *
 * One clock serves all processes: CLOCK_BOOTTIME as the kernel tells it, asked past the C library,
 * which may be lied to (tests/nemesis/skew.c). */
#ifndef TESTS_HISTORIES_HISTORY_H
#define TESTS_HISTORIES_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_MAGIC UINT64_C(0x31747369486b6c64) /* "dlkHist1" */

/* Never renumbered: the checkers in C and in Go read the same files. */
typedef enum history_event {
    HISTORY_ASK = 1,    /* acquire begins: wait_ms, -1 without limit */
    HISTORY_ANSWER = 2, /* acquire ends: code, token, value = local deadline if granted */
    HISTORY_CHECK =
        3,            /* code, value = local deadline, extra = when the check had ended */
    HISTORY_LOOK = 4, /* the resource was read: extra = when it began, value, code */
    HISTORY_WRITE = 5,   /* extra = when it began, value = what had been seen, code */
    HISTORY_LEAVE = 6,   /* release begins: the lock isn't used any more */
    HISTORY_LEFT = 7,    /* release ends: code */
    HISTORY_LOST = 8,    /* a LOST event came */
    HISTORY_PULSE = 9,   /* the process runs; value = for how long it didn't */
    HISTORY_CLOSE = 10,  /* a client is closed; code */
    HISTORY_OPENED = 11, /* a client is open */
} history_event;

/* The code of LOOK and WRITE. */
enum { HISTORY_ACCEPTED = 0, HISTORY_REFUSED = 1 };

typedef struct history_record {
    int64_t time; /* ns; of an end or a begin, see the event */
    uint64_t op;  /* which acquire this belongs to, unique in a run; 0 = none */
    int64_t token;
    int64_t value;
    int64_t extra;
    int64_t sequence; /* WRITE: the resource's own count of accepted writes */
    int32_t wait_ms;
    uint16_t lock;   /* number of the lock, and of its place in the resource */
    uint16_t client; /* number of the client in this process */
    uint8_t event;   /* history_event */
    uint8_t code;    /* dlock_err, or accepted/refused */
    uint8_t kind;    /* dlock_kind */
    /* permits taken; the side of the resource (page, server) in LOOK, WRITE */
    uint8_t take;
    uint16_t permits; /* a semaphore's size */
    uint16_t ready;   /* written last */
} history_record;

_Static_assert(sizeof(history_record) == 64, "the Go reader counts on it");

/* The first page of a file; the records follow. */
typedef struct history_head {
    uint64_t magic;
    uint64_t capacity;
    _Atomic uint64_t claimed; /* may run beyond the capacity: what doesn't fit is lost */
} history_head;

#define HISTORY_HEAD_SIZE 4096

typedef struct history {
    history_head *head;
    history_record *records;
    size_t size;
} history;

/* ns of the machine's boot clock, not to be fooled. */
int64_t history_now(void);

/* A new file of @p capacity records; only what is written takes room. */
bool history_create(history *h, const char *path, uint64_t capacity);
/* An existing one, to read. False: it isn't one. */
bool history_map(history *h, const char *path);
void history_close(history *h);

/* Notes @p what; its time is taken here. From any thread. Returns that time. */
int64_t history_note(history *h, history_record what);
/* The two halves of it, for what needs its slot before the time it notes: what.time isn't touched.
 * NULL: the file is full. */
history_record *history_claim(history *h);
void history_fill(history_record *slot, history_record what);

/* Whether so much is written that the process should end and another one go on. */
bool history_is_full(const history *h);

#endif
