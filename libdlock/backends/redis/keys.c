/* Derived names; see the header. The names follow Redisson byte for
 * byte: its test for a hash tag is only "contains {". */
#include "backends/redis/keys.h"

#include "backends/redis/client_key.h"
#include "backends/redis/inner.h"
#include "backends/redis/wire.h"
#include "util/error.h"
#include "util/settings.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A reader of Redisson that renews its own lease gives it to the whole lock, also where another
 * reader's is longer. */
#define REDISSON_LEASE_MS 30000

/* Names of our own must not be those of another lock: Redisson makes the same of x and {x}. */
#define OURS "dlock_"

/* Whether it has a hash tag, for Redisson. */
static bool is_tagged(const char *name)
{
    return strchr(name, '{') != NULL;
}

/* What stands between part and name: part, colon, perhaps a second one, perhaps a brace. */
static bool is_apart(const char *part, bool tagged)
{
    return tagged && strncmp(part, OURS, sizeof(OURS) - 1) == 0;
}

/* What is put around a name. */
static size_t around(const char *part, size_t part_size, bool tagged)
{
    size_t colons = part[0] == ':' ? 0 : 1 + (size_t)is_apart(part, tagged);
    return part_size + colons + (tagged ? 0 : 2);
}

static char *put(char *to, const char *data, size_t size)
{
    memcpy(to, data, size);
    return to + size;
}

/* Without an end; answers where it would be. */
static char *put_derived(char *to, const char *part, size_t part_size, const char *name,
                         size_t size, bool tagged)
{
    bool behind = part[0] == ':';
    if (!behind) {
        to = put(to, part, part_size);
        *to++ = ':';
        if (is_apart(part, tagged))
            *to++ = ':';
    }
    if (!tagged)
        *to++ = '{';
    to = put(to, name, size);
    if (!tagged)
        *to++ = '}';
    return behind ? put(to, part, part_size) : to;
}

char *dlk_redis_derive(const char *part, const char *name)
{
    bool tagged = is_tagged(name);
    size_t size = strlen(name), part_size = strlen(part);
    char *text = malloc(around(part, part_size, tagged) + size + 1);
    if (text)
        *put_derived(text, part, part_size, name, size, tagged) = '\0';
    return text;
}

/* Whether dlk_redis_derive can have made it of this part and some name: then it has a brace. An
 * end (":timeout") proves nothing, for anybody's lock may be {order}:timeout; but such a key is no
 * hash and no string, so no script takes it for a lock. */
static bool is_made_of(const char *part, const char *name)
{
    size_t size = strlen(part);
    return part[0] != ':' && strncmp(name, part, size) == 0 && name[size] == ':' &&
           strchr(name + size, '{') != NULL;
}

bool dlk_redis_is_derived(const char *name)
{
    const char *part;
    for (size_t i = 0; (part = dlk_redis_derived_part(i)); i++)
        if (is_made_of(part, name))
            return true;
    /* A reader's own, of which there is one for each level. */
    return (strstr(name, ":rwlock_timeout:") && strchr(name, '{')) ||
           dlk_redis_is_client_key(name);
}

/* ---- KEYS ---- */

size_t dlk_redis_key_count(const dlk_key *key, size_t own)
{
    return own + ((const dlk_redis_key *)key->data)->slot_count;
}

static const char *slot_prefix(const dlk_key *key)
{
    return dlk_settings_text(key->settings, DLK_KEY_REDIS_RUEIDIS_PREFIX);
}

size_t dlk_redis_keys_room(const dlk_key *key, size_t own)
{
    const dlk_redis_key *data = key->data;
    size_t part = DLK_REDIS_PART_MAX;
    if (data->slot_count > 0)
        part += strlen(slot_prefix(key)) + DLK_DIGITS_MAX;
    return dlk_redis_key_count(key, own) * (key->size + part + DLK_RESP_OVERHEAD);
}

static char *put_derived_bulk(char *to, const dlk_redis_key *key, const char *part)
{
    const dlk_key *of = key->key;
    size_t part_size = strlen(part);
    to = dlk_resp_bulk_begin(to, around(part, part_size, key->tagged) + of->size);
    to = put_derived(to, part, part_size, of->name, of->size, key->tagged);
    return dlk_resp_bulk_end(to);
}

/* "prefix:0:name" and so on: an odd number of them, so that most of them are one holder's. */
static char *put_slots(char *to, const dlk_key *key, size_t count)
{
    const char *prefix = slot_prefix(key);
    size_t prefix_size = strlen(prefix);
    for (size_t i = 0; i < count; i++) {
        char digits[DLK_DIGITS_MAX];
        size_t digit_count = (size_t)(dlk_digits_put(digits, i) - digits);
        to = dlk_resp_bulk_begin(to, prefix_size + digit_count + key->size + 2);
        to = put(to, prefix, prefix_size);
        *to++ = ':';
        to = put(to, digits, digit_count);
        *to++ = ':';
        to = dlk_resp_bulk_end(put(to, key->name, key->size));
    }
    return to;
}

char *dlk_redis_put_keys(char *to, const dlk_key *key, const dlk_redis_form *form,
                         size_t own)
{
    const dlk_redis_key *data = key->data;
    to = dlk_resp_bulk(to, key->name, key->size);
    for (size_t i = 1; i < own; i++)
        to = put_derived_bulk(to, data, form->derived[i - 1]);
    return data->slot_count ? put_slots(to, key, data->slot_count) : to;
}

/* ---- the channel ---- */

size_t dlk_redis_channel_name(const dlk_redis_key *key, char to[DLK_REDIS_CHANNEL_MAX])
{
    if (!key->told)
        return 0;
    const char *part = key->form->channel;
    return (size_t)(put_derived(to, part, strlen(part), key->key->name, key->key->size,
                                key->tagged) -
                    to);
}

size_t dlk_redis_channel_room(const dlk_key *key)
{
    return 1 + key->size + DLK_REDIS_PART_MAX + DLK_RESP_OVERHEAD;
}

char *dlk_redis_put_channel(char *to, const dlk_redis *redis, const dlk_redis_key *key)
{
    if (!key->told)
        return dlk_resp_bulk(to, "", 0);
    if (redis->publish == DLK_PUBLISH_ALL)
        return put_derived_bulk(to, key, key->form->channel);
    char name[DLK_REDIS_CHANNEL_MAX];
    size_t size = dlk_redis_channel_name(key, name);
    to = dlk_resp_bulk_begin(to, 1 + size);
    *to++ = (char)redis->publish;
    return dlk_resp_bulk_end(put(to, name, size));
}

/* ---- the owner ---- */

size_t dlk_redis_put_owner(const dlk_redis *redis, uint64_t number, char *to)
{
    memcpy(to, redis->owner, redis->owner_size);
    return (size_t)(dlk_digits_put(to + redis->owner_size, number) - to);
}

/* ---- opening ---- */

static dlock_err find_forms(const dlk_redis *redis, dlk_redis_key *data,
                            const dlk_key *key, dlock_error **err)
{
    const dlk_redis_layout *layout =
        redis->layout->node ? redis->layout : dlk_redis_layout_of(key->settings);
    data->form = dlk_redis_form_of(layout, key->settings, key->kind, false, err);
    if (!data->form || key->kind != DLOCK_WRITE)
        return data->form ? DLOCK_OK : DLOCK_ENOTSUP;
    const dlk_redis_form *readers =
        dlk_redis_form_of(layout, key->settings, key->kind, true, err);
    if (!readers)
        return DLOCK_ENOTSUP;
    data->readers = (int8_t)(readers - data->form);
    return DLOCK_OK;
}

static dlock_err check_class(const dlk_redis *redis, const dlk_redis_key *data,
                             dlock_error **err)
{
    if (dlk_settings_int(redis->settings, DLK_KEY_CLIENT_REQUIRE) < DLK_REQUIRE_FENCING ||
        !data->form->by_clocks)
        return DLOCK_OK;
    return dlk_error_set(err, DLOCK_ENOTSUP,
                         "redis.layout=%s depends on the clocks of all who use it, but "
                         "client.require=%s",
                         dlk_settings_word(data->key->settings, DLK_KEY_REDIS_LAYOUT),
                         dlk_settings_word(redis->settings, DLK_KEY_CLIENT_REQUIRE));
}

static void fill(const dlk_redis *redis, dlk_redis_key *data)
{
    dlk_key *key = data->key;
    const dlk_redis_form *form = data->form;
    for (int i = 0; i < DLK_REDIS_DERIVED && form->derived[i]; i++)
        assert(strlen(form->derived[i]) + 4 <= DLK_REDIS_PART_MAX);
    data->tagged = is_tagged(key->name);
    data->told = form->notifies || redis->notify;
    if (form->slots)
        data->slot_count =
            (unsigned char)(dlk_settings_int(key->settings,
                                             DLK_KEY_REDIS_RUEIDIS_MAJORITY) *
                                2 -
                            1);
    data->hands_over = key->passes = form->hands_over;
    key->queues = form->queues || form->hands_over || form->signals;
    key->tells_all = true; /* a fair lock's release, too, is told on the lock's channel */
    key->hands_on = form->import != 0;
    if (data->readers)
        key->shared_cut_ms = REDISSON_LEASE_MS;
}

dlock_err dlk_redis_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    const dlk_redis *redis = (const dlk_redis *)backend;
    if (key->size > DLK_REDIS_NAME_MAX)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "redis: a name has at most %d bytes, not %" PRIu32,
                             DLK_REDIS_NAME_MAX, key->size);
    if (dlk_redis_is_derived(key->name))
        return dlk_error_set(err, DLOCK_EINVAL,
                             "redis: %s is the name of a key that belongs to a lock, not "
                             "that of a lock",
                             key->name);
    dlk_redis_key *data = calloc(1, sizeof(*data));
    if (!data)
        return dlk_error_nomem(err);
    data->key = key;
    key->data = data;
    dlock_err code = find_forms(redis, data, key, err);
    if (code == DLOCK_OK)
        code = check_class(redis, data, err);
    if (code != DLOCK_OK) {
        key->data = NULL;
        free(data);
        return code;
    }
    fill(redis, data);
    return DLOCK_OK;
}

void dlk_redis_key_close(dlk_backend *backend, dlk_key *key)
{
    (void)backend;
    free(key->data);
    key->data = NULL;
}
