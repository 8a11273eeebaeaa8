/* Conditions on ZooKeeper: what lies there, and that nobody takes it for a lock. What a wait promises is in
 * tests/api/test_condition.c. */
#include "world.h"

#include "harness/api.h"

#include <stdio.h>
#include <string.h>

/* Sooner than anybody looks by himself. */
#define QUERY "client.poll_ms=60000"
enum { TOLD_MS = 30000 };

#define COND(name, client, text)                                                         \
    DLOCK_AUTO(dlock_cond) name = NULL;                                                  \
    CHECK_EQ_INT(dlock_cond_new(client, text, NULL, &(name), NULL), DLOCK_OK)
#define CLIENT(name) DLOCK_AUTO(dlock_client) name = world_client(QUERY)
#define LOCK(name, client, text)                                                         \
    DLOCK_AUTO(dlock_lock) name = world_lock(client, DLOCK_MUTEX, text, NULL)

/* The folder of a condition; until the next call. */
static const char *folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "/dlock-conditions/%s", name);
    return path;
}

static int places(const char *name)
{
    return world_children(folder(name));
}

static bool is_over(dlock_op *op, dlock_err code)
{
    return api_ends(op, TOLD_MS, code);
}

TEST(nothing_is_left_of_who_has_waited_and_of_signals)
{
    BEGIN();
    CLIENT(one);
    CLIENT(two);
    COND(waits, one, "cond-left");
    COND(wakes, two, "cond-left");
    CHECK_EQ_INT(api_signal(wakes, 1), 0);
    CHECK(zookeeper_wire_count(&world_wire, folder("cond-left")) <
          0); /* nothing is made */
    DLOCK_AUTO(dlock_op) first = dlock_cond_wait_start(waits, NULL, DLOCK_FOREVER);
    AWAIT(places("cond-left") == 1);
    DLOCK_AUTO(dlock_op) second = dlock_cond_wait_start(waits, NULL, DLOCK_FOREVER);
    AWAIT(places("cond-left") == 2);
    CHECK_EQ_INT(api_signal(wakes, 1), 1);
    CHECK(is_over(first, DLOCK_OK));
    AWAIT(places("cond-left") == 1);
    CHECK_EQ_INT(dlock_op_result(second), DLOCK_EPENDING);
    CHECK_EQ_INT(api_signal(wakes, 5), 1);
    CHECK(is_over(second, DLOCK_OK));
    /* An empty container goes by itself, and what lies in it with it. */
    AWAIT(zookeeper_wire_count(&world_wire, folder("cond-left")) < 0);
}

/* Neither to Curator, which knows no foreign nodes beside a lock's, nor to us. */
TEST(a_condition_is_no_lock_to_anybody)
{
    BEGIN();
    CLIENT(one);
    COND(cond, one, "cond-apart/filled");
    LOCK(line, one, "cond-apart/filled");
    DLOCK_AUTO(dlock_op) op = dlock_cond_wait_start(cond, NULL, DLOCK_FOREVER);
    AWAIT(strcmp(world_inspect(line, "waiters"), "1") == 0);
    CHECK_STR(world_inspect(line, "kind"), "condition");
    CHECK_STR(world_inspect(line, "held"), "0");
    CHECK_EQ_INT(world_children("/cond-apart"), 0);
    DLOCK_AUTO(dlock_info) locks = NULL;
    CHECK_EQ_INT(dlock_client_list(one, "", 1000, &locks, NULL), DLOCK_OK);
    for (size_t i = 0; i < dlock_info_count(locks); i++)
        CHECK(!strstr(dlock_info_text(locks, i), "filled"));
    LOCK(lock, one, "cond-apart");
    dlock_err code;
    DLOCK_AUTO(dlock_hold) outer = world_try(lock, 60000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    dlock_op_cancel(op);
    CHECK(is_over(op, DLOCK_ECANCELED));
    AWAIT(places("cond-apart/filled") == 0);
}

/* It waits for the lock when its session ends; the one behind it watches for that. */
TEST(a_signal_goes_on_when_the_session_of_who_has_it_ends)
{
    BEGIN();
    CLIENT(one);
    CLIENT(two);
    COND(dies, one, "cond-ends");
    COND(next, two, "cond-ends");
    LOCK(lock, one, "cond-ends-lock");
    LOCK(other, two, "cond-ends-lock");
    LOCK(line, two, "cond-ends");
    dlock_err code;
    DLOCK_AUTO(dlock_hold) hold = world_try(lock, 60000, &code);
    DLOCK_AUTO(dlock_op) first = dlock_cond_wait_start(dies, hold, DLOCK_FOREVER);
    AWAIT(places("cond-ends") == 1);
    int64_t session = world_session_of(folder("cond-ends"));
    DLOCK_AUTO(dlock_hold) held = world_try(other, 60000, &code);
    CHECK_EQ_INT(code, DLOCK_OK);
    DLOCK_AUTO(dlock_op) second = dlock_cond_wait_start(next, NULL, DLOCK_FOREVER);
    AWAIT(places("cond-ends") == 2);
    CHECK_EQ_INT(api_signal(next, 1), 1);
    AWAIT(strcmp(world_inspect(other, "waiters"), "1") == 0);
    CHECK_STR(world_inspect(line, "held"), "1");
    CHECK(strchr(world_inspect(line, "holders.0.owner"), ':')); /* it says who it is */
    CHECK_EQ_INT(dlock_op_result(second), DLOCK_EPENDING);
    CHECK(zookeeper_wire_expire(&world_server, session));
    CHECK(is_over(second, DLOCK_OK));
    AWAIT(places("cond-ends") == 0);
    dlock_op_cancel(first);
}

TEST(each_layout_has_the_same_conditions)
{
    static const char *const layouts[] = {"kazoo", "bridge", "exclusive", "pattern"};
    BEGIN();
    CLIENT(one);
    COND(wakes, one, "cond-layouts");
    for (int i = 0; i < 4; i++) {
        char query[100];
        snprintf(query, sizeof(query), "%s&zookeeper.layout=%s", QUERY, layouts[i]);
        DLOCK_AUTO(dlock_client) client = world_client(query);
        COND(cond, client, "cond-layouts");
        DLOCK_AUTO(dlock_op) op = dlock_cond_wait_start(cond, NULL, DLOCK_FOREVER);
        AWAIT(places("cond-layouts") == 1);
        CHECK_EQ_INT(api_signal(wakes, 1), 1);
        CHECK(is_over(op, DLOCK_OK));
        AWAIT(places("cond-layouts") == 0);
    }
}

TEST(what_is_no_count_of_signals_is_refused)
{
    BEGIN();
    CLIENT(one);
    COND(cond, one, "cond-other");
    (void)zookeeper_wire_create(&world_wire, "/dlock-conditions", "",
                                ZOOKEEPER_PERSISTENT, NULL, 0);
    CHECK_EQ_INT(zookeeper_wire_create(&world_wire, folder("cond-other"), "x",
                                       ZOOKEEPER_PERSISTENT, NULL, 0),
                 ZOOKEEPER_OK);
    DLOCK_AUTO(dlock_error) err = NULL;
    CHECK_ERR(dlock_cond_signal(cond, 1, NULL, NULL, &err), DLOCK_EPROTO, err);
    CHECK_CONTAINS(dlock_error_text(err), "signals");
    CHECK_EQ_INT(dlock_cond_wait(cond, NULL, DLOCK_FOREVER, NULL, NULL), DLOCK_EPROTO);
    AWAIT(places("cond-other") == 0); /* nothing of ours stays */
    CHECK_EQ_INT(zookeeper_wire_clear(&world_wire, folder("cond-other")), ZOOKEEPER_OK);
}
