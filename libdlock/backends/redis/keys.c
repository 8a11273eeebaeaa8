/* Derived names and precomputed commands; see the header. The names follow Redisson byte for
 * byte: its test for a hash tag is only "contains {". */
#include "backends/redis/keys.h"

#include "backends/redis/resp.h"
#include "backends/redis/scripts.h"
#include "util/error.h"
#include "util/settings.h"

#include <stdlib.h>
#include <string.h>

char *dlk_redis_derive(const char *prefix, const char *name)
{
    bool tagged = strchr(name, '{') != NULL;
    size_t before = strlen(prefix), size = strlen(name);
    char *text = malloc(before + size + 4), *to = text;
    if (!text)
        return NULL;
    memcpy(to, prefix, before);
    to += before;
    *to++ = ':';
    if (!tagged)
        *to++ = '{';
    memcpy(to, name, size);
    to += size;
    if (!tagged)
        *to++ = '}';
    *to = '\0';
    return text;
}

/* "EVALSHA sha keys…" of a command that @p more arguments follow; the last fixed one may be an
 * argument (@p arg) as well. */
static bool prepare(dlk_redis_bytes *ret, dlk_redis_script_id script, const dlk_arg *keys,
                    size_t key_count, const char *arg, size_t more)
{
    size_t size =
        4 * DLK_RESP_OVERHEAD + sizeof("EVALSHA") + sizeof(dlk_redis_scripts[0].sha1);
    for (size_t i = 0; i < key_count; i++)
        size += keys[i].size + DLK_RESP_OVERHEAD;
    if (arg)
        size += strlen(arg) + DLK_RESP_OVERHEAD;
    char *to = ret->data = malloc(size);
    if (!to)
        return false;
    to = dlk_resp_count(to, 3 + key_count + (arg ? 1 : 0) + more);
    to = dlk_resp_bulk(to, "EVALSHA", 7);
    to = dlk_resp_bulk(to, dlk_redis_scripts[script].sha1, 40);
    to = dlk_resp_bulk_number(to, key_count);
    for (size_t i = 0; i < key_count; i++)
        to = dlk_resp_bulk(to, keys[i].data, keys[i].size);
    if (arg)
        to = dlk_resp_bulk(to, arg, strlen(arg));
    ret->size = (size_t)(to - ret->data);
    return true;
}

static void free_key(dlk_redis_key *key)
{
    free(key->token);
    free(key->channel);
    free(key->acquire.data);
    free(key->renew.data);
    free(key->release.data);
    free(key);
}

dlock_err dlk_redis_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    (void)backend;
    if (key->kind != DLOCK_MUTEX)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "redis: this version has only the mutex");
    if (dlk_settings_int(key->settings, DLK_KEY_REDIS_LAYOUT) != DLK_LAYOUT_REDISSON)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "redis: this version has only redis.layout=redisson, not %s",
                             dlk_settings_word(key->settings, DLK_KEY_REDIS_LAYOUT));
    if (dlk_settings_int(key->settings, DLK_KEY_LOCK_FAIR))
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "redis: this version has no fair locks (lock.fair)");
    if (dlk_settings_int(key->settings, DLK_KEY_REDIS_WAIT_REPLICAS))
        return dlk_error_set(
            err, DLOCK_ENOTSUP,
            "redis: this version doesn't wait for replicas (redis.wait_replicas)");
    dlk_redis_key *data = calloc(1, sizeof(*data));
    if (!data)
        return dlk_error_nomem(err);
    data->key = key;
    dlk_list_init(&data->watcher);
    dlk_list_init(&data->to_tell);
    data->token = dlk_redis_derive("redisson_lock_token", key->name);
    data->channel = dlk_redis_derive("redisson_lock__channel", key->name);
    dlk_arg keys[2] = {{key->name, key->size}, {data->token, 0}};
    if (data->token)
        keys[1] = dlk_arg_text(data->token);
    if (!data->token || !data->channel ||
        !prepare(&data->acquire, DLK_SCRIPT_ACQUIRE, keys, 2, NULL, 2) ||
        !prepare(&data->renew, DLK_SCRIPT_RENEW, keys, 1, NULL, 2) ||
        !prepare(&data->release, DLK_SCRIPT_RELEASE, keys, 1, data->channel, 1)) {
        free_key(data);
        return dlk_error_nomem(err);
    }
    key->data = data;
    return DLOCK_OK;
}

void dlk_redis_key_close(dlk_backend *backend, dlk_key *key)
{
    (void)backend;
    if (key->data)
        free_key(key->data);
    key->data = NULL;
}
