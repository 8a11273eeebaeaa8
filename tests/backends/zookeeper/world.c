/* See the header. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

zookeeper_server world_server;
zookeeper_wire world_wire = {.fd = -1};

static void close_world(void)
{
    zookeeper_wire_close(&world_wire);
    zookeeper_server_stop(&world_server);
}

bool world_ready(void)
{
    if (world_server.port == 0) {
        if (!zookeeper_server_available() || !zookeeper_server_borrow(&world_server))
            return false;
        (void)atexit(close_world);
    }
    /* Its session isn't kept alive between tests. */
    if (world_wire.fd >= 0)
        zookeeper_wire_close(&world_wire);
    return zookeeper_wire_open(&world_wire, world_server.port);
}

int world_patience(void)
{
    return getenv("DLK_TEST_SLOW") ? 30000 : 10000;
}

void world_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

const char *world_uri(const char *path, const char *query)
{
    static char uri[400];
    snprintf(uri, sizeof(uri),
             "zookeeper://127.0.0.1:%d%s?lock.ttl_ms=60000&client.connect_ms=30000"
             "&client.timeout_ms=20000%s%s",
             world_server.port, path, query[0] ? "&" : "", query);
    return uri;
}

dlock_client *world_client(const char *query)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    dlock_err code = dlock_client_open(world_uri("", query), NULL, &client, &err);
    (void)harness_err(__FILE__, __LINE__, "dlock_client_open", code, DLOCK_OK, err);
    dlock_error_free(err);
    return client;
}

dlock_lock *world_lock(dlock_client *client, dlock_kind kind, const char *name,
                       const char *settings)
{
    dlock_lock *lock = NULL;
    dlock_error *err = NULL;
    dlock_conf *conf = dlock_conf_new();
    char text[200], *save = NULL;
    snprintf(text, sizeof(text), "%s", settings ? settings : "");
    for (char *at = strtok_r(text, " ", &save); at; at = strtok_r(NULL, " ", &save)) {
        char *value = strchr(at, '=');
        *value++ = '\0';
        if (dlock_conf_set(conf, at, value, &err) != DLOCK_OK)
            break;
    }
    dlock_err code = err ? dlock_error_code(err)
                         : dlock_lock_new(client, kind, name, conf, &lock, &err);
    (void)harness_err(__FILE__, __LINE__, name, code, DLOCK_OK, err);
    dlock_error_free(err);
    dlock_conf_free(conf);
    return lock;
}

dlock_hold *world_try(dlock_lock *lock, int64_t wait_ms, dlock_err *ret_code)
{
    dlock_hold *hold = NULL;
    *ret_code = dlock_lock_acquire(lock, wait_ms, &hold, NULL);
    return hold;
}

int world_children(const char *path)
{
    int count = zookeeper_wire_count(&world_wire, path);
    return count < 0 ? 0 : count;
}

int world_children_with(const char *path, const char *part)
{
    char names[8192];
    int count = 0;
    if (zookeeper_wire_children(&world_wire, path, names, sizeof(names)) != ZOOKEEPER_OK)
        return 0;
    for (const char *at = names; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

const char *world_inspect(dlock_lock *lock, const char *key)
{
    static char text[300];
    dlock_info *info = NULL;
    text[0] = '\0';
    if (dlock_lock_inspect(lock, &info, NULL) == DLOCK_OK) {
        const char *value = dlock_info_get(info, key);
        snprintf(text, sizeof(text), "%s", value ? value : "");
    }
    dlock_info_free(info);
    return text;
}

int64_t world_session_of(const char *path)
{
    char names[4096];
    if (zookeeper_wire_children(&world_wire, path, names, sizeof(names)) != ZOOKEEPER_OK)
        return 0;
    char full[700], *space = strchr(names, ' ');
    if (!space)
        return 0;
    *space = '\0';
    snprintf(full, sizeof(full), "%s/%.500s", path, names);
    zookeeper_stat stat = {.owner = 0};
    (void)zookeeper_wire_stat(&world_wire, full, &stat);
    return stat.owner;
}
