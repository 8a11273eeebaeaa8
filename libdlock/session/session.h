/*
 * What the backends have in common whose service keeps a session with each client, and lets who
 * wants a lock stand in a line: etcd's leases, ZooKeeper's sessions. It stands between backend.h and
 * such a backend, which says in a table (dlk_session_type) what its service does its own way.
 *
 * Whether the session is up, and how it is kept alive, is the backend's business.
 */
#ifndef DLK_SESSION_SESSION_H
#define DLK_SESSION_SESSION_H

#include "contract/backend.h"
#include "contract/flight.h"
#include "session/place.h"
#include "session/report.h"

/* What differs between services. All with the client's mutex held, but for line_open. */
typedef struct dlk_session_type {
    bool (*is_up)(const dlk_session *session);
    /* Why a lock can't be asked back; NULL: that is a report as others are. */
    const char *no_revoke;
    /* Mutexes are handed on: an import is a place whose `take` is a DLK_IMPORT, an export a `give` that
     * says so. Why no others are, or none at all. */
    bool hands_on;
    /* … and whether those of this name are. NULL: all. */
    bool (*line_hands_on)(const dlk_line *line);
    const char *no_import;

    /* ---- a name ---- */

    size_t line_size;
    /* Fills what is the service's own. @p line is freed should it fail. Any thread, no mutex. */
    dlock_err (*line_open)(dlk_line *line, const dlk_key *key, dlock_error **err);
    /* Frees what is the service's own, though little of it be filled. */
    void (*line_close)(dlk_line *line);
    /* Somebody waits until the name is free, or no longer, and stands in no line. */
    void (*line_watch)(dlk_line *line, bool on);

    /* ---- a place ---- */

    size_t place_size;
    /* Fills what is the service's own, and frees that. */
    void (*place_open)(dlk_place *place, const dlk_ask *ask);
    void (*place_close)(dlk_place *place);
    /* Whether nothing of it is at the server, or may be. */
    bool (*is_nowhere)(const dlk_place *place);
    /* A place for a number that has none and is given back, where something of it may be at the
     * server all the same; NULL: it has nothing there. NULL for all: so it is always. */
    dlk_place *(*stranger)(dlk_session *session, const dlk_ask *ask);
    /* The next step to the answer of `take`, `keep` or `verify`; … */
    void (*take)(dlk_place *place, int64_t now);
    void (*keep)(dlk_place *place, int64_t now);
    void (*verify)(dlk_place *place, int64_t now);
    /* … towards being surely gone, which answers `give`: `leaving` is set. */
    void (*leave)(dlk_place *place, int64_t now);
    /* Of one that isn't leaving: what of it has served its turn, and is there still. NULL: nothing. */
    void (*tidy)(dlk_place *place, int64_t now);
    /* It is gone with the session: calls dlk_place_lost for a grant. */
    void (*forget)(dlk_place *place, int64_t now);

    /* ---- a report ---- */

    size_t report_size;
    void (*report_open)(dlk_report *report, int64_t now);
    void (*report_close)(dlk_report *report);
} dlk_session_type;

/* Each such backend begins with it. */
struct dlk_session {
    dlk_backend backend; /* first: a dlk_backend * is a dlk_session * */
    const dlk_session_type *type;
    dlk_flight flight;
    bool was_up;
    dlock_error *why_down;
    dlk_list places;  /* dlk_place.all */
    dlk_list reports; /* dlk_report.link */
    int64_t sweep_at; /* when to try again what couldn't be given back */
};

static inline dlk_session *dlk_session_of(dlk_backend *backend)
{
    return (dlk_session *)(void *)backend;
}

void dlk_session_init(dlk_session *session, const dlk_backend_type *backend,
                      const dlk_session_type *type, dlk_host *host);
/* Tells nobody. */
void dlk_session_clear(dlk_session *session);
/* The link is up, and the session there. */
void dlk_session_up(dlk_session *session, int64_t now);
/* The link is down, for this reason, which is taken over. */
void dlk_session_down(dlk_session *session, dlock_error *why);
/* It was closed, and nothing is asked any more, for this reason, which is taken over: all that was ends. */
void dlk_session_stop(dlk_session *session, dlock_error *why);

/* Ends what is out of time. */
void dlk_session_expire(dlk_session *session, int64_t now);
/* True when it was time to sweep the places. */
bool dlk_session_sweep(dlk_session *session, int64_t now);
/* When to come back: @p next, or sooner. */
int64_t dlk_session_next(const dlk_session *session, int64_t next);

/* For the backend's table. */
void dlk_session_ask(dlk_backend *backend, dlk_ask *ask, int64_t now);
dlock_err dlk_session_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err);
void dlk_session_key_close(dlk_backend *backend, dlk_key *key);
void dlk_session_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now);

#endif
