/* What can't be: services that are none, users without rights, settings, certificates. */
#include "harness/certificates.h"
#include "harness/redis_server.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dlock_err code;

static const char *refusal(const char *begin, int port, const char *more)
{
    char uri[512];
    snprintf(uri, sizeof(uri), "%s:%d%s%sclient.timeout_ms=20000%s", begin, port, more,
             strchr(more, '?') ? "&" : "?",
             strstr(more, "connect_ms") ? "" : "&client.connect_ms=20000");
    return world_refusal(uri, &code);
}

static bool takes(dlock_client *client, const char *name, dlock_err expected)
{
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_err got = dlock_lock_acquire(lock, PATIENCE_MS, &hold, &err);
    return harness_err(__FILE__, __LINE__, name, got, expected, err);
}

TEST(a_member_without_the_json_gateway_serves_us)
{
    etcd_server server;
    if (!etcd_server_available())
        return;
    CHECK(etcd_server_start_silent(&server, "--enable-grpc-gateway=false"));
    dlock_client *client = world_client_at(server.port, "");
    CHECK(client);
    CHECK(takes(client, "without", DLOCK_OK));
    dlock_client_free(client);
    etcd_server_stop(&server);
}

TEST(what_is_no_etcd_is_refused_at_once)
{
    redis_server redis;
    if (redis_server_available()) {
        CHECK(redis_server_start(&redis, NULL));
        CHECK_CONTAINS(refusal("etcd://127.0.0.1", redis.port, ""),
                       "it doesn't answer in HTTP/2: is it the right port?");
        CHECK_EQ_INT(code, DLOCK_EPROTO);
        redis_server_stop(&redis);
    }
    BEGIN();
    (void)refusal("etcds://127.0.0.1", world_server.port, "?client.connect_ms=2000");
    CHECK(code == DLOCK_EPROTO || code == DLOCK_EUNAVAIL);
}

TEST(settings_that_make_no_sense_are_refused_with_the_reason)
{
    BEGIN();
    static const struct {
        const char *begin, *more, *why;
    } bad[] = {
        {"etcd://127.0.0.1", "/path", "no path"},
        {"etcd://127.0.0.1", "?auth.password=x", "auth.username"},
        {"etcd://127.0.0.1", "?tls.ca_file=/x", "etcds://"},
        {"etcds://127.0.0.1", "?tls.cert_file=/x", "tls.key_file"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        CHECK_CONTAINS(refusal(bad[i].begin, world_server.port, bad[i].more), bad[i].why);
        CHECK_EQ_INT(code, DLOCK_EINVAL);
    }
}

TEST(a_lease_of_its_own_isnt_to_be_had)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("");
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_lock *none = NULL;
    CHECK_EQ_INT(dlock_conf_set(conf, "lock.ttl_ms", "5000", NULL), DLOCK_OK);
    CHECK_ERR(dlock_lock_new(client, DLOCK_MUTEX, "refused/ttl", conf, &none, &err),
              DLOCK_EINVAL, err);
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, "refused/ttl", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock, PATIENCE_MS, NULL);
    CHECK_ERR(dlock_hold_extend(hold, 90000, &err), DLOCK_ENOTSUP, err);
    CHECK_ERR(dlock_hold_extend(hold, 100, &err), DLOCK_ENOTSUP, err); /* it has more */
    DLOCK_AUTO(dlock_info) features = NULL;
    CHECK_OK(dlock_client_features(client, &features, &err), err);
    CHECK_STR(dlock_info_get(features, "extend"), "0");
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_ERR(dlock_lock_new(client, DLOCK_SEMAPHORE, "refused/size", NULL, &none, &err),
              DLOCK_EINVAL, err);
    CHECK_CONTAINS(dlock_error_text(err), "lock.permits");
}

/* ---- users ---- */

static bool admin(etcd_server *server, const char *path, const char *body)
{
    return strstr(etcd_server_say(server, path, "%s", body), "revision") != NULL;
}

/* root, and "locker", who may do what she likes below "mine/". */
static bool make_users(etcd_server *server)
{
    return admin(server, "/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"r\"}") &&
           admin(server, "/v3/auth/role/add", "{\"name\":\"root\"}") &&
           admin(server, "/v3/auth/user/grant",
                 "{\"user\":\"root\",\"role\":\"root\"}") &&
           admin(server, "/v3/auth/user/add",
                 "{\"name\":\"locker\",\"password\":\"pa ss\"}") &&
           admin(server, "/v3/auth/role/add", "{\"name\":\"locks\"}") &&
           admin(server, "/v3/auth/role/grant",
                 "{\"name\":\"locks\",\"perm\":{\"permType\":\"READWRITE\",\"key\":"
                 "\"bWluZS8=\",\"range_end\":\"bWluZTA=\"}}") &&
           admin(server, "/v3/auth/user/grant",
                 "{\"user\":\"locker\",\"role\":\"locks\"}") &&
           admin(server, "/v3/auth/enable", "{}");
}

static dlock_client *locker(const etcd_server *server)
{
    return api_open("etcd://locker:pa%%20ss@127.0.0.1:%d?lock.ttl_ms=60000"
                    "&client.connect_ms=30000&client.timeout_ms=30000",
                    server->port);
}

TEST(users_have_the_rights_of_their_roles_and_a_new_token_when_the_old_is_gone)
{
    etcd_server server;
    if (!etcd_server_available() || !etcd_server_start(&server, NULL))
        return;
    CHECK(make_users(&server));
    dlock_client *nobody = world_client_at(server.port, "");
    CHECK(takes(nobody, "mine/a", DLOCK_EACCES)); /* a lease may be anybody's */
    dlock_client_free(nobody);
    (void)refusal("etcd://locker:wrong@127.0.0.1", server.port, "");
    CHECK_EQ_INT(code, DLOCK_EACCES);
    dlock_client *client = locker(&server);
    CHECK(client);
    CHECK(takes(client, "mine/a", DLOCK_OK));
    CHECK(takes(client, "others/a", DLOCK_EACCES));
    dlock_lock *lock = api_lock(client, DLOCK_MUTEX, "mine/b", NULL);
    dlock_hold *hold = world_take(lock, PATIENCE_MS, NULL);
    CHECK(hold);
    CHECK(etcd_server_restart_silent(&server)); /* it forgets the tokens */
    AWAIT(dlock_hold_verify(hold, NULL) == DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    etcd_server_stop(&server);
}

/* How often somebody has said who it is. */
static int signed_on(const etcd_server *server)
{
    static const char line[] = "grpc_server_handled_total{grpc_code=\"OK\",grpc_method="
                               "\"Authenticate\"";
    const char *at = strstr(etcd_server_say(server, "/metrics", " "), line);
    at = at ? strchr(at, '}') : NULL;
    return at ? atoi(at + 1) : 0;
}

/* What was refused for it goes out once more with the new one, over the same connection. */
TEST(a_token_that_has_expired_costs_no_connection)
{
    etcd_server server;
    if (!etcd_server_available() || !etcd_server_start(&server, "--auth-token-ttl=1"))
        return;
    CHECK(make_users(&server));
    dlock_client *client = locker(&server);
    CHECK(client);
    int before = signed_on(&server);
    CHECK(before > 0);
    for (int idle = 1; signed_on(&server) == before && idle < 10; idle++) {
        nap_ms(500 * idle); /* an unused one expires, whenever that is */
        CHECK(takes(client, "mine/a", DLOCK_OK));
    }
    CHECK(signed_on(&server) > before);
    CHECK_EQ_INT(api_stat(client, "reconnects"), 0);
    dlock_client_free(client);
    etcd_server_stop(&server);
}

TEST(a_user_where_there_are_none_is_refused)
{
    BEGIN();
    CHECK_CONTAINS(refusal("etcd://a:b@127.0.0.1", world_server.port, ""),
                   "isn't enabled");
    CHECK_EQ_INT(code, DLOCK_EACCES);
}

/* ---- certificates ---- */

TEST(a_server_is_known_by_its_certificate_and_name)
{
    certificates made;
    etcd_server server;
    char good[160], other[160];
    if (!etcd_server_available() || !certificates_make(&made))
        return;
    CHECK(etcd_server_start_tls(&server, made.dir, NULL));
    snprintf(good, sizeof(good), "?tls.ca_file=%s&client.connect_ms=20000",
             certificates_path(&made, "ca.pem"));
    snprintf(other, sizeof(other), "?tls.ca_file=%s",
             certificates_path(&made, "other.pem"));
    CHECK_STR(refusal("etcds://localhost", server.port, good), "");
    CHECK_STR(refusal("etcds://127.0.0.1", server.port, good), "");
    strcat(good, "&tls.server_name=elsewhere.example");
    (void)refusal("etcds://127.0.0.1", server.port, good);
    CHECK_EQ_INT(code, DLOCK_EACCES);
    (void)refusal("etcds://localhost", server.port, other);
    CHECK_EQ_INT(code, DLOCK_EACCES);
    (void)refusal("etcds://localhost", server.port, "");
    CHECK_EQ_INT(code, DLOCK_EACCES); /* the system's authorities don't know it */
    etcd_server_stop(&server);
    certificates_remove(&made);
}
