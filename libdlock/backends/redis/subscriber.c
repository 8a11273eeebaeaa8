/* Subscriptions; see the header.
 *
 * A channel has at most one unanswered command, and the answers come in the order of the
 * commands; so an answer, also an error that names no channel, belongs to the first in
 * `outstanding`. What was wanted meanwhile is looked at when the answer is there.
 *
 * The host may call watch from inside notified, so channels are only freed in `settle`, which
 * runs when nobody is walking over them. */
#include "backends/redis/subscriber.h"

#include "backends/redis/channel.h"
#include "backends/redis/greeting.h"
#include "backends/redis/handover.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "backends/redis/watch.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/point.h"

#include <stdlib.h>
#include <string.h>

/* A subscriber hears nothing for long. So it asks for what it has now and then: the answer shows
 * that the connection lives. (PING would be a further right.) */
#define HEARTBEAT_NS (10 * DLK_NS_PER_SEC)

/* ---- Where it leads ---- */

void dlk_redis_subscriber_begin(dlk_redis *redis, int64_t now)
{
    dlk_redis_connection *connection = &redis->subscriber.connection;
    if (connection->link.phase == DLK_LINK_OFF && connection->link.to.count > 0 &&
        !redis->stopped && dlk_stream_reap(&connection->link.stream))
        dlk_link_start(&connection->link, now);
}

void dlk_redis_subscriber_settle(dlk_redis *redis, int64_t now)
{
    DLK_LIST_FOR (it, &redis->subscriber.all)
        dlk_redis_channel_settle(redis, DLK_LIST_ITEM(it, dlk_redis_channel, all), now);
}

void dlk_redis_subscriber_follow(dlk_redis *redis, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_redis_connection *connection = &subscriber->connection;
    const dlk_address *there = dlk_dial_address(&redis->commands.link.dial);
    if (connection->link.to.count == 0 ||
        !dlk_address_same(&connection->link.to.item[0], there)) {
        connection->link.to.item[0] = *there;
        connection->link.to.count = 1;
        if (connection->link.phase !=
            DLK_LINK_OFF) /* it hears what is said at another server */
            dlk_link_drop(&connection->link,
                          dlk_error_make(DLOCK_EUNAVAIL, "redis: the server has moved"),
                          now);
    }
    /* The server is there again: no need to rest any longer. */
    dlk_backoff_reset(&connection->link.backoff);
    if (connection->link.phase == DLK_LINK_RESTING)
        connection->link.retry_at = now;
    if (!dlk_list_empty(&subscriber->all))
        dlk_redis_subscriber_begin(redis, now);
}

/* ---- What comes from the server ---- */

static void tell(dlk_redis *redis)
{
    dlk_list *first;
    /* The host may change the list from inside. */
    while ((first = dlk_list_take_first(&redis->subscriber.to_tell)))
        redis->base.host->notified(
            redis->base.host, DLK_LIST_ITEM(first, dlk_redis_watcher, to_tell)->key->key);
}

static void be_told(dlk_redis *redis, dlk_redis_watcher *watcher)
{
    if (dlk_list_empty(&watcher->to_tell))
        dlk_list_append(&redis->subscriber.to_tell, &watcher->to_tell);
}

static void notify(dlk_redis *redis, dlk_redis_channel *channel)
{
    DLK_POINT("message");
    if (channel->first)
        channel = channel->first;
    channel->last = ++redis->subscriber.messages;
    DLK_LIST_FOR (it, &channel->watchers) {
        dlk_redis_watcher *watcher = DLK_LIST_ITEM(it, dlk_redis_watcher, link);
        dlk_redis_handover_heard(watcher->key);
        be_told(redis, watcher);
    }
    tell(redis);
}

/* On the client's own channel: one of ours is asked to give up what it has, or keeps, or the server has
 * appointed it. Then it may not wait any more, or not yet: this came by another way than the answer that it
 * stands in the line. */
static void take_own(dlk_redis *redis, const dlk_resp *message)
{
    uint64_t number;
    uint32_t turn;
    const char *name;
    size_t size;
    DLK_POINT("message");
    if (redis->subscriber.listening && dlk_redis_handover_revokes(message, &number))
        redis->base.host->revoked(redis->base.host, number);
    if (redis->base.host->asked &&
        dlk_redis_handover_asked(message, &number, &name, &size))
        redis->base.host->asked(redis->base.host, number, name, size);
    if (!dlk_redis_handover_parse(redis, message, &number, &turn, &name, &size))
        return;
    dlk_redis_channel *channel = dlk_redis_channel_find_lock(redis, name, size);
    if (!channel)
        return;
    channel->last = ++redis->subscriber.messages;
    DLK_LIST_FOR (it, &channel->watchers) {
        dlk_redis_watcher *watcher = DLK_LIST_ITEM(it, dlk_redis_watcher, link);
        if (dlk_redis_handover_told(watcher->key, number, turn))
            be_told(redis, watcher);
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

static void warn_unheard(dlk_redis *redis, const dlk_resp *reply)
{
    if (!redis->subscriber.warned_own)
        redis->base.host->log(redis->base.host, DLOCK_LOG_WARN,
                              "redis: can't subscribe to " DLK_REDIS_CLIENT_CHANNEL
                              "%s, so nobody hands locks over to this client: %s",
                              redis->base.host->uuid, reply->text);
    redis->subscriber.warned_own = true;
}

/* A slot has left the node, and its channels with it. True: that is what this says, unasked. */
static bool is_taken_away(dlk_redis *redis, const dlk_resp *reply)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    if (!redis->cluster || !dlk_resp_begins(&reply->items[0], "sunsubscribe"))
        return false;
    dlk_redis_channel *channel = dlk_redis_channel_find(subscriber, reply->items[1].text,
                                                        reply->items[1].size, true);
    if (!channel || channel->state == DLK_CHANNEL_TURNING_OFF)
        return false;
    if (channel->state == DLK_CHANNEL_ON)
        channel->state = DLK_CHANNEL_OFF; /* else its command will be refused */
    redis->cluster->moved(redis);
    DLK_LIST_FOR (it, &channel->watchers)
        be_told(redis, DLK_LIST_ITEM(it, dlk_redis_watcher, link));
    tell(redis);
    return true;
}

/* A refusal of this kind ends when the cluster's map is known better. */
static bool is_elsewhere(dlk_redis *redis, const dlk_resp *reply)
{
    if (!redis->cluster ||
        !(dlk_resp_begins(reply, "MOVED") || dlk_resp_begins(reply, "CLUSTERDOWN")))
        return false;
    redis->cluster->moved(redis);
    return true;
}

static bool confirms(const dlk_resp *reply, const dlk_redis_channel *channel,
                     bool turned_on)
{
    const char *said = (turned_on ? "ssubscribe" : "sunsubscribe") + !channel->sharded;
    return dlk_resp_begins(&reply->items[0], said) &&
           reply->items[1].size == channel->size &&
           memcmp(reply->items[1].text, channel->name, channel->size) == 0;
}

static dlk_redis_channel_state state_after(bool turned_on, bool refused)
{
    if (turned_on)
        return refused ? DLK_CHANNEL_REFUSED : DLK_CHANNEL_ON;
    return refused ? DLK_CHANNEL_ON /* may not leave: then it stays */ : DLK_CHANNEL_OFF;
}

/* The answer to the first command that is outstanding. */
static dlock_error *take_answer(dlk_redis *redis, const dlk_resp *reply, int64_t now)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_list *first = dlk_list_first(&subscriber->outstanding);
    if (!first)
        return dlk_error_make(DLOCK_EPROTO, "redis: %s answers what nobody asked",
                              redis->peer);
    dlk_redis_channel *channel = DLK_LIST_ITEM(first, dlk_redis_channel, outstanding);
    bool turned_on = channel->state == DLK_CHANNEL_TURNING_ON,
         refused = reply->type == DLK_RESP_ERROR;
    if (!refused && !confirms(reply, channel, turned_on))
        return dlk_error_make(DLOCK_EPROTO, "redis: %s confirms another subscription",
                              redis->peer);
    dlk_list_remove(&channel->outstanding);
    subscriber->listened_ns = 0;
    bool news = turned_on && !channel->checking && !refused;
    DLK_POINT(turned_on ? "subscribe.answer" : "unsubscribe.answer");
    channel->checking = false;
    if (refused && is_elsewhere(redis, reply)) {
        channel->state = DLK_CHANNEL_OFF;
        return NULL;
    }
    if (refused && channel == subscriber->own)
        warn_unheard(redis, reply);
    else if (refused)
        warn_refused(redis, reply);
    else
        dlk_backoff_reset(&subscriber->connection.link.backoff);
    channel->state = state_after(turned_on, refused);
    if (refused && !turned_on)
        dlk_redis_channel_leave_idle(subscriber, channel); /* no second try */
    if (news)
        notify(redis, channel);
    if (!(refused && !turned_on))
        dlk_redis_channel_settle(redis, channel, now);
    return NULL;
}

static dlock_error *take_reply(dlk_redis_connection *connection, const dlk_resp *reply,
                               int64_t now)
{
    dlk_redis *redis = connection->redis;
    redis->subscriber.heard_at = now;
    if (reply->type == DLK_RESP_ERROR)
        return take_answer(redis, reply, now);
    if (reply->type != DLK_RESP_ARRAY || reply->count != 3 ||
        reply->items[0].type != DLK_RESP_TEXT || reply->items[1].type != DLK_RESP_TEXT)
        return dlk_error_make(
            DLOCK_EPROTO, "redis: %s sends nonsense instead of messages", redis->peer);
    bool sharded =
        reply->items[0].text[0] == 's' && dlk_resp_begins(&reply->items[0], "smessage");
    if (!sharded && !dlk_resp_begins(&reply->items[0], "message"))
        return is_taken_away(redis, reply) ? NULL : take_answer(redis, reply, now);
    /* Whatever the message says: 0 and 1 mean "released", others can only be hints as well. */
    dlk_redis_channel *channel = dlk_redis_channel_find(
        &redis->subscriber, reply->items[1].text, reply->items[1].size, sharded);
    if (channel && channel == redis->subscriber.own)
        take_own(redis, &reply->items[2]);
    else if (channel)
        notify(redis, channel);
    return NULL;
}

static void be_ready(dlk_link *link, int64_t now)
{
    dlk_redis *redis = dlk_redis_connection_of(link)->redis;
    redis->subscriber.heard_at = now;
    dlk_redis_subscriber_settle(redis, now);
}

/* Who stands in the line of a fair lock, or of a condition, and isn't heard there is taken for dead, unless
 * it asks. */
static void ask_instead(dlk_redis *redis, dlk_redis_channel *channel)
{
    DLK_LIST_FOR (it, &channel->watchers) {
        dlk_redis_watcher *watcher = DLK_LIST_ITEM(it, dlk_redis_watcher, link);
        const dlk_redis_form *form = watcher->key->form;
        if (form->queues || form->signals)
            be_told(redis, watcher);
    }
    if (!dlk_list_empty(&redis->subscriber.to_tell))
        dlk_redis_wake(redis);
}

/* Every subscription went with the connection. */
static void be_down(dlk_link *link, const dlock_error *error, int64_t now)
{
    dlk_redis *redis = dlk_redis_connection_of(link)->redis;
    redis->base.host->log(redis->base.host, DLOCK_LOG_INFO, "no messages for now: %s",
                          error->text);
    DLK_LIST_FOR (it, &redis->subscriber.all) {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, all);
        dlk_list_remove(&channel->outstanding);
        channel->state = DLK_CHANNEL_OFF;
        channel->checking = false;
        ask_instead(redis, channel);
        dlk_redis_channel_settle(redis, channel, now);
    }
}

/* ---- Life ---- */

/* Nobody waits for a subscription, so any end is harmless. */
static const dlk_link_ops ops = {DLK_REDIS_LINK, .greet = dlk_redis_greet_messages,
                                 .ready = be_ready, .down = be_down};

bool dlk_redis_subscriber_init(dlk_redis *redis)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_list_init(&subscriber->all);
    dlk_list_init(&subscriber->idle);
    dlk_list_init(&subscriber->outstanding);
    dlk_list_init(&subscriber->to_tell);
    subscriber->bucket_count = 64;
    subscriber->buckets = calloc(subscriber->bucket_count, sizeof(dlk_redis_channel *));
    return dlk_redis_connection_init(&subscriber->connection, redis, &ops, take_reply) &&
           subscriber->buckets;
}

void dlk_redis_subscriber_stop(dlk_redis *redis)
{
    dlk_redis_subscriber *subscriber = &redis->subscriber;
    dlk_link_stop(&subscriber->connection.link);
    DLK_LIST_FOR (it, &subscriber->all) {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, all);
        DLK_LIST_FOR (watcher, &channel->watchers)
            dlk_redis_watcher_end(DLK_LIST_ITEM(watcher, dlk_redis_watcher, link));
        dlk_redis_channel_discard(subscriber, channel);
    }
    subscriber->own = NULL;
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
    if (dlk_redis_subscriber_is_ready(subscriber) &&
        !dlk_list_empty(&subscriber->outstanding) &&
        subscriber->listened_ns >= redis->timeout_ns)
        dlk_link_drop(&subscriber->connection.link,
                      dlk_error_make(DLOCK_EUNAVAIL,
                                     "redis: %s did not confirm a subscription in time",
                                     redis->peer),
                      now);
}

/* Asks anew for a subscription that stands; the answer is a sign of life. */
static void check(dlk_redis *redis)
{
    DLK_LIST_FOR (it, &redis->subscriber.all) {
        dlk_redis_channel *channel = DLK_LIST_ITEM(it, dlk_redis_channel, all);
        bool own = channel == redis->subscriber.own && redis->subscriber.listening;
        if (channel->state != DLK_CHANNEL_ON ||
            (dlk_list_empty(&channel->watchers) && !own))
            continue;
        dlk_redis_channel_check(redis, channel);
        return;
    }
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
        subscriber->connection.link.phase == DLK_LINK_RESTING)
        dlk_link_stop(&subscriber->connection.link); /* until somebody watches */
    if (subscriber->listening || subscriber->own)
        dlk_redis_listen_to_own(redis, now);
    int64_t next = dlk_link_tick(&subscriber->connection.link, now);
    if (!dlk_redis_subscriber_is_ready(subscriber) || subscriber->channel_count == 0)
        return next;
    int64_t idle = dlk_redis_channels_leave_old(redis, now);
    if (now >= subscriber->heard_at + HEARTBEAT_NS) {
        subscriber->heard_at = now;
        if (dlk_list_empty(&subscriber->outstanding))
            check(redis);
    }
    send_now(redis, &subscriber->connection.link.stream);
    int64_t beat = subscriber->heard_at + HEARTBEAT_NS;
    next = idle < next ? idle : next;
    return beat < next ? beat : next;
}
