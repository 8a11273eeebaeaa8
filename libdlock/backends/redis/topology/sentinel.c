/* Sentinels; see the header.
 *
 * A connection that is subscribed takes no other commands, so each question leaves the channel
 * first and comes back to it; what happened meanwhile is in the answer. A sentinel may lie, or not
 * have heard yet, so no single one decides where there are others: of those that answer within a
 * moment more than half have to agree, and the server that they name has to say that it is a
 * master (greeting.c). */
#include "backends/redis/topology/sentinel.h"

#include "backends/redis/asks.h"
#include "backends/redis/greeting.h"
#include "backends/redis/layout.h"
#include "backends/redis/redis.h"
#include "backends/redis/subscriber.h"
#include "backends/redis/watch.h"
#include "util/clock.h"
#include "util/error.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 26379
#define CHANNEL      "+switch-master"
/* So long the slower ones have after the first answer, where no majority is there before. */
#define MOMENT_NS (500 * DLK_NS_PER_MS)
/* How often they are asked while all is well, and while they disagree. */
#define CHECK_NS (10 * DLK_NS_PER_SEC)
/* A caller that waits for the master's answer alone doesn't listen to them, but for once in so long. */
#define LISTEN_NS DLK_NS_PER_SEC
/* How often somebody is called to drive while one is being connected, or asked. */
#define NEWS_NS  (20 * DLK_NS_PER_MS)
#define AGAIN_NS (500 * DLK_NS_PER_MS)

static dlk_sentinels *self(dlk_backend *backend)
{
    return (dlk_sentinels *)backend;
}

static dlk_sentinels *of_redis(dlk_redis *redis)
{
    return (dlk_sentinels *)redis;
}

static dlk_sentinel *of(dlk_link *link)
{
    return DLK_LIST_ITEM(dlk_redis_connection_of(link), dlk_sentinel, connection);
}

/* ---- Asking ---- */

static bool say(dlk_sentinel *one, const char *a, const char *b, const char *c)
{
    const dlk_arg args[] = {dlk_arg_text(a), dlk_arg_text(b), dlk_arg_text(c ? c : "")};
    if (!dlk_resp_command(&one->connection.link.stream.out, args, c ? 3 : 2))
        return false;
    one->to_come++;
    return true;
}

static void ask(dlk_sentinel *one, int64_t now)
{
    dlk_redis *redis = one->connection.redis;
    if (one->to_come > 0)
        return; /* its answer is on the way */
    if (!say(one, "UNSUBSCRIBE", CHANNEL, NULL) ||
        !say(one, "SENTINEL", "get-master-addr-by-name", of_redis(redis)->service) ||
        !say(one, "SUBSCRIBE", CHANNEL, NULL)) {
        dlk_link_drop(&one->connection.link,
                      dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"), now);
        return;
    }
    one->answer_until = now + redis->timeout_ns;
    dlk_link_note(&one->connection.link, DLOCK_EPENDING, DLK_WHYS_NO_ANSWER);
    dlk_redis_wake(redis); /* whoever drives has something to send */
}

static void hush(dlk_sentinel *one)
{
    one->says = DLK_SENTINEL_SILENT;
    dlk_error_clear(&one->why);
}

static void ask_all(dlk_sentinels *all, int64_t now)
{
    all->decide_at = DLK_NEVER;
    all->check_at = now + CHECK_NS;
    for (size_t i = 0; i < all->count; i++)
        hush(&all->item[i]);
    for (size_t i = 0; i < all->count; i++) {
        dlk_sentinel *one = &all->item[i];
        if (one->connection.link.phase == DLK_LINK_READY)
            ask(one, now);
        else if (one->connection.link.phase == DLK_LINK_RESTING)
            one->connection.link.retry_at = now;
        else if (one->connection.link.phase == DLK_LINK_OFF &&
                 dlk_stream_reap(&one->connection.link.stream))
            dlk_link_start(&one->connection.link, now);
    }
}

static void seek(dlk_link *master, int64_t now)
{
    dlk_sentinels *all = of_redis(dlk_redis_connection_of(master)->redis);
    all->checking = false;
    ask_all(all, now);
}

/* ---- Deciding ---- */

static void go_to(dlk_redis *redis, const dlk_sentinel *chosen, int64_t now)
{
    dlk_link *master = &redis->commands.link;
    DLK_TELL(redis->base.host->tell, DLK_TELL_CLUSTER, "the master of '%s' is %s:%u",
             of_redis(redis)->service, chosen->master, chosen->port);
    if (dlk_redis_aim(redis, chosen->master, chosen->port))
        dlk_link_dial(master, now);
    else
        dlk_link_drop(master, dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"), now);
}

static bool is_master(const dlk_redis *redis, const dlk_sentinel *chosen)
{
    return redis->port == chosen->port && redis->host &&
           strcmp(redis->host, chosen->master) == 0;
}

/* There is a master already: is it still? */
static void compare(dlk_redis *redis, const dlk_sentinel *chosen, int64_t now)
{
    dlk_link *master = &redis->commands.link;
    of_redis(redis)->checking = false;
    if (is_master(redis, chosen) || master->phase == DLK_LINK_OFF ||
        master->phase == DLK_LINK_RESTING)
        return;
    dlk_backoff_reset(&master->backoff);
    dlock_error *why = dlk_error_make(
        DLOCK_EUNAVAIL, "redis+sentinel: %s is no longer the master of '%s', %s:%u is",
        redis->peer, of_redis(redis)->service, chosen->master, chosen->port);
    dlk_link_drop(master, why, now);
    master->retry_at = now;
}

/* Looks at what has been said so far. */
static void decide(dlk_redis *redis, int64_t now)
{
    dlk_sentinels *all = of_redis(redis);
    bool seeking = dlk_link_seeks(&redis->commands.link);
    size_t votes, voters = dlk_sentinels_count(all, DLK_SENTINEL_NAMES);
    const dlk_sentinel *chosen = dlk_sentinels_most_named(all, &votes);
    if (!seeking && !all->checking)
        return;
    if (dlk_sentinels_count(all, DLK_SENTINEL_SILENT) < all->count &&
        all->decide_at >= DLK_NEVER)
        all->decide_at = now + MOMENT_NS;
    bool enough = votes * 2 > all->count;
    bool last =
        dlk_sentinels_count(all, DLK_SENTINEL_SILENT) == 0 || now >= all->decide_at;
    if (!enough && !last)
        return;
    if (enough || votes * 2 > voters) {
        if (seeking)
            go_to(redis, chosen, now);
        else
            compare(redis, chosen, now);
    } else if (seeking &&
               (voters > 0 || dlk_sentinels_count(all, DLK_SENTINEL_SILENT) == 0)) {
        dlk_link_drop(&redis->commands.link,
                      voters > 0 ? dlk_sentinels_disagree(all)
                                 : dlk_sentinels_know_nobody(all),
                      now);
    } else if (all->checking) {
        all->checking = false;
        all->check_at = now + AGAIN_NS;
    }
    all->decide_at = DLK_NEVER;
}

/* ---- What they say ---- */

/* "service old-host old-port host port": all are asked, as one alone decides nothing. */
static void take_switch(dlk_redis *redis, const dlk_resp *message, int64_t now)
{
    dlk_sentinels *all = of_redis(redis);
    size_t size = strlen(all->service);
    if (message->type != DLK_RESP_TEXT || message->size <= size ||
        strncmp(message->text, all->service, size) != 0 || message->text[size] != ' ')
        return;
    all->check_at = now; /* what was said until now may be of before */
}

static dlock_error *take_reply(dlk_redis_connection *connection, const dlk_resp *reply,
                               int64_t now)
{
    dlk_redis *redis = connection->redis;
    dlk_sentinel *one = of(&connection->link);
    if (reply->type == DLK_RESP_ARRAY && reply->count == 3 &&
        dlk_resp_begins(&reply->items[0], "message")) {
        take_switch(redis, &reply->items[2], now);
        return NULL;
    }
    if (one->to_come == 0)
        return dlk_error_make(DLOCK_EPROTO,
                              "redis: sentinel %s answers what nobody asked", one->peer);
    dlk_backoff_reset(&connection->link.backoff);
    one->to_come--;
    if (one->to_come != 1 && dlk_resp_begins(reply, "NOPERM"))
        redis->lacks_switch = true;
    if (one->to_come != 1)
        return NULL; /* of the channel; who may not hear of it there asks now and then */
    dlk_link_forget(&connection->link);
    dlock_error *error = dlk_sentinel_take_vote(one, reply);
    if (!error)
        decide(redis, now);
    return error;
}

static void be_ready(dlk_link *link, int64_t now)
{
    dlk_redis *redis = dlk_redis_connection_of(link)->redis;
    ask(of(link), now);
    if (!dlk_link_seeks(&redis->commands.link))
        of_redis(redis)->checking = true; /* what it said while it was away was lost */
}

static void be_down(dlk_link *link, const dlock_error *error, int64_t now)
{
    dlk_redis *redis = dlk_redis_connection_of(link)->redis;
    dlk_sentinel *one = of(link);
    one->to_come = 0;
    one->says = DLK_SENTINEL_FAILED;
    dlk_error_clear(&one->why);
    one->why = dlk_error_copy(error);
    redis->base.host->log(redis->base.host, DLOCK_LOG_INFO, "sentinel %s: %s", one->peer,
                          error->text);
    decide(redis, now);
}

/* ---- Life ---- */

static const dlk_link_ops ops = {DLK_REDIS_LINK, .greet = dlk_redis_greet_sentinel,
                                 .ready = be_ready, .down = be_down};

static dlock_err add(dlk_sentinels *all, const dlk_uri_host *host, dlock_error **err)
{
    dlk_sentinel *one = &all->item[all->count];
    uint16_t port = host->port ? host->port : DEFAULT_PORT;
    bool fine =
        dlk_redis_connection_init(&one->connection, &all->redis, &ops, take_reply);
    all->count++;
    one->host = strdup(host->host);
    one->peer = dlk_address_text(host->host, port);
    if (!fine || !one->host || !one->peer)
        return dlk_error_nomem(err);
    dlk_link_aim(&one->connection.link, one->host, port, one->peer);
    (void)dlk_address_numeric(one->host, port, &one->connection.link.to); /* or a name */
    for (size_t i = 0; i + 1 < all->count; i++)
        if (strcmp(all->item[i].peer, one->peer) == 0)
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "redis+sentinel: %s is named twice, but has one voice",
                                 one->peer);
    return DLOCK_OK;
}

/* The sentinels of the hosts of @p uri; its path is the name of the service. */
static dlock_err add_all(dlk_sentinels *all, const dlk_uri *uri, dlock_error **err)
{
    const char *service = uri->path[0] == '/' ? uri->path + 1 : uri->path;
    if (!service[0] || strchr(service, '/') || strchr(service, ' '))
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "redis+sentinel: the path has to be the name of the service, as in "
            "redis+sentinel://host1,host2,host3/mymaster");
    if (uri->host_count > DLK_SENTINELS_MAX)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "redis+sentinel: at most %d sentinels can be named, not %zu",
                             DLK_SENTINELS_MAX, uri->host_count);
    all->service = strdup(service);
    all->redis.peer = strdup("the master"); /* until it is known which that is */
    if (!all->service || !all->redis.peer)
        return dlk_error_nomem(err);
    dlock_err code = DLOCK_OK;
    for (size_t i = 0; code == DLOCK_OK && i < uri->host_count; i++)
        code = add(all, &uri->hosts[i], err);
    return code;
}

static void sentinels_free(dlk_backend *backend)
{
    dlk_sentinels *all = self(backend);
    for (size_t i = 0; i < all->count; i++) {
        dlk_sentinel *one = &all->item[i];
        dlk_redis_connection_free(&one->connection);
        dlk_error_clear(&one->why);
        free(one->host);
        free(one->peer);
    }
    free(all->service);
    dlk_redis_end(&all->redis);
    free(all);
}

static dlock_err sentinels_open(dlk_host *host, const dlk_uri *uri,
                                const dlk_settings *settings, dlk_backend **ret,
                                dlock_error **err)
{
    dlk_sentinels *all = calloc(1, sizeof(*all));
    if (!all)
        return dlk_error_nomem(err);
    all->decide_at = all->check_at = DLK_NEVER;
    dlk_redis *redis = &all->redis;
    dlock_err code = dlk_redis_begin(redis, &dlk_sentinel_backend, host, uri, settings,
                                     dlk_redis_layout_of(settings), err);
    redis->by_sentinels = true;
    all->ops = *redis->commands.link.ops;
    all->ops.seek = seek;
    redis->commands.link.ops = &all->ops;
    if (code == DLOCK_OK)
        code = add_all(all, uri, err);
    if (code != DLOCK_OK) {
        sentinels_free(&redis->base);
        return code;
    }
    dlk_redis_aim_links(redis);
    *ret = &redis->base;
    return DLOCK_OK;
}

static void sentinels_start(dlk_backend *backend, int64_t now)
{
    dlk_redis_backend.start(backend, now);
}

static void sentinels_stop(dlk_backend *backend)
{
    dlk_sentinels *all = self(backend);
    for (size_t i = 0; i < all->count; i++)
        dlk_link_stop(&all->item[i].connection.link);
    dlk_redis_backend.stop(backend);
}

/* ---- The driver's steps, and time ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_overdue(const dlk_sentinel *one, int64_t now)
{
    return one->connection.link.phase == DLK_LINK_READY && one->to_come > 0 &&
           now >= one->answer_until;
}

static int64_t tick_one(dlk_sentinel *one, int64_t now)
{
    if (is_overdue(one, now))
        dlk_link_drop(
            &one->connection.link,
            dlk_error_make(DLOCK_EUNAVAIL, "redis: %s did not answer in time", one->peer),
            now);
    int64_t next = dlk_link_tick(&one->connection.link, now);
    return one->to_come > 0 ? earlier(next, one->answer_until) : next;
}

/* Is an answer on its way, or a connection? */
static bool awaits(const dlk_sentinels *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->item[i].to_come > 0 || dlk_link_is_coming(&all->item[i].connection.link))
            return true;
    return false;
}

/* Whether they are to be listened to: an answer is on its way, or it hasn't been done for a while. */
static bool are_due(const dlk_sentinels *all)
{
    return awaits(all) || dlk_clock_now() - all->heard_at >= LISTEN_NS;
}

/* Nobody may be waiting for anything of the master's, and so nobody reads. */
static int64_t call_for_ears(dlk_redis *redis, int64_t now)
{
    dlk_sentinels *all = of_redis(redis);
    if (redis->commands.link.phase != DLK_LINK_READY || !awaits(all))
        return DLK_NEVER;
    if (now >= all->news_at) {
        all->news_at = now + NEWS_NS;
        if (redis->base.host->news)
            redis->base.host->news(redis->base.host);
    }
    return all->news_at;
}

static int64_t tick_all(dlk_redis *redis, int64_t now)
{
    dlk_sentinels *all = of_redis(redis);
    int64_t next = DLK_NEVER;
    if (redis->stopped || redis->commands.link.phase == DLK_LINK_OFF)
        return next;
    if (now >= all->check_at && !dlk_link_seeks(&redis->commands.link)) {
        all->checking = true;
        ask_all(all, now);
    }
    for (size_t i = 0; i < all->count; i++)
        next = earlier(next, tick_one(&all->item[i], now));
    if (now >= all->decide_at)
        decide(redis, now);
    next = earlier(next, call_for_ears(redis, now));
    return earlier(next, earlier(all->decide_at, all->check_at));
}

static int64_t sentinels_tick(dlk_backend *backend, int64_t now)
{
    int64_t next = dlk_redis_backend.tick(backend, now);
    return earlier(next, tick_all(&self(backend)->redis, now));
}

static void sentinels_arm(dlk_backend *backend, dlk_polls *polls)
{
    dlk_sentinels *all = self(backend);
    dlk_redis_backend.arm(backend, polls);
    for (size_t i = 0; i < all->count; i++)
        dlk_link_arm(&all->item[i].connection.link, polls);
    if (are_due(all))
        all->redis.expects = false;
}

static void sentinels_push(dlk_backend *backend, dlk_polls *polls)
{
    dlk_sentinels *all = self(backend);
    dlk_redis_backend.push(backend, polls);
    for (size_t i = 0; i < all->count; i++)
        dlk_link_push(&all->item[i].connection.link, polls);
}

static bool sentinels_expect(dlk_backend *backend, const dlk_polls *polls)
{
    return dlk_redis_backend.expect(backend, polls);
}

static void sentinels_pull(dlk_backend *backend, dlk_polls *polls)
{
    dlk_sentinels *all = self(backend);
    dlk_redis_backend.pull(backend, polls);
    all->heard_at = dlk_clock_now();
    for (size_t i = 0; i < all->count; i++)
        dlk_link_pull(&all->item[i].connection.link, polls);
}

static void sentinels_process(dlk_backend *backend, int64_t now)
{
    dlk_sentinels *all = self(backend);
    dlk_redis_backend.process(backend, now);
    for (size_t i = 0; i < all->count; i++)
        dlk_link_process(&all->item[i].connection.link, now);
}

static void sentinels_flush(dlk_backend *backend)
{
    dlk_sentinels *all = self(backend);
    bool done = true;
    dlk_redis_backend.flush(backend);
    for (size_t i = 0; i < all->count; i++)
        if (all->item[i].connection.link.phase == DLK_LINK_READY)
            done = dlk_stream_flush(&all->item[i].connection.link.stream,
                                    backend->host->mutex) &&
                   done;
    if (!done)
        dlk_redis_leave_rest(&all->redis);
}

static const char *const schemes[] = {"redis+sentinel", "rediss+sentinel", NULL};

/* A failover may forget what was written last, also of the counters of tokens. They have to be heard
 * all the time: no poller of the program's can do that. */
const dlk_backend_type dlk_sentinel_backend = {
    .name = "redis",
    .schemes = schemes,
    .traits = {.class = DLK_REQUIRE_EFFICIENCY, .tells = true, DLK_REDIS_TRAITS},
    .open = sentinels_open,
    .start = sentinels_start,
    .stop = sentinels_stop,
    .free = sentinels_free,
    .ask = dlk_redis_ask,
    .tick = sentinels_tick,
    .arm = sentinels_arm,
    .process = sentinels_process,
    .key_open = dlk_redis_key_open,
    .key_close = dlk_redis_key_close,
    .adapt = dlk_redis_adapt,
    .has_kind = dlk_redis_has_kind,
    .watch = dlk_redis_watch,
    .listen = dlk_redis_listen,
    .push = sentinels_push,
    .pull = sentinels_pull,
    .expect = sentinels_expect,
    .flush = sentinels_flush,
};
