/* A lock on most of three memcacheds: what one of them forgets, or being without it, frees nothing;
 * without two there is no lock. */
#include "api/world.h"
#include "harness/memcached_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3, LEASE_MS = 30000 };

static memcached_server nodes[NODES];

static void tear_down(void)
{
    for (int i = 0; i < NODES; i++)
        memcached_server_stop(&nodes[i]);
}

static bool set_up(void)
{
    static bool there;
    if (there)
        return true;
    if (!memcached_server_available())
        return false;
    for (int i = 0; i < NODES; i++)
        if (!memcached_server_start(&nodes[i], NULL))
            return false;
    there = atexit(tear_down) == 0;
    return there;
}

static dlock_client *client_of(int64_t ttl_ms)
{
    return api_open("memlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d"
                    "?lock.ttl_ms=%lld&client.backoff_max_ms=100",
                    nodes[0].port, nodes[1].port, nodes[2].port, (long long)ttl_ms);
}

static int items(const char *name)
{
    int count = 0;
    for (int i = 0; i < NODES; i++)
        count += strcmp(memcached_server_get(&nodes[i], name), "(nil)") != 0 &&
                 strcmp(memcached_server_say(&nodes[i], "mn"), "MN") == 0;
    return count;
}

TEST(a_lock_lies_on_all_of_them_and_two_clients_exclude_each_other)
{
    if (!set_up())
        return;
    DLOCK_AUTO(dlock_client) one = client_of(LEASE_MS);
    DLOCK_AUTO(dlock_client) two = client_of(LEASE_MS);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    DLOCK_AUTO(dlock_hold) next = NULL;
    CHECK_OK(dlock_acquire(one, "all", patience_ms(), &hold, NULL), NULL);
    AWAIT(items("all") == NODES);
    CHECK_ERR(dlock_acquire(two, "all", 0, &none, NULL), DLOCK_EBUSY, NULL);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    AWAIT(items("all") == 0);
    CHECK_OK(dlock_acquire(two, "all", patience_ms(), &next, NULL), NULL);
    CHECK_OK(dlock_hold_release(next, NULL), NULL);
}

TEST(what_one_of_them_forgets_frees_nothing)
{
    if (!set_up())
        return;
    DLOCK_AUTO(dlock_client) one = client_of(LEASE_MS);
    DLOCK_AUTO(dlock_client) two = client_of(LEASE_MS);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    CHECK_OK(dlock_acquire(one, "forgotten", patience_ms(), &hold, NULL), NULL);
    AWAIT(items("forgotten") == NODES);
    CHECK_STR(memcached_server_say(&nodes[1], "flush_all"), "OK");
    CHECK_ERR(dlock_acquire(two, "forgotten", 0, &none, NULL), DLOCK_EBUSY, NULL);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    CHECK_STR(memcached_server_say(&nodes[2], "flush_all"), "OK");
    CHECK_STR(memcached_server_say(&nodes[1], "flush_all"), "OK");
    CHECK_ERR(dlock_hold_verify(hold, NULL), DLOCK_ELOST, NULL);
}

TEST(without_one_of_them_there_are_locks_and_without_two_there_are_none)
{
    if (!set_up())
        return;
    DLOCK_AUTO(dlock_client) client = client_of(LEASE_MS);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    DLOCK_AUTO(dlock_hold) again = NULL;
    memcached_server_kill(&nodes[0]);
    CHECK_OK(dlock_acquire(client, "missing", patience_ms(), &hold, NULL), NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    memcached_server_kill(&nodes[1]);
    CHECK(dlock_acquire(client, "missing", 1000, &none, NULL) != DLOCK_OK);
    CHECK(memcached_server_restart(&nodes[0]));
    CHECK(memcached_server_restart(&nodes[1]));
    CHECK_OK(dlock_acquire(client, "missing", patience_ms(), &again, NULL), NULL);
    CHECK_OK(dlock_hold_release(again, NULL), NULL);
}

static bool is_connected_to_all(dlock_client *client)
{
    int64_t end = awake_now_ms() + patience_ms();
    while (awake_now_ms() < end) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        if (dlock_acquire(client, "everywhere", patience_ms(), &hold, NULL) != DLOCK_OK)
            return false;
        for (int i = 0; i < 20 && items("everywhere") < NODES; i++)
            nap_ms(1);
        bool all = items("everywhere") == NODES;
        if (dlock_hold_release(hold, NULL) != DLOCK_OK || all)
            return all;
    }
    return false;
}

/* Takes it and gives it back. */
static dlock_err visit(dlock_client *client, const char *name)
{
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = dlock_acquire(client, name, patience_ms(), &hold, NULL);
    return code == DLOCK_OK ? dlock_hold_release(hold, NULL) : code;
}

/* It hears of the acquire late, and then has to be read before it can be given back there. */
TEST(closing_gives_it_back_on_the_slowest_as_well)
{
    if (!set_up())
        return;
    DLOCK_AUTO(dlock_client) client = client_of(LEASE_MS);
    CHECK(is_connected_to_all(client));
    server_freeze(nodes[2].pid);
    dlock_err code = visit(client, "slow");
    server_thaw(nodes[2].pid);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_OK(dlock_client_close(client, NULL), NULL);
    CHECK_EQ_INT(items("slow"), 0);
}

TEST(closing_does_not_wait_for_ever_for_one_that_is_frozen)
{
    if (!set_up())
        return;
    DLOCK_AUTO(dlock_client) client = client_of(LEASE_MS);
    CHECK(is_connected_to_all(client));
    server_freeze(nodes[2].pid);
    dlock_err code = visit(client, "frozen");
    dlock_err closed = dlock_client_close(client, NULL);
    server_thaw(nodes[2].pid);
    CHECK_EQ_INT(code, DLOCK_OK);
    CHECK_EQ_INT(closed, DLOCK_OK);
}

/* ---- what it says ---- */

typedef struct sayings {
    pthread_mutex_t mutex;
    char text[16384];
} sayings;

static void hear(void *user, dlock_level level, const char *line)
{
    sayings *all = user;
    (void)level;
    (void)pthread_mutex_lock(&all->mutex);
    size_t used = strlen(all->text);
    snprintf(all->text + used, sizeof(all->text) - used, "%s\n", line);
    (void)pthread_mutex_unlock(&all->mutex);
}

static bool was_said(sayings *all, const char *part)
{
    (void)pthread_mutex_lock(&all->mutex);
    bool said = strstr(all->text, part) != NULL;
    (void)pthread_mutex_unlock(&all->mutex);
    return said;
}

static void hear_error(sayings *all, dlock_err code, dlock_err expected,
                       dlock_error *const *err)
{
    (void)harness_err(__FILE__, __LINE__, "what is refused", code, expected, *err);
    hear(all, DLOCK_LOG_ERROR, dlock_error_text(*err));
}

/* What is refused whatever the nodes say. */
static void hear_refusals(dlock_client *client, sayings *all)
{
    static const char *const settings[] = {"redis.wait_replicas=1",
                                           "redis.layout=timestamp"};
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        DLOCK_AUTO(dlock_conf) conf = api_conf(settings[i]);
        DLOCK_AUTO(dlock_lock) none = NULL;
        hear_error(all, dlock_lock_new(client, DLOCK_MUTEX, "refused", conf, &none, &err),
                   DLOCK_ENOTSUP, &err);
    }
    CHECK_OK(dlock_lock_new(client, DLOCK_MUTEX, "refused", NULL, &lock, &err), err);
    hear_error(all, dlock_lock_revoke(lock, &err), DLOCK_ENOTSUP, &err);
}

TEST(it_speaks_of_itself_as_memlock)
{
    static sayings all = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    char uri[192];
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_client) refused = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    if (!set_up())
        return;
    all.text[0] = '\0';
    CHECK_OK(dlock_conf_set_log(conf, hear, &all), NULL);
    CHECK_OK(dlock_conf_set(conf, "client.log_level", "debug", NULL), NULL);
    snprintf(uri, sizeof(uri),
             "memlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?client.backoff_max_ms=100",
             nodes[0].port, nodes[1].port, nodes[2].port);
    CHECK_OK(dlock_client_open(uri, conf, &client, &err), err);
    hear_refusals(client, &all);
    memcached_server_kill(&nodes[0]);
    AWAIT(visit(client, "few") == DLOCK_OK && was_said(&all, "one more is away"));
    memcached_server_kill(&nodes[1]);
    dlock_err code = dlock_acquire(client, "few", 0, &hold, &err);
    for (int i = 0; i < 100 && code == DLOCK_EUNKNOWN; i++)
        code = dlock_acquire(client, "few", 0, &hold, &err);
    hear_error(&all, code, DLOCK_EQUORUM, &err);
    CHECK(memcached_server_restart(&nodes[1]));
    AWAIT(visit(client, "few") == DLOCK_OK);
    CHECK(memcached_server_restart(&nodes[0]));
    AWAIT(visit(client, "few") == DLOCK_OK && was_said(&all, "is back"));
    strcat(uri, "&redis.layout=timestamp");
    hear_error(&all, dlock_client_open(uri, NULL, &refused, &err), DLOCK_EINVAL, &err);
    CHECK_OK(dlock_client_close(client, NULL), NULL); /* nothing more is said */
    CHECK_CONTAINS(all.text, "memlock: of 3 nodes one more is away");
    if (strstr(all.text, "redlock"))
        harness_note("%.200s", strstr(all.text, "redlock"));
    CHECK(strstr(all.text, "redlock") == NULL);
}

/* A node that takes connections and says nothing isn't known to be away. */
TEST(only_those_that_failed_are_counted_as_away)
{
    char uri[192];
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    if (!set_up())
        return;
    snprintf(uri, sizeof(uri),
             "memlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:%d?client.connect_ms=60000",
             nodes[2].port);
    server_freeze(nodes[2].pid);
    dlock_err code = dlock_client_open(uri, NULL, &client, &err);
    server_thaw(nodes[2].pid);
    CHECK_ERR(code, DLOCK_EQUORUM, err);
    CHECK_CONTAINS(dlock_error_text(err),
                   "memlock: 2 of 3 nodes can't be used, 2 are needed");
    CHECK_CONTAINS(dlock_error_text(err), ": not connected yet)");
}

TEST(what_can_t_be_a_quorum_is_refused)
{
    static const char *const uris[] = {"memlock://a", "memlock://a,b",
                                       "memlock://a,b,c,d", "memlock://a,b,a:11211"};
    for (size_t i = 0; i < sizeof(uris) / sizeof(*uris); i++) {
        DLOCK_AUTO(dlock_client) client = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        CHECK_ERR(dlock_client_open(uris[i], NULL, &client, &err), DLOCK_EINVAL, err);
    }
}
