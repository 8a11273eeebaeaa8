/*
 * How the lease table lies in memory: the same in a file that processes share and in the private
 * memory behind mem:.
 *
 *     head | members | rows | places | buckets | scratch | names | notices | pools
 *
 * A member is a client, a row is a lock, a place is a waiter's in a lock's line. Of a lock that
 * several may hold at a time each holder has a place, too: see pool.c. Slots are named by
 * a ref, the index plus 1, so that zeroed memory is an empty table and 0 is "none".
 *
 * What survives a death at any instruction. Every change is ONE store that commits it: a row has
 * two records and a word whose low bit says which one counts, so a record is written aside and
 * one store makes it valid; a place and a member are there when their word says so. Nothing that
 * matters lies twice: a lock's owner is what its record says, and a place that the record
 * names has been granted, while one that it doesn't name is in the line, by its ticket. A place of
 * a pool says by its own token that it has been granted. Chains, lines and free lists are marked
 * "derived": recover.c makes them anew from the words.
 *
 * Whoever may write the file may write anything, at any time, the mutex held or not. So nothing in
 * here is believed twice: what is wanted of it is read ONCE into a local (every field is atomic, so
 * that the compiler can't read it again instead of keeping it), checked there, and only then used.
 * A ref becomes a pointer in dlk_row_at, dlk_line_place_at and dlk_member_at and nowhere else; sizes and
 * counts are those of the process' own dlk_table; a walk along links ends after as many steps as
 * there are slots. Texts are copied out before anybody looks at them.
 */
#ifndef DLK_BACKENDS_LOCAL_MAP_H
#define DLK_BACKENDS_LOCAL_MAP_H

#include "util/thread.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define DLK_TABLE_MAGIC "dlocktbl" /* a finished table */
#define DLK_TABLE_MAKING                                                                 \
    "dlock..."              /* one whose making was interrupted, if nobody has it open */
#define DLK_TABLE_VERSION 5 /* raised when anything in this file changes */
#define DLK_TABLE_NAME    1024 /* bytes of a lock's name */
#define DLK_TABLE_MUTEX   128  /* bytes kept for the mutex, whatever the libc */

#define DLK_MEMBER_UUID   40  /* bytes with the zero behind */
#define DLK_MEMBER_NAME   136 /* as well */

/* What has to be the same before the mutex may be touched. */
typedef struct dlk_table_stamp {
    char magic[8];
    uint32_t version;
    uint32_t word_size;
    uint32_t libc; /* 1 glibc, 2 another */
    uint32_t mutex_size;
    char boot_id[40];
    uint64_t pid_ns, time_ns; /* inodes of /proc/self/ns/… */
    uint32_t rows, places, members, buckets;
    uint64_t size;
} dlk_table_stamp;

typedef struct dlk_head {
    dlk_table_stamp stamp;
    alignas(256) union {
        pthread_mutex_t mutex;
        char room[DLK_TABLE_MUTEX];
    };
    /* process that has the mutex, 0 when it is just coming or going */
    _Atomic uint32_t inside;
    _Atomic uint32_t registry; /* counts the comings and goings of members */
    _Atomic int64_t last_token;
    _Atomic uint64_t last_ticket;
    /* Slots from the first to these have been used: what lies behind was never touched. */
    _Atomic uint32_t row_high, place_high, member_high;
    _Atomic uint32_t free_row, free_place; /* derived: chains by `next` */
    _Atomic uint32_t sweep;                /* where the search for an idle row goes on */
    _Atomic uint64_t wishes;               /* counts the revokes that a holder hears of */
} dlk_head;

/* A client. The word is generation << 32 | process, process 0 when the slot is free; the
 * generation is part of every owner, so clearing the process voids all that the client had. */
typedef struct dlk_member {
    alignas(64) _Atomic uint64_t word;
    _Atomic uint64_t started; /* start time of the process, ticks since boot; 0 unknown */
    char uuid[DLK_MEMBER_UUID];
    alignas(64) dlk_futex bell; /* changed when one of the client's places is granted */
    _Atomic uint32_t asleep;    /* somebody may be in a futex wait for the bell */
    _Atomic uint32_t listens;   /* for revokes of what it holds */
    char name[DLK_MEMBER_NAME];
} dlk_member;

/* A slot and a kind of lock in one word, as there is no room for two. */
typedef union dlk_at {
    struct {
        uint32_t ref : 24, kind : 8;
    };
    uint32_t word;
} dlk_at;

static inline dlk_at dlk_at_of(uint32_t ref, uint32_t kind)
{
    return (dlk_at){.ref = ref & 0xffffff, .kind = kind & 0xff};
}

/* Dates are for people: in so many ns, by the boot clock. They come round every two years. */
#define DLK_DATE_BITS 24
static inline uint32_t dlk_date_of(int64_t now)
{
    return (uint32_t)((uint64_t)now >> DLK_DATE_BITS);
}

/* How long ago that was, in ns. */
static inline int64_t dlk_date_ago(uint32_t date, int64_t now)
{
    uint64_t all = (UINT64_C(1) << (32 + DLK_DATE_BITS)) - 1;
    return (int64_t)(((uint64_t)now - ((uint64_t)date << DLK_DATE_BITS)) & all);
}

/* What counts of a lock: as it lies there, and as it is once it has been read. */
typedef struct dlk_stored_record {
    /* generation << 32 | ref of the member; 0 nobody; DLK_OWNER_EXPORTED */
    _Atomic uint64_t owner;
    _Atomic uint64_t number;
    _Atomic int64_t token;
    _Atomic int64_t until; /* end of the lease, boot clock */
    /* Of the place it was handed to, 0 when it was taken without waiting. */
    _Atomic uint64_t ticket;
    _Atomic uint32_t at;    /* dlk_at: that place, and the lock's kind */
    _Atomic uint32_t since; /* the date of the grant */
} dlk_stored_record;

/* No member: the lock was exported, and nobody can have it but by an import before its lease ends. The
 * giver may be gone; the row's notice says who that was. */
#define DLK_OWNER_EXPORTED UINT64_MAX

typedef struct dlk_record {
    uint64_t owner, number;
    int64_t token, until;
    uint64_t ticket;
    union {
        struct {
            uint32_t place : 24, kind : 8;
        };
        dlk_at at;
    };
    uint32_t since;
} dlk_record;

typedef struct dlk_row {
    alignas(
        64) _Atomic uint64_t word; /* commits; the low bit is the record that counts */
    /* generation << 16 | size of the name; size 0: no name, free */
    _Atomic uint64_t title;
    dlk_stored_record record[2];
    _Atomic uint32_t hash;        /* derived */
    _Atomic uint32_t next;        /* derived: in the bucket, or of the free ones */
    _Atomic uint32_t first, last; /* derived: the line */
} dlk_row;

/* What the holder of a row publishes: of an election its id, of a mutex its lock.data, of one that was
 * exported whose it was. It counts while the token is that of the record; the token is written last, so a half-written
 * text never counts. And whom a revoke means: all whose token isn't larger. */
typedef struct dlk_notice {
    _Atomic int64_t token;
    _Atomic int64_t wanted;
    _Atomic uint64_t wish; /* the count in the head, when it was asked for */
    _Atomic uint32_t size;
    char text[DLK_TABLE_NAME];
} dlk_notice;

typedef struct dlk_line_place {
    alignas(64) _Atomic uint64_t word; /* the ticket; 0: free */
    /* This and `until` are read without the mutex, and written after the word of whoever had the
     * place before was cleared: who has seen one of them sees that, so both are stored in order
     * (dlk_turn_granted). */
    /* 0 in the line, else granted; derived from the record, but of a pool it commits */
    _Atomic int64_t token;
    _Atomic int64_t until;  /* valid once token is set; derived, but of a pool */
    _Atomic uint64_t owner; /* as in the record */
    _Atomic uint64_t number;
    _Atomic uint32_t ttl_ms;
    _Atomic uint32_t take; /* of a pool: permits */
    _Atomic uint32_t at;   /* dlk_at: the row, and the kind that is wanted of it */
    _Atomic uint32_t
        since; /* the date when it came; of a pool, once it is granted, of the grant */
    _Atomic uint32_t prev, next; /* derived: the line, or the free ones */
} dlk_line_place;

static inline uint32_t dlk_line_place_row(const dlk_line_place *place)
{
    return (dlk_at){.word = atomic_load_explicit(&place->at, memory_order_relaxed)}.ref;
}

static inline uint32_t dlk_line_place_kind(const dlk_line_place *place)
{
    return (dlk_at){.word = atomic_load_explicit(&place->at, memory_order_relaxed)}.kind;
}

/* What several may hold at a time: a row's permits. It counts while anybody is in the row's line. */
typedef struct dlk_pool {
    _Atomic uint32_t size;
    _Atomic uint32_t taken; /* derived */
    _Atomic uint32_t
        next; /* derived: the first in the line that hasn't been granted any */
} dlk_pool;

/* A read/write lock is a pool of so many: a writer takes all, a reader one. */
#define DLK_POOL_ALL ((uint32_t)INT32_MAX)

/* One read, one write, neither of which orders anything. */
#define DLK_GET(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define DLK_PUT(field, value)                                                            \
    atomic_store_explicit(&(field), (value), memory_order_relaxed)

/* One write, after all that was written before. */
#define DLK_PUT_AFTER(field, value)                                                      \
    atomic_store_explicit(&(field), (value), memory_order_release)

_Static_assert(sizeof(dlk_row) == 128, "a row is two cache lines");
_Static_assert(sizeof(dlk_record) == sizeof(dlk_stored_record),
               "one is written as the other");
_Static_assert(sizeof(dlk_line_place) == 64, "a place is one cache line");
_Static_assert(sizeof(pthread_mutex_t) <= DLK_TABLE_MUTEX, "the mutex fits");

#endif
