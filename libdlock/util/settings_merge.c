/* From the URI's and the callers' settings to those a client or a lock goes by. */
#include "util/settings.h"

#include "util/error.h"
#include "util/settings_values.h"

/* The three ways to give one secret exclude each other. */
static const dlk_key_id secrets[] = {DLK_KEY_AUTH_PASSWORD,
                                     DLK_KEY_AUTH_SENTINEL_PASSWORD};
#define SECRETS     (sizeof(secrets) / sizeof(secrets[0]))
#define SECRET_WAYS 3 /* value, _file, _env: in this order in dlk_key_id */

static int ways_given(const dlk_settings *settings, dlk_key_id secret)
{
    int given = 0;
    for (int way = 0; way < SECRET_WAYS; way++)
        given += dlk_settings_is_set(settings, (dlk_key_id)((int)secret + way));
    return given;
}

static dlock_err check_secrets(const dlk_settings *settings, dlock_error **err)
{
    for (size_t i = 0; i < SECRETS; i++) {
        if (ways_given(settings, secrets[i]) > 1) {
            const char *name = dlk_settings_spec(secrets[i])->name;
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "give at most one of %s, %s_file and %s_env", name, name,
                                 name);
        }
    }
    return DLOCK_OK;
}

static dlock_err check_pair(const dlk_settings *settings, dlk_key_id small,
                            dlk_key_id large, dlock_error **err)
{
    int64_t a = dlk_settings_int(settings, small), b = dlk_settings_int(settings, large);
    if (a <= b)
        return DLOCK_OK;
    return dlk_error_set(err, DLOCK_EINVAL, "%s (%lld) must not be more than %s (%lld)",
                         dlk_settings_spec(small)->name, (long long)a,
                         dlk_settings_spec(large)->name, (long long)b);
}

/* What can only be judged of the whole. A 0 in the larger one means "none" or "unknown". */
static dlock_err check(const dlk_settings *settings, dlock_error **err)
{
    dlock_err code = check_pair(settings, DLK_KEY_CLIENT_BACKOFF_MIN_MS,
                                DLK_KEY_CLIENT_BACKOFF_MAX_MS, err);
    if (!code && dlk_settings_int(settings, DLK_KEY_LOCK_MAX_HOLD_MS))
        code = check_pair(settings, DLK_KEY_LOCK_TTL_MS, DLK_KEY_LOCK_MAX_HOLD_MS, err);
    if (!code && dlk_settings_int(settings, DLK_KEY_LOCK_PERMITS))
        code = check_pair(settings, DLK_KEY_LOCK_TAKE, DLK_KEY_LOCK_PERMITS, err);
    return code ? code : check_secrets(settings, err);
}

/* One secret replaces another in whatever way each is given. */
static void drop_replaced_secrets(dlk_settings *settings, const dlk_settings *over)
{
    for (size_t i = 0; i < SECRETS; i++)
        for (int way = 0; ways_given(over, secrets[i]) && way < SECRET_WAYS; way++)
            dlk_value_unset(&settings->values[(int)secrets[i] + way]);
}

static dlock_err overlay(dlk_settings *settings, const dlk_settings *over,
                         dlock_error **err)
{
    if (!over)
        return DLOCK_OK;
    drop_replaced_secrets(settings, over);
    for (int id = 0; id < DLK_KEY_COUNT; id++)
        if (over->values[id].set &&
            !dlk_value_copy(&settings->values[id], &over->values[id]))
            return dlk_error_nomem(err);
    return DLOCK_OK;
}

static bool stricter(dlk_key_rise rise, int64_t a, int64_t b)
{
    return rise == DLK_RISE_UP ? a > b : a < b;
}

/* Puts the URI's word back where it is stricter than the conf's, which went over it. */
static dlock_err raise_by_uri(dlk_settings *settings, const dlk_settings *uri,
                              const dlk_settings *conf, dlock_error **err)
{
    for (int i = 0; i < DLK_KEY_COUNT; i++) {
        dlk_key_id id = (dlk_key_id)i;
        const dlk_key_spec *spec = dlk_settings_spec(id);
        if (spec->rise == DLK_RISE_NONE || !dlk_settings_is_set(uri, id))
            continue;
        int64_t asked = dlk_settings_int(uri, id), own = dlk_settings_int(conf, id);
        if (stricter(spec->rise, own, asked))
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "the URI may only raise %s, not lower it from %s to %s: "
                                 "set it in the conf",
                                 spec->name, spec->words[own], spec->words[asked]);
        settings->values[id] = uri->values[id]; /* an enum: no text to copy */
    }
    return DLOCK_OK;
}

/* Hands over what was put together, where @p code is OK and nothing in it contradicts. */
static dlock_err give(dlk_settings *settings, dlock_err code, dlk_settings **ret,
                      dlock_error **err)
{
    if (!code)
        code = check(settings, err);
    if (code) {
        dlk_settings_free(settings);
        return code;
    }
    *ret = settings;
    return dlk_error_clear(err);
}

dlock_err dlk_settings_for_client(const dlk_settings *uri, const dlk_settings *conf,
                                  dlk_settings **ret, dlock_error **err)
{
    dlk_settings *settings = dlk_settings_new();
    if (!settings)
        return dlk_error_nomem(err);
    dlock_err code = check_secrets(uri, err);
    if (!code)
        code = check_secrets(conf, err);
    if (!code)
        code = overlay(settings, uri, err);
    if (!code)
        code = overlay(settings, conf, err);
    if (!code)
        code = raise_by_uri(settings, uri, conf, err);
    return give(settings, code, ret, err);
}

static dlock_err refuse_client_keys(const dlk_settings *conf, dlock_error **err)
{
    for (int id = 0; id < DLK_KEY_COUNT; id++) {
        const dlk_key_spec *spec = dlk_settings_spec((dlk_key_id)id);
        if (spec->scope == DLK_SCOPE_CLIENT && dlk_settings_is_set(conf, (dlk_key_id)id))
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "%s is a setting of the client: give it to "
                                 "dlock_client_open, not to a lock",
                                 spec->name);
    }
    return DLOCK_OK;
}

dlock_err dlk_settings_for_lock(const dlk_settings *client, const dlk_settings *conf,
                                dlk_settings **ret, dlock_error **err)
{
    dlock_err code = refuse_client_keys(conf, err);
    if (code)
        return code;
    dlk_settings *settings = dlk_settings_copy(client);
    if (!settings)
        return dlk_error_nomem(err);
    code = overlay(settings, conf, err);
    return give(settings, code, ret, err);
}
