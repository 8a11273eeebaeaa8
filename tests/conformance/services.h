/* What can be done to a lock service under test, and to the way to it. One entry for each backend:
 * an ability is there, or the entry says why it can't be. */
#ifndef CONFORMANCE_SERVICES_H
#define CONFORMANCE_SERVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ability {
    CAN_ALL,       /* ends a list of them */
    CAN_CALL,      /* every function of dlock.h (of the binding) */
    CAN_PROCESSES, /* several processes use one service, and may be stopped or killed */
    CAN_SERVER,    /* a server process which may be frozen, killed and started again */
    CAN_WIRE,      /* a connection which may be cut, slow, or deaf */
    CAN_FORGET,    /* state may get lost while clients are connected */
    CAN_QUEUE,     /* the service keeps who waits, in order */
    CAN_CLOCK,     /* leases run on a clock that isn't this machine's boot clock */
    CAN_MESSAGES,  /* waiters are woken by messages, which may get lost */
    CAN_RIGHTS,    /* users, passwords, rights */
    CAN_EVICT,     /* may throw locks away when memory is short */
    CAN_COUNTER,   /* its counter of tokens can be set from outside */
    ABILITIES,
} ability;

typedef struct service {
    const char *backend, *layout, *class;
    const char *lacks[ABILITIES]; /* why not; NULL: it can */
    bool quorum;                  /* most of several servers */
    bool no_tokens;               /* grants can't fence */
    /* leases last longer there than was asked for, by as much at most */
    int64_t rounds_up_ms;

    /* CAN_WIRE: the first words of the requests that take, give back and renew; and of the one whose
     * answer says that the lock was free. */
    const char *take, *give, *keep, *grant;
    const char *framing; /* how the proxy takes its messages apart */

    int (*port)(void); /* where its server listens; NULL: world_redis() */

    const char *held;    /* CAN_COUNTER: where its lock "L" is, and … */
    const char *counter; /* … where that one's tokens are counted */

    /* CAN_SERVER. Nothing is answered any more when `freeze` returns. */
    void (*freeze)(void);
    void (*thaw)(void);
    void (*kill)(void);
    bool (*restart)(void); /* with nothing of what it knew, unless it never forgets */
    /* CAN_FORGET: all locks are gone, and what the service knew of tokens. */
    bool (*forget)(void);
    /* What is left there but counters of tokens, as text; "" for nothing. NULL: the list of locks
     * says it all. */
    const char *(*leftovers)(void);
} service;

/* The one of a grid that has no other, or NULL: columns.c's, tests/skeleton's. */
extern const service *const service_own;

/* Of the column that runs. */
const service *service_here(void);
/* Its URI with other users ("user:password@", or ""), by another name of this host, or at another
 * port; valid until the next call. */
const char *service_uri(const char *userinfo, const char *host, int port);

/* Where its server listens. */
int service_port(void);
/* Whether something lies unread in a socket of each of its servers, as when they are frozen. */
bool service_has_unread(void);

/* ---- The way to it (CAN_WIRE): a proxy, made at the first call ---- */

const char *wire_uri(void);
/* A line of tests/proxy's protocol; false after a failed check. */
bool wire(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How many plans for single requests were carried out so far. */
int wire_deeds(void);
/* Whether all that was asked so far has been answered by the server. */
bool wire_is_answered(void);
void wire_end(void);

#endif
