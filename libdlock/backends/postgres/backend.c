/* The backend for PostgreSQL: what the pieces in this folder make together. */
#include "backends/postgres/postgres.h"

#include "backends/postgres/advisory.h"
#include "util/clock.h"
#include "util/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PORT 5432

/* ---- open, free ---- */

static void pg_free(dlk_backend *backend)
{
    dlk_pg *pg = dlk_pg_of(backend);
    dlk_pg_claims_free(pg->claims);
    for (size_t i = 0; i < pg->server_count; i++)
        free(pg->servers[i].host);
    free(pg->servers);
    free(pg->database);
    dlk_settings_free(pg->settings);
    dlk_error_clear(&pg->why_down);
    free(pg);
}

static bool is_here(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strncmp(host, "127.", 4) == 0;
}

static bool by_path(const dlk_uri *uri)
{
    return strstr(uri->scheme, "+unix") != NULL;
}

/* libpq takes it apart at commas, of which it knows no escaping: it would go elsewhere. */
static dlock_err check_one_host(const char *name, dlock_error **err)
{
    return strchr(name, ',')
               ? dlk_error_set(err, DLOCK_EINVAL,
                               "postgres: %s has a comma, which libpq takes for the end "
                               "of a host's name",
                               name)
               : DLOCK_OK;
}

static dlock_err set_servers(dlk_pg *pg, const dlk_uri *uri, dlock_error **err)
{
    bool is_path = by_path(uri);
    size_t count = is_path ? 1 : uri->host_count;
    pg->servers = calloc(count ? count : 1, sizeof(*pg->servers));
    if (!pg->servers)
        return dlk_error_nomem(err);
    if (count == 0)
        return dlk_error_set(err, DLOCK_EINVAL, "postgres: a host is expected");
    for (size_t i = 0; i < count; i++) {
        dlk_pg_server *server = &pg->servers[pg->server_count++];
        server->host = strdup(is_path ? uri->path : uri->hosts[i].host);
        if (!server->host)
            return dlk_error_nomem(err);
        server->port = is_path || !uri->hosts[i].port ? DEFAULT_PORT : uri->hosts[i].port;
        server->local = is_path || is_here(server->host);
        dlock_err code = check_one_host(server->host, err);
        if (code != DLOCK_OK)
            return code;
    }
    if (!is_path)
        return DLOCK_OK;
    /* The socket itself, or its directory. */
    char *at = strstr(pg->servers[0].host, "/.s.PGSQL.");
    if (at) {
        int64_t port = dlk_number_or(at + strlen("/.s.PGSQL."), 1, 65535, 0);
        if (port == 0)
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "postgres: %s is no socket of a server",
                                 pg->servers[0].host);
        pg->servers[0].port = (uint16_t)port;
        *at = '\0';
    }
    return DLOCK_OK;
}

static dlock_err set_database(dlk_pg *pg, const dlk_uri *uri, dlock_error **err)
{
    const char *name = dlk_settings_text(pg->settings, DLK_KEY_POSTGRES_DATABASE);
    bool has_path = !by_path(uri) && uri->path[0] == '/' && uri->path[1];
    if (has_path && name[0] && strcmp(name, uri->path + 1) != 0)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "postgres: the URI says database %s, and postgres.database %s", uri->path + 1,
            name);
    pg->database = strdup(has_path ? uri->path + 1 : name);
    if (!pg->database)
        return dlk_error_nomem(err);
    if (strchr(pg->database, '=') || strstr(pg->database, "://"))
        return dlk_error_set(err, DLOCK_EINVAL, "postgres: %s is no name of a database",
                             pg->database);
    return DLOCK_OK;
}

static bool is_advisory(const dlk_settings *settings)
{
    return dlk_settings_int(settings, DLK_KEY_POSTGRES_LAYOUT) == 1;
}

static dlock_err set_layout(dlk_pg *pg, dlock_error **err)
{
    if (!is_advisory(pg->settings))
        return DLOCK_OK;
    pg->claims = dlk_pg_claims_new();
    return pg->claims ? dlk_pg_advisory_check(pg->settings, err) : dlk_error_nomem(err);
}

static void adapt(const dlk_settings *settings, dlk_traits *traits)
{
    if (is_advisory(settings))
        dlk_pg_advisory_adapt(traits);
}

static bool has_kind(const dlk_settings *settings, dlock_kind kind)
{
    return !is_advisory(settings) || dlk_pg_advisory_has(kind);
}

static dlock_err set_up(dlk_pg *pg, const dlk_uri *uri, const dlk_settings *settings,
                        dlock_error **err)
{
    pg->settings = dlk_settings_copy(settings);
    if (!pg->settings)
        return dlk_error_nomem(err);
    if (dlk_settings_text(settings, DLK_KEY_TLS_CA_DIR)[0] ||
        dlk_settings_text(settings, DLK_KEY_TLS_KEY_PASSWORD_FILE)[0])
        return dlk_error_set(
            err, DLOCK_ENOTSUP,
            "postgres: tls.ca_dir and tls.key_password_file: libpq has no "
            "such thing; use tls.ca_file, and a key without a password");
    pg->timeout_ns =
        dlk_settings_int(settings, DLK_KEY_CLIENT_TIMEOUT_MS) * DLK_NS_PER_MS;
    pg->connect_ns =
        dlk_settings_int(settings, DLK_KEY_CLIENT_CONNECT_MS) * DLK_NS_PER_MS;
    pg->retry_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_RETRY_MS);
    pg->synchronous = dlk_settings_int(settings, DLK_KEY_POSTGRES_SYNCHRONOUS);
    pg->installs = dlk_settings_int(settings, DLK_KEY_POSTGRES_INSTALL);
    pg->backoff = (dlk_backoff){
        .min_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_BACKOFF_MIN_MS),
        .max_ms = dlk_settings_int(settings, DLK_KEY_CLIENT_BACKOFF_MAX_MS)};
    (void)snprintf(pg->channel, sizeof(pg->channel), "dlock:%s", pg->base.host->uuid);
    dlock_err code =
        check_one_host(dlk_settings_text(settings, DLK_KEY_TLS_SERVER_NAME), err);
    if (code == DLOCK_OK)
        code = set_layout(pg, err);
    if (code == DLOCK_OK)
        code = dlk_loaded_need(&dlk_libpq, err);
    if (code == DLOCK_OK)
        code = set_servers(pg, uri, err);
    return code == DLOCK_OK ? set_database(pg, uri, err) : code;
}

static dlock_err pg_open(dlk_host *host, const dlk_uri *uri, const dlk_settings *settings,
                         dlk_backend **ret, dlock_error **err)
{
    dlk_pg *pg = calloc(1, sizeof(*pg));
    if (!pg)
        return dlk_error_nomem(err);
    pg->base = (dlk_backend){.type = &dlk_postgres_backend, .host = host};
    pg->fd = -1;
    dlk_flight_init(&pg->flight, host);
    dlk_list_init(&pg->renewals);
    dlk_list_init(&pg->watched);
    pg->look_at = DLK_NEVER;
    dlock_err code = set_up(pg, uri, settings, err);
    if (code != DLOCK_OK) {
        pg_free(&pg->base);
        return code;
    }
    *ret = &pg->base;
    return DLOCK_OK;
}

/* ---- start, stop, fork ---- */

static void pg_start(dlk_backend *backend, int64_t now)
{
    dlk_pg_start(dlk_pg_of(backend), now);
}

static void pg_stop(dlk_backend *backend)
{
    dlk_pg *pg = dlk_pg_of(backend);
    if (pg->phase == DLK_PG_READY)
        (void)PQflush(pg->conn); /* the last words */
    pg->phase = DLK_PG_OFF;
    dlk_pg_hang_up(pg);
    dlk_error_clear(&pg->why_down);
    pg->why_down = dlk_error_make(DLOCK_EUNAVAIL, "postgres: the connection is closed");
    dlk_pg_asks_fail(pg);
}

/* libpq's socket is none that util/descriptor.h knows of. */
static void pg_forked(dlk_backend *backend)
{
    const dlk_pg *pg = dlk_pg_of(backend);
    if (pg->fd >= 0)
        (void)close(pg->fd);
}

/* ---- the driver's steps ---- */

static int64_t pg_tick(dlk_backend *backend, int64_t now)
{
    return dlk_pg_tick(dlk_pg_of(backend), now);
}

static void pg_arm(dlk_backend *backend, dlk_polls *polls)
{
    dlk_pg_arm(dlk_pg_of(backend), polls);
}

static void pg_process(dlk_backend *backend, int64_t now)
{
    dlk_pg_process(dlk_pg_of(backend), now);
}

static void pg_listen(dlk_backend *backend, int64_t now)
{
    dlk_pg *pg = dlk_pg_of(backend);
    (void)now;
    pg->listens = true;
    dlk_pg_lend_ear(pg);
}

static const char *const schemes[] = {"postgres", "postgresql", "postgres+unix",
                                      "postgresql+unix", NULL};

const dlk_backend_type dlk_postgres_backend = {
    .name = "postgres",
    .schemes = schemes,
    .traits =
        {
            .layout = "table",
            .class = DLK_REQUIRE_FENCING,
            .queues = true,
            .fair = true,
            .tokens = true,
            .hands_on = true,
            .margin_percent = 1,
            .margin_ms = 2,
            .keeps = true,
            .no_keep_tokens =
                "dlock.check passes the last grant of the server's, whoever "
                "of the client has it by now",
            .kinds = {[DLOCK_MUTEX] = true,
                      [DLOCK_ELECTION] = true,
                      [DLOCK_SEMAPHORE] = true,
                      [DLOCK_READ] = true,
                      [DLOCK_WRITE] = true,
                      [DLK_KIND_CONDITION] = true},
        },
    .open = pg_open,
    .start = pg_start,
    .stop = pg_stop,
    .free = pg_free,
    .ask = dlk_pg_ask,
    .tick = pg_tick,
    .arm = pg_arm,
    .process = pg_process,
    .key_open = dlk_pg_key_open,
    .key_close = dlk_pg_key_close,
    .adapt = adapt,
    .has_kind = has_kind,
    .watch = dlk_pg_watch,
    .listen = pg_listen,
    .forked = pg_forked,
};
