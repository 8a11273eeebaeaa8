/* Answers that are lists: who holds a lock, which locks there are. */
#ifndef DLK_BACKENDS_REDIS_REPORTS_H
#define DLK_BACKENDS_REDIS_REPORTS_H

#include "backends/redis/inner.h"
#include "contract/backend.h"
#include "util/clock.h"

/* Each of these is given the reply to the ask's last command and answers the ask or sends the
 * next command. False when the reply makes no sense (and the ask is as before). */
/* A reply to a revocation: who holds the lock, or how many of those were told. */
bool dlk_redis_revoke_go_on(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
bool dlk_redis_inspected(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
/* How many there were to be signalled. */
bool dlk_redis_signalled(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
bool dlk_redis_list_go_on(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply,
                          int64_t now);

/* Goes on with lists that rest; when to call it next. */
int64_t dlk_redis_list_wake(dlk_redis *redis, int64_t now);
static inline int64_t dlk_redis_list_tick(dlk_redis *redis, int64_t now)
{
    return dlk_list_empty(&redis->resting) ? DLK_NEVER : dlk_redis_list_wake(redis, now);
}
/* The ask has this answer. */
bool dlk_redis_give_info(dlk_redis *redis, dlk_ask *ask, dlock_info *info);

/* Appends the first command; false without memory. */
bool dlk_redis_list_begin(dlk_redis *redis, dlk_ask *ask);

/* The ask has this answer. */
bool dlk_redis_give_info(dlk_redis *redis, dlk_ask *ask, dlock_info *info);

/* Frees what a report that won't go on has gathered. Any ask. */
void dlk_redis_reports_drop(dlk_ask *ask);

#endif
