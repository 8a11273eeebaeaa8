/* The life of a connection; see the header. */
#include "backends/redis/connection.h"

#include "backends/redis/greeting.h"
#include "backends/redis/internal.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static void count_sent(dlk_redis_connection *connection)
{
    int64_t taken = connection->stream.taken;
    connection->redis->base.host->bytes_sent += taken - connection->counted;
    connection->counted = taken;
}

/* Lets go of whatever the present phase uses. */
static void let_go(dlk_redis_connection *connection, dlk_redis_phase next)
{
    count_sent(connection);
    connection->phase = next;
    dlk_lookup_drop(connection->lookup);
    connection->lookup = NULL;
    dlk_dial_end(&connection->dial);
    dlk_stream_close(&connection->stream);
    (void)dlk_stream_reap(&connection->stream); /* else whoever still uses it does that */
    dlk_error_clear(&connection->doom);
}

void dlk_redis_connection_stop(dlk_redis_connection *connection)
{
    if (connection->phase != DLK_PHASE_OFF)
        let_go(connection, DLK_PHASE_OFF);
}

void dlk_redis_connection_drop(dlk_redis_connection *connection, dlock_error *error,
                               int64_t now)
{
    dlk_redis *redis = connection->redis;
    let_go(connection, DLK_PHASE_RESTING);
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
                                             connection->redis->place,
                                             strerror_r(number, text, sizeof(text))),
                              now);
}

static void greet(dlk_redis_connection *connection, int64_t now)
{
    dlk_stream_open(&connection->stream, connection->dial.fd);
    connection->counted = 0;
    connection->dial.fd = -1;
    connection->phase = DLK_PHASE_GREETING;
    connection->step = connection->step_count = 0;
    dlock_error *error = dlk_resp_reset(connection->reader)
                             ? connection->hooks->greet(connection)
                             : dlk_error_make(DLOCK_ENOMEM, "redis: out of memory");
    if (error)
        dlk_redis_connection_drop(connection, error, now);
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
    connection->phase = DLK_PHASE_DIAL;
    dlk_dial_begin(&connection->dial, connection->attempt_until);
    dial_on(connection, now);
}

void dlk_redis_connection_start(dlk_redis_connection *connection, int64_t now)
{
    dlk_redis *redis = connection->redis;
    connection->attempt_until = now + redis->connect_ns;
    connection->dial.addresses = connection->to;
    if (connection->dial.addresses.count > 0) {
        dial(connection, now);
        return;
    }
    connection->phase = DLK_PHASE_LOOKUP;
    connection->lookup = dlk_lookup_start(redis->host, redis->port);
    dlk_redis_wake(redis);
    if (!connection->lookup)
        dlk_redis_connection_drop(
            connection,
            dlk_error_make(DLOCK_EUNAVAIL,
                           "redis: can't begin to look up %s: no memory or threads",
                           redis->host),
            now);
}

static void look_at_lookup(dlk_redis_connection *connection, int64_t now)
{
    if (!dlk_lookup_ended(connection->lookup))
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
                                                 connection->redis->host, why),
                                  now);
}

static void give_up(dlk_redis_connection *connection, int64_t now)
{
    const char *what = connection->phase == DLK_PHASE_LOOKUP
                           ? "the name service doesn't answer"
                           : "connected, but it doesn't answer";
    dlk_redis_connection_drop(
        connection,
        dlk_error_make(DLOCK_EUNAVAIL, "redis: %s: %s within %lld ms",
                       connection->redis->place, what,
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
        poll->fd = dlk_lookup_fd(connection->lookup);
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
    connection->phase = DLK_PHASE_READY;
    connection->hooks->ready(connection, now);
    return NULL;
}

/* The hooks may end the connection, so its phase is looked at anew after each of them. */
static void digest(dlk_redis_connection *connection, int64_t now)
{
    dlk_stream *stream = &connection->stream;
    connection->redis->base.host->bytes_received += (int64_t)stream->in_size;
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
        error = dlk_error_make(
            DLOCK_EPROTO, "redis: what %s answers can't be understood: %s",
            connection->redis->place, dlk_resp_problem(connection->reader));
    if (error)
        dlk_redis_connection_drop(connection, error, now);
}

static void fail_stream(dlk_redis_connection *connection, int number, int64_t now)
{
    char text[128];
    const char *why = number == DLK_STREAM_EOF ? "it was closed by the server"
                                               : strerror_r(number, text, sizeof(text));
    dlk_redis_connection_drop(connection,
                              dlk_error_make(DLOCK_EUNAVAIL,
                                             "redis: connection to %s lost: %s",
                                             connection->redis->place, why),
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
        fail_stream(connection, failure, now);
    }
}

void dlk_redis_connection_forked(dlk_redis_connection *connection)
{
    if (connection->dial.fd >= 0)
        (void)syscall(SYS_close, connection->dial.fd);
    dlk_lookup_forked(connection->lookup);
    dlk_stream_forked(&connection->stream);
}
