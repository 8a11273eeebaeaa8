/*
 * What the files of this backend share. All of it is guarded by the client's mutex but what says
 * otherwise.
 *
 * A request is a chain of steps, each one command or two; the next step is chosen by the answer
 * to the last. Answers come in the order of the commands, so `flight` is a queue. A step that was
 * answered has either done everything or nothing, which is why a chain can be broken off anywhere.
 */
#ifndef DLK_BACKENDS_MEMCACHED_INNER_H
#define DLK_BACKENDS_MEMCACHED_INNER_H

#include "backends/memcached/record.h"
#include "backends/memcached/wire.h"
#include "contract/backend.h"
#include "contract/flight.h"
#include "net/link.h"

#include <poll.h>
#include <stdatomic.h>

typedef struct dlk_mc dlk_mc;

/* What the greeting has shown of the server. */
typedef struct dlk_mc_server {
    bool meta; /* it has meta commands that we use */
    /* Stores go by the meta commands as well. Not where nothing is evicted: a meta store that
     * finds no memory deletes the item that is there, whoever's it is; a classic one doesn't. */
    bool meta_stores;
    bool evicts;
    char version[32];
    int64_t started; /* its clock when it began; 0: unknown */
    int64_t clock, uptime;
} dlk_mc_server;

struct dlk_mc {
    dlk_backend base; /* first: a dlk_backend * is a dlk_mc * */

    /* set by open, never changed */
    dlk_settings *settings;
    char *host;
    uint16_t port;
    char *peer; /* for messages: "host:port" */
    int64_t timeout_ns, retry_ms;
    char owner[DLK_UUID_SIZE]; /* "<uuid>:", without the end */
    size_t owner_size;

    dlk_link_common links;
    dlk_link link;
    dlk_buf rest; /* of a reply that isn't complete */
    dlk_mc_server server;
    uint64_t epoch; /* of the connection: what an older one said is read again */
    dlk_flight flight;
    dlock_error *why_down; /* while the link is down */
    bool stopped, was_up;
    dlk_buf value; /* being put together */

    /* The driver's sleep, frozen by arm. */
    bool expects; /* an answer is sure to come soon */
};

/* A lock's name here. What we know of its item is of the grant of ours that changed it last. */
typedef struct dlk_mc_key {
    char *text;       /* owned */
    dlk_mc_text wire; /* the same, as it is sent */
    dlk_mc_form form;
    bool lines; /* the item names all holders: record.h */
    uint64_t number, cas;
    uint64_t epoch; /* the connection that said so */
    int64_t until;  /* no store of ours may let it end sooner; boot clock */
    int64_t token;
    int64_t since_ms; /* the date when it was stored first, as its item says */
    int64_t asked_ms; /* the date of the store that may become that one */
    int taking;       /* acquires and imports of ours that are under way */
} dlk_mc_key;

/* Room for an owner: the uuid, a colon and a number. */
#define DLK_MC_OWNER_MAX 64
/* The longest text of util/who.h, a tab, a date, a tab, the longest lock.data. */
#define DLK_MC_ABOUT_MAX 1600

/* ---- link.c ---- */
void dlk_mc_link_init(dlk_mc *mc);

/* ---- greeting.c ---- */
bool dlk_mc_greet(dlk_mc *mc);
/* A reply to the greeting. NULL, or why the connection is of no use. */
dlock_error *dlk_mc_greeted(dlk_mc *mc, const dlk_mc_reply *reply, bool *ret_over);
/* A line of statistics; those that don't matter are passed over. */
void dlk_mc_note_stat(dlk_mc_server *server, const dlk_mc_reply *reply);

/* ---- backend.c ---- */
/* Makes the driver arm anew. Any thread, with or without the mutex, in signal handlers. */
void dlk_mc_wake(dlk_mc *mc);

/* ---- keys.c ---- */
dlock_err dlk_mc_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err);
void dlk_mc_key_close(dlk_backend *backend, dlk_key *key);

/* ---- asks.c: requests under way ---- */
void dlk_mc_ask(dlk_backend *backend, dlk_ask *ask, int64_t now);
/* A reply to the first one under way. An error ends the connection: what came makes no sense. */
dlock_error *dlk_mc_asks_reply(dlk_mc *mc, const dlk_mc_reply *reply, int64_t now);
/* All of them are answered: not sent, or unknown. */
void dlk_mc_asks_fail(dlk_mc *mc, const dlock_error *error);
int64_t dlk_mc_asks_tick(dlk_mc *mc, int64_t now);

/* ---- steps.c: what requests are made of ---- */
static inline const dlk_mc_key *dlk_mc_key_of(const dlk_ask *ask)
{
    return ask->key->data;
}
static inline bool dlk_mc_takes(const dlk_ask *ask)
{
    return ask->verb == DLK_ACQUIRE || ask->verb == DLK_IMPORT;
}

void dlk_mc_answer(dlk_mc *mc, dlk_ask *ask, dlk_reply reply);
void dlk_mc_refuse(dlk_mc *mc, dlk_ask *ask, dlock_error *error);
/* HELD, and when to ask again: after client.retry_ms, or sooner when no more than @p left_ms can be
 * left of the lease that is in the way (< 0: unknown). */
void dlk_mc_answer_held(dlk_mc *mc, dlk_ask *ask, int64_t left_ms);

/* What a step is about, in the low byte of ask->scratch; the rest belongs to the step's file. */
typedef enum dlk_mc_step {
    DLK_MC_STORE,    /* a store; if it is a classic one, … */
    DLK_MC_READBACK, /* … what stands there after it */
    DLK_MC_READ,
    DLK_MC_DROP,
    DLK_MC_TIME,  /* statistics, for the server's clock; a read follows */
    DLK_MC_STATS, /* statistics, for the doctor … */
    DLK_MC_STATS_SETTINGS,
} dlk_mc_step;

static inline dlk_mc_step dlk_mc_step_of(const dlk_ask *ask)
{
    return (dlk_mc_step)(ask->scratch & 0xff);
}

static inline void dlk_mc_set_step(dlk_ask *ask, dlk_mc_step step)
{
    ask->scratch = (ask->scratch & ~INT64_C(0xff)) | (int64_t)step;
}

/* Beside the step: the last store was done, which a READBACK goes by; … */
#define DLK_MC_WAS_STORED INT64_C(0x100)
/* … a release of the same number has been asked for since: nothing is stored for it any more. */
#define DLK_MC_WITHDRAWN INT64_C(0x200)

/* Puts the next step of a request: true, or it has been refused. They may be used for the first
 * step, before anything is under way, and from an answer. */
bool dlk_mc_send_store(dlk_mc *mc, dlk_ask *ask, dlk_mc_text value, int64_t seconds,
                       uint64_t cas);
bool dlk_mc_send_read(dlk_mc *mc, dlk_ask *ask);
bool dlk_mc_send_drop(dlk_mc *mc, dlk_ask *ask, uint64_t cas);
/* The statistics, and behind them the item: DLK_MC_TIME, then DLK_MC_READ. */
bool dlk_mc_send_timed_read(dlk_mc *mc, dlk_ask *ask);
bool dlk_mc_send_stats(dlk_mc *mc, dlk_ask *ask);
/* Counts another beginning from what stands there now; false, and refused, when that was too
 * often. */
bool dlk_mc_again(dlk_mc *mc, dlk_ask *ask);

dlk_mc_text dlk_mc_owner(const dlk_mc *mc, uint64_t number, char to[DLK_MC_OWNER_MAX]);
/* What people are told of a holder, in @p room; @p since_ms 0: not known. */
dlk_mc_text dlk_mc_about(const dlk_mc *mc, const dlk_ask *ask, int64_t since_ms,
                         char room[DLK_MC_ABOUT_MAX]);
/* By how many seconds the server's clock may be behind. It shows whole ones, so up to one; and it
 * is set by a timer that begins anew when it has run out, so its ticks come later and later in
 * their seconds, until one second is left out (1.6.18: one in about half an hour when idle): up to
 * two. What is to last n seconds ends when the clock shows n more than it did: between n - 2
 * and n of them later. */
#define DLK_MC_CLOCK_LAG  2
#define DLK_MC_TTL_MAX_MS ((DLK_MC_SECONDS_MAX - DLK_MC_CLOCK_LAG) * INT64_C(1000))
/* For how many seconds to ask so that no less than @p ms are got. */
int64_t dlk_mc_seconds(int64_t ms);
/* Of a grant that was stored under this number; 0 where none can be made. */
int64_t dlk_mc_token(const dlk_mc *mc, uint64_t cas);

/* ---- sole.c: items of one holder ---- */
void dlk_mc_sole_begin(dlk_mc *mc, dlk_ask *ask, int64_t now);
/* False: the reply is none to this step. */
bool dlk_mc_sole_reply(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply, int64_t now);

/* ---- lines.c: items that name all holders ---- */
void dlk_mc_lines_begin(dlk_mc *mc, dlk_ask *ask);
bool dlk_mc_lines_reply(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply);

/* ---- reports.c: inspect and doctor ---- */
void dlk_mc_inspected(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply, int64_t clock);
bool dlk_mc_doctor_reply(dlk_mc *mc, dlk_ask *ask, const dlk_mc_reply *reply);

#endif
