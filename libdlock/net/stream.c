/* A socket with buffers; see the header for who may touch what.
 *
 * `busy` and `again` settle who writes. A flusher that finds `busy` set leaves `again` behind and
 * goes; the driver looks at `again` after it has cleared `busy`. Both are sequentially consistent,
 * so either the flusher gets `busy` or the driver sees `again`: no byte is left lying. */
#include "net/stream.h"

#include "net/silence.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/error.h"
#include "util/secret.h"
#include "util/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#define SPIN_NS       (INT64_C(100) * 1000)
#define SPIN_LOOKS    1000 /* at most, should the clock stand still */
#define SPIN_REST_MAX 64
#define SPIN_NEVER    UINT8_MAX

void dlk_stream_init(dlk_stream *stream)
{
    memset(stream, 0, sizeof(*stream));
    atomic_init(&stream->fd, -1);
}

static void set(int fd, int level, int name, int value)
{
    /* Fails for Unix sockets, which need none of these. */
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* Nobody but dlk_stream_wait ever waits for the socket, and that not for long. Where this can't
 * be had it doesn't wait at all. */
static void let_wait(int fd)
{
    const struct timeval limit = {.tv_usec = DLK_STREAM_WAIT_MS * 1000};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0)
        (void)fcntl(fd, F_SETFL, 0); /* of all flags it has only O_NONBLOCK */
}

void dlk_stream_open(dlk_stream *stream, int fd)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    /* An idle connection that a firewall forgot is noticed within half a minute, not at the next
     * request. Requests have deadlines of their own. */
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    let_wait(fd);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    stream->taken = stream->sent = 0;
    stream->spin_pause = 1;
    /* On a single core whoever spins keeps the server from answering. */
    stream->spin_rest = dlk_thread_has_cores() ? 0 : SPIN_NEVER;
    stream->closing = stream->secret = stream->rest = false;
    stream->in_size = 0;
    atomic_store(&stream->failure, 0);
    atomic_store(&stream->fd, fd);
}

static void wipe(dlk_buf *buf)
{
    if (buf->data)
        dlk_wipe(buf->data, buf->capacity);
}

void dlk_stream_close(dlk_stream *stream, dlk_ending ending)
{
    int fd = atomic_load(&stream->fd);
    if (fd < 0 || stream->closing)
        return;
    stream->closing = true;
    if (stream->coat)
        stream->coat->type->bye(stream->coat, fd, ending);
    dlk_socket_end(fd, ending); /* and wakes a driver that sleeps on it */
}

bool dlk_stream_reap(dlk_stream *stream)
{
    int fd = atomic_load(&stream->fd);
    if (fd < 0)
        return true;
    if (!stream->closing || stream->armed || atomic_load(&stream->busy))
        return false;
    atomic_store(&stream->fd, -1);
    dlk_fd_close(fd);
    if (stream->coat)
        stream->coat->type->free(stream->coat);
    stream->coat = NULL;
    if (stream->secret)
        wipe(&stream->out);
    if (stream->sending_secret)
        wipe(&stream->sending);
    dlk_buf_clear(&stream->out);
    dlk_buf_clear(&stream->sending);
    stream->closing = stream->secret = stream->sending_secret = false;
    return true;
}

void dlk_stream_free(dlk_stream *stream)
{
    dlk_buf_free(&stream->out);
    dlk_buf_free(&stream->sending);
}

bool dlk_stream_hide(dlk_stream *stream, size_t size)
{
    stream->secret = true;
    return dlk_buf_hide(&stream->out, size);
}

dlock_err dlk_stream_why(const dlk_stream *stream, char *text, size_t size)
{
    int failure = atomic_load(&stream->failure);
    const dlk_coat *coat = stream->coat;
    if (failure == EPROTO && coat && coat->code) {
        snprintf(text, size, "%s", coat->why);
        return coat->code;
    }
    char room[128];
    snprintf(text, size, "%s",
             failure == DLK_STREAM_EOF ? "it was closed by the server"
                                       : dlk_error_errno(failure, room, sizeof(room)));
    return DLOCK_EUNAVAIL;
}

bool dlk_stream_unsent(const dlk_stream *stream, int64_t end)
{
    return end > (atomic_load(&stream->busy) ? stream->taken : stream->sent);
}

/* Moves `out` to `sending`, if that is empty. With the mutex and `busy`. */
static void take(dlk_stream *stream)
{
    if (dlk_buf_size(&stream->sending) > 0 || stream->closing)
        return;
    dlk_buf swap = stream->sending;
    stream->sending = stream->out;
    stream->out = swap;
    stream->taken += (int64_t)dlk_buf_size(&stream->sending);
    stream->sending_secret = stream->secret;
    stream->secret = false;
}

/* Writes what is in `sending`, as far as the socket takes it. With `busy`. */
static void write_out(dlk_stream *stream)
{
    while (dlk_buf_size(&stream->sending) > 0) {
        int fd = atomic_load(&stream->fd);
        const char *data = dlk_buf_head(&stream->sending);
        size_t size = dlk_buf_size(&stream->sending);
        ssize_t put = stream->coat
                          ? stream->coat->type->send(stream->coat, fd, data, size)
                          : send(fd, data, size, DLK_SEND);
        if (put >= 0) {
            stream->sent += put;
            dlk_buf_eat(&stream->sending, (size_t)put);
        } else if (errno != EINTR) {
            if (errno != EAGAIN)
                atomic_store(&stream->failure, errno);
            return;
        }
    }
    if (stream->sending_secret) {
        wipe(&stream->sending);
        stream->sending_secret = false;
    }
}

void dlk_stream_arm(dlk_stream *stream)
{
    stream->armed = true;
    if (dlk_buf_size(&stream->out) == 0 && !stream->rest)
        return;
    if (atomic_exchange(&stream->busy, true))
        return; /* a flusher has it, and looks at `out` when it has the mutex again */
    stream->mine = true;
    stream->rest = false;
    take(stream);
    atomic_store(&stream->again, dlk_buf_size(&stream->out) > 0);
}

/* What the driver has to wait for, besides what is unsent in `sending`. */
static short coat_events(dlk_stream *stream)
{
    if (stream->coat->more) { /* no poll would tell */
        dlk_stream_pull(stream);
        return 0;
    }
    bool unsent = stream->coat->type->unsent(stream->coat, atomic_load(&stream->fd));
    return unsent ? POLLIN | POLLOUT : POLLIN;
}

short dlk_stream_push(dlk_stream *stream)
{
    if (stream->mine) {
        write_out(stream);
        if (atomic_load(&stream->failure))
            return 0;
        if (dlk_buf_size(&stream->sending) > 0)
            return stream->coat ? coat_events(stream) : POLLIN | POLLOUT;
        stream->mine = false;
        atomic_store(&stream->busy, false);
    }
    if (atomic_exchange(&stream->again, false))
        return 0;
    return stream->coat ? coat_events(stream) : POLLIN;
}

/* False: nothing came, or a signal. */
static bool read_in(dlk_stream *stream, int flags)
{
    int fd = atomic_load(&stream->fd);
    char *to = stream->in + stream->in_size;
    size_t room = sizeof(stream->in) - stream->in_size;
    ssize_t got = stream->coat
                      ? stream->coat->type->recv(stream->coat, fd, to, room, flags)
                      : recv(fd, to, room, flags);
    if (got > 0)
        stream->in_size += (size_t)got;
    else if (got == 0)
        atomic_store(&stream->failure, DLK_STREAM_EOF);
    else if (errno == EAGAIN || errno == EINTR)
        return false;
    else
        atomic_store(&stream->failure, errno);
    return true;
}

void dlk_stream_pull(dlk_stream *stream)
{
    if (stream->in_size == sizeof(stream->in))
        return;
    while (!read_in(stream, MSG_DONTWAIT) && errno == EINTR)
        continue;
}

/* False: nothing came. After each spin in vain twice as many waits do without. */
static bool spin(dlk_stream *stream)
{
    if (stream->spin_rest > 0) {
        if (stream->spin_rest != SPIN_NEVER)
            stream->spin_rest--;
        return false;
    }
    int64_t end = dlk_clock_now() + SPIN_NS;
    for (int look = 0; look < SPIN_LOOKS; look++) {
        if (read_in(stream, MSG_DONTWAIT)) {
            stream->spin_pause = 1;
            return true;
        }
        if (dlk_clock_now() >= end)
            break;
    }
    stream->spin_rest = stream->spin_pause;
    if (stream->spin_pause < SPIN_REST_MAX)
        stream->spin_pause = (uint8_t)(2 * stream->spin_pause);
    return false;
}

bool dlk_stream_wait(dlk_stream *stream)
{
    return stream->in_size < sizeof(stream->in) && (spin(stream) || read_in(stream, 0));
}

void dlk_stream_disarm(dlk_stream *stream)
{
    stream->armed = false;
    if (stream->mine) {
        stream->mine = false;
        stream->rest = dlk_buf_size(&stream->sending) > 0;
        atomic_store(&stream->busy, false);
    }
}

bool dlk_stream_flush(dlk_stream *stream, pthread_mutex_t *mutex)
{
    if (dlk_buf_size(&stream->out) == 0 || stream->closing)
        return true;
    atomic_store(&stream->again, true);
    if (atomic_exchange(&stream->busy, true))
        return true; /* whoever has it looks again */
    atomic_store(&stream->again, false);
    bool done;
    do {
        take(stream);
        pthread_mutex_unlock(mutex);
        write_out(stream);
        pthread_mutex_lock(mutex);
        done = dlk_buf_size(&stream->sending) == 0 &&
               !(stream->coat &&
                 stream->coat->type->unsent(stream->coat, atomic_load(&stream->fd)));
    } while (done && dlk_buf_size(&stream->out) > 0 && !stream->closing);
    stream->rest = dlk_buf_size(&stream->sending) > 0;
    atomic_store(&stream->busy, false);
    (void)dlk_stream_reap(stream); /* closed meanwhile, and we were the last */
    return done;
}
