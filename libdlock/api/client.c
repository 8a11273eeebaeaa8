/* Clients: opening, closing, and what can be asked of one. */
#include "api/conf.h"
#include "api/handles.h"
#include "backends/registry.h"
#include "util/clock.h"
#include "util/kind.h"

#include <stdlib.h>
#include <string.h>

const char *dlock_backends(void)
{
    return dlk_registry_schemes();
}

/* ---- opening ---- */

static dlock_err check_class(const dlk_backend_type *type, const dlk_settings *settings,
                             const dlk_uri *uri, dlock_error **err)
{
    int64_t wanted = dlk_settings_int(settings, DLK_KEY_CLIENT_REQUIRE);
    dlk_traits traits = dlk_backend_traits(type, settings);
    if (wanted <= traits.class)
        return DLOCK_OK;
    static const char *const classes[] = {"efficiency", "fencing", "correctness"};
    return dlk_error_set(err, DLOCK_ENOTSUP, "%s can promise %s, not client.require=%s",
                         uri->scheme, classes[traits.class],
                         dlk_settings_word(settings, DLK_KEY_CLIENT_REQUIRE));
}

static dlock_err check_deadlock(const dlk_backend_type *type,
                                const dlk_settings *settings, const dlk_uri *uri,
                                dlock_error **err)
{
    if (dlk_settings_int(settings, DLK_KEY_CLIENT_DEADLOCK) == DLK_CLIENT_DEADLOCK_OFF ||
        dlk_backend_traits(type, settings).tells)
        return DLOCK_OK;
    return dlk_error_set(err, DLOCK_ENOTSUP,
                         "client.deadlock: clients of %s don't tell what they hold and "
                         "wait for; those of one Redis do, also behind sentinels, unless "
                         "redis.client_key=false, by redis.layout=redisson and string",
                         uri->scheme);
}

static dlock_err no_backend(const char *scheme, dlock_error **err)
{
    const char *why = dlk_registry_why(scheme);
    return why ? dlk_error_set(err, DLOCK_ENOTSUP, "%s: %s", scheme, why)
               : dlk_error_set(err, DLOCK_ENOTSUP,
                               "no backend for %s: in this build, which has: %s", scheme,
                               dlk_registry_schemes());
}

static dlock_err open_parsed(const dlk_uri *uri, const dlock_conf *conf,
                             dlock_client *client, dlk_settings *from_uri,
                             dlock_error **err)
{
    dlk_settings *settings = NULL;
    client->type = dlk_registry_find(uri->scheme);
    if (!client->type)
        return no_backend(uri->scheme, err);
    dlock_err code = dlk_uri_apply(uri, from_uri, err);
    if (code == DLOCK_OK)
        code = dlk_settings_for_client(from_uri, conf ? conf->settings : NULL, &settings,
                                       err);
    if (code == DLOCK_OK)
        code = check_class(client->type, settings, uri, err);
    if (code == DLOCK_OK)
        code = check_deadlock(client->type, settings, uri, err);
    if (code == DLOCK_OK)
        code = dlk_engine_open(client->type, uri, settings, conf ? conf->log : NULL,
                               conf ? conf->log_user : NULL, &client->engine, err);
    if (code != DLOCK_OK)
        dlk_settings_free(settings);
    return code;
}

static dlock_err open_client(const char *text, const dlock_conf *conf,
                             dlock_client *client, dlock_error **err)
{
    dlk_uri *uri = NULL;
    dlk_settings *from_uri = NULL;
    dlock_err code = dlk_uri_parse(text, &uri, err);
    if (code == DLOCK_OK && !(from_uri = dlk_settings_new()))
        code = dlk_error_nomem(err);
    if (code == DLOCK_OK)
        code = open_parsed(uri, conf, client, from_uri, err);
    dlk_settings_free(from_uri);
    dlk_uri_free(uri);
    return code;
}

dlock_err dlock_client_new(const char *uri, const dlock_conf *conf,
                           dlock_client **ret_client, dlock_error **err)
{
    if (!uri || !ret_client)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "a client needs a URI and a place for it to be put");
    dlock_client *client = calloc(1, sizeof(*client));
    if (!client)
        return dlk_error_nomem(err);
    dlock_err code = open_client(uri, conf, client, err);
    if (code != DLOCK_OK) {
        free(client);
        return code;
    }
    *ret_client = client;
    return dlk_error_clear(err);
}

dlock_err dlock_client_open(const char *uri, const dlock_conf *conf,
                            dlock_client **ret_client, dlock_error **err)
{
    dlock_client *client = NULL;
    dlock_err code = dlock_client_new(uri, conf, ret_client ? &client : NULL, err);
    if (code != DLOCK_OK)
        return code;
    if (!dlk_settings_int(client->engine->settings, DLK_KEY_CLIENT_LAZY))
        code = dlock_client_connect(client, err);
    if (code != DLOCK_OK) {
        dlock_client_free(client);
        return code;
    }
    *ret_client = client;
    return dlk_error_clear(err);
}

dlock_op *dlock_client_connect_start(dlock_client *client)
{
    dlk_stay stay;
    dlock_op *failed;
    if (!client)
        return dlk_op_static(DLOCK_EINVAL);
    dlk_engine *engine = client->engine;
    dlock_op *op = dlk_query_op(engine, DLK_VERIFY, &stay, &failed);
    if (!op)
        return failed;
    op->u.query.kind = DLK_QUERY_CONNECT;
    return dlk_query_go(
        engine, op, dlk_settings_int(engine->settings, DLK_KEY_CLIENT_CONNECT_MS), &stay);
}

dlock_err dlock_client_connect(dlock_client *client, dlock_error **err)
{
    return dlk_op_await(dlock_client_connect_start(client), NULL, NULL, err);
}

/* ---- closing ---- */

dlock_op *dlock_client_close_start(dlock_client *client)
{
    dlk_stay stay;
    if (!client)
        return dlk_op_static(DLOCK_EINVAL);
    dlk_engine *engine = client->engine;
    if (!dlk_engine_enter(engine, &stay))
        return dlk_op_static(DLOCK_EFORKED);
    dlock_op *op = dlk_op_new(engine, DLK_OP_CLOSE);
    if (op && engine->life != DLK_LIFE_CLOSED) {
        dlk_list_append(&engine->closers, &op->link);
        dlk_engine_begin_close(engine, dlk_clock_now());
    } else if (op) {
        dlock_err code = engine->close_code;
        dlk_op_finish(
            engine, op, code,
            code == DLOCK_OK
                ? NULL
                : dlk_error_make(code, "closed, but not every release was confirmed"));
        dlk_op_retire(engine, op);
    } else {
        dlk_engine_begin_close(engine,
                               dlk_clock_now()); /* without memory nobody is told */
    }
    dlk_engine_leave(engine, &stay);
    return op ? op : dlk_op_static(DLOCK_ENOMEM);
}

dlock_err dlock_client_close(dlock_client *client, dlock_error **err)
{
    return dlk_op_await(dlock_client_close_start(client), NULL, NULL, err);
}

void dlock_client_free(dlock_client *client)
{
    if (!client || dlk_engine_forked(client->engine))
        return;                             /* a fork's child leaks it on purpose */
    (void)dlock_client_close(client, NULL); /* who wants to know calls close first */
    dlk_engine_join(client->engine);
    dlk_engine_unref(client->engine);
    free(client);
}

/* ---- asking ---- */

const char *dlock_client_uri(const dlock_client *client)
{
    return client ? client->engine->uri : "";
}

dlock_err dlock_client_stats(const dlock_client *client, dlock_info **ret_info,
                             dlock_error **err)
{
    dlk_stay stay;
    if (!client || !ret_info)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "dlock_client_stats needs a client and a place for the info");
    if (!dlk_engine_enter(client->engine, &stay))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the client belongs to the parent process");
    dlock_info *info = dlk_engine_stats(client->engine);
    dlk_engine_leave(client->engine, &stay);
    return dlk_info_give(info, ret_info, err);
}

static dlock_err metrics_of_all(char **ret_text)
{
    size_t count = 0;
    dlk_engine **all = dlk_engines_all(&count);
    if (!all)
        return DLOCK_ENOMEM;
    dlock_err code = dlk_metrics_text(all, count, ret_text);
    for (size_t i = 0; i < count; i++)
        dlk_engine_unref(all[i]);
    free(all);
    return code;
}

dlock_err dlock_client_metrics(const dlock_client *client_or_all, char **ret_text,
                               dlock_error **err)
{
    if (!ret_text)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_client_metrics needs a place for the text");
    if (client_or_all && dlk_engine_forked(client_or_all->engine))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the client belongs to the parent process");
    dlock_err code = client_or_all ? dlk_metrics_text(&client_or_all->engine, 1, ret_text)
                                   : metrics_of_all(ret_text);
    return code == DLOCK_OK ? dlk_error_clear(err) : dlk_error_nomem(err);
}

void dlock_text_free(char *text)
{
    free(text);
}

static bool has_kind(const dlock_client *client, dlock_kind kind)
{
    const dlk_backend_type *type = client->type;
    return type->traits.kinds[kind] &&
           (!type->has_kind || type->has_kind(client->engine->settings, kind));
}

static void add_kinds(dlock_info *info, const dlock_client *client)
{
    for (int i = DLOCK_MUTEX; i < DLK_KIND_COUNT; i++)
        dlk_info_add_int(info, has_kind(client, (dlock_kind)i), "kinds.%s",
                         dlk_kind_of(i)->name);
}

dlock_err dlock_client_features(const dlock_client *client, dlock_info **ret_info,
                                dlock_error **err)
{
    if (!client || !ret_info)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "dlock_client_features needs a client and a place for the info");
    if (dlk_engine_forked(client->engine))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the client belongs to the parent process");
    static const char *const classes[] = {"efficiency", "fencing", "correctness"};
    const dlk_traits adapted = dlk_backend_traits(client->type, client->engine->settings);
    const dlk_traits *traits = &adapted;
    dlock_info *info = dlk_info_new();
    dlk_info_add_text(info, client->type->schemes[0], "backend");
    dlk_info_add_text(
        info,
        traits->layout ? traits->layout
                       : dlk_settings_word(client->engine->settings, traits->layout_key),
        "layout");
    dlk_info_add_text(info, classes[traits->class], "class");
    dlk_info_add_int(info, traits->tokens, "tokens");
    dlk_info_add_int(info,
                     traits->fair ||
                         (traits->fair_asked &&
                          dlk_settings_int(client->engine->settings, DLK_KEY_LOCK_FAIR)),
                     "fair");
    dlk_info_add_int(info, traits->queues, "queues");
    dlk_info_add_int(info, traits->hands_on, "handoff");
    dlk_info_add_int(info, client->type->listen && !traits->deaf, "revoke");
    dlk_info_add_int(info, !traits->session, "extend");
    dlk_info_add_int(info, traits->keeps, "keep");
    dlk_info_add_int(info, traits->keeps && !traits->no_keep_tokens, "keep_tokens");
    add_kinds(info, client);
    return dlk_info_give(info, ret_info, err);
}

dlock_op *dlock_client_list_start(dlock_client *client, const char *prefix, int64_t max)
{
    if (!client)
        return dlk_op_static(DLOCK_EINVAL);
    if (max < 1)
        return dlk_op_answered(client->engine, DLOCK_EINVAL,
                               "a list of at most 0 names, or fewer");
    dlk_engine *engine = client->engine;
    dlk_stay stay;
    dlock_op *failed, *op = dlk_query_op(engine, DLK_LIST, &stay, &failed);
    if (!op)
        return failed;
    const char *ours = dlk_settings_text(engine->settings, DLK_KEY_CLIENT_PREFIX);
    prefix = prefix ? prefix : "";
    size_t size = strlen(ours), more = strlen(prefix);
    op->text = malloc(size + more + 1);
    if (!op->text) {
        dlk_query_cancel(&engine->core, &op->u.query, DLOCK_ENOMEM, 0);
    } else {
        memcpy(op->text, ours, size);
        memcpy(op->text + size, prefix, more + 1);
    }
    op->u.query.ask.text = op->text;
    op->u.query.ask.limit = max;
    return dlk_query_go(engine, op, engine->core.limits.timeout_ms, &stay);
}

dlock_err dlock_client_list(dlock_client *client, const char *prefix, int64_t max,
                            dlock_info **ret_info, dlock_error **err)
{
    if (!ret_info)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_client_list needs a place for the info");
    return dlk_op_await(dlock_client_list_start(client, prefix, max), NULL, ret_info,
                        err);
}

dlock_op *dlock_client_doctor_start(dlock_client *client)
{
    if (!client)
        return dlk_op_static(DLOCK_EINVAL);
    dlk_stay stay;
    dlock_op *failed, *op = dlk_query_op(client->engine, DLK_DOCTOR, &stay, &failed);
    if (!op)
        return failed;
    return dlk_query_go(client->engine, op, client->engine->core.limits.timeout_ms,
                        &stay);
}

dlock_err dlock_client_doctor(dlock_client *client, dlock_info **ret_info,
                              dlock_error **err)
{
    if (!ret_info)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_client_doctor needs a place for the info");
    return dlk_op_await(dlock_client_doctor_start(client), NULL, ret_info, err);
}

/* ---- events ---- */

int dlock_client_event_fd(dlock_client *client)
{
    dlk_stay stay;
    if (!client || !dlk_engine_enter(client->engine, &stay))
        return -1;
    int fd = dlk_event_fd(client->engine);
    dlk_engine_leave(client->engine, &stay);
    return fd;
}

int dlock_client_poll_fd(dlock_client *client)
{
    dlk_stay stay;
    if (!client || !dlk_engine_enter(client->engine, &stay))
        return -1;
    int fd = dlk_engine_poll_fd(client->engine);
    dlk_engine_leave(client->engine, &stay);
    return fd;
}

dlock_err dlock_client_drive(dlock_client *client)
{
    dlk_stay stay;
    if (!client)
        return DLOCK_EINVAL;
    if (!dlk_engine_enter(client->engine, &stay))
        return DLOCK_EFORKED;
    dlock_err code = dlk_engine_visit(client->engine);
    dlk_engine_leave(client->engine, &stay);
    return code;
}

dlock_event *dlock_client_next_event(dlock_client *client)
{
    dlk_stay stay;
    if (!client || !dlk_engine_enter(client->engine, &stay))
        return NULL;
    dlock_event *event = dlk_event_next(client->engine);
    dlk_engine_leave(client->engine, &stay);
    return event;
}
