/*
 * Whose keys and scripts we share. A layout is whose; a form is how one kind of lock (of a
 * read/write lock: one side) lies on the server in it.
 *
 * Every script of every form is called alike:
 *     KEYS  1 the lock, then the form's derived keys, as many as the script needs
 *     ARGV  1 channel ('': tell nobody), 2 owner "<uuid>:<number>" (break: whom, '': whoever),
 *           3 the lease in ms, of a form with tokens 4 redis.token_keep_ms (of most renewals 0),
 *           then what the form adds, of renew at last dlk_ask.most_ms and .overlong, of inspect the
 *           beginning of clients' keys (client_of.lua)
 * and answers alike:
 *     acquire, import                the token as text ("0": it has none): the lock is ours, and
 *                                    this call has made it last for the lease from now on. A
 *                                    number: somebody else's; ms after which to ask again at the
 *                                    latest, -1 unknown
 *     renew, verify, release, break  0 not ours, 1 done, 2 done, but nobody could be told. Of
 *                                    renew 1 and more: it lasts as after an acquire; a
 *                                    larger one: longer than it can be (dlk_ask.overlong)
 *     inspect                        held, kind, waiters of other clients in the line, permits,
 *                                    how many of them are free, data (-1 and '': no such thing),
 *                                    the line in its order, owner, client and since when in us of
 *                                    each who waits, then owner, token, ms left, count and client
 *                                    of each holder
 */
#ifndef DLK_BACKENDS_REDIS_LAYOUT_H
#define DLK_BACKENDS_REDIS_LAYOUT_H

#include "backends/redis/scripts.h"
#include "backends/redis/settings.h"
#include "backends/redis/wire.h"
#include "contract/backend.h"

/* The folders of scripts/, in their order. */
typedef enum dlk_redis_form_id {
    DLK_FORM_MUTEX, /* Redisson's */
    DLK_FORM_STRING,
    DLK_FORM_PERMITS,   /* Redisson's semaphore with leases */
    DLK_FORM_SEMAPHORE, /* and without */
    DLK_FORM_FAIR,
    DLK_FORM_READ, /* the sides of Redisson's read/write lock */
    DLK_FORM_WRITE,
    DLK_FORM_HANDOVER, /* the mutex that the server hands over */
    DLK_FORM_ELECTION,
    DLK_FORM_TIMESTAMP,
    DLK_FORM_RUEIDIS,
    DLK_FORM_REDLOCK, /* one node's part of a Redlock */
    DLK_FORM_CONDITION,
    DLK_FORM_COUNT,
} dlk_redis_form_id;

#define DLK_REDIS_DERIVED 4 /* at most so many derived keys */
#define DLK_REDIS_PERMITS                                                                \
    ":timeout"           /* behind a semaphore's name: its permits that are taken */
#define DLK_REDIS_MORE 6 /* at most so many arguments of a form's own */
/* What is put around a name to derive another one, with braces and colons, has at most so many. */
#define DLK_REDIS_PART_MAX 32

struct dlk_redis;

/* The arguments that a form adds to its scripts' (asks.c): always form->more_count. What @p args
 * point to may lie in @p room. */
typedef void dlk_redis_more(const struct dlk_redis *redis, const dlk_ask *ask,
                            dlk_arg *args, char room[DLK_REDIS_MORE][64]);

typedef struct dlk_redis_form {
    dlk_redis_form_id id;
    dlock_kind kind; /* the family */
    bool shared;     /* the read side */
    bool fair;       /* for lock.fair=true */
    bool plain;      /* for redis.semaphore=plain */
    /* tells of a release always; else only where redis.notify asks for it */
    bool notifies;
    bool queues;     /* dlk_key.queues; each contender has a channel of its own */
    bool hands_over; /* the server decides who is next: handover.h */
    bool signals;    /* a condition's: nobody is granted anything until a signal */
    bool tokens;     /* grants have one, from a counter */
    bool by_clocks; /* those of all who use it decide who has it: it can't be relied on */
    bool slots; /* several keys make the lock, after the derived ones: rueidislock's */
    int import; /* the script that takes one over from another client; 0: that can't be */
    const char *channel; /* the beginning of the name where a release is told */
    /* What is put before the name (p:{N}), or with ':' at its beginning behind it ({N}:s). */
    const char *derived[DLK_REDIS_DERIVED];
    const char *beside; /* the same, of keys that it does without, or NULL */
    /* How many KEYS each script gets; a renew that looks after the counter at least two. */
    unsigned char keys[DLK_SCRIPT_COUNT];
    bool sets; /* a plain SET NX PX says of a free lock all that its acquire does */
    bool renews_alone; /* its renew looks at none of the arguments that it adds */
    size_t more_count;
} dlk_redis_form;

typedef struct dlk_redis_layout {
    const char *name;
    const char *type; /* of a lock's key, as SCAN calls it; NULL: names can't be listed */
    bool prefix_tells;           /* nothing but its name says that a key is a lock */
    int list;                    /* the script that knows its locks */
    const dlk_redis_form *forms; /* the first is the mutex; … */
    size_t form_count;
    bool node; /* of a Redlock: the client's, whatever a lock's settings say */
} dlk_redis_layout;

const dlk_redis_layout *dlk_redis_layout_of(const dlk_settings *settings);
/* That of a Redlock's node. */
const dlk_redis_layout *dlk_redis_node_layout(bool fencing);
/* What goes into derived keys: number @p i of them in all forms of all layouts, now and then one
 * twice; NULL behind the last. */
const char *dlk_redis_derived_part(size_t i);
/* The form of this kind, as the settings want it; NULL, and an error, where there is none. */
const dlk_redis_form *dlk_redis_form_of(const dlk_redis_layout *layout,
                                        const dlk_settings *settings, dlock_kind kind,
                                        bool shared, dlock_error **err);

static inline const dlk_redis_script *dlk_redis_script_of(const dlk_redis_form *form,
                                                          dlk_redis_script_id script)
{
    return &dlk_redis_scripts[DLK_SCRIPT_FORMS + form->id * DLK_SCRIPT_COUNT + script];
}

/* The form's renew, for many locks at once. */
static inline const dlk_redis_script *dlk_redis_batch_script(const dlk_redis_form *form)
{
    return &dlk_redis_scripts[DLK_SCRIPT_FORMS + DLK_FORM_COUNT * DLK_SCRIPT_COUNT +
                              form->id];
}

#endif
