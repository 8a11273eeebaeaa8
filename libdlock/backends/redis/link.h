/* A connection to a Redis: a link (net/link.h) on which RESP is spoken. What it is for (commands,
 * messages, a sentinel) is in its operations and in how it takes replies. */
#ifndef DLK_BACKENDS_REDIS_LINK_H
#define DLK_BACKENDS_REDIS_LINK_H

#include "backends/redis/wire.h"
#include "net/link.h"

#include <dlock/dlock.h>

typedef struct dlk_redis dlk_redis;
typedef struct dlk_redis_connection dlk_redis_connection;

/* What is the same in each connection's dlk_link_ops. */
#define DLK_REDIS_LINK .feed = dlk_redis_feed, .warn = dlk_redis_warn

/* A reply that isn't of the greeting. An error ends the connection: what came makes no sense. */
typedef dlock_error *dlk_redis_take(dlk_redis_connection *connection,
                                    const dlk_resp *reply, int64_t now);
/* Says what is said first. NULL, or why it can't be. */
typedef dlock_error *dlk_redis_say(dlk_redis_connection *connection);

#define DLK_GREETING_MAX 20

struct dlk_redis_connection {
    dlk_link link; /* first: a dlk_link * is a dlk_redis_connection * */
    dlk_redis *redis;
    dlk_redis_take *take, *judge; /* a reply; one to the greeting */
    dlk_resp_reader *reader;
    unsigned char steps[DLK_GREETING_MAX]; /* the replies that the greeting waits for */
    size_t step_count;
};

static inline dlk_redis_connection *dlk_redis_connection_of(dlk_link *link)
{
    return (dlk_redis_connection *)link;
}

/* False without memory. */
bool dlk_redis_connection_init(dlk_redis_connection *connection, dlk_redis *redis,
                               const dlk_link_ops *ops, dlk_redis_take *take);
void dlk_redis_connection_free(dlk_redis_connection *connection);
/* Both connections lead to the server that redis->host, port and peer say. */
void dlk_redis_aim_links(dlk_redis *redis);
/* From the next try on commands go to this server, and the connection for messages is said to. False
 * without memory. */
bool dlk_redis_aim(dlk_redis *redis, const char *host, uint16_t port);
/* For `greet`: says with @p say what is said first; @p judge has each reply to it and goes on to the
 * next step. NULL, or why it can't be. */
dlock_error *dlk_redis_connection_greet(dlk_link *link, int64_t now, dlk_redis_say *say,
                                        dlk_redis_take *judge);

dlock_error *dlk_redis_feed(dlk_link *link, const char *data, size_t size, int64_t now);
void dlk_redis_warn(dlk_link *link, const char *text);

#endif
