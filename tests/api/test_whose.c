/* Whose process a holder is, and each who waits in a line: what inspect and list say of it, and since when. */
#include "harness/redis_server.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- whose process it is ---- */

/* What stands for a candidate there is what he publishes, and no more. */
static bool tells_whose(dlock_kind kind)
{
    return kind != DLOCK_ELECTION || (!world_is("zookeeper") && !world_is("etcd"));
}

static void check_text(int line, const dlock_info *info, const char *list,
                       const char *what, const char *wanted)
{
    char key[64];
    snprintf(key, sizeof(key), "%s.0.%s", list, what);
    const char *said = dlock_info_get(info, key);
    (void)harness_str(__FILE__, line, key, said ? said : "", wanted);
}

/* The first of a list is this process, by that name. */
static void check_whose(int line, const dlock_info *info, const char *list,
                        const char *client)
{
    char host[256] = "", pid[24];
    (void)gethostname(host, sizeof(host) - 1); /* else it is compared with "" */
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    check_text(line, info, list, "client", client);
    check_text(line, info, list, "host", host);
    check_text(line, info, list, "pid", pid);
}

#define CHECK_WHOSE(info, list, client)                                                  \
    do {                                                                                 \
        check_whose(__LINE__, (info), (list), (client));                                 \
        if (harness_failed())                                                            \
            return;                                                                      \
    } while (0)

static void leads_back(const char *name, size_t kind)
{
    const char *settings = world_waited[kind].settings;
    DLOCK_AUTO(dlock_client) client = world_client("client.name=who");
    DLOCK_AUTO(dlock_client) other = world_client("client.name=looker");
    DLOCK_AUTO(dlock_lock)
    lock = api_lock(client, world_waited[kind].kind, name, settings);
    DLOCK_AUTO(dlock_lock)
    theirs = api_lock(other, world_waited[kind].kind, name, settings);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_EQ_INT(dlock_lock_inspect(theirs, &info, NULL), DLOCK_OK);
    CHECK_WHOSE(info, "holders", "who");
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    CHECK_STR(api_seen(theirs, "holders.0.client"), "");
}

/* Of each kind that tells whose it is, a lock named after the test. */
static void of_each_kind(const char *test, void (*check)(const char *name, size_t kind))
{
    for (size_t i = 0; i < WORLD_WAITED; i++) {
        char name[100];
        DLOCK_AUTO(dlock_client) client = world_client(NULL);
        if (!world_has_kind(client, world_waited[i].name) ||
            !tells_whose(world_waited[i].kind))
            continue;
        snprintf(name, sizeof(name), "%s/%s", test, world_waited[i].name);
        check(name, i);
        if (harness_failed())
            return;
    }
}

TEST(a_holder_is_led_back_to_its_client)
{
    BEGIN();
    of_each_kind(__func__, leads_back);
}

/* A semaphore of Redis shows the permit that ends first, and how many are taken. */
static void is_listed(const char *name, size_t kind)
{
    const char *settings = world_waited[kind].settings;
    dlock_kind wants = world_waited[kind].kind;
    bool permits = wants == DLOCK_SEMAPHORE && world_is("redis");
    DLOCK_AUTO(dlock_client) client = world_client("client.name=who");
    DLOCK_AUTO(dlock_client) other = world_client("client.name=looker");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, wants, name, settings);
    DLOCK_AUTO(dlock_lock)
    theirs = api_lock(other, wants == DLOCK_READ ? DLOCK_WRITE : wants, name, settings);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    if (world_tells_the_line(wants)) /* who waits isn't listed */
        AWAIT(api_seen(lock, "waiting.0.owner")[0]);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_EQ_INT(dlock_client_list(other, name, 10, &info, NULL), DLOCK_OK);
    CHECK_STR(dlock_info_get(info, "locks.0.name"), name);
    CHECK_STR(dlock_info_get(info, "locks.0.owner"),
              permits ? api_seen(lock, "holders.0.owner") : dlock_hold_owner(hold));
    CHECK_WHOSE(info, "locks", "who");
    CHECK(!dlock_info_get(info, "locks.1.name"));
    if (permits) {
        CHECK_STR(dlock_info_get(info, "locks.0.kind"), "semaphore");
        CHECK_STR(dlock_info_get(info, "locks.0.taken"), "1");
    }
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_info) after = NULL;
    CHECK_EQ_INT(dlock_client_list(other, name, 10, &after, NULL), DLOCK_OK);
    if (permits)
        CHECK(!dlock_info_get(after, "locks.0.name"));
}

TEST(a_listed_lock_is_led_back_to_its_client)
{
    BEGIN();
    LEAVE_OUT_ON("memcached", "it lists nothing");
    LEAVE_OUT_ON("memlock", "it lists nothing");
    if (strstr(world_uri(), "layout=exclusive"))
        LEAVE_OUT("what is listed there are the nodes in lines");
    of_each_kind(__func__, is_listed);
}

/* ---- who waits ---- */

/* Where there is a line each who waits in it has a record of his own, if not in the table. */
static bool waiters_show_data(void)
{
    return world_is("zookeeper") || world_is("etcd");
}

static void line_is_told(const char *name, size_t kind)
{
    dlock_kind wants = world_waited[kind].kind;
    char settings[100];
    snprintf(settings, sizeof(settings), "lock.data=mine %s",
             world_waited[kind].settings ? world_waited[kind].settings : "");
    DLOCK_AUTO(dlock_client) client = world_client("client.name=holder");
    DLOCK_AUTO(dlock_client) other = world_client("client.name=waiter");
    DLOCK_AUTO(dlock_client) third = world_client("client.name=last");
    DLOCK_AUTO(dlock_lock)
    held = api_lock(client, wants == DLOCK_READ ? DLOCK_WRITE : wants, name,
                    world_waited[kind].settings);
    DLOCK_AUTO(dlock_lock) theirs = api_lock(other, wants, name, settings);
    DLOCK_AUTO(dlock_lock)
    later = api_lock(third, wants, name, world_waited[kind].settings);
    DLOCK_AUTO(dlock_hold) hold = world_take(held);
    CHECK_STR(api_seen(held, "waiting.0.owner"), "");
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    AWAIT(api_seen(held, "waiting.0.owner")[0]);
    DLOCK_AUTO(dlock_op) behind = dlock_lock_acquire_start(later, DLOCK_FOREVER);
    AWAIT(api_seen(held, "waiting.1.owner")[0]);
    DLOCK_AUTO(dlock_info) info = NULL;
    CHECK_EQ_INT(dlock_lock_inspect(theirs, &info, NULL), DLOCK_OK); /* own ones, too */
    if (tells_whose(wants)) {
        CHECK_WHOSE(info, "waiting", "waiter");
        CHECK_STR(dlock_info_get(info, "waiting.1.client"), "last");
        CHECK_WHOSE(info, "holders", "holder");
    }
    CHECK_STR(api_seen(held, "waiting.0.data"), waiters_show_data() ? "mine" : "");
    CHECK_STR(api_seen(held, "waiting.1.data"), "");
    CHECK_STR(api_seen(held, "waiting.2.owner"), "");
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    ENDS(op, DLOCK_OK);
    if (wants == DLOCK_READ) /* both are in */
        ENDS(behind, DLOCK_OK);
    dlock_op_cancel(behind);
    AWAIT(!api_seen(held, "waiting.0.owner")[0]);
}

TEST(who_waits_in_the_line_is_told_in_its_order)
{
    BEGIN();
    for (size_t i = 0; i < WORLD_WAITED; i++) {
        char name[100];
        DLOCK_AUTO(dlock_client) client = world_client(NULL);
        if (!world_has_kind(client, world_waited[i].name) ||
            !world_tells_the_line(world_waited[i].kind))
            continue;
        snprintf(name, sizeof(name), "%s/%s", __func__, world_waited[i].name);
        line_is_told(name, i);
        if (harness_failed())
            return;
    }
}

/* ---- since when ---- */

/* A table keeps dates by its own clock, and coarsely: they are told by the wall clock of who asks. */
static bool is_table(void)
{
    return world_is("mem") || world_is("file");
}

/* The date may be set meanwhile, but hardly by more than so much. */
#define CHECK_BETWEEN(since, before, after)                                              \
    CHECK((since) / 1000 >= (before)-60 && (since) / 1000 <= (after) + 60)

#define CHECK_SAME_DATE(since, before)                                                   \
    CHECK(llabs((since) - (before)) <= (is_table() ? 20 : 0))

static void check_since(const char *name, size_t kind)
{
    dlock_kind wants = world_waited[kind].kind;
    char settings[100];
    bool own_lease = !world_is("zookeeper") && !world_is("etcd");
    snprintf(settings, sizeof(settings), "%s %s", own_lease ? "lock.ttl_ms=3000" : "",
             world_waited[kind].settings ? world_waited[kind].settings : "");
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, wants, name, settings);
    DLOCK_AUTO(dlock_lock) theirs = api_lock(other, wants, name, settings);
    time_t before = time(NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    int64_t since = world_seen(theirs, "holders.0.since");
    CHECK_BETWEEN(since, before, time(NULL));
    int64_t renewals = api_stat(client, "renewals");
    if (own_lease)
        AWAIT(api_stat(client, "renewals") > renewals);
    /* As it was. */
    CHECK_SAME_DATE(world_seen(theirs, "holders.0.since"), since);
}

TEST(since_when_is_told_where_the_service_knows_it)
{
    BEGIN();
    of_each_kind(__func__, check_since);
}

TEST(who_waits_shows_since_when_where_the_service_knows_it)
{
    BEGIN();
    if (!world_is("zookeeper") && !world_is("etcd") && !world_is("postgres") &&
        !is_table())
        LEAVE_OUT("no date stands in its line");
    TWO_CLIENTS(client, other);
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_lock) theirs = api_lock(other, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    int64_t since = world_seen(theirs, "holders.0.since");
    time_t before = time(NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(theirs, DLOCK_FOREVER);
    AWAIT(api_seen(lock, "waiting.0.owner")[0]);
    CHECK_BETWEEN(world_seen(lock, "waiting.0.since"), before, time(NULL));
    CHECK(world_seen(lock, "waiting.0.since") + (is_table() ? 20 : 0) >= since);
    CHECK_SAME_DATE(world_seen(lock, "holders.0.since"), since);
}

/* Not by looking, and not after the end. */
TEST(a_client_that_is_closed_leaves_no_trace)
{
    BEGIN();
    if (!world_is("redis"))
        return;
    char one[100];
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    CHECK_STR(api_seen(lock, "held"), "0");
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    snprintf(one, sizeof(one), "dlock_client:%.18s", dlock_hold_owner(hold));
    CHECK_STR(redis_server_call(world_redis(), "EXISTS %s", one), "1");
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    AWAIT(strcmp(redis_server_call(world_redis(), "EXISTS %s", one), "0") == 0);
}
