/* The life of an engine: opening, starting, closing, and what a fork leaves of it. */
#include "engine/engine.h"
#include "engine/circle.h"

#include "contract/limits.h"
#include "util/clock.h"
#include "util/who.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- forks ---- */

/* Every engine of this process, for what a fork's child can't close by util/descriptor.h. */
static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static dlk_list registry = {&registry, &registry};
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;
static bool registry_ready;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&registry_mutex);
    dlk_circle_before_fork();
    dlk_engine_order_before_fork();
}

static void after_fork_in_parent(void)
{
    dlk_engine_order_after_fork(false);
    dlk_circle_after_fork(false);
    (void)pthread_mutex_unlock(&registry_mutex);
}

/* Little is touched: an engine's mutex may be held by a thread that isn't here. */
static void after_fork_in_child(void)
{
    dlk_engine_order_after_fork(true);
    dlk_circle_after_fork(true);
    atomic_fetch_add(&dlk_fork_generation, 1);
    DLK_LIST_FOR (it, &registry) {
        dlk_engine *engine = DLK_LIST_ITEM(it, dlk_engine, registered);
        if (engine->backend->type->forked)
            engine->backend->type->forked(engine->backend);
        engine->poll_fd = -1;
        engine->event = engine->kicks.wakeup = (dlk_wakeup)DLK_WAKEUP_NONE;
        dlk_list_remove(&engine->registered);
    }
    (void)pthread_mutex_unlock(&registry_mutex); /* the forking thread had locked it */
}

static void prepare_registry(void)
{
    registry_ready =
        dlk_fork_watch(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Registers it under the lowest number that no other one of its name and URI has: those stand there in the
 * order of their numbers, so one look along the list is enough. */
static void enter_registry(dlk_engine *engine)
{
    (void)pthread_mutex_lock(&registry_mutex);
    dlk_list *before = &registry;
    DLK_LIST_FOR (it, &registry) {
        const dlk_engine *other = DLK_LIST_ITEM(it, dlk_engine, registered);
        if (strcmp(other->name, engine->name) != 0 ||
            strcmp(other->uri, engine->uri) != 0)
            continue;
        if (other->namesake > engine->namesake) {
            before = it;
            break;
        }
        engine->namesake = other->namesake + 1;
    }
    dlk_list_append(before, &engine->registered);
    (void)pthread_mutex_unlock(&registry_mutex);
}

/* False: its last reference is gone, and whoever had that is about to take it out of the registry. */
static bool still_there(dlk_engine *engine)
{
    int refs = atomic_load_explicit(&engine->refs, memory_order_relaxed);
    while (refs > 0)
        if (atomic_compare_exchange_weak_explicit(&engine->refs, &refs, refs + 1,
                                                  memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

dlk_engine **dlk_engines_all(size_t *ret_count)
{
    size_t room = 1, count = 0;
    /* A thread may fork while we are here, before any client was opened. */
    (void)pthread_once(&registry_once, prepare_registry);
    (void)pthread_mutex_lock(&registry_mutex);
    DLK_LIST_FOR (it, &registry)
        room++;
    dlk_engine **all = calloc(room, sizeof(*all));
    if (all) {
        DLK_LIST_FOR (it, &registry) {
            dlk_engine *engine = DLK_LIST_ITEM(it, dlk_engine, registered);
            if (still_there(engine))
                all[count++] = engine;
        }
    }
    (void)pthread_mutex_unlock(&registry_mutex);
    *ret_count = count;
    return all;
}

/* ---- memory ---- */

static void destroy(dlk_engine *engine)
{
    (void)pthread_mutex_lock(&registry_mutex);
    dlk_list_remove(&engine->registered);
    (void)pthread_mutex_unlock(&registry_mutex);
    dlk_engine_clear_freed(engine);
    dlk_engine_order_end(engine);
    dlk_events_free(engine);
    dlk_list *spare;
    while ((spare = dlk_list_take_first(&engine->spare_grants)))
        free(DLK_LIST_ITEM(spare, dlk_grant_box, grant.link));
    while ((spare = dlk_list_take_first(&engine->doomed)))
        free(DLK_LIST_ITEM(spare, dlk_doomed, link));
    dlk_core_free(&engine->core);
    if (engine->backend)
        engine->backend->type->free(engine->backend);
    dlk_kicks_close(&engine->kicks);
    dlk_polls_free(&engine->polls);
    dlk_error_clear(&engine->link_error);
    dlk_whys_clear(&engine->whys);
    dlk_settings_free(engine->last_settings);
    dlk_settings_free(engine->settings);
    free(engine->uri);
    free(engine->name);
    free(engine->who);
    (void)pthread_mutex_destroy(&engine->mutex);
    free(engine);
}

void dlk_engine_unref(dlk_engine *engine)
{
    if (atomic_fetch_sub_explicit(&engine->refs, 1, memory_order_acq_rel) == 1)
        destroy(engine);
}

/* ---- opening ---- */

static void init_lists(dlk_engine *engine)
{
    dlk_list_init(&engine->registered);
    dlk_list_init(&engine->closers);
    dlk_list_init(&engine->compounds);
    dlk_list_init(&engine->jobs);
    dlk_list_init(&engine->at_close);
    dlk_list_init(&engine->spare_grants);
    dlk_list_init(&engine->sleepers);
    dlk_list_init(&engine->waking);
    dlk_list_init(&engine->answers);
    dlk_list_init(&engine->doomed);
    dlk_list_init(&engine->events);
    dlk_list_init(&engine->log_lines);
}

static char *default_name(void)
{
    const dlk_who who = dlk_who_here("");
    char *name = NULL;
    if (asprintf(&name, "%.100s:%lld", who.host[0] ? who.host : "?", (long long)who.pid) <
        0)
        return NULL;
    return name;
}

static char *name_of(const dlk_settings *settings)
{
    if (dlk_settings_is_set(settings, DLK_KEY_CLIENT_NAME))
        return strdup(dlk_settings_text(settings, DLK_KEY_CLIENT_NAME));
    return default_name();
}

static bool take_names(dlk_engine *engine, const dlk_settings *settings)
{
    engine->name = name_of(settings);
    if (!engine->name)
        return false;
    const dlk_who who = dlk_who_here(engine->name);
    engine->who = dlk_who_text(&who);
    return engine->who != NULL;
}

static dlk_limits limits_of(const dlk_backend_type *type, const dlk_settings *s)
{
    const dlk_traits traits = dlk_backend_traits(type, s);
    dlk_limits limits = dlk_backend_limits(&traits);
    limits.timeout_ms = dlk_settings_int(s, DLK_KEY_CLIENT_TIMEOUT_MS);
    limits.connect_ms = dlk_settings_int(s, DLK_KEY_CLIENT_CONNECT_MS);
    limits.poll_ms = dlk_settings_int(s, DLK_KEY_CLIENT_POLL_MS);
    limits.backoff_min_ms = dlk_settings_int(s, DLK_KEY_CLIENT_BACKOFF_MIN_MS);
    limits.backoff_max_ms = dlk_settings_int(s, DLK_KEY_CLIENT_BACKOFF_MAX_MS);
    return limits;
}

static dlock_err init(dlk_engine *engine, const dlk_backend_type *type,
                      const dlk_uri *uri, dlk_settings *settings, dlock_error **err)
{
    uint64_t seed;
    dlk_port port;
    engine->uri = strdup(dlk_uri_masked(uri));
    if (!engine->uri || !take_names(engine, settings))
        return dlk_error_nomem(err);
    if (!dlk_rand_uuid(engine->uuid) || !dlk_rand_bytes(&seed, sizeof(seed)))
        return dlk_error_set(err, DLOCK_EUNAVAIL,
                             "the system has no random numbers for us");
    dlk_engine_connect_port(engine, &port);
    dlk_limits limits = limits_of(type, settings);
    if (!dlk_core_init(&engine->core, &port, &limits, seed))
        return dlk_error_nomem(err);
    dlock_err code = dlk_engine_order_begin(engine, settings, err);
    if (code != DLOCK_OK)
        return code;
    engine->note_limit = dlk_settings_int(settings, DLK_KEY_CLIENT_EVENTS);
    dlk_engine_log_begin(engine, settings);
    if (!type->sleep && !dlk_kicks_open(&engine->kicks))
        return dlk_error_set(err, DLOCK_EUNAVAIL, "%s: no descriptor is left",
                             type->name);
    return type->open(&engine->host, uri, settings, &engine->backend, err);
}

dlock_err dlk_engine_open(const dlk_backend_type *type, const dlk_uri *uri,
                          dlk_settings *settings, dlock_log_fn *log, void *log_user,
                          dlk_engine **ret, dlock_error **err)
{
    (void)pthread_once(&registry_once, prepare_registry);
    dlk_engine *engine = registry_ready ? calloc(1, sizeof(*engine)) : NULL;
    if (!engine)
        return dlk_error_nomem(err);
    init_lists(engine);
    engine->event = (dlk_wakeup)DLK_WAKEUP_NONE;
    engine->poll_fd = -1;
    engine->kicks = DLK_KICKS_INIT;
    engine->refs = 1;
    engine->generation = atomic_load(&dlk_fork_generation);
    engine->backend_next = engine->look_at = DLK_NEVER;
    engine->log = log;
    engine->log_user = log_user;
    if (pthread_mutex_init(&engine->mutex, NULL) != 0) {
        free(engine);
        return dlk_error_nomem(err);
    }
    dlock_err code = init(engine, type, uri, settings, err);
    if (code != DLOCK_OK) {
        dlk_engine_deliver(engine, &engine->log_lines);
        destroy(engine);
        return code;
    }
    dlk_engine_set_settings(engine, settings);
    engine->prefix_size = strlen(dlk_settings_text(settings, DLK_KEY_CLIENT_PREFIX));
    enter_registry(engine);
    *ret = engine;
    return DLOCK_OK;
}

dlock_err dlk_engine_start_new(dlk_engine *engine, int64_t now, dlock_error **err)
{
    engine->role = (dlk_thread_role){"dlock", dlk_engine_run, engine};
    if (!dlk_thread_start(&engine->thread, &engine->role))
        return dlk_error_set(err, DLOCK_EUNAVAIL, "the system refuses to start a thread");
    dlk_thread_becomes(engine, DLK_THREAD_AWAKE);
    engine->volleys = dlk_thread_has_cores();
    dlk_engine_init_warnings(engine);
    dlk_life_becomes(engine, DLK_LIFE_OPEN);
    engine->backend->type->start(engine->backend, now);
    engine->unsent = true;
    dlk_engine_digest(engine, now);
    return DLOCK_OK;
}

/* ---- closing ---- */

static void finish_closers(dlk_engine *engine)
{
    dlk_list *link;
    while ((link = dlk_list_take_first(&engine->closers))) {
        dlock_op *op = DLK_LIST_ITEM(link, dlock_op, link);
        dlk_op_finish(
            engine, op, engine->close_code,
            engine->close_code == DLOCK_OK
                ? NULL
                : dlk_error_make(engine->close_code,
                                 "closed, but not every release was confirmed"));
        dlk_op_retire(engine, op);
    }
}

void dlk_engine_now_closed(dlk_engine *engine)
{
    if (dlk_core_unconfirmed(&engine->core) > 0 ||
        dlk_engine_unsettled(engine) == DLK_UNSETTLED_BLOCKING)
        engine->close_code = DLOCK_EUNKNOWN;
    engine->core.up = false; /* no answer may lead to another request */
    engine->backend->type->stop(engine->backend);
    dlk_engine_digest(engine, dlk_clock_now());
    engine->core.up = false;
    dlk_core_stop(&engine->core);
    dlk_engine_order_end(engine);
    dlk_life_becomes(engine, DLK_LIFE_CLOSED);
    finish_closers(engine);
    dlk_event_closed(engine);
}

void dlk_engine_at_close(dlk_engine *engine, dlk_job *job)
{
    dlk_list_init(&job->link);
    dlk_list_append(dlk_engine_closes(engine) ? &engine->jobs : &engine->at_close,
                    &job->link);
}

bool dlk_engine_not_at_close(dlk_engine *engine, dlk_job *job)
{
    if (dlk_engine_closes(engine))
        return false;
    dlk_list_remove(&job->link);
    return true;
}

void dlk_engine_begin_close(dlk_engine *engine, int64_t now)
{
    if (dlk_engine_closes(engine))
        return;
    bool started = engine->life == DLK_LIFE_OPEN;
    dlk_life_becomes(engine, DLK_LIFE_CLOSING);
    engine->close_until =
        dlk_clock_after(now, dlk_settings_int(engine->settings, DLK_KEY_CLIENT_CLOSE_MS));
    dlk_core_close(&engine->core, now);
    dlk_list *compound;
    while ((compound = dlk_list_first(&engine->compounds))) {
        dlock_op *op = DLK_LIST_ITEM(compound, dlock_op, link);
        op->u.compound.end(engine, op, DLOCK_ECLOSED);
    }
    dlk_list_splice(&engine->jobs, &engine->at_close);
    dlk_engine_digest(engine, now);
    if (!started) {
        dlk_engine_now_closed(engine);
        return;
    }
    engine->kick_driver = engine->driven == DLK_DRIVEN_BY_CALLER;
    dlk_engine_send(engine);
}

void dlk_engine_join(dlk_engine *engine)
{
    /* The thread changes its state until it ends. */
    (void)pthread_mutex_lock(&engine->mutex);
    bool none = engine->thread_state == DLK_THREAD_NONE;
    (void)pthread_mutex_unlock(&engine->mutex);
    if (none)
        return;
    (void)pthread_join(engine->thread,
                       NULL); /* only the client's free calls this, once */
    (void)pthread_mutex_lock(&engine->mutex); /* who frees a hold meanwhile looks at it */
    dlk_thread_becomes(engine, DLK_THREAD_NONE);
    (void)pthread_mutex_unlock(&engine->mutex);
}
