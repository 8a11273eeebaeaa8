/* The answers to scripts' requests: each answers its ask, or has it asked once more. */
#ifndef DLK_BACKENDS_REDIS_ANSWERS_H
#define DLK_BACKENDS_REDIS_ANSWERS_H

#include "backends/redis/asks.h"

/* What each verb is called in messages; DLK_REDIS_MAP, too. */
extern const char *const dlk_redis_verbs[];

/* Rights.
 *
 * Those of the client's mutex were looked at when it connected. Those of another kind are before the
 * first lock of that kind: it is asked for when none is missing, so that nothing ends half-way. What
 * the server refuses all the same, for the lock's name or because of a right that is gone since, is
 * looked at then. */

/* Is it the first lock of another kind? */
static inline bool dlk_redis_rights_needed(const dlk_redis *redis, const dlk_ask *ask)
{
    return dlk_redis_takes(ask) && dlk_redis_form_asked(ask) != redis->mutex &&
           !(redis->checked & 1U << dlk_redis_form_asked(ask)->id);
}

/* Is the reply to come what rights are missing? */
static inline bool dlk_redis_rights_asked(const dlk_ask *ask)
{
    return dlk_redis_takes(ask) && ask->scratch == DLK_REDIS_RIGHTS;
}

/* Puts that question into `out`; false without memory. */
bool dlk_redis_rights_ask(dlk_redis *redis, dlk_ask *ask);
void dlk_redis_take_rights(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);

/* The answer to one: any; an error, to whatever was asked; what a renewal can get else. False: it is
 * nonsense. */
bool dlk_redis_take_answer(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
void dlk_redis_take_error(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
bool dlk_redis_take_flag(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);

#endif
