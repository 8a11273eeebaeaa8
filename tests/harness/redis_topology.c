/* Starting Sentinels and Clusters for tests; see the header. */
#include "harness/redis_topology.h"

#include "harness/harness.h"
#include "harness/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER_MS 3600000

static bool check(bool held, const char *what)
{
    return harness_check(__FILE__, __LINE__, held, what);
}

/* ---- Sentinel ---- */

static bool start_redis(redis_trio *trio, int index, const trio_options *options)
{
    char config[512];
    int port = redis_server_free_port(); /* the others have to know it beforehand */
    int announced = options->before ? options->before(options->user, port) : port;
    int used =
        snprintf(config, sizeof(config),
                 "port %d\nrepl-diskless-sync-delay 0\nreplica-announce-port %d\n%s\n",
                 port, announced, options->config ? options->config : "");
    if (index > 0)
        snprintf(config + used, sizeof(config) - (size_t)used, "replicaof 127.0.0.1 %d\n",
                 trio->ports[0]);
    trio->ports[index] = announced;
    return redis_server_start(&trio->redis[index], config);
}

static bool start_sentinel(redis_trio *trio, int index, const trio_options *options)
{
    char config[512];
    snprintf(config, sizeof(config),
             "sentinel monitor service 127.0.0.1 %d 2\n"
             "sentinel down-after-milliseconds service %d\n"
             "sentinel failover-timeout service 5000\n%s\n",
             trio->ports[0], options->down_after_ms ? options->down_after_ms : NEVER_MS,
             options->sentinel_config ? options->sentinel_config : "");
    return redis_server_start_sentinel(&trio->sentinel[index], config);
}

/* Do they know each other, and the replicas? */
static bool knows_all(redis_trio *trio, int sentinel)
{
    const char *text = redis_server_call(&trio->sentinel[sentinel], "INFO sentinel");
    return strstr(text, "status=ok") && strstr(text, "slaves=2") &&
           strstr(text, "sentinels=3");
}

bool redis_trio_start(redis_trio *trio, const trio_options *options)
{
    static const trio_options none;
    memset(trio, 0, sizeof(*trio));
    if (!options)
        options = &none;
    for (int i = 0; i <= TRIO_REPLICAS; i++)
        if (!start_redis(trio, i, options))
            return false;
    for (int i = 0; i < 3; i++)
        if (!start_sentinel(trio, i, options))
            return false;
    snprintf(trio->uri, sizeof(trio->uri),
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/service",
             trio->sentinel[0].port, trio->sentinel[1].port, trio->sentinel[2].port);
    for (int i = 0; i < 3; i++)
        if (!check(TOPOLOGY_AWAIT(knows_all(trio, i)), "the sentinels know each other"))
            return false;
    return true;
}

void redis_trio_stop(redis_trio *trio)
{
    for (int i = 0; i < 3; i++)
        redis_server_stop(&trio->sentinel[i]);
    for (int i = 0; i <= TRIO_REPLICAS; i++)
        redis_server_stop(&trio->redis[i]);
}

int redis_trio_master(redis_trio *trio, int sentinel)
{
    char address[32];
    const char *said = redis_server_call(&trio->sentinel[sentinel],
                                         "SENTINEL get-master-addr-by-name service");
    for (int i = 0; i <= TRIO_REPLICAS; i++) {
        snprintf(address, sizeof(address), "127.0.0.1 %d", trio->ports[i]);
        if (strcmp(said, address) == 0)
            return i;
    }
    return -1;
}

static bool is_agreed(redis_trio *trio, int before)
{
    int master = redis_trio_master(trio, 0);
    return master >= 0 && master != before && redis_trio_master(trio, 1) == master &&
           redis_trio_master(trio, 2) == master &&
           strstr(redis_server_call(&trio->redis[master], "ROLE"), "master");
}

/* A Sentinel gives its failover up when it stood still for some seconds in the midst of it, as it
 * does when its disk does: then it is asked for again. */
static bool fails_over(redis_trio *trio, int before)
{
    if (is_agreed(trio, before))
        return true;
    if (redis_trio_master(trio, 0) == before) /* refused while one is under way */
        (void)redis_server_call(&trio->sentinel[0], "SENTINEL FAILOVER service");
    return false;
}

bool redis_trio_fail_over(redis_trio *trio)
{
    int before = -1;
    return check(TOPOLOGY_AWAIT((before = redis_trio_master(trio, 0)) >= 0),
                 "there is a master") &&
           check(TOPOLOGY_AWAIT(fails_over(trio, before)), "another one is the master");
}

/* ---- Cluster ---- */

static const char *call(redis_cluster *cluster, int node, const char *command)
{
    return redis_server_call(&cluster->node[node], "%s", command);
}

static bool is_ok(const char *answer)
{
    return strcmp(answer, "OK") == 0;
}

static bool start_node(redis_cluster *cluster, int index, int timeout_ms,
                       const char *config)
{
    char lines[512];
    snprintf(lines, sizeof(lines),
             "cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-port %d\n"
             "cluster-node-timeout %d\ncluster-announce-ip 127.0.0.1\n"
             "cluster-replica-no-failover %s\ncluster-require-full-coverage no\n"
             "cluster-migration-barrier 100\nrepl-diskless-sync-delay 0\n%s\n",
             redis_server_free_port(), timeout_ms ? timeout_ms : NEVER_MS,
             timeout_ms ? "no" : "yes", config ? config : "");
    if (!redis_server_start(&cluster->node[index], lines))
        return false;
    snprintf(cluster->id[index], sizeof(cluster->id[index]), "%s",
             call(cluster, index, "CLUSTER MYID"));
    return true;
}

static bool give_slots(redis_cluster *cluster, int master)
{
    int first = CLUSTER_SLOTS * master / cluster->masters;
    int last = CLUSTER_SLOTS * (master + 1) / cluster->masters - 1;
    return is_ok(redis_server_call(&cluster->node[master], "CLUSTER SET-CONFIG-EPOCH %d",
                                   master + 1)) &&
           is_ok(redis_server_call(&cluster->node[master], "CLUSTER ADDSLOTSRANGE %d %d",
                                   first, last));
}

static int port_of_bus(redis_cluster *cluster, int node)
{
    const char *line = strstr(cluster->node[node].config, "cluster-port ");
    return line ? atoi(line + strlen("cluster-port ")) : 0;
}

static bool introduce(redis_cluster *cluster, int node)
{
    return is_ok(redis_server_call(&cluster->node[0], "CLUSTER MEET 127.0.0.1 %d %d",
                                   cluster->node[node].port, port_of_bus(cluster, node)));
}

static bool is_whole(redis_cluster *cluster, int node)
{
    char known[48];
    const char *text = call(cluster, node, "CLUSTER INFO");
    snprintf(known, sizeof(known), "cluster_known_nodes:%d\r", cluster->count);
    return strstr(text, "cluster_state:ok") && strstr(text, known) &&
           strstr(text, "cluster_slots_assigned:16384");
}

static bool has_synced(redis_cluster *cluster, int replica)
{
    return strstr(call(cluster, replica, "INFO replication"), "master_link_status:up");
}

static bool follow(redis_cluster *cluster, int replica)
{
    int master = replica - cluster->masters;
    return TOPOLOGY_AWAIT(is_ok(redis_server_call(
               &cluster->node[replica], "CLUSTER REPLICATE %s", cluster->id[master]))) &&
           TOPOLOGY_AWAIT(has_synced(cluster, replica));
}

bool redis_cluster_start(redis_cluster *cluster, int masters, int replicas,
                         int timeout_ms, const char *config)
{
    memset(cluster, 0, sizeof(*cluster));
    cluster->masters = masters;
    cluster->count = masters * (1 + replicas);
    strcpy(cluster->uri, "redis+cluster://");
    for (int i = 0; i < cluster->count; i++)
        if (!start_node(cluster, i, timeout_ms, config))
            return false;
    for (int i = 0; i < masters; i++) {
        size_t used = strlen(cluster->uri);
        snprintf(cluster->uri + used, sizeof(cluster->uri) - used, "%s127.0.0.1:%d",
                 i ? "," : "", cluster->node[i].port);
        if (!check(give_slots(cluster, i), "a master gets its slots"))
            return false;
    }
    for (int i = 1; i < cluster->count; i++)
        if (!check(introduce(cluster, i), "the nodes meet"))
            return false;
    for (int i = 0; i < cluster->count; i++)
        if (!check(TOPOLOGY_AWAIT(is_whole(cluster, i)), "the cluster is whole"))
            return false;
    for (int i = masters; i < cluster->count; i++)
        if (!check(follow(cluster, i), "a replica follows its master"))
            return false;
    return true;
}

void redis_cluster_stop(redis_cluster *cluster)
{
    for (int i = 0; i < cluster->count; i++)
        redis_server_stop(&cluster->node[i]);
}

int redis_cluster_slot(redis_cluster *cluster, const char *name)
{
    return atoi(redis_server_call(&cluster->node[0], "CLUSTER KEYSLOT %s", name));
}

/* "first last ip port id …" for each range, as text: the ids tell the entries apart. */
int redis_cluster_owner(redis_cluster *cluster, int asked, int slot)
{
    char text[8192], *save = NULL;
    snprintf(text, sizeof(text), "%s", call(cluster, asked, "CLUSTER NODES"));
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *field_save = NULL, *id = strtok_r(line, " ", &field_save), *field;
        for (int number = 1; (field = strtok_r(NULL, " ", &field_save)); number++) {
            int first, last, got = sscanf(field, "%d-%d", &first, &last);
            if (number < 8 || field[0] == '[' || got < 1 || slot < first ||
                slot > (got == 2 ? last : first))
                continue;
            for (int i = 0; i < cluster->count; i++)
                if (strcmp(cluster->id[i], id) == 0)
                    return i;
        }
    }
    return -1;
}

static int owner_by_itself(redis_cluster *cluster, int slot)
{
    for (int i = 0; i < cluster->count; i++)
        if (cluster->node[i].pid > 0 && redis_cluster_owner(cluster, i, slot) == i)
            return i;
    return -1;
}

bool redis_cluster_begin_move(redis_cluster *cluster, int slot, int to)
{
    int from = owner_by_itself(cluster, slot);
    return check(from >= 0 && from != to, "somebody else has the slot") &&
           check(is_ok(redis_server_call(&cluster->node[to],
                                         "CLUSTER SETSLOT %d IMPORTING %s", slot,
                                         cluster->id[from])) &&
                     is_ok(redis_server_call(&cluster->node[from],
                                             "CLUSTER SETSLOT %d MIGRATING %s", slot,
                                             cluster->id[to])),
                 "the slot begins to move");
}

/* What an earlier owner left there must not be in the way. */
static bool has_moved(redis_cluster *cluster, int from, int to, const char *key)
{
    const char *done =
        redis_server_call(&cluster->node[from], "MIGRATE 127.0.0.1 %d %s 0 20000 REPLACE",
                          cluster->node[to].port, key);
    if (is_ok(done) || strcmp(done, "NOKEY") == 0)
        return true;
    harness_note("%s doesn't move: %s", key, done);
    return false;
}

bool redis_cluster_end_move(redis_cluster *cluster, int slot, int to)
{
    int from = owner_by_itself(cluster, slot);
    for (;;) {
        char keys[1024], *save = NULL;
        snprintf(
            keys, sizeof(keys), "%s",
            redis_server_call(&cluster->node[from], "CLUSTER GETKEYSINSLOT %d 10", slot));
        if (!keys[0])
            break;
        for (char *key = strtok_r(keys, " ", &save); key;
             key = strtok_r(NULL, " ", &save)) {
            if (!check(TOPOLOGY_AWAIT(has_moved(cluster, from, to, key)), "a key moves"))
                return false;
        }
    }
    /* First where it comes to, then where it was: as redis-cli does. */
    const int order[] = {to, from};
    for (int i = 0; i < 2; i++)
        if (!check(is_ok(redis_server_call(&cluster->node[order[i]],
                                           "CLUSTER SETSLOT %d NODE %s", slot,
                                           cluster->id[to])),
                   "the slot has moved"))
            return false;
    return true;
}

bool redis_cluster_move(redis_cluster *cluster, int slot, int to)
{
    return redis_cluster_begin_move(cluster, slot, to) &&
           redis_cluster_end_move(cluster, slot, to);
}

/* Does the replica say of itself that it is the master, and the others as well? */
static bool is_over(redis_cluster *cluster, int replica)
{
    return strstr(call(cluster, replica, "ROLE"), "master") != NULL;
}

bool redis_cluster_take_over(redis_cluster *cluster, int replica)
{
    return check(is_ok(call(cluster, replica, "CLUSTER FAILOVER TAKEOVER")) &&
                     TOPOLOGY_AWAIT(is_over(cluster, replica)),
                 "the replica takes over");
}
