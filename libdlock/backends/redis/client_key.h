/* One key a client, by which an owner id can be led back to a process: what the client says of itself
 * (util/who.h). Inspecting and listing read it in the server (scripts/client_of.lua), so they cost no
 * request more. */
#ifndef DLK_BACKENDS_REDIS_CLIENT_KEY_H
#define DLK_BACKENDS_REDIS_CLIENT_KEY_H

#include "backends/redis/inner.h"
#include "util/clock.h"
#include "util/number.h"

/* The name up to the first half of the uuid, with an end; "": no client has one there. In a cluster it has a tag
 * between, see dlk_redis_cluster. A half, because a permit's id has no room for more; two clients have the same
 * one as good as never, and then a wrong name is shown. */
#define DLK_REDIS_CLIENT_KEY    "dlock_client:"
#define DLK_REDIS_CLIENT_INDEX  "all" /* in the place of the half: told.h */
#define DLK_REDIS_CLIENT_PREFIX (sizeof(DLK_REDIS_CLIENT_KEY) + DLK_REDIS_TAG_MAX + 3)
#define DLK_REDIS_CLIENT_HALF   18 /* characters */
#define DLK_REDIS_CLIENT_NAME   (DLK_REDIS_CLIENT_PREFIX + DLK_REDIS_CLIENT_HALF)
const char *dlk_redis_client_prefix(const dlk_redis *redis,
                                    char room[DLK_REDIS_CLIENT_PREFIX]);

/* The whole of ours, without an end, and how long that is; 0: there is none. */
size_t dlk_redis_client_key_name(const dlk_redis *redis, char to[DLK_REDIS_CLIENT_NAME]);

/* Whether a key of this name is a client's, or the list of them, and so no lock's. */
bool dlk_redis_is_client_key(const char *name);

/* So long it lasts at least, and so many of the longest lease. Who waits asks again far more often
 * (client.poll_ms). */
#define DLK_REDIS_CLIENT_KEY_MS     (5 * 60 * 1000)
#define DLK_REDIS_CLIENT_KEY_LEASES 3

/* As the longest lease of all that were asked for needs it: a shorter one may well be the first of a
 * burst, or the only one that is asked for for a while. */
static inline int64_t dlk_redis_client_key_life_ms(const dlk_redis *redis,
                                                   const dlk_ask *ask)
{
    int64_t life =
        dlk_number_clamp(ask->ttl_ms, 0, INT64_C(1) << 40) * DLK_REDIS_CLIENT_KEY_LEASES;
    if (life < redis->said_ms)
        life = redis->said_ms;
    return life > DLK_REDIS_CLIENT_KEY_MS ? life : DLK_REDIS_CLIENT_KEY_MS;
}

/* Looked at with every request, so it is here. */
static inline bool dlk_redis_client_key_is_due(const dlk_redis *redis, const dlk_ask *ask)
{
    bool has_owner =
        ask->verb == DLK_ACQUIRE || ask->verb == DLK_IMPORT || ask->verb == DLK_RENEW;
    int64_t left_ms = (redis->said_until - ask->since) / DLK_NS_PER_MS;
    return has_owner && !redis->lacks_client_key &&
           redis->told == 0 && /* else it is told.c's */
           left_ms < dlk_redis_client_key_life_ms(redis, ask) / 3 * 2;
}

bool dlk_redis_client_key_write(dlk_redis *redis, const dlk_ask *ask);
/* Puts our key, if it is time, ahead of @p ask's request: one that takes, waits or renews. Answers whether
 * it has; then the first answer to come is that to it (DLK_REDIS_SAID). */
static inline bool dlk_redis_client_key_put(dlk_redis *redis, const dlk_ask *ask)
{
    return dlk_redis_client_key_is_due(redis, ask) &&
           dlk_redis_client_key_write(redis, ask);
}
/* The request behind it couldn't be put: `out` is as it was, with so many bytes. */
void dlk_redis_client_key_unput(dlk_redis *redis, size_t size);
void dlk_redis_client_key_answered(dlk_redis *redis, const dlk_resp *reply);
/* On a new connection nothing is known of it. */
void dlk_redis_client_key_forget(dlk_redis *redis);
/* Before the end: removes it, without waiting for an answer. */
void dlk_redis_client_key_remove(dlk_redis *redis);

#endif
