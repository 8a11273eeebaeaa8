/* What was given up doesn't come back: behind a relay that stops taking, so that requests stay in
 * this machine's kernel as before a network that is cut, an acquire is given up. When the relay
 * goes on the server must not hear of it any more, or it grants a lock that nobody holds. Of every
 * service, in the clear and by TLS. */
#include "harness/certificates.h"
#include "harness/etcd_server.h"
#include "harness/memcached_server.h"
#include "harness/redis_topology.h"
#include "harness/relay.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The others fill what the relay takes in advance; the last one is looked at. */
enum { NODES = 3, OTHERS = 40, NAME_SIZE = 1024 };

typedef struct site {
    relay *before[NODES];
    int count;
    size_t name_size;
    char uri[256], more[256]; /* a query */
} site;

static site at;
static redis_server nodes[NODES];
static redis_trio trio;
static redis_cluster cluster;
static memcached_server memory;
static etcd_server etcd;
static certificates made;

/* ---- the sites ---- */

static int put_relay(int to)
{
    relay *r = relay_start(to);
    if (!r)
        return 0;
    at.before[at.count++] = r;
    return relay_port(r);
}

static void clear_site(void)
{
    for (int i = 0; i < at.count; i++)
        relay_stop(at.before[i]);
    at.count = 0;
    for (int i = 0; i < NODES; i++)
        redis_server_stop(&nodes[i]);
    redis_trio_stop(&trio);
    redis_cluster_stop(&cluster);
    memcached_server_stop(&memory);
    etcd_server_stop(&etcd);
    if (made.dir[0])
        certificates_remove(&made);
    made = (certificates){.dir = ""};
}

static void begin_site(size_t name_size)
{
    at = (site){.name_size = name_size};
}

static bool with_redis(void)
{
    begin_site(900);
    if (!redis_server_available() || !redis_server_start(&nodes[0], NULL))
        return false;
    int port = put_relay(nodes[0].port);
    snprintf(at.uri, sizeof(at.uri), "redis://127.0.0.1:%d?", port);
    return port != 0;
}

static bool with_redis_tls(void)
{
    begin_site(900);
    if (!redis_server_available() || !certificates_make(&made) ||
        !redis_server_start_tls(&nodes[0], made.dir, NULL))
        return false;
    int port = put_relay(nodes[0].tls_port);
    snprintf(at.uri, sizeof(at.uri), "rediss://127.0.0.1:%d?tls.ca_file=%s&", port,
             certificates_path(&made, "ca.pem"));
    return port != 0;
}

static bool with_redlock(void)
{
    begin_site(900);
    if (!redis_server_available())
        return false;
    snprintf(at.uri, sizeof(at.uri), "redlock://");
    for (int i = 0; i < NODES; i++) {
        int port = redis_server_start(&nodes[i], NULL) ? put_relay(nodes[i].port) : 0;
        if (port == 0)
            return false;
        size_t used = strlen(at.uri);
        snprintf(at.uri + used, sizeof(at.uri) - used, "127.0.0.1:%d%s", port,
                 i < NODES - 1 ? "," : "?");
    }
    return true;
}

/* Its only node sends all to the relay. */
static bool with_cluster(void)
{
    begin_site(900);
    if (!redis_server_available() || !redis_cluster_start(&cluster, 1, 0, 0, NULL))
        return false;
    int port = put_relay(cluster.node[0].port);
    snprintf(at.uri, sizeof(at.uri), "redis+cluster://127.0.0.1:%d?", port);
    return port != 0 &&
           strcmp(redis_server_call(&cluster.node[0],
                                    "CONFIG SET cluster-announce-port %d", port),
                  "OK") == 0;
}

static int put_before(void *user, int port)
{
    (void)user;
    return put_relay(port);
}

static bool with_sentinels(void)
{
    const trio_options options = {.before = put_before};
    begin_site(900);
    if (!redis_server_available() || !redis_trio_start(&trio, &options))
        return false;
    for (int i = 0; i < at.count; i++)
        relay_spare(at.before[i]); /* replicas' and Sentinels' */
    snprintf(at.uri, sizeof(at.uri), "%s?", trio.uri);
    return true;
}

static bool with_memcached(void)
{
    begin_site(200);
    if (!memcached_server_available() || !memcached_server_start(&memory, NULL))
        return false;
    int port = put_relay(memory.port);
    snprintf(at.uri, sizeof(at.uri), "memcached://127.0.0.1:%d?", port);
    return port != 0;
}

static bool with_memcached_tls(void)
{
    begin_site(200);
    if (!memcached_server_available() || !certificates_make(&made) ||
        !memcached_server_start_tls(&memory, made.dir, "server", NULL))
        return false;
    int port = put_relay(memory.tls_port);
    snprintf(at.uri, sizeof(at.uri), "memcacheds://127.0.0.1:%d?tls.ca_file=%s&", port,
             certificates_path(&made, "ca.pem"));
    return port != 0;
}

static bool with_etcd(void)
{
    begin_site(900);
    if (!etcd_server_available() || !etcd_server_start(&etcd, NULL))
        return false;
    int port = put_relay(etcd.port);
    snprintf(at.uri, sizeof(at.uri), "etcd://127.0.0.1:%d?", port);
    return port != 0;
}

static bool with_etcd_tls(void)
{
    begin_site(900);
    if (!etcd_server_available() || !certificates_make(&made) ||
        !etcd_server_start_tls(&etcd, made.dir, NULL))
        return false;
    int port = put_relay(etcd.port);
    snprintf(at.uri, sizeof(at.uri), "etcds://127.0.0.1:%d?tls.ca_file=%s&", port,
             certificates_path(&made, "ca.pem"));
    return port != 0;
}

/* ---- giving up ---- */

static void hold_all(relay_held held)
{
    for (int i = 0; i < at.count; i++)
        relay_hold(at.before[i], held);
}

static bool all_settled(void)
{
    bool settled = true;
    for (int i = 0; i < at.count; i++)
        settled = relay_is_settled(at.before[i]) && settled;
    return settled;
}

static dlock_client *open_with(const char *more)
{
    char uri[640];
    snprintf(uri, sizeof(uri),
             "%slock.ttl_ms=60000&client.backoff_min_ms=5&"
             "client.backoff_max_ms=50&%s",
             at.uri, more);
    return stage_open(uri, NULL);
}

/* Each way of giving up has names of its own, of this letter. */
static dlock_lock *lock_of(dlock_client *client, char letter, int number)
{
    char name[NAME_SIZE];
    memset(name, letter, at.name_size);
    snprintf(name + at.name_size, sizeof(name) - at.name_size, "%d", number);
    return stage_lock(client, name);
}

/* A connection that has been at work, and that takes no more from now on. */
static void warm_up(dlock_client *client)
{
    DLOCK_AUTO(dlock_lock) lock = stage_lock(client, "warm");
    DLOCK_AUTO(dlock_hold) hold = stage_take(lock);
    CHECK(hold && dlock_hold_release(hold, NULL) == DLOCK_OK);
    hold_all(RELAY_ALL);
}

static int64_t at_this_speed(int64_t ms)
{
    return getenv("DLK_TEST_SLOW") ? 4 * ms : ms;
}

static dlock_client *open_impatient(int64_t close_ms)
{
    char settings[128];
    snprintf(settings, sizeof(settings),
             "client.timeout_ms=%lld&client.connect_ms=%lld&client.close_ms=%lld",
             (long long)at_this_speed(200), (long long)at_this_speed(300),
             (long long)close_ms);
    return open_with(settings);
}

/* All of them at once; the last is the one to be looked at. */
static void ask_in_vain(dlock_client *client, char letter, int64_t wait_ms)
{
    dlock_op *ops[OTHERS + 1];
    dlock_lock *locks[OTHERS + 1];
    for (int i = 0; i <= OTHERS; i++) {
        locks[i] = lock_of(client, letter, i);
        ops[i] = dlock_lock_acquire_start(locks[i], wait_ms);
    }
    for (int i = 0; i <= OTHERS; i++) {
        if (wait_ms != DLOCK_FOREVER)
            (void)harness_check(__FILE__, __LINE__,
                                dlock_op_wait(ops[i], patience_ms()) == DLOCK_OK &&
                                    dlock_op_result(ops[i]) != DLOCK_OK,
                                "it was given up");
        dlock_op_free(ops[i]);
        dlock_lock_free(locks[i]);
    }
}

static void nobody_has_it(char letter)
{
    hold_all(RELAY_NONE);
    AWAIT(all_settled());
    for (int i = 0; i < NODES; i++)
        if (nodes[i].pid > 0)
            /* The lock's own key: the counter of its tokens stays, where one was given. */
            CHECK_STR(redis_server_call(&nodes[i], "KEYS %c*%d", letter, OTHERS), "");
    DLOCK_AUTO(dlock_client) client = open_with("client.timeout_ms=20000");
    CHECK(client != NULL);
    DLOCK_AUTO(dlock_lock) lock = lock_of(client, letter, OTHERS);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(lock, 0, &hold, NULL), DLOCK_OK);
}

/* The connection doesn't answer in time and is dropped, later the acquires are given up. The client
 * goes on by connections that work, and gives back what it may have been granted. */
static void given_back_elsewhere(char letter)
{
    DLOCK_AUTO(dlock_client) client = open_impatient(patience_ms());
    CHECK(client != NULL);
    warm_up(client);
    ask_in_vain(client, letter, at_this_speed(1000));
    hold_all(RELAY_OLD);
    /* Confirmed: all was given back. */
    CHECK(!harness_failed());
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    nobody_has_it(letter);
}

/* The network is gone for all, and then so is the client. */
static void closed_after_that(char letter)
{
    DLOCK_AUTO(dlock_client) client = open_impatient(100);
    CHECK(client != NULL);
    warm_up(client);
    ask_in_vain(client, letter, at_this_speed(1000));
    CHECK(!harness_failed());
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_EUNKNOWN);
    nobody_has_it(letter);
}

/* … or it is closed while the connection still counts as good. */
static void closed_at_once(char letter)
{
    DLOCK_AUTO(dlock_client)
    client = open_with("client.timeout_ms=20000&client.close_ms=100");
    CHECK(client != NULL);
    warm_up(client);
    ask_in_vain(client, letter, DLOCK_FOREVER);
    CHECK(!harness_failed());
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_EUNKNOWN);
    nobody_has_it(letter);
}

static void nothing_comes_back(bool (*set)(void))
{
    if (set())
        given_back_elsewhere('x');
    if (at.count > 0 && !harness_failed())
        closed_after_that('y');
    if (at.count > 0 && !harness_failed())
        closed_at_once('z');
    clear_site();
}

#define COMES_BACK_NOT(what)                                                             \
    TEST(an_acquire_that_was_given_up_never_arrives_##what)                              \
    {                                                                                    \
        nothing_comes_back(with_##what);                                                 \
    }

COMES_BACK_NOT(redis)
COMES_BACK_NOT(redis_tls)
COMES_BACK_NOT(redlock)
COMES_BACK_NOT(cluster)
COMES_BACK_NOT(sentinels)
COMES_BACK_NOT(memcached)
COMES_BACK_NOT(memcached_tls)
COMES_BACK_NOT(etcd)
COMES_BACK_NOT(etcd_tls)
