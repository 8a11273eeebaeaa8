/*
 * A connected, non-blocking socket with its buffers, shared by three kinds of threads.
 *
 *   - `out` and the flags below it are guarded by the owner's mutex. Whoever has something to
 *     say appends to `out`.
 *   - `sending` belongs to whoever has `busy`. It is filled by swapping it with `out` (under the
 *     mutex) and written without the mutex, by the driver or by any thread that flushes.
 *   - `in` belongs to the driver from arm to process.
 *
 * The descriptor is never closed while somebody may use it without the mutex: close marks and
 * ends the connection, and dlk_stream_reap, which whoever leaves last succeeds with, closes.
 */
#ifndef DLK_NET_STREAM_H
#define DLK_NET_STREAM_H

#include "net/socket.h"
#include "util/buf.h"

#include <dlock/dlock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What may lie between a stream and its socket; net/tls.h has one. Made and given to the stream by
 * who opens it, freed when the stream is reaped. The driver alone receives, and one thread at a
 * time sends, but both at once: the coat has a lock of its own. */
typedef struct dlk_coat dlk_coat;
typedef struct dlk_coat_type {
    /* As send and recv; send never waits. After EAGAIN call again when the socket is readable or,
     * if `unsent`, writable. */
    ssize_t (*send)(dlk_coat *coat, int fd, const char *data, size_t size);
    ssize_t (*recv)(dlk_coat *coat, int fd, char *data, size_t size, int flags);
    /* Whether something that was taken has to wait for the socket. Tries to write it first. */
    bool (*unsent)(dlk_coat *coat, int fd);
    /* Before the stream ends: the last word, if that is orderly. */
    void (*bye)(dlk_coat *coat, int fd, dlk_ending ending);
    void (*free)(dlk_coat *coat);
} dlk_coat_type;

struct dlk_coat {
    const dlk_coat_type *type;
    bool more;      /* recv has more though the socket has not; the driver's */
    dlock_err code; /* why send or recv failed with EPROTO, set before they return … */
    char why[400];  /* … and never changed again */
};

#define DLK_STREAM_IN 16384
/* How long dlk_stream_wait waits at most; the kernel counts in ticks of up to 10 ms. */
#define DLK_STREAM_WAIT_MS 5

typedef struct dlk_stream {
    _Atomic int fd; /* -1: none. Atomic for whoever polls it without the mutex */
    /* NULL: plain. Set between opening and the first byte, kept till the end */
    dlk_coat *coat;
    dlk_buf out;
    int64_t taken; /* bytes that went from `out` to `sending` since the opening */
    bool armed;    /* the driver is between arm and process */
    bool rest;     /* whoever had `sending` last left something in it */
    bool closing;
    /* `out` holds a password: it is wiped once it is sent; dlk_stream_hide */
    bool secret;

    _Atomic bool busy;  /* somebody has `sending` */
    _Atomic bool again; /* somebody found it busy: look at `out` once more */
    bool mine;          /* it is the driver who has it */
    bool sending_secret;
    dlk_buf sending;
    int64_t sent;                  /* bytes written since the opening */
    uint8_t spin_rest, spin_pause; /* dlk_stream_wait's: see there */

    /* errno of a failed read or write, or DLK_STREAM_EOF: dlk_stream_why */
    _Atomic int failure;
    size_t in_size;
    char in[DLK_STREAM_IN];
} dlk_stream;

#define DLK_STREAM_EOF (-1)

void dlk_stream_init(dlk_stream *stream);
/* Takes over a connected descriptor. The stream must be reaped. */
void dlk_stream_open(dlk_stream *stream, int fd);
/* No more bytes in either direction; dlk_stream_reap follows. ORDERLY is for whom nothing is left
 * unanswered that would do harm if it were carried out later: see net/socket.h. */
void dlk_stream_close(dlk_stream *stream, dlk_ending ending);
/* Closes a stream marked so, unless somebody is still using it; true when it is closed. */
bool dlk_stream_reap(dlk_stream *stream);
/* Frees the memory of a reaped stream. */
void dlk_stream_free(dlk_stream *stream);

/* A secret of at most @p size bytes is going to be put into `out`: it is made as large, kept out of
 * core dumps and wiped once it is sent. False without memory. */
bool dlk_stream_hide(dlk_stream *stream, size_t size);

/* Why the stream has failed: words into @p text, and EUNAVAIL, or what the coat says. */
dlock_err dlk_stream_why(const dlk_stream *stream, char *text, size_t size);

/* The position behind what is in `out`, counted from the opening. */
static inline int64_t dlk_stream_end(const dlk_stream *stream)
{
    return stream->taken + (int64_t)dlk_buf_size(&stream->out);
}

/* Whether a message that ends at @p end has certainly not been written in full. */
bool dlk_stream_unsent(const dlk_stream *stream, int64_t end);

/* The driver's: arm takes what is to be sent, push writes it, pull reads, disarm gives back.
 * Only arm and disarm need the mutex. Push answers what to wait for: poll's events, or 0 when
 * there is something new to take, so don't sleep. */
void dlk_stream_arm(dlk_stream *stream);
short dlk_stream_push(dlk_stream *stream);
void dlk_stream_pull(dlk_stream *stream);
/* There was no room for more, so there may be more. */
static inline bool dlk_stream_is_full(const dlk_stream *stream)
{
    return stream->in_size == sizeof(stream->in);
}
/* A pull that waits a moment for something to come: half the price of a poll and a pull. Where it
 * has more than one core it looks for a hundred microseconds before it sleeps, for waking a core
 * that has gone idle may take longer than the answer of a server near by; where that has been in
 * vain it does so ever more seldom. False: nothing came. */
bool dlk_stream_wait(dlk_stream *stream);
void dlk_stream_disarm(dlk_stream *stream);

/* Anybody else's: writes what is in `out`, with @p mutex let go meanwhile. False: a rest is left
 * that has to wait for the socket, so the driver must arm again. */
bool dlk_stream_flush(dlk_stream *stream, pthread_mutex_t *mutex);

#endif
