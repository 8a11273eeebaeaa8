/*
 * One lock on a Redis and the clients that want it: how it is handed over (as it is: without KEEP),
 * and how it is kept (-DKEEP). README.md says what each part stands for, what is left out, and which
 * mistakes (-DWRONG_…) it has to find.
 *
 * A client is one process here; its threads are numbers, since all of them want the same. A request
 * and its answer are two steps, with anything in between. Whatever goes wrong is paid for from a
 * budget, so every run ends, and who hasn't been served by then never is.
 */
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef THREADS
#define THREADS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* how often each thread wants the lock */
#endif
#ifndef RUN
#define RUN 1 /* so many grants go to one client in a row while another is in the line */
#endif
#define TTL   2 /* in ticks of the clock */
#define CLAIM 1 /* so long the lock is kept for who was told that it is its turn */
#define BLOCK 2 /* tokens that one who keeps gets at a time */

/* The budgets: how often each may happen in one run. */
#ifndef TICKS
#define TICKS 0 /* time passes though somebody has something to do */
#endif
#ifndef CUTS
#define CUTS 0 /* a connection is cut: what is on its way is lost */
#endif
#ifndef LOSSES
#define LOSSES 0 /* a message is lost */
#endif
#ifndef STOPS
#define STOPS 0 /* a client stands still */
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef WIPES
#define WIPES 0 /* the server forgets all it has */
#endif
#ifndef CANCELS
#define CANCELS 0 /* one who waits wants no more */
#endif
#ifndef ENDS
#define ENDS 0 /* a grant has been kept for as long as it may be */
#endif

#define NEW_OWNER(c) ((c) + CLIENTS * count[c] + 1) /* each only once; 0 is nobody */
#define CLIENT_OF(owner) (((owner) - 1) % CLIENTS)
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

#define SERVED(c) (todo[c] + want[c] == 0 && !inside[c])
#define CONCERNED(c) (!SERVED(c) || grant[c])
#if CLIENTS == 3
#define served (SERVED(0) && SERVED(1) && SERVED(2))
#else
#define served (SERVED(0) && SERVED(1))
#endif

mtype = { ACQUIRE, RENEW, RELEASE };
mtype = { YES, HELD, NOT_OURS, DONE, PLACED, PASSED }; /* the last three answer a release */
mtype = { TURN, ASKED };                               /* messages to a client */
mtype = { NONE, TO_SEND, SENT, ALONG, BEHIND };        /* what a request has come to */
mtype = { ALIVE, STOPPED, STUCK, DEAD };               /* STUCK: until nothing else goes on */

/* ---- the wires ---- */

chan up[CLIENTS] = [2] of { mtype, byte, byte, bit }; /* request, owner, our next, goes that first */
/* answer, owner, tokens from, to, others are in the line */
chan down[CLIENTS] = [2] of { mtype, byte, byte, byte, bit };
chan news[CLIENTS] = [4] of { mtype, byte }; /* message, owner */

/* ---- the server ---- */

byte holder;                      /* an owner */
byte left;                        /* of its lease */
byte counter;                     /* the last token */
chan line = [CLIENTS] of { byte } /* owners, one of a client at most */

/* ---- the clients ---- */

mtype life[CLIENTS];
byte count[CLIENTS];   /* owners it has been */
byte todo[CLIENTS];    /* so often a thread will want the lock */
byte want[CLIENTS];    /* so many wait now */
bit inside[CLIENTS];   /* a thread has it */
byte attempt[CLIENTS]; /* an owner */
mtype tried[CLIENTS];
bit stale[CLIENTS];  /* told that it is its turn while it was asking */
bit look[CLIENTS];   /* it is time to ask again by itself */
byte since[CLIENTS]; /* of the request under way: what is left of TTL since it was sent */
byte grant[CLIENTS]; /* an owner */
byte valid[CLIENTS]; /* so long it believes in it */
byte used[CLIENTS], last[CLIENTS]; /* tokens: the one handed out, and the end of the block */
byte streak[CLIENTS];   /* grants in a row */
bit asked[CLIENTS];  /* it knows that another waits */
mtype renewal[CLIENTS];
byte owed[CLIENTS]; /* an owner that is given back */
mtype giving[CLIENTS];

/* ---- what nobody of them knows ---- */

byte top;             /* the largest token that a thread was given */
bit forgotten;        /* the server has forgotten */
bit faults;           /* something went wrong, if only that time passed */
byte passed[CLIENTS]; /* grants to others since it is in the line */
bit looked[CLIENTS];  /* has asked by itself since the lock moved last */
byte ticks = TICKS, cuts = CUTS, losses = LOSSES, stops = STOPS, deaths = DEATHS, wipes = WIPES,
     cancels = CANCELS, ends = ENDS;

/* Asked whether a message is in a channel, Spin's verifier answers with its place, from 1 on, and its simulator
 * with 1; as a bit the place 2 would be no. So each such question ends in "!= 0". */

inline moved()
{
    d = 0;
    do
    :: d < CLIENTS -> looked[d] = 0; d++
    :: else -> break
    od
}

/* A thread of the client is given the lock. That is where all is checked. */
inline hand_out(c)
{
    assert(valid[c] > 0 && used[c] < last[c]);
#ifndef WRONG_TOKEN_SHARED
    used[c]++;
#else
    used[c] = MAX(used[c], last[c] - BLOCK + 1);
#endif
    assert(grant[c] != holder || used[c] > top); /* tokens rise, as the resource sees it */
    top = MAX(top, used[c]);
    want[c]--;
    inside[c] = 1;
    passed[c] = 0;
    moved();
    d = 0;
    do
    :: d < CLIENTS ->
        assert(d == c || !inside[d] || valid[d] == 0 || forgotten); /* exclusion */
        waits = (line??[eval(attempt[d])]) != 0;
        if
        :: d != c && waits ->
            passed[d]++;
#ifndef KEEP
            assert(faults || passed[d] <= (CLIENTS - 1) * RUN);
#endif
        :: else
        fi;
        d++
    :: else -> break
    od;
    waits = 0
}

#include "server.pml"
#include "client.pml"
#include "world.pml"
