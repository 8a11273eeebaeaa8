/* See the header. */
#include "harness/api.h"

#include "harness/harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dlock_client *api_open(const char *format, ...)
{
    char uri[512];
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_client *client = NULL;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(uri, sizeof(uri), format, args);
    va_end(args);
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    (void)harness_err(__FILE__, __LINE__, uri, code, DLOCK_OK, err);
    return client;
}

dlock_conf *api_conf(const char *settings)
{
    char text[512], *rest = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_conf *conf = dlock_conf_new();
    (void)snprintf(text, sizeof(text), "%s", settings ? settings : "");
    for (char *key = strtok_r(text, " ", &rest); key; key = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(key, '=');
        if (!harness_check(__FILE__, __LINE__, value != NULL, "key=value"))
            break;
        *value++ = '\0';
        dlock_err code = dlock_conf_set(conf, key, value, &err);
        if (!harness_err(__FILE__, __LINE__, key, code, DLOCK_OK, err))
            break;
    }
    return conf;
}

dlock_lock *api_lock(dlock_client *client, dlock_kind kind, const char *name,
                     const char *settings)
{
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_lock *lock = NULL;
    dlock_err code = dlock_lock_new(client, kind, name, conf, &lock, &err);
    (void)harness_err(__FILE__, __LINE__, name, code, DLOCK_OK, err);
    return lock;
}

int64_t api_signal(dlock_cond *cond, int64_t count)
{
    int64_t signalled = -1;
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err code = dlock_cond_signal(cond, count, NULL, &signalled, &err);
    (void)harness_err(__FILE__, __LINE__, "dlock_cond_signal", code, DLOCK_OK, err);
    return signalled;
}

bool api_ends(dlock_op *op, int64_t within_ms, dlock_err code)
{
    return dlock_op_wait(op, within_ms) == DLOCK_OK && dlock_op_result(op) == code;
}

const char *api_seen(dlock_lock *lock, const char *key)
{
    static _Thread_local char text[1100];
    DLOCK_AUTO(dlock_info) info = NULL;
    text[0] = '\0';
    if (dlock_lock_inspect(lock, &info, NULL) == DLOCK_OK && dlock_info_get(info, key))
        (void)snprintf(text, sizeof(text), "%s", dlock_info_get(info, key));
    return text;
}

int64_t api_stat(dlock_client *client, const char *key)
{
    DLOCK_AUTO(dlock_info) stats = NULL;
    const char *text = NULL;
    if (dlock_client_stats(client, &stats, NULL) == DLOCK_OK)
        text = dlock_info_get(stats, key);
    return text ? strtoll(text, NULL, 10) : -1;
}

bool api_has(dlock_client *client, const char *feature)
{
    DLOCK_AUTO(dlock_info) features = NULL;
    if (dlock_client_features(client, &features, NULL) != DLOCK_OK)
        return false;
    const char *said = dlock_info_get(features, feature);
    return said && strcmp(said, "1") == 0;
}
