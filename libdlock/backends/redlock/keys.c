/* A lock's name at each node. */
#include "backends/redlock/inner.h"

#include "backends/redis/settings.h"

#include <stdlib.h>
#include <string.h>

static dlk_redlock_key *make(const dlk_redlock *redlock, const dlk_key *key)
{
    size_t size = sizeof(dlk_redlock_key) + (size_t)redlock->count * sizeof(dlk_key);
    dlk_redlock_key *own = calloc(1, size + key->size + 1);
    if (!own)
        return NULL;
    own->refs = 1;
    own->name = (char *)own + size;
    memcpy(own->name, key->name, key->size + 1);
    for (int i = 0; i < redlock->count; i++)
        own->nodes[i] = (dlk_key){.name = own->name,
                                  .size = key->size,
                                  .settings = redlock->settings,
                                  .kind = key->kind};
    return own;
}

static void close_nodes(dlk_redlock *redlock, dlk_redlock_key *own, int count)
{
    for (int i = 0; i < count; i++) {
        dlk_backend *backend = redlock->nodes[i].backend;
        backend->type->key_close(backend, &own->nodes[i]);
    }
    free(own);
}

dlock_err dlk_redlock_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    dlk_redlock *redlock = (dlk_redlock *)backend;
    if (dlk_settings_is_set(key->settings, DLK_KEY_REDIS_LAYOUT) &&
        dlk_settings_int(key->settings, DLK_KEY_REDIS_LAYOUT) != DLK_LAYOUT_STRING)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "%s: the layout is %s, not redis.layout=%s",
                             dlk_redlock_name(redlock), redlock->base.type->traits.layout,
                             dlk_settings_word(key->settings, DLK_KEY_REDIS_LAYOUT));
    if (dlk_settings_int(key->settings, DLK_KEY_REDIS_WAIT_REPLICAS))
        return dlk_error_set(
            err, DLOCK_ENOTSUP,
            "%s: most of the nodes stand for one that fails, not replicas "
            "(redis.wait_replicas)",
            dlk_redlock_name(redlock));
    dlk_redlock_key *own = make(redlock, key);
    if (!own)
        return dlk_error_nomem(err);
    for (int i = 0; i < redlock->count; i++) {
        dlk_backend *node = redlock->nodes[i].backend;
        dlock_err code = node->type->key_open(node, &own->nodes[i], err);
        if (code != DLOCK_OK) {
            close_nodes(redlock, own, i);
            return code;
        }
    }
    key->data = own;
    return DLOCK_OK;
}

void dlk_redlock_key_unref(dlk_redlock *redlock, dlk_redlock_key *key)
{
    if (key && --key->refs == 0)
        close_nodes(redlock, key, redlock->count);
}

void dlk_redlock_key_close(dlk_backend *backend, dlk_key *key)
{
    dlk_redlock_key_unref((dlk_redlock *)backend, key->data);
    key->data = NULL;
}
