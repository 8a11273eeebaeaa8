/* A client's own key; see the header.
 *
 * It costs an acquire nothing: it goes out in the same write as a request that goes out anyhow, ahead of it
 * so that nobody has to read an answer for its sake alone, and again only when a third of its life is over.
 * It outlives the lease of whoever dies, so that one can see who that was, and then ends by itself.
 *
 * Nothing depends on it. A user who has no right to it (`~dlock_client:*`) is told so by the doctor only,
 * and on this connection it isn't tried again. */
#include "backends/redis/client_key.h"

#include "backends/redis/errors.h"
#include "backends/redis/layout.h"
#include "backends/redis/told.h"

#include <stdio.h>
#include <string.h>

/* ---- its name ---- */

const char *dlk_redis_client_prefix(const dlk_redis *redis,
                                    char room[DLK_REDIS_CLIENT_PREFIX])
{
    char tag[DLK_REDIS_TAG_MAX];
    room[0] = '\0';
    if (!dlk_settings_int(redis->settings, DLK_KEY_REDIS_CLIENT_KEY))
        return room;
    if (!redis->cluster)
        return memcpy(room, DLK_REDIS_CLIENT_KEY, sizeof(DLK_REDIS_CLIENT_KEY));
    if (redis->cluster->tag(redis, tag))
        (void)snprintf(room, DLK_REDIS_CLIENT_PREFIX, DLK_REDIS_CLIENT_KEY "{%s}:", tag);
    return room;
}

static bool is_half(const char *text)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx";
    _Static_assert(sizeof(form) - 1 == DLK_REDIS_CLIENT_HALF, "as much of a uuid");
    for (size_t i = 0; i < sizeof(form) - 1; i++)
        if (form[i] == '-' ? text[i] != '-' : !strchr("0123456789abcdef", text[i]))
            return false;
    return true;
}

bool dlk_redis_is_client_key(const char *name)
{
    size_t size = strlen(name), begin = strlen(DLK_REDIS_CLIENT_KEY);
    if (strcmp(name, DLK_REDIS_CLIENT_KEY DLK_REDIS_CLIENT_INDEX) == 0)
        return true;
    return size >= begin + DLK_REDIS_CLIENT_HALF &&
           strncmp(name, DLK_REDIS_CLIENT_KEY, begin) == 0 &&
           is_half(name + size - DLK_REDIS_CLIENT_HALF);
}

size_t dlk_redis_client_key_name(const dlk_redis *redis, char to[DLK_REDIS_CLIENT_NAME])
{
    char prefix[DLK_REDIS_CLIENT_PREFIX];
    if (!dlk_redis_client_prefix(redis, prefix)[0])
        return 0;
    return (size_t)snprintf(to, DLK_REDIS_CLIENT_NAME, "%s%.*s", prefix,
                            DLK_REDIS_CLIENT_HALF, redis->base.host->uuid);
}

/* ---- writing it ---- */

bool dlk_redis_client_key_write(dlk_redis *redis, const dlk_ask *ask)
{
    char name[DLK_REDIS_CLIENT_NAME], ms[DLK_DIGITS_MAX];
    size_t size = dlk_redis_client_key_name(redis, name);
    if (size == 0)
        return false;
    redis->said_ms = dlk_redis_client_key_life_ms(redis, ask);
    const dlk_arg args[] = {dlk_arg_text("SET"),
                            {name, size},
                            dlk_arg_text(redis->base.host->who),
                            dlk_arg_text("PX"),
                            dlk_arg_number(redis->said_ms, ms)};
    if (!dlk_resp_command(&redis->commands.link.stream.out, args, 5))
        return false;
    redis->base.host->commands++;
    redis->said_until = ask->since + redis->said_ms * DLK_NS_PER_MS;
    return true;
}

void dlk_redis_client_key_unput(dlk_redis *redis, size_t size)
{
    dlk_buf_cut(&redis->commands.link.stream.out, size);
    redis->base.host->commands--;
    redis->said_until = 0;
}

/* Whatever else is refused is tried again when it would have been renewed: a full server, for one, isn't
 * helped by being asked with every lock. */
void dlk_redis_client_key_answered(dlk_redis *redis, const dlk_resp *reply)
{
    if (reply->type != DLK_RESP_ERROR)
        return;
    redis->lacks_client_key = dlk_redis_error_code(reply) == DLOCK_EACCES;
    if (redis->cluster && dlk_resp_begins(reply, "MOVED"))
        redis->cluster->moved(redis);
}

void dlk_redis_client_key_forget(dlk_redis *redis)
{
    redis->said_until = 0;
    redis->lacks_client_key = false;
    dlk_redis_told_forget(redis);
}

void dlk_redis_client_key_remove(dlk_redis *redis)
{
    char name[DLK_REDIS_CLIENT_NAME];
    if (redis->said_until == 0 || redis->lacks_client_key ||
        redis->commands.link.phase != DLK_LINK_READY)
        return;
    const dlk_arg args[] = {dlk_arg_text("DEL"),
                            {name, dlk_redis_client_key_name(redis, name)}};
    if (args[1].size > 0 &&
        dlk_resp_command(&redis->commands.link.stream.out, args, 2)) /* else it ends */
        redis->base.host->commands++;
    dlk_redis_told_remove(redis);
}
