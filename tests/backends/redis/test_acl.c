/* The ACL files that the documentation hands out, and the rights that its page tells: they suffice for
 * what they are for, with nothing in the server's ACL LOG, and each right of a file is needed:
 * without it the doctor, or the client when it is opened, names it, and no lock is left behind that
 * would never end. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/redis_topology.h"
#include "harness/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* ---- Nothing was refused ---- */

/* In the place of a kind of lock. */
#define CONDITION ((dlock_kind)0)

/* One kind of lock, as a lock's own conf may want it. */
typedef struct use_of {
    dlock_kind kind;
    const char *key, *value;
} use_of;

static dlock_lock *make_lock(dlock_client *client, const use_of *of, const char *name)
{
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_error) err = NULL;
    dlock_lock *lock = NULL;
    dlock_err code = of->key ? dlock_conf_set(conf, of->key, of->value, &err) : DLOCK_OK;
    if (code == DLOCK_OK)
        code = dlock_lock_new(client, of->kind, name, conf, &lock, &err);
    (void)harness_err(__FILE__, __LINE__, name, code, DLOCK_OK, err);
    return lock;
}

/* @p next waits for what @p first holds, and then has it: both mayn't, as with readers. */
static bool hand_on(dlock_client *client, dlock_lock *next, dlock_hold **held)
{
    int64_t before = api_stat(client, "commands");
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(next, 60000);
    for (int i = 0; i < 1000 && api_stat(client, "commands") == before; i++)
        nap_ms(1); /* until it has asked; if sooner, it doesn't wait */
    dlock_err code = dlock_hold_extend(*held, 60000, &err);
    if (code == DLOCK_OK)
        code = dlock_hold_release(*held, &err);
    dlock_hold_free(*held);
    *held = NULL;
    if (code == DLOCK_OK)
        code = dlock_op_wait(op, DLOCK_FOREVER);
    if (code == DLOCK_OK)
        *held = dlock_op_take_hold(op);
    return harness_err(__FILE__, __LINE__, "hand_on", code, DLOCK_OK,
                       err ? err : dlock_op_error(op));
}

/* One waits at a condition, the other signals. */
static void wait_and_signal(dlock_client *waiter, dlock_client *other, const char *name)
{
    DLOCK_AUTO(dlock_cond) line = NULL;
    DLOCK_AUTO(dlock_cond) theirs = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    int64_t count = 0;
    CHECK_OK(dlock_cond_new(waiter, name, NULL, &line, &err), err);
    CHECK_OK(dlock_cond_new(other, name, NULL, &theirs, &err), err);
    DLOCK_AUTO(dlock_op) op = dlock_cond_wait_start(line, NULL, DLOCK_FOREVER);
    while (count == 0 && dlock_op_result(op) == DLOCK_EPENDING) {
        CHECK_OK(dlock_cond_signal(theirs, 1, NULL, &count, &err), err);
        nap_ms(1);
    }
    CHECK_OK(dlock_op_wait(op, DLOCK_FOREVER), NULL);
    CHECK_OK(dlock_op_result(op), NULL);
}

/* Two clients in turns, so often that each way to hand a lock on has been gone. */
static void take_turns(dlock_client *clients[2], const use_of *of, const char *name)
{
    DLOCK_AUTO(dlock_lock) one = make_lock(clients[0], of, name);
    DLOCK_AUTO(dlock_lock) other = make_lock(clients[1], of, name);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK(!harness_failed());
    CHECK_OK(dlock_lock_acquire(one, 0, &hold, &err), err);
    for (int i = 0; i < 12; i++)
        CHECK(hand_on(clients[i % 2 ? 0 : 1], i % 2 ? one : other, &hold));
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_hold_release(hold, &err), err);
}

static bool is_log_empty(servers all, const char *whose)
{
    for (int i = 0; i < all.count; i++)
        if (!harness_str(__FILE__, __LINE__, whose,
                         redis_server_call(all.item[i], "ACL LOG"), ""))
            return false;
    return true;
}

static void stays_quiet(const file *is, const use_of *uses, int count)
{
    dlock_client *clients[2] = {NULL, NULL};
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK(order(data_servers(is), "ACL LOG RESET"));
    if (is->where == SENTINELS)
        CHECK(order(sentinels(), "ACL LOG RESET"));
    for (int i = 0; i < 2; i++)
        CHECK_OK(open_it(is, &clients[i], &err), err);
    for (int k = 0; k < count && !harness_failed(); k++) {
        char name[32];
        snprintf(name, sizeof(name), "turns-%d", k);
        if (uses[k].kind == CONDITION)
            wait_and_signal(clients[0], clients[1], name);
        else
            take_turns(clients, &uses[k], name);
    }
    for (int i = 0; i < 2; i++)
        dlock_client_free(clients[i]);
    CHECK(is_log_empty(data_servers(is), is->name));
    if (is->where == SENTINELS)
        CHECK(is_log_empty(sentinels(), "the sentinels"));
}

/* ---- The page ---- */

/* Its part from @p begin on to @p end. */
static bool read_page(const char *begin, const char *end, char *text, size_t size)
{
    static char page[65536];
    FILE *in = fopen(getenv("REDIS_RIGHTS_PAGE"), "re");
    page[in ? fread(page, 1, sizeof(page) - 1, in) : 0] = '\0';
    if (in)
        fclose(in);
    const char *from = strstr(page, begin);
    const char *to = from ? strstr(from + strlen(begin), end) : NULL;
    snprintf(text, size, "%.*s", to ? (int)(to - from) : 0, from ? from : "");
    return harness_check(__FILE__, __LINE__, to && (size_t)(to - from) < size, begin);
}

/* Adds the rights among these words: in a row of the table they stand in code, with \| for |. */
static void add_rights(rights *all, const char *text)
{
    char *to = all->text;
    for (int i = 0; i < all->count; i++)
        if (all->word[i] + strlen(all->word[i]) + 1 > to)
            to = all->word[i] + strlen(all->word[i]) + 1;
    while (*text && all->count < RIGHTS_MAX) {
        size_t size = strcspn(text, " \n`;,");
        if (strchr("+~&-", text[0]) || strncmp(text, "reset", 5) == 0 ||
            strcmp(text, "on") == 0) {
            all->word[all->count++] = to;
            for (size_t i = 0; i < size; i++)
                if (text[i] != '\\')
                    *to++ = text[i];
            *to++ = '\0';
        }
        text += size;
        text += strspn(text, " \n`;,");
    }
}

/* What the page's command gives, and its row for @p more, if any. */
static bool rights_of_page(const char *more, rights *ret)
{
    char text[2048], row[300];
    *ret = (rights){.count = 2}; /* as in a file: who it is */
    ret->word[0] = ret->word[1] = ret->text;
    if (!read_page("ACL SETUSER locks on >PASSWORD", "```", text, sizeof(text)))
        return false;
    static const char *const who[] = {"on", ">secret"};
    char *to = ret->text + 1;
    for (size_t i = 0; i < 2; i++) {
        ret->word[ret->count++] = strcpy(to, who[i]);
        to += strlen(who[i]) + 1;
    }
    add_rights(ret, text + strlen("ACL SETUSER locks on >PASSWORD"));
    if (!more)
        return true;
    snprintf(row, sizeof(row), "\n| %s |", more);
    if (!read_page(row, " |\n", text, sizeof(text)))
        return false;
    add_rights(ret, text + strlen(row));
    return true;
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
    if (is->all_kinds)
        wait_and_signal(client, client, "condition");
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
    use_of uses[6];
    for (int k = 0; k < kinds_of(is); k++)
        uses[k] = kinds[k].kind == DLOCK_SEMAPHORE
                      ? (use_of){DLOCK_SEMAPHORE, "lock.permits", "1"}
                      : (use_of){.kind = kinds[k].kind};
    uses[kinds_of(is)] = (use_of){.kind = CONDITION};
    stays_quiet(is, uses, kinds_of(is) + is->all_kinds);
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

TEST(the_rights_on_the_page_are_enough_and_leave_nothing_in_the_ACL_LOG)
{
    static const struct {
        const char *row, *settings;
        use_of use;
    } cases[] = {
        {NULL, "", {.kind = DLOCK_MUTEX}},
        {NULL, "", {.kind = DLOCK_ELECTION}},
        {NULL, "redis.layout=string", {.kind = DLOCK_MUTEX}},
        {"`lock.fair=true`", "lock.fair=true", {.kind = DLOCK_MUTEX}},
        {"`lock.fair=true`", "", {DLOCK_MUTEX, "lock.fair", "true"}},
        {"read/write locks", "", {.kind = DLOCK_WRITE}},
        {"read/write locks", "", {.kind = DLOCK_READ}},
        {"semaphores", "", {DLOCK_SEMAPHORE, "lock.permits", "1"}},
        {"semaphores", "redis.semaphore=plain", {DLOCK_SEMAPHORE, "lock.permits", "1"}},
        {"conditions", "", {.kind = CONDITION}},
    };
    if (!redis_server_available())
        return;
    CHECK(redis_server_start(&server, NULL));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        rights all;
        const file is = {.name = cases[i].row ? cases[i].row : "the snippet",
                         .settings = cases[i].settings};
        CHECK(rights_of_page(cases[i].row, &all) && give(&is, &all, -1));
        stays_quiet(&is, &cases[i].use, 1);
        CHECK(!harness_failed());
        empty(&is);
    }
    redis_server_stop(&server);
}
