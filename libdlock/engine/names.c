/* The names of a client's locks, and the settings that they share. Everything here runs with the engine's mutex
 * held. */
#include "engine/engine.h"

#include "util/hash.h"

#include <stdlib.h>
#include <string.h>

/* ---- names that may be free ---- */

void dlk_engine_news_add(dlk_news *news, dlk_engine_name *own)
{
    if (own->news)
        return;
    own->news = own;
    if (news->first)
        news->last->news = own;
    else
        news->first = own;
    news->last = own;
}

dlk_engine_name *dlk_engine_news_take(dlk_news *news)
{
    dlk_engine_name *own = news->first;
    news->first = own == news->last ? NULL : own->news;
    own->news = NULL;
    return own;
}

void dlk_engine_news_remove(dlk_news *news, dlk_engine_name *own)
{
    if (!own->news) /* mostly */
        return;
    const dlk_engine_name *last = news->last;
    for (bool over = false; !over;) {
        dlk_engine_name *it = dlk_engine_news_take(news);
        over = it == last;
        if (it != own)
            dlk_engine_news_add(news, it);
    }
}

/* ---- making and ending ---- */

/* Its settings are its own, and only read from here on. */
static void free_own(dlk_engine_name *own)
{
    dlk_settings_free((dlk_settings *)own->name.key.settings);
    free(own);
}

static void close_key(dlk_engine *engine, dlk_key *key)
{
    if (engine->backend->type->key_close)
        engine->backend->type->key_close(engine->backend, key);
}

void dlk_engine_free_name(void *world, dlk_name *name)
{
    dlk_engine *engine = world;
    dlk_engine_name *own = DLK_LIST_ITEM(name, dlk_engine_name, name);
    dlk_engine_news_remove(&engine->notified, own);
    close_key(engine, &name->key);
    free_own(own);
}

/* What the server sees of a name: handles of one client that use it at a time must agree on it. */
static uint64_t agreed_of(const dlk_settings *settings)
{
    uint64_t hash = DLK_HASH_BEGIN;
    for (dlk_key_id id = 0; id < DLK_KEY_COUNT; id++) {
        int64_t number = 0;
        const char *text = "";
        if (!dlk_settings_spec(id)->shapes)
            continue;
        if (dlk_settings_spec(id)->type == DLK_TYPE_TEXT)
            text = dlk_settings_text(settings, id);
        else
            number = dlk_settings_int(settings, id);
        hash = dlk_hash(dlk_hash(hash, &number, sizeof(number)), text, strlen(text) + 1);
    }
    return hash;
}

void dlk_engine_set_settings(dlk_engine *engine, dlk_settings *settings)
{
    engine->settings = settings;
    engine->agreed = agreed_of(settings);
}

/* Candidates of one election may have different data, and are different names for that. */
static bool same_data(const dlk_name *name, const dlk_settings *settings)
{
    return name->key.kind != DLOCK_ELECTION ||
           strcmp(dlk_settings_text(name->key.settings, DLK_KEY_LOCK_DATA),
                  dlk_settings_text(settings, DLK_KEY_LOCK_DATA)) == 0;
}

/* Most names of a client have the same settings: one copy serves them. */
dlk_settings *dlk_engine_share_settings(dlk_engine *engine, const dlk_settings *settings)
{
    if (settings == engine->settings || dlk_settings_same(engine->settings, settings))
        return dlk_settings_share(engine->settings);
    if (!engine->last_settings || !dlk_settings_same(engine->last_settings, settings)) {
        dlk_settings *copy = dlk_settings_copy(settings);
        if (!copy)
            return NULL;
        dlk_settings_free(engine->last_settings);
        engine->last_settings = copy;
    }
    return dlk_settings_share(engine->last_settings);
}

static dlock_err open_key(dlk_engine *engine, dlk_key *key, dlock_error **err)
{
    const dlk_backend_type *type = engine->backend->type;
    if (type->key_open)
        return type->key_open(engine->backend, key, err);
    if (!type->traits.kinds[key->kind])
        return dlk_error_set(err, DLOCK_ENOTSUP, "%s: has no locks of this kind",
                             type->name);
    return DLOCK_OK;
}

static dlock_err make_name(dlk_engine *engine, dlock_kind kind, const char *text,
                           size_t size, const dlk_settings *settings, uint64_t agreed,
                           dlk_name **ret, dlock_error **err)
{
    dlk_engine_name *own = calloc(1, sizeof(*own) + size + 1);
    if (!own)
        return dlk_error_nomem(err);
    memcpy(own->text, text, size + 1);
    own->name.key = (dlk_key){.name = own->text, .size = (uint32_t)size, .kind = kind};
    own->name.key.settings = dlk_engine_share_settings(engine, settings);
    own->name.agreed = agreed;
    dlock_err code = own->name.key.settings ? DLOCK_OK : dlk_error_nomem(err);
    if (code == DLOCK_OK)
        code = open_key(engine, &own->name.key, err);
    if (code != DLOCK_OK) {
        free_own(own);
        return code;
    }
    if (!dlk_name_add(&engine->core, &own->name)) {
        close_key(engine, &own->name.key);
        free_own(own);
        return dlk_error_nomem(err);
    }
    *ret = &own->name;
    return DLOCK_OK;
}

dlock_err dlk_engine_name_get(dlk_engine *engine, dlock_kind kind, const char *text,
                              const dlk_settings *settings, dlk_name **ret,
                              dlock_error **err)
{
    size_t size = strlen(text);
    uint64_t agreed = settings == engine->settings ? engine->agreed : agreed_of(settings);
    dlk_name *name = NULL;
    if (kind == DLOCK_READ)
        kind = DLOCK_WRITE; /* two sides of one lock */
    while ((name = dlk_name_find(&engine->core, kind, text, size, name)))
        if (name->agreed == agreed && same_data(name, settings))
            break;
    if (!name)
        return make_name(engine, kind, text, size, settings, agreed, ret, err);
    dlk_name_ref(name);
    *ret = name;
    return DLOCK_OK;
}

dlock_err dlk_engine_name_again(dlk_engine *engine, const dlk_name *name, dlk_name **ret,
                                dlock_error **err)
{
    const dlk_key *key = &name->key;
    return make_name(engine, key->kind, key->name, key->size, key->settings, name->agreed,
                     ret, err);
}
