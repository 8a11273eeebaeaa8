/* The engine's requests on the wire: each is one command (listing and doctor: several), the
 * answers come in the order of the commands. */
#ifndef DLK_BACKENDS_REDIS_ASKS_H
#define DLK_BACKENDS_REDIS_ASKS_H

#include "backends/backend.h"
#include "backends/redis/link.h"
#include "backends/redis/scripts.h"

/* In ask->scratch of a script's request: it has been sent with its text; as a SET, which the script
 * follows where that wasn't enough; the first answer to come is that to ASKING. */
#define DLK_REDIS_WITH_TEXT 1
#define DLK_REDIS_BY_SET    2
#define DLK_REDIS_ASKING    0x40
/* Not yet, or not any more: which of the rights that it needs are missing? */
#define DLK_REDIS_RIGHTS 0x100

/* A cluster's own request: who has which slots? */
#define DLK_REDIS_MAP ((dlk_verb)(DLK_DOCTOR + 1))

void dlk_redis_ask(dlk_backend *backend, dlk_ask *ask, int64_t now);

/* The first ask in flight gets this reply. An error ends the connection. */
dlock_error *dlk_redis_asks_reply(dlk_redis *redis, const dlk_resp *reply, int64_t now);
/* The connection is gone: those in flight are answered UNKNOWN, or NOT_SENT where that is sure.
 * To be called when `phase` says so already and before the stream is opened anew. */
void dlk_redis_asks_fail(dlk_redis *redis, const dlock_error *error);
/* Drops the connection when an answer is overdue; returns when to look again. */
int64_t dlk_redis_asks_tick(dlk_redis *redis, int64_t now);

/* What every renew has behind its form's own arguments; @p args point to what lies in @p room. */
#define DLK_REDIS_BOUNDS 2
/* What renew answers of a lease that is too long, its end in ms of the epoch, is larger. */
#define DLK_REDIS_ENDS_MIN 1000000000
size_t dlk_redis_put_bounds(const dlk_ask *ask, dlk_arg *args, char room[2][64]);

/* When to look at a held lock again, ms: when its lease ends, and before that where its release is
 * told to nobody. */
int64_t dlk_redis_look_again(dlk_redis *redis, const dlk_ask *ask, int64_t left_ms);

/* Sends the command that stands in the stream's `out` for @p ask, whose answer is then awaited:
 * for reports that take several steps. */
void dlk_redis_ask_sent(dlk_redis *redis, dlk_ask *ask);
/* The beginning of a script's request, up to its KEYS: room enough for it, and the bulks; answers
 * where they end. */
size_t dlk_redis_script_room(const dlk_redis_script *script, bool with_text);
char *dlk_redis_put_script(char *to, const dlk_redis_script *script, bool with_text,
                           size_t keys, size_t args);
/* Puts a script's request into `out`; false without memory. */
bool dlk_redis_ask_put(dlk_redis *redis, const dlk_ask *ask, bool with_text);
/* The answers to one: an error; what a renewal can get else. False: it is nonsense. */
void dlk_redis_ask_take_error(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
bool dlk_redis_ask_take_flag(dlk_redis *redis, dlk_ask *ask, const dlk_resp *reply);
void dlk_redis_ask_answer(dlk_redis *redis, dlk_ask *ask, dlk_reply reply);
void dlk_redis_ask_refuse(dlk_redis *redis, dlk_ask *ask, dlock_error *error);

#endif
