/* Between the decisions and the backend: hands requests down and news up, and keeps the memory of
 * names, grants and holds. Everything here runs with the engine's mutex held. */
#include "engine/engine.h"

#include "util/clock.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ask(void *world, dlk_ask *one, int64_t now)
{
    dlk_engine *engine = world;
    engine->backend->type->ask(engine->backend, one, now);
    if (one->reply != DLK_PENDING)
        return;
    engine->unsent = true;
    if (one->deadline < engine->backend_next)
        engine->backend_next = one->deadline;
    if (++engine->in_flight >= DLK_TAKEOVER && engine->thread_runs)
        engine->takeover = true;
}

static void watch(void *world, dlk_key *key, bool on, int64_t now)
{
    dlk_engine *engine = world;
    engine->backend->type->watch(engine->backend, key, on, now);
    engine->unsent = true;
}

static void wait_over(void *world, dlk_wait *wait)
{
    dlk_engine *engine = world;
    dlk_waiter *waiter = DLK_LIST_ITEM(wait, dlk_waiter, wait);
    if (!waiter->op) {
        if (waiter->sleeper)
            dlk_engine_wake(engine, waiter->sleeper);
        return;
    }
    dlock_op *op = waiter->op;
    dlock_error *error = wait->error;
    wait->error = NULL;
    if (wait->hold) {
        op->hold = DLK_LIST_ITEM(wait->hold, dlock_hold, hold);
        dlk_engine_ref(engine);
    }
    dlk_op_finish(engine, op, wait->code, error);
    dlk_op_retire(engine, op);
}

static void query_over(void *world, dlk_query *query)
{
    dlock_op *op = DLK_LIST_ITEM(query, dlock_op, u.query);
    dlock_error *error = query->error;
    query->error = NULL;
    op->info = query->info;
    query->info = NULL;
    dlk_op_finish(world, op, query->code, error);
}

static void free_query(void *world, dlk_query *query)
{
    dlk_op_retire(world, DLK_LIST_ITEM(query, dlock_op, u.query));
}

/* ---- holds ---- */

/* References to the engine are taken when a hold is handed to its caller. */
static void init_hold(dlk_engine *engine, dlock_hold *hold)
{
    hold->engine = engine;
    hold->slot.kind = DLK_SLOT_HOLD;
    dlk_list_init(&hold->slot.link);
    dlk_list_init(&hold->hold.link);
}

static dlk_grant *new_grant(void *world, dlk_hold **ret_hold)
{
    dlk_engine *engine = world;
    dlk_list *spare = dlk_list_take_first(&engine->spare_grants);
    dlk_grant_box *box;
    if (spare) {
        engine->spare_grant_count--;
        box = DLK_LIST_ITEM(spare, dlk_grant_box, grant.link);
        /* What the asks hold is set anew by whoever asks. */
        memset(box, 0, offsetof(dlk_grant_box, grant.take));
        box->hold = (dlock_hold){0};
        box->owner[0] = '\0';
    } else {
        box = calloc(1, sizeof(*box));
    }
    if (!box)
        return NULL;
    init_hold(engine, &box->hold);
    *ret_hold = &box->hold.hold;
    return &box->grant;
}

static dlk_hold *new_hold(void *world)
{
    dlock_hold *hold = calloc(1, sizeof(*hold));
    if (!hold)
        return NULL;
    init_hold(world, hold);
    return &hold->hold;
}

static void free_grant(void *world, dlk_grant *grant)
{
    dlk_engine *engine = world;
    dlk_grant_box *box = DLK_LIST_ITEM(grant, dlk_grant_box, grant);
    if (engine->spare_grant_count >= DLK_SPARE_GRANTS) {
        free(box);
        return;
    }
    engine->spare_grant_count++;
    dlk_list_prepend(&engine->spare_grants, &box->grant.link); /* still in the cache */
}

static void changed(void *world, dlk_grant *grant)
{
    dlk_engine *engine = world;
    dlock_state state = dlk_grant_state(grant);
    DLK_LIST_FOR(it, &grant->holds)
    {
        dlock_hold *hold = DLK_LIST_ITEM(it, dlock_hold, hold.link);
        if (!hold->slot.armed)
            continue;
        if (state == DLOCK_LOST)
            hold->lost_news = true;
        else
            hold->state_news =
                state == DLOCK_HELD ? DLOCK_EVENT_HELD : DLOCK_EVENT_SUSPECT;
        dlk_event_push(engine, &hold->slot);
    }
}

/* ---- names ---- */

static void free_name(void *world, dlk_name *name)
{
    dlk_engine *engine = world;
    dlk_engine_name *own = DLK_LIST_ITEM(name, dlk_engine_name, name);
    dlk_list_remove(&own->news);
    engine->backend->type->key_close(engine->backend, &name->key);
    dlk_settings_free(own->settings);
    free(own);
}

/* What the server sees of a name: handles of one client that use it at a time must agree on it. */
static bool same_on_server(const dlk_settings *a, const dlk_settings *b)
{
    static const dlk_key_id seen[] = {
        DLK_KEY_LOCK_FAIR,          DLK_KEY_LOCK_PERMITS,     DLK_KEY_REDIS_LAYOUT,
        DLK_KEY_REDIS_SEMAPHORE,    DLK_KEY_ZOOKEEPER_LAYOUT, DLK_KEY_ZOOKEEPER_NODE,
        DLK_KEY_ZOOKEEPER_ELECTION,
    };
    for (size_t i = 0; i < sizeof(seen) / sizeof(*seen); i++) {
        bool text = dlk_settings_spec(seen[i])->type == DLK_TYPE_TEXT;
        if (text ? strcmp(dlk_settings_text(a, seen[i]), dlk_settings_text(b, seen[i])) !=
                       0
                 : dlk_settings_int(a, seen[i]) != dlk_settings_int(b, seen[i]))
            return false;
    }
    return true;
}

static dlock_err make_name(dlk_engine *engine, dlock_kind kind, const char *text,
                           size_t size, const dlk_settings *settings, dlk_name **ret,
                           dlock_error **err)
{
    dlk_engine_name *own = calloc(1, sizeof(*own) + size + 1);
    if (!own)
        return dlk_error_nomem(err);
    memcpy(own->text, text, size + 1);
    dlk_list_init(&own->news);
    own->name.key = (dlk_key){.name = own->text, .size = size, .kind = kind};
    own->settings = dlk_settings_copy(settings);
    own->name.key.settings = own->settings;
    dlock_err code = own->settings ? DLOCK_OK : dlk_error_nomem(err);
    if (code == DLOCK_OK)
        code = engine->backend->type->key_open(engine->backend, &own->name.key, err);
    if (code != DLOCK_OK) {
        dlk_settings_free(own->settings);
        free(own);
        return code;
    }
    if (!dlk_name_add(&engine->core, &own->name)) {
        engine->backend->type->key_close(engine->backend, &own->name.key);
        dlk_settings_free(own->settings);
        free(own);
        return dlk_error_nomem(err);
    }
    *ret = &own->name;
    return DLOCK_OK;
}

dlock_err dlk_engine_name_get(dlk_engine *engine, dlock_kind kind, const char *text,
                              const dlk_settings *settings, dlk_name **ret,
                              dlock_error **err)
{
    size_t size = strlen(text);
    dlk_name *name = NULL;
    while ((name = dlk_name_find(&engine->core, kind, text, size, name)))
        if (same_on_server(name->key.settings, settings))
            break;
    if (!name)
        return make_name(engine, kind, text, size, settings, ret, err);
    dlk_name_ref(name);
    *ret = name;
    return DLOCK_OK;
}

/* ---- what the backend tells ---- */

static dlk_engine *of_host(dlk_host *host)
{
    return DLK_LIST_ITEM(host, dlk_engine, host);
}

static void host_answered(dlk_host *host, dlk_ask *one)
{
    dlk_engine *engine = of_host(host);
    assert(engine->in_flight > 0);
    engine->in_flight--;
    dlk_list_init(&one->link);
    dlk_list_append(&engine->answers, &one->link);
}

static void host_notified(dlk_host *host, dlk_key *key)
{
    dlk_engine *engine = of_host(host);
    dlk_engine_name *own =
        DLK_LIST_ITEM(DLK_LIST_ITEM(key, dlk_name, key), dlk_engine_name, name);
    if (dlk_list_empty(&own->news))
        dlk_list_append(&engine->notified, &own->news);
}

static void host_link(dlk_host *host, bool up, const dlock_error *error)
{
    dlk_engine *engine = of_host(host);
    bool was = engine->link_changed ? engine->link_is_up : engine->core.up;
    engine->link_changed = true;
    engine->link_is_up = up;
    if (!up) {
        dlk_error_clear(&engine->link_error);
        engine->link_error =
            error ? dlk_error_copy(error)
                  : dlk_error_make(DLOCK_EUNAVAIL, "the connection was lost");
    }
    if (was != up || !up)
        dlk_event_note(engine, DLOCK_EVENT_CONNECTION, DLOCK_LOG_INFO,
                       up ? DLOCK_OK : engine->link_error->code,
                       strdup(up ? "connected" : engine->link_error->text));
}

void dlk_engine_log(dlk_engine *engine, dlock_level level, const char *format,
                    va_list args)
{
    if ((int)level > engine->log_level || (!engine->log && !engine->event_fd_on))
        return;
    char *line = NULL;
    if (vasprintf(&line, format, args) < 0)
        return; /* a log line that doesn't fit into memory is no reason to fail anything */
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < 0x20)
            *at = ' '; /* names may hold anything; a line stays one line */
    if (!engine->log) {
        dlk_event_note(engine, DLOCK_EVENT_LOG, level, DLOCK_OK, line);
        return;
    }
    dlk_note *note = calloc(1, sizeof(*note));
    if (!note) {
        free(line);
        return;
    }
    *note = (dlk_note){.level = level, .text = line};
    dlk_list_append(&engine->log_lines, &note->slot.link);
}

__attribute__((format(printf, 3, 4))) static void
host_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    dlk_engine_log(of_host(host), level, format, args);
    va_end(args);
}

__attribute__((format(printf, 3, 4))) static void core_log(void *world, dlock_level level,
                                                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    dlk_engine_log(world, level, format, args);
    va_end(args);
}

void dlk_engine_connect_port(dlk_engine *engine, dlk_port *port)
{
    *port = (dlk_port){
        .world = engine,
        .ask = ask,
        .watch = watch,
        .wait_over = wait_over,
        .query_over = query_over,
        .changed = changed,
        .new_grant = new_grant,
        .new_hold = new_hold,
        .free_grant = free_grant,
        .free_query = free_query,
        .free_name = free_name,
        .log = core_log,
    };
    engine->host = (dlk_host){
        .answered = host_answered,
        .notified = host_notified,
        .link = host_link,
        .log = host_log,
        .mutex = &engine->mutex,
        .uuid = engine->uuid,
        .name = engine->name,
        .rand = &engine->core.rand,
    };
}
