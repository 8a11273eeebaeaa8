/* The lock service of a test program: which one, how it starts and how it ends; see world.h. */
#include "world.h"

#include "harness/certificates.h"
#include "harness/etcd_server.h"
#include "harness/memcached_server.h"
#include "harness/postgres_server.h"
#include "harness/redis_topology.h"
#include "harness/zookeeper_server.h"
#include "harness/zookeeper_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    bool ready;
    pid_t pid;              /* who made it and tidies up */
    char uri[256], dir[64]; /* the table's directory; of ZooKeeper the node above all */
    certificates certificates;                /* where it speaks TLS */
    memcached_server memcacheds[WORLD_NODES]; /* the first alone, or a memlock's */
    redis_server redises[WORLD_NODES];        /* the first alone, or a Redlock's */
    redis_server sentinel;                    /* knows the first */
    redis_cluster cluster;
    zookeeper_server zookeeper;
    etcd_server etcd;
    postgres_server postgres;
} world;

redis_server *world_node(int index)
{
    return world_is("redis+cluster") ? &world.cluster.node[index] : &world.redises[index];
}

memcached_server *world_memcached_node(int index)
{
    return &world.memcacheds[index];
}

static const char *backend(void)
{
    const char *name = getenv("DLK_TEST_BACKEND");
    return name ? name : "mem";
}

bool world_is(const char *name)
{
    return strcmp(backend(), name) == 0;
}

bool world_is_one_redis(void)
{
    return strncmp(backend(), "redis", strlen("redis")) == 0;
}

bool world_tells_the_line(dlock_kind kind)
{
    if (world_is_one_redis())
        return kind == DLOCK_MUTEX && !strstr(world_uri(), "layout=string");
    return world_is("mem") || world_is("file") || world_is("zookeeper") ||
           world_is("etcd") || world_is("postgres");
}

int world_node_count(void)
{
    return world_is("redlock") || world_is("memlock") ? WORLD_NODES : 1;
}

static bool is_own(void)
{
    return world_own && world_is(world_own->backend);
}

static void tidy(void)
{
    if (getpid() != world.pid)
        return;
    if (world_is("redis+sentinel"))
        redis_server_stop(&world.sentinel);
    for (int i = 0; i < world_node_count(); i++) {
        if (world_is_one_redis() || world_is("redlock"))
            redis_server_stop(world_node(i));
        if (world_is("memcached") || world_is("memlock"))
            memcached_server_stop(world_memcached_node(i));
    }
    if (world.certificates.dir[0])
        certificates_remove(&world.certificates);
    if (world_is("zookeeper"))
        zookeeper_server_stop(&world.zookeeper);
    if (world_is("etcd"))
        etcd_server_stop(&world.etcd);
    if (world_is("postgres"))
        postgres_server_stop(&world.postgres);
    if (is_own())
        world_own->end();
    if (world_is("file")) {
        (void)unlink(world_path());
        (void)rmdir(world.dir);
    }
}

/* The server may be shared with other programs, and by those that run this one again. */
static bool make_root(void)
{
    zookeeper_wire hand;
    if (!zookeeper_wire_open(&hand, world.zookeeper.port))
        return false;
    int code = zookeeper_wire_create(&hand, world.dir, "", ZOOKEEPER_PERSISTENT, NULL, 0);
    zookeeper_wire_close(&hand);
    return harness_eq_int(__FILE__, __LINE__, world.dir, code, ZOOKEEPER_OK);
}

const char *world_root(void)
{
    return world.dir;
}

static bool make_zookeeper(void)
{
    const char *layout = getenv("DLK_TEST_LAYOUT");
    if (!zookeeper_server_borrow(&world.zookeeper))
        return false;
    snprintf(world.dir, sizeof(world.dir), "/api-%d-%" PRId64, (int)getpid(), now_ms());
    snprintf(world.uri, sizeof(world.uri),
             "zookeeper://127.0.0.1:%d%s?zookeeper.layout=%s", world.zookeeper.port,
             world.dir, layout ? layout : "curator");
    return make_root();
}

static bool make_redis(void)
{
    const char *layout = getenv("DLK_TEST_LAYOUT");
    redis_server *redis = world_redis();
    if (getenv("DLK_TEST_TLS")) {
        if (!certificates_make(&world.certificates) ||
            !redis_server_start_tls(redis, world.certificates.dir, NULL))
            return false;
        snprintf(world.uri, sizeof(world.uri), "rediss://localhost:%d?tls.ca_file=%s",
                 redis->tls_port, certificates_path(&world.certificates, "ca.pem"));
        return true;
    }
    if (!redis_server_start(redis, NULL))
        return false;
    snprintf(world.uri, sizeof(world.uri), "redis://127.0.0.1:%d?redis.layout=%s",
             redis->port, layout ? layout : "redisson");
    return true;
}

bool world_sentinel_names(const char *service, int port)
{
    char there[32];
    snprintf(there, sizeof(there), "127.0.0.1 %d", port);
    /* It knows of no other, so nothing fails over, whoever stands still. */
    bool fine = strcmp(redis_server_call(&world.sentinel, "SENTINEL MONITOR %s %s 1",
                                         service, there),
                       "OK") == 0 &&
                strcmp(redis_server_call(&world.sentinel,
                                         "SENTINEL GET-MASTER-ADDR-BY-NAME %s", service),
                       there) == 0;
    return harness_check(__FILE__, __LINE__, fine, "the Sentinel knows its master");
}

static bool make_sentinel(void)
{
    const char *layout = getenv("DLK_TEST_LAYOUT");
    if (!redis_server_start(world_redis(), NULL) ||
        !redis_server_start_sentinel(&world.sentinel, NULL) ||
        !world_sentinel_names("service", world_redis()->port))
        return false;
    snprintf(world.uri, sizeof(world.uri),
             "redis+sentinel://127.0.0.1:%d/service?redis.layout=%s", world.sentinel.port,
             layout ? layout : "redisson");
    return true;
}

static bool make_cluster(void)
{
    const char *layout = getenv("DLK_TEST_LAYOUT");
    if (!redis_cluster_start(&world.cluster, 1, 0, 0, NULL))
        return false;
    snprintf(world.uri, sizeof(world.uri), "%s?redis.layout=%s", world.cluster.uri,
             layout ? layout : "redisson");
    return true;
}

static bool make_memcached(void)
{
    const char *layout = getenv("DLK_TEST_LAYOUT");
    const char *more = layout ? strchr(layout, '&') : NULL; /* it has one only */
    if (getenv("DLK_TEST_TLS")) {
        if (!certificates_make(&world.certificates) ||
            !memcached_server_start_tls(world_memcached(), world.certificates.dir,
                                        "server", NULL))
            return false;
        snprintf(world.uri, sizeof(world.uri), "memcacheds://localhost:%d?tls.ca_file=%s",
                 world_memcached()->tls_port,
                 certificates_path(&world.certificates, "ca.pem"));
        return true;
    }
    if (!memcached_server_start(world_memcached(), NULL))
        return false;
    snprintf(world.uri, sizeof(world.uri), "memcached://127.0.0.1:%d?%s",
             world_memcached()->port, more ? more + 1 : "");
    return true;
}

static bool make_memlock(void)
{
    size_t used = (size_t)snprintf(world.uri, sizeof(world.uri), "memlock://");
    for (int i = 0; i < WORLD_NODES; i++) {
        if (!memcached_server_start(world_memcached_node(i), NULL))
            return false;
        used +=
            (size_t)snprintf(world.uri + used, sizeof(world.uri) - used, "%s127.0.0.1:%d",
                             i ? "," : "", world_memcached_node(i)->port);
    }
    return true;
}

/* The server may be shared with other programs, and by those that run this one again. */
static bool make_etcd(void)
{
    const char *layout = getenv("DLK_TEST_LAYOUT"); /* it has one; what follows counts */
    const char *more = layout ? strchr(layout, '&') : NULL;
    if (!etcd_server_borrow(&world.etcd))
        return false;
    if (world.etcd.borrowed)
        snprintf(world.dir, sizeof(world.dir), "api-%d-%" PRId64 "/", (int)getpid(),
                 now_ms());
    snprintf(world.uri, sizeof(world.uri), "etcd://127.0.0.1:%d?client.prefix=%s%s",
             world.etcd.port, world.dir, more ? more : "");
    return true;
}

static bool make_redlock(void)
{
    size_t used = (size_t)snprintf(world.uri, sizeof(world.uri), "redlock://");
    for (int i = 0; i < WORLD_NODES; i++) {
        if (!redis_server_start(world_node(i), NULL))
            return false;
        used += (size_t)snprintf(world.uri + used, sizeof(world.uri) - used,
                                 "%s127.0.0.1:%d", i ? "," : "", world_node(i)->port);
    }
    snprintf(world.uri + used, sizeof(world.uri) - used, "?redlock.fencing=on");
    return true;
}

/* What follows a layout, for those who have one layout; as the query of a URI. */
static const char *more_settings(void)
{
    static char query[128];
    const char *layout = getenv("DLK_TEST_LAYOUT");
    const char *more = layout ? strchr(layout, '&') : NULL;
    snprintf(query, sizeof(query), "%s%s", more ? "?" : "", more ? more + 1 : "");
    return query;
}

const char *world_path(void)
{
    static char path[sizeof(world.dir) + sizeof("/table")];
    snprintf(path, sizeof(path), "%s/table", world.dir);
    return path;
}

static bool make_file(void)
{
    strcpy(world.dir, "/tmp/dlock-api-XXXXXX");
    if (!harness_check(__FILE__, __LINE__, harness_mkdtemp(world.dir) != NULL,
                       "a directory"))
        return false;
    snprintf(world.uri, sizeof(world.uri), "file://%s/table%s", world.dir,
             more_settings());
    return true;
}

static bool make_mem(void)
{
    snprintf(world.uri, sizeof(world.uri), "mem:api%s", more_settings());
    return true;
}

static bool make_postgres(void)
{
    if (!postgres_server_start(&world.postgres))
        return false;
    snprintf(world.uri, sizeof(world.uri), "postgres://postgres@127.0.0.1:%d/postgres%s",
             world.postgres.port, more_settings());
    return true;
}

static bool make_own(void)
{
    return world_own->make(world.uri, sizeof(world.uri));
}

static const struct {
    const char *backend;
    bool (*is_available)(void); /* NULL: it needs no server */
    bool (*make)(void);
} services[] = {
    {"mem", NULL, make_mem},
    {"file", NULL, make_file},
    {"redis", redis_server_available, make_redis},
    {"redis+sentinel", redis_server_available, make_sentinel},
    {"redis+cluster", redis_server_available, make_cluster},
    {"redlock", redis_server_available, make_redlock},
    {"memcached", memcached_server_available, make_memcached},
    {"memlock", memcached_server_available, make_memlock},
    {"zookeeper", zookeeper_server_available, make_zookeeper},
    {"etcd", etcd_server_available, make_etcd},
    {"postgres", postgres_server_available, make_postgres},
    {0},
};

/* The last one is nobody's. */
static size_t service_index(void)
{
    size_t i = 0;
    while (services[i].backend && !world_is(services[i].backend))
        i++;
    return i;
}

bool world_is_available(void)
{
    bool (*asked)(void) = services[service_index()].is_available;
    return !asked || asked();
}

static bool make_service(void)
{
    size_t index = service_index();
    if (!strstr(dlock_backends(), backend())) {
        harness_skip("this build doesn't have the backend");
        return false;
    }
    bool (*make)(void) = is_own() ? make_own : services[index].make;
    if (!make)
        return harness_check(__FILE__, __LINE__, false, "such a service");
    if (!world_is_available())
        return false;
    world.pid = getpid();
    return make() && atexit(tidy) == 0;
}

bool world_ready(void)
{
    if (!world.ready)
        world.ready = make_service();
    return world.ready;
}

bool world_is_fair(void)
{
    if (world_is("memcached") || world_is("memlock") || world_is("redlock") || is_own())
        return false;
    return !world_is_one_redis() || strstr(world.uri, "lock.fair=true");
}

const char *world_uri(void)
{
    return world.uri;
}

struct memcached_server *world_memcached(void)
{
    return world_memcached_node(0);
}

struct redis_server *world_redis(void)
{
    return world_node(0);
}

struct zookeeper_server *world_zookeeper(void)
{
    return &world.zookeeper;
}

struct etcd_server *world_etcd(void)
{
    return &world.etcd;
}

struct postgres_server *world_postgres(void)
{
    return &world.postgres;
}
