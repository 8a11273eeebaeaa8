/* Sockets of the simulated clients of Redis, memcached and etcd: what libdlock/net does with the kernel's, done with
 * the wires of net.c. All writes succeed at once; what is read is what has arrived. */
#include "redis_seam.h"
#include "sim.h"

#include "contract/sleep.h"
#include "net/dial.h"
#include "net/kicks.h"
#include "net/stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- connecting ---- */

static int slot_of(const client *c, const dlk_dial *dial)
{
    if (s.service->dials)
        return s.service->dials(c, dial);
    bool messages = s.config.mode == MODE_REDIS && c->backend &&
                    dial == &redis_of(c)->subscriber.connection.link.dial;
    return messages ? WIRE_MESSAGES : WIRE_COMMANDS;
}

void dlk_dial_begin(dlk_dial *dial, int64_t deadline)
{
    dial->next = 1; /* the only address */
    dial->error = ETIMEDOUT;
    dial->until = dial->deadline = deadline;
    dial->fd = net_dial(s.running, slot_of(s.running, dial))->fd;
}

dlk_dialled dlk_dial_step(dlk_dial *dial, int64_t now)
{
    const wire *w = net_wire(dial->fd);
    if (w && w->state == WIRE_UP)
        return DLK_DIAL_DONE;
    bool refused = !w || w->state != WIRE_DIALLING;
    if (!refused && now < dial->until)
        return DLK_DIAL_PENDING;
    if (refused)
        dial->error = ECONNREFUSED;
    dlk_dial_end(dial);
    return DLK_DIAL_FAILED;
}

void dlk_dial_end(dlk_dial *dial)
{
    wire *w = net_wire(dial->fd);
    if (w)
        net_close(w);
    dial->fd = -1;
}

bool dlk_polls_look(dlk_polls *polls)
{
    int ready = 0;
    for (size_t i = 0; i < polls->count; i++) {
        struct pollfd *it = &polls->item[i];
        const wire *w = net_wire(it->fd);
        bool readable = w && (dlk_buf_size(&w->inbox) > 0 || w->state == WIRE_CUT);
        bool writable = w && w->state != WIRE_DIALLING;
        it->revents = 0;
        if ((readable && (it->events & POLLIN)) || (writable && (it->events & POLLOUT)))
            it->revents = POLLIN;
        ready += it->revents != 0;
    }
    return ready > 0;
}

/* ---- kicks: none sleeps ---- */

void dlk_kick(dlk_kicks *kicks)
{
    (void)kicks;
}

bool dlk_kicks_poll(dlk_kicks *kicks, dlk_polls *polls, uint32_t seen)
{
    (void)kicks, (void)seen;
    return dlk_polls_look(polls);
}

void sim_drive(dlk_backend *backend)
{
    dlk_polls polls = {0};
    dlk_polls_begin(&polls, DLK_NEVER);
    backend->type->arm(backend, &polls);
    dlk_look_at(backend, &polls);
    dlk_polls_free(&polls);
}

/* ---- streams ---- */

void dlk_stream_init(dlk_stream *stream)
{
    memset(stream, 0, sizeof(*stream));
    atomic_init(&stream->fd, -1);
}

void dlk_stream_open(dlk_stream *stream, int fd)
{
    stream->taken = stream->sent = 0;
    stream->closing = stream->secret = false;
    stream->in_size = 0;
    atomic_store(&stream->failure, 0);
    atomic_store(&stream->fd, fd);
}

void dlk_stream_close(dlk_stream *stream, dlk_ending ending)
{
    (void)ending;
    wire *w = net_wire(atomic_load(&stream->fd));
    if (stream->closing || atomic_load(&stream->fd) < 0)
        return;
    stream->closing = true;
    if (w)
        net_close(w);
}

bool dlk_stream_reap(dlk_stream *stream)
{
    if (atomic_load(&stream->fd) < 0)
        return true;
    if (!stream->closing || stream->armed)
        return false;
    atomic_store(&stream->fd, -1);
    dlk_buf_clear(&stream->out);
    stream->closing = stream->secret = false;
    return true;
}

void dlk_stream_free(dlk_stream *stream)
{
    dlk_buf_free(&stream->out);
    dlk_buf_free(&stream->sending);
}

bool dlk_stream_hide(dlk_stream *stream, size_t size)
{
    return dlk_buf_room(&stream->out, size) != NULL; /* nobody has a secret here */
}

dlock_err dlk_stream_why(const dlk_stream *stream, char *text, size_t size)
{
    bool ended = atomic_load(&stream->failure) == DLK_STREAM_EOF;
    snprintf(text, size, "%s", ended ? "it was closed by the server" : "it failed");
    return DLOCK_EUNAVAIL;
}

bool dlk_stream_unsent(const dlk_stream *stream, int64_t end)
{
    return end > stream->sent;
}

static void send_out(dlk_stream *stream)
{
    wire *w = net_wire(atomic_load(&stream->fd));
    size_t size = dlk_buf_size(&stream->out);
    if (stream->closing || size == 0)
        return;
    stream->taken += (int64_t)size;
    stream->sent = stream->taken;
    if (w)
        net_send(w, dlk_buf_head(&stream->out), size);
    dlk_buf_clear(&stream->out);
}

void dlk_stream_arm(dlk_stream *stream)
{
    stream->armed = true;
}

short dlk_stream_push(dlk_stream *stream)
{
    send_out(stream);
    return POLLIN;
}

/* All that has come is there already. */
bool dlk_stream_wait(dlk_stream *stream)
{
    (void)stream;
    return false;
}

void dlk_stream_pull(dlk_stream *stream)
{
    wire *w = net_wire(atomic_load(&stream->fd));
    size_t room = sizeof(stream->in) - stream->in_size;
    size_t size = w ? dlk_buf_size(&w->inbox) : 0;
    size = size < room ? size : room;
    if (size > 0) {
        memcpy(stream->in + stream->in_size, dlk_buf_head(&w->inbox), size);
        dlk_buf_eat(&w->inbox, size);
        stream->in_size += size;
    } else if (w && w->state == WIRE_CUT) {
        atomic_store(&stream->failure, DLK_STREAM_EOF);
    }
}

void dlk_stream_disarm(dlk_stream *stream)
{
    stream->armed = false;
}

bool dlk_stream_flush(dlk_stream *stream, pthread_mutex_t *mutex)
{
    (void)mutex; /* there is one thread */
    send_out(stream);
    return true;
}
