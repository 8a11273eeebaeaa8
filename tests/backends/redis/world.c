/* Driving the redis backend by hand; see the header. */
#include "world.h"

#include "backends/redis/redis.h"
#include "contract/sleep.h"
#include "util/error.h"
#include "util/who.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static world *of(dlk_host *host)
{
    return DLK_LIST_ITEM(host, world, host);
}

static void note_error(world *w, const dlock_error *error)
{
    w->code = error ? error->code : DLOCK_OK;
    snprintf(w->text, sizeof(w->text), "%s | %s", dlock_error_text(error),
             dlock_error_backend(error));
}

static void answered(dlk_host *host, dlk_ask *ask)
{
    (void)ask;
    of(host)->answers++;
}

static void notified(dlk_host *host, dlk_key *key)
{
    of(host)->notices++;
    of(host)->noticed = key;
}

static void asked(dlk_host *host, uint64_t number, const char *name, size_t size)
{
    of(host)->wanted = number;
    (void)snprintf(of(host)->lock, sizeof(of(host)->lock), "%.*s", (int)size, name);
}

static void revoked(dlk_host *host, uint64_t number)
{
    of(host)->revoked = number;
}

static void told_link(dlk_host *host, bool up, const dlock_error *error)
{
    world *w = of(host);
    w->up = up;
    if (up)
        w->ups++;
    else
        w->downs++;
    if (!up)
        note_error(w, error);
}

static __attribute__((format(printf, 3, 4))) void
told_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    (void)level;
    world *w = of(host);
    size_t used = strlen(w->log);
    va_list args;
    va_start(args, format);
    vsnprintf(w->log + used, sizeof(w->log) - used, format, args);
    va_end(args);
    used = strlen(w->log);
    snprintf(w->log + used, sizeof(w->log) - used, "\n");
}

static dlock_err make_settings(const dlk_uri *uri, va_list pairs, dlk_settings **ret,
                               dlock_error **err)
{
    dlk_settings *from_uri = dlk_settings_new(), *conf = dlk_settings_new();
    dlock_err code = dlk_uri_apply(uri, from_uri, err);
    const char *key;
    if (code == DLOCK_OK) /* one request more now and then; test_client_key.c has it */
        code = dlk_settings_set(conf, "redis.client_key", "false", err);
    while (code == DLOCK_OK && (key = va_arg(pairs, const char *)))
        code = dlk_settings_set(conf, key, va_arg(pairs, const char *), err);
    if (code == DLOCK_OK)
        code = dlk_settings_for_client(from_uri, conf, ret, err);
    dlk_settings_free(from_uri);
    dlk_settings_free(conf);
    return code;
}

static dlock_err open_it(world *w, const char *text, va_list pairs, dlock_error **err)
{
    memset(w, 0, sizeof(*w));
    pthread_mutex_init(&w->mutex, NULL);
    w->rand.state = 42;
    dlk_rand_uuid(w->uuid);
    w->kicks = DLK_KICKS_INIT;
    const dlk_who who = dlk_who_here("test host:1");
    w->who = dlk_who_text(&who);
    if (!w->who)
        return dlk_error_nomem(err);
    if (!dlk_kicks_open(&w->kicks))
        return dlk_error_set(err, DLOCK_EUNAVAIL, "no descriptor is left");
    w->host = (dlk_host){
        .tell = &dlk_tell_nobody,
        .answered = answered,
        .notified = notified,
        .revoked = revoked,
        .asked = asked,
        .link = told_link,
        .log = told_log,
        .mutex = &w->mutex,
        .kicks = &w->kicks,
        .uuid = w->uuid,
        .name = "test host:1",
        .who = w->who,
        .rand = &w->rand,
    };
    dlk_uri *uri = NULL;
    dlock_err code = dlk_uri_parse(text, &uri, err);
    if (code == DLOCK_OK)
        code = make_settings(uri, pairs, &w->settings, err);
    if (code == DLOCK_OK)
        code = dlk_redis_backend.open(&w->host, uri, w->settings, &w->backend, err);
    dlk_uri_free(uri);
    return code;
}

static bool open_checked(world *w, const char *uri, va_list pairs)
{
    dlock_error *err = NULL;
    dlock_err code = open_it(w, uri, pairs, &err);
    bool fine = harness_err(__FILE__, __LINE__, "open", code, DLOCK_OK, err);
    dlk_error_clear(&err);
    if (!fine)
        return false;
    pthread_mutex_lock(&w->mutex);
    w->backend->type->start(w->backend, dlk_clock_now());
    pthread_mutex_unlock(&w->mutex);
    return true;
}

bool world_open(world *w, const char *uri, ...)
{
    va_list pairs;
    va_start(pairs, uri);
    bool fine = open_checked(w, uri, pairs);
    va_end(pairs);
    return fine;
}

bool world_connect_with(world *w, const char *uri, va_list pairs)
{
    if (!open_checked(w, uri, pairs))
        return false;
    bool fine = ROUNDS_REACH(w, w->up);
    if (!fine)
        harness_note("link: %s", w->text);
    return harness_check(__FILE__, __LINE__, fine, "the link is up");
}

bool world_connect(world *w, const char *uri, ...)
{
    va_list pairs;
    va_start(pairs, uri);
    bool fine = world_connect_with(w, uri, pairs);
    va_end(pairs);
    return fine;
}

dlock_err world_try(const char *uri, dlock_error **err, ...)
{
    world w;
    va_list pairs;
    va_start(pairs, err);
    dlock_err code = open_it(&w, uri, pairs, err);
    va_end(pairs);
    if (w.backend)
        w.backend->type->free(w.backend);
    dlk_settings_free(w.settings);
    free(w.who);
    pthread_mutex_destroy(&w.mutex);
    return code;
}

void world_close(world *w)
{
    pthread_mutex_lock(&w->mutex);
    w->backend->type->stop(w->backend);
    pthread_mutex_unlock(&w->mutex);
    w->backend->type->free(w->backend);
    dlk_settings_free(w->settings);
    free(w->who);
    dlk_kicks_close(&w->kicks);
    dlk_polls_free(&w->polls);
    pthread_mutex_destroy(&w->mutex);
}

void world_round(world *w)
{
    const dlk_backend_type *type = w->backend->type;
    pthread_mutex_lock(&w->mutex);
    int64_t now = dlk_clock_now(), until = now + 50 * DLK_NS_PER_MS;
    uint32_t seen = dlk_kicks_seen(&w->kicks);
    int64_t next = type->tick(w->backend, now);
    dlk_polls_begin(&w->polls, next < until ? next : until);
    type->arm(w->backend, &w->polls);
    pthread_mutex_unlock(&w->mutex);
    dlk_sleep_on(w->backend, &w->polls, seen, false);
    pthread_mutex_lock(&w->mutex);
    type->process(w->backend, dlk_clock_now());
    pthread_mutex_unlock(&w->mutex);
}

void world_spin(world *w, int64_t ms)
{
    int64_t end = dlk_clock_now() + ms * DLK_NS_PER_MS;
    while (dlk_clock_now() < end)
        world_round(w);
}

dlk_key *world_key_of(world *w, dlock_kind kind, const char *name)
{
    dlock_error *err = NULL;
    dlk_key *key = calloc(1, sizeof(*key));
    *key = (dlk_key){.name = strdup(name),
                     .size = (uint32_t)strlen(name),
                     .kind = kind,
                     .settings = w->settings};
    dlock_err code = w->backend->type->key_open(w->backend, key, &err);
    bool fine = harness_err(__FILE__, __LINE__, "key_open", code, DLOCK_OK, err);
    dlk_error_clear(&err);
    return fine ? key : NULL;
}

dlk_key *world_key(world *w, const char *name)
{
    return world_key_of(w, DLOCK_MUTEX, name);
}

void world_forget(world *w, dlk_key *key)
{
    w->backend->type->watch(w->backend, key, false, dlk_clock_now());
    w->backend->type->key_close(w->backend, key);
    free((char *)(uintptr_t)key->name);
    free(key);
}

dlk_ask world_make(world *w, dlk_verb verb, dlk_key *key, uint64_t number)
{
    int64_t now = dlk_clock_now();
    return (dlk_ask){
        .verb = verb,
        .key = key,
        .number = number,
        .refills = verb == DLK_RENEW && dlk_number_keeps(number),
        .take = 1,
        .ttl_ms = 10000,
        .deadline = now + dlk_settings_int(w->settings, DLK_KEY_CLIENT_TIMEOUT_MS) *
                              DLK_NS_PER_MS,
        .since = now,
        .limit = 1000,
    };
}

void world_ask(world *w, dlk_ask *ask)
{
    pthread_mutex_lock(&w->mutex);
    ask->reply = DLK_PENDING;
    w->backend->type->ask(w->backend, ask, dlk_clock_now());
    pthread_mutex_unlock(&w->mutex);
}

dlk_reply world_await(world *w, dlk_ask *ask)
{
    (void)harness_check(__FILE__, __LINE__, ROUNDS_REACH(w, ask->reply != DLK_PENDING),
                        "the ask is answered");
    if (ask->error)
        note_error(w, ask->error);
    dlk_error_clear(&ask->error);
    return ask->reply;
}

dlk_reply world_do(world *w, dlk_verb verb, dlk_key *key, uint64_t number,
                   int64_t *ret_token)
{
    dlk_ask ask = world_make(w, verb, key, number);
    world_ask(w, &ask);
    dlk_reply reply = world_await(w, &ask);
    if (ret_token)
        *ret_token = ask.token;
    return reply;
}

void world_watch(world *w, dlk_key *key, bool on)
{
    pthread_mutex_lock(&w->mutex);
    w->backend->type->watch(w->backend, key, on, dlk_clock_now());
    pthread_mutex_unlock(&w->mutex);
}
