/* A connection that is cut when a request has gone out and its answer hasn't come: was the node
 * made, is it gone? Whatever the truth, there is one node of ours while we hold it, and none
 * afterwards. DLK_TEST_CUTS says how many times. */
#include "zookeeper_stage.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 8, CUTS = 24 };

typedef struct worker {
    pthread_t thread;
    int number;
    int rounds;
} worker;

static atomic_int cuts_wanted;

static int cuts(void)
{
    const char *many = getenv("DLK_TEST_CUTS");
    return many ? atoi(many) : CUTS;
}

static void plan_each(proxy_deed deed, int number, const char *command)
{
    proxy_plan plan = {.deed = deed, .number = number, .every = true, .command = command};
    (void)harness_check(__FILE__, __LINE__, proxy_add_plan(keeper_way(), plan), "a plan");
}

/* One node of its own is there, made when the token says so; then none. */
static void hold_once(worker *me, dlock_lock *lock, zookeeper_wire *hand,
                      const char *path)
{
    char names[1024], node[1200];
    zookeeper_stat status;
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_lock_acquire(lock, patience_ms(), &hold, &err), err);
    CHECK_EQ_INT(zookeeper_wire_children(hand, path, names, sizeof(names)), ZOOKEEPER_OK);
    int count = 0;
    for (char *at = names; (at = strchr(at, ' ')); at++)
        count++;
    if (count != 1)
        harness_note("%s", names);
    CHECK_ALWAYS(count == 1);
    names[strlen(names) - 1] = '\0';
    snprintf(node, sizeof(node), "%s/%s", path, names);
    CHECK_EQ_INT(zookeeper_wire_stat(hand, node, &status), ZOOKEEPER_OK);
    CHECK_EQ_INT(dlock_hold_token(hold), status.czxid);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_EQ_INT(zookeeper_wire_count(hand, path), 0);
    me->rounds++;
}

static void work(worker *me)
{
    char path[32];
    zookeeper_wire hand;
    if (!zookeeper_wire_open(&hand, keeper_server()->port))
        return;
    snprintf(path, sizeof(path), "/cut/%d", me->number);
    dlock_client *client = stage_open(keeper_way_uri(KEPT_MS, ""), NULL);
    dlock_lock *lock = client ? stage_lock(client, path + 1) : NULL;
    (void)zookeeper_wire_create(&hand, path, "", ZOOKEEPER_PERSISTENT, NULL, 0);
    while (lock && !harness_failed() && atomic_load(&cuts_wanted) > 0)
        hold_once(me, lock, &hand, path);
    dlock_lock_free(lock);
    dlock_client_free(client);
    zookeeper_wire_close(&hand);
}

static void *run(void *arg)
{
    work(arg);
    return NULL;
}

/* Until that many requests were hit. */
static void cut_each(proxy_deed deed, const char *command)
{
    worker workers[WORKERS];
    proxy_link *way = keeper_way();
    int64_t before = proxy_get_stats(way).deeds;
    int rounds = 0;
    atomic_store(&cuts_wanted, 1);
    plan_each(deed, 3, command);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.number = i};
        CHECK(pthread_create(&workers[i].thread, NULL, run, &workers[i]) == 0);
    }
    while (!harness_failed() && proxy_get_stats(way).deeds - before < cuts())
        nap_ms(5);
    atomic_store(&cuts_wanted, 0);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        rounds += workers[i].rounds;
    }
    harness_note("%s cut %lld times in %d rounds", command,
                 (long long)(proxy_get_stats(way).deeds - before), rounds);
    proxy_forget_plans(way);
}

static void prepare(void)
{
    (void)keeper_way();
    (void)zookeeper_wire_create(keeper_hand(), "/cut", "", ZOOKEEPER_PERSISTENT, NULL, 0);
}

TEST(a_create_whose_answer_is_lost_leaves_one_node_and_is_held)
{
    BEGIN();
    prepare();
    cut_each(PROXY_CUT_REPLY, "create*");
}

TEST(a_create_that_may_not_have_arrived_leaves_one_node_and_is_held)
{
    BEGIN();
    prepare();
    cut_each(PROXY_TEAR_REQUEST, "create*");
}

TEST(a_delete_whose_answer_is_lost_leaves_no_node)
{
    BEGIN();
    prepare();
    cut_each(PROXY_CUT_REPLY, "delete");
}

TEST(a_delete_that_did_not_arrive_is_done_all_the_same)
{
    BEGIN();
    prepare();
    cut_each(PROXY_CUT_BEFORE, "delete");
}

TEST(a_wait_that_is_given_up_while_its_create_is_unanswered_leaves_no_node)
{
    BEGIN();
    prepare();
    DLOCK_AUTO(dlock_client) client = stage_open(keeper_way_uri(KEPT_MS, ""), NULL);
    DLOCK_AUTO(dlock_client) next = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_lock) lock = stage_lock(client, "cut/given-up");
    DLOCK_AUTO(dlock_lock) other = stage_lock(next, "cut/given-up");
    CHECK(!harness_failed());
    (void)zookeeper_wire_create(keeper_hand(), "/cut/given-up", "", ZOOKEEPER_PERSISTENT,
                                NULL, 0);
    for (int i = 0; i < 5; i++) {
        proxy_plan plan = {.deed = PROXY_CUT_REPLY, .number = 1, .command = "create*"};
        int64_t before = proxy_get_stats(keeper_way()).deeds;
        CHECK(proxy_add_plan(keeper_way(), plan));
        dlock_op *op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
        AWAIT(proxy_get_stats(keeper_way()).deeds > before);
        dlock_op_free(op); /* cancels it; what was granted meanwhile is given back */
        DLOCK_AUTO(dlock_hold) hold = stage_take(other); /* behind all that is left */
        CHECK(hold != NULL);
        AWAIT(keeper_count("/cut/given-up") == 1);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        AWAIT(keeper_count("/cut/given-up") == 0);
    }
}
