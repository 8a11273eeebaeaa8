/*
 * What the files of this folder share.
 *
 * One connection, in libpq's pipeline mode: each request is a statement and the end of a transaction, and
 * the answers come in the order of the requests. libpq has the buffers and the TLS; it is called with the
 * client's mutex held, and never blocks, since the socket doesn't.
 */
#ifndef DLK_BACKENDS_POSTGRES_INNER_H
#define DLK_BACKENDS_POSTGRES_INNER_H

#include "backends/postgres/postgres.h"
#include "contract/flight.h"
#include "libpq_calls.h"
#include "net/address.h"
#include "net/backoff.h"

/* Of the schema that this library speaks to: dlock.version(). */
#define DLK_PG_SCHEMA 2
/* The SQLSTATE of what it says when it is installed. */
#define DLK_PG_DONE "DL000"
/* A place in the line is kept so long without a word from its client. */
#define DLK_PG_STAY_MS 10000
/* So many leases are renewed by one statement at most. */
#define DLK_PG_BATCH 500

typedef enum dlk_pg_phase {
    DLK_PG_OFF,
    DLK_PG_LOOKUP,     /* of the host's name */
    DLK_PG_CONNECTING, /* libpq's handshake */
    DLK_PG_GREETING,   /* our first statements */
    DLK_PG_READY,
    DLK_PG_RESTING, /* until `retry_at` */
} dlk_pg_phase;

typedef struct dlk_pg_server {
    char *host; /* a name, an address, or a directory of a socket */
    uint16_t port;
    bool local; /* a socket's directory, or an address of this machine */
} dlk_pg_server;

/* What the server calls an advisory lock: one number, or two halves, which are never the same lock. */
typedef struct dlk_pg_lock {
    int64_t key; /* of a pair the first is the high half */
    bool pair;
} dlk_pg_lock;

typedef struct dlk_pg_key {
    dlk_list watched; /* among those of dlk_pg; else alone */
    dlk_key *key;
    int64_t id;       /* what the server's messages call it; 0: not known yet */
    int64_t look_at;  /* when to look whether those before it came; 0: not */
    int64_t asked_at; /* how many messages had come when it was asked for last, … */
    uint64_t number;  /* … and by which of our grants */
    dlk_pg_lock lock; /* of the layout advisory */
} dlk_pg_key;

typedef struct dlk_pg {
    dlk_backend base; /* first: a dlk_backend * is a dlk_pg * */

    dlk_settings *settings;
    char *database;
    dlk_pg_server *servers;
    size_t server_count;
    char channel[64]; /* where messages for this client come */
    bool installs;    /* the schema, where it is missing */
    bool synchronous; /* what is granted waits for a standby */
    int64_t connect_ns, timeout_ns, retry_ms;

    /* from here on under the client's mutex, which whatever is called has */
    dlk_pg_phase phase;
    size_t server; /* which is tried, or was last */
    dlk_lookup *lookup;
    dlk_addresses to; /* where that server is … */
    size_t address;   /* … and the one that is tried */
    PGconn *conn;
    /* to what was said first, whose transaction hasn't ended; or NULL */
    PGresult *answer;
    int fd;      /* its socket; -1: none */
    short wants; /* while CONNECTING: what to poll for */
    bool unsent; /* libpq has more than the socket takes */
    /* something couldn't be said: nothing may be said behind it, as answers are told from
                    * each other by their order; ended with the next step */
    bool broken;
    int step;        /* what of the greeting is answered next */
    char done[320];  /* what was installed on this client's behalf, in words */
    bool hears;      /* messages come; else it is asked again and again */
    bool doubtful;   /* a commit was told before a standby had it */
    bool pooled;     /* somebody stands between us and the server */
    int64_t until;   /* of this server's tries */
    int64_t give_up; /* of the address that is tried */
    int64_t retry_at;
    dlk_backoff backoff;
    dlock_error *why_down; /* while it isn't READY */
    dlk_flight flight;
    dlk_list renewals; /* dlk_ask.link: not sent yet */
    /* the layout advisory: what of it is ours; NULL: the layout table */
    struct dlk_pg_claims *claims;
    dlk_list watched;      /* dlk_pg_key.watched */
    int64_t look_at;       /* the first of theirs, or DLK_NEVER */
    int64_t messages;      /* so many have come */
    bool listens;          /* to those that ask for a lock */
    int64_t said, answers; /* statements on this connection, and the answers to them */
    int64_t ear;           /* the statement that told the server of it; 0: none yet */
} dlk_pg;

static inline dlk_pg *dlk_pg_of(dlk_backend *backend)
{
    return (dlk_pg *)(void *)backend;
}

/* When to ask again where nobody tells. */
static inline int64_t dlk_pg_retry_ms(const dlk_pg *pg)
{
    return dlk_rand_jitter(pg->base.host->rand, pg->retry_ms, 33);
}

/* ---- link.c ---- */

void dlk_pg_start(dlk_pg *pg, int64_t now);
/* Ends the connection; tells nobody. */
void dlk_pg_hang_up(dlk_pg *pg);
/* Ends it for the reason @p why, which it takes over, tells, and tries again later. */
void dlk_pg_drop(dlk_pg *pg, dlock_error *why, int64_t now);
void dlk_pg_arm(dlk_pg *pg, dlk_polls *polls);
void dlk_pg_process(dlk_pg *pg, int64_t now);
int64_t dlk_pg_tick(dlk_pg *pg, int64_t now);

/* One statement, as a transaction of its own. @p values are texts, but for those whose size isn't 0: these
 * are bytes. False: the connection is broken, or there is no memory; it ends then (`broken`). */
bool dlk_pg_say(dlk_pg *pg, const char *statement, int count, const char *const *values,
                const int *sizes);
/* It has to end: there is a gap in what was said. */
void dlk_pg_break_off(dlk_pg *pg);

/* ---- parameters.c ---- */

/* Has libpq begin with an address of the server whose turn it is, the host itself where that is NULL. NULL
 * without memory, or where the password can't be had, as *err says then. */
PGconn *dlk_pg_begin(const dlk_pg *pg, const char *address, dlock_error **err);

/* ---- postgres_schema.c, made of schema.sql ---- */

extern const char dlk_pg_schema[];

/* ---- greeting.c ---- */

bool dlk_pg_greet(dlk_pg *pg);
/* Takes an answer of the greeting. NULL, or why the connection is to end. */
dlock_error *dlk_pg_greeted(dlk_pg *pg, const PGresult *result, bool *ret_done);

/* ---- asks.c ---- */

void dlk_pg_ask(dlk_backend *backend, dlk_ask *ask, int64_t now);
/* Tells the server, once on each connection, that this client hears of those who ask for a lock, if so. */
void dlk_pg_lend_ear(dlk_pg *pg);
/* Whether this letter says that it is ours, and that it lasts: then it is noted in the ask, with whether
 * somebody else wants what is kept. */
bool dlk_pg_has_it(const dlk_pg *pg, dlk_ask *ask, char reply);
/* Takes the answer to what was sent first. NULL, or why the connection is to end. */
dlock_error *dlk_pg_answered(dlk_pg *pg, const PGresult *result);
/* What the server calls a kind of lock. */
const char *dlk_pg_word(dlock_kind kind);
/* Everything under way is answered so, or, not sent yet, NOT_SENT. */
void dlk_pg_asks_fail(dlk_pg *pg);
dlock_err dlk_pg_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err);
void dlk_pg_key_close(dlk_backend *backend, dlk_key *key);
void dlk_pg_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now);
/* A message on our channel. */
void dlk_pg_heard(dlk_pg *pg, const char *message, int64_t now);
/* Has those asked again who were told that it is soon their turn. Answers when to call it again. */
int64_t dlk_pg_look(dlk_pg *pg, int64_t now);

#define DLK_PG_OWNER_MAX 64
/* What the server calls our grant of this number. */
const char *dlk_pg_owner(const dlk_pg *pg, uint64_t number, char to[DLK_PG_OWNER_MAX]);

/* ---- renewals.c ---- */

/* Sends the renewals that wait. */
void dlk_pg_send_renewals(dlk_pg *pg);
/* How many asks, from this one on, one statement is for. */
int64_t dlk_pg_batch_of(const dlk_ask *ask);
/* Takes the answer to such a statement, which was sent first. */
dlock_error *dlk_pg_renewed(dlk_pg *pg, const PGresult *result);

/* ---- reports.c ---- */

dlock_error *dlk_pg_inspected(dlk_pg *pg, dlk_ask *ask, const PGresult *result);
dlock_error *dlk_pg_listed(dlk_pg *pg, dlk_ask *ask, const PGresult *result);
dlock_error *dlk_pg_examined(dlk_pg *pg, dlk_ask *ask, const PGresult *result);
extern const char dlk_pg_examine[]; /* what the examination asks */
/* Adds how safe the way to the server is. */
void dlk_pg_judge_way(const dlk_pg *pg, dlock_info *info);
/* Answers so; takes over @p info. */
void dlk_pg_give_info(dlk_pg *pg, dlk_ask *ask, dlock_info *info);

/* ---- errors.c ---- */

/* What a statement's failure means; never NULL. */
dlock_error *dlk_pg_error(const PGresult *result);
/* What a connection's failure means; never NULL. */
dlock_error *dlk_pg_link_error(const dlk_pg *pg);

/* What an answer is that can't be one. */
dlock_error *dlk_pg_nonsense(void);
/* A number of a result, none of which is below 0, or @p otherwise: NULL, none, or too large. */
int64_t dlk_pg_number(const PGresult *result, int row, int column, int64_t otherwise);
/* Bytes in hexadecimal, as a text, yours to free(); NULL without memory, or where it is none. */
char *dlk_pg_unhex(const char *hex);
/* A reply: one letter; 0: something else. */
char dlk_pg_letter(const PGresult *result, int row, int column);

#endif
