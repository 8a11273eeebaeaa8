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
 * shuts down, and dlk_stream_reap, which whoever leaves last succeeds with, closes.
 */
#ifndef DLK_NET_STREAM_H
#define DLK_NET_STREAM_H

#include "util/buf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLK_STREAM_IN 16384

typedef struct dlk_stream {
    _Atomic int fd; /* -1: none. Atomic for the fork handler only */
    dlk_buf out;
    int64_t taken; /* bytes that went from `out` to `sending` since the opening */
    bool armed;    /* the driver is between arm and process */
    bool rest;     /* whoever had `sending` last left something in it */
    bool closing;
    bool secret; /* `out` holds a password: it is wiped once it is sent */

    _Atomic bool busy;  /* somebody has `sending` */
    _Atomic bool again; /* somebody found it busy: look at `out` once more */
    bool mine;          /* it is the driver who has it */
    bool sending_secret;
    dlk_buf sending;
    int64_t sent; /* bytes written since the opening */

    _Atomic int failure; /* errno of a failed read or write, or DLK_STREAM_EOF */
    size_t in_size;
    char in[DLK_STREAM_IN];
} dlk_stream;

#define DLK_STREAM_EOF (-1)

void dlk_stream_init(dlk_stream *stream);
/* Takes over a connected descriptor. The stream must be reaped. */
void dlk_stream_open(dlk_stream *stream, int fd);
/* No more bytes in either direction; dlk_stream_reap follows. */
void dlk_stream_close(dlk_stream *stream);
/* Closes a stream marked so, unless somebody is still using it; true when it is closed. */
bool dlk_stream_reap(dlk_stream *stream);
/* Frees the memory of a reaped stream. */
void dlk_stream_free(dlk_stream *stream);
/* In a fork's child: closes the inherited descriptor, touches nothing else. */
void dlk_stream_forked(dlk_stream *stream);

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
void dlk_stream_disarm(dlk_stream *stream);

/* Anybody else's: writes what is in `out`, with @p mutex let go meanwhile. False: a rest is left
 * that has to wait for the socket, so the driver must arm again. */
bool dlk_stream_flush(dlk_stream *stream, pthread_mutex_t *mutex);

#endif
