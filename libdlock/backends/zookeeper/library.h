/*
 * The way to a ZooKeeper: one session's worth of asynchronous requests, and a place where their
 * answers and the server's news arrive. library.c does it with libzookeeper_mt; a simulator
 * brings a model of a server instead, by defining dlk_zk_library itself.
 *
 * Everything that comes back, by whatever thread, is put into the inbox; the backend takes it out
 * with the client's mutex held. So nothing of ours ever runs on the library's threads but a copy
 * and a wake.
 */
#ifndef DLK_BACKENDS_ZOOKEEPER_LIBRARY_H
#define DLK_BACKENDS_ZOOKEEPER_LIBRARY_H

#include "util/list.h"
#include "util/settings.h"
#include "util/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_zk_wire dlk_zk_wire;
typedef struct dlk_zk_item dlk_zk_item;

/* ---- requests ---- */

typedef enum dlk_zk_verb {
    DLK_ZK_CREATE =
        1, /* path, data, mode; answers text (the name the server made) and stat; … */
    DLK_ZK_DELETE, /* path, any version */
    /* paths: all of them go, and `made` are there in their place, ephemeral ones of ours with this data;
     * always with `also`, whose stat it answers */
    DLK_ZK_MOVE,
    DLK_ZK_SET,      /* path, data, any version unless it is `versioned`; answers stat */
    DLK_ZK_GET,      /* path, watch; answers text and size (the data) and stat */
    DLK_ZK_CHILDREN, /* path, watch; answers children, and the stat of the path */
    DLK_ZK_EXISTS,   /* path; answers stat */
    DLK_ZK_CHECK,    /* paths: whether all of them are there, by way of the leader */
    DLK_ZK_SYNC,     /* path: answered by way of the leader */
    DLK_ZK_UNWATCH,  /* path: forgets the watch that GET set */
} dlk_zk_verb;

typedef enum dlk_zk_mode {
    DLK_ZK_PERSISTENT,
    DLK_ZK_CONTAINER,
    DLK_ZK_EPHEMERAL,
    DLK_ZK_SEQUENTIAL, /* ephemeral, ten digits are put behind the path */
} dlk_zk_mode;

/* Only looked at until `send` returns. */
typedef struct dlk_zk_request {
    dlk_zk_verb verb;
    const char *path; /* full, with the chroot */
    const char *data; /* never NULL where data is sent: others choke on null data */
    size_t size;
    dlk_zk_mode mode;
    bool open; /* CREATE: for everybody, whatever zookeeper.acl says */
    /* CREATE, DELETE and CHECK of several at once, all of them or none: so many; 0: of one. What is
     * made has this path but for its digits, and `children` answers the paths. */
    size_t count;
    char *const
        *paths; /* in the place of `path`, which is the first of them, but for CREATE */
    char *const *made; /* MOVE: as many */
    const struct dlk_zk_request
        *also;      /* a SET, behind it or them: likewise all or none */
    bool versioned; /* SET: only what has this version */
    int32_t version;
    /* tell once when the node (CHILDREN: its children) changes or goes, if it is there */
    bool watch;
} dlk_zk_request;

/* How a request ended. */
typedef enum dlk_zk_end {
    DLK_ZK_OK = 0,
    DLK_ZK_NO_NODE,
    DLK_ZK_NODE_EXISTS,
    DLK_ZK_NOT_EMPTY,
    DLK_ZK_NO_AUTH,       /* the ACL forbids it */
    DLK_ZK_NO_CHILDREN,   /* the parent is ephemeral */
    DLK_ZK_NOT_KNOWN,     /* the server has no such request: an old one */
    DLK_ZK_OTHER_VERSION, /* not set, somebody has been before */
    DLK_ZK_BAD,           /* refused as malformed, or otherwise not done: see code */
    DLK_ZK_BUSY,          /* throttled: not done */
    DLK_ZK_GONE,          /* the session is over, and what it made */
    DLK_ZK_CUT,           /* no answer will come: done or not */
    DLK_ZK_NO_MEMORY,     /* as CUT: the answer didn't fit into memory */
} dlk_zk_end;

/* Whether only the leader can have answered a write so. The rest any server says by itself, also one
 * that is cut off: that it is too busy (throttled), reads only, knows no such request, wants other
 * credentials. */
static inline bool dlk_zk_is_leaders(dlk_zk_end end)
{
    switch (end) {
    case DLK_ZK_OK:
    case DLK_ZK_NO_NODE:
    case DLK_ZK_NODE_EXISTS:
    case DLK_ZK_NOT_EMPTY:
    case DLK_ZK_NO_AUTH:
    case DLK_ZK_NO_CHILDREN:
    case DLK_ZK_OTHER_VERSION:
        return true;
    case DLK_ZK_NOT_KNOWN:
    case DLK_ZK_BAD:
    case DLK_ZK_BUSY:
    case DLK_ZK_GONE:
    case DLK_ZK_CUT:
    case DLK_ZK_NO_MEMORY:
        break;
    }
    return false;
}

typedef struct dlk_zk_stat {
    /* mzxid: what lies in it was written; ctime_ms: the date when it was made */
    int64_t czxid, mzxid, ephemeral_owner, ctime_ms;
    int32_t version, children;
} dlk_zk_stat;

/* ---- what comes back ---- */

typedef enum dlk_zk_news {
    DLK_ZK_ANSWER,        /* the item is a dlk_zk_call */
    DLK_ZK_CONNECTED,     /* session, timeout_ms; also after each reconnect */
    DLK_ZK_DISCONNECTED,  /* the library tries again by itself */
    DLK_ZK_EXPIRED,       /* the server said so: the wire is of no use any more */
    DLK_ZK_AUTH_FAILED,   /* likewise; */
    DLK_ZK_NOT_OPENED,    /* likewise; text says why */
    DLK_ZK_CHANGED,       /* text: the path whose watch fired, on data or deletion */
    DLK_ZK_CHILD_CHANGED, /* text: the path whose list of children changed */
} dlk_zk_news;

struct dlk_zk_item {
    dlk_list link;
    dlk_zk_news news;
    uint32_t epoch; /* of the wire it came by */
    int64_t session;
    int timeout_ms; /* negotiated */
    char *text;     /* owned */
};

/* One request under way. Made by the backend, which gets it back exactly once. */
typedef struct dlk_zk_call {
    dlk_zk_item item; /* first; text is the answer's */
    dlk_list sent;    /* the wire's own while it is under way */
    /* Runs when it is taken from the inbox. */
    void (*done)(struct dlk_zk_call *call, int64_t now);
    void *owner, *extra;                                 /* for done */
    void (*then)(struct dlk_zk_call *call, int64_t now); /* likewise */
    int64_t sent_at;
    bool quiet; /* another one is right behind it: no need to wake anybody for this one */
    /* belongs to what the engine has asked: it looks for the answer by itself */
    bool asked;
    bool by_write; /* it went through the leader, so it proves that the session lives */
    dlk_zk_wire *wire;

    dlk_zk_end end;
    int code; /* the library's own, for messages */
    size_t size;
    dlk_zk_stat stat;
    char **children; /* one block, owned; the library's own room until it has answered */
    size_t child_count;
    const void *seen; /* the library's own, in that room */
} dlk_zk_call;

/* Where answers and news wait for the driver. Any thread. It belongs to the backend and to its
 * wires: the last of them to let go frees it, so that nobody has to wait for a wire that looks up a
 * name. */
typedef struct dlk_zk_inbox {
    pthread_mutex_t mutex;
    dlk_list items;      /* under the mutex */
    dlk_futex bell;      /* rises with each item and each kick */
    _Atomic bool asleep; /* the driver sleeps on it */
    /* there was no memory for some news: nothing is known of the session */
    _Atomic bool lost;
    /* Nobody is asleep there, and news came that nobody may be waiting for. NULL when the backend is
     * gone; under the mutex. */
    void (*unheard)(void *user);
    void *user;
    dlk_futex wires;   /* how many wires there are; counted down under the mutex */
    dlk_futex callers; /* of `unheard`, likewise */
    bool abandoned;    /* the backend is gone; under the mutex */
} dlk_zk_inbox;

dlk_zk_inbox *dlk_zk_inbox_new(void (*unheard)(void *user), void *user);
/* The backend lets go, and waits so long for its wires; afterwards `unheard` isn't called. */
void dlk_zk_inbox_abandon(dlk_zk_inbox *inbox, int64_t until);
void dlk_zk_inbox_put(dlk_zk_inbox *inbox, dlk_zk_item *item);
void dlk_zk_inbox_ring(dlk_zk_inbox *inbox);
/* Some news couldn't be put. */
void dlk_zk_inbox_lose(dlk_zk_inbox *inbox);
/* A wire is gone. */
void dlk_zk_inbox_left(dlk_zk_inbox *inbox);
/* All there is, in order. */
void dlk_zk_inbox_take(dlk_zk_inbox *inbox, dlk_list *ret);
void dlk_zk_item_free(dlk_zk_item *item); /* what it holds, not the item itself */

/* A note with a copy of @p text, or NULL without memory. */
dlk_zk_item *dlk_zk_item_new(dlk_zk_news news, uint32_t epoch, const char *text);

/* ---- the way there ---- */

typedef struct dlk_zk_setup {
    const char *hosts; /* "h1:2181,h2:2181", no chroot */
    int timeout_ms;    /* the session's, as wished */
    int64_t silent_ms; /* a connection on which nothing comes for so long is given up */
    const char *auth;  /* "user:password" of the digest scheme, or NULL; a secret */
    bool creator_acl;  /* CREATOR_ALL for what we make, else open */
    bool tls, sasl;    /* by `settings`; `auth` is said by SASL */
    const dlk_settings *settings;
    uint32_t epoch;
} dlk_zk_setup;

/* A look at each server by a connection of our own, by which the whys are told: look.c. */
typedef struct dlk_zk dlk_zk;
typedef struct dlk_zk_glance dlk_zk_glance;

typedef struct dlk_zk_glance_type {
    /* To be over at @p until; NULL without memory. */
    dlk_zk_glance *(*begin)(dlk_zk *zk, int64_t until, int64_t now);
    /* Goes on with it, without waiting; returns when to call again, or DLK_NEVER: it is over. */
    int64_t (*on)(dlk_zk_glance *look, int64_t now);
    void (*end)(dlk_zk_glance *look); /* NULL is fine */
} dlk_zk_glance_type;

typedef struct dlk_zk_wire_type {
    /* Begins to connect, on a thread of its own; NULL without memory or thread (*err stays NULL), or for
     * what *err says. @p setup is copied. The inbox counts the wire, and outlives it. */
    dlk_zk_wire *(*open)(const dlk_zk_setup *setup, dlk_zk_inbox *inbox,
                         dlock_error **err);
    /* False: not accepted (no memory, not connected); nothing was sent, nothing comes back. */
    bool (*send)(dlk_zk_wire *wire, const dlk_zk_request *request, dlk_zk_call *call);
    /* Ends the session at the server if that can be reached, unless it is to `stay` until its time-out
     * with what it has made, and frees the wire, in the background. Calls under way come back as CUT, then dlk_zk_inbox_left is called. */
    void (*close)(dlk_zk_wire *wire, bool stay);
    /* Whether the servers refuse who we are by SASL, which comes to nobody's ears; NULL: it isn't asked. */
    bool (*denied)(dlk_zk_wire *wire);
    /* In a fork's child: what is inherited is closed as far as it can be reached. */
    void (*forked)(dlk_zk_wire *wire);
    const dlk_zk_glance_type *look; /* NULL: nobody looks */
} dlk_zk_wire_type;

extern const dlk_zk_wire_type dlk_zk_library;
extern const dlk_zk_glance_type dlk_zk_glances;

#endif
