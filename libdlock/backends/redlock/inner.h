/*
 * What the files of this backend share.
 *
 * A Redlock is a backend made of backends: each node is a Redis, or for memlock:// a memcached, of
 * its own, driven through contract/backend.h. What is asked of us becomes a round: one request to each node, all at once.
 * A round has its verdict as soon as it is certain, so the slowest nodes are waited for only where
 * they decide; what they say later still counts for what is known of the lock.
 *
 *     round   one request and what the nodes answer. Lives until the last of them has.
 *     claim   on which nodes the key of one grant may lie. Lives until it lies nowhere: so what is
 *             given up is given back everywhere, also where nobody answered.
 *
 * A lease counts from before the first request of its round was sent (dlk_ask.since), so it is
 * over here before it is on the slowest node that granted it.
 *
 * An attempt that fails is undone by us and may be repeated under the same number. The release
 * that undoes it and the acquire that repeats it are carried out in this order, since they go over
 * one connection. Where that broke between them, a release may come late: then the repetition has
 * a number of its own, which that can't hit.
 */
#ifndef DLK_BACKENDS_REDLOCK_INNER_H
#define DLK_BACKENDS_REDLOCK_INNER_H

#include "contract/backend.h"

#include <stdatomic.h>

#define DLK_REDLOCK_MIN 3
#define DLK_REDLOCK_MAX 15

typedef uint16_t dlk_nodes; /* a set of them, a bit each */

static inline int dlk_nodes_count(dlk_nodes set)
{
    return __builtin_popcount(set);
}

static inline dlk_nodes dlk_node_bit(int index)
{
    return (dlk_nodes)(1u << index);
}

typedef struct dlk_redlock dlk_redlock;

typedef struct dlk_redlock_node {
    dlk_host host; /* whom its backend tells */
    dlk_redlock *redlock;
    dlk_backend *backend;
    char *peer;            /* "host:port", for messages */
    bool up, down;         /* neither: its first try is under way */
    bool away;             /* down, and a try since has failed, too */
    dlock_error *why_down; /* while it is down */
} dlk_redlock_node;

/* Of a lock's name; kept by its dlk_key, by claims and by rounds. */
typedef struct dlk_redlock_key {
    int refs;
    char *name;
    dlk_key nodes[]; /* what it is to each node */
} dlk_redlock_key;

typedef struct dlk_redlock_claim {
    struct dlk_redlock_claim *next; /* of those whose numbers fall together */
    dlk_redlock_key *key;           /* referenced */
    uint64_t number;                /* the grant's; 0: it goes by another claim now */
    uint64_t wire;                  /* what the nodes know it by */
    dlk_nodes there;                /* where the key may lie … */
    dlk_nodes late; /* … and where an unanswered request may yet be carried out */
    /* Where an acquire was granted, or got no answer, and none since says that nothing lies there; those
     * under way are counted below. */
    dlk_nodes owed;
    bool giving;             /* to lie nowhere any more */
    unsigned char confirmed; /* so many releases in a row were answered everywhere */
    int rounds;              /* that are about it … */
    int releases;            /* … and those of them that give it back */
    unsigned char taking[DLK_REDLOCK_MAX];  /* acquires under way at each node … */
    unsigned char letting[DLK_REDLOCK_MAX]; /* … and releases */
    int64_t overlong[DLK_REDLOCK_MAX];      /* each node's, of its last renewal */
    int64_t token;
    int64_t until; /* by then all of its leases are over */
    /* Giving: when to try again where no release is under way. 0: a node is back. */
    int64_t retry_at;
} dlk_redlock_claim;

typedef struct dlk_redlock_round {
    /* in redlock->rounds while `parent` waits, else in ->loose or ->spare */
    dlk_list link;
    dlk_redlock *redlock;
    dlk_redlock_key *key;     /* referenced; NULL for list and doctor */
    dlk_redlock_claim *claim; /* or NULL */
    dlk_ask *parent;          /* who waits for the verdict; NULL: nobody (any more) */
    dlk_verb verb;            /* what the nodes are asked */
    bool mends;    /* an acquire that puts the key back where a held lock misses it */
    bool starting; /* the nodes are being asked: no verdict yet */
    int64_t started;
    int64_t decide_at; /* when those who are silent don't count any more */
    int64_t ttl_ms;
    int64_t token, clock_us;
    char *text; /* what is asked for, a copy: it may be asked for once more */
    char *data; /* what the hold is to show, or NULL */
    dlk_nodes asked, pending;
    dlk_nodes yes, no, bad;     /* bad: no answer to the question */
    dlk_nodes telling, written; /* the token that was decided */
    bool agreed;                /* … by all that have granted it, so it is written */
    dlk_ask asks[];             /* by node */
} dlk_redlock_round;

/* Numbers of our own, which the engine, that counts from 1, will never give; they have fewer digits than
 * those that keep (DLK_KEEPS), of which the nodes would give a block of tokens. */
#define DLK_REDLOCK_ALIASES (UINT64_C(1) << 59)

#define DLK_REDLOCK_BUCKETS 1024
#define DLK_REDLOCK_SPARE   32

struct dlk_redlock {
    dlk_backend base;       /* first: a dlk_backend * is a dlk_redlock * */
    dlk_settings *settings; /* the nodes' */
    int64_t timeout_ns, retry_ms;
    bool fencing;
    int count, quorum;
    dlk_nodes all;
    dlk_redlock_node nodes[DLK_REDLOCK_MAX];

    bool up; /* as the host was told */
    /* most nodes can be reached: when the host is told, whatever the others do */
    int64_t up_at;
    bool stopped;
    dlk_list rounds, loose, spare;
    int spare_count;
    dlk_redlock_claim *claims[DLK_REDLOCK_BUCKETS];
    size_t claim_count;
    uint64_t last_alias;
    int64_t ahead_us; /* of our clock, the nodes': verdict.c; 0: not known */
    /* Up to it, a number that no claim has may have requests under way. */
    uint64_t last_late;
    int64_t look_at;  /* when to read what nobody waits for */
    int64_t owed_at;  /* when to look after the claims that are given back */
    int64_t sweep_at; /* when the first claim may have come to its end */
    dlk_ask *asking;  /* is being asked: its answer isn't told, but left in it */
    bool unsent;      /* requests that nobody is about to write */

    bool armed;      /* a driver sleeps */
    dlk_polls polls; /* of a look without one */
};

/* How messages call it: the same code serves redlock:// and memlock://. */
static inline const char *dlk_redlock_name(const dlk_redlock *redlock)
{
    return redlock->base.type->schemes[0];
}

/* ---- backend.c ---- */
/* Writes what nobody else is about to write, and reads what there is. */
void dlk_redlock_look(dlk_redlock *redlock, int64_t now);
/* The same, by the driver if there is one. */
void dlk_redlock_write_soon(dlk_redlock *redlock, int64_t now);

/* ---- node.c ---- */
void dlk_redlock_node_init(dlk_redlock *redlock, int index);
dlk_nodes dlk_redlock_up(const dlk_redlock *redlock);
/* How many of them can't be used; those that are tried for the first time don't count. */
int dlk_redlock_count_down(const dlk_redlock *redlock);
/* Those that were lost, or never had, and couldn't be reached when that was tried again. */
dlk_nodes dlk_redlock_away(const dlk_redlock *redlock);
/* Tells the host that most nodes can be reached, when it is time for that; answers when to be
 * called again. */
int64_t dlk_redlock_nodes_tick(dlk_redlock *redlock, int64_t now);
/* Those of which it isn't known yet whether they can be reached. */
dlk_nodes dlk_redlock_trying(const dlk_redlock *redlock);
/* What the nodes have counted, added up for the client's statistics. */
void dlk_redlock_count(dlk_redlock *redlock);

/* ---- keys.c ---- */
dlock_err dlk_redlock_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err);
void dlk_redlock_key_close(dlk_backend *backend, dlk_key *key);
void dlk_redlock_key_unref(dlk_redlock *redlock, dlk_redlock_key *key);

/* ---- claim.c ---- */
/* The claim of this grant, or NULL. */
dlk_redlock_claim *dlk_claim_find(dlk_redlock *redlock, uint64_t number);
/* The one to acquire with; NULL without memory. */
dlk_redlock_claim *dlk_claim_get(dlk_redlock *redlock, dlk_redlock_key *key,
                                 uint64_t number);
/* Its leases may last so much longer. */
void dlk_claim_extend(dlk_redlock *redlock, dlk_redlock_claim *claim, int64_t ttl_ms,
                      int64_t now);
/* A release of it is over; @p everywhere: answered by all nodes where it may lie. */
void dlk_claim_given(dlk_redlock *redlock, dlk_redlock_claim *claim, bool everywhere,
                     int64_t now);
/* It couldn't be given back just now. */
void dlk_claim_put_off(dlk_redlock *redlock, dlk_redlock_claim *claim, int64_t now);
/* It lies nowhere, and if nothing is about it either it is forgotten. */
void dlk_claim_forget(dlk_redlock *redlock, dlk_redlock_claim *claim);
/* A round that was about it has ended. */
void dlk_claim_let_go(dlk_redlock *redlock, dlk_redlock_claim *claim);
/* What the nodes know the grant of our owner @p owner by, and the grant that goes by it there; 0:
 * by what it says, or it isn't ours. */
uint64_t dlk_claim_wire_of(const dlk_redlock *redlock, const char *owner);
uint64_t dlk_claim_number_of(const dlk_redlock *redlock, const char *owner);
/* A node can be reached again: what was never confirmed by all of its nodes is given back there. */
void dlk_claims_node_back(dlk_redlock *redlock, int index);
/* Gives back what is due; answers when to be called again. */
int64_t dlk_claims_tick(dlk_redlock *redlock, int64_t now);
/* What is given up and may lie on nodes yet: on so many that nobody else can have it, or on some
 * from which it can still be got. */
dlk_unsettled dlk_claims_unsettled(const dlk_redlock *redlock);
void dlk_claims_free(dlk_redlock *redlock);

/* ---- round.c ---- */
void dlk_redlock_ask(dlk_backend *backend, dlk_ask *ask, int64_t now);
/* Gives the claim back on all nodes where it may lie, and goes on until it lies nowhere. */
void dlk_round_undo(dlk_redlock *redlock, dlk_redlock_claim *claim, int64_t now);
/* On these of them. The claim may be gone behind it. */
void dlk_round_undo_at(dlk_redlock *redlock, dlk_redlock_claim *claim, dlk_nodes nodes,
                       int64_t now);
/* Asks one node of a round, that has answered before if it was asked. */
void dlk_round_ask_node(dlk_redlock_round *round, int index, dlk_verb verb, int64_t now);
/* Puts the key of a held lock onto a node that misses it. */
void dlk_round_mend(dlk_redlock_round *round, int index, int64_t now);
/* The verdict for who waits. Takes over @p error. */
void dlk_round_answer(dlk_redlock_round *round, dlk_reply reply, dlock_error *error);
/* It is known of a node now whether it can be reached: those whose requests couldn't be sent to it
 * ask again. */
void dlk_rounds_node_known(dlk_redlock *redlock, int index, int64_t now);
/* A node has answered. */
void dlk_redlock_answered(dlk_redlock *redlock, int index, dlk_ask *ask);
/* Those who have waited long enough; answers when to be called again. */
int64_t dlk_rounds_tick(dlk_redlock *redlock, int64_t now);
void dlk_rounds_free(dlk_redlock *redlock);

/* ---- verdict.c ---- */
/* Is it certain what the answer is? Then it is given. */
void dlk_round_settle(dlk_redlock_round *round, int64_t now);

/* ---- quorum.c: what too few answers come to ---- */
/* @p fine: those of which that is so. */
dlock_error *dlk_round_error(const dlk_redlock_round *round, dlk_nodes fine,
                             const char *what);
dlock_error *dlk_redlock_down_error(const dlk_redlock *redlock);

/* ---- reports.c ---- */
/* Puts the nodes' reports together; false without memory. */
bool dlk_report_inspect(dlk_redlock_round *round);
bool dlk_report_list(dlk_redlock_round *round);
bool dlk_report_doctor(dlk_redlock_round *round);

#endif
