/* The life of a connection; see the header. */
#include "net/link.h"

#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- Beginning and end ---- */

void dlk_link_settings(dlk_link_common *common, const dlk_settings *settings)
{
    common->connect_ns =
        dlk_settings_int(settings, DLK_KEY_CLIENT_CONNECT_MS) * DLK_NS_PER_MS;
    common->backoff.min_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_BACKOFF_MIN_MS);
    common->backoff.max_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_BACKOFF_MAX_MS);
}

void dlk_link_init(dlk_link *link, dlk_link_common *common, const dlk_link_ops *ops)
{
    link->common = common;
    if (!common->tell)
        common->tell = &dlk_tell_nobody;
    link->ops = ops;
    link->dial.fd = link->polled = -1;
    link->backoff = common->backoff;
    dlk_stream_init(&link->stream);
}

void dlk_link_free(dlk_link *link)
{
    dlk_stream_free(&link->stream);
    dlk_error_clear(&link->doom);
}

void dlk_link_aim(dlk_link *link, const char *host, uint16_t port, const char *peer)
{
    link->host = host;
    link->port = port;
    link->peer = peer;
}

static void count_sent(dlk_link *link)
{
    int64_t taken = link->stream.taken;
    *link->common->bytes_sent += taken - link->counted;
    link->counted = taken;
}

static void enter_phase(dlk_link *link, dlk_link_phase phase)
{
    link->phase = phase;
    ++*link->common->wiring;
}

/* A driver may be polling what is gone, or not yet what is there. */
static void wake(const dlk_link *link)
{
    dlk_kick(link->common->kicks);
}

/* Lets go of whatever the present phase uses. */
static void let_go(dlk_link *link, dlk_link_phase next, dlk_ending ending)
{
    count_sent(link);
    enter_phase(link, next);
    dlk_lookup_drop(link->lookup);
    link->lookup = NULL;
    dlk_dial_end(&link->dial);
    dlk_stream_close(&link->stream, ending);
    (void)dlk_stream_reap(&link->stream); /* else whoever still uses it does that */
    dlk_error_clear(&link->doom);
}

void dlk_link_stop(dlk_link *link)
{
    if (link->phase == DLK_LINK_OFF)
        return;
    bool orderly = link->phase == DLK_LINK_READY &&
                   (!link->ops->harmless || link->ops->harmless(link));
    let_go(link, DLK_LINK_OFF, orderly ? DLK_END_ORDERLY : DLK_END_RESET);
}

void dlk_link_drop(dlk_link *link, dlock_error *error, int64_t now)
{
    dlk_link_note(link, error->code, error->text);
    let_go(link, DLK_LINK_RESTING, DLK_END_RESET);
    link->retry_at = now + dlk_backoff_next(&link->backoff, link->common->rand);
    DLK_TELL(link->common->tell, DLK_TELL_NET, "%s: down: %s; tried again in %lld ms",
             link->peer, error->text,
             (long long)((link->retry_at - now) / DLK_NS_PER_MS));
    link->ops->down(link, error, now);
    dlk_error_clear(&error);
}

void dlk_link_last_words(dlk_link *link)
{
    if (link->phase != DLK_LINK_READY)
        return;
    dlk_stream_arm(&link->stream);
    (void)dlk_stream_push(&link->stream);
    dlk_stream_disarm(&link->stream);
}

/* ---- Getting there ---- */

static void fail_dial(dlk_link *link, int64_t now)
{
    int number = link->dial.error;
    char text[128];
    dlk_link_note_dial(link, link->dial.addresses.count);
    dlock_err code = number == EACCES || number == EPERM ? DLOCK_EACCES : DLOCK_EUNAVAIL;
    dlk_link_drop(link,
                  dlk_error_make(code, "%s: can't connect to %s: %s",
                                 link->common->service, link->peer,
                                 dlk_error_errno(number, text, sizeof(text))),
                  now);
}

/* From here on all that is said is encrypted, and said only to who has the right certificate. */
static dlock_error *secure(dlk_link *link)
{
    dlk_link_common *common = link->common;
    if (dlk_tls_blind(common->tls) && !common->warned_blind) {
        char text[512];
        snprintf(text, sizeof(text),
                 "%s: nobody checks who answers at %s: tls.verify=insecure_none",
                 common->service, link->peer);
        link->ops->warn(link, text);
    }
    common->warned_blind = true;
    return dlk_tls_begin(common->tls, &link->stream, link->host, link->port);
}

static void tell_ready(const dlk_link *link, int64_t now)
{
    const dlk_link_common *common = link->common;
    char agreed[128];
    int64_t until;
    DLK_TELL(
        common->tell, DLK_TELL_NET, "%s: greeted after %lld ms", link->peer,
        (long long)((now - link->attempt_until + common->connect_ns) / DLK_NS_PER_MS));
    if (!common->tls || !(atomic_load(&common->tell->topics) & DLK_TELL_TLS))
        return;
    dlk_tls_describe(&link->stream, agreed, sizeof(agreed), &until);
    DLK_TELL(common->tell, DLK_TELL_TLS, "%s: %s, session %s", link->peer, agreed,
             dlk_tls_resumed(&link->stream) ? "resumed" : "new");
}

void dlk_link_greeted(dlk_link *link, int64_t now)
{
    dlk_link_forget(link);
    tell_ready(link, now);
    enter_phase(link, DLK_LINK_READY);
    link->ops->ready(link, now);
}

static void greet(dlk_link *link, int64_t now)
{
    dlk_stream_open(&link->stream, link->dial.fd);
    link->counted = 0;
    link->dial.fd = -1;
    enter_phase(link, DLK_LINK_GREETING);
    DLK_TELL(link->common->tell, DLK_TELL_NET, "%s: connected, %s", link->peer,
             link->common->tls ? "TLS begins" : "greeted");
    link->step = 0;
    dlk_link_note_dial(link, link->dial.next - 1); /* those before it */
    dlock_error *error = link->common->tls ? secure(link) : NULL;
    dlk_link_note(link, DLOCK_EPENDING, DLK_WHYS_NO_ANSWER);
    if (!error)
        error = link->ops->greet(link, now);
    if (error)
        dlk_link_drop(link, error, now);
}

static void dial_on(dlk_link *link, int64_t now)
{
    int fd = link->dial.fd;
    dlk_dialled result = dlk_dial_step(&link->dial, now);
    if (result != DLK_DIAL_PENDING || link->dial.fd != fd)
        wake(link);
    switch (result) {
    case DLK_DIAL_PENDING:
        return;
    case DLK_DIAL_DONE:
        greet(link, now);
        return;
    case DLK_DIAL_FAILED:
        fail_dial(link, now);
        return;
    }
}

static void dial(dlk_link *link, int64_t now)
{
    enter_phase(link, DLK_LINK_DIAL);
    dlk_dial_begin(&link->dial, link->attempt_until);
    DLK_TELL(link->common->tell, DLK_TELL_NET, "%s: connecting, %zu address%s",
             link->peer, link->dial.addresses.count,
             link->dial.addresses.count == 1 ? "" : "es");
    dlk_link_note_dial(link, 0);
    dial_on(link, now);
}

void dlk_link_start(dlk_link *link, int64_t now)
{
    link->attempt_until = now + link->common->connect_ns;
    if (!link->ops->seek) {
        dlk_link_dial(link, now);
        return;
    }
    enter_phase(link, DLK_LINK_LOOKUP);
    wake(link);
    link->ops->seek(link, now);
}

void dlk_link_dial(dlk_link *link, int64_t now)
{
    link->dial.addresses = link->to;
    if (link->dial.addresses.count > 0) {
        dial(link, now);
        return;
    }
    enter_phase(link, DLK_LINK_LOOKUP);
    link->lookup = dlk_lookup_start(link->host, link->port);
    DLK_TELL(link->common->tell, DLK_TELL_NET, "%s: looking it up", link->peer);
    dlk_link_note(link, DLOCK_EPENDING, DLK_WHYS_NO_ANSWER);
    wake(link);
    if (!link->lookup)
        dlk_link_drop(
            link,
            dlk_error_make(DLOCK_EUNAVAIL,
                           "%s: can't begin to look up %s: no memory or threads",
                           link->common->service, link->host),
            now);
}

static void look_at_lookup(dlk_link *link, int64_t now)
{
    if (!link->lookup || !dlk_lookup_ended(link->lookup))
        return;
    const char *why;
    bool found = dlk_lookup_result(link->lookup, &link->dial.addresses, &why);
    if (!found)
        dlk_link_note(link, DLOCK_EUNAVAIL, why);
    dlk_lookup_drop(link->lookup);
    link->lookup = NULL;
    if (found)
        dial(link, now);
    else
        dlk_link_drop(link,
                      dlk_error_make(DLOCK_EUNAVAIL, "%s: can't find %s: %s",
                                     link->common->service, link->peer, why),
                      now);
}

/* ---- Time ---- */

static void give_up(dlk_link *link, int64_t now)
{
    const dlk_link_common *common = link->common;
    char what[128] = "connected, but it doesn't answer";
    if (link->phase == DLK_LINK_GREETING && link->stream.coat &&
        dlk_tls_unanswered(&link->stream))
        snprintf(what, sizeof(what),
                 "connected, but that port doesn't begin with TLS (is it one for %s?)",
                 common->plain);
    if (link->phase == DLK_LINK_LOOKUP)
        snprintf(what, sizeof(what), "%s",
                 link->lookup ? "the name service doesn't answer"
                              : "it isn't known where that is");
    dlk_link_drop(link,
                  dlk_error_make(DLOCK_EUNAVAIL, "%s: %s: %s within %lld ms",
                                 common->service, link->peer, what,
                                 (long long)(common->connect_ns / DLK_NS_PER_MS)),
                  now);
}

int64_t dlk_link_tick(dlk_link *link, int64_t now)
{
    if (link->phase == DLK_LINK_RESTING && now >= link->retry_at) {
        /* The driver was woken by the shutdown, but may not have left its sleep yet. */
        if (!dlk_stream_reap(&link->stream))
            return now + DLK_NS_PER_MS;
        dlk_link_start(link, now);
    }
    if (link->phase == DLK_LINK_DIAL)
        dial_on(link, now);
    if ((link->phase == DLK_LINK_LOOKUP || link->phase == DLK_LINK_GREETING) &&
        now >= link->attempt_until)
        give_up(link, now);
    switch (link->phase) {
    case DLK_LINK_LOOKUP:
    case DLK_LINK_GREETING:
        return link->attempt_until;
    case DLK_LINK_DIAL:
        return link->dial.until;
    case DLK_LINK_RESTING:
        return link->retry_at;
    case DLK_LINK_OFF:
    case DLK_LINK_READY:
        break;
    }
    return DLK_NEVER;
}

/* ---- The driver's steps ---- */

void dlk_link_arm(dlk_link *link, dlk_polls *polls)
{
    int fd = -1;
    short events = POLLIN;
    if (link->phase == DLK_LINK_LOOKUP) {
        fd = link->lookup ? dlk_lookup_fd(link->lookup) : -1;
    } else if (link->phase == DLK_LINK_DIAL) {
        fd = link->dial.fd;
        events = POLLOUT;
    } else if (dlk_link_is_connected(link)) {
        fd = atomic_load(&link->stream.fd);
        link->frozen = true;
        dlk_stream_arm(&link->stream);
    }
    link->polled = dlk_polls_add(polls, fd, events);
}

void dlk_link_push(dlk_link *link, dlk_polls *polls)
{
    if (link->frozen)
        dlk_polls_change(polls, link->polled, dlk_stream_push(&link->stream));
}

void dlk_link_pull(dlk_link *link, dlk_polls *polls)
{
    if (!link->frozen || !dlk_polls_came(polls, link->polled))
        return;
    dlk_stream_pull(&link->stream);
    polls->more = polls->more || dlk_stream_is_full(&link->stream);
}

/* Servers for TLS hang up, or send a TLS alert, when they are greeted without it. */
#define TLS_RECORD 0x15

static bool may_expect_tls(const dlk_link *link)
{
    return !link->common->tls && link->phase == DLK_LINK_GREETING && link->step == 0;
}

const char *dlk_link_hint(const dlk_link *link, const char *data)
{
    return data[0] == TLS_RECORD && may_expect_tls(link) ? link->common->hint : "";
}

static void digest(dlk_link *link, int64_t now)
{
    dlk_stream *stream = &link->stream;
    size_t size = stream->in_size;
    *link->common->bytes_received += (int64_t)size;
    stream->in_size = 0;
    dlock_error *error = link->ops->feed(link, stream->in, size, now);
    if (error && dlk_link_is_connected(link))
        dlk_link_drop(link, error, now);
    else
        dlk_error_clear(&error); /* it has ended for another reason before */
}

static void fail_stream(dlk_link *link, int64_t now)
{
    char why[400];
    dlock_err code = dlk_stream_why(&link->stream, why, sizeof(why));
    bool lost = code == DLOCK_EUNAVAIL;
    dlk_link_drop(link,
                  dlk_error_make(code, "%s: %s %s%s: %s%s", link->common->service,
                                 lost ? "connection to" : "no TLS with", link->peer,
                                 lost ? " lost" : "", why,
                                 may_expect_tls(link) ? link->common->hint : ""),
                  now);
}

/* The operations may end the connection, so its phase is looked at anew after each of them. */
void dlk_link_process(dlk_link *link, int64_t now)
{
    dlk_stream *stream = &link->stream;
    if (link->frozen) {
        link->frozen = false;
        count_sent(link);
        dlk_stream_disarm(stream);
        if (dlk_stream_reap(stream)) /* closed while the driver slept: too late for it */
            stream->in_size = 0;
    }
    if (link->phase == DLK_LINK_LOOKUP)
        look_at_lookup(link, now);
    else if (link->phase == DLK_LINK_DIAL)
        dial_on(link, now);
    if (dlk_link_is_connected(link) && stream->in_size > 0)
        digest(link, now);
    if (!dlk_link_is_connected(link))
        return;
    int failure = atomic_load(&stream->failure);
    if (link->doom) {
        dlock_error *doom = link->doom;
        link->doom = NULL;
        dlk_link_drop(link, doom, now);
    } else if (failure) {
        fail_stream(link, now);
    }
}
