/* Which rights the user lacks, kind of lock by kind of lock: of all of them for the doctor, of one
 * before its first lock. What is looked for is what the scripts call, so it can't fall behind them. */
#ifndef DLK_BACKENDS_REDIS_RIGHTS_H
#define DLK_BACKENDS_REDIS_RIGHTS_H

#include "backends/redis/link.h"
#include "contract/backend.h"

/* Appends the command that tries them all without changing anything (Redis 7 or newer); false
 * without memory. */
bool dlk_redis_rights_put(dlk_redis *redis);

#define DLK_LACK_MAX 400 /* bytes of names; further ones are left out */

typedef struct dlk_redis_lack {
    const char *id;           /* "rights", "rights.fair" … */
    const char *needs;        /* who needs them: "read/write locks" */
    char names[DLK_LACK_MAX]; /* "+hset ~dlock_queue:{app:*", or "" */
    char wishes
        [DLK_LACK_MAX]; /* those it can do without, though slower: "&redisson_rwlock:{app:*" */
    bool all;           /* of what it needs beyond a mutex: it isn't meant to be used */
    bool mutex;         /* it is what all others build on */
    bool operating; /* only operators need them */
} dlk_redis_lack;

/* Tells of each kind what it lacks. Nothing is told where the reply makes no sense, DLOCK_EPROTO, nor
 * without memory, DLOCK_ENOMEM. */
dlock_err dlk_redis_rights_judge(const dlk_redis *redis, const dlk_resp *reply,
                                 void (*tell)(void *to, const dlk_redis_lack *lack),
                                 void *to);

/* ---- One kind ---- */

#define DLK_REDIS_RIGHTS_ROOM 4096 /* no command for one kind without a key is longer */

struct dlk_redis_form;

/* Appends the command that tries the commands of this form, and where @p key isn't NULL the keys of that
 * lock, without changing anything; false without memory. An older server refuses it. */
bool dlk_redis_rights_put_one(dlk_redis *redis, const struct dlk_redis_form *form,
                              const dlk_key *key);
/* What its answer says is missing that this form can't do without. NULL: nothing, or it isn't known. */
dlock_error *dlk_redis_rights_judge_one(const dlk_redis *redis,
                                        const struct dlk_redis_form *form,
                                        const dlk_key *key, const dlk_resp *reply);
/* "user … lacks rights that <needs> need: <lack>" */
dlock_error *dlk_redis_lack_error(const dlk_redis *redis, const char *needs,
                                  const char *lack);

#endif
