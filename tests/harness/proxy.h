/* A TCP proxy on loopback between a test and a server, which loses what the test wants lost. One
 * thread moves the bytes; it takes RESP apart, so that it can pick out one request or its reply.
 * What a function has set is in force for every byte that comes after it has returned. */
#ifndef HARNESS_PROXY_H
#define HARNESS_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef enum proxy_mode {
    PROXY_PASS,
    /* Accepts, and swallows what either side says. Connections that lost something that way are
     * cut when the proxy passes again. */
    PROXY_HOLE,
    /* The same, but requests arrive: only the answers are swallowed. */
    PROXY_DEAF,
    /* What comes from the connections that exist keeps for later, new ones pass. All of it
     * arrives when the proxy passes again, also from clients that have hung up meanwhile. */
    PROXY_STALL,
    /* Requests pass, answers are kept; all of them arrive when the proxy passes again. */
    PROXY_LATE,
} proxy_mode;

/* What happens to one request. */
typedef enum proxy_deed {
    PROXY_LOSE_REQUEST, /* not forwarded, and the connection is cut */
    PROXY_CUT_BEHIND,   /* forwarded, and the client is cut off at once */
    PROXY_LOSE_REPLY, /* done by the server, then the connection is cut instead of the reply */
    PROXY_EAT_REPLY, /* done by the server, and nothing is ever heard on that connection */
} proxy_deed;

#define PROXY_MAX 64

typedef struct proxy {
    int port, target; /* of ours, of the server */
    int listener, wake;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards everything below that isn't atomic */
    struct proxy_pair *pairs[PROXY_MAX];
    proxy_mode mode;
    proxy_deed deed;
    int countdown; /* scripts to come until the deed, 0 = none is planned */
    bool ending;
    _Atomic int deeds, scripts, accepted;
} proxy;

/* False after a failed check. */
bool proxy_start(proxy *p, int target_port);
void proxy_stop(proxy *p);

void proxy_set(proxy *p, proxy_mode mode);
/* Ends every connection, without a word. */
void proxy_cut(proxy *p);
/* Plans @p deed for the @p number-th script (EVALSHA or EVAL, from 1) that comes from now on;
 * p->deeds counts those that were done. 0: nothing any more. */
void proxy_plan(proxy *p, proxy_deed deed, int number);

#endif
