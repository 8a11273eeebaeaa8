/* What is said at the beginning of a connection: who we are, and (on the one for commands) the
 * scripts and a check of the user's rights, so that a missing one is named before the first lock. */
#ifndef DLK_BACKENDS_REDIS_GREETING_H
#define DLK_BACKENDS_REDIS_GREETING_H

#include "backends/redis/link.h"

/* Operations: append the greeting of a connection for commands, for messages, or to a sentinel. */
dlock_error *dlk_redis_greet_commands(dlk_link *link, int64_t now);
dlock_error *dlk_redis_greet_messages(dlk_link *link, int64_t now);
dlock_error *dlk_redis_greet_sentinel(dlk_link *link, int64_t now);

/* The rights that a probe's answer complains of: "+hset +time"; "" when none is missing. @p
 * ret_but_fair: fair locks can do without them. False when the answer makes no sense. */
bool dlk_redis_missing_rights(const dlk_resp *reply, char *text, size_t size,
                              bool *ret_but_fair);
/* How far the server's clock is ahead of @p now, in us; of an answer that made sense. */
int64_t dlk_redis_clock_offset(const dlk_resp *reply, int64_t now);
/* Appends the command that runs the probe. */
bool dlk_redis_put_probe(dlk_redis *redis, dlk_buf *out, bool by_sha);
/* The value of "name:" in the answer to INFO, cut to @p size; false when it isn't there. */
bool dlk_redis_info_value(const dlk_resp *reply, const char *name, char *value,
                          size_t size);

#endif
