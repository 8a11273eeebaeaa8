/* rediss:// on a real server: what is accepted, what is refused and in which words. */
#include "backends/redis/inner.h"
#include "harness/certificates.h"
#include "harness/redis_server.h"
#include "util/error.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static certificates made;
static redis_server server;
static world w;

static bool start(const char *config)
{
    if (!redis_server_available() || !certificates_make(&made))
        return false;
    return redis_server_start_tls(&server, made.dir, config);
}

static void stop(void)
{
    redis_server_stop(&server);
    certificates_remove(&made);
}

static const char *path(const char *name)
{
    return certificates_path(&made, name);
}

/* "rediss://HOST:PORT" */
static const char *uri_of(const char *host)
{
    static char uri[128];
    snprintf(uri, sizeof(uri), "rediss://%s:%d", host, server.tls_port);
    return uri;
}

/* From now on it shows another of the certificates. */
static void show(const char *name)
{
    redis_server_call(&server,
                      "CONFIG SET tls-cert-file %s/%s.pem tls-key-file %s/%s.key",
                      made.dir, name, made.dir, name);
}

/* An open link carries a lock. */
static bool locks(void)
{
    dlk_key *key = world_key(&w, "L");
    bool fine = key && world_do(&w, DLK_ACQUIRE, key, 1, NULL) == DLK_YES &&
                world_do(&w, DLK_RENEW, key, 1, NULL) == DLK_YES &&
                world_do(&w, DLK_RELEASE, key, 1, NULL) == DLK_YES;
    world_forget(&w, key);
    return harness_check(__FILE__, __LINE__, fine, "a lock");
}

#define FAST "client.backoff_min_ms", "10", "client.backoff_max_ms", "20"

/* ---- Accepted ---- */

TEST(names_and_addresses_in_the_certificate_are_accepted)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};
    if (!start(NULL))
        return;
    for (size_t i = 0; i < 2; i++) {
        CHECK(world_connect(&w, uri_of(hosts[i]), "tls.ca_file", path("ca.pem"), NULL));
        CHECK(locks());
        CHECK_STR(w.log, "");
        world_close(&w);
    }
    CHECK(world_connect(&w, uri_of("localhost"), "tls.ca_dir", path("ca"), NULL));
    CHECK(locks());
    world_close(&w);
    stop();
}

TEST(releases_are_heard_over_tls_as_well)
{
    if (!start(NULL))
        return;
    CHECK(world_connect(&w, uri_of("127.0.0.1"), "tls.ca_file", path("ca.pem"), NULL));
    dlk_key *key = world_key(&w, "L");
    CHECK_EQ_INT(world_do(&w, DLK_ACQUIRE, key, 1, NULL), DLK_YES);
    world_watch(&w, key, true);
    ROUNDS_UNTIL(&w, w.notices == 1);
    CHECK_EQ_INT(world_do(&w, DLK_RELEASE, key, 1, NULL), DLK_YES);
    ROUNDS_UNTIL(&w, w.notices == 2);
    world_forget(&w, key);
    world_close(&w);
    stop();
}

TEST(each_version_from_1_2_on_is_spoken)
{
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    char text[128];
    int64_t until;
    if (!start(NULL))
        return;
    for (size_t i = 0; i < 2; i++) {
        redis_server_call(&server, "CONFIG SET tls-protocols %s", versions[i]);
        CHECK(
            world_connect(&w, uri_of("127.0.0.1"), "tls.ca_file", path("ca.pem"), NULL));
        dlk_tls_describe(&((dlk_redis *)w.backend)->commands.link.stream, text,
                         sizeof(text), &until);
        CHECK_CONTAINS(text, versions[i]);
        CHECK(until > 0);
        CHECK(locks());
        world_close(&w);
    }
    stop();
}

TEST(a_server_that_asks_for_a_certificate_gets_ours)
{
    if (!start(NULL))
        return;
    redis_server_call(&server, "CONFIG SET tls-auth-clients yes");
    CHECK(world_connect(&w, uri_of("127.0.0.1"), "tls.ca_file", path("ca.pem"),
                        "tls.cert_file", path("client.pem"), "tls.key_file",
                        path("client.key"), NULL));
    CHECK(locks());
    world_close(&w);
    CHECK(world_connect(&w, uri_of("127.0.0.1"), "tls.ca_file", path("ca.pem"),
                        "tls.cert_file", path("client.pem"), "tls.key_file",
                        path("locked.key"), "tls.key_password_file", path("password"),
                        NULL));
    CHECK(locks());
    world_close(&w);
    stop();
}

static bool resumed(void)
{
    return dlk_tls_resumed(&((dlk_redis *)w.backend)->commands.link.stream);
}

TEST(a_reconnect_resumes_the_session_until_a_file_changes)
{
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    if (!start(NULL))
        return;
    for (size_t i = 0; i < 2; i++) {
        redis_server_call(&server, "CONFIG SET tls-protocols %s", versions[i]);
        CHECK(world_connect(&w, uri_of("127.0.0.1"), "tls.ca_file", path("ca.pem"), FAST,
                            NULL));
        CHECK(!resumed());
        CHECK(locks()); /* by now its tickets have come */
        redis_server_call(&server, "CLIENT KILL TYPE normal SKIPME yes");
        ROUNDS_UNTIL(&w, w.ups == 2);
        CHECK(resumed());
        CHECK(locks());
        char command[256];
        snprintf(command, sizeof(command), "cat %s >> %s", path("other.pem"),
                 path("ca.pem"));
        CHECK_EQ_INT(system(command), 0);
        redis_server_call(&server, "CLIENT KILL TYPE normal SKIPME yes");
        ROUNDS_UNTIL(&w, w.ups == 3);
        CHECK(!resumed());
        CHECK(locks());
        world_close(&w);
    }
    stop();
}

TEST(another_name_or_none_is_accepted_only_when_the_settings_say_so)
{
    if (!start(NULL))
        return;
    show("wrong");
    CHECK(world_connect(&w, uri_of("127.0.0.1"), "tls.ca_file", path("ca.pem"),
                        "tls.server_name", "elsewhere.example", NULL));
    CHECK_STR(w.log, "");
    world_close(&w);
    CHECK(world_connect(&w, uri_of("127.0.0.1"), "tls.ca_file", path("ca.pem"),
                        "tls.verify", "chain", NULL));
    CHECK_STR(w.log, "");
    world_close(&w);
    show("selfsigned");
    CHECK(world_connect(&w, uri_of("127.0.0.1"), "tls.verify", "insecure_none", NULL));
    CHECK_CONTAINS(w.log, "insecure_none"); /* and it is said */
    CHECK(locks());
    world_close(&w);
    CHECK(world_connect(&w, uri_of("127.0.0.1"), "tls.ca_file", path("selfsigned.pem"),
                        NULL)); /* trusted by itself */
    world_close(&w);
    stop();
}

/* ---- Refused ---- */

static bool open_refused(const certificate_refusal *is, const char *verb)
{
    redis_server_call(&server, "CONFIG SET tls-auth-clients no tls-protocols \"\"");
    show(is->shown);
    if (verb)
        redis_server_call(&server, "%s", verb);
    const char *value = is->file ? path(is->file) : is->value;
    return world_open(&w, uri_of("127.0.0.1"), FAST, "auth.password", "c4nary",
                      "tls.ca_file", path("ca.pem"), is->key ? is->key : "client.lazy",
                      is->key ? value : "false", NULL);
}

/* @p verb: a command for the server, or NULL. */
static void is_refused(const certificate_refusal *is, const char *verb)
{
    harness_note("%s %s", is->shown, is->key ? is->key : "");
    CHECK(open_refused(is, verb));
    ROUNDS_UNTIL(&w, w.downs >= 1);
    CHECK_CONTAINS(w.text, is->says);
    CHECK_EQ_INT(w.code, is->code);
    CHECK_EQ_INT(w.ups, 0);
    CHECK(strstr(w.text, "c4nary") == NULL);
    world_close(&w);
}

TEST(bad_certificates_and_old_versions_are_refused_with_the_reason)
{
    static const certificate_refusal old = {.shown = "server",
                                            .key = "tls.min_version",
                                            .value = "1.3",
                                            .code = DLOCK_EPROTO,
                                            .says = "no version of TLS that we accept"};
    static const certificate_refusal asks = {.shown = "server",
                                             .code = DLOCK_EACCES,
                                             .says = "asks for a certificate of ours"};
    if (!start(NULL))
        return;
    for (size_t i = 0; i < certificate_refusal_count && !harness_failed(); i++)
        is_refused(&certificate_refusals[i], NULL);
    if (harness_failed())
        return;
    is_refused(&old, "CONFIG SET tls-protocols TLSv1.2");
    if (harness_failed())
        return;
    is_refused(&asks, "CONFIG SET tls-auth-clients yes tls-protocols TLSv1.3");
    stop();
}

TEST(a_certificate_that_is_revoked_meanwhile_is_refused_at_the_next_connect)
{
    if (!start(NULL))
        return;
    show("revoked");
    CHECK(world_connect(&w, uri_of("127.0.0.1"), "tls.ca_file", path("ca.pem"),
                        "tls.crl_file", path("before.pem"), FAST, NULL));
    CHECK(locks());
    CHECK_EQ_INT(rename(path("crl.pem"), path("before.pem")), 0);
    redis_server_call(&server, "CLIENT KILL TYPE normal SKIPME yes");
    ROUNDS_UNTIL(&w, w.downs >= 2 && w.code == DLOCK_EACCES);
    CHECK_CONTAINS(w.text, "was revoked");
    show("server"); /* a new certificate mends it */
    ROUNDS_UNTIL(&w, w.ups == 2);
    CHECK(locks());
    world_close(&w);
    stop();
}

TEST(a_plain_server_behind_rediss_and_a_tls_server_behind_redis_are_said_to_be_that)
{
    char uri[64];
    if (!start(NULL))
        return;
    snprintf(uri, sizeof(uri), "rediss://127.0.0.1:%d", server.port);
    CHECK(world_open(&w, uri, "tls.ca_file", path("ca.pem"), "client.connect_ms", "500",
                     FAST, NULL));
    ROUNDS_UNTIL(&w, w.downs >= 1);
    CHECK_CONTAINS(w.text, "doesn't begin with TLS");
    CHECK_EQ_INT(w.code, DLOCK_EUNAVAIL); /* it may just be slow */
    world_close(&w);
    snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", server.tls_port);
    CHECK(world_open(&w, uri, FAST, NULL));
    ROUNDS_UNTIL(&w, w.downs >= 1);
    CHECK_CONTAINS(w.text, "rediss://");
    world_close(&w);
    stop();
}

static bool refuses(const char *key, const char *file, const char *says)
{
    dlock_error *err = NULL;
    dlock_err code =
        world_try(uri_of("127.0.0.1"), &err, "tls.cert_file", path("client.pem"),
                  "tls.key_file", path("client.key"), key, path(file), NULL);
    bool fine = harness_eq_int(__FILE__, __LINE__, file, code, DLOCK_EINVAL) &&
                harness_contains(__FILE__, __LINE__, file, dlock_error_text(err), key) &&
                harness_contains(__FILE__, __LINE__, file, dlock_error_text(err), says);
    dlk_error_clear(&err);
    return fine;
}

TEST(files_that_are_not_what_they_should_be_are_refused_at_open)
{
    if (!certificates_make(&made))
        return;
    server.tls_port = 1; /* nobody dials */
    CHECK(refuses("tls.ca_file", "absent", "No such file"));
    CHECK(refuses("tls.ca_file", "password", "no certificates"));
    CHECK(refuses("tls.ca_file", "ca", "not a plain file"));
    CHECK(refuses("tls.ca_dir", "ca.pem", "not a directory"));
    CHECK(refuses("tls.crl_file", "ca.pem", "no list"));
    CHECK(refuses("tls.cert_file", "password", "no certificate"));
    CHECK(refuses("tls.key_file", "ca.key", "not that of tls.cert_file"));
    CHECK(refuses("tls.key_file", "locked.key", "tls.key_password_file"));
    certificates_remove(&made);
}
