/*
 * A connection to a server: looks the host up, dials, greets, is ready; after any failure it rests
 * for a jittered while and begins again, until it is stopped. What is said on it, and what it is for,
 * are in its operations. Everything happens under the client's mutex but the two steps of the
 * driver's sleep, push and pull, which touch only what arm has frozen.
 */
#ifndef DLK_NET_LINK_H
#define DLK_NET_LINK_H

#include "net/address.h"
#include "net/backoff.h"
#include "net/dial.h"
#include "net/kicks.h"
#include "net/polls.h"
#include "net/stream.h"
#include "net/tls.h"
#include "util/tell.h"
#include "util/whys.h"

#include <dlock/dlock.h>

typedef struct dlk_link dlk_link;

typedef enum dlk_link_phase {
    DLK_LINK_OFF,
    DLK_LINK_LOOKUP,
    DLK_LINK_DIAL,
    DLK_LINK_GREETING,
    DLK_LINK_READY,
    DLK_LINK_RESTING, /* until `retry_at` */
} dlk_link_phase;

/* What differs between links. */
typedef struct dlk_link_ops {
    /* At the beginning of a try: finds out where to dial, then calls dlk_link_dial or _drop; may do
     * so at once. NULL: the owner knows it. */
    void (*seek)(dlk_link *link, int64_t now);
    /* Appends the greeting to the stream. NULL, or why it can't be. Where nothing is to be said it
     * calls dlk_link_greeted. */
    dlock_error *(*greet)(dlk_link *link, int64_t now);
    /* Takes what has come, in the greeting or after it; calls dlk_link_greeted when that is over.
     * An error ends the connection: what came makes no sense. Whatever it calls may end the
     * connection as well, see dlk_link_is_connected. */
    dlock_error *(*feed)(dlk_link *link, const char *data, size_t size, int64_t now);
    void (*ready)(dlk_link *link, int64_t now);
    /* The connection, or a try to make it, has failed. */
    void (*down)(dlk_link *link, const dlock_error *error, int64_t now);
    /* Whether nothing does harm that is carried out when nobody waits for it any more, so that the
     * connection may end in order: see net/socket.h. NULL: there never is any harm. */
    bool (*harmless)(const dlk_link *link);
    /* For the log. */
    void (*warn)(dlk_link *link, const char *text);
} dlk_link_ops;

/* What all links of a backend have in common; belongs to it. */
typedef struct dlk_link_common {
    const char *service; /* "redis": messages begin with it */
    const char *plain;   /* "redis://": the URIs of servers that don't expect TLS … */
    const char *hint;    /* … and what is said where one may expect it */
    dlk_tls *tls;        /* below all of them, or NULL */
    int64_t connect_ns;  /* for lookup, dial and greeting together */
    dlk_backoff backoff;
    dlk_kicks *kicks;
    dlk_rand *rand;
    /* counted up: bytes, and changes of what a poller would wait for */
    int64_t *bytes_sent, *bytes_received;
    uint64_t *wiring;
    dlk_whys *whys; /* told what is tried at which address, and why it fails; or NULL */
    dlk_tell *tell; /* set by dlk_link_init, where nobody hears */
    bool warned_blind;
} dlk_link_common;

struct dlk_link {
    const dlk_link_ops *ops;
    dlk_link_common *common;
    dlk_link_phase phase;
    const char *host, *peer; /* dlk_link_aim */
    uint16_t port;
    dlk_addresses to; /* where to dial; empty: look the host up each time */
    dlk_lookup *lookup;
    dlk_dial dial;
    dlk_stream stream;
    dlk_backoff backoff;
    int64_t attempt_until;
    int64_t retry_at;
    size_t step;       /* how many replies to the greeting have been taken */
    dlock_error *doom; /* set by the owner: end the connection after this reply */
    bool frozen;       /* the stream takes part in the driver's sleep */
    int polled;        /* its number there, since arm; -1: none */
    int64_t counted;   /* bytes sent that the statistics know of */
};

/* What settings say of them. */
void dlk_link_settings(dlk_link_common *common, const dlk_settings *settings);

void dlk_link_init(dlk_link *link, dlk_link_common *common, const dlk_link_ops *ops);
void dlk_link_free(dlk_link *link);
/* Where it leads from the next try on: a host, and how messages call it. Both stay the caller's. */
void dlk_link_aim(dlk_link *link, const char *host, uint16_t port, const char *peer);

/* Begins a try. */
void dlk_link_start(dlk_link *link, int64_t now);
/* Goes on with it, when `seek` has found where to. */
void dlk_link_dial(dlk_link *link, int64_t now);
/* The greeting is over. */
void dlk_link_greeted(dlk_link *link, int64_t now);
/* Ends it; nothing more comes from it. Without effect when it is off. */
void dlk_link_stop(dlk_link *link);
/* Ends it for the reason @p error, which it takes over, and tries again later. */
void dlk_link_drop(dlk_link *link, dlock_error *error, int64_t now);
/* link_why.c: what common->whys is told. What is under way at the present address, or has come of it; … */
void dlk_link_note(dlk_link *link, dlock_err code, const char *reason);
/* … that its addresses are dialled, or, of the first @p count of them, how that has failed; … */
void dlk_link_note_dial(dlk_link *link, size_t count);
/* … that nothing is wrong with it. */
void dlk_link_forget(dlk_link *link);
/* Time-outs and the next try. Returns when to call it again. */
int64_t dlk_link_tick(dlk_link *link, int64_t now);
/* Writes what is still waiting, as far as that needs no waiting: before the end, without a driver. */
void dlk_link_last_words(dlk_link *link);

/* The driver's steps. Arm says what to poll; push writes, and says what to poll for then; pull reads
 * what has come. Only arm and process have the mutex. */
void dlk_link_arm(dlk_link *link, dlk_polls *polls);
void dlk_link_push(dlk_link *link, dlk_polls *polls);
void dlk_link_pull(dlk_link *link, dlk_polls *polls);
void dlk_link_process(dlk_link *link, int64_t now);

/* Is it finding out where to? */
static inline bool dlk_link_seeks(const dlk_link *link)
{
    return link->phase == DLK_LINK_LOOKUP && !link->lookup;
}

/* Is it on its way to be ready? */
static inline bool dlk_link_is_coming(const dlk_link *link)
{
    return link->phase == DLK_LINK_LOOKUP || link->phase == DLK_LINK_DIAL ||
           link->phase == DLK_LINK_GREETING;
}

static inline bool dlk_link_is_connected(const dlk_link *link)
{
    return link->phase == DLK_LINK_GREETING || link->phase == DLK_LINK_READY;
}

/* For an examination of a link that is ready: finds, as "transport", how safe it is from those on the way;
 * @p plain is what is said of one without TLS to another machine. */
void dlk_link_judge(const dlk_link *link, const char *plain, dlock_info *info);

/* The hint when this, which has come, is how a server for TLS answers those without it; else "". */
const char *dlk_link_hint(const dlk_link *link, const char *data);

#endif
