/* The ACL files that the documentation hands out: each suffices for what it is for, and each of its
 * rights is needed: without it the doctor, or the client when it is opened, names it, and no lock is
 * left behind that would never end. */
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/redis_topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum where { ALONE, SENTINELS, CLUSTER, NODES } where;

typedef struct file {
    const char *name, *settings;
    bool all_kinds;
    where where;
    bool of_sentinels; /* the user there, not on the servers */
} file;

static redis_server server;
static redis_trio trio;
static redis_cluster cluster;
static redis_server nodes[3]; /* a Redlock's */

static const file files[] = {
    {"redisson.acl", "redis.layout=redisson", .all_kinds = false},
    {"redisson-all.acl", "redis.layout=redisson", .all_kinds = true},
    {"redisson-fair.acl", "redis.layout=redisson&lock.fair=true", .all_kinds = false},
    {"string.acl", "redis.layout=string", .all_kinds = false},
    {"timestamp.acl", "redis.layout=timestamp", .all_kinds = false},
    {"rueidis.acl", "redis.layout=rueidis", .all_kinds = false},
    {"redisson-sentinel.acl", "redis.layout=redisson", .where = SENTINELS},
    {"sentinel.acl", "redis.layout=redisson", .where = SENTINELS, .of_sentinels = true},
    {"redisson-cluster.acl", "redis.layout=redisson", .where = CLUSTER},
    {"redlock.acl", "redlock.fencing=off", .where = NODES},
    {"redlock-fencing.acl", "redlock.fencing=on", .where = NODES},
};
enum { FILES = sizeof(files) / sizeof(files[0]), RIGHTS_MAX = 80 };

typedef struct rights {
    char text[4096];
    char *word[RIGHTS_MAX];
    int count;
} rights;

static bool read_file(const char *name, rights *ret)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", getenv("REDIS_ACL_DIR"), name);
    FILE *in = fopen(path, "re");
    *ret = (rights){0};
    bool fine = in && fgets(ret->text, sizeof(ret->text), in);
    if (in)
        fclose(in);
    char *rest = NULL;
    for (char *word = strtok_r(ret->text, " \n", &rest); word && ret->count < RIGHTS_MAX;
         word = strtok_r(NULL, " \n", &rest))
        ret->word[ret->count++] = word;
    return harness_check(__FILE__, __LINE__, fine && ret->count > 2, name);
}

/* ---- The servers ---- */

typedef struct servers {
    redis_server *item[4];
    int count;
} servers;

static servers data_servers(const file *is)
{
    if (is->where == SENTINELS)
        return (servers){{&trio.redis[0], &trio.redis[1], &trio.redis[2]}, 3};
    if (is->where == CLUSTER)
        return (servers){{&cluster.node[0], &cluster.node[1], &cluster.node[2]}, 3};
    if (is->where == NODES)
        return (servers){{&nodes[0], &nodes[1], &nodes[2]}, 3};
    return (servers){{&server}, 1};
}

static servers sentinels(void)
{
    return (servers){{&trio.sentinel[0], &trio.sentinel[1], &trio.sentinel[2]}, 3};
}

static bool start(const file *is)
{
    if (is->where == NODES)
        return redis_server_start(&nodes[0], NULL) &&
               redis_server_start(&nodes[1], NULL) && redis_server_start(&nodes[2], NULL);
    if (is->where == SENTINELS)
        return redis_trio_start(&trio, &(trio_options){0});
    return is->where == CLUSTER ? redis_cluster_start(&cluster, 3, 0, 0, NULL)
                                : redis_server_start(&server, NULL);
}

static void stop(const file *is)
{
    for (int i = 0; is->where == NODES && i < 3; i++)
        redis_server_stop(&nodes[i]);
    if (is->where == SENTINELS)
        redis_trio_stop(&trio);
    else if (is->where == CLUSTER)
        redis_cluster_stop(&cluster);
    else if (is->where == ALONE)
        redis_server_stop(&server);
}

static bool order(servers to, const char *command)
{
    for (int i = 0; i < to.count; i++)
        if (!harness_str(__FILE__, __LINE__, command,
                         redis_server_call(to.item[i], "%s", command), "OK"))
            return false;
    return true;
}

/* Gives the user all rights but one (-1: all). */
static bool give(const file *is, const rights *all, int but)
{
    char command[2048] = "ACL SETUSER locks reset";
    for (int i = 2; i < all->count; i++) { /* behind "user locks" */
        size_t used = strlen(command);
        if (i != but)
            snprintf(command + used, sizeof(command) - used, " %s", all->word[i]);
    }
    if (is->of_sentinels)
        return order(data_servers(is), "ACL SETUSER locks on >secret ~* &* +@all") &&
               order(sentinels(), command);
    return order(data_servers(is), command);
}

static void empty(const file *is)
{
    servers all = data_servers(is);
    for (int i = 0; i < all.count; i++)
        (void)redis_server_call(all.item[i], "FLUSHALL"); /* a replica refuses */
}

static dlock_err open_it(const file *is, dlock_client **ret, dlock_error **err)
{
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    char uri[300];
    if (is->where == ALONE)
        snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d?%s", server.port, is->settings);
    else if (is->where == NODES)
        snprintf(uri, sizeof(uri), "redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?%s",
                 nodes[0].port, nodes[1].port, nodes[2].port, is->settings);
    else
        snprintf(uri, sizeof(uri), "%s?%s", is->where == CLUSTER ? cluster.uri : trio.uri,
                 is->settings);
    dlock_err code = dlock_conf_set(conf, "auth.username", "locks", err);
    if (!code)
        code = dlock_conf_set(conf, "auth.password", "secret", err);
    if (!code)
        code = dlock_conf_set(conf, "client.prefix", "app:", err);
    if (!code)
        code = dlock_conf_set_int(conf, "client.timeout_ms", 20000, err);
    if (!code && is->of_sentinels)
        code = dlock_conf_set(conf, "auth.sentinel_username", "locks", err);
    if (!code && is->of_sentinels)
        code = dlock_conf_set(conf, "auth.sentinel_password", "secret", err);
    return code ? code : dlock_client_open(uri, conf, ret, err);
}

/* ---- What the rights are for ---- */

/* Takes a lock and gives it back, renewed in between. */
static dlock_err use(dlock_client *client, dlock_kind kind, const char *name,
                     dlock_error **err)
{
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    dlock_err code = DLOCK_OK;
    if (kind == DLOCK_SEMAPHORE)
        code = dlock_conf_set_int(conf, "lock.permits", 2, err);
    if (kind == DLOCK_ELECTION && code == DLOCK_OK)
        code = dlock_conf_set(conf, "lock.data", "me", err);
    if (code == DLOCK_OK)
        code = dlock_lock_new(client, kind, name, conf, &lock, err);
    if (code == DLOCK_OK)
        code = dlock_lock_acquire(lock, 0, &hold, err);
    if (code == DLOCK_OK)
        code = dlock_hold_extend(hold, 60000, err);
    if (code == DLOCK_OK)
        code = dlock_hold_verify(hold, err);
    return code == DLOCK_OK ? dlock_hold_release(hold, err) : code;
}

static const struct {
    dlock_kind kind;
    const char *name;
} kinds[] = {{DLOCK_MUTEX, "mutex"},
             {DLOCK_ELECTION, "election"},
             {DLOCK_READ, "shared"},
             {DLOCK_WRITE, "written"},
             {DLOCK_SEMAPHORE, "semaphore"}};

static int kinds_of(const file *is)
{
    if (strcmp(is->settings, "redis.layout=redisson") == 0)
        return is->all_kinds ? 5 : 2;
    return 1;
}

/* ---- Nothing is left that would never end ---- */

static bool may_stay(const char *key)
{
    return strncmp(key, "redisson_lock_token:", 20) == 0 || /* tokens never repeat */
           strcmp(key, "app:semaphore") == 0 ||             /* its free permits */
           strcmp(key, "{app:semaphore}:timeout") == 0; /* each by the end of its own */
}

static bool none_on(redis_server *one)
{
    char all[4096], *rest = NULL;
    bool fine = true;
    snprintf(all, sizeof(all), "%s", redis_server_call(one, "KEYS *"));
    for (char *key = strtok_r(all, " ", &rest); key; key = strtok_r(NULL, " ", &rest)) {
        if (may_stay(key))
            continue;
        const char *left = redis_server_call(one, "PTTL %s", key);
        fine = harness_check(__FILE__, __LINE__, strcmp(left, "-1") != 0, key) && fine;
    }
    return fine;
}

static bool no_orphan(const file *is)
{
    servers all = data_servers(is);
    bool fine = true;
    for (int i = 0; i < (is->where == SENTINELS ? 1 : all.count); i++)
        fine = none_on(all.item[i]) && fine;
    return fine;
}

/* ---- The tests ---- */

/* All it is for works, and the doctor has nothing to say. */
static void suffices(const file *is, const rights *all)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    dlock_info *info = NULL;
    CHECK(give(is, all, -1));
    CHECK_OK(open_it(is, &client, &err), err);
    for (int k = 0; k < kinds_of(is); k++)
        CHECK_OK(use(client, kinds[k].kind, kinds[k].name, &err), err);
    CHECK_OK(dlock_client_doctor(client, &info, &err), err);
    for (int i = 0;; i++) {
        char key[32];
        snprintf(key, sizeof(key), "findings.%d.id", i);
        const char *id = dlock_info_get(info, key);
        if (!id)
            break;
        snprintf(key, sizeof(key), "findings.%d.severity", i);
        if (strncmp(id, "rights", 6) == 0)
            CHECK_STR(dlock_info_get(info, key), "0");
    }
    dlock_info_free(info);
    dlock_client_free(client);
    CHECK(no_orphan(is));
}

/* All that is said to who wants to know what is wrong. */
static void examine(const file *is, char *said, size_t size)
{
    dlock_client *client = NULL;
    dlock_error *err = NULL;
    dlock_info *info = NULL;
    said[0] = '\0';
    if (open_it(is, &client, &err) != DLOCK_OK ||
        dlock_client_doctor(client, &info, &err) != DLOCK_OK) {
        snprintf(said, size, "%s | %s", dlock_error_text(err), dlock_error_backend(err));
    } else {
        for (int i = 0;; i++) {
            char key[32];
            snprintf(key, sizeof(key), "findings.%d.text", i);
            const char *text = dlock_info_get(info, key);
            size_t used = strlen(said);
            if (!text)
                break;
            snprintf(said + used, size - used, "%s\n", text);
        }
        for (int k = 0; k < kinds_of(is); k++)
            (void)!use(client, kinds[k].kind, kinds[k].name, NULL);
    }
    dlock_info_free(info);
    dlock_error_free(err);
    dlock_client_free(client);
}

/* As it is written there, or as the command is called: "SENTINEL get-master-addr-by-name". */
static bool is_named(const char *right, const char *said)
{
    char called[128];
    snprintf(called, sizeof(called), "%s", right + 1);
    for (char *at = called; *at; at++)
        if (*at == '|')
            *at = ' ';
    return strstr(said, right) || (right[0] == '+' && strcasestr(said, called));
}

/* Without one right after the other. */
static void all_are_needed(const file *is, const rights *all)
{
    static char said[16384];
    for (int k = 0; k < all->count; k++) {
        const char *right = all->word[k];
        if (!strchr("+~&", right[0]))
            continue;
        CHECK(give(is, all, k));
        examine(is, said, sizeof(said));
        if (!is_named(right, said))
            harness_note("%s without %s: %s", is->name, right, said);
        CHECK(is_named(right, said));
        if (!no_orphan(is))
            harness_note("%s without %s", is->name, right);
        CHECK(!harness_failed());
        empty(is);
    }
}

static void test_files(where at)
{
    if (!redis_server_available())
        return;
    for (size_t i = 0; i < FILES; i++) {
        rights all;
        const file *is = &files[i];
        if (is->where != at)
            continue;
        harness_note("%s", is->name);
        bool fine = read_file(is->name, &all) && start(is);
        if (fine)
            suffices(is, &all);
        empty(is);
        if (fine && !harness_failed())
            all_are_needed(is, &all);
        stop(is);
        if (harness_failed())
            return;
    }
}

TEST(each_right_is_enough_and_needed_on_one_server)
{
    test_files(ALONE);
}

TEST(each_right_is_enough_and_needed_behind_sentinels)
{
    test_files(SENTINELS);
}

TEST(each_right_is_enough_and_needed_in_a_cluster)
{
    test_files(CLUSTER);
}

TEST(each_right_is_enough_and_needed_on_the_nodes_of_a_redlock)
{
    test_files(NODES);
}
