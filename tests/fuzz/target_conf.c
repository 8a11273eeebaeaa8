/* Settings: lines of KEY=VALUE, as text and as numbers, for a client and for a lock. What a dump
 * shows can be set again and gives the same dump; every value that was taken is in its range; no
 * text depends on what a secret says. */
#include "fuzz.h"

#include "api/conf.h"
#include "util/settings.h"

#include <dlock/dlock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "conf";
const size_t fuzz_longest = 400;
const char *const fuzz_words[] = {"lock.ttl_ms=",
                                  "lock.renew=",
                                  "lock.max_hold_ms=",
                                  "lock.owner=",
                                  "lock.reentrant=",
                                  "lock.permits=",
                                  "lock.take=",
                                  "lock.data=",
                                  "client.require=",
                                  "client.prefix=",
                                  "client.name=",
                                  "client.backoff_min_ms=",
                                  "client.backoff_max_ms=",
                                  "auth.username=",
                                  "auth.password=",
                                  "auth.password_file=",
                                  "auth.password_env=",
                                  "auth.sentinel_password=",
                                  "tls.verify=",
                                  "redis.db=",
                                  "redis.layout=",
                                  "zookeeper.node=",
                                  "file.slots=",
                                  "file.mode=",
                                  "\n",
                                  "=",
                                  "#",
                                  "-1",
                                  "0",
                                  "1",
                                  "100",
                                  "9007199254740992",
                                  "2592000000",
                                  "true",
                                  "off",
                                  "auto",
                                  "fed",
                                  "0660",
                                  "correctness",
                                  "fencing",
                                  "thread",
                                  "redisson",
                                  "lock.",
                                  "_ms",
                                  "\x01",
                                  NULL};

#define LINES_MAX 12

typedef struct line {
    char *key, *value; /* value NULL: unset */
    bool number;
} line;

/* "KEY=VALUE"; "#n=VALUE" is the n-th key of the table, or its number; without = it is unset. */
static line parse_line(fuzz_bytes bytes)
{
    line it = {.number = bytes.left > 0 && (bytes.at[0] & 0x80) != 0};
    if (it.number)
        (void)fuzz_byte(&bytes);
    bool by_place = bytes.left > 1 && bytes.at[0] == '#';
    if (by_place) {
        (void)fuzz_byte(&bytes);
        it.key = strdup(
            dlk_settings_spec((dlk_key_id)(fuzz_byte(&bytes) % DLK_KEY_COUNT))->name);
    }
    bool has_value = bytes.left > 0 && memchr(bytes.at, '=', bytes.left);
    fuzz_bytes key = fuzz_take_until(&bytes, '=');
    if (!by_place)
        it.key = fuzz_text(key);
    it.value = has_value ? fuzz_text(bytes) : NULL;
    return it;
}

static bool is_known(const char *key)
{
    dlk_key_id id;
    return dlk_settings_find(key, &id, NULL) == DLOCK_OK;
}

static bool is_secret(const char *key)
{
    return strcmp(key, "auth.password") == 0 ||
           strcmp(key, "auth.sentinel_password") == 0;
}

/* ---- setting ---- */

/* A secret of another wording must lead to the same words about it. */
static void check_secret(const line *it, dlock_err code, const dlock_error *err)
{
    dlock_conf *conf = dlock_conf_new();
    dlock_error *other = NULL;
    char *value = strdup(it->value);
    for (char *c = value; *c; c++)
        *c = *c >= 'a' && *c < 'z' ? (char)(*c + 1) : *c;
    FUZZ_CHECK(dlock_conf_set(conf, it->key, value, &other) == code, "code of a secret");
    FUZZ_CHECK(strcmp(dlock_error_text(err), dlock_error_text(other)) == 0,
               "'%s' tells secrets apart", dlock_error_text(err));
    free(value);
    dlock_error_free(other);
    dlock_conf_free(conf);
}

static void set(dlock_conf *conf, const line *it)
{
    dlock_error *err = NULL;
    dlock_err code;
    if (it->number && it->value)
        code = dlock_conf_set_int(conf, it->key, strtoll(it->value, NULL, 0), &err);
    else
        code = dlock_conf_set(conf, it->key, it->value, &err);
    FUZZ_CHECK(code == DLOCK_OK || code == DLOCK_EINVAL, "%s", dlock_errname(code));
    FUZZ_CHECK(dlock_error_code(err) == code, "error and code disagree");
    FUZZ_CHECK((code == DLOCK_OK) == (dlock_error_text(err)[0] == '\0'),
               "no text for it");
    FUZZ_CHECK(!strpbrk(dlock_error_text(err), "\n\r"), "an error is one line");
    if (!it->number && it->value && is_secret(it->key))
        check_secret(it, code, err);
    dlock_error_free(err);
}

/* ---- what was set ---- */

static void check_value(const dlk_settings *settings, dlk_key_id id)
{
    const dlk_key_spec *spec = dlk_settings_spec(id);
    int64_t number = dlk_settings_int(settings, id);
    const char *text = dlk_settings_text(settings, id);
    switch (spec->type) {
    case DLK_TYPE_INT:
        FUZZ_CHECK((number >= spec->min && number <= spec->max) ||
                       (number == 0 && spec->zero),
                   "%s is %" PRId64, spec->name, number);
        return;
    case DLK_TYPE_BOOL:
        FUZZ_CHECK(number == 0 || number == 1, "%s is %" PRId64, spec->name, number);
        return;
    case DLK_TYPE_ENUM:
        FUZZ_CHECK(number >= 0 && number < DLK_KEY_WORDS && spec->words[number],
                   "%s is word %" PRId64, spec->name, number);
        return;
    case DLK_TYPE_OCTAL:
        FUZZ_CHECK(number == 0600 || number == 0660 || number == 0666, "%s is %" PRIo64,
                   spec->name, number);
        return;
    case DLK_TYPE_TEXT:
    case DLK_TYPE_SECRET:
    case DLK_TYPE_PATH:
        FUZZ_CHECK(!spec->max || strlen(text) <= (size_t)spec->max, "%s is too long",
                   spec->name);
        FUZZ_CHECK(spec->type != DLK_TYPE_PATH || !settings ||
                       !dlk_settings_is_set(settings, id) || text[0],
                   "%s is empty", spec->name);
        return;
    }
}

/* A value in the words in which it can be set. */
static const char *print(const dlk_settings *settings, dlk_key_id id, char text[32])
{
    const dlk_key_spec *spec = dlk_settings_spec(id);
    int64_t number = dlk_settings_int(settings, id);
    switch (spec->type) {
    case DLK_TYPE_ENUM:
        return dlk_settings_word(settings, id);
    case DLK_TYPE_BOOL:
        return number ? "true" : "false";
    case DLK_TYPE_INT:
    case DLK_TYPE_OCTAL:
        (void)snprintf(text, 32, spec->type == DLK_TYPE_INT ? "%" PRId64 : "%#" PRIo64,
                       number);
        return text;
    case DLK_TYPE_TEXT:
    case DLK_TYPE_SECRET:
    case DLK_TYPE_PATH:
        break;
    }
    return dlk_settings_text(settings, id);
}

/* What is set can be set again from its text, and is the same then. */
static void check_again(const dlk_settings *settings)
{
    dlk_settings *copy = dlk_settings_new();
    char text[32], other[32];
    for (int i = 0; i < DLK_KEY_COUNT; i++) {
        dlk_key_id id = (dlk_key_id)i;
        if (!dlk_settings_is_set(settings, id))
            continue;
        check_value(settings, id);
        const char *value = print(settings, id, text);
        FUZZ_CHECK(dlk_settings_set_id(copy, id, value, NULL) == DLOCK_OK,
                   "%s can't be set to what it is: '%s'", dlk_settings_spec(id)->name,
                   value);
        FUZZ_CHECK(strcmp(value, print(copy, id, other)) == 0, "'%s' became '%s'", value,
                   print(copy, id, other));
    }
    dlk_settings_free(copy);
}

static dlock_info *dump(const dlock_conf *conf)
{
    dlock_info *info = NULL;
    FUZZ_CHECK(dlock_conf_dump(conf, &info, NULL) == DLOCK_OK, "a dump");
    return info;
}

static const char *dumped(const dlock_info *info, dlk_key_id id)
{
    char key[96];
    (void)snprintf(key, sizeof(key), "%s.value", dlk_settings_spec(id)->name);
    return dlock_info_get(info, key);
}

/* The dump shows what is set and no secret. */
static void check_dump(const dlock_conf *conf)
{
    dlock_info *info = dump(conf);
    char text[32];
    for (int i = 0; i < DLK_KEY_COUNT; i++) {
        dlk_key_id id = (dlk_key_id)i;
        const dlk_key_spec *spec = dlk_settings_spec(id);
        bool is_set = dlk_settings_is_set(conf->settings, id);
        const char *value = dumped(info, id);
        FUZZ_CHECK((value != NULL) == is_set, "%s in a dump", spec->name);
        if (is_set)
            FUZZ_CHECK(strcmp(value, spec->type == DLK_TYPE_SECRET
                                         ? "***"
                                         : print(conf->settings, id, text)) == 0,
                       "%s is shown as %s", spec->name, value);
    }
    fuzz_check_json(dlock_info_json(info));
    dlock_info_free(info);
}

/* What three sets make of each other: default < URI < client < lock, and never looser. */
static void check_merged(const dlk_settings *uri, const dlk_settings *client,
                         const dlk_settings *lock)
{
    dlk_settings *merged = NULL, *locks = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlk_settings_for_client(uri, client, &merged, &err);
    FUZZ_CHECK(dlock_error_code(err) == code, "error and code disagree");
    if (code == DLOCK_OK) {
        for (int i = 0; i < DLK_KEY_COUNT; i++) {
            dlk_key_id id = (dlk_key_id)i;
            check_value(merged, id);
            if (dlk_settings_spec(id)->rise == DLK_RISE_UP)
                FUZZ_CHECK(
                    dlk_settings_int(merged, id) >= dlk_settings_int(client, id) &&
                        (!dlk_settings_is_set(uri, id) ||
                         dlk_settings_int(merged, id) >= dlk_settings_int(uri, id)),
                    "%s was loosened", dlk_settings_spec(id)->name);
        }
        int64_t most = dlk_settings_int(merged, DLK_KEY_LOCK_MAX_HOLD_MS);
        FUZZ_CHECK(most == 0 || dlk_settings_int(merged, DLK_KEY_LOCK_TTL_MS) <= most,
                   "a ttl beyond the longest hold");
        if (dlk_settings_for_lock(merged, lock, &locks, &err) == DLOCK_OK)
            for (int i = 0; i < DLK_KEY_COUNT; i++)
                check_value(locks, (dlk_key_id)i);
    }
    dlock_error_free(err);
    dlk_settings_free(merged);
    dlk_settings_free(locks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    dlock_conf *confs[3] = {dlock_conf_new(), dlock_conf_new(), dlock_conf_new()};
    int at = 0, touched = 0, guesses = size % 8 == 0;
    for (int i = 0; i < LINES_MAX && bytes.left > 0; i++) {
        fuzz_bytes text = fuzz_take_until(&bytes, '\n');
        if (text.left == 0) { /* an empty line: on to the next set */
            at = (at + 1) % 3;
            continue;
        }
        line it = parse_line(text);
        /* To guess what a misspelt key was meant to be takes longer than all the rest. */
        if (is_known(it.key) || guesses-- > 0)
            set(confs[at], &it);
        touched |= 1 << at;
        free(it.key);
        free(it.value);
    }
    for (int i = 0; i < 3; i++)
        if (touched & 1 << i)
            check_again(confs[i]->settings);
    if (touched % 2 && at == 2 &&
        size % 128 == 0) /* it takes far longer than all the rest */
        check_dump(confs[0]);
    check_merged(confs[1]->settings, confs[0]->settings, confs[2]->settings);
    for (int i = 0; i < 3; i++)
        dlock_conf_free(confs[i]);
    return 0;
}
