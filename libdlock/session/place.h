/*
 * Places in lines: one contender's position in the line for a name, and what we know of it.
 *
 *     line ──> place, place, …     one for each number the engine has asked with and not given back
 *
 * A place outlives what the engine knows of it, until nothing of it is left at the server: by our
 * delete, by somebody's, or with the session. How a place is got, kept and given back differs between
 * services (dlk_session_type); who has asked what of it, and when it is over, is the same.
 *
 * All of it is guarded by the client's mutex. Whoever is answered may ask anew, from inside the answer,
 * and of the same place: so an ask is taken out of its place before it is answered, and only
 * dlk_place_settle frees a place, when nothing of ours is in it (`calls`).
 */
#ifndef DLK_SESSION_PLACE_H
#define DLK_SESSION_PLACE_H

#include "contract/backend.h"

typedef struct dlk_session dlk_session;
typedef struct dlk_place dlk_place;

/* What is made of a name. Each service's own begins with it. */
typedef struct dlk_line {
    dlk_session *session;
    int refs;        /* the key's own, its places' and its reports' */
    dlk_key *key;    /* NULL when that is closed: only what is given back is left */
    dlock_kind kind; /* the key's */
    dlk_list places; /* dlk_place.of_line */
} dlk_line;

/* Each service's own begins with it. */
struct dlk_place {
    dlk_list all; /* in the session's places */
    dlk_list of_line;
    dlk_session *session;
    dlk_line *line;
    uint64_t number;
    int calls;      /* under way, and of ours that are in it: the place must stay */
    bool shared;    /* of the read side */
    bool granted;   /* and stays so when it is given back */
    bool leaving;   /* it is being given back, or was taken away */
    bool used;      /* … a condition's with its signal, which goes to nobody else */
    bool wanted;    /* of a number that keeps: others stand in the line */
    bool new_place; /* HELD has to say so: the one it had went without its doing */
    int64_t token;
    char *data; /* what it shows; NULL: nothing */
    dlk_ask *take, *give, *keep, *verify;
};

static inline dlk_line *dlk_line_of(const dlk_key *key)
{
    return key->data;
}
void dlk_line_unref(dlk_line *line);
/* Whether one of ours stands in it and waits. */
bool dlk_line_waits(const dlk_line *line);
/* Nobody asks about the name any more; what is still being given back goes on. */
void dlk_line_orphan(dlk_line *line, int64_t now);

dlk_place *dlk_place_find(const dlk_line *line, uint64_t number);
/* For what is asked; NULL without memory. */
dlk_place *dlk_place_new(dlk_session *session, const dlk_ask *ask);
/* Frees it when nobody needs it any more. */
void dlk_place_settle(dlk_place *place);

/* Answers one of its asks, @p asked, if there is one. @p why is taken over; NULL: it needs no words. */
void dlk_place_answer(dlk_place *place, dlk_ask **asked, dlk_reply reply,
                      dlock_error *why);
/* Likewise, with why the link is down, if it is. */
void dlk_place_fail(dlk_place *place, dlk_ask **asked, dlk_reply reply);
/* Answers `take` or `keep`: it is ours, and the lease lasts for @p ttl_ms from @p since on. */
void dlk_place_lasts(dlk_place *place, dlk_ask **asked, int64_t since, int64_t ttl_ms);
/* Answers `take`: it stands in the line, and isn't the first. */
void dlk_place_behind(dlk_place *place);
/* Somebody has come into the line of one whose number keeps: the host hears of it, now or by the answer. */
void dlk_place_wanted(dlk_place *place);
/* The service has taken it away, and nothing of it is left there that is ours. Of one that is being
 * given back that says nothing. */
void dlk_place_lost(dlk_place *place);

/* What is asked of a place: DLK_ACQUIRE or DLK_IMPORT, DLK_RELEASE, DLK_RENEW, DLK_VERIFY. */
void dlk_place_acquire(dlk_session *session, dlk_ask *ask, int64_t now);
void dlk_place_release(dlk_session *session, dlk_ask *ask, int64_t now);
void dlk_place_renew(dlk_session *session, dlk_ask *ask, int64_t now);
void dlk_place_verify(dlk_session *session, dlk_ask *ask, int64_t now);
/* Nobody waits for this one any more; what was asked goes on. */
void dlk_place_drop(const dlk_ask *ask);

/* Does it to every place there is, though the host may ask for others from inside. */
void dlk_places_each(dlk_session *session,
                     void (*act)(dlk_place *place, const void *with, int64_t now),
                     const void *with, int64_t now);
/* What is to be given back, and couldn't be, once more. */
void dlk_places_sweep(dlk_session *session, int64_t now);
/* The session is over, for this reason, and with it all that it had at the server. */
void dlk_places_forget(dlk_session *session, const dlock_error *why, int64_t now);
void dlk_places_free(dlk_session *session);

#endif
