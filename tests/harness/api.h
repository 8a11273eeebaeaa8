/* Short ways through the public API, which fail a check where an answer isn't fine. */
#ifndef HARNESS_API_H
#define HARNESS_API_H

#include <dlock/dlock.h>

#include <stdbool.h>

/* Yours to free; NULL after a failed check. @p format makes the URI. */
dlock_client *api_open(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* @p settings: "key=value key=value", or NULL. */
dlock_conf *api_conf(const char *settings);
dlock_lock *api_lock(dlock_client *client, dlock_kind kind, const char *name,
                     const char *settings);

/* How many were signalled; -1 after a failed check. */
int64_t api_signal(dlock_cond *cond, int64_t count);
/* Whether the op ends within so long, and so. */
bool api_ends(dlock_op *op, int64_t within_ms, dlock_err code);

/* What an inspection says of a key, valid until the next call on this thread; "" is nothing. */
const char *api_seen(dlock_lock *lock, const char *key);
/* A number of its statistics; -1 when they don't say. */
int64_t api_stat(dlock_client *client, const char *key);
/* Whether its features have this key as "1". */
bool api_has(dlock_client *client, const char *feature);

#endif
