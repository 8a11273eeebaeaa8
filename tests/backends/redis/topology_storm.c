/* Sixteen contenders and a fenced resource, while the master that they lock on is killed, frozen,
 * cut off or replaced, or slots move: no stale write gets in, every waiter is served, and nothing
 * is left when the leases are over.
 *
 * DLK_TEST_SECONDS says for how long, 5 by default. A failover is made by order, not by a
 * time-out, so that it comes when it should however slow the machine is. */
#include "harness/harness.h"
#include "harness/redis_topology.h"
#include "harness/time.h"
#include "proxy/proxy.h"

#include <dlock/dlock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONTENDERS  16
#define NAMES       4
#define TTL_MS      4000
#define PATIENCE_MS 180000

static int64_t run_ms(void)
{
    const char *seconds = getenv("DLK_TEST_SECONDS");
    return (seconds ? atoll(seconds) : 5) * 1000;
}

/* ---- The resource ---- */

/* Accepts what has the newest token it has seen, or a newer one. */
typedef struct resource {
    pthread_mutex_t mutex;
    int64_t newest;
    int64_t by; /* the grant that had it: one token must never be two grants' */
} resource;

static resource resources[NAMES];
static atomic_llong grants, accepted, stale, twice, lost, unserved, longest_ms;

static bool write_to(resource *to, int64_t token, int64_t grant)
{
    pthread_mutex_lock(&to->mutex);
    bool fine = token >= to->newest;
    if (fine && token == to->newest && to->by != grant)
        twice++;
    if (fine) {
        to->newest = token;
        to->by = grant;
    }
    pthread_mutex_unlock(&to->mutex);
    atomic_fetch_add(fine ? &accepted : &stale, 1);
    return fine;
}

/* ---- The contenders ---- */

static atomic_bool over;
static char uri[256];

static void note_wait(int64_t ms)
{
    long long seen = longest_ms;
    while (ms > seen && !atomic_compare_exchange_weak(&longest_ms, &seen, ms))
        continue;
}

/* Takes it, writes now and a moment later, as whoever doesn't look at the hold in between. */
static void enter(dlock_client *client, int which)
{
    char name[16];
    dlock_hold *hold = NULL;
    int64_t began = now_ms();
    snprintf(name, sizeof(name), "storm-%d", which);
    dlock_err code = dlock_acquire(client, name, PATIENCE_MS, &hold, NULL);
    if (code == DLOCK_ELOST || code == DLOCK_EUNKNOWN)
        return; /* what we had before is gone; or nobody knows: we have nothing, and ask again */
    if (code != DLOCK_OK) {
        unserved++;
        harness_note("%s: %s after %lld ms", name, dlock_errname(code),
                     (long long)(now_ms() - began));
        return;
    }
    note_wait(now_ms() - began);
    int64_t grant = ++grants;
    (void)write_to(&resources[which], dlock_hold_token(hold), grant);
    nap_ms(grant % 5);
    (void)write_to(&resources[which], dlock_hold_token(hold), grant);
    if (dlock_hold_check(hold) != DLOCK_OK)
        lost++;
    if (dlock_hold_release(hold, NULL) == DLOCK_ELOST)
        lost++;
    dlock_hold_free(hold);
}

static void *contend(void *arg)
{
    int number = (int)(intptr_t)arg;
    dlock_client *client = NULL;
    /* The master may be away at this very moment. */
    if (!harness_check(
            __FILE__, __LINE__,
            TOPOLOGY_AWAIT(dlock_client_open(uri, NULL, &client, NULL) == DLOCK_OK),
            "a client opens"))
        return NULL;
    for (int i = number; !over; i++)
        enter(client, i % NAMES);
    dlock_client_free(client);
    return NULL;
}

/* ---- What happens to them ---- */

typedef struct world {
    /* One fault and its end; false after a failed check. */
    bool (*strike)(int number);
    /* The masters that there are, for what is left on them. */
    int (*masters)(redis_server **ret);
} world;

static bool is_orphan(const char *key)
{
    return strncmp(key, "redisson_lock_token:", 20) != 0 &&
           strncmp(key, "dlock_client:", 13) != 0; /* of a client, and ends by itself */
}

static int count_left(const world *of)
{
    redis_server *masters[CLUSTER_NODES];
    int count = of->masters(masters), left = 0;
    for (int i = 0; i < count; i++) {
        char keys[4096], *save = NULL;
        snprintf(keys, sizeof(keys), "%s", redis_server_call(masters[i], "KEYS *"));
        for (char *key = strtok_r(keys, " ", &save); key;
             key = strtok_r(NULL, " ", &save)) {
            /* What expires is shown until it is looked at. */
            const char *answer = redis_server_call(masters[i], "EXISTS %s", key);
            if (is_orphan(key) && strcmp(answer, "1") == 0) {
                harness_note("left: %s", key);
                left++;
            }
        }
    }
    return left;
}

static void storm(const world *of, const char *address)
{
    pthread_t threads[CONTENDERS];
    int strikes = 0, started = 0;
    snprintf(uri, sizeof(uri),
             "%s?lock.ttl_ms=%d&client.timeout_ms=1500&client.connect_ms=60000&"
             "client.backoff_max_ms=200&client.close_ms=5000",
             address, TTL_MS);
    grants = accepted = stale = twice = lost = unserved = longest_ms = 0;
    over = false;
    memset(resources, 0, sizeof(resources));
    for (int i = 0; i < NAMES; i++)
        pthread_mutex_init(&resources[i].mutex, NULL);
    for (; started < CONTENDERS; started++)
        if (pthread_create(&threads[started], NULL, contend, (void *)(intptr_t)started))
            break;
    int64_t end = now_ms() + run_ms();
    while (!harness_failed() && now_ms() < end) {
        long long before = grants;
        if (!of->strike(strikes++))
            break;
        (void)harness_check(__FILE__, __LINE__,
                            TOPOLOGY_AWAIT(grants >= before + CONTENDERS),
                            "it goes on after a fault");
    }
    over = true;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    harness_note("%d faults, %lld grants, %lld writes accepted, %lld stale ones refused, "
                 "%lld holds lost, longest wait %lld ms",
                 strikes, (long long)grants, (long long)accepted, (long long)stale,
                 (long long)lost, (long long)longest_ms);
    CHECK_ALWAYS(twice == 0);
    CHECK_EQ_INT(unserved, 0);
    CHECK_EQ_INT(started, CONTENDERS);
    nap_ms(TTL_MS + 1000);
    CHECK_EQ_INT(count_left(of), 0);
}

/* ---- Sentinel ---- */

static redis_trio trio;
static proxy *ways;
static proxy_link *before_redis[1 + TRIO_REPLICAS];
static int way_count;

static int put_before(void *user, int port)
{
    char target[16];
    (void)user;
    snprintf(target, sizeof(target), "%d", port);
    proxy_link *link = proxy_listen(ways, NULL, 0, target, "raw", NULL);
    if (!link)
        return port;
    before_redis[way_count++] = link;
    return proxy_port(link);
}

static bool strike_trio(int number)
{
    int master = redis_trio_master(&trio, 0);
    if (!harness_check(__FILE__, __LINE__, master >= 0, "there is a master"))
        return false;
    redis_server *victim = &trio.redis[master];
    bool fine;
    switch (number % 3) {
    case 0:
        redis_server_kill(victim);
        fine = redis_trio_fail_over(&trio);
        return redis_server_restart(victim) && fine;
    case 1:
        server_freeze(victim->pid);
        fine = redis_trio_fail_over(&trio);
        server_thaw(victim->pid);
        return fine;
    default:
        proxy_hole(before_redis[master], PROXY_BOTH);
        fine = redis_trio_fail_over(&trio);
        proxy_pass(before_redis[master]);
        return fine;
    }
}

static int master_of_trio(redis_server **ret)
{
    int master = redis_trio_master(&trio, 0);
    ret[0] = &trio.redis[master < 0 ? 0 : master];
    return 1;
}

TEST(under_sentinels_no_stale_write_gets_in_and_all_are_served)
{
    static const world of = {strike_trio, master_of_trio};
    if (!redis_server_available())
        return;
    const trio_options options = {.before = put_before};
    way_count = 0;
    ways = proxy_new(1);
    if (harness_check(__FILE__, __LINE__, ways != NULL, "a proxy") &&
        redis_trio_start(&trio, &options))
        storm(&of, trio.uri);
    redis_trio_stop(&trio);
    proxy_free(ways);
}

/* ---- Cluster ---- */

static redis_cluster cluster;

static int slot_of(int which)
{
    char name[16];
    snprintf(name, sizeof(name), "storm-%d", which);
    return redis_cluster_slot(&cluster, name);
}

/* The node that says of itself that it has it, and the one of its pair. */
static int owner_of(int slot)
{
    for (int i = 0; i < cluster.count; i++)
        if (redis_cluster_owner(&cluster, i, slot) == i)
            return i;
    return -1;
}

static bool is_replica_of(int node, int master)
{
    return strstr(redis_server_call(&cluster.node[node], "ROLE"), "slave") &&
           strstr(redis_server_call(&cluster.node[node], "CLUSTER NODES"),
                  cluster.id[master]) &&
           strstr(redis_server_call(&cluster.node[node], "INFO replication"),
                  "master_link_status:up");
}

/* A take-over and a moved slot each count the epochs up by themselves: done before all nodes have
 * heard of the one before, they would leave a slot to nobody. */
static bool all_agree(void)
{
    for (int which = 0; which < NAMES; which++) {
        int slot = slot_of(which), owner = owner_of(slot);
        for (int i = 0; i < cluster.count; i++)
            if (owner < 0 || redis_cluster_owner(&cluster, i, slot) != owner)
                return false;
    }
    return true;
}

static bool await_agreement(void)
{
    return harness_check(__FILE__, __LINE__, TOPOLOGY_AWAIT(all_agree()),
                         "the nodes agree on who has the slots");
}

static bool reshard(void)
{
    for (int which = 0; which < NAMES; which++) {
        int slot = slot_of(which), from = owner_of(slot), to = -1;
        for (int i = 1; i < cluster.count; i++) {
            int other = (from + i) % cluster.count;
            if (other % 3 != from % 3 &&
                strstr(redis_server_call(&cluster.node[other], "ROLE"), "master"))
                to = other;
        }
        if (to < 0 || !redis_cluster_move(&cluster, slot, to) || !await_agreement())
            return false;
    }
    return true;
}

static bool strike_cluster(int number)
{
    if (!await_agreement())
        return false;
    if (number % 3 == 0)
        return reshard();
    int slot = slot_of(number % NAMES), victim = owner_of(slot);
    int heir = (victim + 3) % 6;
    if (!harness_check(__FILE__, __LINE__,
                       victim >= 0 && TOPOLOGY_AWAIT(is_replica_of(heir, victim)),
                       "the master has a replica"))
        return false;
    bool fine;
    if (number % 3 == 1) {
        redis_server_kill(&cluster.node[victim]);
        fine = redis_cluster_take_over(&cluster, heir);
        fine = redis_server_restart(&cluster.node[victim]) && fine;
    } else {
        server_freeze(cluster.node[victim].pid);
        fine = redis_cluster_take_over(&cluster, heir);
        server_thaw(cluster.node[victim].pid);
    }
    return fine &&
           harness_check(__FILE__, __LINE__, TOPOLOGY_AWAIT(is_replica_of(victim, heir)),
                         "the old master follows the new one");
}

static int masters_of_cluster(redis_server **ret)
{
    int count = 0;
    for (int i = 0; i < cluster.count; i++)
        if (strstr(redis_server_call(&cluster.node[i], "ROLE"), "master"))
            ret[count++] = &cluster.node[i];
    return count;
}

TEST(in_a_cluster_no_stale_write_gets_in_and_all_are_served)
{
    static const world of = {strike_cluster, masters_of_cluster};
    if (!redis_server_available())
        return;
    if (redis_cluster_start(&cluster, 3, 1, 0, NULL))
        storm(&of, cluster.uri);
    redis_cluster_stop(&cluster);
}
