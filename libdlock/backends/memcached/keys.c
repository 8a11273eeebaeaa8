/* Names as memcached's keys, which are at most 250 bytes without spaces and control characters. */
#include "backends/memcached/inner.h"
#include "util/escape.h"

#include <stdlib.h>
#include <string.h>

/* memcached.key_encoding */
enum { AS_IT_IS, BASE64 /* or else escaped */ };

/* Bytes are all the same there, whatever they mean. */
static size_t character(const char *text, size_t left)
{
    (void)left;
    return (unsigned char)*text > ' ' && *text != 0x7f;
}

static const dlk_alphabet keys = {.character = character};

/* A byte that can't be sent in a key. */
static const char *unsafe_byte(const dlk_key *key)
{
    for (size_t i = 0; i < key->size; i++)
        if (!character(key->name + i, key->size - i))
            return key->name + i;
    return NULL;
}

/* As RFC 4648 §4 says, padded; NULL without memory. */
static char *encode(const char *name, size_t size)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = calloc((size + 2) / 3 * 4 + 1, 1), *to = text;
    if (!text)
        return NULL;
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
    return text;
}

/* The key that a name has, yours to free. */
static dlock_err key_of(const dlk_key *key, int64_t encoding, char **ret,
                        dlock_error **err)
{
    if (encoding == AS_IT_IS && unsafe_byte(key))
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "memcached: a key has no spaces or control characters (byte 0x%02x at %zu); "
            "memcached.key_encoding=escaped sends any name",
            (unsigned)(unsigned char)*unsafe_byte(key),
            (size_t)(unsafe_byte(key) - key->name));
    char *text = encoding == AS_IT_IS ? strdup(key->name)
                 : encoding == BASE64 ? encode(key->name, key->size)
                                      : dlk_escape(&keys, key->name, key->size);
    if (!text)
        return dlk_error_nomem(err);
    size_t size = strlen(text);
    if (size > DLK_MC_KEY_MAX) {
        free(text);
        return dlk_error_set(err, DLOCK_EINVAL,
                             "memcached: a key has at most %d bytes, and that of this "
                             "name has %zu%s",
                             DLK_MC_KEY_MAX, size,
                             encoding == BASE64 ? " in base64"
                             : size > key->size ? ", escaped"
                                                : "");
    }
    *ret = text;
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
    char *text = NULL;
    dlock_err code = check_settings(key->settings, err);
    if (code == DLOCK_OK)
        code = key_of(key, dlk_settings_int(mc->settings, DLK_KEY_MEMCACHED_KEY_ENCODING),
                      &text, err);
    if (code != DLOCK_OK)
        return code;
    dlk_mc_key *data = calloc(1, sizeof(*data));
    if (!data) {
        free(text);
        return dlk_error_nomem(err);
    }
    data->form = dlk_mc_form_of(key->kind);
    data->lines = data->form == DLK_MC_READ_WRITE || data->form == DLK_MC_SEMAPHORE;
    data->text = text;
    data->wire = (dlk_mc_text){text, strlen(text)};
    key->data = data;
    key->hands_on = true;
    return DLOCK_OK;
}

void dlk_mc_key_close(dlk_backend *backend, dlk_key *key)
{
    dlk_mc_key *data = key->data;
    (void)backend;
    free(data->text);
    free(data);
    key->data = NULL;
}
