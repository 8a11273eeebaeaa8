/* What a user of the API may rely on, as simple as it can be said: who has which lock by which
 * grant. It knows only what the calls answered, never what is inside. */
#ifndef TESTS_FUZZ_API_MODEL_H
#define TESTS_FUZZ_API_MODEL_H

#include "fuzz.h"

#include <dlock/dlock.h>

enum { CLIENTS = 2, NAMES = 3, LOCKS = 8, HOLDS = 12, OPS = 8, GRANTS = 32, THREADS = 3 };

/* How a lock's handle differs from the default one. */
typedef enum variant {
    PLAIN,
    BY_NOBODY,     /* lock.owner=none */
    BY_THREAD,     /* lock.owner=thread */
    NOT_REENTRANT, /* lock.reentrant=false */
    LATER,         /* lock.release=async */
    FED,           /* lock.renew=fed */
    OTHER,         /* something the server sees differs: lock.permits */
    VARIANTS,
} variant;

typedef struct grant {
    int client, name, thread; /* thread -1: nobody can enter it again */
    variant how;
    int64_t token;
    int holds;   /* not released */
    bool broken; /* an operator took it, or may have … */
    bool gone;   /* … and has */
} grant;

typedef struct lock {
    dlock_lock *lock;
    int client, name;
    variant how;
} lock;

typedef struct hold {
    dlock_hold *hold;
    grant *of; /* worth nothing once it is released */
    int64_t token;
    bool released; /* or its client is closed */
    uint64_t tag;  /* of its events; 0: not asked for */
} hold;

typedef struct op {
    dlock_op *op;
    int client, name; /* name -1: no acquire */
    int thread;       /* for whom */
    variant how;
    bool over, untaken; /* finished; with a hold that is left in it */
    bool may_be_broken; /* the lock was broken while it was under way */
    dlock_err result;
    uint64_t tag;
} op;

typedef struct model {
    lock locks[LOCKS];
    hold holds[HOLDS];
    op ops[OPS];
    grant grants[GRANTS];
    int64_t last_token[NAMES];
    bool closed[CLIENTS];
} model;

/* Two handles of one client that the server would see differently. */
bool model_conflict(variant a, variant b);
/* The grant that holds the name, if that is certain; *certain is false when somebody may have it
 * of whom nothing is known yet. */
grant *model_holder(model *world, int name, bool *certain);
/* A hold that was got by the client for the thread (-1: nobody); which grant it is of, and whether
 * that could be. NULL: there are too many grants to remember. */
grant *model_got(model *world, const op *by, int64_t token);
/* What an acquire with this handle must answer. False: it may be anything but a second holder. */
bool model_acquire(model *world, const lock *with, int thread, int64_t wait_ms,
                   dlock_err *ret);
/* The holds of all grants must say what they are. */
void model_check(const model *world);

#endif
