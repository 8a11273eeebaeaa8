/*
 * The one connection on which a client hears that locks were released. It is opened when the
 * first key is watched, to the server that the commands go to. A subscription that nobody needs
 * any more is kept for a moment, because a name that was fought over will be again.
 *
 * What it tells is a hint: a message may be lost, and then the engine's polling finds out.
 */
#ifndef DLK_BACKENDS_REDIS_SUBSCRIBER_H
#define DLK_BACKENDS_REDIS_SUBSCRIBER_H

#include "backends/backend.h"
#include "backends/redis/connection.h"

typedef struct dlk_redis_channel dlk_redis_channel;

typedef struct dlk_redis_subscriber {
    dlk_redis_connection connection;
    dlk_redis_channel **buckets; /* channels by name */
    size_t bucket_count, channel_count;
    dlk_list all;  /* every channel */
    dlk_list idle; /* those that nobody watches, the longest so first */
    size_t idle_count;
    dlk_list
        outstanding;  /* those with an unanswered command, in the order of the answers */
    dlk_list to_tell; /* dlk_redis_key.to_tell: watched, and the host has to hear of it */
    /* How long somebody has been listening for the first answer: a client where nobody waits
     * reads nothing, so the mere passing of time says nothing about the server. */
    int64_t listened_ns, listening_since;
    int64_t heard_at; /* the last sign of life */
    bool warned;
} dlk_redis_subscriber;

bool dlk_redis_subscriber_init(dlk_redis *redis); /* false without memory */
void dlk_redis_subscriber_free(dlk_redis *redis);

void dlk_redis_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now);
/* The commands are connected, to the address that `commands.dial` has. */
void dlk_redis_subscriber_follow(dlk_redis *redis, int64_t now);
void dlk_redis_subscriber_stop(dlk_redis *redis);
/* The driver's steps, around those of the connection. */
void dlk_redis_subscriber_arm(dlk_redis *redis);
void dlk_redis_subscriber_process(dlk_redis *redis, int64_t now);
int64_t dlk_redis_subscriber_tick(dlk_redis *redis, int64_t now);

#endif
