/*
 * What the decisions in locks/ ask of a lock service, and how it can answer: plain data, the
 * vocabulary that locks/, engine/ and the backends share.
 */
#ifndef DLK_LOCKS_ASK_H
#define DLK_LOCKS_ASK_H

#include <dlock/dlock.h>

#include "util/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_key dlk_key;
typedef struct dlk_ask dlk_ask;
struct dlk_grant;
struct dlk_settings;

/* A lock's name as the server sees it. Lives as long as anything that names it. */
struct dlk_key {
    const char *name; /* prefix + name, ends with NUL */
    const struct dlk_settings
        *settings;   /* of the handle that made it: layout, fair, permits */
    uint32_t size;   /* of the name */
    dlock_kind kind; /* DLOCK_WRITE stands for both sides of a read/write lock */

    /* backend's, set by key_open */
    void *data; /* what it made of the key */
    /* Others there may cut a reader's lease to so much, so it is renewed as often as one that is
     * no longer; 0: nobody does. */
    int32_t shared_cut_ms;
    /* a contender has a place in a line there, which has to be given back */
    bool queues : 1;
    /* … but those who only watch hear that it is free all the same */
    bool tells_all : 1;
    bool passes : 1;   /* a release may name our own next contender (dlk_ask.next) */
    bool hands_on : 1; /* its locks can be imported */
    /* … and what is exported would go with its giver, unless the service is told of it: by a
     * release with `exported` */
    bool told_exports : 1;

    bool watched : 1; /* engine's: `watch(on)` has been called */
};

/* What can be asked. */
typedef enum dlk_verb {
    /* Take the lock for `number`, or keep or get a place in the line for it. Asking again with
     * the same number is safe and how a wait goes on: what is ours already is granted again,
     * with the same token, and lasts for ttl_ms from now on. ttl_ms is the lease. */
    DLK_ACQUIRE = 1,
    /* The lease of `number` ends ttl_ms from now, never sooner than it would have (but for
     * `overlong`). Never re-creates what is gone. With `shared` it turns a write lock that `number` has into a
     * read lock: that is how a downgrade is told, and told again. */
    DLK_RENEW,
    /* Gives back whatever `number` has: the lock, of either side, or its place in the line. Safe
     * to repeat. With `next` the lock may pass to that number of ours in the same step. */
    DLK_RELEASE,
    DLK_VERIFY, /* is it `number` that holds the lock? */
    DLK_BREAK, /* takes the lock from its holder: `text` as inspect showed it, NULL = whoever */
    DLK_REVOKE, /* asks the holder to give it up */
    /* Makes the lock of the owner `text` that of `number`, with a token of its own, for ttl_ms. Safe
     * to repeat, as an acquire is. */
    DLK_IMPORT,
    /* makes `info`: held, kind, holders.N.…, waiters but for this client's own, permits, permits_free,
     * layout; as dlock_lock_inspect() has it */
    DLK_INSPECT,
    /* Wakes the first `limit` who wait in a condition's line, in their order, by granting them what
     * they have asked for; makes `info`: signalled, how many. Not safe to repeat. */
    DLK_SIGNAL,
    DLK_LIST,   /* makes `info`: names that begin with `text`, at most `limit` */
    DLK_DOCTOR, /* makes `info`: verdict, findings.N.{id,severity,text} */
} dlk_verb;

/* How it can be answered. */
typedef enum dlk_reply {
    DLK_PENDING = 0, /* not yet; host->answered follows, exactly once */
    DLK_YES,         /* done; acquire: `token`; inspect, list, doctor: `info` */
    DLK_HELD,        /* acquire: somebody else has it. Ask again when notified, or after
                      * `wait_ms` at the latest (what is left of the holder's lease; < 0:
                      * unknown). Where the type queues, `number` is in the line now. */
    DLK_NOT_OURS, /* renew, release, verify, break, import, revoke: `number` (or `text`) doesn't
                      * hold it */
    DLK_NOT_SENT, /* there is no connection: certainly nothing was done. Asked again after
                      * host->link(up). `error` may say why. */
    DLK_UNKNOWN,  /* sent, and no answer will come any more: done or not */
    DLK_REFUSED, /* the server answered with an error and did nothing. error->code EUNAVAIL
                      * (loading, busy, out of memory…): asked again with backoff; anything else
                      * (EACCES, ECONFLICT, EPROTO, EINVAL, ENOTSUP) is final. */
} dlk_reply;

/* The numbers of grants that may outlive their holds, from here on. They have 19 digits, so whoever sees such
 * an owner at the server knows; the others count from 1. */
#define DLK_KEEPS (UINT64_C(1) << 62)
static inline bool dlk_number_keeps(uint64_t number)
{
    return number / DLK_KEEPS == 1;
}
/* Was the grant of the one number made before that of the other, by one client? */
static inline bool dlk_number_older(uint64_t number, uint64_t other)
{
    return (number & ~DLK_KEEPS) < (other & ~DLK_KEEPS);
}

/* One request. The engine owns it and keeps it until it is answered. */
struct dlk_ask {
    /* ---- the question: set by locks/ and the engine, read by the backend ---- */

    dlk_verb verb;
    int32_t take; /* a semaphore's permits; else 1 */
    dlk_key *key; /* NULL for list and doctor */
    /* the grant's; the owner on the wire is <uuid>:<number>. One of DLK_KEEPS: it may outlive its
     * holds, so a block of tokens is wanted, and who finds it held is to tell (host->asked) */
    uint64_t number;
    int64_t ttl_ms;
    /* boot clock, ns: unanswered by then, the backend answers UNKNOWN */
    int64_t deadline;
    bool shared; /* of the read side */
    bool once;   /* acquire: nobody will wait, so a place in a line isn't wanted */
    bool brief;  /* inspect: only whether anybody holds it is wanted */
    bool undoes; /* release: an acquire of this number is under way, unanswered */
    bool
        refills; /* renew, where it keeps: more tokens are wanted, and whether others wait */
    /* acquire, at a node of a Redlock: what its clock says at least, in us; 0: not known */
    int64_t clock_us;
    /* release of a condition's place: the token of the signal that has done its work. Any other goes to
     * whoever is next, as that of one who dies. 0: none has. */
    int64_t used;
    /* release, where key->told_exports: the lock isn't free, but left to whoever imports it,
     * until its lease ends */
    bool exported;
    uint64_t next;    /* release: our next contender, where key->passes; 0 = nobody */
    const char *text; /* break, import, list */
    int64_t limit;    /* list, signal */
    /* acquire, renew, import: what the hold is to show (lock.data), where the layout has
     * room; NULL or "": nothing. Stays until it is answered. */
    const char *data;
    /* renew: what the lease can be at most, whichever of the requests for it were carried
     * out; 0: not known. One that is longer there is the doing of a clock that was set
     * back. */
    int64_t most_ms;

    /* ---- the question, which the answer may change: set by the engine, and by the backend ---- */

    /* The time of asking. A backend may move it back, never forward: the lease that YES
     * grants counts from here. A service whose leases are its session's says in ttl_ms,
     * with YES to acquire or renew, what that has come to. */
    int64_t since;
    /* renew: the name of a lease that is longer than `most_ms`, as the last YES gave it,
     * which the backend may cut to that; else 0. With YES it names such a lease here, or
     * says 0. */
    int64_t overlong;

    /* ---- the answer: set by the backend, read by locks/ ---- */

    dlk_reply reply;
    /* YES to acquire (or `next`), renew or import: this very request has seen to it that
     * the lease lasts for ttl_ms from `since` on, where it set or lengthened it, or found
     * it so long. A YES without says no more than whose it is. */
    bool lasts;
    /* YES to acquire (or `next`) or import; to renew with `refills`: as below, or 0 */
    int64_t token;
    /* YES where it keeps, a renew with `refills`: the last token of a block that begins with `token`; 0: there is
     * no block */
    int64_t last_token;
    bool asked;      /* the same: others wait in the line */
    int64_t wait_ms; /* HELD */
    /* REFUSED always; NOT_SENT and UNKNOWN where more is known. Engine frees. */
    dlock_error *error;
    dlock_info *info; /* YES to inspect, list, doctor. Engine frees or hands on */

    /* ---- the answer, of those that have a line, or hand a lock on within one ---- */

    /* With `next`: YES, it holds the lock now, `token` is its; HELD, it is in the line;
     * PENDING, nothing was done about it. */
    dlk_reply next_reply;
    bool no_place; /* HELD to `once`: a service with a line has given it no place there */
    bool new_place; /* HELD: the place in the line is one that it hadn't before */
    /* UNKNOWN to acquire or import: it was to be undone, and that may yet be carried out,
     * so `number` mustn't be asked for again. */
    bool spent;

    /* ---- the backend's own while PENDING: nobody else looks at it ---- */

    dlk_list link; /* between them the engine's, for answers that aren't digested */
    uint64_t sequence;
    int64_t scratch;
    int hops;       /* how often it was sent on to another server */
    dlk_ask *chain; /* flight.c's, while it counts */

    /* ---- the core's own ---- */

    int64_t began;           /* when it was asked; `since` may be moved */
    struct dlk_grant *grant; /* whose it is; NULL: a query's */
    struct dlk_grant *heir;  /* whose `next` is, referenced */
};

static inline const char *dlk_ask_data(const dlk_ask *ask)
{
    return ask->data ? ask->data : "";
}

static inline dlk_reply dlk_ask_refuse(dlk_ask *ask, dlock_error *error)
{
    ask->error = error;
    return ask->reply = DLK_REFUSED;
}

#endif
