/* The keys that are watched, each at the channel where its release is told, or its contender alone; and
 * the client's own channel. */
#ifndef DLK_BACKENDS_REDIS_WATCH_H
#define DLK_BACKENDS_REDIS_WATCH_H

#include "backends/redis/channel.h"

void dlk_redis_watch(dlk_backend *backend, dlk_key *key, bool on, int64_t now);
/* The client listens on its own channel from now on, also while nobody waits. */
void dlk_redis_listen(dlk_backend *backend, int64_t now);
/* It isn't any more, whatever becomes of its channel. */
void dlk_redis_watcher_end(dlk_redis_watcher *watcher);
/* The node of a cluster where the key is watched; NULL: nowhere. */
dlk_redis *dlk_redis_watched_at(const dlk_redis_key *key);
/* A watched key that belongs elsewhere, or NULL. */
dlk_redis_key *dlk_redis_watched_astray(const dlk_redis *redis,
                                        bool (*belongs)(const dlk_redis *,
                                                        const dlk_redis_key *));
/* Once more, should there have been no memory for it. */
void dlk_redis_listen_to_own(dlk_redis *redis, int64_t now);

#endif
