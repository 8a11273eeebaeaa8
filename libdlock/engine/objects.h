/* What a client's objects are to its engine (engine.h), which guards them with its mutex: who waits, holds,
 * ops, events, names. */
#ifndef DLK_ENGINE_OBJECTS_H
#define DLK_ENGINE_OBJECTS_H

#include "contract/backend.h"
#include "engine/group.h"
#include "engine/states.h"
#include "locks/core.h"
#include "util/thread.h"

typedef struct dlk_engine dlk_engine;

/* What a thread that has entered the engine gets back when it leaves. On its own stack: the mutex is
 * let go of inside of calls, so what lay in the engine would be the next one's. */
typedef struct dlk_stay {
    int cancel_state;
} dlk_stay;

/* A thread that waits in a call of ours. Lies on its stack: whoever wakes it touches it last when
 * it sets `word`, and the thread doesn't leave before that. */
typedef struct dlk_sleeper {
    dlk_list link;   /* in engine->sleepers while parked */
    dlk_list waking; /* in engine->waking between the decision to wake it and the wake */
    dlk_list mates;  /* in op->sleepers */
    dlk_futex word;  /* DLK_SLEEPS_… */
    uint32_t seat;   /* at the gongs */
    dlk_sleeper_state state;
    bool warned; /* it is next: it looks a moment before it sleeps */
} dlk_sleeper;

enum { DLK_SLEEPS_NOT, DLK_SLEEPS_ALONE, DLK_SLEEPS_TOGETHER, DLK_SLEEPS_LOOKING };

/* The engine answers many at a time, and wakes them with one system call: who parks while it has
 * taken over sleeps at a gong that 32 others hear, too, each by a bit of its own. Who parks one
 * after the other is answered so. Whoever wakes up there for nothing goes on to sleep alone. */
#define DLK_GONGS 8

/* An acquire or release somebody waits for: a thread in a call, or an operation. */
typedef struct dlk_waiter {
    dlk_wait wait;
    dlk_sleeper *sleeper; /* NULL: it hasn't gone to sleep yet */
    dlock_op *op;
} dlk_waiter;

/* Something to do when the mutex has been let go: it may enter other engines, or this one again,
 * but not wait. */
typedef struct dlk_job dlk_job;
struct dlk_job {
    dlk_list link; /* in engine->jobs */
    void (*run)(dlk_job *job);
    bool awaited; /* by a caller who waits for what it leads to, and drives */
};

/* Whoever wants to hear of a hold's changes of state: a multi-lock of its members'. */
typedef struct dlk_hold_watch dlk_hold_watch;
struct dlk_hold_watch {
    dlk_job job;
    bool queued;  /* the job is, and hasn't begun */
    bool revoked; /* the hold is asked for; whoever hears it clears it */
    void (*keep)(dlk_hold_watch *watch); /* mutex held: it is going to be queued */
};

/* Something for next_event to report; lies in its op or hold, or is a note of its own. */
typedef struct dlk_slot {
    dlk_list link; /* in engine->events while it has news */
    uint64_t tag;
    enum { DLK_SLOT_OP, DLK_SLOT_HOLD, DLK_SLOT_NOTE } kind;
    bool armed;
} dlk_slot;

struct dlock_hold {
    dlk_hold hold; /* `next` of one that its owner has freed is in engine->freed */
    dlk_engine *engine;
    struct dlk_hold_more *more; /* or NULL */
};

/* That of a group has members and no grant. */
static inline bool dlk_hold_is_group(const dlock_hold *hold)
{
    return !hold->hold.grant;
}

/* What few holds need, made when it is asked for: events, the owner's name, a ticket. */
typedef struct dlk_hold_more {
    dlock_hold *hold;
    dlk_slot slot;
    dlk_hold_watch *watch;
    int state_news; /* HELD or SUSPECT not fetched yet, as a dlock_what, or 0 */
    bool lost_news, revoke_news;
    bool listens; /* counted in engine->attended: it may be told that it is wanted */
    const dlk_group_hold_type *group; /* of the hold of one, and the group's name */
    const char *group_name;
    char *ticket; /* of an exported one; owned */
    char owner[DLK_UUID_SIZE + 21];
} dlk_hold_more;

typedef enum dlk_op_kind {
    DLK_OP_WAIT,
    DLK_OP_QUERY,
    DLK_OP_CLOSE,
    DLK_OP_COMPOUND,
    DLK_OP_DONE
} dlk_op_kind;

/* What goes on behind an op that is made of others. */
typedef struct dlk_compound {
    dlk_engine *engine; /* referenced */
    dlock_op *op;       /* what the caller has */
} dlk_compound;

/* Cancelled, or the client closes: it tells the caller (dlk_compound_end_early). Mutex held. */
typedef void dlk_compound_end(dlk_engine *engine, dlock_op *op, dlock_err code);

struct dlock_op {
    dlk_engine *engine; /* NULL: a static one that failed */
    dlk_op_kind kind;
    int refs; /* the user's, and the engine's while something of it is under way */
    union {
        dlk_waiter waiter;
        dlk_query query;
        struct {
            dlk_compound *whole;
            dlk_compound_end *end;
        } compound;
    } u;
    dlk_list link;     /* engine->closers, or engine->compounds */
    dlk_list sleepers; /* dlk_sleeper.mates */
    dlk_slot slot;
    char *text;       /* what the request needs to live as long as it */
    dlk_job *then;    /* to be run when it is over, or NULL … */
    bool then_placed; /* … or when it has its place in the service's line */

    bool over;
    dlock_err code;
    dlock_error *error;
    dlock_hold *hold;
    dlock_info *info;

    _Atomic bool cancelled; /* somebody asked */
    dlock_op *next_cancelled;
};

/* What came of an op that acquires. */
typedef struct dlk_op_outcome {
    dlock_err code;
    dlock_hold *hold;
    dlock_error *error; /* owned */
} dlk_op_outcome;

/* A note: a log line or a connection's change. */
typedef struct dlk_note {
    dlk_slot slot;
    dlock_what what;
    dlock_level level;
    dlock_err code;
    char *text;
} dlk_note;

struct dlock_event {
    dlock_what what;
    uint64_t tag;
    dlock_err code;
    int64_t token;
    char *text;
};

/* A grant and its first hold in one piece: most have no other. */
typedef struct dlk_grant_box {
    dlk_grant grant;
    dlock_hold hold;
} dlk_grant_box;

/* A name with what the engine needs around it. */
typedef struct dlk_engine_name dlk_engine_name;
struct dlk_engine_name {
    dlk_name name;
    dlk_engine_name
        *news; /* the next one in dlk_news, the last one itself; NULL: it isn't there */
    char text[];
};

/* Names that may be free, in the order in which that was told. */
typedef struct dlk_news {
    dlk_engine_name *first, *last;
} dlk_news;

#endif
