/* Sentinels; see the header.
 *
 * A connection that is subscribed takes no other commands, so each question leaves the channel
 * first and comes back to it; what happened meanwhile is in the answer. A sentinel may lie, or not
 * have heard yet, so no single one decides where there are others: of those that answer within a
 * moment more than half have to agree, and the server that they name has to say that it is a
 * master (greeting.c). */
#include "backends/redis/topology/sentinel.h"

#include "backends/redis/errors.h"
#include "backends/redis/greeting.h"
#include "backends/redis/inner.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/number.h"

#include <poll.h>
#include <stdio.h>
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
#define HOST_MAX 256

typedef enum word {
    SILENT,    /* hasn't said anything yet */
    NAMES,     /* a master */
    KNOWS_NOT, /* no such service */
    FAILED,    /* `why` */
} word;

typedef struct sentinel {
    dlk_redis_connection connection;
    char *host, *place;
    int to_come; /* replies to the last question, 0: none */
    int64_t answer_until;
    word says;
    char master[HOST_MAX];
    uint16_t port;
    dlock_error *why;
} sentinel;

struct dlk_sentinels {
    dlk_redis *redis;
    char *service;
    size_t count;
    /* with what has been said until then; DLK_NEVER: nobody said anything */
    int64_t decide_at;
    int64_t check_at;
    bool checking; /* they were asked though a master is known */
    /* when somebody is to be called to drive, while an answer is on its way */
    int64_t news_at;
    int64_t heard_at; /* when the driver read from them last; the driver's */
    sentinel item[DLK_SENTINELS_MAX];
};

static sentinel *of(dlk_link *link)
{
    return DLK_LIST_ITEM(dlk_redis_connection_of(link), sentinel, connection);
}

/* ---- Asking ---- */

static bool say(sentinel *one, const char *a, const char *b, const char *c)
{
    const dlk_arg args[] = {dlk_arg_text(a), dlk_arg_text(b), dlk_arg_text(c ? c : "")};
    if (!dlk_resp_command(&one->connection.link.stream.out, args, c ? 3 : 2))
        return false;
    one->to_come++;
    return true;
}

static void ask(sentinel *one, int64_t now)
{
    dlk_redis *redis = one->connection.redis;
    if (one->to_come > 0)
        return; /* its answer is on the way */
    if (!say(one, "UNSUBSCRIBE", CHANNEL, NULL) ||
        !say(one, "SENTINEL", "get-master-addr-by-name", redis->sentinels->service) ||
        !say(one, "SUBSCRIBE", CHANNEL, NULL)) {
        dlk_link_drop(&one->connection.link,
                      dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"), now);
        return;
    }
    one->answer_until = now + redis->timeout_ns;
    dlk_redis_wake(redis); /* whoever drives has something to send */
}

static void hush(sentinel *one)
{
    one->says = SILENT;
    dlk_error_clear(&one->why);
}

static void ask_all(dlk_sentinels *all, int64_t now)
{
    all->decide_at = DLK_NEVER;
    all->check_at = now + CHECK_NS;
    for (size_t i = 0; i < all->count; i++)
        hush(&all->item[i]);
    for (size_t i = 0; i < all->count; i++) {
        sentinel *one = &all->item[i];
        if (one->connection.link.phase == DLK_LINK_READY)
            ask(one, now);
        else if (one->connection.link.phase == DLK_LINK_RESTING)
            one->connection.link.retry_at = now;
        else if (one->connection.link.phase == DLK_LINK_OFF &&
                 dlk_stream_reap(&one->connection.link.stream))
            dlk_link_start(&one->connection.link, now);
    }
}

void dlk_sentinels_seek(dlk_link *master, int64_t now)
{
    dlk_sentinels *all = dlk_redis_connection_of(master)->redis->sentinels;
    all->checking = false;
    ask_all(all, now);
}

/* ---- Deciding ---- */

static bool same_master(const sentinel *a, const sentinel *b)
{
    return a->says == NAMES && b->says == NAMES && a->port == b->port &&
           strcmp(a->master, b->master) == 0;
}

static size_t count(const dlk_sentinels *all, word what)
{
    size_t found = 0;
    for (size_t i = 0; i < all->count; i++)
        found += all->item[i].says == what;
    return found;
}

/* The one whose master most others name, too; *ret: how many they are. */
static const sentinel *most_named(const dlk_sentinels *all, size_t *ret)
{
    const sentinel *best = NULL;
    *ret = 0;
    for (size_t i = 0; i < all->count; i++) {
        size_t votes = 0;
        for (size_t k = 0; k < all->count; k++)
            votes += same_master(&all->item[i], &all->item[k]);
        if (votes > *ret) {
            *ret = votes;
            best = &all->item[i];
        }
    }
    return best;
}

static dlock_error *disagreement(const dlk_sentinels *all)
{
    char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < all->count && used < sizeof(text); i++)
        if (all->item[i].says == NAMES)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s names %s:%u",
                                     used ? ", " : "", all->item[i].place,
                                     all->item[i].master, all->item[i].port);
    return dlk_error_make(
        DLOCK_EUNAVAIL,
        "redis+sentinel: the sentinels disagree on the master of '%s': %s", all->service,
        text);
}

/* Why nobody names a master. What no waiting mends goes first. */
static dlock_error *nobody_knows(const dlk_sentinels *all)
{
    const sentinel *failed = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const sentinel *one = &all->item[i];
        if (one->says == FAILED && (!failed || failed->why->code == DLOCK_EUNAVAIL))
            failed = one;
    }
    if (count(all, KNOWS_NOT) > 0)
        return dlk_error_make(
            failed ? DLOCK_EUNAVAIL : DLOCK_EINVAL,
            "redis+sentinel: no sentinel that answers knows a service '%s'",
            all->service);
    if (!failed)
        return dlk_error_make(DLOCK_EUNAVAIL, "redis+sentinel: no sentinel answers");
    return dlk_error_make(failed->why->code, "redis+sentinel: sentinel %s: %s",
                          failed->place, failed->why->text);
}

static void go_to(dlk_redis *redis, const sentinel *chosen, int64_t now)
{
    dlk_link *master = &redis->commands.link;
    if (dlk_redis_aim(redis, chosen->master, chosen->port))
        dlk_link_dial(master, now);
    else
        dlk_link_drop(master, dlk_error_make(DLOCK_ENOMEM, "redis: out of memory"), now);
}

static bool is_master(const dlk_redis *redis, const sentinel *chosen)
{
    return redis->port == chosen->port && redis->host &&
           strcmp(redis->host, chosen->master) == 0;
}

/* There is a master already: is it still? */
static void compare(dlk_redis *redis, const sentinel *chosen, int64_t now)
{
    dlk_link_phase phase = redis->commands.link.phase;
    redis->sentinels->checking = false;
    if (is_master(redis, chosen) || phase == DLK_LINK_OFF || phase == DLK_LINK_RESTING)
        return;
    dlk_backoff_reset(&redis->commands.link.backoff);
    dlk_link_drop(
        &redis->commands.link,
        dlk_error_make(DLOCK_EUNAVAIL,
                       "redis+sentinel: %s is no longer the master of '%s', %s:%u is",
                       redis->place, redis->sentinels->service, chosen->master,
                       chosen->port),
        now);
    redis->commands.link.retry_at = now;
}

/* Looks at what has been said so far. */
static void decide(dlk_redis *redis, int64_t now)
{
    dlk_sentinels *all = redis->sentinels;
    bool seeking = dlk_link_seeks(&redis->commands.link);
    size_t votes, voters = count(all, NAMES);
    const sentinel *chosen = most_named(all, &votes);
    if (!seeking && !all->checking)
        return;
    if (count(all, SILENT) < all->count && all->decide_at >= DLK_NEVER)
        all->decide_at = now + MOMENT_NS;
    bool enough = votes * 2 > all->count;
    bool last = count(all, SILENT) == 0 || now >= all->decide_at;
    if (!enough && !last)
        return;
    if (enough || votes * 2 > voters) {
        if (seeking)
            go_to(redis, chosen, now);
        else
            compare(redis, chosen, now);
    } else if (seeking && (voters > 0 || count(all, SILENT) == 0)) {
        dlk_link_drop(&redis->commands.link,
                      voters > 0 ? disagreement(all) : nobody_knows(all), now);
    } else if (all->checking) {
        all->checking = false;
        all->check_at = now + AGAIN_NS;
    }
    all->decide_at = DLK_NEVER;
}

/* ---- What they say ---- */

static void names(sentinel *one, const char *host, const char *port)
{
    int64_t number = dlk_number_or(port, 1, UINT16_MAX, 0);
    size_t size = strlen(host);
    one->says = NAMES;
    if (size >= HOST_MAX || size == 0 || number == 0) {
        one->says = FAILED;
        dlk_error_clear(&one->why);
        one->why = dlk_error_make(DLOCK_EPROTO, "it names a master that can't be one");
        return;
    }
    memcpy(one->master, host, size + 1);
    one->port = (uint16_t)number;
}

/* "service old-host old-port host port": all are asked, as one alone decides nothing. */
static void take_switch(dlk_redis *redis, const dlk_resp *message, int64_t now)
{
    dlk_sentinels *all = redis->sentinels;
    size_t size = strlen(all->service);
    if (message->type != DLK_RESP_TEXT || message->size <= size ||
        strncmp(message->text, all->service, size) != 0 || message->text[size] != ' ')
        return;
    all->check_at = now; /* what was said until now may be of before */
}

static dlock_error *take_address(sentinel *one, const dlk_resp *reply)
{
    dlk_error_clear(&one->why);
    if (reply->type == DLK_RESP_ERROR) {
        one->says = FAILED;
        one->why = dlk_redis_error(reply, "SENTINEL get-master-addr-by-name");
    } else if (reply->type == DLK_RESP_NIL) {
        one->says = KNOWS_NOT;
    } else if (reply->type == DLK_RESP_ARRAY && reply->count == 2 &&
               dlk_resp_plain(&reply->items[0]) && dlk_resp_plain(&reply->items[1])) {
        names(one, reply->items[0].text, reply->items[1].text);
    } else {
        return dlk_error_make(DLOCK_EPROTO, "redis: sentinel %s answers with nonsense",
                              one->place);
    }
    return NULL;
}

static dlock_error *take_reply(dlk_redis_connection *connection, const dlk_resp *reply,
                               int64_t now)
{
    dlk_redis *redis = connection->redis;
    sentinel *one = of(&connection->link);
    if (reply->type == DLK_RESP_ARRAY && reply->count == 3 &&
        dlk_resp_begins(&reply->items[0], "message")) {
        take_switch(redis, &reply->items[2], now);
        return NULL;
    }
    if (one->to_come == 0)
        return dlk_error_make(DLOCK_EPROTO,
                              "redis: sentinel %s answers what nobody asked", one->place);
    dlk_backoff_reset(&connection->link.backoff);
    one->to_come--;
    if (one->to_come != 1 && dlk_resp_begins(reply, "NOPERM"))
        redis->lacks_switch = true;
    if (one->to_come != 1)
        return NULL; /* of the channel; who may not hear of it there asks now and then */
    dlock_error *error = take_address(one, reply);
    if (!error)
        decide(redis, now);
    return error;
}

static void be_ready(dlk_link *link, int64_t now)
{
    dlk_redis *redis = dlk_redis_connection_of(link)->redis;
    ask(of(link), now);
    if (!dlk_link_seeks(&redis->commands.link))
        redis->sentinels->checking = true; /* what it said while it was away was lost */
}

static void be_down(dlk_link *link, const dlock_error *error, int64_t now)
{
    dlk_redis *redis = dlk_redis_connection_of(link)->redis;
    sentinel *one = of(link);
    one->to_come = 0;
    one->says = FAILED;
    dlk_error_clear(&one->why);
    one->why = dlk_error_copy(error);
    redis->base.host->log(redis->base.host, DLOCK_LOG_INFO, "sentinel %s: %s", one->place,
                          error->text);
    decide(redis, now);
}

/* ---- Life ---- */

static const dlk_link_ops ops = {DLK_REDIS_LINK, .greet = dlk_redis_greet_sentinel,
                                 .ready = be_ready, .down = be_down};

static dlock_err add(dlk_sentinels *all, const dlk_uri_host *host, dlock_error **err)
{
    sentinel *one = &all->item[all->count];
    uint16_t port = host->port ? host->port : DEFAULT_PORT;
    bool fine = dlk_redis_connection_init(&one->connection, all->redis, &ops, take_reply);
    all->count++;
    one->host = strdup(host->host);
    one->place = dlk_address_place(host->host, port);
    if (!fine || !one->host || !one->place)
        return dlk_error_nomem(err);
    dlk_link_aim(&one->connection.link, one->host, port, one->place);
    (void)dlk_address_numeric(one->host, port, &one->connection.link.to); /* or a name */
    for (size_t i = 0; i + 1 < all->count; i++)
        if (strcmp(all->item[i].place, one->place) == 0)
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "redis+sentinel: %s is named twice, but has one voice",
                                 one->place);
    return DLOCK_OK;
}

dlock_err dlk_sentinels_make(dlk_redis *redis, const dlk_uri *uri, dlock_error **err)
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
    dlk_sentinels *all = calloc(1, sizeof(*all));
    if (!all)
        return dlk_error_nomem(err);
    redis->sentinels = all;
    all->redis = redis;
    all->decide_at = all->check_at = DLK_NEVER;
    all->service = strdup(service);
    redis->place = strdup("the master"); /* until it is known which that is */
    if (!all->service || !redis->place)
        return dlk_error_nomem(err);
    dlock_err code = DLOCK_OK;
    for (size_t i = 0; code == DLOCK_OK && i < uri->host_count; i++)
        code = add(all, &uri->hosts[i], err);
    return code;
}

void dlk_sentinels_free(dlk_sentinels *all)
{
    if (!all)
        return;
    for (size_t i = 0; i < all->count; i++) {
        sentinel *one = &all->item[i];
        dlk_redis_connection_free(&one->connection);
        dlk_error_clear(&one->why);
        free(one->host);
        free(one->place);
    }
    free(all->service);
    free(all);
}

void dlk_sentinels_stop(dlk_sentinels *all)
{
    for (size_t i = 0; i < all->count; i++)
        dlk_link_stop(&all->item[i].connection.link);
}

/* ---- The driver's steps, and time ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_overdue(const sentinel *one, int64_t now)
{
    return one->connection.link.phase == DLK_LINK_READY && one->to_come > 0 &&
           now >= one->answer_until;
}

static int64_t tick_one(sentinel *one, int64_t now)
{
    if (is_overdue(one, now))
        dlk_link_drop(&one->connection.link,
                      dlk_error_make(DLOCK_EUNAVAIL, "redis: %s did not answer in time",
                                     one->place),
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

bool dlk_sentinels_are_due(const dlk_sentinels *all)
{
    return awaits(all) || dlk_clock_now() - all->heard_at >= LISTEN_NS;
}

/* Nobody may be waiting for anything of the master's, and so nobody reads. */
static int64_t call_for_ears(dlk_redis *redis, int64_t now)
{
    dlk_sentinels *all = redis->sentinels;
    if (redis->commands.link.phase != DLK_LINK_READY || !awaits(all))
        return DLK_NEVER;
    if (now >= all->news_at) {
        all->news_at = now + NEWS_NS;
        if (redis->base.host->news)
            redis->base.host->news(redis->base.host);
    }
    return all->news_at;
}

int64_t dlk_sentinels_tick(dlk_redis *redis, int64_t now)
{
    dlk_sentinels *all = redis->sentinels;
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

void dlk_sentinels_arm(dlk_sentinels *all, dlk_polls *polls)
{
    for (size_t i = 0; i < all->count; i++)
        dlk_link_arm(&all->item[i].connection.link, polls);
}

void dlk_sentinels_push(dlk_sentinels *all, dlk_polls *polls)
{
    for (size_t i = 0; i < all->count; i++)
        dlk_link_push(&all->item[i].connection.link, polls);
}

void dlk_sentinels_pull(dlk_sentinels *all, dlk_polls *polls)
{
    all->heard_at = dlk_clock_now();
    for (size_t i = 0; i < all->count; i++)
        dlk_link_pull(&all->item[i].connection.link, polls);
}

void dlk_sentinels_process(dlk_redis *redis, int64_t now)
{
    dlk_sentinels *all = redis->sentinels;
    for (size_t i = 0; i < all->count; i++)
        dlk_link_process(&all->item[i].connection.link, now);
}

bool dlk_sentinels_flush(dlk_redis *redis)
{
    dlk_sentinels *all = redis->sentinels;
    bool done = true;
    for (size_t i = 0; i < all->count; i++)
        if (all->item[i].connection.link.phase == DLK_LINK_READY)
            done = dlk_stream_flush(&all->item[i].connection.link.stream,
                                    redis->base.host->mutex) &&
                   done;
    return done;
}
