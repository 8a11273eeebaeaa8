/* The engine's asks as requests: each is one command (listing and doctor: several), the answers come in
 * the order of the commands. */
#ifndef DLK_BACKENDS_REDIS_ASKS_H
#define DLK_BACKENDS_REDIS_ASKS_H

#include "backends/redis/inner.h"
#include "backends/redis/keys.h"

void dlk_redis_ask(dlk_backend *backend, dlk_ask *ask, int64_t now);

/* The first ask in flight gets this reply. An error ends the connection. */
dlock_error *dlk_redis_asks_reply(dlk_redis *redis, const dlk_resp *reply, int64_t now);
/* The connection is gone: those in flight are answered UNKNOWN, or NOT_SENT where that is sure.
 * To be called when `phase` says so already and before the stream is opened anew. */
void dlk_redis_asks_fail(dlk_redis *redis, const dlock_error *error);
/* Drops the connection when an answer is overdue; returns when to look again. */
int64_t dlk_redis_asks_tick(dlk_redis *redis, int64_t now);

/* ---- A request: what of an ask goes to the server, written, under way, and answered ---- */

/* In ask->scratch of a script's request: it has been sent with its text; as a SET, which the script
 * follows where that wasn't enough; the first answer to come is that to ASKING. */
#define DLK_REDIS_WITH_TEXT 1
#define DLK_REDIS_BY_SET    2
#define DLK_REDIS_ASKING    0x40
/* A renewal that does nothing but that: in a cluster whose slot moves only the lock is sure to be where it is
 * asked for. */
#define DLK_REDIS_ALONE 4
/* Not yet, or not any more: which of the rights that it needs are missing? */
#define DLK_REDIS_RIGHTS 0x100

/* The first answer to come is that to our own key, which stands ahead (client_key.h). Above what a batch
 * counts there. */
#define DLK_REDIS_SAID (INT64_C(1) << 40)

/* A cluster's own request: who has which slots? */
#define DLK_REDIS_MAP ((dlk_verb)(DLK_DOCTOR + 1))
/* A client's own, which nobody waits for: told.h. */
#define DLK_REDIS_TELL ((dlk_verb)(DLK_DOCTOR + 2))

/* How the ask's lock lies on the server. */
static inline const dlk_redis_form *dlk_redis_form_asked(const dlk_ask *ask)
{
    return dlk_redis_key_form(ask->key->data, ask->shared);
}

/* Does it take a lock? */
static inline bool dlk_redis_takes(const dlk_ask *ask)
{
    return ask->verb == DLK_ACQUIRE || ask->verb == DLK_IMPORT;
}

/* Is the reply to come that to what stands ahead, @p flag: to ASKING, or to our own key? True once. */
static inline bool dlk_redis_ahead_taken(dlk_ask *ask, int64_t flag)
{
    if (ask->verb == DLK_LIST || ask->verb == DLK_DOCTOR || !(ask->scratch & flag))
        return false;
    ask->scratch &= ~flag;
    return true;
}

/* What the form adds to its scripts' arguments; see dlk_redis_more. */
void dlk_redis_put_more(const dlk_redis *redis, const dlk_ask *ask,
                        const dlk_redis_form *form, dlk_arg *args,
                        char room[DLK_REDIS_MORE][64]);

/* How many KEYS the lock and what is derived from it are. */
size_t dlk_redis_own_keys(const dlk_redis *redis, const dlk_ask *ask,
                          dlk_redis_script_id script);
/* How long the counter is kept, of a form that has one; 0: it stays as it is, or for ever. Answers how many
 * arguments that is. */
size_t dlk_redis_put_keep(const dlk_redis *redis, const dlk_ask *ask, dlk_arg *arg,
                          char room[64]);

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
void dlk_redis_ask_answer(dlk_redis *redis, dlk_ask *ask, dlk_reply reply);
void dlk_redis_ask_refuse(dlk_redis *redis, dlk_ask *ask, dlock_error *error);

#endif
