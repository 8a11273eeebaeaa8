/*
 * The one connection on which a client hears that locks were released. It is opened when the
 * first key is watched, to the server that the commands go to. A subscription that nobody needs
 * any more is kept for a moment, because a name that was fought over will be again.
 *
 * In a cluster the channels of locks are those of shards (SSUBSCRIBE), or plain ones for peers that
 * know no others, or of both kinds: then a channel has a twin of the same name.
 *
 * What it tells is a hint: a message may be lost, and then the engine's polling finds out.
 */
#ifndef DLK_BACKENDS_REDIS_SUBSCRIBER_H
#define DLK_BACKENDS_REDIS_SUBSCRIBER_H

#include "backends/redis/channel.h"
#include "contract/backend.h"

bool dlk_redis_subscriber_init(dlk_redis *redis); /* false without memory */
void dlk_redis_subscriber_free(dlk_redis *redis);

/* Connects, where it rests because nobody has wanted to hear anything. */
void dlk_redis_subscriber_begin(dlk_redis *redis, int64_t now);
/* Asks again for what the server has refused, or taken away. */
void dlk_redis_subscriber_settle(dlk_redis *redis, int64_t now);
/* The commands are connected, to the address that `commands.link.dial` has. */
void dlk_redis_subscriber_follow(dlk_redis *redis, int64_t now);
void dlk_redis_subscriber_stop(dlk_redis *redis);
/* The driver's steps, around those of the connection. */
void dlk_redis_subscriber_arm(dlk_redis *redis);
void dlk_redis_subscriber_process(dlk_redis *redis, int64_t now);
int64_t dlk_redis_subscriber_tick(dlk_redis *redis, int64_t now);

#endif
