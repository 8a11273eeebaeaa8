/* How a server is reached: passwords, TLS, several hosts, a name with several addresses. */
#include "api/world.h"
#include "harness/certificates.h"
#include "harness/postgres_server.h"
#include "harness/server.h"
#include "harness/time.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int resolver(const char *, const char *, const struct addrinfo *,
                     struct addrinfo **);

/* The library's, too: "two.test" is 127.0.0.2 and then 127.0.0.1. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    resolver *ask = (resolver *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    if (!name || strcmp(name, "two.test") != 0)
        return ask(name, service, hints, found);
    int code = ask("127.0.0.2", service, hints, found);
    struct addrinfo *last = *found;
    while (code == 0 && last->ai_next)
        last = last->ai_next;
    return code ? code : ask("127.0.0.1", service, hints, &last->ai_next);
}

static const char *ask(const char *statement)
{
    return postgres_server_ask(world_postgres(), "%s", statement);
}

/* Whether a lock can be had there; else what is said. */
static dlock_err try_at(const char *uri, const char *settings, char *text, size_t room)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_conf) conf = api_conf(settings);
    dlock_err code = dlock_client_open(uri, conf, &client, &err);
    code = code ? code : dlock_acquire(client, "connect", 0, &hold, &err);
    snprintf(text, room, "%s", err ? dlock_error_text(err) : "");
    return code;
}

/* ---- passwords ---- */

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

static const char *in_data(const char *name)
{
    static char path[160];
    snprintf(path, sizeof(path), "%s/data/%s", world_postgres()->dir, name);
    return path;
}

TEST(a_password_is_asked_for_and_comes_from_the_settings_or_from_libpqs_file)
{
    char uri[128], text[512], file[96], line[96];
    BEGIN();
    snprintf(uri, sizeof(uri), "postgres://secretive@127.0.0.1:%d/postgres",
             world_postgres()->port);
    CHECK_STR(ask("CREATE ROLE secretive LOGIN PASSWORD 'c4nary' IN ROLE dlock_user"),
              "");
    CHECK(write_file(in_data("pg_hba.conf"),
                     "host all secretive 127.0.0.1/32 scram-sha-256\n"
                     "host all all 127.0.0.1/32 trust\n"));
    CHECK_STR(ask("SELECT pg_reload_conf()"), "t");
    AWAIT(try_at(uri, "client.connect_ms=20000 auth.password=wrong", text,
                 sizeof(text)) == DLOCK_EACCES);
    CHECK_CONTAINS(text, "password authentication failed");
    CHECK(!strstr(text, "wrong"));
    CHECK_ERR(
        try_at(uri, "client.connect_ms=20000 auth.password=c4nary", text, sizeof(text)),
        DLOCK_OK, NULL);
    snprintf(file, sizeof(file), "%s/pgpass", world_postgres()->dir);
    snprintf(line, sizeof(line), "*:*:*:secretive:c4nary\n");
    CHECK(write_file(file, line) && chmod(file, 0600) == 0);
    CHECK(setenv("PGPASSFILE", file, 1) == 0);
    CHECK_ERR(try_at(uri, "client.connect_ms=20000", text, sizeof(text)), DLOCK_OK, NULL);
    CHECK(unsetenv("PGPASSFILE") == 0);
}

/* ---- TLS ---- */

/* The server shows this certificate from now on. */
static bool show(const certificates *made, const char *name)
{
    char file[48], copy[160];
    struct stat owner;
    const char *const parts[] = {"pem", "key"};
    if (stat(in_data("postgresql.conf"), &owner) != 0)
        return false;
    for (size_t i = 0; i < 2; i++) {
        char text[8192];
        snprintf(file, sizeof(file), "%s.%s", name, parts[i]);
        FILE *from = fopen(certificates_path(made, file), "re");
        size_t size = from ? fread(text, 1, sizeof(text) - 1, from) : 0;
        if (from)
            fclose(from);
        text[size] = '\0';
        snprintf(copy, sizeof(copy), "%s", in_data(i ? "shown.key" : "shown.pem"));
        if (!size || !write_file(copy, text) || chmod(copy, 0600) != 0 ||
            (geteuid() == 0 && chown(copy, owner.st_uid, owner.st_gid) != 0))
            return false;
    }
    (void)ask("ALTER SYSTEM SET ssl_cert_file = 'shown.pem'");
    (void)ask("ALTER SYSTEM SET ssl_key_file = 'shown.key'");
    (void)ask("ALTER SYSTEM SET ssl = on");
    return strcmp(ask("SELECT pg_reload_conf()"), "t") == 0;
}

TEST(by_tls_the_certificate_and_its_name_are_checked)
{
    static certificates made;
    char uri[128], settings[256], text[512];
    BEGIN();
    if (!certificates_make(&made))
        return;
    snprintf(uri, sizeof(uri), "postgres://postgres@localhost:%d/postgres",
             world_postgres()->port);
    snprintf(settings, sizeof(settings),
             "client.connect_ms=20000 postgres.tls=on tls.ca_file=%s",
             certificates_path(&made, "ca.pem"));
    CHECK(show(&made, "server"));
    AWAIT(try_at(uri, settings, text, sizeof(text)) == DLOCK_OK);
    CHECK_ERR(try_at(uri, "client.connect_ms=20000", text, sizeof(text)), DLOCK_OK, NULL);

    /* Another authority's. */
    char others[256];
    snprintf(others, sizeof(others),
             "client.connect_ms=3000 postgres.tls=on tls.ca_file=%s",
             certificates_path(&made, "other.pem"));
    AWAIT(try_at(uri, others, text, sizeof(text)) != DLOCK_OK &&
          strstr(text, "certificate"));

    /* Another host's; and who doesn't want to know says so. */
    snprintf(settings, sizeof(settings),
             "client.connect_ms=3000 postgres.tls=on tls.ca_file=%s",
             certificates_path(&made, "ca.pem"));
    CHECK(show(&made, "wrong"));
    AWAIT(try_at(uri, settings, text, sizeof(text)) != DLOCK_OK &&
          strstr(text, "elsewhere.example"));
    strcat(settings, " tls.verify=chain");
    AWAIT(try_at(uri, settings, text, sizeof(text)) == DLOCK_OK);
    certificates_remove(&made);
}

/* ---- where ---- */

TEST(of_several_hosts_the_next_is_tried)
{
    char uri[128], text[512];
    BEGIN();
    int dead = server_free_port(0);
    snprintf(uri, sizeof(uri), "postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres",
             dead, world_postgres()->port);
    CHECK_ERR(try_at(uri, "client.connect_ms=20000", text, sizeof(text)), DLOCK_OK, NULL);
    server_let_go(dead);
}

/* libpq would try two hosts: /tmp/a, and another's in b. */
TEST(a_comma_is_no_way_to_another_host)
{
    char uri[192], text[512];
    BEGIN();
    snprintf(uri, sizeof(uri), "postgres+unix://%s%%2Cb?auth.username=postgres",
             world_postgres()->dir);
    CHECK_ERR(try_at(uri, NULL, text, sizeof(text)), DLOCK_EINVAL, NULL);
    CHECK_CONTAINS(text, "has a comma");
    snprintf(uri, sizeof(uri), "postgres://postgres@localhost:%d/postgres",
             world_postgres()->port);
    CHECK_ERR(try_at(uri, "postgres.tls=on tls.server_name=one.test,localhost", text,
                     sizeof(text)),
              DLOCK_EINVAL, NULL);
    CHECK_CONTAINS(text, "has a comma");
}

/* It takes so many connections and says nothing. */
static int be_silent_at(const char *address, int port, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    (void)inet_pton(AF_INET, address, &at.sin_addr);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    bool fine =
        bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, backlog) == 0;
    if (!fine)
        close(fd);
    return fine ? fd : -1;
}

TEST(a_dead_address_leaves_time_to_the_next)
{
    char uri[128], text[512];
    BEGIN();
    int silent = be_silent_at("127.0.0.2", world_postgres()->port, 16);
    CHECK(silent >= 0);
    snprintf(uri, sizeof(uri), "postgres://postgres@two.test:%d/postgres",
             world_postgres()->port);
    CHECK_ERR(try_at(uri, "postgres.tls=off client.connect_ms=4000", text, sizeof(text)),
              DLOCK_OK, NULL);
    close(silent);
}

/* ---- a connection that doesn't come about ---- */

enum { CALLERS = 4, CALLS = 10, CONNECT_MS = 20000 };

static void *call_often(void *client)
{
    for (int i = 0; i < CALLS; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        dlock_err code = dlock_acquire(client, "nowhere", 20, &hold, NULL);
        if (code == DLOCK_OK)
            return NULL;
    }
    return NULL;
}

/* Those who call meanwhile wake the driver, with nothing on the socket: libpq would wait for it then, and all for us. */
TEST(who_calls_while_it_connects_waits_no_longer_than_he_said)
{
    BEGIN();
    char uri[128];
    int fillers[4], port = server_free_port(0);
    pthread_t callers[CALLERS];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    /* A listener whose backlog is full drops what comes. */
    int full = be_silent_at("127.0.0.1", port, 0);
    CHECK(full >= 0);
    (void)inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(fillers[i], (struct sockaddr *)&at, sizeof(at));
    }
    snprintf(uri, sizeof(uri), "postgres://postgres@127.0.0.1:%d/postgres", port);
    DLOCK_AUTO(dlock_conf) conf = api_conf("client.lazy=true client.connect_ms=20000");
    DLOCK_AUTO(dlock_client) client = NULL;
    CHECK_ERR(dlock_client_open(uri, conf, &client, NULL), DLOCK_OK, NULL);
    int64_t began = now_ms();
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&callers[i], NULL, call_often, client) == 0);
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_join(callers[i], NULL) == 0);
    CHECK(now_ms() - began < CONNECT_MS);
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
    close(full);
    server_let_go(port);
}
