/* What the parts of this folder share: one client's end of a table. */
#ifndef DLK_BACKENDS_LOCAL_INNER_H
#define DLK_BACKENDS_LOCAL_INNER_H

#include "backends/local/file.h"
#include "backends/local/table.h"
#include "backends/local/watch.h"
#include "contract/backend.h"

typedef struct dlk_home dlk_home;
typedef struct dlk_local dlk_local;

struct dlk_local {
    dlk_backend base;
    dlk_table *table;
    void (*leave)(dlk_local *local); /* gives the table up, for good */
    dlk_home *home;   /* mem: the table and who else uses it; NULL for file: */
    dlk_table mapped; /* file: */
    dlk_file file;
    dlk_watch watch;
    bool watching; /* begun, with or without a thread */
    dlk_identity who;

    uint64_t owner; /* what we ask as; 0: not registered yet */
    bool up, stopped;
    int64_t retry_at, retry_ms; /* while it isn't up */
    int64_t check_at;           /* file: when to look at it again */
    dlock_error *gone; /* file: truncated or replaced; why nothing is granted any more */

    bool listens;          /* the host is to be told what is revoked */
    uint64_t wishes_heard; /* so many of those that the table counts */

    dlk_list turns; /* dlk_local_turn.all: our places in lines */
    dlk_list held;  /* the same: our places that have been granted, of pools */
    dlk_list spare; /* turns not in use: what has been queued must not fail any more */

    /* The driver sleeps on the member's bell, or on this one while there is no member. */
    dlk_futex own_bell;
    dlk_member *_Atomic me;
    dlk_futex *armed; /* frozen by arm */
    uint32_t armed_value;
    dlk_member *armed_me;
    uint32_t seen; /* the bell when we last looked at the turns */
};

/* What key_open makes of a name. */
typedef struct dlk_local_key {
    dlk_list turns; /* dlk_local_turn.of_key */
    uint32_t hash;
    uint32_t row;   /* where the name was last, and … */
    uint64_t title; /* … what says whether it still is */
    uint32_t
        permits; /* there are, as whoever made the key says; 0: as many as there are */
} dlk_local_key;

typedef struct dlk_local_turn {
    dlk_list all, of_key;
    dlk_key *key;
    uint64_t number;
    dlk_turn turn;
    bool told;
} dlk_local_turn;

static inline dlk_local *dlk_local_of(dlk_backend *backend)
{
    return (dlk_local *)(void *)backend;
}

/* backend.c: what mem: and file: do alike */
dlk_local *dlk_local_new(const dlk_backend_type *type, dlk_host *host);
void dlk_local_start(dlk_backend *backend, int64_t now);
void dlk_local_stop(dlk_backend *backend);
void dlk_local_free(dlk_backend *backend);
dlock_err dlk_local_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err);
void dlk_local_key_close(dlk_backend *backend, dlk_key *key);
void dlk_local_ask(dlk_backend *backend, dlk_ask *ask, int64_t now);
int64_t dlk_local_tick(dlk_backend *backend, int64_t now);
void dlk_local_listen(dlk_backend *backend, int64_t now);
void dlk_local_arm(dlk_backend *backend, dlk_polls *polls);
void dlk_local_sleep(dlk_backend *backend, int64_t until, uint32_t seen);
void dlk_local_process(dlk_backend *backend, int64_t now);
void dlk_local_kick(dlk_backend *backend);

#define DLK_LOCAL_OPS                                                                    \
    .start = dlk_local_start, .stop = dlk_local_stop, .free = dlk_local_free,            \
    .ask = dlk_local_ask, .tick = dlk_local_tick, .arm = dlk_local_arm,                  \
    .process = dlk_local_process, .key_open = dlk_local_key_open,                        \
    .key_close = dlk_local_key_close, .listen = dlk_local_listen,                        \
    .sleep = dlk_local_sleep, .kick = dlk_local_kick

#define DLK_LOCAL_TRAITS                                                                 \
    {                                                                                    \
        .layout = "table", .class = 2, .queues = true, .fair = true, .tokens = true,     \
        .hands_on = true, .no_keep = "there is no round trip to save",                   \
        .kinds = {[DLOCK_MUTEX] = true,    [DLOCK_READ] = true,                          \
                  [DLOCK_WRITE] = true,    [DLOCK_SEMAPHORE] = true,                     \
                  [DLOCK_ELECTION] = true, [DLK_KIND_CONDITION] = true},                 \
    }

/* Enters, or says in ask why it can't be. */
bool dlk_local_enter(dlk_local *local, dlk_section *section, dlk_ask *ask, int64_t now);
/* Leaves; false: the table is damaged, and ask says so. */
bool dlk_local_leave(dlk_local *local, dlk_section *section, dlk_ask *ask);
/* where.c: looked for, or made, in the table, and remembered */
uint32_t dlk_local_find_row(dlk_section *section, const dlk_key *key);
uint32_t dlk_local_make_row(dlk_section *section, const dlk_key *key, int64_t now);
/* Where a lock was last, if it is there still. */
static inline uint32_t dlk_local_same_row(dlk_section *section, const dlk_key *key)
{
    const dlk_local_key *data = key->data;
    return dlk_row_is(section->table, data->row, data->title) ? data->row : 0;
}
/* Where the ask's lock is, 0: nobody has or wants it. Within a section. */
static inline uint32_t dlk_local_row(dlk_section *section, const dlk_key *key)
{
    uint32_t row = dlk_local_same_row(section, key);
    return row ? row : dlk_local_find_row(section, key);
}
/* The same, made where there is none; 0: the table is full. */
static inline uint32_t dlk_local_row_made(dlk_section *section, const dlk_key *key,
                                          int64_t now)
{
    uint32_t row = dlk_local_same_row(section, key);
    return row ? row : dlk_local_make_row(section, key, now);
}
/* Somebody has the name by another kind. */
void dlk_local_refuse_kind(dlk_ask *ask);

/* reports.c: what asks that only look (and break, and revoke) answer */
/* YES, with what there is to say, which is taken over; ENOMEM where there was no memory for it. */
void dlk_local_tell(dlk_ask *ask, dlock_info *info);
void dlk_local_inspect(dlk_local *local, dlk_ask *ask, int64_t now);
void dlk_local_break(dlk_local *local, dlk_ask *ask, int64_t now);
void dlk_local_revoke(dlk_local *local, dlk_ask *ask, int64_t now);
void dlk_local_list(dlk_local *local, dlk_ask *ask, int64_t now);
void dlk_local_doctor(dlk_local *local, dlk_ask *ask, int64_t now);

#endif
