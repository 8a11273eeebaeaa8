/* memcacheds:// and memlocks:// on real servers: what is accepted, what is refused and in which
 * words. */
#include "api/world.h"
#include "harness/certificates.h"
#include "harness/memcached_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3 };

static certificates made;
static memcached_server nodes[NODES];
static atomic_int logged, told_blind; /* lines, and those about tls.verify */

static const char *path(const char *name)
{
    return certificates_path(&made, name);
}

static void stop(void)
{
    for (int i = 0; i < NODES; i++)
        memcached_server_stop(&nodes[i]);
    certificates_remove(&made);
}

static bool have(void)
{
    memset(nodes, 0, sizeof(nodes));
    logged = told_blind = 0;
    return memcached_server_available() && certificates_make(&made);
}

static bool start(const char *name, const char *options)
{
    return memcached_server_start_tls(&nodes[0], made.dir, name, options);
}

/* One that asks its clients for theirs. */
static bool start_asking(void)
{
    char options[128];
    snprintf(options, sizeof(options), "-o ssl_verify_mode=2,ssl_ca_cert=%s",
             path("ca.pem"));
    return start("server", options);
}

/* "memcacheds://HOST:PORT" */
static const char *uri_of(const char *host)
{
    static char uri[128];
    snprintf(uri, sizeof(uri), "memcacheds://%s:%d", host, nodes[0].tls_port);
    return uri;
}

static void on_log(void *user, dlock_level level, const char *line)
{
    (void)user;
    (void)level;
    told_blind += strstr(line, "insecure_none") != NULL;
    logged++;
}

/* Settings beside the authority: pairs, NULL at the end. */
typedef const char *const pairs[];

static dlock_err try_to_open(const char *uri, const char *const *more, dlock_client **ret,
                             dlock_error **err)
{
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    dlock_err code = dlock_conf_set(conf, "client.backoff_max_ms", "100", err);
    code = code ? code : dlock_conf_set_log(conf, on_log, NULL);
    for (; !code && more && more[0]; more += 2)
        code = dlock_conf_set(conf, more[0], more[1], err);
    if (code)
        return code;
    return dlock_client_open(uri, conf, ret, err);
}

static dlock_client *opened(const char *uri, const char *const *more)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_client *client = NULL;
    dlock_err code = try_to_open(uri, more, &client, &err);
    (void)harness_err(__FILE__, __LINE__, uri, code, DLOCK_OK, err);
    return client;
}

/* An open client carries a lock. */
static bool locks(dlock_client *client)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = dlock_acquire(client, "L", patience_ms(), &hold, &err);
    code = code ? code : dlock_hold_verify(hold, &err);
    code = code ? code : dlock_hold_release(hold, &err);
    return harness_err(__FILE__, __LINE__, "a lock", code, DLOCK_OK, err);
}

/* What the doctor says of the way there. */
static const char *transport(dlock_client *client)
{
    static char text[512];
    DLOCK_AUTO(dlock_info) findings = NULL;
    (void)dlock_client_doctor(client, &findings, NULL); /* no findings: seen below */
    const char *at = findings ? strstr(dlock_info_json(findings), "\"transport\"") : NULL;
    snprintf(text, sizeof(text), "%.500s", at ? at : "(nothing)");
    return text;
}

/* ---- Accepted ---- */

TEST(names_and_addresses_in_the_certificate_are_accepted)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};
    if (!have() || !start("server", NULL))
        return;
    pairs by_file = {"tls.ca_file", path("ca.pem"), NULL};
    pairs by_dir = {"tls.ca_dir", path("ca"), NULL};
    for (size_t i = 0; i < 2; i++) {
        DLOCK_AUTO(dlock_client) client = opened(uri_of(hosts[i]), by_file);
        CHECK(locks(client));
        CHECK_CONTAINS(transport(client), "TLSv1.3");
        CHECK_CONTAINS(transport(client), "is valid until");
    }
    DLOCK_AUTO(dlock_client) client = opened(uri_of("localhost"), by_dir);
    CHECK(locks(client));
    CHECK_EQ_INT(logged, 0);
    stop();
}

TEST(two_clients_one_of_them_plain_exclude_each_other)
{
    char uri[64];
    if (!have() || !start("server", NULL))
        return;
    pairs trust = {"tls.ca_file", path("ca.pem"), NULL};
    snprintf(uri, sizeof(uri), "memcached://127.0.0.1:%d", nodes[0].port);
    DLOCK_AUTO(dlock_client) one = opened(uri_of("127.0.0.1"), trust);
    DLOCK_AUTO(dlock_client) two = opened(uri, NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_OK(dlock_acquire(one, "L", patience_ms(), &hold, NULL), NULL);
    CHECK_CONTAINS(memcached_server_get(&nodes[0], "L"), " mutex ");
    CHECK_ERR(dlock_acquire(two, "L", 0, &none, NULL), DLOCK_EBUSY, NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK(locks(two));
    CHECK_CONTAINS(transport(two), "plain, on this machine");
    stop();
}

TEST(a_server_that_asks_for_a_certificate_gets_ours)
{
    if (!have() || !start_asking())
        return;
    pairs ours = {"tls.ca_file",
                  path("ca.pem"),
                  "tls.cert_file",
                  path("client.pem"),
                  "tls.key_file",
                  path("client.key"),
                  NULL};
    DLOCK_AUTO(dlock_client) client = opened(uri_of("127.0.0.1"), ours);
    CHECK(locks(client));
    stop();
}

TEST(a_server_that_comes_back_is_found_again)
{
    if (!have() || !start("server", NULL))
        return;
    pairs trust = {"tls.ca_file", path("ca.pem"), NULL};
    DLOCK_AUTO(dlock_client) client = opened(uri_of("127.0.0.1"), trust);
    CHECK(locks(client));
    memcached_server_kill(&nodes[0]);
    CHECK(memcached_server_restart(&nodes[0]));
    CHECK(locks(client));
    stop();
}

TEST(another_name_or_none_is_accepted_only_when_the_settings_say_so)
{
    if (!have() || !start("wrong", NULL))
        return;
    pairs named = {"tls.ca_file", path("ca.pem"), "tls.server_name", "elsewhere.example",
                   NULL};
    pairs chain = {"tls.ca_file", path("ca.pem"), "tls.verify", "chain", NULL};
    pairs blind = {"tls.verify", "insecure_none", NULL};
    DLOCK_AUTO(dlock_client) one = opened(uri_of("127.0.0.1"), named);
    DLOCK_AUTO(dlock_client) two = opened(uri_of("127.0.0.1"), chain);
    CHECK_EQ_INT(logged, 0);
    DLOCK_AUTO(dlock_client) three = opened(uri_of("127.0.0.1"), blind);
    AWAIT(told_blind == 1); /* and it is said */
    CHECK_CONTAINS(transport(three), "nobody checks who answers");
    CHECK(locks(one) && locks(two) && locks(three));
    stop();
}

/* ---- Refused ---- */

static void is_refused(const char *uri, const char *const *more, dlock_err expected,
                       const char *says)
{
    DLOCK_AUTO(dlock_client) none = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(try_to_open(uri, more, &none, &err), expected, err);
    CHECK_CONTAINS(dlock_error_text(err), says);
    CHECK_CONTAINS(dlock_error_text(err), "memcached: ");
}

TEST(bad_certificates_are_refused_with_the_reason)
{
    if (!have())
        return;
    for (size_t i = 0; i < certificate_refusal_count; i++) {
        const certificate_refusal *is = &certificate_refusals[i];
        harness_note("%s %s", is->shown, is->key ? is->key : "");
        if (!start(is->shown, NULL))
            return;
        pairs more = {"tls.ca_file", path("ca.pem"), is->key,
                      is->file ? path(is->file) : is->value, NULL};
        is_refused(uri_of("127.0.0.1"), more, is->code, is->says);
        memcached_server_stop(&nodes[0]);
    }
    stop();
}

TEST(a_server_that_asks_for_a_certificate_and_gets_none_says_so)
{
    if (!have() || !start_asking())
        return;
    pairs none_of_ours = {"tls.ca_file", path("ca.pem"), NULL};
    is_refused(uri_of("127.0.0.1"), none_of_ours, DLOCK_EACCES,
               "asks for a certificate of ours");
    stop();
}

TEST(
    a_plain_server_behind_memcacheds_and_a_tls_server_behind_memcached_are_said_to_be_that)
{
    char uri[64];
    if (!have() || !start("server", NULL))
        return;
    pairs trust = {"tls.ca_file", path("ca.pem"), NULL};
    snprintf(uri, sizeof(uri), "memcacheds://127.0.0.1:%d", nodes[0].port);
    is_refused(uri, trust, DLOCK_EPROTO, "TLS");
    snprintf(uri, sizeof(uri), "memcached://127.0.0.1:%d", nodes[0].tls_port);
    is_refused(uri, NULL, DLOCK_EUNAVAIL, "does it expect TLS (memcacheds://)?");
    stop();
}

/* ---- On several ---- */

static const char *uri_of_all(void)
{
    static char uri[128];
    snprintf(uri, sizeof(uri), "memlocks://localhost:%d,localhost:%d,localhost:%d",
             nodes[0].tls_port, nodes[1].tls_port, nodes[2].tls_port);
    return uri;
}

static bool start_all(const char *first, const char *second, const char *third)
{
    const char *const names[NODES] = {first, second, third};
    for (int i = 0; i < NODES; i++)
        if (!memcached_server_start_tls(&nodes[i], made.dir, names[i], NULL))
            return false;
    return true;
}

TEST(memlocks_takes_a_lock_on_three_by_tls)
{
    if (!have() || !start_all("server", "server", "server"))
        return;
    pairs trust = {"tls.ca_file", path("ca.pem"), NULL};
    DLOCK_AUTO(dlock_client) client = opened(uri_of_all(), trust);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_acquire(client, "L", patience_ms(), &hold, NULL), NULL);
    for (int i = 0; i < NODES; i++)
        AWAIT(strstr(memcached_server_get(&nodes[i], "L"), " mutex "));
    CHECK_CONTAINS(transport(client), "TLSv1.3");
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    stop();
}

TEST(memlocks_does_without_one_that_shows_a_bad_certificate_but_not_without_two)
{
    if (!have() || !start_all("server", "server", "wrong"))
        return;
    pairs trust = {"tls.ca_file", path("ca.pem"), NULL};
    DLOCK_AUTO(dlock_client) client = opened(uri_of_all(), trust);
    CHECK(locks(client));
    stop();
    if (!have() || !start_all("server", "expired", "wrong"))
        return;
    pairs anew = {"tls.ca_file", path("ca.pem"), NULL};
    is_refused(uri_of_all(), anew, DLOCK_EACCES, "no TLS with localhost");
    stop();
}
