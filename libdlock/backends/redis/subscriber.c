/* Subscriptions; see the header.
 *
 * A channel has at most one unanswered command, and the answers come in the order of the
 * commands; so an answer, also an error that names no channel, belongs to the first in
 * `outstanding`. What was wanted meanwhile is looked at when the answer is there.
 *
 * The host may call watch from inside notified, so channels are only freed in `settle`, which
 * runs when nobody is walking over them. */
#include "backends/redis/subscriber.h"

#include "backends/redis/errors.h"
#include "backends/redis/greeting.h"
#include "backends/redis/internal.h"
#include "backends/redis/keys.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_MAX 256
#define IDLE_NS  (2 * DLK_NS_PER_SEC)
/* A subscriber hears nothing for long. So it asks for what it has now and then: the answer shows
 * that the connection lives. (PING would be a further right.) */
#define HEARTBEAT_NS (10 * DLK_NS_PER_SEC)

typedef enum state {
    OFF,
    TURNING_ON, /* SUBSCRIBE is unanswered */
    ON,
    TURNING_OFF, /* UNSUBSCRIBE is unanswered */
    REFUSED,     /* the user may not: its waiters poll */
} state;

struct dlk_redis_channel {
    dlk_redis_channel *next; /* in its bucket */
    dlk_list all, idle, outstanding;
    dlk_list watchers; /* dlk_redis_key.watcher */
    state state;
    bool checking; /* the unanswered SUBSCRIBE is a heartbeat */
    int64_t idle_since;
    uint64_t hash;
    size_t size;
    char name[];
};

static dlk_redis *redis_of(dlk_redis_connection *connection)
{
    return connection->redis;
}

/* ---- Channels by name ---- */

static uint64_t hash_of(const char *name, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static dlk_redis_channel **slot_of(const dlk_redis_subscriber *subscriber, uint64_t hash)
{
    return &subscriber->buckets[hash & (subscriber->bucket_count - 1)];
}

static dlk_redis_channel *find(const dlk_redis_subscriber *subscriber, const char *name,
                               size_t size)
{
    uint64_t hash = hash_of(name, size);
    for (dlk_redis_channel *it = *slot_of(subscriber, hash); it; it = it->next)
        if (it->hash == hash && it->size == size && memcmp(it->name, name, size) == 0)
            return it;
    return NULL;
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
    DLK_LIST_FOR(it, &subscriber->all)
    {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, all);
        dlk_redis_channel **slot = slot_of(subscriber, channel->hash);
        channel->next = *slot;
        *slot = channel;
    }
}

static dlk_redis_channel *add(dlk_redis_subscriber *subscriber, const char *name,
                              size_t size)
{
    dlk_redis_channel *channel = calloc(1, sizeof(*channel) + size + 1);
    if (!channel)
        return NULL;
    memcpy(channel->name, name, size);
    channel->size = size;
    channel->hash = hash_of(name, size);
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

static void leave_idle(dlk_redis_subscriber *subscriber, dlk_redis_channel *channel)
{
    if (!dlk_list_empty(&channel->idle))
        subscriber->idle_count--;
    dlk_list_remove(&channel->idle);
}

static void discard(dlk_redis_subscriber *subscriber, dlk_redis_channel *channel)
{
    leave_idle(subscriber, channel);
    dlk_list_remove(&channel->outstanding);
    dlk_list_remove(&channel->all);
    dlk_redis_channel **slot = slot_of(subscriber, channel->hash);
    while (*slot != channel)
        slot = &(*slot)->next;
    *slot = channel->next;
    subscriber->channel_count--;
    free(channel);
}

/* ---- Commands ---- */

static void say(dlk_redis *redis, dlk_redis_channel *channel, const char *command,
                state next)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    const dlk_arg args[] = {dlk_arg_text(command), {channel->name, channel->size}};
    if (!dlk_resp_command(&subscriber->connection.stream.out, args, 2))
        return; /* no memory: its waiters poll */
    redis->base.host->commands++;
    channel->state = next;
    if (dlk_list_empty(&subscriber->outstanding))
        subscriber->listened_ns = 0;
    dlk_list_append(&subscriber->outstanding, &channel->outstanding);
}

static bool is_ready(const dlk_redis_subscriber *subscriber)
{
    return subscriber->connection.phase == DLK_PHASE_READY;
}

/* Sends what brings a channel nearer to what is wanted of it. */
static void settle(dlk_redis *redis, dlk_redis_channel *channel, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    bool wanted = !dlk_list_empty(&channel->watchers);
    if (!dlk_list_empty(&channel->outstanding))
        return;
    if (wanted && channel->state == OFF && is_ready(subscriber))
        say(redis, channel, "SUBSCRIBE", TURNING_ON);
    if (wanted)
        return;
    if (channel->state != ON || !is_ready(subscriber))
        discard(subscriber, channel);
    else if (now >= channel->idle_since + IDLE_NS || subscriber->idle_count > IDLE_MAX)
        say(redis, channel, "UNSUBSCRIBE", TURNING_OFF);
}

/* ---- What the engine calls ---- */

static void wake_up(dlk_redis *redis, int64_t now)
{
    dlk_redis_connection *connection = &redis->subscriber.connection;
    if (connection->phase == DLK_PHASE_OFF && connection->to.count > 0 &&
        !redis->stopped && dlk_stream_reap(&connection->stream))
        dlk_redis_connection_start(connection, now);
}

static void watch_on(dlk_redis *redis, dlk_redis_key *key, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    size_t size = strlen(key->channel);
    dlk_redis_channel *channel = find(subscriber, key->channel, size);
    if (!channel)
        channel = add(subscriber, key->channel, size);
    if (!channel)
        return; /* no memory: the engine's polling is all there is */
    leave_idle(subscriber, channel);
    key->at = channel;
    dlk_list_append(&channel->watchers, &key->watcher);
    wake_up(redis, now);
    settle(redis, channel, now);
    /* When the subscription stands already, nothing will come to say so. But the lock may have
     * been released since the engine asked, so it has to ask again; told by the next process. */
    if (channel->state == ON || channel->checking) {
        dlk_list_append(&subscriber->to_tell, &key->to_tell);
        dlk_redis_wake(redis);
    }
}

static void watch_off(dlk_redis *redis, dlk_redis_key *key, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_redis_channel *channel = key->at;
    dlk_list_remove(&key->watcher);
    dlk_list_remove(&key->to_tell);
    key->at = NULL;
    if (!dlk_list_empty(&channel->watchers))
        return;
    channel->idle_since = now;
    dlk_list_append(&subscriber->idle, &channel->idle);
    if (++subscriber->idle_count > IDLE_MAX)
        settle(redis,
               DLK_LIST_ITEM(dlk_list_first(&subscriber->idle), dlk_redis_channel, idle),
               now);
}

void dlk_redis_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now)
{
    dlk_redis *redis = (dlk_redis *)backend;
    dlk_redis_key *data = key->data;
    if (redis->poll_only || on == (data->at != NULL))
        return;
    if (on)
        watch_on(redis, data, now);
    else
        watch_off(redis, data, now);
}

void dlk_redis_subscriber_follow(dlk_redis *redis, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_redis_connection *connection = &subscriber->connection;
    const dlk_address *there = dlk_dial_address(&redis->commands.dial);
    if (connection->to.count == 0 || !dlk_address_same(&connection->to.item[0], there)) {
        connection->to.item[0] = *there;
        connection->to.count = 1;
        if (connection->phase !=
            DLK_PHASE_OFF) /* it hears what is said at another server */
            dlk_redis_connection_drop(
                connection, dlk_error_make(DLOCK_EUNAVAIL, "redis: the server has moved"),
                now);
    }
    /* The server is there again: no need to rest any longer. */
    dlk_backoff_reset(&connection->backoff);
    if (connection->phase == DLK_PHASE_RESTING)
        connection->retry_at = now;
    if (!dlk_list_empty(&subscriber->all))
        wake_up(redis, now);
}

/* ---- What comes from the server ---- */

static void tell(dlk_redis *redis)
{
    dlk_list *first;
    /* The host may change the list from inside. */
    while ((first = dlk_list_take_first(&redis->subscriber.to_tell)))
        redis->base.host->notified(redis->base.host,
                                   DLK_LIST_ITEM(first, dlk_redis_key, to_tell)->key);
}

static void notify(dlk_redis *redis, dlk_redis_channel *channel)
{
    DLK_LIST_FOR(it, &channel->watchers)
    {
        dlk_redis_key *key = DLK_LIST_ITEM(it, dlk_redis_key, watcher);
        if (dlk_list_empty(&key->to_tell))
            dlk_list_append(&redis->subscriber.to_tell, &key->to_tell);
    }
    tell(redis);
}

static void warn_refused(dlk_redis *redis, const dlk_resp *reply)
{
    if (!redis->subscriber.warned)
        redis->base.host->log(redis->base.host, DLOCK_LOG_WARN,
                              "redis: can't subscribe, so waiters will poll: %s",
                              reply->text);
    redis->subscriber.warned = true;
}

/* The answer to the first command that is outstanding. */
static dlock_error *take_answer(dlk_redis *redis, const dlk_resp *reply, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_list *first = dlk_list_first(&subscriber->outstanding);
    if (!first)
        return dlk_error_make(DLOCK_EPROTO, "redis: %s answers what nobody asked",
                              redis->place);
    dlk_redis_channel *channel = DLK_LIST_ITEM(first, dlk_redis_channel, outstanding);
    bool turned_on = channel->state == TURNING_ON,
         refused = reply->type == DLK_RESP_ERROR;
    if (!refused &&
        (!dlk_resp_begins(&reply->items[0], turned_on ? "subscribe" : "unsubscribe") ||
         reply->items[1].size != channel->size ||
         memcmp(reply->items[1].text, channel->name, channel->size) != 0))
        return dlk_error_make(DLOCK_EPROTO, "redis: %s confirms another subscription",
                              redis->place);
    dlk_list_remove(&channel->outstanding);
    subscriber->listened_ns = 0;
    bool news = turned_on && !channel->checking && !refused;
    channel->checking = false;
    if (refused)
        warn_refused(redis, reply);
    else
        dlk_backoff_reset(&subscriber->connection.backoff);
    if (refused)
        channel->state = turned_on ? REFUSED : ON; /* may not leave: then it stays */
    else
        channel->state = turned_on ? ON : OFF;
    if (refused && !turned_on)
        leave_idle(subscriber, channel); /* no second try */
    if (news)
        notify(redis, channel);
    if (!(refused && !turned_on))
        settle(redis, channel, now);
    return NULL;
}

static dlock_error *take_reply(dlk_redis_connection *connection, const dlk_resp *reply,
                               int64_t now)
{
    dlk_redis *redis = redis_of(connection);
    redis->subscriber.heard_at = now;
    if (reply->type == DLK_RESP_ERROR)
        return take_answer(redis, reply, now);
    if (reply->type != DLK_RESP_ARRAY || reply->count != 3 ||
        reply->items[0].type != DLK_RESP_TEXT || reply->items[1].type != DLK_RESP_TEXT)
        return dlk_error_make(
            DLOCK_EPROTO, "redis: %s sends nonsense instead of messages", redis->place);
    if (!dlk_resp_begins(&reply->items[0], "message"))
        return take_answer(redis, reply, now);
    /* Whatever the message says: 0 and 1 mean "released", others can only be hints as well. */
    dlk_redis_channel *channel =
        find(&redis->subscriber, reply->items[1].text, reply->items[1].size);
    if (channel)
        notify(redis, channel);
    return NULL;
}

static void be_ready(dlk_redis_connection *connection, int64_t now)
{
    dlk_redis *redis = redis_of(connection);
    redis->subscriber.heard_at = now;
    DLK_LIST_FOR(it, &redis->subscriber.all)
    settle(redis, DLK_LIST_ITEM(it, dlk_redis_channel, all), now);
}

/* Every subscription went with the connection. */
static void be_down(dlk_redis_connection *connection, const dlock_error *error,
                    int64_t now)
{
    dlk_redis *redis = redis_of(connection);
    redis->base.host->log(redis->base.host, DLOCK_LOG_INFO, "no messages for now: %s",
                          error->text);
    DLK_LIST_FOR(it, &redis->subscriber.all)
    {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, all);
        dlk_list_remove(&channel->outstanding);
        channel->state = OFF;
        channel->checking = false;
        settle(redis, channel, now);
    }
}

/* ---- Life ---- */

static const dlk_redis_hooks hooks = {.greet = dlk_redis_greet_messages,
                                      .ready = be_ready,
                                      .reply = take_reply,
                                      .down = be_down};

bool dlk_redis_subscriber_init(dlk_redis *redis)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_list_init(&subscriber->all);
    dlk_list_init(&subscriber->idle);
    dlk_list_init(&subscriber->outstanding);
    dlk_list_init(&subscriber->to_tell);
    subscriber->bucket_count = 64;
    subscriber->buckets = calloc(subscriber->bucket_count, sizeof(dlk_redis_channel *));
    return dlk_redis_connection_init(&subscriber->connection, redis, &hooks) &&
           subscriber->buckets;
}

void dlk_redis_subscriber_stop(dlk_redis *redis)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_redis_connection_stop(&subscriber->connection);
    DLK_LIST_FOR(it, &subscriber->all)
    {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, all);
        DLK_LIST_FOR(watcher, &channel->watchers)
        {
            dlk_redis_key *key = DLK_LIST_ITEM(watcher, dlk_redis_key, watcher);
            dlk_list_remove(&key->watcher);
            dlk_list_remove(&key->to_tell);
            key->at = NULL;
        }
        discard(subscriber, channel);
    }
}

void dlk_redis_subscriber_free(dlk_redis *redis)
{
    dlk_redis_connection_free(&redis->subscriber.connection);
    free(redis->subscriber.buckets);
}

/* ---- The driver's steps, and time ---- */

void dlk_redis_subscriber_arm(dlk_redis *redis)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    if (!dlk_list_empty(&subscriber->outstanding))
        subscriber->listening_since = dlk_clock_now();
}

void dlk_redis_subscriber_process(dlk_redis *redis, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    tell(redis);
    if (!subscriber->listening_since)
        return;
    subscriber->listened_ns += now - subscriber->listening_since;
    subscriber->listening_since = 0;
    if (is_ready(subscriber) && !dlk_list_empty(&subscriber->outstanding) &&
        subscriber->listened_ns >= redis->timeout_ns)
        dlk_redis_connection_drop(
            &subscriber->connection,
            dlk_error_make(DLOCK_EUNAVAIL,
                           "redis: %s did not confirm a subscription in time",
                           redis->place),
            now);
}

/* Asks anew for a subscription that stands; the answer is a sign of life. */
static void check(dlk_redis *redis)
{
    DLK_LIST_FOR(it, &redis->subscriber.all)
    {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, all);
        if (channel->state != ON || dlk_list_empty(&channel->watchers))
            continue;
        say(redis, channel, "SUBSCRIBE", TURNING_ON);
        channel->checking = channel->state == TURNING_ON;
        return;
    }
}

/* Leaves the channels that have been idle for long; returns when the next one will have been. */
static int64_t leave_old(dlk_redis *redis, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    DLK_LIST_FOR(it, &subscriber->idle)
    {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, idle);
        if (now < channel->idle_since + IDLE_NS)
            return channel->idle_since + IDLE_NS;
        leave_idle(subscriber, channel);
        settle(redis, channel, now);
    }
    return DLK_NEVER;
}

/* What a tick says has to be sent even when nobody drives for long. */
static void send_now(dlk_redis *redis, dlk_stream *stream)
{
    if (dlk_buf_size(&stream->out) == 0)
        return;
    if (stream->armed) {
        dlk_redis_wake(redis);
        return;
    }
    dlk_stream_arm(stream);
    (void)dlk_stream_push(stream); /* a rest goes with the next driver */
    dlk_stream_disarm(stream);
}

int64_t dlk_redis_subscriber_tick(dlk_redis *redis, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    if (subscriber->channel_count == 0 &&
        subscriber->connection.phase == DLK_PHASE_RESTING)
        dlk_redis_connection_stop(&subscriber->connection); /* until somebody watches */
    int64_t next = dlk_redis_connection_tick(&subscriber->connection, now);
    if (!is_ready(subscriber) || subscriber->channel_count == 0)
        return next;
    int64_t idle = leave_old(redis, now);
    if (now >= subscriber->heard_at + HEARTBEAT_NS) {
        subscriber->heard_at = now;
        if (dlk_list_empty(&subscriber->outstanding))
            check(redis);
    }
    send_now(redis, &subscriber->connection.stream);
    int64_t beat = subscriber->heard_at + HEARTBEAT_NS;
    next = idle < next ? idle : next;
    return beat < next ? beat : next;
}
