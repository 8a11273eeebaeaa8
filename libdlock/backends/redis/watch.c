/* Which channel tells of a key, and who watches it; see the header. */
#include "backends/redis/watch.h"

#include "backends/redis/subscriber.h"

#include <stdio.h>
#include <stdlib.h>

/* The client's own channel, which is subscribed to before any other. */
void dlk_redis_listen_to_own(dlk_redis *redis, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    if (subscriber->own) {
        /* There may have been no memory to ask for it. */
        dlk_redis_channel_settle(redis, subscriber->own, now);
        return;
    }
    char name[sizeof(DLK_REDIS_CLIENT_CHANNEL) + DLK_UUID_SIZE];
    int size = snprintf(name, sizeof(name), DLK_REDIS_CLIENT_CHANNEL "%s",
                        redis->base.host->uuid);
    subscriber->own = dlk_redis_channel_add(redis, name, (size_t)size, false);
    if (!subscriber->own)
        return; /* no memory: nobody of ours stands in a line */
    dlk_list_remove(&subscriber->own->all);
    dlk_list_prepend(&subscriber->all, &subscriber->own->all);
    dlk_redis_subscriber_begin(redis, now);
    dlk_redis_channel_settle(redis, subscriber->own, now);
}

/* May a message have come since the engine asked for what it now waits for? */
static bool was_told_meanwhile(const dlk_redis_key *key, const dlk_redis_channel *channel)
{
    return key->looked || channel->last > key->asked_at;
}

/* Where to hear of the key: on the lock's channel, or where its contender is told alone. */
#define LISTENED_MAX (DLK_REDIS_CHANNEL_MAX + 1 + DLK_REDIS_OWNER_MAX)
static size_t put_listened(const dlk_redis *redis, const dlk_redis_key *key,
                           char name[LISTENED_MAX])
{
    size_t size = dlk_redis_channel_name(key, name);
    if (!key->form->queues || !key->contender)
        return size;
    name[size++] = ':';
    return size + dlk_redis_put_owner(redis, key->contender, name + size);
}

/* NULL without memory. */
static dlk_redis_watcher *make_watcher(dlk_redis *redis, dlk_redis_key *key)
{
    char name[LISTENED_MAX];
    size_t size = put_listened(redis, key, name);
    dlk_redis_watcher *watcher = malloc(sizeof(*watcher));
    dlk_redis_channel *channel =
        watcher ? dlk_redis_channel_get(redis, name, size) : NULL;
    if (!channel) {
        free(watcher);
        return NULL;
    }
    *watcher = (dlk_redis_watcher){.key = key, .at = channel};
    dlk_list_init(&watcher->to_tell);
    dlk_list_append(&channel->watchers, &watcher->link);
    return watcher;
}

void dlk_redis_watcher_end(dlk_redis_watcher *watcher)
{
    dlk_list_remove(&watcher->link);
    dlk_list_remove(&watcher->to_tell);
    watcher->key->watcher = NULL;
    free(watcher);
}

static void watch_on(dlk_redis *redis, dlk_redis_key *key, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    if (key->hands_over ||
        key->form->signals) /* may end in discarding all that nobody watches */
        dlk_redis_listen_to_own(redis, now);
    key->watcher = make_watcher(redis, key);
    if (!key->watcher)
        return; /* the engine's polling is all there is */
    dlk_redis_channel *channel = key->watcher->at;
    dlk_redis_channel_leave_idle(subscriber, channel);
    if (channel->twin)
        dlk_redis_channel_leave_idle(subscriber, channel->twin);
    dlk_redis_subscriber_begin(redis, now);
    dlk_redis_channel_settle_both(redis, channel, now);
    /* When the subscription stands already, nothing will come to say so. Where the lock may have
     * been released since the engine asked, it has to ask again; told by the next process. */
    if (dlk_redis_channel_is_on(channel) && was_told_meanwhile(key, channel)) {
        dlk_list_append(&subscriber->to_tell, &key->watcher->to_tell);
        dlk_redis_wake(redis);
    }
}

/* Is it the channel of one contender? */
static bool is_own(const dlk_redis_key *key, const dlk_redis_channel *channel)
{
    char name[DLK_REDIS_CHANNEL_MAX];
    return key->form->queues && channel->size > dlk_redis_channel_name(key, name);
}

static void watch_off(dlk_redis *redis, dlk_redis_key *key, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_redis_channel *channel = key->watcher->at;
    dlk_redis_watcher_end(key->watcher);
    key->looked = false;
    if (!dlk_list_empty(&channel->watchers))
        return;
    bool over = is_own(key, channel); /* nobody will ever be told there again */
    dlk_redis_channel_become_idle(subscriber, channel,
                                  over ? now - DLK_CHANNEL_IDLE_NS : now);
    if (channel->twin)
        dlk_redis_channel_become_idle(subscriber, channel->twin, channel->idle_since);
    if (over)
        dlk_redis_channel_settle_both(redis, channel, now);
    else if (subscriber->idle_count > DLK_CHANNEL_IDLE_MAX)
        dlk_redis_channel_settle(
            redis,
            DLK_LIST_ITEM(dlk_list_first(&subscriber->idle), dlk_redis_channel, idle),
            now);
}

void dlk_redis_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now)
{
    dlk_redis *redis = (dlk_redis *)backend;
    dlk_redis_key *data = key->data;
    if (redis->poll_only || !data->told || on == (data->watcher != NULL))
        return;
    if (on)
        watch_on(redis, data, now);
    else
        watch_off(redis, data, now);
}

dlk_redis *dlk_redis_watched_at(const dlk_redis_key *key)
{
    return key->watcher ? key->watcher->at->redis : NULL;
}

dlk_redis_key *dlk_redis_watched_astray(const dlk_redis *redis,
                                        bool (*belongs)(const dlk_redis *,
                                                        const dlk_redis_key *))
{
    DLK_LIST_FOR (it, &redis->subscriber.all) {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, all);
        DLK_LIST_FOR (link, &channel->watchers) {
            dlk_redis_key *key = DLK_LIST_ITEM(link, dlk_redis_watcher, link)->key;
            if (!belongs(redis, key))
                return key;
        }
    }
    return NULL;
}

void dlk_redis_listen(dlk_backend *backend, int64_t now)
{
    dlk_redis *redis = (dlk_redis *)backend;
    if (redis->poll_only)
        return;
    redis->subscriber.listening = true;
    dlk_redis_listen_to_own(redis, now);
}
