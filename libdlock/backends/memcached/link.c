/* The life of the connection; see inner.h. The driver's two steps touch only what arm has frozen,
 * all else happens under the client's mutex. */
#include "backends/memcached/inner.h"

#include "util/clock.h"

#include <errno.h>
#include <string.h>

/* One reply at most lies there in pieces. */
#define REST_MAX (DLK_MC_LINE_MAX + DLK_MC_VALUE_MAX + 16)

void dlk_mc_link_init(dlk_mc *mc)
{
    dlk_mc_link *link = &mc->link;
    link->dial.fd = -1;
    link->backoff.min_ms = dlk_settings_int(mc->settings, DLK_KEY_CLIENT_BACKOFF_MIN_MS);
    link->backoff.max_ms = dlk_settings_int(mc->settings, DLK_KEY_CLIENT_BACKOFF_MAX_MS);
    dlk_stream_init(&link->stream);
}

void dlk_mc_link_free(dlk_mc_link *link)
{
    dlk_stream_free(&link->stream);
    dlk_buf_free(&link->rest);
    dlk_error_clear(&link->doom);
}

static void count_sent(dlk_mc *mc)
{
    dlk_mc_link *link = &mc->link;
    mc->base.host->bytes_sent += link->stream.taken - link->counted;
    link->counted = link->stream.taken;
}

/* Lets go of whatever the present phase uses. */
static void let_go(dlk_mc *mc, dlk_mc_phase next, dlk_ending ending)
{
    dlk_mc_link *link = &mc->link;
    count_sent(mc);
    link->phase = next;
    dlk_lookup_drop(link->lookup);
    link->lookup = NULL;
    dlk_dial_end(&link->dial);
    dlk_stream_close(&link->stream, ending);
    (void)dlk_stream_reap(&link->stream); /* else whoever still uses it does that */
    dlk_error_clear(&link->doom);
}

void dlk_mc_link_stop(dlk_mc *mc)
{
    bool orderly =
        mc->link.phase == DLK_MC_READY && dlk_flight_may_come_late(&mc->flight);
    if (mc->link.phase != DLK_MC_OFF)
        let_go(mc, DLK_MC_OFF, orderly ? DLK_END_ORDERLY : DLK_END_RESET);
}

void dlk_mc_link_drop(dlk_mc *mc, dlock_error *error, int64_t now)
{
    let_go(mc, DLK_MC_RESTING, DLK_END_RESET);
    mc->link.retry_at = now + dlk_backoff_next(&mc->link.backoff, mc->base.host->rand);
    dlk_mc_down(mc, error);
    dlk_error_clear(&error);
}

/* ---- getting there ---- */

static void fail_dial(dlk_mc *mc, int64_t now)
{
    char text[128];
    int number = mc->link.dial.error;
    dlk_mc_link_drop(mc,
                     dlk_error_make(DLOCK_EUNAVAIL, "memcached: can't connect to %s: %s",
                                    mc->place,
                                    dlk_error_errno(number, text, sizeof(text))),
                     now);
}

static void greet(dlk_mc *mc, int64_t now)
{
    dlk_mc_link *link = &mc->link;
    dlk_stream_open(&link->stream, link->dial.fd);
    dlk_buf_clear(&link->rest);
    link->counted = 0;
    link->dial.fd = -1;
    link->phase = DLK_MC_GREETING;
    link->step = 0;
    if (!dlk_mc_greet(mc))
        dlk_mc_link_drop(mc, dlk_error_make(DLOCK_ENOMEM, "memcached: out of memory"),
                         now);
}

static void dial_on(dlk_mc *mc, int64_t now)
{
    dlk_dial *dial = &mc->link.dial;
    int fd = dial->fd;
    dlk_dialled result = dlk_dial_step(dial, now);
    if (result != DLK_DIAL_PENDING || dial->fd != fd)
        dlk_mc_wake(mc); /* a driver may be polling what is gone */
    if (result == DLK_DIAL_DONE)
        greet(mc, now);
    else if (result == DLK_DIAL_FAILED)
        fail_dial(mc, now);
}

static void dial(dlk_mc *mc, int64_t now)
{
    mc->link.phase = DLK_MC_DIAL;
    dlk_dial_begin(&mc->link.dial, mc->link.attempt_until);
    dial_on(mc, now);
}

void dlk_mc_link_start(dlk_mc *mc, int64_t now)
{
    dlk_mc_link *link = &mc->link;
    link->attempt_until = now + mc->connect_ns;
    link->dial.addresses = link->to;
    if (link->dial.addresses.count > 0) {
        dial(mc, now);
        return;
    }
    link->phase = DLK_MC_LOOKUP;
    link->lookup = dlk_lookup_start(mc->host, mc->port);
    dlk_mc_wake(mc);
    if (!link->lookup)
        dlk_mc_link_drop(
            mc,
            dlk_error_make(DLOCK_EUNAVAIL,
                           "memcached: can't begin to look up %s: no memory or threads",
                           mc->host),
            now);
}

static void look_at_lookup(dlk_mc *mc, int64_t now)
{
    dlk_mc_link *link = &mc->link;
    const char *why;
    if (!dlk_lookup_ended(link->lookup))
        return;
    bool found = dlk_lookup_result(link->lookup, &link->dial.addresses, &why);
    dlk_lookup_drop(link->lookup);
    link->lookup = NULL;
    if (found)
        dial(mc, now);
    else
        dlk_mc_link_drop(
            mc,
            dlk_error_make(DLOCK_EUNAVAIL, "memcached: can't find %s: %s", mc->host, why),
            now);
}

static void give_up(dlk_mc *mc, int64_t now)
{
    const char *what = mc->link.phase == DLK_MC_LOOKUP
                           ? "the name service doesn't answer"
                           : "connected, but it doesn't answer";
    dlk_mc_link_drop(mc,
                     dlk_error_make(DLOCK_EUNAVAIL, "memcached: %s: %s within %lld ms",
                                    mc->place, what,
                                    (long long)(mc->connect_ns / DLK_NS_PER_MS)),
                     now);
}

int64_t dlk_mc_link_tick(dlk_mc *mc, int64_t now)
{
    dlk_mc_link *link = &mc->link;
    if (link->phase == DLK_MC_RESTING && now >= link->retry_at) {
        /* The driver was woken by the shutdown, but may not have left its sleep yet. */
        if (!dlk_stream_reap(&link->stream))
            return now + DLK_NS_PER_MS;
        dlk_mc_link_start(mc, now);
    }
    if (link->phase == DLK_MC_DIAL)
        dial_on(mc, now);
    if ((link->phase == DLK_MC_LOOKUP || link->phase == DLK_MC_GREETING) &&
        now >= link->attempt_until)
        give_up(mc, now);
    switch (link->phase) {
    case DLK_MC_LOOKUP:
    case DLK_MC_GREETING:
        return link->attempt_until;
    case DLK_MC_DIAL:
        return link->dial.until;
    case DLK_MC_RESTING:
        return link->retry_at;
    case DLK_MC_OFF:
    case DLK_MC_READY:
        break;
    }
    return DLK_NEVER;
}

/* ---- the driver's steps ---- */

void dlk_mc_link_arm(dlk_mc *mc, struct pollfd *poll)
{
    dlk_mc_link *link = &mc->link;
    *poll = (struct pollfd){.fd = -1, .events = POLLIN};
    if (link->phase == DLK_MC_LOOKUP) {
        poll->fd = dlk_lookup_fd(link->lookup);
    } else if (link->phase == DLK_MC_DIAL) {
        poll->fd = link->dial.fd;
        poll->events = POLLOUT;
    } else if (link->phase == DLK_MC_GREETING || link->phase == DLK_MC_READY) {
        poll->fd = atomic_load(&link->stream.fd);
        link->frozen = true;
        dlk_stream_arm(&link->stream);
    }
}

short dlk_mc_link_push(dlk_mc *mc, short events)
{
    return mc->link.frozen ? dlk_stream_push(&mc->link.stream) : events;
}

void dlk_mc_link_pull(dlk_mc *mc)
{
    if (mc->link.frozen)
        dlk_stream_pull(&mc->link.stream);
}

static bool is_connected(const dlk_mc_link *link)
{
    return link->phase == DLK_MC_GREETING || link->phase == DLK_MC_READY;
}

static dlock_error *take(dlk_mc *mc, const dlk_mc_reply *reply, int64_t now)
{
    if (mc->link.phase == DLK_MC_READY)
        return dlk_mc_asks_reply(mc, reply, now);
    bool over = false;
    dlock_error *error = dlk_mc_greeted(mc, reply, &over);
    if (!error && over) {
        mc->link.phase = DLK_MC_READY;
        dlk_mc_up(mc, now);
    }
    return error;
}

/* Takes all complete replies from @p data. The rest is *ret_used bytes further on. */
static dlock_error *take_all(dlk_mc *mc, const char *data, size_t size, size_t *ret_used,
                             int64_t now)
{
    dlock_error *error = NULL;
    *ret_used = 0;
    while (!error && !mc->link.doom && size > *ret_used && is_connected(&mc->link)) {
        dlk_mc_reply reply;
        size_t used = 0;
        dlk_mc_got got = dlk_mc_parse(data + *ret_used, size - *ret_used, &reply, &used);
        if (got == DLK_MC_MORE)
            break;
        if (got == DLK_MC_BAD)
            return dlk_error_make(
                DLOCK_EPROTO,
                "memcached: what %s answers can't be understood: is it one?", mc->place);
        *ret_used += used;
        error = take(mc, &reply, now);
    }
    return error;
}

static void digest(dlk_mc *mc, int64_t now)
{
    dlk_mc_link *link = &mc->link;
    dlk_stream *stream = &link->stream;
    const char *data = stream->in;
    size_t size = stream->in_size, used = 0;
    bool pieces = dlk_buf_size(&link->rest) > 0, fine = true;
    mc->base.host->bytes_received += (int64_t)size;
    stream->in_size = 0;
    if (pieces) {
        fine = dlk_buf_append(&link->rest, data, size);
        data = dlk_buf_head(&link->rest);
        size = dlk_buf_size(&link->rest);
    }
    dlock_error *error = fine ? take_all(mc, data, size, &used, now) : NULL;
    if (!is_connected(link)) {
        dlk_error_clear(&error);
        return;
    }
    if (pieces && fine)
        dlk_buf_eat(&link->rest, used);
    else if (fine && !error && size > used)
        fine = dlk_buf_append(&link->rest, data + used, size - used);
    if (!fine || dlk_buf_size(&link->rest) > REST_MAX)
        error = dlk_error_make(DLOCK_ENOMEM, "memcached: out of memory");
    if (error)
        dlk_mc_link_drop(mc, error, now);
}

static void fail_stream(dlk_mc *mc, int number, int64_t now)
{
    char text[128];
    const char *why = number == DLK_STREAM_EOF
                          ? "it was closed by the server"
                          : dlk_error_errno(number, text, sizeof(text));
    dlk_mc_link_drop(mc,
                     dlk_error_make(DLOCK_EUNAVAIL,
                                    "memcached: connection to %s lost: %s", mc->place,
                                    why),
                     now);
}

void dlk_mc_link_process(dlk_mc *mc, int64_t now)
{
    dlk_mc_link *link = &mc->link;
    dlk_stream *stream = &link->stream;
    if (link->frozen) {
        link->frozen = false;
        count_sent(mc);
        dlk_stream_disarm(stream);
        if (dlk_stream_reap(stream)) /* closed while the driver slept: too late for it */
            stream->in_size = 0;
    }
    if (link->phase == DLK_MC_LOOKUP)
        look_at_lookup(mc, now);
    else if (link->phase == DLK_MC_DIAL)
        dial_on(mc, now);
    if (is_connected(link) && stream->in_size > 0)
        digest(mc, now);
    if (!is_connected(link))
        return;
    int failure = atomic_load(&stream->failure);
    if (link->doom) {
        dlock_error *doom = link->doom;
        link->doom = NULL;
        dlk_mc_link_drop(mc, doom, now);
    } else if (failure) {
        fail_stream(mc, failure, now);
    }
}
