/* Locks that have to lie on replicas, too, before they count (redis.wait_replicas): WAIT behind
 * each acquire, import and renewal. It keeps the whole connection waiting. */
#ifndef DLK_BACKENDS_REDIS_REPLICAS_H
#define DLK_BACKENDS_REDIS_REPLICAS_H

#include "backends/redis/link.h"
#include "contract/backend.h"

/* In ask->scratch: WAIT is under way; it has failed, and the release is; it was forbidden. */
#define DLK_REDIS_WAITS  0x10
#define DLK_REDIS_UNDOES 0x20
#define DLK_REDIS_DENIED 0x80

/* Not of a condition: a signal that is given back goes to another, and who waits for it mustn't wait on. */
static inline bool dlk_redis_replicas_wanted(const dlk_ask *ask)
{
    return (ask->verb == DLK_ACQUIRE || ask->verb == DLK_RENEW ||
            ask->verb == DLK_IMPORT) &&
           ask->key->kind != DLK_KIND_CONDITION &&
           dlk_settings_int(ask->key->settings, DLK_KEY_REDIS_WAIT_REPLICAS) > 0;
}

/* Is the reply to come one of these? */
static inline bool dlk_redis_replicas_asked(const dlk_ask *ask)
{
    return (ask->scratch & (DLK_REDIS_WAITS | DLK_REDIS_UNDOES)) != 0 &&
           dlk_redis_replicas_wanted(ask);
}

/* Is what was done being undone? */
static inline bool dlk_redis_replicas_undoing(const dlk_ask *ask)
{
    return dlk_redis_replicas_asked(ask) && (ask->scratch & DLK_REDIS_UNDOES) != 0;
}

/* The master has done what was asked: now the replicas. */
void dlk_redis_replicas_wait(dlk_redis *redis, dlk_ask *ask);
bool dlk_redis_replicas_reply(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);

#endif
