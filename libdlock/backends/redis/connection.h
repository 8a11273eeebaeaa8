/*
 * A connection to a Redis: looks the host up, dials, greets, is ready; after any failure it rests
 * for a jittered while and begins again, until it is stopped. What it is for (commands, messages)
 * is in its hooks. Everything happens under the client's mutex but the two steps of the driver's
 * sleep, which touch only what arm has frozen.
 */
#ifndef DLK_BACKENDS_REDIS_CONNECTION_H
#define DLK_BACKENDS_REDIS_CONNECTION_H

#include "backends/redis/resp.h"
#include "net/address.h"
#include "net/backoff.h"
#include "net/dial.h"
#include "net/stream.h"
#include "net/tls.h"

#include <dlock/dlock.h>

#include <poll.h>

typedef struct dlk_redis dlk_redis;
typedef struct dlk_redis_connection dlk_redis_connection;

typedef enum dlk_redis_phase {
    DLK_PHASE_OFF,
    DLK_PHASE_LOOKUP,
    DLK_PHASE_DIAL,
    DLK_PHASE_GREETING,
    DLK_PHASE_READY,
    DLK_PHASE_RESTING, /* until `retry_at` */
} dlk_redis_phase;

typedef struct dlk_redis_hooks {
    /* Appends the greeting to the stream and lists its steps. NULL, or why it can't be. */
    dlock_error *(*greet)(dlk_redis_connection *connection);
    /* At the beginning of a try: finds out where to dial, then calls dlk_redis_connection_dial or
     * _drop; may do so at once. NULL: the owner knows it. */
    void (*seek)(dlk_redis_connection *connection, int64_t now);
    void (*ready)(dlk_redis_connection *connection, int64_t now);
    /* A reply. An error ends the connection: what came makes no sense. */
    dlock_error *(*reply)(dlk_redis_connection *connection, const dlk_resp *reply,
                          int64_t now);
    /* The connection, or a try to make it, has failed. */
    void (*down)(dlk_redis_connection *connection, const dlock_error *error, int64_t now);
} dlk_redis_hooks;

#define DLK_GREETING_MAX 20

struct dlk_redis_connection {
    dlk_redis *redis;
    const dlk_redis_hooks *hooks;
    dlk_redis_phase phase;
    /* where to dial; empty: look the host up each time. Set by the owner */
    dlk_addresses to;
    const char *host; /* set by the owner; NULL: the host, port and place of `redis` */
    uint16_t port;
    const char *place;
    dlk_lookup *lookup;
    dlk_dial dial;
    dlk_stream stream;
    dlk_resp_reader *reader;
    dlk_backoff backoff;
    int64_t attempt_until; /* lookup, dial and greeting together */
    int64_t retry_at;
    unsigned char steps[DLK_GREETING_MAX]; /* the replies that the greeting waits for */
    size_t step, step_count;
    dlock_error *doom; /* set by a hook: end the connection after this reply */
    bool frozen;       /* the stream takes part in the driver's sleep */
    int64_t counted;   /* bytes sent that the statistics know of */
};

/* False without memory. */
bool dlk_redis_connection_init(dlk_redis_connection *connection, dlk_redis *redis,
                               const dlk_redis_hooks *hooks);
void dlk_redis_connection_free(dlk_redis_connection *connection);

/* Begins a try. */
void dlk_redis_connection_start(dlk_redis_connection *connection, int64_t now);
/* Goes on with it, when `seek` has found where to. */
void dlk_redis_connection_dial(dlk_redis_connection *connection, int64_t now);
/* Is it finding out where to? */
static inline bool dlk_redis_connection_seeks(const dlk_redis_connection *connection)
{
    return connection->phase == DLK_PHASE_LOOKUP && !connection->lookup;
}
/* The host and how messages call the server. */
const char *dlk_redis_host_of(const dlk_redis_connection *connection);
const char *dlk_redis_place_of(const dlk_redis_connection *connection);
/* Ends it; nothing more comes from it. Without effect when it is off. */
void dlk_redis_connection_stop(dlk_redis_connection *connection);
/* Ends it for the reason @p error, which it takes over, and tries again later. */
void dlk_redis_connection_drop(dlk_redis_connection *connection, dlock_error *error,
                               int64_t now);
/* Time-outs and the next try. Returns when to call it again. */
int64_t dlk_redis_connection_tick(dlk_redis_connection *connection, int64_t now);

/* The driver's steps. Arm fills in what to poll; push writes and says what to poll for (0: don't
 * sleep); pull reads. Only arm and process have the mutex. */
void dlk_redis_connection_arm(dlk_redis_connection *connection, struct pollfd *poll);
short dlk_redis_connection_push(dlk_redis_connection *connection, short events);
void dlk_redis_connection_pull(dlk_redis_connection *connection);
void dlk_redis_connection_process(dlk_redis_connection *connection, int64_t now);

#endif
