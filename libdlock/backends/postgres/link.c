/* The connection: looks a server's name up, has libpq connect to its addresses one by one, greets, is ready;
 * after any failure it turns to the next server, or rests for a jittered while. */
#include "backends/postgres/inner.h"

#include "net/socket.h"
#include "util/clock.h"
#include "util/text.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- its end ---- */

void dlk_pg_hang_up(dlk_pg *pg)
{
    if (pg->fd >= 0)
        dlk_socket_end(pg->fd, dlk_flight_undoes_itself(&pg->flight) ? DLK_END_ORDERLY
                                                                     : DLK_END_RESET);
    pg->fd = -1;
    PQclear(pg->answer);
    pg->answer = NULL;
    if (pg->conn)
        PQfinish(pg->conn);
    pg->conn = NULL;
    pg->unsent = pg->hears = pg->broken = pg->doubtful = false;
    pg->said = pg->answers = pg->ear = 0;
    if (pg->lookup)
        dlk_lookup_drop(pg->lookup);
    pg->lookup = NULL;
    dlk_kick(pg->base.host->kicks); /* a driver may be asleep on what is gone */
}

static bool has_more_servers(const dlk_pg *pg)
{
    return pg->server + 1 < pg->server_count;
}

void dlk_pg_drop(dlk_pg *pg, dlock_error *why, int64_t now)
{
    bool was_ready = pg->phase == DLK_PG_READY;
    if (pg->phase == DLK_PG_OFF) {
        dlk_error_clear(&why);
        return;
    }
    dlk_pg_hang_up(pg);
    pg->phase = DLK_PG_RESTING;
    /* The next server at once, from the first on; and a pause behind the last. */
    bool next = !was_ready && has_more_servers(pg);
    pg->server = next ? pg->server + 1 : 0;
    pg->retry_at = next ? now : now + dlk_backoff_next(&pg->backoff, pg->base.host->rand);
    dlk_error_clear(&pg->why_down);
    pg->why_down = why;
    dlk_pg_asks_fail(pg);
    if (!next && pg->phase == DLK_PG_RESTING)
        pg->base.host->link(pg->base.host, false, pg->why_down);
}

/* ---- connecting ---- */

/* Nothing is printed; what schema.sql has done is kept. To whoever ends our wait for a standby the server says
 * that it has committed, with a warning, which has no state of its own; nor has what it warns of to whoever
 * connects, such as another version of a collation. */
static void take_notice(void *arg, const PGresult *notice)
{
    dlk_pg *pg = arg;
    const char *state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
    const char *words = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
    if (state && words && strcmp(state, DLK_PG_DONE) == 0 &&
        pg->phase == DLK_PG_GREETING) {
        (void)snprintf(pg->done, sizeof(pg->done), "%s", words);
        dlk_text_one_line(pg->done);
    }
    if (state && strcmp(state, "01000") == 0 && pg->phase == DLK_PG_READY)
        pg->doubtful = pg->synchronous;
}

/* libpq's own socket is a part of what is counted, closed in a fork's child by `forked`. */
static bool begin_at(dlk_pg *pg, const char *address)
{
    dlock_error *error = NULL;
    pg->conn = dlk_pg_begin(pg, address, &error);
    if (error) {
        dlk_error_clear(&pg->why_down);
        pg->why_down = error;
    }
    if (!pg->conn || PQstatus(pg->conn) == CONNECTION_BAD)
        return false;
    (void)PQsetErrorVerbosity(pg->conn, PQERRORS_VERBOSE);
    (void)PQsetNoticeReceiver(pg->conn, take_notice, pg);
    pg->fd = PQsocket(pg->conn);
    pg->wants = POLLOUT;
    pg->phase = DLK_PG_CONNECTING;
    dlk_kick(pg->base.host->kicks);
    return true;
}

static dlock_error *why_not(dlk_pg *pg)
{
    if (!pg->conn && pg->why_down) {
        dlock_error *error = pg->why_down;
        pg->why_down = NULL;
        return error;
    }
    return dlk_pg_link_error(pg);
}

/* The next address of the server; behind the last, it has failed. */
static void connect_next(dlk_pg *pg, dlock_error *why, int64_t now)
{
    char text[NI_MAXHOST];
    while (pg->address < pg->to.count) {
        /* Each has its share of the time, so that a dead one leaves some to those behind it. */
        pg->give_up = now + (pg->until - now) / (int64_t)(pg->to.count - pg->address);
        const dlk_address *to = &pg->to.item[pg->address++];
        bool plain = to->is.any.sa_family == AF_UNIX;
        if (!plain && getnameinfo(&to->is.any, to->size, text, sizeof(text), NULL, 0,
                                  NI_NUMERICHOST) != 0)
            continue;
        if (begin_at(pg, plain ? NULL : text)) {
            dlk_error_clear(&why);
            return;
        }
        dlk_error_clear(&why);
        why = why_not(pg);
        dlk_pg_hang_up(pg);
    }
    dlk_pg_drop(
        pg,
        why ? why : dlk_error_make(DLOCK_EUNAVAIL, "postgres: no address to connect to"),
        now);
}

static void looked_up(dlk_pg *pg, int64_t now)
{
    const char *why = NULL;
    const dlk_pg_server *server = &pg->servers[pg->server];
    if (!dlk_lookup_ended(pg->lookup))
        return;
    bool found = dlk_lookup_result(pg->lookup, &pg->to, &why);
    dlk_lookup_drop(pg->lookup);
    pg->lookup = NULL;
    if (found)
        connect_next(pg, NULL, now);
    else
        dlk_pg_drop(pg,
                    dlk_error_make(DLOCK_EUNAVAIL, "postgres: %s:%d: %s", server->host,
                                   server->port, why),
                    now);
}

void dlk_pg_start(dlk_pg *pg, int64_t now)
{
    const dlk_pg_server *server = &pg->servers[pg->server];
    pg->until = now + pg->connect_ns;
    pg->address = 0;
    pg->to.count = 0;
    pg->phase = DLK_PG_LOOKUP;
    if (server->host[0] == '/') {
        pg->to.count = 1;
        pg->to.item[0].is.any.sa_family = AF_UNIX;
        connect_next(pg, NULL, now);
    } else if (dlk_address_numeric(server->host, server->port, &pg->to)) {
        connect_next(pg, NULL, now);
    } else if ((pg->lookup = dlk_lookup_start(server->host, server->port))) {
        dlk_kick(pg->base.host->kicks);
    } else {
        dlk_pg_drop(pg, dlk_error_make(DLOCK_ENOMEM, "postgres: out of memory"), now);
    }
}

/* Whether there is what libpq wants. Asked without it, as when somebody woke the driver, it would wait for the socket. */
static bool is_due(const dlk_pg *pg)
{
    struct pollfd socket = {.fd = pg->fd, .events = pg->wants};
    return poll(&socket, 1, 0) > 0;
}

static void connect_on(dlk_pg *pg, int64_t now)
{
    if (!is_due(pg))
        return;
    PostgresPollingStatusType status = PQconnectPoll(pg->conn);
    if (pg->fd != PQsocket(pg->conn)) {
        pg->fd = PQsocket(pg->conn);
        dlk_kick(pg->base.host->kicks);
    }
    switch (status) {
    case PGRES_POLLING_READING:
        pg->wants = POLLIN;
        return;
    case PGRES_POLLING_WRITING:
        pg->wants = POLLOUT;
        return;
    case PGRES_POLLING_OK:
        pg->phase = DLK_PG_GREETING;
        if (PQsetnonblocking(pg->conn, 1) == 0 && PQenterPipelineMode(pg->conn) == 1 &&
            dlk_pg_greet(pg)) {
            dlk_kick(pg->base.host->kicks);
            return;
        }
        break;
    case PGRES_POLLING_FAILED:
    case PGRES_POLLING_ACTIVE: /* libpq has no use for it any more */
        break;
    }
    dlock_error *why = dlk_pg_link_error(pg);
    dlk_pg_hang_up(pg);
    connect_next(pg, why, now);
}

/* ---- talking ---- */

/* libpq sends what it can by itself. */
static void note_unsent(dlk_pg *pg)
{
    pg->unsent = PQflush(pg->conn) == 1;
    if (pg->unsent)
        dlk_kick(pg->base.host->kicks); /* to wait until there is room */
}

/* What the functions do is committed when a standby has it, whatever the server or the user is set to. Where by now
 * there is none to wait for, that is no value of the setting, and they do nothing. */
static const char *make_synchronous(const dlk_pg *pg, const char *statement, char *to,
                                    size_t room)
{
    static const char call[] = "SELECT * FROM dlock.";
    if (!pg->synchronous || strncmp(statement, call, strlen(call)) != 0)
        return statement;
    (void)snprintf(to, room,
                   "SELECT f.* FROM set_config('synchronous_commit', CASE "
                   "current_setting('synchronous_standby_names') WHEN '' THEN "
                   "'no standby' ELSE 'on' END, true), dlock.%s AS f",
                   statement + strlen(call));
    return to;
}

bool dlk_pg_say(dlk_pg *pg, const char *statement, int count, const char *const *values,
                const int *sizes)
{
    enum { MOST = 12 };
    int formats[MOST];
    char text[320];
    statement = make_synchronous(pg, statement, text, sizeof(text));
    for (int i = 0; i < count; i++)
        formats[i] = sizes[i] > 0;
    pg->base.host->commands++;
    pg->said++;
    bool fine = !pg->broken &&
                PQsendQueryParams(pg->conn, statement, count, NULL, values, sizes,
                                  formats, 0) == 1 &&
                PQpipelineSync(pg->conn) == 1;
    if (fine)
        note_unsent(pg);
    else
        dlk_pg_break_off(pg);
    return fine;
}

void dlk_pg_break_off(dlk_pg *pg)
{
    pg->broken = true;
    dlk_kick(pg->base.host->kicks);
}

static void ready(dlk_pg *pg)
{
    pg->phase = DLK_PG_READY;
    dlk_backoff_reset(&pg->backoff);
    dlk_error_clear(&pg->why_down);
    if (pg->done[0])
        pg->base.host->log(pg->base.host, DLOCK_LOG_INFO, "postgres: %s", pg->done);
    if (pg->pooled)
        pg->base.host->log(
            pg->base.host, DLOCK_LOG_INFO,
            "postgres: through a pool of connections there are no messages: "
            "who waits asks again every client.retry_ms");
    dlk_pg_lend_ear(pg);
    pg->base.host->link(pg->base.host, true, NULL);
}

static bool is_connected(const dlk_pg *pg)
{
    return pg->phase == DLK_PG_GREETING || pg->phase == DLK_PG_READY;
}

/* What was answered counts when its transaction has ended: the server says it before it commits. */
static dlock_error *end_answer(dlk_pg *pg)
{
    PGresult *result = pg->answer;
    dlock_error *why;
    bool done = false;
    pg->answer = NULL;
    if (!result)
        return dlk_pg_nonsense();
    if (pg->doubtful) {
        PQclear(result);
        return dlk_error_make(DLOCK_EUNAVAIL,
                              "postgres: a commit may not have reached the standby");
    }
    if (pg->phase == DLK_PG_GREETING) {
        pg->answers++;
        why = dlk_pg_greeted(pg, result, &done);
    } else {
        why = dlk_pg_answered(pg, result);
    }
    PQclear(result);
    if (!why && done)
        ready(pg);
    return why;
}

/* Of the results until the end of a transaction an error is the one that counts, as where the commit failed. One
 * without a state is libpq's own: nothing is known of what was asked. Takes over @p result. */
static void take_result(dlk_pg *pg, PGresult *result, int64_t now)
{
    ExecStatusType status = PQresultStatus(result);
    bool failed = status == PGRES_FATAL_ERROR;
    dlock_error *why = NULL;
    if (status == PGRES_PIPELINE_SYNC)
        why = end_answer(pg);
    else if (failed && !PQresultErrorField(result, PG_DIAG_SQLSTATE))
        why = dlk_pg_link_error(pg);
    else if (pg->answer && !failed)
        why = dlk_pg_nonsense();
    if (why || status == PGRES_PIPELINE_SYNC) {
        PQclear(result);
    } else {
        PQclear(pg->answer);
        pg->answer = result;
    }
    if (why)
        dlk_pg_drop(pg, why, now);
}

static void take_messages(dlk_pg *pg, int64_t now)
{
    PGnotify *message;
    while (is_connected(pg) && (message = PQnotifies(pg->conn))) {
        if (strcmp(message->relname, pg->channel) == 0)
            dlk_pg_heard(pg, message->extra, now);
        PQfreemem(message);
    }
}

/* Whether the last answer was none: behind each statement's answers stands a NULL. */
static void take_results(dlk_pg *pg, int64_t now)
{
    bool empty = false;
    while (is_connected(pg) && !PQisBusy(pg->conn)) {
        PGresult *result = PQgetResult(pg->conn);
        if (!result && empty)
            return; /* two of them: there are no more */
        empty = !result;
        if (result)
            take_result(pg, result, now);
    }
}

void dlk_pg_process(dlk_pg *pg, int64_t now)
{
    if (pg->phase == DLK_PG_LOOKUP && pg->lookup)
        looked_up(pg, now);
    else if (pg->phase == DLK_PG_CONNECTING)
        connect_on(pg, now);
    if (!is_connected(pg))
        return;
    bool fine = PQconsumeInput(pg->conn) == 1;
    take_results(pg, now);
    take_messages(pg, now);
    if (pg->phase == DLK_PG_READY)
        dlk_pg_send_renewals(pg);
    if (is_connected(pg) && (!fine || pg->broken || PQstatus(pg->conn) == CONNECTION_BAD))
        dlk_pg_drop(pg, dlk_pg_link_error(pg), now);
    else if (is_connected(pg))
        note_unsent(pg);
}

/* ---- the driver, and time ---- */

void dlk_pg_arm(dlk_pg *pg, dlk_polls *polls)
{
    if (pg->phase == DLK_PG_LOOKUP && pg->lookup) {
        dlk_polls_add(polls, dlk_lookup_fd(pg->lookup), POLLIN);
    } else if (pg->phase == DLK_PG_CONNECTING) {
        dlk_polls_add(polls, pg->fd, pg->wants);
    } else if (is_connected(pg)) {
        if (pg->phase == DLK_PG_READY)
            dlk_pg_send_renewals(pg);
        pg->unsent = PQflush(pg->conn) == 1;
        dlk_polls_add(polls, pg->fd, pg->unsent ? POLLIN | POLLOUT : POLLIN);
    }
}

static dlock_error *late(const dlk_pg *pg)
{
    return dlk_error_make(DLOCK_EUNAVAIL, "postgres: %s:%d: no answer in time",
                          pg->servers[pg->server].host, pg->servers[pg->server].port);
}

int64_t dlk_pg_tick(dlk_pg *pg, int64_t now)
{
    if (pg->phase == DLK_PG_RESTING && now >= pg->retry_at)
        dlk_pg_start(pg, now);
    if (pg->phase == DLK_PG_LOOKUP && pg->lookup)
        looked_up(pg, now);
    if (is_connected(pg) && pg->broken)
        dlk_pg_drop(pg, dlk_pg_link_error(pg), now);
    if (pg->phase == DLK_PG_CONNECTING && now >= pg->give_up && now < pg->until) {
        dlk_pg_hang_up(pg);
        connect_next(pg, late(pg), now);
    }
    bool trying = pg->phase == DLK_PG_LOOKUP || pg->phase == DLK_PG_CONNECTING ||
                  pg->phase == DLK_PG_GREETING;
    if (trying && now >= pg->until)
        dlk_pg_drop(pg, late(pg), now);
    else if (pg->phase == DLK_PG_READY && dlk_flight_due(&pg->flight, now) <= now)
        dlk_pg_drop(pg, dlk_error_make(DLOCK_EUNAVAIL, "postgres: no answer in time"),
                    now);
    switch (pg->phase) {
    case DLK_PG_RESTING:
        return pg->retry_at;
    case DLK_PG_READY: {
        int64_t answers = dlk_flight_due(&pg->flight, now), look = dlk_pg_look(pg, now);
        return answers < look ? answers : look;
    }
    case DLK_PG_OFF:
        return DLK_NEVER;
    case DLK_PG_CONNECTING:
        return pg->give_up;
    case DLK_PG_LOOKUP:
    case DLK_PG_GREETING:
        break;
    }
    return pg->until;
}
