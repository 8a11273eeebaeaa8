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
struct dlk_settings;

/* A lock's name as the server sees it. Lives as long as anything that names it. */
struct dlk_key {
    const char *name; /* prefix + name, ends with NUL */
    size_t size;
    dlock_kind kind;
    const struct dlk_settings
        *settings; /* of the handle that made it: layout, fair, permits */
    bool watched;  /* engine's: `watch(on)` has been called */
    void *data;    /* backend's: what key_open made of it */
};

/* What can be asked. */
typedef enum dlk_verb {
    /* Take the lock for `number`, or keep or get a place in the line for it. Asking again with
     * the same number is safe and how a wait goes on: what is ours already is granted again,
     * with the same token. ttl_ms is the lease. */
    DLK_ACQUIRE = 1,
    /* The lease of `number` ends ttl_ms from now, never sooner than it would have. Never
     * re-creates what is gone. */
    DLK_RENEW,
    /* Gives back whatever `number` has: the lock, or its place in the line. Safe to repeat. */
    DLK_RELEASE,
    DLK_VERIFY, /* is it `number` that holds the lock? */
    DLK_BREAK, /* takes the lock from its holder: `text` as inspect showed it, NULL = whoever */
    DLK_INSPECT, /* makes `info`: held, kind, holders.N.…, waiters, layout */
    DLK_LIST,    /* makes `info`: names that begin with `text`, at most `limit` */
    DLK_DOCTOR,  /* makes `info`: verdict, findings.N.{id,severity,text} */
} dlk_verb;

/* How it can be answered. */
typedef enum dlk_reply {
    DLK_PENDING = 0, /* not yet; host->answered follows, exactly once */
    DLK_YES,         /* done; acquire: `token`; inspect, list, doctor: `info` */
    DLK_HELD,        /* acquire: somebody else has it. Ask again when notified, or after
                      * `wait_ms` at the latest (what is left of the holder's lease; < 0:
                      * unknown). Where the type queues, `number` is in the line now. */
    DLK_NOT_OURS, /* renew, release, verify, break: `number` (or `text`) doesn't hold it */
    DLK_NOT_SENT, /* there is no connection: certainly nothing was done. Asked again after
                      * host->link(up). `error` may say why. */
    DLK_UNKNOWN,  /* sent, and no answer will come any more: done or not */
    DLK_REFUSED, /* the server answered with an error and did nothing. error->code EUNAVAIL
                      * (loading, busy, out of memory…): asked again with backoff; anything else
                      * (EACCES, ECONFLICT, EPROTO, EINVAL, ENOTSUP) is final. */
} dlk_reply;

/* One request. The engine owns it and keeps it until it is answered. */
struct dlk_ask {
    /* set by the engine */
    dlk_verb verb;
    dlk_key *key;    /* NULL for list and doctor */
    uint64_t number; /* the grant's; the owner on the wire is <uuid>:<number> */
    int64_t ttl_ms;
    int64_t
        deadline; /* boot clock, ns: unanswered by then, the backend answers UNKNOWN */
    const char *text;
    int64_t limit;

    /* set by the engine to the time of asking; a backend may move it back, never forward: the
     * lease that YES grants counts from here */
    int64_t since;

    /* set by the backend with the answer */
    dlk_reply reply;
    int64_t token;
    int64_t wait_ms;
    dlock_error *
        error; /* REFUSED always; NOT_SENT and UNKNOWN where more is known. Engine frees. */
    dlock_info *info; /* engine frees or hands on */

    /* backend's own while PENDING */
    dlk_list link;
    uint64_t sequence;
    int64_t scratch;
};

static inline dlk_reply dlk_ask_refuse(dlk_ask *ask, dlock_error *error)
{
    ask->error = error;
    return ask->reply = DLK_REFUSED;
}

#endif
