/* Renewals that fall together go to the server as one script for up to a hundred locks, which
 * answers for each of them. They wait for each other no longer than until somebody writes. */
#ifndef DLK_BACKENDS_REDIS_BATCH_H
#define DLK_BACKENDS_REDIS_BATCH_H

#include "backends/redis/link.h"
#include "backends/redis/wire.h"
#include "contract/backend.h"

#define DLK_REDIS_BATCH 100

/* A renewal is to go out with the next burst. */
void dlk_redis_batch_add(dlk_redis *redis, dlk_ask *ask);
/* Puts all that wait into the stream: to be called by whoever is about to write. */
void dlk_redis_batch_put(dlk_redis *redis);

/* Whether this renewal in flight is the first of several with one answer. */
bool dlk_redis_batch_begins(const dlk_ask *ask);
/* Their answer. False: it is nonsense. */
bool dlk_redis_batch_reply(dlk_redis *redis, dlk_ask *first, const dlk_resp *reply);

#endif
