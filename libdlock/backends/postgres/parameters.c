/* What libpq is told of a server, and of us. */
#include "backends/postgres/inner.h"

#include "util/secret.h"

#include <stdio.h>
#include <unistd.h>

enum { PARAMETERS = 24 };

typedef struct parameters {
    const char *keys[PARAMETERS + 1], *values[PARAMETERS + 1];
    size_t count;
} parameters;

static void add(parameters *to, const char *key, const char *value)
{
    if (!value || !value[0] || to->count == PARAMETERS)
        return;
    to->keys[to->count] = key;
    to->values[to->count++] = value;
}

static bool with_tls(const dlk_pg *pg)
{
    int64_t word = dlk_settings_int(pg->settings, DLK_KEY_POSTGRES_TLS);
    return word == 1 || (word == 0 && !pg->servers[pg->server].local);
}

/* As Debian and others have them; libpq 14 knows no word for "the system's". */
static const char *authorities(const dlk_pg *pg)
{
    static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt",
                                        "/etc/ssl/cert.pem"};
    const char *set = dlk_settings_text(pg->settings, DLK_KEY_TLS_CA_FILE);
    for (size_t i = 0; !set[0] && i < sizeof(files) / sizeof(files[0]); i++)
        if (access(files[i], R_OK) == 0)
            return files[i];
    return set;
}

static void add_tls(const dlk_pg *pg, parameters *to)
{
    static const char *const modes[] = {"verify-full", "verify-ca", "require"};
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    if (!with_tls(pg)) {
        add(to, "sslmode", "disable");
        return;
    }
    int64_t verify = dlk_settings_int(pg->settings, DLK_KEY_TLS_VERIFY);
    add(to, "sslmode", modes[verify]);
    if (verify < 2)
        add(to, "sslrootcert", authorities(pg));
    add(to, "sslcrl", dlk_settings_text(pg->settings, DLK_KEY_TLS_CRL_FILE));
    add(to, "sslcert", dlk_settings_text(pg->settings, DLK_KEY_TLS_CERT_FILE));
    add(to, "sslkey", dlk_settings_text(pg->settings, DLK_KEY_TLS_KEY_FILE));
    add(to, "ssl_min_protocol_version",
        versions[dlk_settings_int(pg->settings, DLK_KEY_TLS_MIN_VERSION)]);
}

PGconn *dlk_pg_begin(const dlk_pg *pg, const char *address, dlock_error **err)
{
    const dlk_pg_server *server = &pg->servers[pg->server];
    const char *name = dlk_settings_text(pg->settings, DLK_KEY_TLS_SERVER_NAME);
    parameters with = {.count = 0};
    char port[8], *secret = NULL;
    if (dlk_settings_secret(pg->settings, DLK_KEY_AUTH_PASSWORD, &secret, err) !=
        DLOCK_OK)
        return NULL;
    (void)snprintf(port, sizeof(port), "%d", server->port);
    add(&with, "host", name[0] && !server->local ? name : server->host);
    add(&with, "hostaddr", address);
    add(&with, "port", port);
    add(&with, "user", dlk_settings_text(pg->settings, DLK_KEY_AUTH_USERNAME));
    add(&with, "password", secret);
    add(&with, "dbname", pg->database);
    add(&with, "application_name", pg->base.host->name);
    add(&with, "client_encoding", "SQL_ASCII"); /* texts are bytes, as elsewhere */
    add(&with, "gssencmode", "disable");
    add_tls(pg, &with);
    PGconn *conn = PQconnectStartParams(with.keys, with.values, 0);
    dlk_secret_free(secret);
    return conn;
}
