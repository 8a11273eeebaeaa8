/*
 * The layout advisory: a lock is one of PostgreSQL's advisory locks, under the key that others use for it
 * (postgres.key). It is the session's, so it has no lease there: it ends with the connection, and all that
 * this client has is lost then.
 *
 * A session gets what it has already, and has to give it back as often. So who of this client has what is
 * noted here, as claims, and what would get in the way of one of them isn't asked for.
 */
#ifndef DLK_BACKENDS_POSTGRES_ADVISORY_H
#define DLK_BACKENDS_POSTGRES_ADVISORY_H

#include "backends/postgres/inner.h"

/* ---- advisory_keys.c: names ---- */

/* Which rows of pg_locks are of the lock $1, or of $1 and $2; the columns are unsigned there. */
#define DLK_PG_IS_ONE                                                                    \
    "objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = $1::bigint"
#define DLK_PG_IS_PAIR                                                                   \
    "objsubid = 2 AND classid::bigint = ($1::bigint & 4294967295) AND "                  \
    "objid::bigint = ($2::bigint & 4294967295)"

/* EINVAL: that way of making keys (a word of postgres.key) takes no such name. */
dlock_err dlk_pg_lock_of(int64_t word, const char *name, size_t size, dlk_pg_lock *ret,
                         dlock_error **err);
/* As the server says it: classid, objid and objsubid. */
dlk_pg_lock dlk_pg_lock_said(const PGresult *result, int row);
/* "<number>" or "<number>,<number>", as postgres.key=number has it. */
#define DLK_PG_LOCK_MAX 24
const char *dlk_pg_lock_text(const dlk_pg_lock *lock, char to[DLK_PG_LOCK_MAX]);

/* ---- advisory_claims.c: who of this client has what ---- */

typedef enum dlk_pg_stand {
    DLK_PG_TRIES,  /* asked for, not answered */
    DLK_PG_HAS,    /* ours */
    DLK_PG_LEAVES, /* its end is asked for; what is asked behind it comes behind it */
} dlk_pg_stand;

typedef struct dlk_pg_claim {
    dlk_list link; /* in a chain of its claims */
    dlk_key *key;
    uint64_t number;
    dlk_pg_lock lock;
    uint64_t seen; /* by which look at the server it was there last */
    dlk_pg_stand stand;
    bool shared;
    bool turns; /* from exclusive to shared: not answered */
    bool got;   /* the answer was yes */
} dlk_pg_claim;

#define DLK_PG_CHAINS 1024

typedef struct dlk_pg_claims {
    dlk_list chains[DLK_PG_CHAINS]; /* by their lock */
    uint64_t looks;                 /* so many answers about what is ours there */
    size_t count;
} dlk_pg_claims;

dlk_pg_claims *dlk_pg_claims_new(void); /* NULL without memory */
void dlk_pg_claims_free(dlk_pg_claims *claims);
dlk_pg_claim *dlk_pg_claim_find(dlk_pg_claims *claims, const dlk_key *key,
                                uint64_t number);
/* NULL without memory. As long as there is one the connection is heeded. */
dlk_pg_claim *dlk_pg_claim_add(dlk_pg *pg, const dlk_ask *ask);
void dlk_pg_claim_end(dlk_pg *pg, dlk_pg_claim *claim);
/* Whether one of ours keeps it from whoever asks. */
bool dlk_pg_claims_bar(const dlk_pg_claims *claims, const dlk_ask *ask);
/* The session has it, in that mode. */
void dlk_pg_claims_see(dlk_pg_claims *claims, const dlk_pg_lock *lock, bool shared);
/* The session is over: they are gone, and whose they were is told, but for those that leave. */
void dlk_pg_claims_lose(dlk_pg *pg);

/* ---- advisory.c ---- */

void dlk_pg_advisory_adapt(dlk_traits *traits);
bool dlk_pg_advisory_has(dlock_kind kind);
/* What of the settings it has no use for. */
dlock_err dlk_pg_advisory_check(const dlk_settings *settings, dlock_error **err);
dlock_err dlk_pg_advisory_key(dlk_key *key, dlock_error **err);
/* Who waits for the end of one lease, or not for long, isn't to end the session, which has the locks of all. */
void dlk_pg_advisory_bide(const dlk_pg *pg, dlk_ask *ask, int64_t now);
void dlk_pg_advisory_ask(dlk_pg *pg, dlk_ask *ask);
/* One statement for all of pg->renewals. */
void dlk_pg_advisory_renew(dlk_pg *pg);
/* Takes the answer to what was sent first, which is no failure. NULL, or why the connection is to end. */
dlock_error *dlk_pg_advisory_answered(dlk_pg *pg, dlk_ask *ask, const PGresult *result);
/* The same for one that failed. */
dlock_error *dlk_pg_advisory_failed(dlk_pg *pg, dlk_ask *ask, const PGresult *result);

/* ---- advisory_greeting.c ---- */

bool dlk_pg_advisory_greet(dlk_pg *pg);
dlock_error *dlk_pg_advisory_greeted(dlk_pg *pg, const PGresult *result, bool *ret_done);

/* ---- advisory_reports.c ---- */

/* Who has or wants a lock, of one number and of two. */
extern const char dlk_pg_advisory_inspect[], dlk_pg_advisory_inspect_pair[];
extern const char dlk_pg_advisory_list[], dlk_pg_advisory_examine[];
dlock_error *dlk_pg_advisory_inspected(dlk_pg *pg, dlk_ask *ask, const PGresult *result);
dlock_error *dlk_pg_advisory_listed(dlk_pg *pg, dlk_ask *ask, const PGresult *result);
dlock_error *dlk_pg_advisory_examined(dlk_pg *pg, dlk_ask *ask, const PGresult *result);

#endif
