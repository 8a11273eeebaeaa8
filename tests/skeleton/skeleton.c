/*
 * The least that a backend must have: mutexes are entries of a map in server.py's process.
 * Each request is a line and has a line as its answer, in the same order:
 *
 *     acquire KEY OWNER TTL    YES TOKEN | HELD MS    unless it is another's
 *     renew KEY OWNER TTL      YES | NO               if it is OWNER's
 *     release KEY OWNER        YES | NO
 *     verify KEY OWNER         YES | NO
 */
#include "skeleton.h"

#include "contract/flight.h"
#include "net/dial.h"
#include "net/socket.h"
#include "util/buf.h"
#include "util/clock.h"
#include "util/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct skeleton {
    dlk_backend base; /* first: a dlk_backend * is a skeleton * */

    dlk_addresses to;
    int64_t connect_ns, retry_ms;
    /* from here on under the client's mutex, which whatever is called has */
    enum { OFF, DIALLING, UP, RESTING } phase;
    dlk_dial dial;
    int fd;            /* while UP, else -1 */
    dlk_buf out, in;   /* not written yet, not understood yet */
    dlk_flight flight; /* asks that wait for their lines, in this order */
    int64_t retry_at;
    dlock_error *why_down; /* while it isn't UP */
} skeleton;

static skeleton *self(dlk_backend *backend)
{
    return (skeleton *)(void *)backend;
}

/* ---- open, free ---- */

static void skeleton_free(dlk_backend *backend)
{
    skeleton *me = self(backend);
    dlk_buf_free(&me->out);
    dlk_buf_free(&me->in);
    dlk_error_clear(&me->why_down);
    free(me);
}

static dlock_err skeleton_open(dlk_host *host, const dlk_uri *uri,
                               const dlk_settings *settings, dlk_backend **ret,
                               dlock_error **err)
{
    skeleton *me = calloc(1, sizeof(*me));
    if (!me)
        return dlk_error_nomem(err);
    me->base = (dlk_backend){.type = &skeleton_backend, .host = host};
    me->fd = me->dial.fd = -1;
    /* Everybody's settings; its own would be in a settings.def beside this file. */
    me->connect_ns =
        dlk_settings_int(settings, DLK_KEY_CLIENT_CONNECT_MS) * DLK_NS_PER_MS;
    me->retry_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_RETRY_MS);
    dlk_flight_init(&me->flight, host);
    if (!dlk_address_numeric(uri->hosts[0].host, uri->hosts[0].port, &me->to)) {
        skeleton_free(&me->base);
        return dlk_error_set(err, DLOCK_EINVAL, "skeleton: an address is expected");
    }
    *ret = &me->base;
    return DLOCK_OK;
}

/* ---- the connection ---- */

static void hang_up(skeleton *me)
{
    bool late = dlk_flight_may_come_late(&me->flight);
    dlk_dial_end(&me->dial);
    if (me->fd >= 0)
        dlk_socket_end(me->fd, late ? DLK_END_ORDERLY : DLK_END_RESET);
    dlk_fd_close(me->fd);
    me->fd = -1;
    dlk_buf_clear(&me->out);
    dlk_buf_clear(&me->in);
}

static void go_down(skeleton *me, dlock_error *why, int64_t now)
{
    hang_up(me);
    me->phase = RESTING;
    me->retry_at = now + me->retry_ms * DLK_NS_PER_MS;
    dlk_error_clear(&me->why_down);
    me->why_down = why;
    dlk_kick(me->base.host->kicks); /* a driver may be asleep on what is gone */
    dlk_flight_answer_all(&me->flight, DLK_UNKNOWN);
    me->base.host->link(me->base.host, false, why);
}

static void dial_on(skeleton *me, int64_t now)
{
    dlk_dialled result = dlk_dial_step(&me->dial, now);
    if (result == DLK_DIAL_FAILED) {
        go_down(me, dlk_error_make(DLOCK_EUNAVAIL, "skeleton: can't connect"), now);
    } else if (result == DLK_DIAL_DONE) {
        me->phase = UP;
        me->fd = me->dial.fd;
        me->dial.fd = -1;
        me->base.host->link(me->base.host, true, NULL);
    }
    dlk_kick(me->base.host->kicks);
}

static void skeleton_start(dlk_backend *backend, int64_t now)
{
    skeleton *me = self(backend);
    me->phase = DIALLING;
    me->dial.addresses = me->to;
    dlk_dial_begin(&me->dial, now + me->connect_ns);
    dial_on(me, now);
}

/* As much as the socket takes. That it is broken is found out by reading. */
static void write_out(skeleton *me)
{
    size_t size = dlk_buf_size(&me->out);
    ssize_t put =
        size > 0 ? send(me->fd, dlk_buf_head(&me->out), size, MSG_NOSIGNAL | MSG_DONTWAIT)
                 : 0;
    if (put > 0)
        dlk_buf_eat(&me->out, (size_t)put);
}

static void skeleton_stop(dlk_backend *backend)
{
    skeleton *me = self(backend);
    if (me->phase == UP)
        write_out(me); /* a last release */
    hang_up(me);
    me->phase = OFF;
    dlk_error_clear(&me->why_down);
    me->why_down = dlk_error_make(DLOCK_EUNAVAIL, "skeleton: the client is closed");
    dlk_flight_answer_all(&me->flight, DLK_UNKNOWN);
}

/* ---- asking ---- */

static const char *const words[] = {
    [DLK_ACQUIRE] = "acquire", "renew", "release", "verify"};

static void skeleton_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    skeleton *me = self(backend);
    const char *word = ask->verb <= DLK_VERIFY ? words[ask->verb] : NULL;
    char line[1024];
    (void)now;
    if (me->phase != UP) {
        dlk_flight_not_sent(ask, me->why_down);
        return;
    }
    if (!word) {
        dlk_ask_refuse(ask, dlk_error_make(DLOCK_ENOTSUP, "skeleton: it can't do that"));
        return;
    }
    int size = snprintf(line, sizeof(line), "%s %s %s:%" PRIu64 " %" PRId64 "\n", word,
                        ask->key->name, backend->host->uuid, ask->number, ask->ttl_ms);
    if (!dlk_buf_append(&me->out, line, (size_t)size)) {
        dlk_ask_refuse(ask, dlk_error_make(DLOCK_ENOMEM, "out of memory"));
        return;
    }
    backend->host->commands++;
    dlk_list_init(&ask->link);
    dlk_flight_await(&me->flight, ask);
}

static dlock_err key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    (void)backend;
    if (key->kind != DLOCK_MUTEX)
        return dlk_error_set(err, DLOCK_ENOTSUP, "skeleton: there are only mutexes");
    if (key->size == 0 || key->size > 500 || strpbrk(key->name, " \n"))
        return dlk_error_set(err, DLOCK_EINVAL,
                             "skeleton: a name is one word of 500 bytes");
    return DLOCK_OK;
}

/* ---- answers ---- */

/* False: that is no answer to this. */
static bool take_line(skeleton *me, const char *line)
{
    dlk_ask *ask = dlk_flight_first(&me->flight);
    if (!ask)
        return false;
    if (strcmp(line, "NO") == 0 && ask->verb != DLK_ACQUIRE) {
        dlk_flight_answer(&me->flight, ask, DLK_NOT_OURS);
    } else if (sscanf(line, "HELD %" SCNd64, &ask->wait_ms) == 1) {
        if (ask->wait_ms > me->retry_ms)
            ask->wait_ms = me->retry_ms; /* nobody tells of a release */
        dlk_flight_answer(&me->flight, ask, DLK_HELD);
    } else if (strncmp(line, "YES", 3) == 0) {
        (void)sscanf(line, "YES %" SCNd64, &ask->token);
        ask->lasts = true;
        dlk_flight_answer(&me->flight, ask, DLK_YES);
    } else {
        return false;
    }
    return true;
}

/* Each answer may lead to another request, or to the end of the connection. */
static void take_lines(skeleton *me, int64_t now)
{
    char line[64];
    while (me->phase == UP && dlk_buf_size(&me->in) > 0) {
        size_t size = dlk_buf_size(&me->in);
        const char *text = dlk_buf_head(&me->in), *end = memchr(text, '\n', size);
        if (!end && size < sizeof(line))
            return;
        snprintf(line, sizeof(line), "%.*s", (int)(end ? end - text : 63), text);
        dlk_buf_eat(&me->in, end ? (size_t)(end - text) + 1 : size);
        if (!end || !take_line(me, line))
            go_down(me, dlk_error_make(DLOCK_EPROTO, "skeleton: what is %s?", line), now);
    }
}

/* False: the connection is broken. */
static bool read_in(skeleton *me)
{
    char *room = dlk_buf_room(&me->in, 4096);
    ssize_t got = room ? recv(me->fd, room, 4096, MSG_DONTWAIT) : 0;
    if (got > 0)
        dlk_buf_added(&me->in, (size_t)got);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- the driver's steps, and time ---- */

static void skeleton_arm(dlk_backend *backend, dlk_polls *polls)
{
    skeleton *me = self(backend);
    if (me->phase == DIALLING) {
        dlk_polls_add(polls, me->dial.fd, POLLOUT);
    } else if (me->phase == UP) {
        write_out(me);
        dlk_polls_add(polls, me->fd, dlk_buf_size(&me->out) ? POLLIN | POLLOUT : POLLIN);
    }
}

static void skeleton_process(dlk_backend *backend, int64_t now)
{
    skeleton *me = self(backend);
    if (me->phase == DIALLING)
        dial_on(me, now);
    if (me->phase != UP)
        return;
    bool broken = !read_in(me);
    take_lines(me, now);
    if (broken && me->phase == UP)
        go_down(me, dlk_error_make(DLOCK_EUNAVAIL, "skeleton: connection lost"), now);
}

static int64_t skeleton_tick(dlk_backend *backend, int64_t now)
{
    skeleton *me = self(backend);
    if (me->phase == UP && dlk_flight_due(&me->flight, now) <= now)
        go_down(me, dlk_error_make(DLOCK_EUNAVAIL, "skeleton: no answer"), now);
    if (me->phase == RESTING && now >= me->retry_at)
        skeleton_start(backend, now);
    else if (me->phase == DIALLING)
        dial_on(me, now);
    return me->phase == RESTING    ? me->retry_at
           : me->phase == DIALLING ? me->dial.until
                                   : dlk_flight_due(&me->flight, now);
}

static const char *const schemes[] = {"skeleton", NULL};

const dlk_backend_type skeleton_backend = {
    .name = "skeleton",
    .schemes = schemes,
    .traits = {.layout = "map",
               .class = DLK_REQUIRE_EFFICIENCY,
               .tokens = true,
               .margin_percent = 1,
               .margin_ms = 2,
               .kinds = {[DLOCK_MUTEX] = true}},
    .open = skeleton_open,
    .start = skeleton_start,
    .stop = skeleton_stop,
    .free = skeleton_free,
    .ask = skeleton_ask,
    .tick = skeleton_tick,
    .arm = skeleton_arm,
    .process = skeleton_process,
    .key_open = key_open,
};
