/* Between backend.h and the places and reports of a client; see the header. */
#include "session/session.h"

#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>

/* ---- begin and end ---- */

void dlk_session_init(dlk_session *session, const dlk_backend_type *backend,
                      const dlk_session_type *type, dlk_host *host)
{
    session->backend = (dlk_backend){.type = backend, .host = host};
    session->type = type;
    session->sweep_at = DLK_NEVER;
    dlk_flight_init(&session->flight, host);
    dlk_list_init(&session->places);
    dlk_list_init(&session->reports);
}

void dlk_session_clear(dlk_session *session)
{
    dlk_places_free(session);
    dlk_reports_free(session);
    dlk_error_clear(&session->why_down);
}

void dlk_session_up(dlk_session *session, int64_t now)
{
    dlk_host *host = session->backend.host;
    host->reconnects += session->was_up;
    session->was_up = true;
    dlk_error_clear(&session->why_down);
    session->sweep_at = now;
    host->link(host, true, NULL);
}

void dlk_session_down(dlk_session *session, dlock_error *why)
{
    dlk_host *host = session->backend.host;
    dlk_error_clear(&session->why_down);
    session->why_down = why;
    host->link(host, false, why);
}

void dlk_session_stop(dlk_session *session, dlock_error *why)
{
    dlk_error_clear(&session->why_down);
    session->why_down = why;
    dlk_places_forget(session, why, dlk_clock_now());
    dlk_reports_stop(session);
    dlk_flight_answer_all(&session->flight, DLK_UNKNOWN);
}

/* ---- names ---- */

dlock_err dlk_session_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    dlk_session *session = dlk_session_of(backend);
    dlk_line *line = calloc(1, session->type->line_size);
    if (!line)
        return dlk_error_nomem(err);
    line->session = session;
    line->refs = 1;
    line->key = key;
    line->kind = key->kind;
    dlk_list_init(&line->places);
    dlock_err code = session->type->line_open(line, key, err);
    if (code != DLOCK_OK) {
        dlk_line_unref(line);
        return code;
    }
    key->data = line;
    key->hands_on = key->told_exports =
        session->type->hands_on && key->kind == DLOCK_MUTEX &&
        (!session->type->line_hands_on || session->type->line_hands_on(line));
    key->queues = true;
    key->tells_all = true;
    return DLOCK_OK;
}

void dlk_session_key_close(dlk_backend *backend, dlk_key *key)
{
    dlk_line *line = dlk_line_of(key);
    key->data = NULL;
    dlk_session_of(backend)->type->line_watch(line, false);
    dlk_line_orphan(line, dlk_clock_now());
    line->key = NULL;
    dlk_line_unref(line);
}

void dlk_session_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now)
{
    dlk_line *line = dlk_line_of(key);
    dlk_host *host = backend->host;
    (void)now;
    dlk_session_of(backend)->type->line_watch(line, on);
    if (on && !dlk_line_waits(line)) /* the look that follows leaves a watch */
        host->notified(host, key);
}

/* ---- asking ---- */

/* What the service can't do it refuses, for this reason; NULL: it can. */
static void report(dlk_session *session, dlk_ask *ask, const char *why_not, int64_t now)
{
    if (why_not)
        dlk_flight_refuse(&session->flight, ask,
                          dlk_error_make(DLOCK_ENOTSUP, "%s", why_not));
    else
        dlk_report_begin(session, ask, now);
}

static void dispatch(dlk_session *session, dlk_ask *ask, int64_t now)
{
    switch (ask->verb) {
    case DLK_ACQUIRE:
        dlk_place_acquire(session, ask, now);
        return;
    case DLK_RELEASE:
        dlk_place_release(session, ask, now);
        return;
    case DLK_RENEW:
        dlk_place_renew(session, ask, now);
        return;
    case DLK_VERIFY:
        dlk_place_verify(session, ask, now);
        return;
    case DLK_BREAK:
    case DLK_INSPECT:
    case DLK_LIST:
    case DLK_DOCTOR:
        report(session, ask, NULL, now);
        return;
    case DLK_SIGNAL:
        report(session, ask,
               ask->key->kind == DLK_KIND_CONDITION ? NULL
                                                    : "only a condition has signals",
               now);
        return;
    case DLK_REVOKE:
        report(session, ask, session->type->no_revoke, now);
        return;
    case DLK_IMPORT:
        if (ask->key->hands_on)
            dlk_place_acquire(session, ask, now);
        else
            report(session, ask, session->type->no_import, now);
        return;
    }
}

void dlk_session_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    dlk_session *session = dlk_session_of(backend);
    dlk_ask *outer = dlk_flight_begin(&session->flight, ask);
    if (session->type->is_up(session))
        dispatch(session, ask, now);
    else
        dlk_flight_not_sent(ask, session->why_down);
    dlk_flight_end(&session->flight, outer);
}

/* ---- time ---- */

/* Whoever asked has its answer; what was asked goes on. */
static void give_up(dlk_backend *backend, dlk_ask *ask)
{
    dlk_session *session = dlk_session_of(backend);
    dlk_place_drop(ask);
    dlk_reports_drop(session, ask);
    dlk_flight_answer(&session->flight, ask, DLK_UNKNOWN);
}

void dlk_session_expire(dlk_session *session, int64_t now)
{
    dlk_flight_expire(&session->flight, now, &session->backend, give_up);
}

bool dlk_session_sweep(dlk_session *session, int64_t now)
{
    if (!session->type->is_up(session) || now < session->sweep_at)
        return false;
    session->sweep_at = DLK_NEVER;
    dlk_places_sweep(session, now);
    return true;
}

int64_t dlk_session_next(const dlk_session *session, int64_t next)
{
    if (session->type->is_up(session) && session->sweep_at < next)
        next = session->sweep_at;
    return session->flight.deadline < next ? session->flight.deadline : next;
}
