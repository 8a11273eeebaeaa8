/*
 * What the files of this folder share: one client's session, and its places in lines.
 *
 *     key ──> place, place, …     one for each number the engine has asked with and not given back
 *               └─ node, node   what it has, or wants, at the server: mostly one
 *
 * A place outlives what the engine knows of it (session/place.h): until each of its nodes is surely
 * gone, by our delete, by somebody's, or with the session. All of it is guarded by the client's mutex.
 */
#ifndef DLK_BACKENDS_ZOOKEEPER_INNER_H
#define DLK_BACKENDS_ZOOKEEPER_INNER_H

#include "backends/zookeeper/library.h"
#include "backends/zookeeper/plan.h"
#include "net/backoff.h"
#include "session/session.h"
#include "util/clock.h"

typedef struct dlk_zk_key dlk_zk_key;
typedef struct dlk_zk_place dlk_zk_place;

typedef enum dlk_zk_phase {
    DLK_ZK_CLOSED,   /* no wire; the next at retry_at */
    DLK_ZK_OPENING,  /* or connecting again */
    DLK_ZK_GREETING, /* connected; is the chroot there? */
    DLK_ZK_UP,
} dlk_zk_phase;

struct dlk_zk {
    dlk_session base; /* first: a dlk_backend * is a dlk_zk * */

    /* set by open, never changed */
    dlk_settings *settings;
    char *hosts, *chroot; /* "h:2181,h:2181"; "" or "/a/b" */
    int64_t connect_ns, close_ms;
    bool creator_acl, sasl;
    struct dlk_tls *tls; /* of a look at the servers; NULL: without TLS */

    dlk_zk_inbox *inbox;
    dlk_zk_wire *wire;
    uint32_t epoch; /* of the wire; answers by an older one say nothing any more */
    dlk_zk_phase phase;
    bool stopped, no_containers, listens;
    int greetings;               /* answers awaited before we are UP */
    int64_t session, timeout_ms; /* what the server has made of it */
    int64_t proof; /* send time of the last request that the leader has answered */
    bool proving;  /* such a request is under way */
    int64_t connect_until, retry_at;
    bool was_up; /* it was greeted once */
    /* at the servers, while the first connection is awaited, or NULL … */
    dlk_zk_glance *look;
    dlock_error
        *unopened;   /* why the library won't even begin: told when the look is over */
    int64_t look_at; /* … and when it goes on, or begins */
    dlk_backoff backoff;

    dlk_list litter;      /* dlk_zk_litter.link */
    dlk_list idle;        /* dlk_zk_key.idle */
    uint32_t seen, armed; /* the bell when we last looked, and as frozen by arm */
};

/* What key_open makes of a name. */
struct dlk_zk_key {
    dlk_line base;               /* first */
    const dlk_zk_plan *plans[2]; /* how to take it; [1]: the read side */
    dlk_zk_form *forms[2];       /* pattern: as plans */
    char *path;                  /* of the name */
    char *parents[DLK_ZK_STEPS]; /* path above the nodes of each step */
    int64_t permits;
    bool strict, warned;
    bool hands_on; /* its locks can be handed on: handoff.c */
    bool alone;    /* a semaphore: no other lock's nodes lie beside its two folders */
    char *beside;  /* … or this one does */
    dlk_list idle; /* in zk->idle while somebody only waits for it to be free */
};

typedef enum dlk_zk_state {
    DLK_NODE_NONE,
    DLK_NODE_CREATING,
    DLK_NODE_UNSURE, /* the create got no answer: look for the UUID */
    DLK_NODE_SEARCHING,
    DLK_NODE_THERE,
    DLK_NODE_DELETING,
} dlk_zk_state;

typedef struct dlk_zk_node {
    dlk_zk_place *place;
    const dlk_zk_rule *rule;
    const char *parent;
    dlk_zk_state state;
    char uuid[DLK_UUID_SIZE];
    char *path; /* THERE, DELETING: full; … */
    char **
        all; /* … of several, which are made and deleted at once: the paths, in one block */
    int64_t czxid;
    int64_t written; /* what lies in the parent, as of the list by which it was first */
    int64_t counts_from; /* the token, where that is another one than czxid; else 0 */
    char *ahead;         /* path that we watch, or NULL; a lease: the parent's children */
    bool armed;          /* … and its watch is set */
    bool own_armed;      /* our own node is watched */
    bool listing;        /* a list for us is under way */
    bool hears;          /* first, by a list that watches for who comes: it keeps */
    bool parents;        /* the parents were found missing: make them first */
    bool asked_delete;   /* a delete got no answer: NO_NODE is our own doing */
    int tries;           /* without a conclusion */
    int64_t looked;      /* when the list was sent by which `armed` stands */
    dlock_error *refused;
    /* Paths of nodes that may be ours, whose names don't say it; owned. */
    char **candidates;
    size_t candidate_count;
} dlk_zk_node;

struct dlk_zk_place {
    dlk_place base; /* first */
    dlk_zk *zk;
    dlk_zk_key *home;
    const dlk_zk_plan *plan;
    size_t take; /* a semaphore's permits: so many leases */
    int step;    /* the node that we work on */
    bool sided;  /* its side node was made, or may have been */
    /* At a condition: what a look has found so far (condition.c). */
    struct {
        int64_t *line; /* owned */
        size_t count;
        bool gone;    /* its own node isn't there */
        bool unheard; /* … or isn't watched */
        /* It is the next to be signalled: then it watches the whole line. */
        bool next, watches, watched; /* … as it is known, asked for, done */
        bool changed;    /* … or its own node, and told since it was asked for */
        char *text;      /* the signals, to be changed; owned */
        int32_t version; /* of the signals, with what was read first */
    } wait;
    /* Of a hand-off: what lies in the folder of the line, and when. */
    struct {
        char *text; /* owned */
        size_t size;
        int32_t version;
        bool known; /* it was read by the last request for it */
    } folder;
    bool imports;      /* it begins with another one's node */
    bool exported;     /* it is left to a ticket, … */
    int64_t lapses_at; /* … until then */
    bool marks;        /* it is being looked at, or written, for a hand-off */
    bool looks;        /* for both of them: the answer is under way */
    bool both;         /* … they were there at once: nobody came in between */
    int64_t since;     /* the proof by which it was granted */
    dlk_zk_node nodes[DLK_ZK_STEPS];
    dlk_zk_node side; /* a downgrade's read node while it is made */
};

/* A node that is to be gone, and belongs to nobody any more. */
typedef struct dlk_zk_litter {
    dlk_list link;
    bool sent;
    char path[];
} dlk_zk_litter;

static inline dlk_zk *dlk_zk_of(dlk_backend *backend)
{
    return (dlk_zk *)(void *)backend;
}
static inline dlk_zk_key *dlk_zk_key_of(dlk_line *line)
{
    return (dlk_zk_key *)(void *)line;
}
static inline dlk_zk_place *dlk_zk_place_of(dlk_place *place)
{
    return (dlk_zk_place *)(void *)place;
}
/* The places of a client, and those of a line, are walked by their links in them. */
#define DLK_ZK_PLACE_OF_ALL(link) dlk_zk_place_of(DLK_LIST_ITEM(link, dlk_place, all))
#define DLK_ZK_PLACE_IN_LINE(link)                                                       \
    dlk_zk_place_of(DLK_LIST_ITEM(link, dlk_place, of_line))

/* How many a node is: a lease is one for each permit. */
static inline size_t dlk_zk_node_count(const dlk_zk_node *node)
{
    return node->rule && node->rule->counts ? node->place->take : 1;
}
/* Whether it is to hear of who comes into its line: that of a lock which may be kept. */
static inline bool dlk_zk_node_keeps(const dlk_zk_node *node)
{
    const dlk_zk_place *place = node->place;
    return dlk_number_keeps(place->base.number) &&
           node == &place->nodes[place->plan->steps - 1];
}
/* Of a request that is about all of them: 0 where it is one. */
static inline size_t dlk_zk_node_several(const dlk_zk_node *node)
{
    return node->all ? node->place->take : 0;
}

/* ---- session.c ---- */
enum { DLK_ZK_QUIET = 1, DLK_ZK_ASKED = 2 };
typedef void dlk_zk_done(dlk_zk_call *call, int64_t now);
/* Sends; false: not sent, and @p done won't be called. */
bool dlk_zk_send(dlk_zk *zk, const dlk_zk_request *request, dlk_zk_done *done,
                 void *owner, void *extra, int flags, int64_t now);
/* Likewise, with two things to call: @p done calls @p then. */
bool dlk_zk_send_then(dlk_zk *zk, const dlk_zk_request *request, dlk_zk_done *done,
                      dlk_zk_done *then, void *owner, void *extra, int flags,
                      int64_t now);
/* The same for a place, which stays until the answer has come, and with @p extra in the call; an
 * answer that says nothing any more isn't told. */
bool dlk_zk_place_send(dlk_zk_place *place, const dlk_zk_request *request,
                       dlk_zk_done *then, void *extra, int flags, int64_t now);
/* Whether the session that the call was sent in is over: its answer says nothing any more. */
static inline bool dlk_zk_stale(const dlk_zk *zk, const dlk_zk_call *call)
{
    return call->item.epoch != zk->epoch;
}
void dlk_zk_session_begin(dlk_zk *zk, int64_t now);
void dlk_zk_session_end(dlk_zk *zk);
int64_t dlk_zk_session_tick(dlk_zk *zk, int64_t now);
void dlk_zk_session_news(dlk_zk *zk, const dlk_zk_item *item, int64_t now);
/* Whether the last proof of life will do for what begins now; else one is asked for, and answered
 * before whatever is sent next. */
bool dlk_zk_prove(dlk_zk *zk, int64_t now);

/* ---- words.c ---- */
/* What an end that was no success means to whoever asked; `what` was asked of `path`. */
dlock_error *dlk_zk_error(const dlk_zk *zk, const dlk_zk_call *call, const char *what,
                          const char *path);

/* ---- node.c ---- */
typedef enum dlk_zk_heard {
    DLK_HEARD_FIRST,
    DLK_HEARD_BEHIND,
    DLK_HEARD_UNKNOWN, /* a request got no answer */
    DLK_HEARD_UNSENT,
    DLK_HEARD_REFUSED, /* node->refused says why */
} dlk_zk_heard;

void dlk_zk_node_init(dlk_zk_node *node, dlk_zk_place *place, const dlk_zk_rule *rule,
                      const char *parent);
/* On towards being first; dlk_zk_place_heard tells, perhaps before this returns. */
void dlk_zk_node_go(dlk_zk_node *node, int64_t now);
/* Away with it; dlk_zk_place_left tells when it is surely gone, or that it couldn't be done now. */
void dlk_zk_node_leave(dlk_zk_node *node, int64_t now);
/* The session is over, and with it the node. */
void dlk_zk_node_forget(dlk_zk_node *node);
/* Among node.c, make.c and plain.c: */
static inline bool dlk_zk_node_send(dlk_zk_node *node, const dlk_zk_request *request,
                                    dlk_zk_done *then, int flags, int64_t now)
{
    return dlk_zk_place_send(node->place, request, then, node, flags, now);
}
void dlk_zk_node_look(dlk_zk_node *node, int64_t now);
void dlk_zk_node_join(dlk_zk_node *node, int64_t now);
void dlk_zk_node_search(dlk_zk_node *node, int64_t now);
void dlk_zk_node_drop_candidates(dlk_zk_node *node);
/* It is one no more, or belongs to nobody: what there may be of it, if it is several, is to go. */
void dlk_zk_node_scatter(dlk_zk_node *node, int64_t now);
void dlk_zk_node_hear(dlk_zk_node *node, dlk_zk_heard heard, int64_t now);
void dlk_zk_node_refuse(dlk_zk_node *node, dlock_error *why, int64_t now);
/* It was there and isn't any more, or what is above it: once more, at the tail. */
void dlk_zk_node_start_over(dlk_zk_node *node, bool parents, int64_t now);
void dlk_zk_node_stop_watching(dlk_zk_node *node, int64_t now);
/* The answer to a sync, of which what is right behind it says all, or to an unwatch: a watch too many
 * only wakes somebody for nothing. */
void dlk_zk_on_nothing(dlk_zk_call *call, int64_t now);
/* The answer to a delete. */
void dlk_zk_node_deleted(dlk_zk_call *call, int64_t now);
void dlk_zk_node_delete(dlk_zk_node *node, int64_t now);
char *dlk_zk_node_data(const dlk_zk_node *node);
bool dlk_zk_node_make_parents(dlk_zk_node *node, int64_t now);
/* What the names of such a node begin with, whatever number the server gives it. */
char *dlk_zk_node_prefix(const dlk_zk_place *place, const dlk_zk_rule *rule, bool shared,
                         const char *uuid);
/* The path of its line has changed. True when it is the first there, and somebody has come. */
bool dlk_zk_node_is_wanted(dlk_zk_node *node, const char *path);
/* The path that the client watches has changed. True when this node waited for it. */
bool dlk_zk_node_changed(dlk_zk_node *node, const char *path);
void dlk_zk_litter_add(dlk_zk *zk, const char *path, int64_t now);
void dlk_zk_litter_sweep(dlk_zk *zk, int64_t now);
/* It went with the session. */
void dlk_zk_litter_forget(dlk_zk *zk);
char *dlk_zk_join(const char *parent, const char *child);
const char *dlk_zk_base_name(const char *path);

/* ---- uuid.c ---- */
void dlk_zk_uuid_new(dlk_zk_node *node);
/* Does the node of this name belong to the owner "<uuid>:<number>"? */
bool dlk_zk_uuid_is_of(const char *name, const char *owner);

/* ---- plain.c ---- */
void dlk_zk_plain_go(dlk_zk_node *node, int64_t now);
/* What a create without an answer has made is to go. */
void dlk_zk_plain_search(dlk_zk_node *node, int64_t now);

/* ---- pattern.c ---- */
/* Fills forms and parents[0] from zookeeper.node. */
dlock_err dlk_zk_pattern_open(const dlk_zk *zk, const dlk_key *key, dlk_zk_key *home,
                              dlock_error **err);
void dlk_zk_form_free(dlk_zk_form *form);
/* The text before the digits. */
char *dlk_zk_form_expand(const dlk_zk_form *form, int64_t session, const char *uuid);

/* ---- place.c ---- */
void dlk_zk_place_open(dlk_place *base, const dlk_ask *ask);
void dlk_zk_place_close(dlk_place *base);
bool dlk_zk_place_is_nowhere(const dlk_place *base);
void dlk_zk_place_take(dlk_place *base, int64_t now);
void dlk_zk_place_leave(dlk_place *base, int64_t now);
void dlk_zk_place_tidy(dlk_place *base, int64_t now);
void dlk_zk_place_forget(dlk_place *base, int64_t now);
void dlk_zk_place_heard(dlk_zk_place *place, dlk_zk_node *node, dlk_zk_heard heard,
                        int64_t now);
/* @p call NULL: there was nothing, or it went with the session. */
void dlk_zk_place_left(dlk_zk_place *place, dlk_zk_node *node, const dlk_zk_call *call,
                       int64_t now);
void dlk_zk_places_changed(dlk_zk *zk, const char *path, int64_t now);
/* The node whose czxid is the token. */
static inline dlk_zk_node *dlk_zk_place_prize(dlk_zk_place *place)
{
    return &place->nodes[place->plan->steps - 1];
}

/* ---- handoff.c ---- */
/* Whether they can be kept: who stands in line is seen in a folder of the lock's own. */
bool dlk_zk_keeps(const dlk_settings *settings);
/* Whether mutexes that are taken so can be handed on. */
bool dlk_zk_hands_on(const dlk_settings *settings);
/* A session of ours that ends now takes what somebody has a ticket for with it. */
bool dlk_zk_holds_tickets(const dlk_zk *zk, int64_t now);
bool dlk_zk_place_is_out(const dlk_zk_place *place, int64_t now);
/* In the place of leaving, until the lease is over. */
void dlk_zk_place_export(dlk_zk_place *place, int64_t now);
/* The next step to having the lock that the ticket is for. */
void dlk_zk_place_import(dlk_zk_place *place, int64_t now);
/* It is the first, and its token is yet to be got; then it is heard to be first once more. */
bool dlk_zk_place_has_to_mark(dlk_zk_place *place, int64_t now);

/* ---- condition.c ---- */
/* Where the waiters lie of the condition that has a lock's path; NULL without memory. */
char *dlk_zk_condition_path(const dlk_zk *zk, const char *path);
/* The numbers of the places among the children, in order; no others are left among these. NULL without
 * memory; yours to free(). */
int64_t *dlk_zk_condition_line(dlk_zk_call *call);
/* Is it signalled by now? */
void dlk_zk_condition_look(dlk_zk_node *node, int64_t now);
/* True when it watches the whole line, and that is what has changed. */
bool dlk_zk_condition_changed(dlk_zk_node *node, const char *path);
/* Away with it, and with its signal. */
void dlk_zk_condition_use(dlk_zk_node *node, int64_t now);

/* ---- keep.c ---- */
void dlk_zk_place_keep(dlk_place *base, int64_t now);
void dlk_zk_place_verify(dlk_place *base, int64_t now);
/* Somebody may have touched the node of a grant. */
void dlk_zk_look_after(dlk_zk_place *place, int64_t now);
void dlk_zk_listen(dlk_backend *backend, int64_t now);
/* A downgrade's read node has news. */
void dlk_zk_side_heard(dlk_zk_place *place, dlk_zk_heard heard, int64_t now);

#endif
