/*
 * The channels of one subscriber: which there are, what the server has been asked about each, and
 * what it has said. A channel has at most one unanswered command. It is freed only in settle, by
 * which it is brought nearer to what is wanted of it, when nobody is walking over them.
 */
#ifndef DLK_BACKENDS_REDIS_CHANNEL_H
#define DLK_BACKENDS_REDIS_CHANNEL_H

#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "util/clock.h"

#define DLK_CHANNEL_IDLE_MAX 256
#define DLK_CHANNEL_IDLE_NS  (2 * DLK_NS_PER_SEC)

typedef enum dlk_redis_channel_state {
    DLK_CHANNEL_OFF,
    DLK_CHANNEL_TURNING_ON, /* SUBSCRIBE is unanswered */
    DLK_CHANNEL_ON,
    DLK_CHANNEL_TURNING_OFF, /* UNSUBSCRIBE is unanswered */
    DLK_CHANNEL_REFUSED,     /* the user may not: its waiters poll */
} dlk_redis_channel_state;

struct dlk_redis_channel {
    dlk_redis_channel *next; /* in its bucket */
    dlk_list all, idle, outstanding;
    dlk_list watchers; /* dlk_redis_watcher.link */
    dlk_redis *redis;
    bool sharded; /* one of a shard */
    /* The plain one beside one of a shard, and back: that has the watchers of both. */
    dlk_redis_channel *twin, *first;
    dlk_redis_channel_state state;
    bool checking; /* the unanswered SUBSCRIBE is a heartbeat */
    int64_t idle_since;
    uint64_t last; /* the number of the last message, or confirmation, on it */
    uint64_t hash;
    size_t size;
    char name[];
};

/* A key that is watched, as few of those that a client knows are at a time. */
typedef struct dlk_redis_watcher {
    dlk_redis_key *key;
    dlk_redis_channel *at;
    dlk_list link;    /* in the channel's list */
    dlk_list to_tell; /* in the subscriber's: the host has to be told */
} dlk_redis_watcher;

dlk_redis_channel *dlk_redis_channel_find(const dlk_redis_subscriber *subscriber,
                                          const char *name, size_t size, bool sharded);
/* That of a lock. */
dlk_redis_channel *dlk_redis_channel_find_lock(const dlk_redis *redis, const char *name,
                                               size_t size);
/* NULL without memory, as the next one. */
dlk_redis_channel *dlk_redis_channel_add(dlk_redis *redis, const char *name, size_t size,
                                         bool sharded);
/* The lock's channel, with its twin where it should have one; made if need be. */
dlk_redis_channel *dlk_redis_channel_get(dlk_redis *redis, const char *name, size_t size);
void dlk_redis_channel_discard(dlk_redis_subscriber *subscriber,
                               dlk_redis_channel *channel);

/* Does the server send us what is said there? */
static inline bool dlk_redis_channel_is_on(const dlk_redis_channel *channel)
{
    return channel && (channel->state == DLK_CHANNEL_ON || channel->checking);
}
/* … on the key's channel, be it watched or not any more? */
bool dlk_redis_channel_tells(const dlk_redis *redis, const dlk_redis_key *key);

static inline bool dlk_redis_subscriber_is_ready(const dlk_redis_subscriber *subscriber)
{
    return subscriber->connection.link.phase == DLK_LINK_READY;
}
/* Sends what brings a channel nearer to what is wanted of it, or frees it. */
void dlk_redis_channel_settle(dlk_redis *redis, dlk_redis_channel *channel, int64_t now);
/* The twin, too. */
void dlk_redis_channel_settle_both(dlk_redis *redis, dlk_redis_channel *channel,
                                   int64_t now);
/* Asks anew for a subscription that stands; the answer is a sign of life. */
void dlk_redis_channel_check(dlk_redis *redis, dlk_redis_channel *channel);

/* Nobody watches it since then, or somebody does again. */
void dlk_redis_channel_become_idle(dlk_redis_subscriber *subscriber,
                                   dlk_redis_channel *channel, int64_t since);
void dlk_redis_channel_leave_idle(dlk_redis_subscriber *subscriber,
                                  dlk_redis_channel *channel);
/* Leaves the channels that have been idle for long; returns when the next one will have been. */
int64_t dlk_redis_channels_leave_old(dlk_redis *redis, int64_t now);

#endif
