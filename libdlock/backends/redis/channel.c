/* Channels by name, and bringing each to what is wanted of it; see the header. */
#include "backends/redis/channel.h"

#include "util/clock.h"
#include "util/hash.h"
#include "util/point.h"

#include <stdlib.h>
#include <string.h>

/* Without their first letters but for channels of shards. */
#define SUBSCRIBE   "SSUBSCRIBE"
#define UNSUBSCRIBE "SUNSUBSCRIBE"

/* ---- Channels by name ---- */

static dlk_redis_channel **slot_of(const dlk_redis_subscriber *subscriber, uint64_t hash)
{
    return &subscriber->buckets[hash & (subscriber->bucket_count - 1)];
}

dlk_redis_channel *dlk_redis_channel_find(const dlk_redis_subscriber *subscriber,
                                          const char *name, size_t size, bool sharded)
{
    uint64_t hash = dlk_hash(DLK_HASH_BEGIN, name, size);
    for (dlk_redis_channel *it = *slot_of(subscriber, hash); it; it = it->next)
        if (it->hash == hash && it->size == size && it->sharded == sharded &&
            memcmp(it->name, name, size) == 0)
            return it;
    return NULL;
}

dlk_redis_channel *dlk_redis_channel_find_lock(const dlk_redis *redis, const char *name,
                                               size_t size)
{
    return dlk_redis_channel_find(&redis->subscriber, name, size,
                                  redis->publish != DLK_PUBLISH_ALL);
}

/* Doubles the buckets; without memory the chains just get longer. */
static void grow(dlk_redis_subscriber *subscriber)
{
    size_t count = subscriber->bucket_count * 2;
    dlk_redis_channel **buckets = calloc(count, sizeof(dlk_redis_channel *));
    if (!buckets)
        return;
    free(subscriber->buckets);
    subscriber->buckets = buckets;
    subscriber->bucket_count = count;
    DLK_LIST_FOR (it, &subscriber->all) {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, all);
        dlk_redis_channel **slot = slot_of(subscriber, channel->hash);
        channel->next = *slot;
        *slot = channel;
    }
}

dlk_redis_channel *dlk_redis_channel_add(dlk_redis *redis, const char *name, size_t size,
                                         bool sharded)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_redis_channel *channel = calloc(1, sizeof(*channel) + size + 1);
    if (!channel)
        return NULL;
    memcpy(channel->name, name, size);
    channel->size = size;
    channel->redis = redis;
    channel->sharded = sharded;
    channel->hash = dlk_hash(DLK_HASH_BEGIN, name, size);
    dlk_list_init(&channel->idle);
    dlk_list_init(&channel->outstanding);
    dlk_list_init(&channel->watchers);
    dlk_list_init(&channel->all);
    if (subscriber->channel_count >= subscriber->bucket_count)
        grow(subscriber);
    dlk_list_append(&subscriber->all, &channel->all);
    dlk_redis_channel **slot = slot_of(subscriber, channel->hash);
    channel->next = *slot;
    *slot = channel;
    subscriber->channel_count++;
    return channel;
}

dlk_redis_channel *dlk_redis_channel_get(dlk_redis *redis, const char *name, size_t size)
{
    dlk_redis_channel *channel = dlk_redis_channel_find_lock(redis, name, size);
    if (!channel)
        channel =
            dlk_redis_channel_add(redis, name, size, redis->publish != DLK_PUBLISH_ALL);
    if (!channel || redis->publish != DLK_PUBLISH_BOTH || channel->twin)
        return channel;
    dlk_redis_channel *twin =
        dlk_redis_channel_find(&redis->subscriber, name, size, false);
    if (!twin)
        twin = dlk_redis_channel_add(redis, name, size, false);
    channel->twin = twin; /* without memory one of them has to do */
    if (twin)
        twin->first = channel;
    return channel;
}

bool dlk_redis_channel_tells(const dlk_redis *redis, const dlk_redis_key *key)
{
    char name[DLK_REDIS_CHANNEL_MAX];
    size_t size = dlk_redis_channel_name(key, name);
    return dlk_redis_channel_is_on(dlk_redis_channel_find_lock(redis, name, size));
}

void dlk_redis_channel_leave_idle(dlk_redis_subscriber *subscriber,
                                  dlk_redis_channel *channel)
{
    if (!dlk_list_empty(&channel->idle))
        subscriber->idle_count--;
    dlk_list_remove(&channel->idle);
}

void dlk_redis_channel_discard(dlk_redis_subscriber *subscriber,
                               dlk_redis_channel *channel)
{
    dlk_redis_channel_leave_idle(subscriber, channel);
    dlk_list_remove(&channel->outstanding);
    dlk_list_remove(&channel->all);
    dlk_redis_channel **slot = slot_of(subscriber, channel->hash);
    while (*slot != channel)
        slot = &(*slot)->next;
    *slot = channel->next;
    subscriber->channel_count--;
    if (channel->twin)
        channel->twin->first = NULL;
    if (channel->first)
        channel->first->twin = NULL;
    free(channel);
}

/* ---- Commands ---- */

static void say(dlk_redis *redis, dlk_redis_channel *channel, const char *command,
                dlk_redis_channel_state next)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    const dlk_arg args[] = {dlk_arg_text(channel->sharded ? command : command + 1),
                            {channel->name, channel->size}};
    DLK_POINT(next == DLK_CHANNEL_TURNING_ON ? "subscribe.ask" : "unsubscribe.ask");
    if (!dlk_resp_command(&subscriber->connection.link.stream.out, args, 2))
        return; /* no memory: its waiters poll */
    redis->base.host->commands++;
    channel->state = next;
    if (dlk_list_empty(&subscriber->outstanding))
        subscriber->listened_ns = 0;
    dlk_list_append(&subscriber->outstanding, &channel->outstanding);
}

static bool is_wanted(const dlk_redis_subscriber *subscriber,
                      const dlk_redis_channel *channel)
{
    return !dlk_list_empty(&channel->watchers) || channel == subscriber->own ||
           (channel->first && !dlk_list_empty(&channel->first->watchers));
}

/* The next that are too many leave others, also before this is answered. */
static void leave(dlk_redis *redis, dlk_redis_channel *channel)
{
    say(redis, channel, UNSUBSCRIBE, DLK_CHANNEL_TURNING_OFF);
    if (channel->state == DLK_CHANNEL_TURNING_OFF)
        dlk_redis_channel_leave_idle(&redis->subscriber, channel);
}

void dlk_redis_channel_settle(dlk_redis *redis, dlk_redis_channel *channel, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    bool wanted = is_wanted(subscriber, channel);
    if (!dlk_list_empty(&channel->outstanding))
        return;
    if (wanted && channel->state == DLK_CHANNEL_OFF &&
        dlk_redis_subscriber_is_ready(subscriber))
        say(redis, channel, SUBSCRIBE, DLK_CHANNEL_TURNING_ON);
    if (wanted)
        return;
    if (channel->state != DLK_CHANNEL_ON || !dlk_redis_subscriber_is_ready(subscriber))
        dlk_redis_channel_discard(subscriber, channel);
    else if (now >= channel->idle_since + DLK_CHANNEL_IDLE_NS ||
             subscriber->idle_count > DLK_CHANNEL_IDLE_MAX)
        leave(redis, channel);
}

void dlk_redis_channel_settle_both(dlk_redis *redis, dlk_redis_channel *channel,
                                   int64_t now)
{
    dlk_redis_channel *twin = channel->twin;
    dlk_redis_channel_settle(redis, channel, now);
    if (twin)
        dlk_redis_channel_settle(redis, twin, now);
}

void dlk_redis_channel_check(dlk_redis *redis, dlk_redis_channel *channel)
{
    say(redis, channel, SUBSCRIBE, DLK_CHANNEL_TURNING_ON);
    channel->checking = channel->state == DLK_CHANNEL_TURNING_ON;
}

/* ---- Those that nobody watches ---- */

void dlk_redis_channel_become_idle(dlk_redis_subscriber *subscriber,
                                   dlk_redis_channel *channel, int64_t since)
{
    channel->idle_since = since;
    dlk_list_append(&subscriber->idle, &channel->idle);
    subscriber->idle_count++;
}

int64_t dlk_redis_channels_leave_old(dlk_redis *redis, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    DLK_LIST_FOR (it, &subscriber->idle) {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, idle);
        if (now < channel->idle_since + DLK_CHANNEL_IDLE_NS)
            return channel->idle_since + DLK_CHANNEL_IDLE_NS;
        dlk_redis_channel_settle(redis, channel, now);
    }
    return DLK_NEVER;
}
