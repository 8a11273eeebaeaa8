/* RESP on a link; see the header. */
#include "backends/redis/link.h"

#include "backends/redis/inner.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

bool dlk_redis_connection_init(dlk_redis_connection *connection, dlk_redis *redis,
                               const dlk_link_ops *ops, dlk_redis_take *take)
{
    dlk_link_init(&connection->link, &redis->links, ops);
    connection->redis = redis;
    connection->take = take;
    connection->reader = dlk_resp_new();
    return connection->reader != NULL;
}

void dlk_redis_connection_free(dlk_redis_connection *connection)
{
    dlk_resp_free(connection->reader);
    dlk_link_free(&connection->link);
}

void dlk_redis_aim_links(dlk_redis *redis)
{
    dlk_link_aim(&redis->commands.link, redis->host, redis->port, redis->peer);
    dlk_link_aim(&redis->subscriber.connection.link, redis->host, redis->port,
                 redis->peer);
}

bool dlk_redis_aim(dlk_redis *redis, const char *host, uint16_t port)
{
    char *copy = strdup(host), *peer = dlk_address_text(host, port);
    if (!copy || !peer) {
        free(copy);
        free(peer);
        return false;
    }
    free(redis->host);
    free(redis->peer);
    redis->host = copy;
    redis->peer = peer;
    redis->port = port;
    dlk_redis_aim_links(redis);
    redis->commands.link.to.count = 0;
    (void)dlk_address_numeric(copy, port, &redis->commands.link.to); /* or a name */
    return true;
}

void dlk_redis_warn(dlk_link *link, const char *text)
{
    dlk_host *host = dlk_redis_connection_of(link)->redis->base.host;
    host->log(host, DLOCK_LOG_WARN, "%s", text);
}

dlock_error *dlk_redis_connection_greet(dlk_link *link, int64_t now, dlk_redis_say *say,
                                        dlk_redis_take *judge)
{
    dlk_redis_connection *connection = dlk_redis_connection_of(link);
    connection->judge = judge;
    connection->step_count = 0;
    if (!dlk_resp_reset(connection->reader))
        return dlk_error_make(DLOCK_ENOMEM, "redis: out of memory");
    dlock_error *error = say(connection);
    if (!error && connection->step_count == 0) /* nothing to be said */
        dlk_link_greeted(link, now);
    return error;
}

/* A reply to the greeting; the last one makes the connection ready. */
static dlock_error *take_greeting(dlk_redis_connection *connection, const dlk_resp *reply,
                                  int64_t now)
{
    dlock_error *error = connection->judge(connection, reply, now);
    if (error || connection->link.step < connection->step_count)
        return error;
    dlk_link_greeted(&connection->link, now);
    return NULL;
}

static dlock_error *not_understood(const dlk_redis_connection *connection,
                                   const char *hint)
{
    return dlk_error_make(
        dlk_resp_out_of_memory(connection->reader) ? DLOCK_ENOMEM : DLOCK_EPROTO,
        "redis: what %s answers can't be understood: %s%s", connection->link.peer,
        dlk_resp_problem(connection->reader), hint);
}

/* What takes a reply may end the connection, so its phase is looked at anew after each of them. */
dlock_error *dlk_redis_feed(dlk_link *link, const char *data, size_t size, int64_t now)
{
    dlk_redis_connection *connection = dlk_redis_connection_of(link);
    const char *hint = dlk_link_hint(link, data);
    bool fine = dlk_resp_feed(connection->reader, data, size);
    while (fine && dlk_link_is_connected(link)) {
        const dlk_resp *reply;
        dlk_resp_got got = dlk_resp_next(connection->reader, &reply);
        if (got == DLK_RESP_MORE)
            return NULL;
        fine = got == DLK_RESP_ONE;
        if (!fine)
            break;
        dlock_error *error = link->phase == DLK_LINK_GREETING
                                 ? take_greeting(connection, reply, now)
                                 : connection->take(connection, reply, now);
        if (error)
            return error;
    }
    return fine ? NULL : not_understood(connection, hint);
}
