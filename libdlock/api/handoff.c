/* Handing a grant on: export makes a ticket of it, import takes it over. */
#include "api/conf.h"
#include "api/handles.h"
#include "api/ticket.h"
#include "util/clock.h"
#include "util/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- export ---- */

static const char *layout_of(const dlk_engine *engine, const dlk_key *key)
{
    const dlk_traits *traits = &engine->backend->type->traits;
    return traits->layout ? traits->layout
                          : dlk_settings_word(key->settings, traits->layout_key);
}

/* What was asked for, not what is left: the lease of whoever imports it. */
static void fill(dlk_ticket *ticket, const dlk_engine *engine, const dlk_grant *grant,
                 const char *owner)
{
    const dlk_key *key = &grant->name->key;
    *ticket = (dlk_ticket){.kind = key->kind, .ttl_ms = grant->terms.ttl_ms};
    snprintf(ticket->layout, sizeof(ticket->layout), "%s", layout_of(engine, key));
    snprintf(ticket->owner, sizeof(ticket->owner), "%s", owner);
    snprintf(ticket->name, sizeof(ticket->name), "%s", key->name);
}

static dlock_err tell(dlock_err code, dlock_error **err)
{
    switch ((int)code) {
    case DLOCK_OK:
        return dlk_error_clear(err);
    case DLOCK_EBUSY:
        return dlk_error_set(err, code, "the grant has other holds: release them first");
    case DLOCK_ELOST:
        return dlk_error_set(err, code, "it was lost");
    case DLOCK_ENOTSUP:
        return dlk_error_set(err, code,
                             "locks of this kind and layout can't be handed on");
    default:
        return dlk_error_set(err, code, "this hold was released");
    }
}

dlock_err dlock_hold_export(dlock_hold *hold, const char **ret_ticket, dlock_error **err)
{
    dlk_stay stay;
    if (!hold || !ret_ticket)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_hold_export needs a hold and a place for the ticket");
    if (dlk_hold_is_group(hold))
        return dlk_error_set(err, DLOCK_ENOTSUP, "a multi-lock can't be handed on");
    if (dlk_engine_forked(hold->engine))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the hold belongs to the parent process");
    const char *owner = dlk_engine_owner(hold);
    char *text = malloc(DLK_TICKET_MAX);
    dlk_ticket *ticket = malloc(sizeof(*ticket));
    dlk_engine *engine = hold->engine;
    dlock_err code = owner[0] && text && ticket ? DLOCK_OK : dlk_error_nomem(err);
    if (code == DLOCK_OK && dlk_engine_enter(engine, &stay)) {
        int64_t now = dlk_clock_now();
        fill(ticket, engine, hold->hold.grant, owner);
        dlk_ticket_write(ticket, text);
        code = tell(dlk_export(&engine->core, &hold->hold, now), err);
        if (code == DLOCK_OK) {
            hold->more->ticket = text;
            *ret_ticket = text;
            text = NULL;
        }
        dlk_engine_digest(engine, now);
        dlk_engine_send(engine);
        dlk_engine_leave(engine, &stay);
    }
    free(ticket);
    free(text);
    return code;
}

/* ---- import ---- */

/* The handle that the ticket's lock has here. */
static dlock_err find_lock(dlk_engine *engine, const dlk_ticket *ticket, dlock_lock *lock,
                           dlock_error **err)
{
    const dlk_traits *traits = &engine->backend->type->traits;
    const char *prefix = dlk_settings_text(engine->settings, DLK_KEY_CLIENT_PREFIX);
    if (strncmp(ticket->name, prefix, engine->prefix_size) != 0 ||
        !ticket->name[engine->prefix_size])
        return dlk_error_set(err, DLOCK_EINVAL,
                             "the ticket is for '%s', which client.prefix '%s' excludes",
                             ticket->name, prefix);
    if (traits->layout && strcmp(traits->layout, ticket->layout) != 0)
        return dlk_error_set(err, DLOCK_EINVAL, "the ticket is for a lock of layout '%s'",
                             ticket->layout);
    dlock_conf *conf = dlock_conf_new();
    dlock_err code = conf ? DLOCK_OK : dlk_error_nomem(err);
    if (code == DLOCK_OK && !traits->session) /* whose lease is its client's */
        code = dlock_conf_set_int(conf, "lock.ttl_ms", ticket->ttl_ms, err);
    if (code == DLOCK_OK && !traits->layout)
        code = dlock_conf_set(conf, dlk_settings_spec(traits->layout_key)->name,
                              ticket->layout, err);
    if (code == DLOCK_OK)
        code = dlk_lock_make(engine, ticket->kind, ticket->name + engine->prefix_size,
                             conf, lock, err);
    dlock_conf_free(conf);
    return code;
}

static dlock_op *start(dlk_engine *engine, const dlock_lock *lock, const char *giver)
{
    dlk_stay stay;
    if (!dlk_engine_enter(engine, &stay))
        return dlk_op_static(DLOCK_EFORKED);
    int64_t now = dlk_clock_now();
    dlock_op *op = dlk_op_waiting(engine, now);
    if (!op->over) {
        dlk_wait *wait = &op->u.waiter.wait;
        *wait = (dlk_wait){.name = lock->name,
                           .terms = lock->terms,
                           .owner = dlk_core_new_owner(&engine->core)};
        dlk_import_start(&engine->core, wait, giver,
                         dlk_clock_after(now, engine->core.limits.timeout_ms), now);
        dlk_engine_digest(engine, now);
        dlk_engine_send(engine);
    }
    dlk_lock_unref(lock);
    dlk_engine_leave(engine, &stay);
    return op;
}

dlock_op *dlock_client_import_start(dlock_client *client, const char *ticket)
{
    if (!client || !ticket)
        return dlk_op_static(DLOCK_EINVAL);
    if (dlk_engine_forked(client->engine))
        return dlk_op_static(DLOCK_EFORKED);
    dlk_ticket *read = calloc(1, sizeof(*read));
    dlock_lock lock = {0};
    dlock_error *error = NULL;
    dlock_err code =
        read ? dlk_ticket_read(ticket, read, &error) : dlk_error_nomem(&error);
    if (code == DLOCK_OK)
        code = find_lock(client->engine, read, &lock, &error);
    dlock_op *op = code == DLOCK_OK ? start(client->engine, &lock, read->owner)
                                    : dlk_op_answered(client->engine, code,
                                                      error ? error->text : "no memory");
    dlk_error_clear(&error);
    free(read);
    return op;
}

dlock_err dlock_client_import(dlock_client *client, const char *ticket,
                              dlock_hold **ret_hold, dlock_error **err)
{
    if (!ret_hold)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "dlock_client_import needs a place for the hold");
    return dlk_op_await(dlock_client_import_start(client, ticket), ret_hold, NULL, err);
}
