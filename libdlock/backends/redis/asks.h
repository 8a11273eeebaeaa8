/* The engine's asks as requests: each is one command (listing and doctor: several), the
 * answers come in the order of the commands. */
#ifndef DLK_BACKENDS_REDIS_ASKS_H
#define DLK_BACKENDS_REDIS_ASKS_H

#include "backends/backend.h"
#include "backends/redis/link.h"

void dlk_redis_ask(dlk_backend *backend, dlk_ask *ask, int64_t now);

/* The first ask in flight gets this reply. An error ends the connection. */
dlock_error *dlk_redis_asks_reply(dlk_redis *redis, const dlk_resp *reply, int64_t now);
/* The connection is gone: those in flight are answered UNKNOWN, or NOT_SENT where that is sure.
 * To be called when `phase` says so already and before the stream is opened anew. */
void dlk_redis_asks_fail(dlk_redis *redis, const dlock_error *error);
/* Drops the connection when an answer is overdue; returns when to look again. */
int64_t dlk_redis_asks_tick(dlk_redis *redis, int64_t now);

#endif
