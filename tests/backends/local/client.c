/* A client without an engine; see the header. */
#include "client.h"

#include "harness/harness.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static fake *of(dlk_host *host)
{
    return (fake *)(void *)host;
}

static void on_answered(dlk_host *host, dlk_ask *ask)
{
    (void)host;
    (void)ask;
    abort(); /* a local table answers at once */
}

static void on_notified(dlk_host *host, dlk_key *key)
{
    of(host)->told++;
    of(host)->told_key = key;
    if (of(host)->on_notified)
        of(host)->on_notified(of(host), key);
}

static void on_revoked(dlk_host *host, uint64_t number)
{
    of(host)->revokes++;
    of(host)->revoked += number;
}

static void on_link(dlk_host *host, bool up, const dlock_error *error)
{
    fake *client = of(host);
    client->ups += up;
    client->downs += !up;
    client->down_code = error ? dlock_error_code(error) : DLOCK_OK;
    (void)snprintf(client->down_text, sizeof(client->down_text), "%s",
                   error ? dlock_error_text(error) : "");
}

__attribute__((format(printf, 3, 4))) static void
on_log(dlk_host *host, dlock_level level, const char *format, ...)
{
    char line[512];
    va_list args;
    (void)level;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    harness_note("log: %s", line);
    of(host)->logged++;
}

fake *client_open_with(const char *text, const char *const *pairs, dlock_error **err)
{
    fake *client = calloc(1, sizeof(*client));
    dlk_settings *settings = dlk_settings_new();
    dlk_uri *uri = NULL;
    if (!client || !settings || !dlk_rand_uuid(client->uuid) ||
        dlk_uri_parse(text, &uri, err) != DLOCK_OK)
        goto failed;
    for (; pairs && *pairs; pairs++) {
        char key[64];
        const char *value = strchr(*pairs, '=');
        (void)snprintf(key, sizeof(key), "%.*s", (int)(value - *pairs), *pairs);
        if (dlk_settings_set(settings, key, value + 1, err) != DLOCK_OK)
            goto failed;
    }
    (void)snprintf(client->name, sizeof(client->name), "test:%d", (int)getpid());
    (void)pthread_mutex_init(&client->mutex, NULL);
    client->kicks = DLK_KICKS_INIT;
    client->host = (dlk_host){
        .tell = &dlk_tell_nobody,
        .answered = on_answered,
        .notified = on_notified,
        .revoked = on_revoked,
        .link = on_link,
        .log = on_log,
        .mutex = &client->mutex,
        .kicks = &client->kicks,
        .uuid = client->uuid,
        .name = client->name,
        .rand = &client->rand,
    };
    const dlk_backend_type *type =
        strcmp(uri->scheme, "mem") == 0 ? &dlk_mem_backend : &dlk_file_backend;
    if (type->open(&client->host, uri, settings, &client->backend, err) != DLOCK_OK)
        goto failed;
    dlk_uri_free(uri);
    dlk_settings_free(settings);
    type->start(client->backend, dlk_clock_now());
    return client;
failed:
    dlk_uri_free(uri);
    dlk_settings_free(settings);
    free(client);
    return NULL;
}

fake *client_open(const char *uri, dlock_error **err)
{
    return client_open_with(uri, NULL, err);
}

void client_stop(fake *client)
{
    client->backend->type->stop(client->backend);
}

void client_close(fake *client)
{
    if (!client)
        return;
    if (!dlk_local_of(client->backend)->stopped)
        client_stop(client);
    client->backend->type->free(client->backend);
    (void)pthread_mutex_destroy(&client->mutex);
    free(client);
}

dlk_key *client_key(fake *client, const char *name)
{
    return client_key_of(client, name, DLOCK_MUTEX, NULL);
}

dlk_key *client_key_of(fake *client, const char *name, dlock_kind kind,
                       dlk_settings *settings)
{
    dlk_key *key = calloc(1, sizeof(*key));
    if (!key)
        abort();
    key->name = strdup(name);
    key->size = (uint32_t)strlen(name);
    key->kind = kind;
    key->settings = settings;
    if (client->backend->type->key_open(client->backend, key, NULL) != DLOCK_OK)
        abort();
    return key;
}

void client_key_close(fake *client, dlk_key *key)
{
    client->backend->type->key_close(client->backend, key);
    free((char *)(uintptr_t)key->name);
    free(key);
}

answer client_answer(fake *client, dlk_ask *ask, int64_t now)
{
    client->backend->type->ask(client->backend, ask, now);
    answer copy = {
        .reply = ask->reply,
        .token = ask->token,
        .wait_ms = ask->wait_ms,
        .since = ask->since,
        .no_place = ask->no_place,
        .lasts = ask->lasts,
        .new_place = ask->new_place,
        .count = dlock_info_int(ask->info, 0),
        .code = ask->error ? dlock_error_code(ask->error) : DLOCK_OK,
    };
    if (ask->error)
        (void)snprintf(copy.text, sizeof(copy.text), "%s", dlock_error_text(ask->error));
    dlock_error_free(ask->error);
    return copy;
}

answer client_ask(fake *client, dlk_verb verb, dlk_key *key, uint64_t number,
                  int64_t ttl_ms, int64_t now)
{
    dlk_ask ask = {
        .verb = verb, .key = key, .number = number, .ttl_ms = ttl_ms, .since = now};
    return client_answer(client, &ask, now);
}

static dlk_ask ask_for(dlk_verb verb, dlk_key *key, uint64_t number, int32_t take,
                       int64_t ttl_ms, int64_t now)
{
    return (dlk_ask){
        .verb = verb,
        .key = key,
        .number = number,
        .shared = key->kind == DLOCK_WRITE && take == 1,
        .take = take,
        .ttl_ms = ttl_ms,
        .since = now,
    };
}

answer client_ask_for(fake *client, dlk_verb verb, dlk_key *key, uint64_t number,
                      int32_t take, int64_t ttl_ms, int64_t now)
{
    dlk_ask ask = ask_for(verb, key, number, take, ttl_ms, now);
    return client_answer(client, &ask, now);
}

answer client_try(fake *client, dlk_key *key, uint64_t number, int32_t take,
                  int64_t ttl_ms, int64_t now)
{
    dlk_ask ask = ask_for(DLK_ACQUIRE, key, number, take, ttl_ms, now);
    ask.once = true;
    return client_answer(client, &ask, now);
}

answer client_export(fake *client, dlk_key *key, uint64_t number, int64_t now)
{
    dlk_ask ask = {.verb = DLK_RELEASE,
                   .key = key,
                   .number = number,
                   .exported = true,
                   .since = now};
    return client_answer(client, &ask, now);
}

answer client_import(fake *client, dlk_key *key, uint64_t number, const char *giver,
                     uint64_t giver_number, int64_t ttl_ms, int64_t now)
{
    char owner[64];
    (void)snprintf(owner, sizeof(owner), "%s:%" PRIu64, giver, giver_number);
    dlk_ask ask = {.verb = DLK_IMPORT,
                   .key = key,
                   .number = number,
                   .text = owner,
                   .ttl_ms = ttl_ms,
                   .since = now};
    return client_answer(client, &ask, now);
}

answer client_break(fake *client, dlk_key *key, const char *owner, int64_t now)
{
    dlk_ask ask = {.verb = DLK_BREAK, .key = key, .text = owner, .since = now};
    return client_answer(client, &ask, now);
}

dlock_info *client_info(fake *client, dlk_verb verb, dlk_key *key, const char *text,
                        int64_t limit, int64_t now)
{
    dlk_ask ask = {.verb = verb, .key = key, .text = text, .limit = limit, .since = now};
    (void)client_answer(client, &ask, now);
    return ask.info;
}

bool client_wait(fake *client, dlk_key *key, uint64_t number, int64_t ttl_ms,
                 int64_t limit_ms, answer *granted)
{
    const dlk_backend_type *type = client->backend->type;
    int64_t until = dlk_clock_after(dlk_clock_now(), limit_ms);
    for (;;) {
        int64_t now = dlk_clock_now();
        *granted = client_ask(client, DLK_ACQUIRE, key, number, ttl_ms, now);
        if (granted->reply == DLK_YES)
            return true;
        if (now >= until || granted->reply == DLK_REFUSED)
            return false;
        int64_t again = until;
        if (granted->reply == DLK_HELD && dlk_clock_after(now, granted->wait_ms) < again)
            again = dlk_clock_after(now, granted->wait_ms);
        int ups = client->ups;
        int64_t tick = type->tick(client->backend, now);
        if (client->ups != ups)
            continue;
        type->arm(client->backend, NULL);
        type->sleep(client->backend, tick < again ? tick : again,
                    dlk_kicks_seen(&client->kicks));
        type->process(client->backend, dlk_clock_now());
    }
}

/* ---- a directory of our own ---- */

static char directory[64];
static pid_t maker;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static void remove_directory(void)
{
    if (getpid() == maker)
        (void)nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *temp_path(const char *file)
{
    static char path[512];
    if (directory[0] == '\0') {
        (void)snprintf(directory, sizeof(directory), "/tmp/dlock-test-XXXXXX");
        if (!harness_mkdtemp(directory))
            abort();
        maker = getpid();
        (void)atexit(remove_directory);
    }
    (void)snprintf(path, sizeof(path), "%s/%s", directory, file);
    return path;
}

const char *temp_uri(const char *file)
{
    static char uri[600];
    (void)snprintf(uri, sizeof(uri), "file://%s", temp_path(file));
    return uri;
}

void temp_edit_stamp(const char *file, void (*edit)(dlk_table_stamp *stamp))
{
    dlk_table_stamp stamp;
    int fd = open(temp_path(file), O_RDWR | O_CLOEXEC);
    if (fd < 0 || pread(fd, &stamp, sizeof(stamp), 0) != sizeof(stamp))
        abort();
    edit(&stamp);
    if (pwrite(fd, &stamp, sizeof(stamp), 0) != sizeof(stamp) || close(fd) != 0)
        abort();
}

void other_boot(dlk_table_stamp *stamp)
{
    memset(stamp->boot_id, '0', 36);
}

void other_pid_ns(dlk_table_stamp *stamp)
{
    stamp->pid_ns++;
}

void other_time_ns(dlk_table_stamp *stamp)
{
    stamp->time_ns++;
}
