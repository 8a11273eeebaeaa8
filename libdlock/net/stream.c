/* A socket with buffers; see the header for who may touch what.
 *
 * `busy` and `again` settle who writes. A flusher that finds `busy` set leaves `again` behind and
 * goes; the driver looks at `again` after it has cleared `busy`. Both are sequentially consistent,
 * so either the flusher gets `busy` or the driver sees `again`: no byte is left lying. */
#include "net/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

void dlk_stream_open(dlk_stream *stream, int fd)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    /* An idle connection that a firewall forgot is noticed within half a minute, not at the next
     * request. Requests have deadlines of their own. */
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    stream->taken = stream->sent = 0;
    stream->closing = stream->secret = stream->rest = false;
    stream->in_size = 0;
    atomic_store(&stream->failure, 0);
    atomic_store(&stream->fd, fd);
}

static void wipe(dlk_buf *buf)
{
    if (buf->data)
        explicit_bzero(buf->data, buf->capacity);
}

void dlk_stream_close(dlk_stream *stream)
{
    if (atomic_load(&stream->fd) < 0 || stream->closing)
        return;
    stream->closing = true;
    /* Wakes a driver that sleeps on it. Fails when the peer was faster. */
    (void)shutdown(atomic_load(&stream->fd), SHUT_RDWR);
}

bool dlk_stream_reap(dlk_stream *stream)
{
    int fd = atomic_load(&stream->fd);
    if (fd < 0)
        return true;
    if (!stream->closing || stream->armed || atomic_load(&stream->busy))
        return false;
    atomic_store(&stream->fd, -1); /* first: a fork in between must not close another's */
    close(fd);
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

void dlk_stream_forked(dlk_stream *stream)
{
    int fd = atomic_load(&stream->fd);
    if (fd >= 0)
        (void)syscall(SYS_close, fd);
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
        ssize_t put = send(atomic_load(&stream->fd), dlk_buf_head(&stream->sending),
                           dlk_buf_size(&stream->sending), MSG_NOSIGNAL | MSG_DONTWAIT);
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

short dlk_stream_push(dlk_stream *stream)
{
    if (stream->mine) {
        write_out(stream);
        if (atomic_load(&stream->failure))
            return 0;
        if (dlk_buf_size(&stream->sending) > 0)
            return POLLIN | POLLOUT;
        stream->mine = false;
        atomic_store(&stream->busy, false);
    }
    return atomic_exchange(&stream->again, false) ? 0 : POLLIN;
}

void dlk_stream_pull(dlk_stream *stream)
{
    ssize_t got;
    if (stream->in_size == sizeof(stream->in))
        return;
    do
        got = recv(atomic_load(&stream->fd), stream->in + stream->in_size,
                   sizeof(stream->in) - stream->in_size, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        stream->in_size += (size_t)got;
    else if (got == 0)
        atomic_store(&stream->failure, DLK_STREAM_EOF);
    else if (errno != EAGAIN)
        atomic_store(&stream->failure, errno);
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
        done = dlk_buf_size(&stream->sending) == 0;
    } while (done && dlk_buf_size(&stream->out) > 0 && !stream->closing);
    stream->rest = !done;
    atomic_store(&stream->busy, false);
    (void)dlk_stream_reap(stream); /* closed meanwhile, and we were the last */
    return done;
}
