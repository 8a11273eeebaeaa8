/* What the files of this backend share: the backend itself. All of it is guarded by the client's
 * mutex but what says otherwise. */
#ifndef DLK_BACKENDS_REDIS_INTERNAL_H
#define DLK_BACKENDS_REDIS_INTERNAL_H

#include "backends/backend.h"
#include "backends/redis/connection.h"
#include "backends/redis/subscriber.h"

#include <poll.h>
#include <stdatomic.h>

struct dlk_redis {
    dlk_backend base; /* first: a dlk_backend * is a dlk_redis * */

    /* set by open, never changed */
    dlk_settings *settings;
    char *host; /* NULL for a Unix socket */
    uint16_t port;
    char *place; /* for messages: "host:port" or the path */
    int64_t timeout_ns, connect_ns;
    dlk_backoff backoff;
    char *probe_key, *probe_channel;
    char owner[DLK_UUID_SIZE]; /* "<uuid>:", without the end */
    size_t owner_size;

    dlk_redis_connection commands;
    dlk_redis_subscriber subscriber;
    dlk_list flight;         /* asks that are sent, in the order of their answers */
    int64_t flight_deadline; /* of the earliest of them, or earlier */
    dlock_error *why_down;   /* while the link is down */
    bool stopped, was_up;
    bool poll_only; /* redis.wait=poll: no subscriber */
    bool warned_publish, warned_eviction;
    bool knows_clock;
    int64_t
        clock_offset; /* server's wall clock less our boot clock, us, at the first greeting */

    /* The driver's sleep: `polls` is frozen by arm. */
    struct pollfd polls[3]; /* commands, messages, wake_fd */
    int wake_fd;
    _Atomic int sleeper; /* DLK_SLEEPER_…: whether kick has to write to wake_fd */
};

enum { DLK_SLEEPER_NONE, DLK_SLEEPER_ARMED, DLK_SLEEPER_KICKED };

/* Makes the driver arm anew. Any thread, with or without the mutex, in signal handlers. */
void dlk_redis_wake(dlk_redis *redis);

#endif
