/* One key a client, by which an owner id can be led back to a process: what the client says of itself, its
 * name, host and pid. Inspecting and listing read it in the server (scripts/client_of.lua), so they cost no
 * request more. */
#ifndef DLK_BACKENDS_REDIS_CLIENT_KEY_H
#define DLK_BACKENDS_REDIS_CLIENT_KEY_H

#include "backends/redis/inner.h"

/* The name up to the uuid, with an end; "": no client has one there. In a cluster it has a tag between, see
 * dlk_redis_cluster. */
#define DLK_REDIS_CLIENT_KEY    "dlock_client:"
#define DLK_REDIS_CLIENT_PREFIX (sizeof(DLK_REDIS_CLIENT_KEY) + DLK_REDIS_TAG_MAX + 3)
const char *dlk_redis_client_prefix(const dlk_redis *redis,
                                    char room[DLK_REDIS_CLIENT_PREFIX]);

/* Whether a key of this name is a client's, and so no lock's. */
bool dlk_redis_is_client_key(const char *name);

/* Puts our key, if it is time, ahead of @p ask's request: one that takes, waits or renews. Answers whether
 * it has; then the first answer to come is that to it (DLK_REDIS_SAID). */
bool dlk_redis_client_key_put(dlk_redis *redis, const dlk_ask *ask);
/* The request behind it couldn't be put: `out` is as it was, with so many bytes. */
void dlk_redis_client_key_unput(dlk_redis *redis, size_t size);
void dlk_redis_client_key_answered(dlk_redis *redis, const dlk_resp *reply);
/* On a new connection nothing is known of it. */
void dlk_redis_client_key_forget(dlk_redis *redis);
/* Before the end: removes it, without waiting for an answer. */
void dlk_redis_client_key_remove(dlk_redis *redis);

/* Adds what such a key says, "" nothing: client, host and pid of number @p of a list. */
void dlk_redis_client_key_tell(dlock_info *info, const char *said, const char *list,
                               size_t number);

#endif
