/*
 * The decisions of one client: who acquires, who waits, what a lost answer means, when a lease is
 * renewed, suspect and lost. Everything here is a function of an event and *now*: it owns no
 * thread, reads no clock and touches no socket. What it wants done it asks of its port; when it
 * wants to be called again it says by dlk_core_next. A test, or a simulator, is a port and a
 * clock of its own.
 *
 * How the parts hang together:
 *
 *     name  ── queue ──> wait, wait, …      owners of this client that want the lock, in order
 *       │                                   (only the first one's wish goes to the server)
 *       ├─ trying ─────> grant              the attempt under way, whoever's it will be
 *       └─ grants ─────> grant, grant, …    all that live: held, lost, being given back
 *                          └─ holds         each a reference that the caller has to release
 *
 * A grant asks for the lock under a number of its own that is never used again, so every request
 * may be repeated, and what was given up can't take back what came later.
 *
 * Not thread-safe: the engine calls with its mutex held. The port's functions may not call back
 * into the core; they note, and act when the core has returned.
 */
#ifndef DLK_LOCKS_CORE_H
#define DLK_LOCKS_CORE_H

#include "locks/ask.h"
#include "locks/label.h"
#include "locks/lease.h"
#include "locks/states.h"
#include "locks/told.h"
#include "util/heap.h"
#include "util/hist.h"
#include "util/rand.h"
#include "util/settings.h"
#include "util/tell.h"

#include <stdatomic.h>

typedef struct dlk_core dlk_core;
typedef struct dlk_name dlk_name;
typedef struct dlk_wait dlk_wait;
typedef struct dlk_grant dlk_grant;
typedef struct dlk_hold dlk_hold;
typedef struct dlk_query dlk_query;
typedef struct dlk_order_held dlk_order_held; /* order.h */

/* What a lock handle wants of its grants. */
typedef struct dlk_terms {
    int64_t ttl_ms;
    int64_t max_hold_ms; /* 0: no limit */
    int32_t keep_ms;     /* 0: a grant goes back with its last hold */
    uint16_t keep_runs, keep_run_ms;
    int32_t take;    /* permits of a semaphore; else 1 */
    uint8_t renewal; /* DLK_RENEW_AUTO, _FED, _OFF */
    bool shared;     /* the read side */
    bool reentrant;
    bool release_async;
    dlk_label *label; /* shown by its holds; the handle's, or referenced by the grant */
} dlk_terms;

/* The same of a grant; what it says of keeping is in dlk_keep. */
typedef struct dlk_grant_terms {
    int64_t ttl_ms, max_hold_ms;
    dlk_label *label;
    int32_t take;
    uint8_t renewal;
    bool shared, reentrant, release_async;
} dlk_grant_terms;

/* A deadline of some object of ours. */
enum { DLK_ALARM_WAIT, DLK_ALARM_GRANT, DLK_ALARM_QUERY };
typedef struct dlk_alarm {
    dlk_timer timer; /* its kind is one of these */
} dlk_alarm;

/* One name of one client. Kept by lock handles, waits and grants. */
struct dlk_name {
    dlk_key key;
    dlk_name *next;  /* of those in its bucket of the table */
    uint64_t agreed; /* stands for the settings that names of one text must agree on */
    uint32_t hash;
    int refs;
    dlk_chain queue;  /* dlk_wait.link: first come, first served */
    dlk_chain grants; /* dlk_grant.link */
    dlk_grant *trying;
    int idlers;           /* queries that wait for it to be free */
    uint16_t order_class; /* the port's: a number that it has given it */
    bool twin;            /* there has been another one of this text */
};

/* No order is learnt from this wait. */
#define DLK_UNORDERED UINT64_MAX

/* Somebody waits for a grant, or for a release to be confirmed. Lies where its owner likes, and
 * must stay there until `over`. */
struct dlk_wait {
    dlk_list link; /* in name->queue; a release's: in no list */
    dlk_alarm alarm;
    dlk_name *name;
    dlk_grant *grant; /* set when granted; a release's: the grant it gives back */
    uint64_t owner;
    bool once;      /* wait_ms was 0 */
    bool releasing; /* waits for a release, not for a grant */
    bool importing; /* waits for what a ticket promises, beside the line */
    bool behind;    /* has been told once that somebody else holds it */
    bool placed;    /* of a condition: has had a place in the service's line */
    /* 0: alone; else, for client.order, with which others, or DLK_UNORDERED */
    uint64_t together;
    dlk_terms terms;
    dlk_label *label; /* terms.label, referenced while it stands in the queue */
    int64_t began;

    bool over;
    dlock_err code;
    dlock_error *error; /* whoever started the wait takes or frees it */
    dlk_hold *hold;     /* with DLOCK_OK of an acquire */
};

/* What the last acquire of an attempt has come to. */
typedef enum dlk_standing {
    DLK_STANDS_UNSENT,  /* none went out, or the connection that it went by is gone */
    DLK_STANDS_UNKNOWN, /* the last one that went out got no answer: ours or not */
    DLK_STANDS_BEHIND,  /* the server said: somebody else has it */
    DLK_STANDS_REFUSED, /* the server can't just now */
} dlk_standing;

/* What an acquire has got while the release was under way, which may have come before that. */
typedef enum dlk_late {
    DLK_LATE_NOTHING,
    DLK_LATE_GOT,      /* the lock, or a place in its line */
    DLK_LATE_GOT_MORE, /* the lock; its place may be all that the release has found */
} dlk_late;

/* What a grant that may outlive its holds knows beside what all know. */
typedef struct dlk_keep {
    int64_t until;      /* so long; DLK_NEVER: its holds haven't been released yet */
    int64_t whole;      /* the end of its validity, if it weren't for max_hold_ms */
    int64_t next_token; /* what is left of the block that is reserved, … */
    int64_t last_token; /* … up to here; 0: there is none */
    int64_t run_began;  /* the server's grant; … */
    int64_t run; /* … the local ones after it: so many, and which one it is just now */
    /* of dlk_terms, as whoever has it, or had it last, has wished for */
    int32_t keep_ms;
    uint16_t keep_runs, keep_run_ms;
    bool asked;    /* somebody else waits for it, as far as we know */
    bool full;     /* nothing of the block has been used */
    bool extended; /* its lease may be longer than whoever takes it up has wished for */
} dlk_keep;

/* What few grants have, made when it is first needed. */
typedef struct dlk_grant_more {
    dlock_error *why; /* the last acquire or release got no further, or NULL */
    char *giver;      /* an import's: the owner that its ticket names; owned */
    /* client.order has noticed that a thread holds it; or NULL */
    dlk_order_held *ordered;
    int64_t overlong; /* dlk_ask.overlong, of the last renewal */
} dlk_grant_more;

/* What the server gave us, may have given us, or is asked for. Made by the port, which may have
 * more around it. There may be ten thousand of them: what is only needed while a request is under
 * way lies in the request. */
struct dlk_grant {
    dlk_list link; /* in name->grants */
    dlk_list all;  /* in core->grants */
    dlk_alarm alarm;
    int refs; /* hold objects, plus one while it is in name->grants */
    dlk_name *name;
    uint64_t number;
    uint64_t owner;
    dlk_grant_terms terms;
    dlk_lease lease;
    int64_t token;  /* of those who hold it now */
    dlk_keep *keep; /* it may outlive its holds; NULL: it may not */
    int64_t since;  /* when it was asked for last; once granted, when that was */
    /* those not released yet, the last one first; until it is granted: the one that was
     * made with it */
    dlk_hold *holds;
    int32_t hold_count;
    int32_t write_holds; /* those of them that aren't shared */

    /* When to ask by ourselves: for a renewal, while it is held; else for it, or to give it back,
     * and DLK_NEVER while neither is wanted or one is under way. */
    int64_t due_at;
    /* A dlock_state; 0 before it is granted. Written under the engine's mutex; this and the lease's
     * end are read without it by dlock_hold_check and its like. */
    _Atomic uint8_t state;
    uint8_t retries; /* no more than make a difference to the pause */
    /* What it is: states.h has the tables of what may happen when. Set by dlk_grant_step alone. */
    uint8_t stage;      /* a dlk_stage */
    uint8_t asks;       /* a dlk_asks */
    uint8_t standing;   /* a dlk_standing: TRIED */
    uint8_t late;       /* a dlk_late: RELEASING */
    uint8_t given_back; /* prompt answers in a row to the release; 1: the last wasn't */

    /* Facts that outlive the states in which they come about: */
    /* the last answer to an acquire was "somebody else has it"; where there is a line: it
     * has a place there */
    bool was_behind : 1;
    bool ambiguous : 1;    /* some acquire of ours got no answer: it may be done yet */
    bool given_before : 1; /* a release went out that got no answer */
    /* from the write to the read side, and the server hasn't confirmed it */
    bool turning : 1;
    bool fed : 1;  /* since the last renewal was sent */
    bool used : 1; /* of a condition: its signal has done its work, and doesn't go on */
    bool gone : 1; /* the service has taken it away, and it isn't lost yet */
    bool exported : 1; /* what is told to the service is that it is left to a ticket */

    dlk_wait *waiter; /* who waits for the release, or for the import, or NULL */
    dlk_grant_more *more;
};

/* One hold of a grant. */
struct dlk_hold {
    dlk_grant *grant;
    dlk_hold *next; /* in grant->holds */
    int64_t token;
    bool shared; /* of the read side; may lie in a grant of the write side */
    _Atomic bool released;
};

/* A question or order that is no acquire or release: verify, extend, break, inspect, list,
 * doctor, wait_idle. Kept in place until the port's `free_query`. */
struct dlk_query {
    dlk_ask ask;
    dlk_list all; /* in core->queries */
    dlk_alarm alarm;
    dlk_grant *grant; /* verify, extend: referenced; … */
    const dlk_hold
        *hold;      /* … of this hold, which may be gone once it is started; or NULL */
    int64_t run;    /* … and which local grant that is of */
    dlk_name *name; /* referenced, or NULL */
    dlk_query_kind kind;
    dlk_query_stage stage; /* set by dlk_query_step alone, as states.h has it */
    dlk_query_left left;
    int64_t deadline, retry_at;
    uint8_t retries;

    dlock_err code;
    dlock_error *error;
    dlock_info *info;
};

/* Who heeds the order in which threads take locks. */
typedef struct dlk_order_port {
    /* A thread is about to wait for it. NULL: it may; else why not, to be freed. */
    char *(*asked)(void *world, const dlk_wait *wait, int64_t now);
    /* The wait's grant is its thread's now; no longer; only for reading. */
    void (*took)(void *world, dlk_grant *grant, const dlk_wait *wait);
    void (*gave)(void *world, dlk_grant *grant);
    void (*turned)(void *world, dlk_grant *grant);
} dlk_order_port;

typedef struct dlk_port {
    void *world;
    const dlk_order_port *order; /* or NULL: nobody does */
    /* Grants, and attempts, that may be asked for (dlk_core_mark_asked) are added to it: whoever drives has to
     * listen though nobody waits. Or NULL. */
    int *attended;
    /* Sends it, or answers at once by setting ask->reply. */
    void (*ask)(void *world, dlk_ask *ask, int64_t now);
    void (*watch)(void *world, dlk_key *key, bool on, int64_t now);
    /* The wait, or query, has its result. */
    void (*wait_over)(void *world, dlk_wait *wait);
    void (*query_over)(void *world, dlk_query *query);
    /* One of a condition has its place in the service's line now: wait->placed. Told once. */
    void (*placed)(void *world, dlk_wait *wait);
    /* grant->state changed between HELD, SUSPECT and LOST. */
    void (*changed)(void *world, dlk_grant *grant);
    /* A grant with one hold in it, or NULL; and the memory of further holds. Both zeroed. */
    dlk_grant *(*new_grant)(void *world, dlk_hold **ret_hold);
    dlk_hold *(*new_hold)(void *world);
    void (*free_grant)(void *world, dlk_grant *grant);
    void (*free_query)(void *world, dlk_query *query);
    void (*free_name)(void *world, dlk_name *name);
    void (*log)(void *world, dlock_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    dlk_tell *tell; /* for DLK_TELL; NULL: nobody hears */
} dlk_port;

typedef struct dlk_limits {
    dlk_margin margin;
    int64_t timeout_ms, connect_ms, poll_ms, backoff_min_ms, backoff_max_ms;
    /* Leases are those of a session that ends with its connection, sooner or later: without one
     * every hold is SUSPECT, and with a new one each is renewed at once. */
    bool session;
} dlk_limits;

/* The requests of grants come and go at the speed of locking; so many are kept for the next, and
 * these few for giving back and renewing alone, which go on without memory. */
#define DLK_SPARE_ASKS 64
#define DLK_SAVED_ASKS 4

/* Why a grant was lost. */
typedef enum dlk_loss {
    DLK_LOSS_EXPIRED, /* its validity was over: no renewal came through in time */
    DLK_LOSS_DENIED,  /* the answer to a renewal, or to a verify: it isn't ours */
    DLK_LOSS_TAKEN, /* the service has told of it by itself, as of the end of a session */
    DLK_LOSSES
} dlk_loss;

/* How a wait for a grant ended, of those that are timed. */
typedef enum dlk_waited {
    DLK_WAITED_GRANTED,
    DLK_WAITED_TIMED_OUT,
    DLK_WAITED_CANCELLED,
    DLK_WAITED
} dlk_waited;

/* What was asked, as its time is counted. */
typedef enum dlk_asked {
    DLK_ASKED_ACQUIRE, /* or import */
    DLK_ASKED_RENEWAL,
    DLK_ASKED_RELEASE,
    DLK_ASKED_OTHER,
    DLK_ASKED
} dlk_asked;

typedef struct dlk_stats {
    int64_t grants, reentries, contended, timeouts, cancels, refusals;
    int64_t renewals, renewals_failed, suspects, releases, releases_failed, late_grants,
        places_lost, spurious_wakes;
    int64_t losses[DLK_LOSSES];
    /* Grants that outlived their holds, holds that such a one was given to, and why it went back. */
    int64_t kept, local_grants, kept_asked, kept_run_over, kept_idle, kept_lost;
    dlk_hist wait[DLK_WAITED], hold;
    /* From asking to the answer, of what isn't answered at once; and those that never were. */
    dlk_hist request[DLK_ASKED];
    int64_t unanswered;
} dlk_stats;

struct dlk_core {
    dlk_port port;
    dlk_limits limits;
    dlk_rand rand;
    int64_t phase; /* of the grid on which renewals fall */
    dlk_heap alarms;
    size_t alarm_users; /* objects that may need a place in the heap */
    dlk_name **names;
    size_t name_count, name_buckets;
    dlk_list grants, queries;
    size_t grant_count;
    dlk_list spare_asks; /* dlk_ask.link */
    size_t spare_ask_count, ask_count;
    uint64_t last_number, last_owner;
    bool up, closed;
    dlock_error *down; /* why the link isn't up, or NULL */
    dlk_stats stats;
};

/* ---- core.c: what goes out and what comes in ---- */
bool dlk_core_init(dlk_core *core, const dlk_port *port, const dlk_limits *limits,
                   uint64_t seed);
/* All names must be gone. */
void dlk_core_free(dlk_core *core);
/* When to call dlk_core_tick next. */
int64_t dlk_core_next(const dlk_core *core);
void dlk_core_tick(dlk_core *core, int64_t now);
/* A PENDING ask has its reply. */
void dlk_core_answered(dlk_core *core, dlk_ask *ask, int64_t now);
/* The name may be free. */
void dlk_core_notified(dlk_core *core, dlk_key *key, int64_t now);
/* The service has taken this grant away. It is lost with the next dlk_core_notified. */
void dlk_core_mark_gone(dlk_key *key, uint64_t number);
/* Somebody else waits for what this number of ours has, or is about to get. If it is only kept, it goes back
 * with the next dlk_core_notified. False: that is old news. */
bool dlk_core_mark_asked(dlk_key *key, uint64_t number);
/* An owner that is no thread: an acquire of its own. */
uint64_t dlk_core_new_owner(dlk_core *core);
/* A thread's next acquire re-enters. */
static inline bool dlk_owner_is_thread(uint64_t owner)
{
    return owner >> 63 == 0; /* threads count from 1 */
}
/* Everything in it is as the tables of states.h say that it can be. For tests. */
bool dlk_core_is_sound(const dlk_core *core);

/* ---- client.c: all at once ---- */
void dlk_core_link(dlk_core *core, bool up, const dlock_error *why, int64_t now);
/* Ends every wait and query with ECLOSED and gives every grant back. */
void dlk_core_close(dlk_core *core, int64_t now);
/* The last word, after the backend has stopped: whatever is still unconfirmed stays so. */
void dlk_core_stop(dlk_core *core);
/* Grants whose release isn't confirmed yet. */
size_t dlk_core_unconfirmed(const dlk_core *core);

/* ---- name.c ---- */
/* The first name of this kind and text, or the next one after @p after: there may be several that
 * differ in what the server is to see of them. */
dlk_name *dlk_name_find(dlk_core *core, dlock_kind kind, const char *text, size_t size,
                        dlk_name *after);
/* Another name of the same text that is in use now and doesn't agree with it, or NULL. */
dlk_name *dlk_name_rival(dlk_core *core, const dlk_name *name);
/* name->key and name->agreed are filled; gets one reference. False: no memory. */
bool dlk_name_add(dlk_core *core, dlk_name *name);
void dlk_name_drop(dlk_core *core, dlk_name *name);
static inline void dlk_name_ref(dlk_name *name)
{
    name->refs++;
}
static inline void dlk_name_unref(dlk_core *core, dlk_name *name)
{
    if (--name->refs == 0)
        dlk_name_drop(core, name);
}

/* ---- acquire.c: one contender a name ---- */
/* wait->name, owner…, once, terms and @p deadline are set; the result may be there at once. */
void dlk_acquire_start(dlk_core *core, dlk_wait *wait, int64_t deadline, int64_t now);
/* Ends the waiting with @p code, unless it is over. */
void dlk_acquire_cancel(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now);
/* The same of one that isn't over: DLOCK_EDEADLK, with this text. */
void dlk_acquire_break(dlk_core *core, dlk_wait *wait, const char *text, int64_t now);

/* ---- blocked.c: whom of this client a wait waits for ---- */
/* May somebody of this client be in its way? Who isn't behind any of ours when it begins never will be. */
static inline bool dlk_wait_is_behind_ours(const dlk_wait *wait)
{
    return !wait->name->trying || wait->name->queue.first != &wait->link;
}
typedef bool dlk_blocker_fn(void *user, uint64_t owner);
/* Shows @p found each thread that holds what has to be given back first, until it says true; then true. */
bool dlk_wait_finds_blockers(const dlk_wait *wait, int64_t now, dlk_blocker_fn *found,
                             void *user);

/* ---- grant.c: holding ---- */
void dlk_grant_destroy(dlk_core *core, dlk_grant *grant);
static inline void dlk_grant_unref(dlk_core *core, dlk_grant *grant)
{
    if (--grant->refs == 0)
        dlk_grant_destroy(core, grant);
}
/* NULL: no memory. */
dlk_grant_more *dlk_grant_need_more(dlk_grant *grant);
/* What it was asked with, or is held with. Its label is the grant's. */
dlk_terms dlk_grant_terms_of(const dlk_grant *grant);
/* Brings the state up to @p now; true while the grant is held and valid. */
bool dlk_grant_settle(dlk_core *core, dlk_grant *grant, int64_t now);
void dlk_grant_feed(dlk_core *core, dlk_grant *grant, int64_t now);
/* From the write to the read side: here at once, at the server as soon as it answers. */
void dlk_grant_turn(dlk_core *core, dlk_grant *grant, int64_t now);
static inline dlock_state dlk_grant_state(const dlk_grant *grant)
{
    return (dlock_state)atomic_load_explicit(&grant->state, memory_order_acquire);
}
/* Held and valid, as far as is known. */
static inline bool dlk_grant_lives(const dlk_grant *grant)
{
    int state = atomic_load_explicit(&grant->state, memory_order_relaxed);
    return state == DLOCK_HELD || state == DLOCK_SUSPECT;
}
/* … and none of ours has it: it has outlived its holds. */
static inline bool dlk_grant_is_kept(const dlk_grant *grant)
{
    return grant->hold_count == 0 && dlk_grant_lives(grant);
}
/* Which of those who have had it, one after the other, has it now, or had it last. */
static inline int64_t dlk_grant_run(const dlk_grant *grant)
{
    return grant->keep ? grant->keep->run : 0;
}
/* It has gone on from the one that had it as this @p run. */
static inline bool dlk_grant_moved_on(const dlk_grant *grant, int64_t run)
{
    return grant->keep && (grant->keep->run != run || dlk_grant_is_kept(grant));
}

/* ---- release.c ---- */
/* Ends this hold. A last one's release goes out; then @p wait is over when it is confirmed, or at
 * @p deadline. wait->over may be set at once. @p wait may be NULL: in the background. */
void dlk_release_start(dlk_core *core, dlk_hold *hold, dlk_wait *wait, int64_t deadline,
                       int64_t now);
/* Stops waiting for it; the release goes on. */
void dlk_release_detach(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now);

/* ---- import.c: handing on ---- */
/* Gives the grant away: its hold is RELEASED, and nothing goes to the server, but for one that has
 * to be told (key->told_exports). OK, ENOTHELD, ELOST, EBUSY (it has other holds), ENOTSUP. */
dlock_err dlk_export(dlk_core *core, dlk_hold *hold, int64_t now);
/* Takes over what @p giver, an owner as the server knows it, has given away; as
 * dlk_acquire_start. */
void dlk_import_start(dlk_core *core, dlk_wait *wait, const char *giver, int64_t deadline,
                      int64_t now);

/* ---- query.c ---- */
/* It has its result. */
static inline bool dlk_query_is_over(const dlk_query *query)
{
    return query->stage >= DLK_QUERY_OVER_ASKED;
}
void dlk_query_start(dlk_core *core, dlk_query *query, int64_t deadline, int64_t now);
void dlk_query_cancel(dlk_core *core, dlk_query *query, dlock_err code, int64_t now);

/* ---- told.c ---- */
/* What it has had, or waited for, for @p after at least, the oldest grants first. However many there are,
 * only so many are looked at as @p most lines need. */
dlk_told_sum dlk_core_told(const dlk_core *core, int64_t now, int64_t after,
                           dlk_told *ret, size_t most);

/* Ends the wait of this thread for a name, whatever its kind, with DLOCK_EDEADLK. False: there is none that began
 * before @p before. */
bool dlk_core_break_wait(dlk_core *core, const char *name, uint64_t thread,
                         int64_t before, const char *text, int64_t now);

#endif
