/*
 * Hand-over decided by the server: the client's side. Who releases a mutex of Redisson's layout
 * hands it on in the same script (scripts/next_owner.lua), to the next owner of its own client or
 * to the first in a line that libdlock's clients keep beside the lock. For Redisson it is an
 * ordinary RLock, which is put up for all now and then so that its waiters have their turn.
 *
 * Each client listens on one channel of its own for its whole life; whoever is not heard there is
 * taken for dead. So nobody stands in the line before that subscription is confirmed.
 */
#ifndef DLK_BACKENDS_REDIS_HANDOVER_H
#define DLK_BACKENDS_REDIS_HANDOVER_H

#include "backends/redis/keys.h"

/* The owners of one client have the lock so many times in a row while others are in the line. */
#define DLK_REDIS_RUN 4

/* More hand-overs since a lock was put up for all make no difference: redis.open_turn is less. */
#define DLK_REDIS_TURN_MAX (UINT32_MAX - 1)

/* An answer that says how long to hold back for others is never longer, in ms. */
#define DLK_REDIS_MOMENT_MAX 60000

dlk_redis_more dlk_redis_handover_more;

/* To be called with every ask before it is sent. */
void dlk_redis_handover_asks(const struct dlk_redis *redis, const dlk_ask *ask);
/* How long to wait, from the answer to an acquire that says when to ask again. */
int64_t dlk_redis_handover_wait(const dlk_ask *ask, int64_t answer);
/* A release was told on the lock's channel. */
static inline void dlk_redis_handover_heard(dlk_redis_key *key)
{
    key->had_by_others = key->held_back;
}
/* The lock was acquired by this ask. */
void dlk_redis_handover_acquired(dlk_ask *ask);
/* Fills in the answer to a release, and whether nobody could be told. False for nonsense. */
bool dlk_redis_handover_released(const struct dlk_redis *redis, dlk_ask *ask,
                                 const dlk_resp *reply, bool *ret_untold);

/* A message on the client's own channel, "<owner> <turn> <channel of the lock>". True when it
 * names an owner of this client; then the rest is filled in. */
bool dlk_redis_handover_parse(const struct dlk_redis *redis, const dlk_resp *message,
                              uint64_t *ret_number, uint32_t *ret_turn,
                              const char **ret_channel, size_t *ret_size);
/* Takes "<first token> <last token> <0 or 1>" (scripts/keeps.lua), for a number that keeps its lock, else
 * the token alone. False for nonsense. */
bool dlk_redis_handover_tokens(dlk_ask *ask, uint64_t number, const dlk_resp *reply);
/* The answer to the renewal of one that keeps it: "<answer> " ahead of that. */
bool dlk_redis_handover_renewed(dlk_ask *ask, const dlk_resp *reply, int64_t *ret_answer);

/* Another message there, "asked <number> <lock>": somebody wants what that number keeps. */
bool dlk_redis_handover_asked(const dlk_resp *message, uint64_t *ret_number,
                              const char **ret_lock, size_t *ret_size);
/* Another message there, "revoke <number>". */
bool dlk_redis_handover_revokes(const dlk_resp *message, uint64_t *ret_number);
/* Does that number of this key wait for it? */
bool dlk_redis_handover_told(dlk_redis_key *key, uint64_t number, uint32_t turn);

#endif
