/*
 * Where the master is, as Redis Sentinels know it. All sentinels of the URI are kept connected;
 * at each try to connect to the master every one of them is asked, and what more than half of
 * them say holds. Between tries they tell of a failover by themselves (+switch-master), and are
 * asked now and then in case that was lost.
 */
#ifndef DLK_BACKENDS_REDIS_TOPOLOGY_SENTINEL_H
#define DLK_BACKENDS_REDIS_TOPOLOGY_SENTINEL_H

#include "backends/backend.h"
#include "backends/redis/link.h"

#include <time.h>

#define DLK_SENTINELS_MAX 16

typedef struct dlk_sentinels dlk_sentinels;

/* Makes redis->sentinels of the hosts of @p uri; its path is the name of the service. */
dlock_err dlk_sentinels_make(dlk_redis *redis, const dlk_uri *uri, dlock_error **err);
void dlk_sentinels_free(dlk_sentinels *all); /* NULL is fine */
void dlk_sentinels_stop(dlk_sentinels *all);

/* The operation of the link to the master. */
void dlk_sentinels_seek(dlk_link *master, int64_t now);

/* Together with those of the backend. */
int64_t dlk_sentinels_tick(dlk_redis *redis, int64_t now);
void dlk_sentinels_arm(dlk_sentinels *all, dlk_polls *polls);
void dlk_sentinels_push(dlk_sentinels *all, dlk_polls *polls);
void dlk_sentinels_pull(dlk_sentinels *all, dlk_polls *polls);
void dlk_sentinels_process(dlk_redis *redis, int64_t now);
bool dlk_sentinels_flush(dlk_redis *redis);
/* Whether they are to be listened to: an answer is on its way, or it hasn't been done for a while. For
 * the driver, when it arms. */
bool dlk_sentinels_are_due(const dlk_sentinels *all);

#endif
