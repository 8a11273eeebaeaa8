/* The life of a connection; see the header. */
#include "backends/redis/connection.h"

#include "backends/redis/greeting.h"
#include "backends/redis/internal.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <string.h>

bool dlk_redis_connection_init(dlk_redis_connection *connection, dlk_redis *redis,
                               const dlk_redis_hooks *hooks)
{
    connection->redis = redis;
    connection->hooks = hooks;
    connection->dial.fd = -1;
    connection->backoff = redis->backoff;
    dlk_stream_init(&connection->stream);
    connection->reader = dlk_resp_new();
    return connection->reader != NULL;
}

void dlk_redis_connection_free(dlk_redis_connection *connection)
{
    dlk_resp_free(connection->reader);
    dlk_stream_free(&connection->stream);
    dlk_error_clear(&connection->doom);
}

const char *dlk_redis_host_of(const dlk_redis_connection *connection)
{
    return connection->host ? connection->host : connection->redis->host;
}

const char *dlk_redis_place_of(const dlk_redis_connection *connection)
{
    return connection->place ? connection->place : connection->redis->place;
}

static void count_sent(dlk_redis_connection *connection)
{
    int64_t taken = connection->stream.taken;
    connection->redis->base.host->bytes_sent += taken - connection->counted;
    connection->counted = taken;
}

static void enter_phase(dlk_redis_connection *connection, dlk_redis_phase phase)
{
    connection->phase = phase;
    connection->redis->base.host->wiring++;
}

/* Nobody waits for a message's subscription. A reset could take a release back that stands behind an
 * acquire: a server that fails to answer the one doesn't read the other any more. */
static dlk_ending ending_of(const dlk_redis_connection *connection)
{
    const dlk_redis *redis = connection->redis;
    bool harmless =
        connection != &redis->commands || (dlk_flight_undoes_itself(&redis->flight) &&
                                           dlk_buf_size(&connection->stream.out) == 0);
    return connection->phase == DLK_PHASE_READY && harmless ? DLK_END_ORDERLY
                                                            : DLK_END_RESET;
}

/* Lets go of whatever the present phase uses. */
static void let_go(dlk_redis_connection *connection, dlk_redis_phase next,
                   dlk_ending ending)
{
    count_sent(connection);
    enter_phase(connection, next);
    dlk_lookup_drop(connection->lookup);
    connection->lookup = NULL;
    dlk_dial_end(&connection->dial);
    dlk_stream_close(&connection->stream, ending);
    (void)dlk_stream_reap(&connection->stream); /* else whoever still uses it does that */
    dlk_error_clear(&connection->doom);
}

void dlk_redis_connection_stop(dlk_redis_connection *connection)
{
    if (connection->phase != DLK_PHASE_OFF)
        let_go(connection, DLK_PHASE_OFF, ending_of(connection));
}

void dlk_redis_connection_drop(dlk_redis_connection *connection, dlock_error *error,
                               int64_t now)
{
    dlk_redis *redis = connection->redis;
    let_go(connection, DLK_PHASE_RESTING, DLK_END_RESET);
    connection->retry_at =
        now + dlk_backoff_next(&connection->backoff, redis->base.host->rand);
    connection->hooks->down(connection, error, now);
    dlk_error_clear(&error);
}

static void fail_dial(dlk_redis_connection *connection, int64_t now)
{
    int number = connection->dial.error;
    char text[128];
    dlock_err code = number == EACCES || number == EPERM ? DLOCK_EACCES : DLOCK_EUNAVAIL;
    dlk_redis_connection_drop(connection,
                              dlk_error_make(code, "redis: can't connect to %s: %s",
                                             dlk_redis_place_of(connection),
                                             strerror_r(number, text, sizeof(text))),
                              now);
}

/* From here on all that is said is encrypted, and said only to who has the right certificate. */
static dlock_error *secure(dlk_redis_connection *connection)
{
    dlk_redis *redis = connection->redis;
    if (dlk_tls_blind(redis->tls) && !redis->warned_blind)
        redis->base.host->log(redis->base.host, DLOCK_LOG_WARN,
                              "redis: nobody checks who answers at %s: "
                              "tls.verify=insecure_none",
                              dlk_redis_place_of(connection));
    redis->warned_blind = true;
    return dlk_tls_begin(redis->tls, &connection->stream, dlk_redis_host_of(connection),
                         connection->host ? connection->port : redis->port);
}

static void greet(dlk_redis_connection *connection, int64_t now)
{
    dlk_stream_open(&connection->stream, connection->dial.fd);
    connection->counted = 0;
    connection->dial.fd = -1;
    enter_phase(connection, DLK_PHASE_GREETING);
    connection->step = connection->step_count = 0;
    dlock_error *error = connection->redis->tls ? secure(connection) : NULL;
    if (!error && !dlk_resp_reset(connection->reader))
        error = dlk_error_make(DLOCK_ENOMEM, "redis: out of memory");
    if (!error)
        error = connection->hooks->greet(connection);
    if (error) {
        dlk_redis_connection_drop(connection, error, now);
    } else if (connection->step_count == 0) { /* nothing to be said */
        enter_phase(connection, DLK_PHASE_READY);
        connection->hooks->ready(connection, now);
    }
}

static void dial_on(dlk_redis_connection *connection, int64_t now)
{
    int fd = connection->dial.fd;
    dlk_dialled result = dlk_dial_step(&connection->dial, now);
    if (result != DLK_DIAL_PENDING || connection->dial.fd != fd)
        dlk_redis_wake(connection->redis); /* a driver may be polling what is gone */
    switch (result) {
    case DLK_DIAL_PENDING:
        return;
    case DLK_DIAL_DONE:
        greet(connection, now);
        return;
    case DLK_DIAL_FAILED:
        fail_dial(connection, now);
        return;
    }
}

static void dial(dlk_redis_connection *connection, int64_t now)
{
    enter_phase(connection, DLK_PHASE_DIAL);
    dlk_dial_begin(&connection->dial, connection->attempt_until);
    dial_on(connection, now);
}

void dlk_redis_connection_start(dlk_redis_connection *connection, int64_t now)
{
    connection->attempt_until = now + connection->redis->connect_ns;
    if (!connection->hooks->seek) {
        dlk_redis_connection_dial(connection, now);
        return;
    }
    enter_phase(connection, DLK_PHASE_LOOKUP);
    dlk_redis_wake(connection->redis);
    connection->hooks->seek(connection, now);
}

void dlk_redis_connection_dial(dlk_redis_connection *connection, int64_t now)
{
    dlk_redis *redis = connection->redis;
    connection->dial.addresses = connection->to;
    if (connection->dial.addresses.count > 0) {
        dial(connection, now);
        return;
    }
    const char *host = dlk_redis_host_of(connection);
    enter_phase(connection, DLK_PHASE_LOOKUP);
    connection->lookup =
        dlk_lookup_start(host, connection->host ? connection->port : redis->port);
    dlk_redis_wake(redis);
    if (!connection->lookup)
        dlk_redis_connection_drop(
            connection,
            dlk_error_make(DLOCK_EUNAVAIL,
                           "redis: can't begin to look up %s: no memory or threads",
                           host),
            now);
}

static void look_at_lookup(dlk_redis_connection *connection, int64_t now)
{
    if (!connection->lookup || !dlk_lookup_ended(connection->lookup))
        return;
    const char *why;
    bool found = dlk_lookup_result(connection->lookup, &connection->dial.addresses, &why);
    dlk_lookup_drop(connection->lookup);
    connection->lookup = NULL;
    if (found)
        dial(connection, now);
    else
        dlk_redis_connection_drop(connection,
                                  dlk_error_make(DLOCK_EUNAVAIL,
                                                 "redis: can't find %s: %s",
                                                 dlk_redis_host_of(connection), why),
                                  now);
}

static void give_up(dlk_redis_connection *connection, int64_t now)
{
    const char *what = "connected, but it doesn't answer";
    if (connection->phase == DLK_PHASE_GREETING && connection->stream.coat &&
        dlk_tls_unanswered(&connection->stream))
        what = "connected, but it doesn't begin with TLS (is that a port for redis://?)";
    if (connection->phase == DLK_PHASE_LOOKUP)
        what = connection->lookup ? "the name service doesn't answer"
                                  : "it isn't known where that is";
    dlk_redis_connection_drop(
        connection,
        dlk_error_make(DLOCK_EUNAVAIL, "redis: %s: %s within %lld ms",
                       dlk_redis_place_of(connection), what,
                       (long long)(connection->redis->connect_ns / DLK_NS_PER_MS)),
        now);
}

int64_t dlk_redis_connection_tick(dlk_redis_connection *connection, int64_t now)
{
    if (connection->phase == DLK_PHASE_RESTING && now >= connection->retry_at) {
        /* The driver was woken by the shutdown, but may not have left its sleep yet. */
        if (!dlk_stream_reap(&connection->stream))
            return now + DLK_NS_PER_MS;
        dlk_redis_connection_start(connection, now);
    }
    if (connection->phase == DLK_PHASE_DIAL)
        dial_on(connection, now);
    if ((connection->phase == DLK_PHASE_LOOKUP ||
         connection->phase == DLK_PHASE_GREETING) &&
        now >= connection->attempt_until)
        give_up(connection, now);
    switch (connection->phase) {
    case DLK_PHASE_LOOKUP:
    case DLK_PHASE_GREETING:
        return connection->attempt_until;
    case DLK_PHASE_DIAL:
        return connection->dial.until;
    case DLK_PHASE_RESTING:
        return connection->retry_at;
    case DLK_PHASE_OFF:
    case DLK_PHASE_READY:
        break;
    }
    return DLK_NEVER;
}

void dlk_redis_connection_arm(dlk_redis_connection *connection, struct pollfd *poll)
{
    *poll = (struct pollfd){.fd = -1, .events = POLLIN};
    if (connection->phase == DLK_PHASE_LOOKUP) {
        poll->fd = connection->lookup ? dlk_lookup_fd(connection->lookup) : -1;
    } else if (connection->phase == DLK_PHASE_DIAL) {
        poll->fd = connection->dial.fd;
        poll->events = POLLOUT;
    } else if (connection->phase == DLK_PHASE_GREETING ||
               connection->phase == DLK_PHASE_READY) {
        poll->fd = atomic_load(&connection->stream.fd);
        connection->frozen = true;
        dlk_stream_arm(&connection->stream);
    }
}

short dlk_redis_connection_push(dlk_redis_connection *connection, short events)
{
    return connection->frozen ? dlk_stream_push(&connection->stream) : events;
}

void dlk_redis_connection_pull(dlk_redis_connection *connection)
{
    if (connection->frozen)
        dlk_stream_pull(&connection->stream);
}

/* A reply to the greeting; the last one makes the connection ready. */
static dlock_error *take_greeting(dlk_redis_connection *connection, const dlk_resp *reply,
                                  int64_t now)
{
    dlock_error *error = dlk_redis_greeted(connection, reply, now);
    if (error || connection->step < connection->step_count)
        return error;
    enter_phase(connection, DLK_PHASE_READY);
    connection->hooks->ready(connection, now);
    return NULL;
}

/* Servers for TLS hang up, or send a TLS alert, when they are greeted without it. */
#define HINT       ": does it expect TLS (rediss://)?"
#define TLS_RECORD 0x15

static bool may_expect_tls(const dlk_redis_connection *connection)
{
    return !connection->redis->tls && connection->phase == DLK_PHASE_GREETING &&
           connection->step == 0;
}

/* The hooks may end the connection, so its phase is looked at anew after each of them. */
static void digest(dlk_redis_connection *connection, int64_t now)
{
    dlk_stream *stream = &connection->stream;
    connection->redis->base.host->bytes_received += (int64_t)stream->in_size;
    bool alert = stream->in[0] == TLS_RECORD && may_expect_tls(connection);
    bool fine = dlk_resp_feed(connection->reader, stream->in, stream->in_size);
    stream->in_size = 0;
    dlock_error *error = NULL;
    while (fine && !error &&
           (connection->phase == DLK_PHASE_GREETING ||
            connection->phase == DLK_PHASE_READY)) {
        const dlk_resp *reply;
        dlk_resp_got got = dlk_resp_next(connection->reader, &reply);
        if (got == DLK_RESP_MORE)
            return;
        fine = got == DLK_RESP_ONE;
        if (fine)
            error = connection->phase == DLK_PHASE_GREETING
                        ? take_greeting(connection, reply, now)
                        : connection->hooks->reply(connection, reply, now);
    }
    if (!fine)
        error = dlk_error_make(dlk_resp_out_of_memory(connection->reader) ? DLOCK_ENOMEM
                                                                          : DLOCK_EPROTO,
                               "redis: what %s answers can't be understood: %s%s",
                               dlk_redis_place_of(connection),
                               dlk_resp_problem(connection->reader), alert ? HINT : "");
    if (error)
        dlk_redis_connection_drop(connection, error, now);
}

static void fail_stream(dlk_redis_connection *connection, int64_t now)
{
    char why[400];
    dlock_err code = dlk_stream_why(&connection->stream, why, sizeof(why));
    if (may_expect_tls(connection))
        strncat(why, HINT, sizeof(why) - strlen(why) - 1);
    dlk_redis_connection_drop(
        connection,
        dlk_error_make(code, "redis: %s %s%s: %s",
                       code == DLOCK_EUNAVAIL ? "connection to" : "no TLS with",
                       dlk_redis_place_of(connection),
                       code == DLOCK_EUNAVAIL ? " lost" : "", why),
        now);
}

void dlk_redis_connection_process(dlk_redis_connection *connection, int64_t now)
{
    dlk_stream *stream = &connection->stream;
    if (connection->frozen) {
        connection->frozen = false;
        count_sent(connection);
        dlk_stream_disarm(stream);
        if (dlk_stream_reap(
                stream)) /* closed while the driver slept: too late for its bytes */
            stream->in_size = 0;
    }
    if (connection->phase == DLK_PHASE_LOOKUP)
        look_at_lookup(connection, now);
    else if (connection->phase == DLK_PHASE_DIAL)
        dial_on(connection, now);
    if (connection->phase != DLK_PHASE_GREETING && connection->phase != DLK_PHASE_READY)
        return;
    if (stream->in_size > 0)
        digest(connection, now);
    if (connection->phase != DLK_PHASE_GREETING && connection->phase != DLK_PHASE_READY)
        return;
    int failure = atomic_load(&stream->failure);
    if (connection->doom) {
        dlock_error *doom = connection->doom;
        connection->doom = NULL;
        dlk_redis_connection_drop(connection, doom, now);
    } else if (failure) {
        fail_stream(connection, now);
    }
}
