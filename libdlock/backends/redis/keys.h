/* The names that go with a lock's name in Redisson's layout, and the beginnings of the commands
 * that are sent for it: all that doesn't change from one request to the next, made once. */
#ifndef DLK_BACKENDS_REDIS_KEYS_H
#define DLK_BACKENDS_REDIS_KEYS_H

#include "backends/backend.h"

typedef struct dlk_redis_bytes {
    char *data;
    size_t size;
} dlk_redis_bytes;

typedef struct dlk_redis_key {
    char *token;   /* the key of the counter of fencing tokens */
    char *channel; /* where a release is told */
    /* EVALSHA commands up to what differs: the owner, and the lease */
    dlk_redis_bytes acquire, renew, release;

    /* the subscriber's */
    struct dlk_redis_channel *at; /* the channel, while the key is watched */
    dlk_list watcher;
    dlk_list to_tell; /* in the subscriber's list: the host has to be told */
    dlk_key *key;
} dlk_redis_key;

/* "p:{name}", or "p:name" when the name has a brace; NULL without memory. */
char *dlk_redis_derive(const char *prefix, const char *name);

dlock_err dlk_redis_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err);
void dlk_redis_key_close(dlk_backend *backend, dlk_key *key);

#endif
