/* A fair lock: its contender's own channel, and what its scripts are told. */
#ifndef DLK_BACKENDS_REDIS_FAIR_H
#define DLK_BACKENDS_REDIS_FAIR_H

#include "backends/redis/keys.h"

dlk_redis_more dlk_redis_fair_more;

/* What the script answered to an acquire, told from when to ask again. */
int64_t dlk_redis_fair_wait(dlk_ask *ask, int64_t answer);

/* To be called with every ask for such a lock before it is sent. */
void dlk_redis_fair_asks(struct dlk_redis *redis, const dlk_ask *ask, int64_t now);

#endif
