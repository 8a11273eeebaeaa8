/* Names as memcached's keys, which are at most 250 bytes without spaces and control characters. */
#include "backends/memcached/inner.h"

#include <stdlib.h>
#include <string.h>

#define AS_IT_IS 0 /* memcached.key_encoding=none */

/* A byte that can't be sent in a key. */
static const char *unsafe_byte(const dlk_key *key)
{
    for (size_t i = 0; i < key->size; i++)
        if ((unsigned char)key->name[i] <= ' ' || key->name[i] == 0x7f)
            return key->name + i;
    return NULL;
}

static size_t encoded_size(size_t size)
{
    return (size + 2) / 3 * 4;
}

/* As RFC 4648 §4 says, padded. */
static void encode(const char *name, size_t size, char *to)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3, to += 4) {
        size_t left = size - i;
        uint32_t bits = (uint32_t)(unsigned char)name[i] << 16;
        bits |= left > 1 ? (uint32_t)(unsigned char)name[i + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)(unsigned char)name[i + 2] : 0;
        to[0] = digits[bits >> 18];
        to[1] = digits[bits >> 12 & 63];
        to[2] = digits[bits >> 6 & 63];
        to[3] = digits[bits & 63];
        if (left < 3)
            to[3] = '=';
        if (left < 2)
            to[2] = '=';
    }
}

static dlock_err check_name(const dlk_key *key, bool as_it_is, dlock_error **err)
{
    size_t size = as_it_is ? key->size : encoded_size(key->size);
    if (size > DLK_MC_KEY_MAX)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "memcached: a key has at most %d bytes, and the name has %zu%s",
            DLK_MC_KEY_MAX, size, as_it_is ? "" : " in base64");
    if (as_it_is && unsafe_byte(key))
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "memcached: a key has no spaces or control characters (byte 0x%02x at %zu); "
            "memcached.key_encoding=base64 sends any name",
            (unsigned)(unsigned char)*unsafe_byte(key),
            (size_t)(unsafe_byte(key) - key->name));
    return DLOCK_OK;
}

static dlock_err check_settings(const dlk_settings *settings, dlock_error **err)
{
    if (dlk_settings_int(settings, DLK_KEY_LOCK_FAIR))
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "memcached: nothing keeps who waits, so no lock is fair");
    if (dlk_settings_int(settings, DLK_KEY_LOCK_TTL_MS) > DLK_MC_TTL_MAX_MS)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "memcached: lock.ttl_ms is at most %lld here: an item lasts "
                             "30 days, and whole "
                             "seconds are asked for",
                             (long long)DLK_MC_TTL_MAX_MS);
    return DLOCK_OK;
}

dlock_err dlk_mc_key_open(dlk_backend *backend, dlk_key *key, dlock_error **err)
{
    const dlk_mc *mc = (const dlk_mc *)backend;
    bool as_it_is =
        dlk_settings_int(mc->settings, DLK_KEY_MEMCACHED_KEY_ENCODING) == AS_IT_IS;
    dlock_err code = check_name(key, as_it_is, err);
    if (code == DLOCK_OK)
        code = check_settings(key->settings, err);
    if (code != DLOCK_OK)
        return code;
    size_t size = as_it_is ? 0 : encoded_size(key->size);
    dlk_mc_key *data = calloc(1, sizeof(*data) + size);
    if (!data)
        return dlk_error_nomem(err);
    data->form = dlk_mc_form_of(key->kind);
    data->lines = data->form == DLK_MC_READ_WRITE || data->form == DLK_MC_SEMAPHORE;
    data->wire = (dlk_mc_text){key->name, key->size};
    if (!as_it_is) {
        encode(key->name, key->size, data->encoded);
        data->wire = (dlk_mc_text){data->encoded, size};
    }
    key->data = data;
    key->hands_on = true;
    return DLOCK_OK;
}

void dlk_mc_key_close(dlk_backend *backend, dlk_key *key)
{
    (void)backend;
    free(key->data);
    key->data = NULL;
}
