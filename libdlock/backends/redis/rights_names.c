/* What a user needs rights to: the kinds of lock there are, and each one's keys and channels. */
#include "backends/redis/rights_names.h"

#include "backends/redis/client_key.h"
#include "backends/redis/inner.h"
#include "backends/redis/keys.h"
#include "util/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The kinds ---- */

/* Of a semaphore's two forms and of a mutex's three, the settings choose one. */
static bool is_used(const dlk_redis *redis, const dlk_redis_form *form)
{
    bool plain =
        dlk_settings_int(redis->settings, DLK_KEY_REDIS_SEMAPHORE) == DLK_REDIS_PLAIN;
    if (form->kind == DLOCK_SEMAPHORE)
        return form->plain == plain;
    return form == redis->mutex || form->fair || form->kind != DLOCK_MUTEX;
}

dlk_rights_kind dlk_rights_kind_of(const dlk_redis *redis, const dlk_redis_form *form)
{
    dlk_rights_kind is = {.id = "rights", .needs = "locks", .form = form};
    if (form == redis->mutex)
        return is;
    if (form->kind == DLOCK_MUTEX && !form->fair) { /* a lock's own settings want it so */
        is.needs = redis->mutex->fair ? "locks that aren't fair (lock.fair)" : is.needs;
        return is;
    }
    if (form->fair)
        return (dlk_rights_kind){"rights.fair", "fair locks (lock.fair)", form, false};
    if (form->kind == DLOCK_SEMAPHORE)
        return (dlk_rights_kind){"rights.semaphore", "semaphores", form, false};
    if (form->kind == DLOCK_ELECTION)
        return (dlk_rights_kind){"rights.election", "elections", form, false};
    if (form->signals)
        return (dlk_rights_kind){"rights.condition", "conditions", form, false};
    return form->shared ? (dlk_rights_kind){"rights.read", "read locks", form, false}
                        : (dlk_rights_kind){"rights.write", "write locks", form, false};
}

/* The mutex first; answers how many there are. */
size_t dlk_rights_list_kinds(const dlk_redis *redis,
                             dlk_rights_kind kinds[DLK_RIGHTS_KINDS_MAX])
{
    size_t count = 0;
    kinds[count++] = dlk_rights_kind_of(redis, redis->mutex);
    for (size_t i = 0; i < redis->layout->form_count && count < DLK_RIGHTS_KINDS_MAX - 1;
         i++) {
        const dlk_redis_form *form = &redis->layout->forms[i];
        if (form != redis->mutex && is_used(redis, form))
            kinds[count++] = dlk_rights_kind_of(redis, form);
    }
    kinds[count++] = (dlk_rights_kind){"rights.operator", "dlock inspect, break and ls",
                                       redis->mutex, true};
    return count;
}

/* ---- Names: keys and channels can be told only below a prefix ---- */

static void add_name(dlk_rights_names *to, size_t at, char *text)
{
    to->failed = to->failed || !text;
    if (!text || to->count == DLK_RIGHTS_NAMES_MAX) {
        free(text);
        return;
    }
    to->of[to->count] = at;
    to->text[to->count++] = text;
}

void dlk_rights_free_names(dlk_rights_names *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->text[i]);
}

bool dlk_rights_has_prefix(const dlk_redis *redis)
{
    return dlk_settings_text(redis->settings, DLK_KEY_CLIENT_PREFIX)[0] != '\0';
}

/* The keys that make a lock of rueidislock's. */
static int64_t slot_count(const dlk_settings *settings)
{
    return 2 * dlk_settings_int(settings, DLK_KEY_REDIS_RUEIDIS_MAJORITY) - 1;
}

static char *slot_of(const dlk_settings *settings, const char *name, int64_t slot)
{
    const char *prefix = dlk_settings_text(settings, DLK_KEY_REDIS_RUEIDIS_PREFIX);
    char *text = NULL;
    int size = asprintf(&text, "%s:%" PRId64 ":%s", prefix, slot, name);
    return size < 0 ? NULL : text;
}

/* Its derived keys, but for those that only an operator's look at it needs. */
static int derived_count(const dlk_redis_form *form)
{
    int most = 1;
    for (int id = DLK_SCRIPT_ACQUIRE; id <= DLK_SCRIPT_VERIFY; id++)
        most = form->keys[id] > most ? form->keys[id] : most;
    return most - 1;
}

/* What a reader keeps beside the lock, as lease_key.lua has it: only there an owner is part of a
 * key, so that a right may be for "{app:*}:*:rwlock_timeout:*". */
static char *lease_key(const dlk_redis *redis, const char *name)
{
    char owner[DLK_REDIS_OWNER_MAX], part[DLK_REDIS_OWNER_MAX + 32];
    size_t size = dlk_redis_put_owner(redis, 0, owner);
    snprintf(part, sizeof(part), ":%.*s:rwlock_timeout:1", (int)size, owner);
    return dlk_redis_derive(part, name);
}

/* Those that one kind has beside the lock's own. */
static void list_more_keys(const dlk_redis *redis, const dlk_rights_kind *of, size_t at,
                           const dlk_settings *settings, const char *name,
                           dlk_rights_names *to)
{
    const dlk_redis_form *form = of->form;
    for (int k = 0; !of->operating && k < derived_count(form); k++)
        add_name(to, at, dlk_redis_derive(form->derived[k], name));
    for (int64_t slot = 0; form->slots && slot < slot_count(settings); slot++)
        add_name(to, at, slot_of(settings, name, slot));
    if (form->shared)
        add_name(to, at, lease_key(redis, name));
}

void dlk_rights_list_keys(const dlk_redis *redis, const dlk_rights_kind *kinds,
                          size_t count, dlk_rights_names *to)
{
    char clients[DLK_REDIS_CLIENT_PREFIX];
    add_name(to, 0, strdup(redis->probe_key));
    if (dlk_redis_client_prefix(redis, clients)[0])
        add_name(to, DLK_RIGHTS_CLIENT_KEY, strdup(clients));
    for (size_t i = 0; dlk_rights_has_prefix(redis) && i < count; i++) {
        const char *beside = kinds[i].operating ? NULL : kinds[i].form->beside;
        list_more_keys(redis, &kinds[i], i, redis->settings, redis->probe_key, to);
        if (beside)
            add_name(to, DLK_RIGHTS_BESIDE + i,
                     dlk_redis_derive(beside, redis->probe_key));
    }
}

void dlk_rights_list_channels(const dlk_redis *redis, const dlk_rights_kind *kinds,
                              size_t count, dlk_rights_names *to)
{
    add_name(to, 0, strdup(redis->probe_channel));
    for (size_t i = 0; dlk_rights_has_prefix(redis) && i < count; i++) {
        const dlk_redis_form *form = kinds[i].form;
        if (!kinds[i].operating && form->channel && (form->notifies || redis->notify))
            add_name(to, i, dlk_redis_derive(form->channel, redis->probe_key));
        if (!kinds[i].operating && (form->hands_over || form->signals))
            add_name(to, i, strdup(DLK_REDIS_CLIENT_CHANNEL));
    }
}

/* Of a lock: it, and what is made of its name. Without one names aren't tried. */
void dlk_rights_list_own_names(const dlk_rights_kind *of, const dlk_key *key,
                               const dlk_redis *redis, dlk_rights_names *to)
{
    add_name(to, 0, strdup(key ? key->name : redis->probe_key));
    if (key)
        list_more_keys(redis, of, 0, key->settings, key->name, to);
}
