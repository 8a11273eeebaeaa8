/* A condition, the client's side; see the header, and scripts/condition.lua for the server's. */
#include "backends/redis/condition.h"

#include "backends/redis/channel.h"
#include "backends/redis/inner.h"

/* So long a place lasts at least, and no longer where the client can't be told of its signal: it asks three
 * times meanwhile. */
#define PLACE_MS 3000

/* What the verb has to say. */
static int64_t term_of(const dlk_ask *ask, bool hears)
{
    if (ask->verb == DLK_ACQUIRE)
        return hears && ask->ttl_ms > PLACE_MS ? ask->ttl_ms : PLACE_MS;
    if (ask->verb == DLK_RELEASE)
        return ask->used;
    return ask->verb == DLK_SIGNAL ? ask->limit : 0;
}

void dlk_redis_condition_more(const dlk_redis *redis, const dlk_ask *ask, dlk_arg *args,
                              char room[DLK_REDIS_MORE][64])
{
    bool hears = dlk_redis_channel_is_on(redis->subscriber.own);
    args[0] = dlk_arg_number(dlk_settings_int(redis->settings, DLK_KEY_REDIS_CLAIM_MS),
                             room[0]);
    args[1] = dlk_arg_number(term_of(ask, hears), room[1]);
    args[2] = dlk_arg_number(hears, room[2]);
}
