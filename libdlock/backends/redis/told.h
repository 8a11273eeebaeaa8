/* A client tells in its own key (client_key.h) what it has and waits for, so that whoever looks needn't go
 * through all keys of the server. What lasts less than a second isn't told and costs nothing:
 *
 *     who it is (util/who.h) <tab>
 *     the server's date, ms, and the client's uuid, of which the key's name has but a half
 *     h|w <age, ms> <number> <token> <thread> <kind> <name>     has it, or waits for it; % and two hexadecimal
 *                                                               digits for what isn't printed, and %
 *     +<how many more there are>
 *
 * Which clients do so stands in one sorted set, by when their keys end. */
#ifndef DLK_BACKENDS_REDIS_TOLD_H
#define DLK_BACKENDS_REDIS_TOLD_H

#include "backends/redis/asks.h"
#include "backends/redis/inner.h"
#include "backends/redis/wire.h"
#include "util/clock.h"

#define DLK_REDIS_TOLD_AFTER_NS DLK_NS_PER_SEC /* or a part of client.deadlock_ms */
#define DLK_REDIS_TOLD_LINES    1000
#define DLK_REDIS_TOLD_BYTES    (60 * 1024) /* of all lines, and of who it is some more */

static inline bool dlk_redis_told_may(const dlk_redis *redis)
{
    return redis->tells && !redis->lacks_told && !redis->lacks_client_key;
}
/* Something has been asked for or given back: looked at with every request, so it is here. */
static inline void dlk_redis_told_note(dlk_redis *redis, const dlk_ask *ask)
{
    bool changes = dlk_redis_takes(ask) || ask->verb == DLK_RELEASE;
    int64_t at = ask->since + redis->tell_after;
    if (changes && (redis->tell_at == 0 || redis->tell_at > at) &&
        dlk_redis_told_may(redis))
        redis->tell_at = at;
}
/* Renewals are about to be written, of which this is the first: what has changed goes out with them. */
void dlk_redis_told_renews(dlk_redis *redis, const dlk_ask *first);
/* When to call it again. */
int64_t dlk_redis_told_look(dlk_redis *redis, int64_t now);
static inline int64_t dlk_redis_told_tick(dlk_redis *redis, int64_t now)
{
    if (redis->tell_at == 0 || redis->commands.link.phase != DLK_LINK_READY)
        return DLK_NEVER;
    return now < redis->tell_at ? redis->tell_at : dlk_redis_told_look(redis, now);
}
/* NULL: no answer will come. */
void dlk_redis_told_answered(dlk_redis *redis, const dlk_resp *reply);
/* A lock was broken: the next list knows nothing of before. */
void dlk_redis_told_broke(dlk_redis *redis);
/* On a new connection nothing is known of it. */
void dlk_redis_told_forget(dlk_redis *redis);
/* Before the end. */
void dlk_redis_told_remove(dlk_redis *redis);

#endif
