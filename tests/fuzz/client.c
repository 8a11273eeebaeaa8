/* The host of a backend, and what it is asked; see the header. */
#include "client.h"

#include "backends/registry.h"
#include "util/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN INT64_C(1000000000000)

struct client client;

static struct {
    dlk_host host;
    dlk_kicks kicks;
    dlk_rand rand;
    pthread_mutex_t mutex;
    dlk_settings *settings;
    struct {
        dlk_ask ask;
        int answers;
    } asks[CLIENT_ASKS];
    int asked;
} world = {.kicks = {.wakeup = DLK_WAKEUP_NONE}, .mutex = PTHREAD_MUTEX_INITIALIZER};

dlk_kicks *client_kicks(void)
{
    return &world.kicks;
}

/* ---- what it tells ---- */

/* A terminal would obey them. */
static void check_words(const char *text)
{
    for (; *text; text++)
        FUZZ_CHECK((unsigned char)*text >= ' ' && *text != 0x7f, "a control character");
}

static void check_error(const dlock_error *error)
{
    if (!error)
        return;
    FUZZ_CHECK(dlock_error_text(error)[0], "an error without words");
    check_words(dlock_error_text(error));
    check_words(dlock_error_backend(error));
}

static void on_answered(dlk_host *host, dlk_ask *ask)
{
    (void)host;
    size_t i = 0;
    while (i < CLIENT_ASKS && &world.asks[i].ask != ask)
        i++;
    FUZZ_CHECK(i < CLIENT_ASKS, "an ask that isn't ours");
    FUZZ_CHECK(++world.asks[i].answers == 1 && ask->reply != DLK_PENDING,
               "a request is answered %d times, %d", world.asks[i].answers, ask->reply);
    FUZZ_CHECK(ask->reply != DLK_REFUSED || ask->error, "refused without a reason");
    check_error(ask->error);
    target_answered(ask);
}

static void on_link(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host;
    client.up = up;
    FUZZ_CHECK(up == !error, "it is up, or there is a reason");
    check_error(error);
    if (up)
        target_up();
}

static void on_notified(dlk_host *host, dlk_key *key)
{
    (void)host;
    FUZZ_CHECK(key >= client.keys && key < client.keys + CLIENT_KEYS && key->data,
               "told of a key that isn't there");
}

static void on_revoked(dlk_host *host, uint64_t number)
{
    (void)host, (void)number;
}

static void on_lost(dlk_host *host, dlk_key *key, uint64_t number)
{
    (void)number;
    on_notified(host, key);
}

__attribute__((format(printf, 3, 4))) static void
on_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    char text[512];
    va_list args;
    (void)host, (void)level;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* that it can be formatted */
    va_end(args);
}

/* ---- from the beginning to the end ---- */

static void open_backend(const char *text)
{
    dlk_uri *uri = NULL;
    world.settings = dlk_settings_new();
    if (!world.settings || dlk_uri_parse(text, &uri, NULL) != DLOCK_OK ||
        dlk_uri_apply(uri, world.settings, NULL) != DLOCK_OK ||
        dlk_registry_find(uri->scheme)
                ->open(&world.host, uri, world.settings, &client.backend, NULL) !=
            DLOCK_OK)
        abort();
    dlk_uri_free(uri);
}

void client_open(const char *uri, const client_key keys[CLIENT_KEYS], fuzz_bytes bytes)
{
    client = (struct client){.now = BEGIN, .bytes = bytes};
    world.host = (dlk_host){.tell = &dlk_tell_nobody,
                            .answered = on_answered,
                            .notified = on_notified,
                            .revoked = on_revoked,
                            .lost = on_lost,
                            .link = on_link,
                            .log = on_log,
                            .mutex = &world.mutex,
                            .kicks = &world.kicks,
                            .uuid = CLIENT_UUID,
                            .name = "fuzz",
                            .who = "fuzz\there\t1",
                            .rand = &world.rand};
    world.rand.state = 1;
    world.asked = 0;
    memset(world.asks, 0, sizeof(world.asks));
    open_backend(uri);
    for (int i = 0; i < CLIENT_KEYS && keys[i].name; i++) {
        client.keys[i] = (dlk_key){.name = keys[i].name,
                                   .size = (uint32_t)strlen(keys[i].name),
                                   .kind = keys[i].kind,
                                   .settings = world.settings};
        (void)client.backend->type->key_open(client.backend, &client.keys[i], NULL);
    }
    client.backend->type->start(client.backend, client.now);
}

static void watch(dlk_key *key, bool on)
{
    if (!key->data || key->watched == on)
        return;
    key->watched = on;
    if (client.backend->type->watch)
        client.backend->type->watch(client.backend, key, on, client.now);
}

void client_ask(uint8_t verb, uint8_t how)
{
    if (verb == CLIENT_WATCH) {
        watch(&client.keys[how % CLIENT_KEYS], how & 0x80);
        return;
    }
    if (world.asked == CLIENT_ASKS)
        return;
    dlk_ask *it = &world.asks[world.asked].ask;
    *it = (dlk_ask){.verb = (dlk_verb)(1 + verb % DLK_DOCTOR),
                    .number = 1 + how / 4 % 4,
                    .ttl_ms = 30000,
                    .take = 1,
                    .limit = 5,
                    .once = how >= 0x80,
                    .deadline = client.now + DLK_NS_PER_SEC * (1 + verb % 4),
                    .since = client.now};
    it->key = it->verb == DLK_LIST || it->verb == DLK_DOCTOR
                  ? NULL
                  : &client.keys[how % CLIENT_KEYS];
    it->shared = it->key && it->key->kind == DLOCK_WRITE && how & 0x40;
    if (it->key && it->key->kind == DLOCK_SEMAPHORE && it->number % 2 == 0)
        it->take = 2;
    if (it->verb == DLK_IMPORT || (it->verb == DLK_BREAK && how & 0x20))
        it->text = CLIENT_UUID ":1";
    if (it->key && !it->key->data)
        return;
    int number = world.asked++;
    client.backend->type->ask(client.backend, it, client.now);
    world.asks[number].answers += it->reply != DLK_PENDING;
}

void client_close(void)
{
    const dlk_backend_type *type = client.backend->type;
    type->stop(client.backend);
    for (int i = 0; i < world.asked; i++) {
        dlk_ask *it = &world.asks[i].ask;
        FUZZ_CHECK(world.asks[i].answers == 1, "a request has %d answers",
                   world.asks[i].answers);
        FUZZ_CHECK(it->reply == DLK_YES || !it->info, "an info without success");
        if (it->info)
            fuzz_check_json(dlock_info_json(it->info));
        dlock_error_free(it->error);
        dlock_info_free(it->info);
    }
    type->process(client.backend, client.now); /* what has come since */
    for (int i = 0; i < CLIENT_KEYS; i++)
        watch(&client.keys[i], false);
    for (int i = 0; i < CLIENT_KEYS; i++)
        if (client.keys[i].data)
            type->key_close(client.backend, &client.keys[i]);
    type->free(client.backend);
    dlk_settings_free(world.settings);
}
