/*
 * The one connection on which a client hears that locks were released. It is opened when the
 * first key is watched, to the server that the commands go to. A subscription that nobody needs
 * any more is kept for a moment, because a name that was fought over will be again.
 *
 * In a cluster the channels of locks are those of shards (SSUBSCRIBE), or plain ones for peers that
 * know no others, or of both kinds: then a channel has a twin of the same name.
 *
 * What it tells is a hint: a message may be lost, and then the engine's polling finds out.
 */
#ifndef DLK_BACKENDS_REDIS_SUBSCRIBER_H
#define DLK_BACKENDS_REDIS_SUBSCRIBER_H

#include "backends/backend.h"
#include "backends/redis/link.h"

typedef struct dlk_redis_channel dlk_redis_channel;
struct dlk_redis_key;

typedef struct dlk_redis_subscriber {
    dlk_redis_connection connection;
    dlk_redis_channel **buckets; /* channels by name */
    size_t bucket_count, channel_count;
    dlk_list all;  /* every channel */
    dlk_list idle; /* those that nobody watches, the longest so first */
    size_t idle_count;
    /* those with an unanswered command, in the order of the answers */
    dlk_list outstanding;
    dlk_list to_tell; /* dlk_redis_key.to_tell: watched, and the host has to hear of it */
    dlk_redis_channel *own; /* the client's, kept once it was needed; or NULL */
    bool listening;         /* … and somebody may be told there who waits for nothing */
    uint64_t messages;      /* how many came, and subscriptions that were confirmed */
    /* How long somebody has been listening for the first answer: a client where nobody waits
     * reads nothing, so the mere passing of time says nothing about the server. */
    int64_t listened_ns, listening_since;
    int64_t heard_at; /* the last sign of life */
    bool warned, warned_own;
} dlk_redis_subscriber;

bool dlk_redis_subscriber_init(dlk_redis *redis); /* false without memory */
void dlk_redis_subscriber_free(dlk_redis *redis);

void dlk_redis_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now);
/* The client listens on its own channel from now on, also while nobody waits. */
void dlk_redis_listen(dlk_backend *backend, int64_t now);
/* The node of a cluster where the key is watched; NULL: nowhere. */
dlk_redis *dlk_redis_watched_at(const struct dlk_redis_key *key);
/* A watched key that belongs elsewhere, or NULL. */
struct dlk_redis_key *dlk_redis_subscriber_astray(
    const dlk_redis *redis,
    bool (*belongs)(const dlk_redis *, const struct dlk_redis_key *));
/* Asks again for what the server has refused, or taken away. */
void dlk_redis_subscriber_settle(dlk_redis *redis, int64_t now);
/* The commands are connected, to the address that `commands.link.dial` has. */
void dlk_redis_subscriber_follow(dlk_redis *redis, int64_t now);
void dlk_redis_subscriber_stop(dlk_redis *redis);
/* The driver's steps, around those of the connection. */
void dlk_redis_subscriber_arm(dlk_redis *redis);
void dlk_redis_subscriber_process(dlk_redis *redis, int64_t now);
int64_t dlk_redis_subscriber_tick(dlk_redis *redis, int64_t now);

#endif
