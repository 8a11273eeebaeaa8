/*
 * What the files of this folder share: one client's lease, and its places in lines.
 *
 *     key ──> place, place, …     one for each number the engine has asked with and not given back;
 *                               each is one key at the server, bound to the lease
 *
 * A place outlives what the engine knows of it, until its key is surely gone: by our delete, by
 * somebody's, or with the lease. All of it is guarded by the client's mutex.
 */
#ifndef DLK_BACKENDS_ETCD_INNER_H
#define DLK_BACKENDS_ETCD_INNER_H

#include "backends/etcd/calls.h"
#include "net/address.h"
#include "session/session.h"
#include "util/clock.h"

#include <inttypes.h>

typedef struct dlk_etcd dlk_etcd;
typedef struct dlk_etcd_key dlk_etcd_key;
typedef struct dlk_etcd_place dlk_etcd_place;

typedef enum dlk_etcd_phase {
    DLK_ETCD_CLOSED,   /* the link is on its way to a member */
    DLK_ETCD_GREETING, /* who we are, and a lease */
    DLK_ETCD_UP,
} dlk_etcd_phase;

struct dlk_etcd {
    dlk_session base; /* first: a dlk_backend * is a dlk_etcd * */

    /* set by open, never changed */
    dlk_settings *settings;
    dlk_uri_host *
        hosts; /* host names are owned, ports filled in; no name: a socket's path is the peer */
    size_t host_count;
    bool tls;
    char *user;
    char **peers; /* "host:port" of each, or a path */
    int64_t timeout_ms, connect_ms;

    dlk_link_common links;
    dlk_etcd_calls calls;
    uint32_t epoch; /* what was sent in an older one ends as CUT, whatever came */
    dlk_etcd_phase phase;
    size_t host, tried; /* the present member, how many in a row had no answer */
    bool stopped;
    int64_t pause_ms; /* the link's next, when all have been tried */

    char *token;     /* of authentication, or NULL */
    dlk_list parked; /* dlk_etcd_call.link: wait for a token, the first or a new one */
    bool signing_on;

    int64_t lease, lease_ms; /* 0: none */
    int64_t ttl_ms;          /* how long a renewal lets us believe in it */
    /* The last two renewals that were answered; see session.c for what they prove. */
    struct {
        int64_t sent, heard, term;
    } kept[2];
    bool keeping;
    int64_t keep_next;

    bool expects; /* somebody waits for an answer, at this sleep */
    bool listens; /* the host is to be told what is revoked */

    /* What the signals that we give at conditions are bound to; 0: none. See condition.c. */
    struct {
        int64_t lease, made_at;
    } signals;

    int under_way;    /* calls, but for watches */
    int64_t watches;  /* that there have been: their numbers */
    int64_t nudge_at; /* when to look where a watch has ended too soon */
};

/* Kinds of lines. */
typedef enum dlk_etcd_line {
    DLK_ETCD_MUTEX, /* the Go concurrency package's, for elections as well */
    DLK_ETCD_RW,
    DLK_ETCD_SEMAPHORE,
    DLK_ETCD_CONDITION,
} dlk_etcd_line;

/* Goes before the names of conditions, which are apart from those of locks. */
#define DLK_ETCD_CONDITIONS "dlock-conditions/"

/* So many neighbours are looked at in one step: locks whose names go on behind this one's '/' have
 * keys among ours. */
#define DLK_ETCD_NEIGHBOURS 8

/* What key_open makes of a name: prefixes of keys, [from, to). */
typedef struct dlk_etcd_span {
    dlk_etcd_bytes from, to;
} dlk_etcd_span;

struct dlk_etcd_key {
    dlk_line base; /* first */
    dlk_etcd *et;
    dlk_etcd_line line;
    char *name; /* owned, with prefix */
    size_t size;
    int64_t permits;
    dlk_etcd_span all;       /* its line: all keys in it */
    dlk_etcd_span writers;   /* read/write: the writers' part */
    dlk_etcd_span mutexes;   /* "<name>/" */
    dlk_etcd_span others[3]; /* must be empty: other kinds, or sizes, of this name */
    unsigned spare; /* mutex: which of our names for a key is free, as far as we know */
    dlk_etcd_bytes tally; /* a condition's: the key of its signals */
    /* What joins that got no answer are kept from by when they come late after all; see leave.c. All
     * of one lease. */
    struct {
        dlk_etcd_bytes key;
        int64_t rev; /* its last change, which each join names; 0: it isn't there */
        int64_t lease;
        bool wanted; /* some join got no answer since */
    } fence;
    /* For those who only wait until it is free. */
    bool idle;
    dlk_etcd_call *idle_watch;
};

typedef enum dlk_etcd_state {
    DLK_PLACE_NONE,
    DLK_PLACE_JOINING,
    DLK_PLACE_UNSURE, /* a join got no answer: it is there or not */
    DLK_PLACE_THERE,
    DLK_PLACE_LEAVING,
} dlk_etcd_state;

struct dlk_etcd_place {
    dlk_place base; /* first */
    dlk_etcd *et;
    dlk_etcd_key *home;
    bool turned;                  /* a write place that reads now */
    int32_t weight;               /* of a semaphore's permits */
    dlk_etcd_state state, before; /* before: LEAVING's, of one that puts up the fence */
    int64_t since_ms;             /* the date when it was asked for */
    dlk_etcd_bytes key, value;    /* owned, of the present lease */
    int64_t rev;                  /* THERE: its create revision */
    dlk_etcd_bytes found; /* its value where we found it, by whichever number of ours */
    int64_t changed;      /* its last change that we know of: by a turn, or a revoke */
    int64_t below;        /* look for who is before us below this revision */
    bool looking;         /* a look is under way */
    bool doubtful;        /* some join of ours got no answer */
    bool loose;           /* there are locks whose names go on behind this one's '/' */
    bool awaits_proof, awaits_slot, awaits_keep;
    bool asked_delete;
    bool stranger;   /* made to give back what nobody knows of */
    bool remade;     /* its key was deleted, and a late join of ours made it anew */
    bool imports;    /* by a ticket: its key is the giver's */
    bool exported;   /* it is left to a ticket, … */
    int64_t ticket;  /* … and this lease; 0: there is none yet */
    int64_t signals; /* of who is signalled: the lease of the signals; 0: none */
    dlk_etcd_call *watch;
    dlk_etcd_bytes ahead; /* what it watches */
    int64_t looked;       /* when the look was sent behind which `watch` stands */
    int tries, proofs;    /* without a conclusion */
};

static inline dlk_etcd *dlk_etcd_of(dlk_backend *backend)
{
    return (dlk_etcd *)(void *)backend;
}
static inline dlk_etcd_key *dlk_etcd_key_of(dlk_line *line)
{
    return (dlk_etcd_key *)(void *)line;
}
static inline dlk_etcd_place *dlk_etcd_place_of(dlk_place *place)
{
    return (dlk_etcd_place *)(void *)place;
}
static inline dlk_etcd *dlk_etcd_of_calls(dlk_etcd_calls *calls)
{
    return DLK_LIST_ITEM(calls, dlk_etcd, calls);
}
/* The places of a line are walked by their links in it. */
#define DLK_ETCD_PLACE_IN_LINE(link)                                                     \
    dlk_etcd_place_of(DLK_LIST_ITEM(link, dlk_place, of_line))

/* ---- send.c ---- */
/* Sends the request, which is taken over; NULL: not sent, and @p done won't be called. */
dlk_etcd_call *dlk_etcd_send(dlk_etcd *et, dlk_etcd_method method,
                             dlk_etcd_request request, dlk_etcd_done *done, void *owner,
                             int64_t now);
/* Likewise, with two things to call: @p done calls @p then; and dlk_etcd_call.about. */
dlk_etcd_call *dlk_etcd_send_then(dlk_etcd *et, dlk_etcd_method method,
                                  dlk_etcd_request request, dlk_etcd_bytes about,
                                  dlk_etcd_done *done, dlk_etcd_done *then, void *owner,
                                  int64_t now);
typedef enum dlk_etcd_news {
    DLK_ETCD_DELETES,
    DLK_ETCD_CHANGES,
    DLK_ETCD_PUTS
} dlk_etcd_news;
/* Is over when a key of [from, to) is deleted, put, or either (changes) at @p revision or later; without
 * `to`: the one key. With @p past only at what comes once it stands: dlk_etcd_call.past. NULL: there is
 * none, now; dlk_etcd_places_nudge follows when there may be. */
dlk_etcd_call *dlk_etcd_watch(dlk_etcd *et, dlk_etcd_bytes from, dlk_etcd_bytes to,
                              int64_t revision, dlk_etcd_news of, dlk_etcd_done *done,
                              dlk_etcd_done *past, void *owner, int64_t now);
/* Nobody wants to know any more: `done` won't be called. */
void dlk_etcd_drop(dlk_etcd *et, dlk_etcd_call *call);
/* Somebody has to drive, though nobody's ask is under way. */
void dlk_etcd_background(dlk_etcd *et);
/* Filled in, not sent; the request is taken over. NULL without memory. */
dlk_etcd_call *dlk_etcd_call_new(dlk_etcd *et, dlk_etcd_method method,
                                 dlk_etcd_request request, dlk_etcd_done *done,
                                 void *owner, int64_t now);
/* Its time runs from now on, or, if we have to say first who we are, from then on. */
void dlk_etcd_put_in(dlk_etcd *et, dlk_etcd_call *call, int64_t now);

/* ---- session.c ---- */
/* One that is over. */
void dlk_etcd_receive(dlk_etcd *et, dlk_etcd_call *call, int64_t now);
void dlk_etcd_receive_all(dlk_etcd *et, int64_t now);
extern const dlk_etcd_calls_ops dlk_etcd_session_ops;
/* The lease was renewed, or not. */
dlk_etcd_done dlk_etcd_on_kept;
/* The call was sent for a lease that isn't ours any more. */
static inline bool dlk_etcd_stale(const dlk_etcd *et, const dlk_etcd_call *call)
{
    return call->lease != et->lease;
}
/* What it asked for may have been done, now or later. */
static inline bool dlk_etcd_unsure(const dlk_etcd_call *call)
{
    return call->end == DLK_ETCD_CUT || call->unread;
}
/* Whether the last renewal is young enough for what begins now. */
bool dlk_etcd_fresh(const dlk_etcd *et, int64_t now);
/* Renews; dlk_etcd_places_proved follows, or the session fails. */
void dlk_etcd_prove(dlk_etcd *et, int64_t now);
/* Since when the lease counts, as far as this answer, which the whole cluster stands behind, bears a
 * renewal out; 0: it doesn't. */
int64_t dlk_etcd_proof(const dlk_etcd *et, const dlk_etcd_call *call);
/* The lease is over. */
void dlk_etcd_lease_gone(dlk_etcd *et, int64_t now);
/* Asks for a lease as long as locks are to last. */
dlk_etcd_request dlk_etcd_lease_wanted(const dlk_etcd *et);
/* … or for one of so many seconds. */
dlk_etcd_request dlk_etcd_lease_of(int64_t seconds);
dlk_etcd_request dlk_etcd_renewal_of(int64_t lease);
void dlk_etcd_session_begin(dlk_etcd *et, int64_t now);
void dlk_etcd_session_end(dlk_etcd *et);
int64_t dlk_etcd_session_tick(dlk_etcd *et, int64_t now);

/* ---- answer.c ---- */
/* call->end, as far as this session has it otherwise. */
dlk_etcd_end dlk_etcd_judge(const dlk_etcd *et, const dlk_etcd_call *call);
/* What a transaction has answered: whether its comparisons were true, … */
bool dlk_etcd_succeeded(const dlk_etcd_call *call);
/* … and what its n-th request has found; NULL: that is no range, or this is no answer. */
const DlkEtcd__RangeResponse *dlk_etcd_found(const dlk_etcd_call *call, size_t index);
/* What a range has found. */
const DlkEtcd__RangeResponse *dlk_etcd_range(const dlk_etcd_call *call);
/* Of a grant or a renewal; 0: it has none. */
int64_t dlk_etcd_lease_id(const dlk_etcd_call *call);
int64_t dlk_etcd_lease_ttl(const dlk_etcd_call *call);
/* Whether the server's words contain these. */
bool dlk_etcd_says(const dlk_etcd_call *call, const char *words);
/* Why a call that has ended did so, in words: who, @p what it was asked for (NULL: as its path says),
 * and what happened; never NULL. */
dlock_error *dlk_etcd_error(const dlk_etcd *et, const dlk_etcd_call *call,
                            const char *what);

/* ---- layout.c ---- */
dlock_err dlk_etcd_layout_open(dlk_etcd_key *home, dlock_error **err);
void dlk_etcd_layout_free(dlk_etcd_key *home);
/* place->key and place->value, and the fence's key, for the present lease; false without one, or
 * without memory. */
bool dlk_etcd_layout_name(dlk_etcd_place *place);
/* How many of home->others there are. */
size_t dlk_etcd_layout_others(const dlk_etcd_key *home);
/* What inspect and the others read there: an election's is what it publishes, and no more. Yours; data
 * NULL without memory. */
dlk_etcd_bytes dlk_etcd_layout_value(const dlk_etcd_place *place, bool reads);
/* The own key in the answer; NULL: it isn't there. */
const DlkEtcd__KeyValue *dlk_etcd_layout_fenced(const dlk_etcd_place *place,
                                                const dlk_etcd_call *call);
/* The permits that a key's value begins with; none are 0. */
int64_t dlk_etcd_weight(dlk_etcd_bytes value);

typedef enum dlk_etcd_verdict {
    DLK_ETCD_FIRST,
    DLK_ETCD_BEHIND,  /* position->from, to: what to watch */
    DLK_ETCD_FURTHER, /* position->below: look again below it */
    DLK_ETCD_MISSING, /* our key isn't there */
    DLK_ETCD_REFUSED, /* position->why */
    DLK_ETCD_NESTED,  /* not joined, but only for others' sake: join loosely */
    DLK_ETCD_FENCED, /* not joined, because of another fence than was known: join again */
    DLK_ETCD_TAKEN,  /* not joined: our key has another holder; join by another name */
    DLK_ETCD_UNCLEAR, /* the answer isn't one */
} dlk_etcd_verdict;

typedef struct dlk_etcd_position {
    dlk_etcd_bytes from, to; /* lent by the answer or the key; there may be no `to` */
    int64_t below, rev;
    int64_t signals; /* a condition's: the lease of its signals */
    dlock_error *why;
} dlk_etcd_position;

/* What the answer to a join, or to a look, says of the place. */
dlk_etcd_verdict dlk_etcd_layout_joined(const dlk_etcd_place *place,
                                        const dlk_etcd_call *call,
                                        dlk_etcd_position *position);
dlk_etcd_verdict dlk_etcd_layout_looked(const dlk_etcd_place *place,
                                        const dlk_etcd_call *call,
                                        dlk_etcd_position *position);
/* Whether it is ours, and this number's. */
bool dlk_etcd_layout_is_mine(const dlk_etcd_place *place, const DlkEtcd__KeyValue *kv);
/* Is it one of this line's, and not of a lock whose name goes on where this one's ends? */
bool dlk_etcd_layout_direct(const dlk_etcd_key *home, dlk_etcd_bytes key);

/* ---- asks.c ---- */
dlk_etcd_request dlk_etcd_layout_join(const dlk_etcd_place *place);
dlk_etcd_request dlk_etcd_layout_look(const dlk_etcd_place *place);
/* Of the key that was made by this revision, and of none that came after it; with @p value, and @p lease
 * if it isn't 0, as long as it has these: a mutex' key may be handed on. */
dlk_etcd_request dlk_etcd_layout_delete(dlk_etcd_bytes key, int64_t rev,
                                        const dlk_etcd_bytes *value, int64_t lease);
/* Changes nothing of such a key but its last change, which its holder sees. */
dlk_etcd_request dlk_etcd_layout_touch(dlk_etcd_bytes key, int64_t rev);
/* Puts up the fence, and reads the own key. */
dlk_etcd_request dlk_etcd_layout_fence(const dlk_etcd_place *place);
dlk_etcd_request dlk_etcd_layout_turn(const dlk_etcd_place *place);
/* The own key goes to the ticket's lease, if it is ours, … */
dlk_etcd_request dlk_etcd_layout_export(const dlk_etcd_place *place);
/* … and this one from whoever has the @p value to us. */
dlk_etcd_request dlk_etcd_layout_import(const dlk_etcd_place *place,
                                        dlk_etcd_bytes value);
/* One key; and a line, in its order. */
dlk_etcd_request dlk_etcd_layout_read(dlk_etcd_bytes key);
dlk_etcd_request dlk_etcd_layout_line(const dlk_etcd_key *home);

/* ---- place.c ---- */
void dlk_etcd_place_open(dlk_place *base, const dlk_ask *ask);
void dlk_etcd_place_close(dlk_place *place);
bool dlk_etcd_place_is_nowhere(const dlk_place *place);
void dlk_etcd_place_forget(dlk_place *base, int64_t now);
void dlk_etcd_place_unwatch(dlk_etcd_place *place);
/* Its key isn't there any more, or never was. */
void dlk_etcd_place_drop_key(dlk_etcd_place *place);
/* The same as dlk_etcd_send, for a place, which stays until then. */
dlk_etcd_call *dlk_etcd_place_send(dlk_etcd_place *place, dlk_etcd_method method,
                                   dlk_etcd_request request, dlk_etcd_done *done,
                                   int64_t now);
/* Its key is gone, and not by us; of one that is being given back that says nothing. */
void dlk_etcd_place_gone(dlk_etcd_place *place, int64_t now);
void dlk_etcd_places_proved(dlk_etcd *et, int64_t now);
void dlk_etcd_places_nudge(dlk_etcd *et, int64_t now);

/* ---- join.c ---- */
void dlk_etcd_place_take(dlk_place *place, int64_t now);
/* The next step towards being the first in line. */
void dlk_etcd_place_go(dlk_etcd_place *place, int64_t now);
/* … of one that awaited the lease's renewal, when that is done, or (not @p up) can't be. */
void dlk_etcd_place_go_on(dlk_etcd_place *place, bool up, int64_t now);
/* Another one of ours has to let go before this one may join. */
bool dlk_etcd_place_has_to_wait(const dlk_etcd_place *place);
/* One of ours has let go: those who waited for that go on. */
void dlk_etcd_pass_slot(const dlk_etcd_key *home, int64_t now);
/* What isn't an answer to a question of a place that wants in is seen to; true when @p call is none. */
bool dlk_etcd_place_failed(dlk_etcd_place *place, dlk_etcd_call *call, int64_t now);
/* What becomes of a place by this answer. */
void dlk_etcd_place_conclude(dlk_etcd_place *place, const dlk_etcd_call *call,
                             dlk_etcd_verdict verdict, dlk_etcd_position *position,
                             int64_t now);

/* ---- handoff.c ---- */
/* The next step towards what a ticket is for. */
void dlk_etcd_place_import(dlk_etcd_place *place, int64_t now);
/* … towards leaving it to one; false: nothing was sent. */
bool dlk_etcd_place_export(dlk_etcd_place *place, int64_t now);

/* ---- leave.c ---- */
/* Nothing of it is there any more. */
void dlk_etcd_place_left(dlk_etcd_place *place, dlk_reply reply, int64_t now);
/* By this answer it couldn't be given back now: that is tried again. */
void dlk_etcd_place_not_left(dlk_etcd_place *place, const dlk_etcd_call *call,
                             int64_t now);
/* A number that we know nothing of any more, where a request of its may come late; or NULL. */
dlk_place *dlk_etcd_place_stranger(dlk_session *session, const dlk_ask *ask);
void dlk_etcd_place_leave(dlk_place *base, int64_t now);
/* Its key has another number's @p value, or may: it is deleted as it was found, for it may be handed on
 * meanwhile. False without memory. */
bool dlk_etcd_place_note_found(dlk_etcd_place *place, dlk_etcd_bytes value);
/* True when a join of ours may come late: what was sent is made void, and then it joins. */
bool dlk_etcd_place_clear_doubts(dlk_etcd_place *place, int64_t now);
/* Its key, as it is known; false: not sent. */
bool dlk_etcd_place_delete(dlk_etcd_place *place, int64_t now);
/* Makes room where an earlier number's key stands in this one's place; then it joins. */
void dlk_etcd_place_remove_stale(dlk_etcd_place *place, int64_t now);

/* ---- keep.c ---- */
void dlk_etcd_listen(dlk_backend *backend, int64_t now);
void dlk_etcd_place_keep(dlk_place *base, int64_t now);
void dlk_etcd_place_verify(dlk_place *base, int64_t now);
/* Once the lease is proved, or can't be. */
void dlk_etcd_keep_on(dlk_etcd_place *place, int64_t now);

/* ---- condition.c ---- */
dlk_etcd_request dlk_etcd_condition_look(const dlk_etcd_place *place);
/* What the answer to it says. */
dlk_etcd_verdict dlk_etcd_condition_judge(const dlk_etcd_place *place,
                                          const dlk_etcd_call *call,
                                          dlk_etcd_position *position);
/* Of who has just come, or isn't the next to be signalled: watches its own key. */
dlk_etcd_verdict dlk_etcd_condition_waits(const dlk_etcd_place *place,
                                          dlk_etcd_position *position);
/* With the renewal of who is signalled. */
void dlk_etcd_condition_keep(dlk_etcd_place *place, int64_t now);
/* Gives a place back together with its signal; false: nothing was sent. */
bool dlk_etcd_condition_use(dlk_etcd_place *place, int64_t now);
/* The line with all that it says, and the signals; and how many in it are signalled, by the answer. */
dlk_etcd_request dlk_etcd_condition_inspect(const dlk_etcd_key *home);
size_t dlk_etcd_condition_signalled(const dlk_etcd_call *call);

#endif
