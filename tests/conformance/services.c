/* The lock services that tests/api/world starts, and what can be done to each; see the header. */
#include "services.h"

#include "grid.h"

#include "harness/etcd_server.h"
#include "harness/memcached_server.h"
#include "harness/postgres_server.h"
#include "harness/redis_server.h"
#include "harness/server.h"
#include "harness/zookeeper_server.h"
#include "proxy/proxy.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- redis; of a Redlock all nodes together, single ones are tests/backends/redlock's ---- */

static void redis_freeze(void)
{
    for (int i = 0; i < world_node_count(); i++)
        server_freeze(world_node(i)->pid);
}

static void redis_thaw(void)
{
    for (int i = 0; i < world_node_count(); i++)
        server_thaw(world_node(i)->pid);
}

static void redis_kill(void)
{
    for (int i = 0; i < world_node_count(); i++)
        redis_server_kill(world_node(i));
}

static bool redis_restart(void)
{
    bool fine = true;
    for (int i = 0; i < world_node_count(); i++)
        fine = redis_server_restart(world_node(i)) && fine;
    return fine;
}

static bool redis_forget(void)
{
    bool fine = true;
    for (int i = 0; i < world_node_count(); i++)
        fine = strcmp(redis_server_call(world_node(i), "FLUSHALL"), "OK") == 0 && fine;
    return fine;
}

/* Alone after a start, a node of a cluster is careful for two seconds. */
static bool cluster_restart(void)
{
    if (!redis_restart())
        return false;
    int64_t end = awake_now_ms() + patience_ms();
    while (
        !strstr(redis_server_call(world_redis(), "CLUSTER INFO"), "cluster_state:ok") &&
        awake_now_ms() < end)
        nap_ms(1);
    return awake_now_ms() < end;
}

/* Of a semaphore that nobody holds stays how many permits it has. */
static bool counts_permits(const char *key)
{
    return world_kind() == DLOCK_SEMAPHORE &&
           strcmp(redis_server_call(world_redis(), "GET %s", key), "1") == 0;
}

static const char *redis_leftovers(void)
{
    static char rest[4096];
    char all[4096], *save = NULL;
    rest[0] = '\0';
    for (int i = 0; i < world_node_count(); i++) {
        snprintf(all, sizeof(all), "%s", redis_server_call(world_node(i), "KEYS *"));
        for (char *key = strtok_r(all, " ", &save); key; key = strtok_r(NULL, " ", &save))
            if (!strstr(key, "lock_token:") && !strstr(key, "dlock_client:") &&
                !counts_permits(key))
                snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), "%s ", key);
    }
    return rest;
}

/* ---- zookeeper ---- */

static int zookeeper_port(void)
{
    return world_zookeeper()->port;
}

static void zookeeper_freeze(void)
{
    zookeeper_server_freeze(world_zookeeper());
}

static void zookeeper_thaw(void)
{
    zookeeper_server_thaw(world_zookeeper());
}

static void zookeeper_kill(void)
{
    zookeeper_server_kill(world_zookeeper());
}

/* With all that it knew: one that came back with nothing would be another one. */
static bool zookeeper_restart(void)
{
    return zookeeper_server_restart(world_zookeeper());
}

/* The nodes of sessions, which are the locks. */
static const char *zookeeper_leftovers(void)
{
    static char rest[4096];
    char *copy = strdup(zookeeper_server_say(world_zookeeper(), "dump")), *save = NULL;
    rest[0] = '\0';
    for (char *line = copy ? strtok_r(copy, "\n\t ", &save) : NULL; line;
         line = strtok_r(NULL, "\n\t ", &save))
        if (strncmp(line, world_root(), strlen(world_root())) == 0 &&
            line[strlen(world_root())] == '/')
            snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), "%s ", line);
    free(copy);
    return rest;
}

/* ---- etcd ---- */

static int etcd_port(void)
{
    return world_etcd()->port;
}

static void etcd_freeze(void)
{
    server_freeze(world_etcd()->pid);
}

static void etcd_thaw(void)
{
    server_thaw(world_etcd()->pid);
}

static void etcd_kill(void)
{
    etcd_server_kill(world_etcd());
}

/* With all that it knew: one that came back with nothing would be another one. */
static bool etcd_restart(void)
{
    return etcd_server_restart(world_etcd());
}

/* A fence against what comes late isn't one: it goes with its client's lease. */
static const char *etcd_leftovers(void)
{
    static char rest[4096];
    char *copy = strdup(etcd_server_keys(world_etcd(), world_root())), *save = NULL;
    rest[0] = '\0';
    for (char *key = copy ? strtok_r(copy, " ", &save) : NULL; key;
         key = strtok_r(NULL, " ", &save))
        if (!strstr(key, "!late/"))
            snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), "%s ", key);
    free(copy);
    return rest;
}

/* ---- memcached; of a memlock all nodes together ---- */

/* To whole seconds, and two for what its clock may lag. */
enum { MEMCACHED_ROUNDS_UP_MS = 3000 };

static int memcached_port(void)
{
    return world_memcached()->port;
}

static void memcached_freeze(void)
{
    for (int i = 0; i < world_node_count(); i++)
        server_freeze(world_memcached_node(i)->pid);
}

static void memcached_thaw(void)
{
    for (int i = 0; i < world_node_count(); i++)
        server_thaw(world_memcached_node(i)->pid);
}

static void memcached_kill(void)
{
    for (int i = 0; i < world_node_count(); i++)
        memcached_server_kill(world_memcached_node(i));
}

/* It counts its stores anew, from the second in which it starts: tokens rise from one second to the
 * next. */
static bool memcached_restart(void)
{
    bool fine = true;
    time_t now = time(NULL);
    while (time(NULL) == now)
        nap_ms(1);
    for (int i = 0; i < world_node_count(); i++)
        fine = memcached_server_restart(world_memcached_node(i)) && fine;
    return fine;
}

static bool memcached_forget(void)
{
    bool fine = true;
    for (int i = 0; i < world_node_count(); i++) {
        const char *said = memcached_server_say(world_memcached_node(i), "flush_all");
        fine = strcmp(said, "OK") == 0 && fine;
    }
    return fine;
}

static const char *memcached_leftovers(void)
{
    static char rest[4096];
    rest[0] = '\0';
    for (int i = 0; i < world_node_count(); i++) {
        const char *items = memcached_server_items(world_memcached_node(i));
        snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), "%s",
                 items ? items : "?");
    }
    return rest;
}

/* ---- postgres ---- */

static int postgres_port(void)
{
    return world_postgres()->port;
}

static void postgres_freeze(void)
{
    postgres_server_freeze(world_postgres());
}

static void postgres_thaw(void)
{
    postgres_server_thaw(world_postgres());
}

static void postgres_kill(void)
{
    postgres_server_kill(world_postgres());
}

/* With all that it knew. */
static bool postgres_restart(void)
{
    return postgres_server_restart(world_postgres());
}

static const char *postgres_leftovers(void)
{
    return postgres_server_ask(world_postgres(),
                               "SELECT name, owner FROM dlock.holders UNION ALL "
                               "SELECT name, owner FROM dlock.line");
}

/* ---- file ---- */

/* The file is replaced: who comes next makes a table of its own. */
static bool file_forget(void)
{
    return unlink(world_path()) == 0;
}

/* ---- The table ---- */

static const char no_server[] = "no server: the clients do it among themselves";
static const char no_wire[] =
    "nothing is sent: a call has happened when it returns, and costs no round trip";
static const char no_clock[] = "leases and validity run on one and the same boot clock";
static const char no_messages[] = "the releaser wakes the next one itself; no message";
static const char no_rights[] = "no users or passwords but the file's mode";
static const char no_counter[] =
    "the counter isn't open to others; tests/backends/local "
    "sets it (a_counter_at_its_end_is_an_error_and_not_a_token)";

static const char no_order[] =
    "who asks first after a release gets it: no order is promised";
static const char no_messages_there[] =
    "no messages: waiters look again every client.retry_ms";

static const char no_clock_there[] =
    "a session ends by the server's monotonic clock, which nobody sets";
static const char no_messages_apart[] =
    "who watches is told on the connection of the answers, in their order";
static const char other_rights[] = "digests and ACLs instead: "
                                   "tests/faults/test_zookeeper_limits.c";
static const char no_forgetting[] =
    "what an ensemble has confirmed isn't lost; one that is set up anew is N8";
static const char no_eviction[] = "nothing is thrown away when memory is short";
static const char transactions[] =
    "tokens are the numbers of the server's transactions, which nobody sets";

#define ZOOKEEPER                                                                        \
    .backend = "zookeeper", .class = "correctness",                                      \
    .lacks = {[CAN_FORGET] = no_forgetting,       [CAN_CLOCK] = no_clock_there,          \
              [CAN_MESSAGES] = no_messages_apart, [CAN_RIGHTS] = other_rights,           \
              [CAN_EVICT] = no_eviction,          [CAN_COUNTER] = transactions},         \
    .framing = "zookeeper", .port = zookeeper_port, .take = "create*", .give = "delete", \
    .keep = "getData", .grant = "getChildren*", .freeze = zookeeper_freeze,              \
    .thaw = zookeeper_thaw, .kill = zookeeper_kill, .restart = zookeeper_restart,        \
    .leftovers = zookeeper_leftovers

static const char no_clock_of_leases[] =
    "a lease ends by the leader's monotonic clock, which nobody sets";
static const char no_messages_but_history[] =
    "who watches names the revision to begin with, so nothing that happened is missed";
static const char users_and_roles[] = "users and roles instead: tests/backends/etcd";
static const char no_forgetting_members[] =
    "what a cluster has confirmed isn't lost; one that is set up anew is another one";
static const char revisions[] = "tokens are the cluster's revisions, which nobody sets";

#define ETCD                                                                             \
    .backend = "etcd", .class = "correctness",                                           \
    .lacks = {[CAN_FORGET] = no_forgetting_members,                                      \
              [CAN_CLOCK] = no_clock_of_leases,                                          \
              [CAN_MESSAGES] = no_messages_but_history,                                  \
              [CAN_RIGHTS] = users_and_roles,                                            \
              [CAN_EVICT] = no_eviction,                                                 \
              [CAN_COUNTER] = revisions},                                                \
    .framing = "grpc", .port = etcd_port, .take = "put", .give = "delete",               \
    .keep = "LeaseKeepAlive", .freeze = etcd_freeze, .thaw = etcd_thaw,                  \
    .kill = etcd_kill, .restart = etcd_restart, .leftovers = etcd_leftovers

static const char no_clock_of_day[] =
    "an item ends by the server's monotonic clock, which nobody sets";
static const char no_users[] = "no users, passwords or rights";
static const char numbers_of_stores[] =
    "tokens are the numbers of the server's stores, which nobody sets";
static const char caches_eviction[] = "a cache's eviction is N15";

static const char no_clock_set[] =
    "leases end by the machine's clock, which the tests don't set";
static const char no_messages_yet[] =
    "messages come on the connection of the answers, in their order";
static const char roles[] = "roles and pg_hba.conf instead: tests/backends/postgres";
static const char no_forgetting_rows[] = "what was confirmed is on its disk";
static const char one_sequence[] = "one sequence numbers the grants of all names";

#define POSTGRES                                                                         \
    .backend = "postgres", .class = "fencing",                                           \
    .lacks = {[CAN_FORGET] = no_forgetting_rows, [CAN_CLOCK] = no_clock_set,             \
              [CAN_MESSAGES] = no_messages_yet,  [CAN_RIGHTS] = roles,                   \
              [CAN_EVICT] = no_eviction,         [CAN_COUNTER] = one_sequence},          \
    .framing = "postgres", .port = postgres_port, .take = "acquire", .give = "release",  \
    .keep = "renew", .grant = "acquire", .freeze = postgres_freeze,                      \
    .thaw = postgres_thaw, .kill = postgres_kill, .restart = postgres_restart,           \
    .leftovers = postgres_leftovers

#define REDIS                                                                            \
    .framing = "resp", .take = "EVAL*", .give = "EVAL*", .keep = "EVAL*",                \
    .grant = "EVAL*", .held = "L", .counter = "redisson_lock_token:{L}",                 \
    .freeze = redis_freeze, .thaw = redis_thaw, .kill = redis_kill,                      \
    .forget = redis_forget, .leftovers = redis_leftovers

static const char each_memcacheds[] =
    "each node has its own: tests/backends/memcached, and the columns of memcached";

#define MEMCACHED                                                                        \
    .layout = "item", .framing = "memcached", .port = memcached_port,                    \
    .class = "efficiency", .rounds_up_ms = MEMCACHED_ROUNDS_UP_MS,                       \
    .freeze = memcached_freeze, .thaw = memcached_thaw, .kill = memcached_kill,          \
    .restart = memcached_restart, .forget = memcached_forget,                            \
    .leftovers = memcached_leftovers
#define MEMCACHED_LACKS                                                                  \
    [CAN_QUEUE] = no_order, [CAN_CLOCK] = no_clock_of_day,                               \
    [CAN_MESSAGES] = no_messages_there, [CAN_RIGHTS] = no_users,                         \
    [CAN_EVICT] = caches_eviction, [CAN_COUNTER] = numbers_of_stores
static const char each_nodes[] =
    "each node has its own: tests/backends/redlock, and the columns of redis";

static const char one_address[] =
    "a node tells all clients one address: none has a way of its own to it; what a "
    "connection may suffer is what it may in the columns of redis";

static const service services[] = {
    {.backend = "mem",
     .layout = "table",
     .class = "correctness",
     .lacks =
         {
             [CAN_PROCESSES] =
                 "one process alone: if it stops or dies, all of its clients do",
             [CAN_SERVER] = no_server,
             [CAN_WIRE] = no_wire,
             [CAN_FORGET] = "the table lives as long as the process",
             [CAN_CLOCK] = no_clock,
             [CAN_MESSAGES] = no_messages,
             [CAN_RIGHTS] = "no users, passwords or rights within a process",
             [CAN_EVICT] = "a full table refuses newcomers and drops nobody",
             [CAN_COUNTER] = no_counter,
         }},
    {.backend = "file",
     .layout = "table",
     .class = "correctness",
     .lacks =
         {
             [CAN_SERVER] = no_server,
             [CAN_WIRE] = no_wire,
             [CAN_CLOCK] = no_clock,
             [CAN_MESSAGES] = no_messages,
             [CAN_RIGHTS] = no_rights,
             [CAN_EVICT] = "a full table refuses newcomers and drops nobody",
             [CAN_COUNTER] = no_counter,
         },
     .forget = file_forget},
    {.backend = "redis",
     .layout = "redisson",
     .class = "fencing",
     .lacks = {[CAN_QUEUE] = no_order},
     .restart = redis_restart,
     REDIS},
    {.backend = "redis",
     .layout = "string",
     .class = "fencing",
     .lacks = {[CAN_QUEUE] = no_order, [CAN_MESSAGES] = no_messages_there},
     .restart = redis_restart,
     REDIS},
    {.backend = "redis",
     .layout = "timestamp",
     .class = "efficiency",
     .lacks = {[CAN_QUEUE] = no_order, [CAN_MESSAGES] = no_messages_there},
     .restart = redis_restart,
     REDIS},
    {.backend = "redis",
     .layout = "rueidis",
     .class = "fencing",
     .lacks = {[CAN_QUEUE] = no_order, [CAN_MESSAGES] = no_messages_there},
     .restart = redis_restart,
     REDIS},
    {.backend = "redis+sentinel",
     .layout = "redisson",
     .class = "efficiency",
     .lacks = {[CAN_QUEUE] = no_order},
     .restart = redis_restart,
     REDIS},
    {.backend = "redis+cluster",
     .layout = "redisson",
     .class = "efficiency",
     .lacks = {[CAN_QUEUE] = no_order, [CAN_WIRE] = one_address},
     .restart = cluster_restart,
     REDIS},
    {.backend = "redlock",
     .layout = "string",
     .class = "fencing",
     .lacks =
         {
             [CAN_QUEUE] = no_order,
             [CAN_MESSAGES] = no_messages_there,
             [CAN_WIRE] = each_nodes,
             [CAN_CLOCK] = each_nodes,
             [CAN_RIGHTS] = each_nodes,
             [CAN_EVICT] = each_nodes,
             [CAN_COUNTER] = each_nodes,
         },
     .quorum = true,
     .freeze = redis_freeze,
     .thaw = redis_thaw,
     .kill = redis_kill,
     .restart = redis_restart,
     .forget = redis_forget,
     .leftovers = redis_leftovers},
    {.backend = "memcached",
     MEMCACHED,
     .lacks = {MEMCACHED_LACKS},
     .take = "ms",
     .give = "md",
     .keep = "ms",
     .grant = "ms"},
    {.backend = "memlock",
     MEMCACHED,
     .lacks = {MEMCACHED_LACKS, [CAN_WIRE] = each_memcacheds},
     .quorum = true,
     .no_tokens = true},
    {.layout = "curator", ZOOKEEPER},
    {.layout = "concurrency", ETCD},
    {.layout = "table", POSTGRES},
};

const service *service_here(void)
{
    if (service_own)
        return service_own;
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        if (world_is(services[i].backend) && grid_layout_is(services[i].layout))
            return &services[i];
    return NULL;
}

/* A Sentinel gives its own host and port; @p port is its master's, by a name of its own. */
static void sentinel_uri(char *uri, size_t size, const char *userinfo, const char *host,
                         int port)
{
    char name[32] = "service";
    const char *address = strrchr(world_uri(), ':');
    if (port != service_port()) {
        snprintf(name, sizeof(name), "at-%d", port);
        (void)world_sentinel_names(name, port);
    }
    snprintf(uri, size, "redis+sentinel://%s%s:%d/%s?redis.layout=%s", userinfo, host,
             atoi(address + 1), name, getenv("DLK_TEST_LAYOUT"));
}

const char *service_uri(const char *userinfo, const char *host, int port)
{
    static char uri[256];
    const char *layout = getenv("DLK_TEST_LAYOUT");
    const char *more = strchr(layout, '&');
    if (world_is("zookeeper"))
        snprintf(uri, sizeof(uri), "zookeeper://%s%s:%d%s?zookeeper.layout=%s", userinfo,
                 host, port, world_root(), layout);
    else if (world_is("etcd"))
        snprintf(uri, sizeof(uri), "etcd://%s%s:%d?client.prefix=%s%s", userinfo, host,
                 port, world_root(), more ? more : "");
    else if (world_is("memcached"))
        snprintf(uri, sizeof(uri), "memcached://%s%s:%d?%s", userinfo, host, port,
                 more ? more + 1 : "");
    else if (world_is("postgres"))
        snprintf(uri, sizeof(uri), "postgres://%s%s:%d/postgres?%s",
                 userinfo[0] ? userinfo : "postgres@", host, port, more ? more + 1 : "");
    else if (world_is("redis+sentinel"))
        sentinel_uri(uri, sizeof(uri), userinfo, host, port);
    else if (service_own)
        snprintf(uri, sizeof(uri), "%s://%s%s:%d", service_own->backend, userinfo, host,
                 port);
    else
        snprintf(uri, sizeof(uri), "%s://%s%s:%d?redis.layout=%s",
                 service_here()->backend, userinfo, host, port, layout);
    return uri;
}

int service_port(void)
{
    const service *here = service_here();
    return here->port ? here->port() : world_redis()->port;
}

bool service_has_unread(void)
{
    if (world_node_count() == 1)
        return server_has_unread(service_port());
    bool all = true;
    for (int i = 0; all && i < world_node_count(); i++)
        all = server_has_unread(world_is("redlock") ? world_node(i)->port
                                                    : world_memcached_node(i)->port);
    return all;
}

/* ---- The way to it ---- */

static struct {
    proxy *proxy;
    proxy_link *link;
    char uri[256];
} way;

static bool lay_wire(void)
{
    char target[32];
    const char *why = "no memory";
    if (way.link)
        return true;
    snprintf(target, sizeof(target), "127.0.0.1:%d", service_port());
    way.proxy = proxy_new(1);
    if (way.proxy)
        way.link =
            proxy_listen(way.proxy, NULL, 0, target, service_here()->framing, &why);
    if (!way.link)
        return harness_check(__FILE__, __LINE__, false, why);
    /* The C client takes two thirds of its session to notice that it hears nothing. */
    snprintf(way.uri, sizeof(way.uri), "%s%s",
             service_uri("", "127.0.0.1", proxy_port(way.link)),
             world_is("zookeeper") ? "&lock.ttl_ms=6000" : "");
    return true;
}

const char *wire_uri(void)
{
    (void)lay_wire();
    return way.uri;
}

bool wire(const char *format, ...)
{
    char line[256], answer[PROXY_ANSWER_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (!lay_wire())
        return false;
    (void)proxy_obey(way.proxy, line, answer);
    return harness_check(__FILE__, __LINE__, strncmp(answer, "ok", 2) == 0, answer);
}

int wire_deeds(void)
{
    return lay_wire() ? (int)proxy_get_stats(way.link).deeds : 0;
}

bool wire_is_answered(void)
{
    proxy_stats stats = lay_wire() ? proxy_get_stats(way.link) : (proxy_stats){0};
    return stats.answers >= stats.requests;
}

void wire_end(void)
{
    if (way.proxy && harness_failed())
        proxy_print_log(way.proxy, stdout, 40);
    proxy_free(way.proxy);
    way.proxy = NULL;
    way.link = NULL;
}
