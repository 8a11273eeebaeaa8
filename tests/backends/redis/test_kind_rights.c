/* The rights that one kind of lock needs beyond others: a client is refused for those of its own
 * default, and a lock of another kind names what it lacks at its first use, before anything is done. */
#include "harness/harness.h"
#include "harness/redis_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redis_server server;

/* ---- rights ---- */

enum { RIGHTS_MAX = 120 };

typedef struct rights {
    char text[8192];
    const char *word[RIGHTS_MAX];
    int count;
} rights;

static bool has(const rights *all, const char *right)
{
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->word[i], right) == 0)
            return true;
    return false;
}

/* Adds those of a file of the documentation, but for who it is and "-@all". */
static bool add_file(rights *all, const char *name)
{
    char path[512], line[4096], *rest = NULL;
    snprintf(path, sizeof(path), "%s/%s", getenv("REDIS_ACL_DIR"), name);
    FILE *in = fopen(path, "re");
    bool fine = in && fgets(line, sizeof(line), in);
    if (in)
        fclose(in);
    size_t used = 0;
    for (int i = 0; i < all->count; i++)
        used = (size_t)(all->word[i] - all->text) + strlen(all->word[i]) + 1;
    for (char *word = fine ? strtok_r(line, " \n", &rest) : NULL; word;
         word = strtok_r(NULL, " \n", &rest)) {
        if (!strchr("+~&", word[0]) || has(all, word) || all->count == RIGHTS_MAX)
            continue;
        all->word[all->count++] = strcpy(all->text + used, word);
        used += strlen(word) + 1;
    }
    return harness_check(__FILE__, __LINE__, fine, name);
}

/* Gives the user these rights but one (NULL: all). */
static bool give(const rights *all, const char *but)
{
    static char command[8192];
    snprintf(command, sizeof(command),
             "ACL SETUSER locks reset on >secret resetkeys resetchannels -@all");
    for (int i = 0; i < all->count; i++) {
        size_t used = strlen(command);
        if (!but || strcmp(all->word[i], but) != 0)
            snprintf(command + used, sizeof(command) - used, " %s", all->word[i]);
    }
    return harness_str(__FILE__, __LINE__, "ACL SETUSER",
                       redis_server_call(&server, "%s", command), "OK");
}

/* In all files, for what clients tell; and of some of them kinds are made, too. */
static const char *const telling[] = {
    "+zadd", "+zrem", "+zrangebyscore", "+zremrangebyscore", "+getrange", "+zcount"};

static void drop(rights *all, const char *right)
{
    int kept = 0;
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->word[i], right) != 0)
            all->word[kept++] = all->word[i];
    all->count = kept;
}

/* Of mutexes and elections, and no more. */
static bool add_plain(rights *all)
{
    if (!add_file(all, "redisson.acl"))
        return false;
    for (size_t i = 0; i < sizeof(telling) / sizeof(*telling); i++)
        drop(all, telling[i]);
    return true;
}

/* Of fair locks. */
static bool add_fair(rights *all)
{
    if (!add_file(all, "redisson-fair.acl"))
        return false;
    drop(all, "+zrangebyscore"); /* who lists needs it */
    return true;
}

/* What locks can do without. */
static bool is_wish(const char *right)
{
    static const char *const wishes[] = {
        "+zremrangebyscore", "+getrange",  "+script|load", "+info",
        "+client|setname",   "+subscribe", "+unsubscribe", "+publish",
        "+pubsub|numsub",    "+llen",      "+hkeys",       "+zcount"};
    for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
        if (strcmp(right, wishes[i]) == 0)
            return true;
    return right[0] == '&';
}

/* ---- clients and locks ---- */

static dlock_err open_as(const char *settings, dlock_client **ret, dlock_error **err)
{
    char uri[200];
    snprintf(
        uri, sizeof(uri),
        "redis://locks:secret@127.0.0.1:%d?client.prefix=app:&client.timeout_ms=20000"
        "&client.connect_ms=20000&%s",
        server.port, settings);
    return dlock_client_open(uri, NULL, ret, err);
}

/* In the place of a kind of lock. */
#define CONDITION ((dlock_kind)0)

/* Waits there, and is signalled. */
static dlock_err visit_condition(dlock_client *client, const char *name,
                                 dlock_error **err)
{
    DLOCK_AUTO(dlock_cond) cond = NULL;
    int64_t count = 0;
    dlock_err code = dlock_cond_new(client, name, NULL, &cond, err);
    if (code != DLOCK_OK)
        return code;
    DLOCK_AUTO(dlock_op) op = dlock_cond_wait_start(cond, NULL, DLOCK_FOREVER);
    while (count == 0 && dlock_op_result(op) == DLOCK_EPENDING)
        (void)dlock_cond_signal(cond, 1, NULL, &count,
                                NULL); /* who waits says what fails */
    code = dlock_op_wait(op, DLOCK_FOREVER);
    if (code == DLOCK_OK && dlock_op_result(op) != DLOCK_OK)
        code = dlock_cond_wait(cond, NULL, DLOCK_FOREVER, NULL, err); /* for the text */
    return code;
}

/* Takes it once, and gives it back. @p key=value: its own conf. */
static dlock_err visit(dlock_client *client, dlock_kind kind, const char *name,
                       const char *key, const char *value, dlock_error **err)
{
    DLOCK_AUTO(dlock_conf) conf = dlock_conf_new();
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    if (kind == CONDITION)
        return visit_condition(client, name, err);
    dlock_err code = key ? dlock_conf_set(conf, key, value, err) : DLOCK_OK;
    if (code == DLOCK_OK)
        code = dlock_lock_new(client, kind, name, conf, &lock, err);
    if (code == DLOCK_OK)
        code = dlock_lock_acquire(lock, 0, &hold, err);
    return code == DLOCK_OK ? dlock_hold_release(hold, err) : code;
}

static dlock_err visit_fair(dlock_client *client, const char *fair, dlock_error **err)
{
    return visit(client, DLOCK_MUTEX, "orders", "lock.fair", fair, err);
}

/* Nothing but tokens of before. */
static bool is_untouched(void)
{
    return harness_str(__FILE__, __LINE__, "KEYS",
                       redis_server_call(&server, "KEYS *orders*"), "");
}

static void forget(void)
{
    (void)redis_server_call(&server, "FLUSHALL");
}

static bool begin(void)
{
    return redis_server_available() && redis_server_start(&server, NULL);
}

/* ---- fair locks ---- */

TEST(who_may_use_fair_locks_alone_opens_a_client_and_asks_for_them_by_their_own_conf)
{
    rights fair = {.count = 0};
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    if (!begin())
        return;
    CHECK(add_file(&fair, "redisson-fair.acl") && give(&fair, NULL));
    CHECK_OK(open_as("", &client, &err), err);
    CHECK_OK(visit_fair(client, "true", &err), err);
    forget();
    /* The others it may not use, and is told what for. */
    CHECK_ERR(visit_fair(client, "false", &err), DLOCK_EACCES, err);
    CHECK_CONTAINS(dlock_error_text(err), "user locks at 127.0.0.1:");
    CHECK_CONTAINS(dlock_error_text(err), " +lpos");
    CHECK(is_untouched());
    CHECK_OK(visit_fair(client, "true", &err), err);
    redis_server_stop(&server);
}

TEST(rights_of_fair_locks_are_named_at_open_where_they_are_the_clients_default)
{
    rights fair = {.count = 0};
    if (!begin())
        return;
    CHECK(add_fair(&fair));
    for (int i = 0; i < fair.count; i++) {
        const char *right = fair.word[i];
        DLOCK_AUTO(dlock_client) client = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        if (is_wish(right) || right[0] == '~') /* keys are known by the locks' names */
            continue;
        CHECK(give(&fair, right));
        CHECK_ERR(open_as("lock.fair=true", &client, &err), DLOCK_EACCES, err);
        CHECK(strcasestr(dlock_error_text(err), right + 1) != NULL);
    }
    redis_server_stop(&server);
}

/* Whatever this kind needs beyond the files that @p given came from is named at its first use. */
static void is_named_at_first_use(const rights *given, const rights *all, dlock_kind kind,
                                  const char *key, const char *value)
{
    int looked_at = 0;
    for (int i = 0; i < all->count; i++) {
        const char *right = all->word[i];
        DLOCK_AUTO(dlock_client) client = NULL;
        DLOCK_AUTO(dlock_error) err = NULL;
        if (has(given, right) || is_wish(right))
            continue;
        looked_at++;
        forget();
        CHECK(give(all, right));
        CHECK_OK(open_as("", &client, &err), err);
        CHECK_OK(visit(client, DLOCK_MUTEX, "others", NULL, NULL, &err), err);
        CHECK_ERR(visit(client, kind, "orders", key, value, &err), DLOCK_EACCES, err);
        if (!strstr(dlock_error_text(err), right))
            harness_note("without %s: %s", right, dlock_error_text(err));
        CHECK_CONTAINS(dlock_error_text(err), right);
        CHECK(is_untouched());
        CHECK(give(all, NULL)); /* what was mended is seen by the next one who asks */
        CHECK_OK(visit(client, kind, "orders", key, value, &err), err);
    }
    CHECK(looked_at > 0);
}

TEST(rights_of_fair_locks_are_named_at_first_use_where_a_locks_own_conf_asks_for_them)
{
    rights plain = {.count = 0}, all = {.count = 0};
    if (!begin())
        return;
    CHECK(add_plain(&plain));
    CHECK(add_plain(&all) && add_fair(&all));
    is_named_at_first_use(&plain, &all, DLOCK_MUTEX, "lock.fair", "true");
    redis_server_stop(&server);
}

/* ---- other kinds ---- */

/* The rights of redisson-all.acl but those that are other kinds'. */
static bool add_kind(rights *all, const char *rest)
{
    rights every = {.count = 0};
    size_t used = 0;
    if (!add_file(&every, "redisson-all.acl"))
        return false;
    *all = (rights){.count = 0};
    for (int i = 0; i < every.count; i++) {
        char padded[64];
        snprintf(padded, sizeof(padded), " %s ", every.word[i]);
        if (strstr(rest, padded))
            continue;
        all->word[all->count++] = strcpy(all->text + used, every.word[i]);
        used += strlen(every.word[i]) + 1;
    }
    return true;
}

#define FAIR                                                                             \
    " +hsetnx +lindex +lrange ~redisson_lock_queue:{app:* "                              \
    "~redisson_lock_timeout:{app:* "                                                     \
    "~dlock_silent:{app:* "
#define SIGNALLED                                                                        \
    " +hlen ~dlock_cond:{app:* ~dlock_signals:{app:* &dlock_cond_channel:{app:* "
#define PERMITS " ~dlock_permit:{app:* "
#define COUNTED                                                                          \
    " +zcard +zrangebyscore +incrby +decrby +zadd +zrem +zscore +zrange " PERMITS

/* Takes the keys of readers out, and gives them as narrowly as they are made, or not at all. */
static bool give_readers(const char *keys)
{
    static char command[8192];
    rights all;
    if (!add_kind(&all, FAIR SIGNALLED COUNTED " ~{app:* ") || !give(&all, NULL))
        return false;
    snprintf(command, sizeof(command), "ACL SETUSER locks %s", keys);
    return harness_str(__FILE__, __LINE__, "ACL SETUSER",
                       redis_server_call(&server, "%s", command), "OK");
}

TEST(a_reader_needs_no_more_keys_than_it_has)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    if (!begin())
        return;
    CHECK(give_readers("~{app:*}:*:rwlock_timeout:*"));
    CHECK_OK(open_as("", &client, &err), err);
    CHECK_OK(visit(client, DLOCK_READ, "orders", NULL, NULL, &err), err);
    redis_server_stop(&server);
}

TEST(the_keys_of_readers_are_named_as_a_pattern)
{
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    if (!begin())
        return;
    CHECK(give_readers("~orders"));
    CHECK_OK(open_as("client.prefix=", &client, &err), err);
    CHECK_ERR(visit(client, DLOCK_READ, "orders", NULL, NULL, &err), DLOCK_EACCES, err);
    CHECK_CONTAINS(dlock_error_text(err), "~{orders}:* (ACL SETUSER)");
    CHECK(is_untouched());
    redis_server_stop(&server);
}

TEST(rights_of_other_kinds_are_named_at_their_first_use)
{
    rights plain = {.count = 0}, all;
    if (!begin())
        return;
    CHECK(add_plain(&plain));
    CHECK(add_kind(&all, FAIR SIGNALLED COUNTED));
    is_named_at_first_use(&plain, &all, DLOCK_READ, NULL, NULL);
    CHECK(!harness_failed());
    CHECK(add_kind(&all, FAIR SIGNALLED COUNTED " ~{app:* ")); /* those of readers */
    is_named_at_first_use(&plain, &all, DLOCK_WRITE, NULL, NULL);
    CHECK(!harness_failed());
    CHECK(add_kind(&all, FAIR SIGNALLED " +hgetall " PERMITS)); /* these do without */
    is_named_at_first_use(&plain, &all, DLOCK_SEMAPHORE, "lock.permits", "2");
    CHECK(!harness_failed());
    CHECK(add_kind(&all, " +hsetnx +lrange ~redisson_lock_queue:{app:* "
                         "~redisson_lock_timeout:{app:* ~dlock_silent:{app:* ~{app:* "
                         "+incrby +decrby +hgetall " PERMITS));
    is_named_at_first_use(&plain, &all, CONDITION, NULL, NULL);
    redis_server_stop(&server);
}

/* Whether whoever looks is told since when. */
static void semaphore_as(const char *without, bool told)
{
    rights all;
    DLOCK_AUTO(dlock_client) client = NULL;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK(add_kind(&all, without) && give(&all, NULL));
    CHECK_OK(open_as("lock.permits=2", &client, &err), err);
    CHECK_OK(dlock_lock_new(client, DLOCK_SEMAPHORE, "orders", NULL, &lock, &err), err);
    CHECK_OK(dlock_lock_acquire(lock, 0, &hold, &err), err);
    CHECK_OK(dlock_hold_extend(hold, 61000, &err), err);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_OK(dlock_lock_inspect(lock, &info, &err), err);
    CHECK(dlock_info_get(info, "holders.0.owner") != NULL);
    CHECK((dlock_info_get(info, "holders.0.since") != NULL) == told);
    CHECK_OK(dlock_hold_release(hold, &err), err);
}

/* Nothing depends on what is said beside the permits. */
TEST(permits_do_without_the_key_of_what_is_said_of_them)
{
    if (!begin())
        return;
    semaphore_as("", true);
    forget();
    semaphore_as(PERMITS, false);
    redis_server_stop(&server);
}
