/*
 * A lease table: locks with an owner, a lease and a line of those who wait, shared by the clients
 * of a machine (file:) or of a process (mem:). All of it is a function of the table, the request
 * and *now*; nothing here waits but dlk_table_enter, and that not for long.
 *
 *     dlk_section section;
 *     if (dlk_table_enter(table, &section, patience) == DLK_ENTERED) {
 *         … dlk_table_acquire(&section, …) …
 *         dlk_table_leave(&section);          // unlocks, and only then wakes who was granted
 *     }
 *
 * A function that finds nonsense in the table sets section.damaged and does no more. What the table
 * says may change between any two reads of it, inside the mutex as well: see map.h.
 */
#ifndef DLK_BACKENDS_LOCAL_TABLE_H
#define DLK_BACKENDS_LOCAL_TABLE_H

#include "backends/local/map.h"

#include "util/kind.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

/* One process' view of a table. What is here doesn't change while the table is in use. */
typedef struct dlk_table {
    dlk_head *head;
    dlk_member *members;
    dlk_row *rows;
    dlk_line_place *places;
    _Atomic uint32_t *buckets; /* derived: first row of each chain */
    _Atomic uint32_t *scratch; /* room for the rebuild to sort places in */
    char *names;
    dlk_notice *notices; /* of the rows */
    dlk_pool *pools;     /* of the rows */
    uint32_t member_count, row_count, place_count, bucket_count;
    size_t size;
    bool shared; /* among processes */
    uint32_t pid;
} dlk_table;

/* Sets the counts from @p rows and returns how many bytes a table needs. */
size_t dlk_table_measure(dlk_table *table, uint32_t rows);
/* Finds the parts in @p memory, which has been measured. */
void dlk_table_lay_out(dlk_table *table, void *memory);
/* Makes the mutex anew, when nobody can be in it. */
dlock_err dlk_table_make_mutex(dlk_table *table);

/* One critical section: a stay inside the mutex, and whom to wake after it. */
typedef struct dlk_section {
    dlk_table *table;
    bool damaged;
    /* everybody who has been granted something, not only who is listed */
    bool ring_granted;
    unsigned ring_count;
    uint32_t ring[6]; /* refs of members */
} dlk_section;

typedef enum dlk_entry {
    DLK_ENTERED,
    DLK_ENTRY_BUSY,   /* another process has the mutex and keeps it */
    DLK_ENTRY_BROKEN, /* the mutex is of no use any more */
} dlk_entry;

/* Patience is in ms, and soon at its end when the one inside is stopped. */
dlk_entry dlk_table_enter(dlk_table *table, dlk_section *section, int patience);
void dlk_table_leave(dlk_section *section);
/* Who is in the mutex: "process 12 (host:12), which is stopped". */
void dlk_table_describe_inside(const dlk_table *table, char *text, size_t size);

/* ---- rows.c: names and free slots ---- */
uint32_t dlk_table_hash(const char *name, size_t size);
/* The lock's row or 0; make: also one that is free, 0 only when all are in use. */
uint32_t dlk_table_find(dlk_section *section, const char *name, size_t size,
                        uint32_t hash);
uint32_t dlk_table_make(dlk_section *section, const char *name, size_t size,
                        uint32_t hash, int64_t now);
/* Whether the row is the one that had this title, and so this name, when it was found. */
static inline bool dlk_row_is(const dlk_table *table, uint32_t ref, uint64_t title)
{
    return ref - 1 < table->row_count && DLK_GET(table->rows[ref - 1].title) == title;
}
void dlk_row_free(dlk_section *section, uint32_t ref);
/* A free place, or 0. */
uint32_t dlk_line_place_take(dlk_section *section);
void dlk_line_place_free(dlk_section *section, uint32_t ref);

/* ---- table.c: who has what ---- */
/* A place in a line, as its owner remembers it; zeroed: none. */
typedef struct dlk_turn {
    uint32_t place;
    uint64_t ticket;
} dlk_turn;

typedef struct dlk_request {
    uint64_t owner; /* of dlk_member_join */
    uint64_t number;
    int64_t ttl; /* ns */
    int64_t now;
    uint32_t kind;
    /* Of a pool: how many permits, and how many there are; 0: as many as there are. */
    uint32_t take, permits;
    bool once; /* nobody will wait: of a pool no place in the line is wanted */
    bool used; /* given back: the signal of a condition has done its work */
} dlk_request;

/* Whether several may hold a lock of this kind at a time. DLOCK_WRITE stands for both sides. A
 * condition's waiters are granted a signal each. */
static inline bool dlk_is_pooled(uint32_t kind)
{
    return kind == DLOCK_WRITE || kind == DLOCK_SEMAPHORE || kind == DLK_KIND_CONDITION;
}

typedef enum dlk_outcome {
    DLK_GRANTED, /* *until and *token */
    DLK_QUEUED, /* *until: end of the holder's lease; *turn, but for one who wants no place */
    DLK_NO_PLACE,
    DLK_NO_TOKEN,   /* the counter is at its end */
    DLK_OTHER_KIND, /* a lock of another kind has this name and a holder */
    DLK_OTHER_SIZE, /* a semaphore of another size has it */
    DLK_NO_SIZE,    /* a semaphore that isn't there, and nobody says how large it is */
    DLK_TOO_MANY,   /* more permits than there are */
    DLK_NOTHING,    /* damaged: look at the section */
} dlk_outcome;

/* A turn and its place live and die together: the turn is there afterwards if the asker was
 * queued, and in no other case; and who was refused has no place in the line any more. */
dlk_outcome dlk_table_acquire(dlk_section *section, uint32_t row_ref,
                              const dlk_request *request, dlk_turn *turn, int64_t *token,
                              int64_t *until);
/* False: it wasn't theirs (any more). Of a pool the turn says where it is. */
bool dlk_table_renew(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                     const dlk_turn *turn);
bool dlk_table_has(const dlk_section *section, uint32_t row_ref,
                   const dlk_request *request, const dlk_turn *turn);
bool dlk_table_release(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                       dlk_turn *turn);
/* Takes the lock, which is none of a pool's, from whoever has it. */
void dlk_table_evict(dlk_section *section, uint32_t row_ref, int64_t now);
/* Gives what nobody has to the first in the line. */
void dlk_table_settle(dlk_section *section, uint32_t row_ref, int64_t now);
/* The record that counts; false when nobody has the lock. */
bool dlk_table_holder(const dlk_section *section, uint32_t ref, int64_t now,
                      dlk_record *ret);

/* Steps that recover.c repeats. */
void dlk_row_commit(dlk_row *row, const dlk_record *record);
/* The record, which names no place, in the stead of the one that counts. */
void dlk_row_supersede(dlk_section *section, uint32_t row_ref, const dlk_record *record);
/* Steps that pool.c shares. */
/* The next token, or 0: there is none, or the table is damaged. */
int64_t dlk_table_next_token(dlk_section *section);
/* After leaving, wake this member. */
void dlk_section_ring(dlk_section *section, uint32_t member);

/* ---- line.c: who waits ---- */
/* A place at the end of the line; with a token it is granted there, until then. */
bool dlk_line_join(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                   dlk_turn *turn, int64_t token, int64_t until);
/* Out of the line, and free. */
void dlk_line_leave(dlk_section *section, uint32_t ref);
/* The first in the line who is still there; those who aren't leave it. 0: nobody waits. */
uint32_t dlk_line_first(dlk_section *section, const dlk_row *row, uint32_t row_ref);
/* Only the links. */
void dlk_line_append(dlk_section *section, uint32_t row_ref, uint32_t ref);
void dlk_line_remove(dlk_section *section, uint32_t row_ref, uint32_t ref);
/* Whether the turn has come, without entering. */
bool dlk_turn_granted(const dlk_table *table, const dlk_turn *turn, int64_t *token,
                      int64_t *until);
/* Whether it has its place still, in the line or with the grant; without entering. */
bool dlk_turn_has_place(const dlk_table *table, const dlk_turn *turn);
/* Gives up a place in a line, if it still is one; zeroes the turn. */
void dlk_turn_end(dlk_section *section, dlk_turn *turn);

/* ---- pool.c: locks that several hold at a time ---- */
/* Whether the row's line is one of a pool. */
bool dlk_pool_is_here(const dlk_section *section, uint32_t row_ref);
dlk_outcome dlk_pool_acquire(dlk_section *section, uint32_t row_ref,
                             const dlk_request *request, dlk_turn *turn, int64_t *token,
                             int64_t *until);
/* With fewer permits than it has: it keeps only so many (a writer turns into a reader). */
bool dlk_pool_renew(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                    const dlk_turn *turn);
bool dlk_pool_has(const dlk_section *section, uint32_t row_ref,
                  const dlk_request *request, const dlk_turn *turn);
/* Takes a place out of the line, and lets in who comes next. */
void dlk_pool_drop(dlk_section *section, uint32_t row_ref, uint32_t ref, int64_t now);
/* Takes a place of a pool out of the line; of a condition its signal, if it has one, goes on. */
void dlk_pool_leave(dlk_section *section, uint32_t ref, int64_t now);
/* Signals so many of those who wait in the row's line, in their order. Returns how many; -1: a lock has
 * the name. */
int64_t dlk_pool_signal(dlk_section *section, uint32_t row_ref, int64_t count,
                        int64_t now);
/* Whoever is dead or late goes, whoever is next comes in. Returns when the first lease is over. */
int64_t dlk_pool_settle(dlk_section *section, uint32_t row_ref, int64_t now);
/* The same of all rows that are pools: places of those whose time is over become free. */
void dlk_pool_settle_all(dlk_section *section, int64_t now);
/* A place comes, or goes: what is derived from it. */
void dlk_pool_add(dlk_section *section, uint32_t row_ref, uint32_t ref);
void dlk_pool_subtract(dlk_section *section, uint32_t row_ref, uint32_t ref);

/* ---- notice.c: what is said beside the record ---- */
#define DLK_OWNER_SIZE 64 /* "<uuid>:<number>" */
/* The holder of the row, with this token, publishes a text of at most DLK_TABLE_NAME bytes. */
void dlk_table_publish(dlk_section *section, uint32_t row_ref, int64_t token,
                       const char *text);
/* What the one with this token publishes; false when there is nothing. @p ret has room for
 * DLK_TABLE_NAME + 1 bytes. */
bool dlk_table_published(const dlk_section *section, uint32_t row_ref, int64_t token,
                         char *ret);
/* The owner as everybody knows it; of what was exported, the one who gave it. */
void dlk_table_owner_text(const dlk_section *section, uint32_t row_ref,
                          const dlk_record *record, char text[DLK_OWNER_SIZE]);
/* A mutex of theirs is left to whoever imports it, until its lease ends. False: it wasn't theirs. */
bool dlk_table_export(dlk_section *section, uint32_t row_ref, const dlk_request *request);
/* A mutex that was @p giver's is theirs now, with a new token (0: there is none left to give) and a
 * new lease; those who wait wait on. False: it isn't @p giver's any more. */
bool dlk_table_import(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                      const char *giver, int64_t *token);
/* Marks all who hold the row now as asked for it. */
void dlk_table_revoke(dlk_section *section, uint32_t row_ref);
/* Up to which token holders of the row were asked for it since the head counted @p since wishes; 0:
 * none was. Without entering. */
int64_t dlk_table_wanted(const dlk_table *table, uint32_t row_ref, uint64_t since);

/* ---- member.c: clients ---- */
typedef struct dlk_identity {
    uint32_t pid;
    uint64_t started;
    const char *uuid, *name;
} dlk_identity;

/* The owner to ask with, or 0: no free slot. */
uint64_t dlk_member_join(dlk_section *section, const dlk_identity *who);
/* Hands on all that @p owner has, who stays a member; 0: all that was left behind by those who
 * could not enter when they left. */
void dlk_member_let_go(dlk_section *section, uint64_t owner, int64_t now);
/* One who is dead, if it still is a member: hands on all that it had. */
void dlk_member_bury(dlk_section *section, uint64_t owner, int64_t now);
/* Ends the membership; what it had is void, but nobody is told. Without entering. */
void dlk_member_vanish(dlk_table *table, uint64_t owner);
/* NULL unless this owner is still there. */
dlk_member *dlk_member_of(const dlk_table *table, uint64_t owner);
/* Copies, which end. */
void dlk_member_name(const dlk_member *member, char ret[DLK_MEMBER_NAME]);
void dlk_member_uuid(const dlk_member *member, char ret[DLK_MEMBER_UUID]);
void dlk_member_ring(const dlk_table *table, dlk_member *member);

/* ---- recover.c ---- */
/* Makes all that is derived anew; what has no living owner is handed on. */
void dlk_table_rebuild(dlk_section *section, int64_t now);

/* Whether the owner of a record is there; of what was exported nobody need be. */
static inline bool dlk_record_is_anyones(const dlk_table *table, uint64_t owner)
{
    return owner == DLK_OWNER_EXPORTED || dlk_member_of(table, owner) != NULL;
}

static inline bool dlk_record_is_of(const dlk_record *record, const dlk_request *request)
{
    return record->owner == request->owner && record->number == request->number;
}

static inline dlk_row *dlk_row_at(const dlk_table *table, uint32_t ref)
{
    return ref - 1 < table->row_count ? &table->rows[ref - 1] : NULL;
}

static inline dlk_line_place *dlk_line_place_at(const dlk_table *table, uint32_t ref)
{
    return ref - 1 < table->place_count ? &table->places[ref - 1] : NULL;
}

/* The turn's place if it is still theirs. */
static inline dlk_line_place *dlk_line_place_of(const dlk_table *table,
                                                const dlk_turn *turn)
{
    dlk_line_place *place = turn->ticket ? dlk_line_place_at(table, turn->place) : NULL;
    return place && atomic_load_explicit(&place->word, memory_order_acquire) ==
                        turn->ticket
               ? place
               : NULL;
}

static inline dlk_pool *dlk_pool_at(const dlk_table *table, uint32_t row_ref)
{
    return row_ref - 1 < table->row_count ? &table->pools[row_ref - 1] : NULL;
}

static inline dlk_member *dlk_member_at(const dlk_table *table, uint32_t ref)
{
    return ref - 1 < table->member_count ? &table->members[ref - 1] : NULL;
}

/* The record that counts. */
static inline const dlk_stored_record *dlk_row_stored(const dlk_row *row)
{
    return &row->record[DLK_GET(row->word) & 1];
}

/* … as it was when it was read: whatever is done with more than one field of it goes by a copy. */
static inline dlk_record dlk_row_record(const dlk_row *row)
{
    const dlk_stored_record *stored = dlk_row_stored(row);
    return (dlk_record){
        .owner = DLK_GET(stored->owner),
        .number = DLK_GET(stored->number),
        .token = DLK_GET(stored->token),
        .until = DLK_GET(stored->until),
        .ticket = DLK_GET(stored->ticket),
        .at = {.word = DLK_GET(stored->at)},
        .since = DLK_GET(stored->since),
    };
}

/* Of a row that has been found: DLK_TABLE_NAME bytes each, which anybody may change meanwhile. */
static inline char *dlk_row_name(const dlk_table *table, uint32_t ref)
{
    assert(ref - 1 < table->row_count);
    return table->names + (size_t)(ref - 1) * DLK_TABLE_NAME;
}

static inline dlk_notice *dlk_row_notice(const dlk_table *table, uint32_t ref)
{
    assert(ref - 1 < table->row_count);
    return &table->notices[ref - 1];
}

/* How many slots of a kind have been used, by what the head says; never more than there are. */
static inline uint32_t dlk_table_used(const _Atomic uint32_t *high, uint32_t count)
{
    uint32_t used = atomic_load_explicit(high, memory_order_relaxed);
    return used < count ? used : count;
}

#endif
