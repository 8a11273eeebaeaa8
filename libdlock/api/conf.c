/* dlock_conf: a set of values, a log sink, and the table shown as an info. And what clients and locks
 * go by, shown so. */
#include "api/conf.h"

#include "api/handles.h"
#include "util/error.h"
#include "util/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RANGE_TEXT 128

dlock_conf *dlock_conf_new(void)
{
    dlock_conf *conf = calloc(1, sizeof(*conf));
    if (!conf)
        return NULL;
    conf->settings = dlk_settings_new();
    if (!conf->settings) {
        free(conf);
        return NULL;
    }
    return conf;
}

/* A NULL conf is refused, so that a failed dlock_conf_new can't silently drop a setting. */
static dlock_err check_arguments(const dlock_conf *conf, const char *key,
                                 dlock_error **err)
{
    if (!conf)
        return dlk_error_set(err, DLOCK_EINVAL, "conf is NULL: did dlock_conf_new fail?");
    if (!key)
        return dlk_error_set(err, DLOCK_EINVAL, "key is NULL");
    return DLOCK_OK;
}

dlock_err dlock_conf_set(dlock_conf *conf, const char *key, const char *value,
                         dlock_error **err)
{
    dlock_err code = check_arguments(conf, key, err);
    return code ? code : dlk_settings_set(conf->settings, key, value, err);
}

dlock_err dlock_conf_set_int(dlock_conf *conf, const char *key, int64_t value,
                             dlock_error **err)
{
    dlock_err code = check_arguments(conf, key, err);
    return code ? code : dlk_settings_set_int(conf->settings, key, value, err);
}

dlock_err dlock_conf_set_log(dlock_conf *conf, dlock_log_fn *fn, void *user)
{
    if (!conf)
        return DLOCK_EINVAL;
    conf->log = fn;
    conf->log_user = user;
    return DLOCK_OK;
}

/* One value, or with NULL settings the default, in the form in which it could be set. Behind the key
 * stands @p what: ".default", ".value", or nothing. */
static void add_value(dlock_info *info, const dlk_settings *settings, dlk_key_id id,
                      const char *what)
{
    const dlk_key_spec *spec = dlk_settings_spec(id);
    int64_t number = dlk_settings_int(settings, id);
    char octal[24];
    switch (spec->type) {
    case DLK_TYPE_INT:
        dlk_info_add_int(info, number, "%s%s", spec->name, what);
        return;
    case DLK_TYPE_BOOL:
        dlk_info_add_text(info, number ? "true" : "false", "%s%s", spec->name, what);
        return;
    case DLK_TYPE_ENUM:
        dlk_info_add_text(info, dlk_settings_word(settings, id), "%s%s", spec->name,
                          what);
        return;
    case DLK_TYPE_OCTAL:
        snprintf(octal, sizeof(octal), "%#" PRIo64, number);
        dlk_info_add_text(info, octal, "%s%s", spec->name, what);
        return;
    case DLK_TYPE_SECRET:
        dlk_info_add_text(info, dlk_settings_is_set(settings, id) ? "***" : "", "%s%s",
                          spec->name, what);
        return;
    case DLK_TYPE_TEXT:
    case DLK_TYPE_PATH:
        dlk_info_add_text(info, dlk_settings_text(settings, id), "%s%s", spec->name,
                          what);
        return;
    }
}

static void add_key(dlock_info *info, const dlk_settings *settings, dlk_key_id id)
{
    const dlk_key_spec *spec = dlk_settings_spec(id);
    char range[RANGE_TEXT];
    dlk_settings_range(spec, range, sizeof(range));
    dlk_info_add_text(info, dlk_settings_type_name(spec->type), "%s.type", spec->name);
    if (spec->default_shown)
        dlk_info_add_text(info, spec->default_shown, "%s.default", spec->name);
    else
        add_value(info, NULL, id, ".default");
    dlk_info_add_text(info, range, "%s.range", spec->name);
    dlk_info_add_text(info, spec->scope == DLK_SCOPE_LOCK ? "lock" : "client", "%s.scope",
                      spec->name);
    dlk_info_add_text(info, spec->backends, "%s.backends", spec->name);
    dlk_info_add_text(info, spec->doc, "%s.doc", spec->name);
    dlk_info_add_text(info, spec->since, "%s.since", spec->name);
    if (dlk_settings_is_set(settings, id))
        add_value(info, settings, id, ".value");
}

dlock_err dlock_conf_dump(const dlock_conf *conf, dlock_info **ret_info,
                          dlock_error **err)
{
    if (!ret_info)
        return dlk_error_set(err, DLOCK_EINVAL, "ret_info is NULL");
    dlock_info *info = dlk_info_new();
    for (int id = 0; id < DLK_KEY_COUNT; id++)
        add_key(info, conf ? conf->settings : NULL, (dlk_key_id)id);
    return dlk_info_give(info, ret_info, err);
}

/* ---- of clients and locks ---- */

dlock_err dlock_client_settings(const dlock_client *client, dlock_info **ret_info,
                                dlock_error **err)
{
    if (!client || !ret_info)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "dlock_client_settings needs a client and a place for the info");
    if (dlk_engine_forked(client->engine))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the client belongs to the parent process");
    dlock_info *info = dlk_info_new();
    for (int id = 0; id < DLK_KEY_COUNT; id++) {
        if (id == DLK_KEY_CLIENT_NAME) /* its default isn't in the table */
            dlk_info_add_text(info, client->engine->name, "client.name");
        else
            add_value(info, client->engine->settings, (dlk_key_id)id, "");
    }
    return dlk_info_give(info, ret_info, err);
}

dlock_err dlock_lock_settings(const dlock_lock *lock, dlock_info **ret_info,
                              dlock_error **err)
{
    if (!lock || !ret_info)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_lock_settings needs a lock and a place for the info");
    if (dlk_engine_forked(lock->engine))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the client belongs to the parent process");
    if (lock->group)
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "a multi-lock has no settings of its own: ask its members");
    dlock_info *info = dlk_info_new();
    for (int id = 0; id < DLK_KEY_COUNT; id++) {
        const dlk_key_spec *spec = dlk_settings_spec((dlk_key_id)id);
        if (id == DLK_KEY_LOCK_OWNER) /* the kind may have decided it */
            dlk_info_add_text(info, spec->words[lock->owner], "%s", spec->name);
        else if (spec->scope == DLK_SCOPE_LOCK)
            add_value(info, lock->settings, (dlk_key_id)id, "");
    }
    return dlk_info_give(info, ret_info, err);
}

/* ---- its end ---- */

void dlock_conf_free(dlock_conf *conf)
{
    if (!conf)
        return;
    dlk_settings_free(conf->settings);
    free(conf);
}
