/* Sessions that end: under a holder, under a waiter, while a client is stopped or cut off. Who held
 * it knows by its own clock before anybody else can have it, and nobody comes back to what was
 * lost. */
#include "zookeeper_stage.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

TEST(a_holder_whose_session_was_ended_has_lost_it_for_good)
{
    BEGIN();
    char node[1200];
    DLOCK_AUTO(dlock_client) client = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_lock) lock = stage_lock(client, "sessions/holder");
    DLOCK_AUTO(dlock_lock) second = stage_lock(client, "sessions/holder-2");
    DLOCK_AUTO(dlock_hold) hold = stage_take(lock);
    DLOCK_AUTO(dlock_hold) other = stage_take(second);
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK(!harness_failed());
    int64_t token = dlock_hold_token(hold);
    CHECK(keeper_only_child("/sessions/holder", node, sizeof(node)));
    CHECK(zookeeper_wire_expire(keeper_server(), keeper_owner(node)));
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST);
    AWAIT(dlock_hold_check(other) == DLOCK_ELOST); /* every hold of the session */
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_LOST);
    CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
    CHECK_EQ_INT(dlock_hold_token(hold), token);
    /* The thread that lost it hears so before it may contend anew. */
    CHECK_EQ_INT(dlock_lock_acquire(lock, patience_ms(), &again, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    DLOCK_AUTO(dlock_hold) anew = stage_take(lock);
    CHECK(anew != NULL);
    CHECK_ALWAYS(dlock_hold_token(anew) > token);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
    CHECK_EQ_INT(dlock_hold_check(anew), DLOCK_OK);
}

TEST(a_waiter_whose_session_was_ended_waits_on_with_a_node_of_its_new_session)
{
    BEGIN();
    char node[1200];
    DLOCK_AUTO(dlock_client) one = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_client) two = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_lock) first = stage_lock(one, "sessions/waiter");
    DLOCK_AUTO(dlock_lock) second = stage_lock(two, "sessions/waiter");
    DLOCK_AUTO(dlock_hold) hold = stage_take(first);
    CHECK(!harness_failed());
    CHECK(keeper_only_child("/sessions/waiter", node, sizeof(node)));
    int64_t holder = keeper_owner(node), waiter = 0;
    dlock_op *op = dlock_lock_acquire_start(second, DLOCK_FOREVER);
    AWAIT(keeper_count("/sessions/waiter") == 2);
    char names[4096], *save = NULL;
    CHECK_EQ_INT(
        zookeeper_wire_children(keeper_hand(), "/sessions/waiter", names, sizeof(names)),
        ZOOKEEPER_OK);
    for (char *name = strtok_r(names, " ", &save); name;
         name = strtok_r(NULL, " ", &save)) {
        char path[1200];
        snprintf(path, sizeof(path), "/sessions/waiter/%s", name);
        if (keeper_owner(path) != holder)
            waiter = keeper_owner(path);
    }
    CHECK(waiter != 0);
    CHECK(zookeeper_wire_expire(keeper_server(), waiter));
    CHECK_EQ_INT(dlock_op_wait(op, 0), DLOCK_EPENDING);
    AWAIT(keeper_count("/sessions/waiter") == 2);
    CHECK_EQ_INT(dlock_op_wait(op, 0), DLOCK_EPENDING);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_OK(dlock_op_wait(op, patience_ms()), NULL);
    DLOCK_AUTO(dlock_hold) taken = dlock_op_take_hold(op);
    CHECK_OK(dlock_op_result(op), dlock_op_error(op));
    CHECK(keeper_only_child("/sessions/waiter", node, sizeof(node)));
    CHECK_ALWAYS(keeper_owner(node) != waiter);
    CHECK_EQ_INT(dlock_hold_check(taken), DLOCK_OK);
    dlock_op_free(op);
}

TEST(
    a_node_that_somebody_deletes_is_lost_by_its_holder_and_its_waiter_stands_in_line_anew)
{
    BEGIN();
    char node[1200];
    DLOCK_AUTO(dlock_client) client = stage_open(keeper_uri(ENDING_MS, ""), NULL);
    DLOCK_AUTO(dlock_lock) lock = stage_lock(client, "sessions/deleted");
    DLOCK_AUTO(dlock_hold) hold = stage_take(lock);
    CHECK(!harness_failed());
    CHECK(keeper_only_child("/sessions/deleted", node, sizeof(node)));
    CHECK_EQ_INT(zookeeper_wire_delete(keeper_hand(), node), ZOOKEEPER_OK);
    AWAIT(dlock_hold_check(hold) == DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
}

TEST(who_waits_behind_a_waiter_that_dies_waits_on_behind_the_next)
{
    static const char path[] = "/sessions/behind";
    BEGIN();
    DLOCK_AUTO(dlock_client) one = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_client) two = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_client) three = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_lock) first = stage_lock(one, path);
    DLOCK_AUTO(dlock_lock) second = stage_lock(two, path);
    DLOCK_AUTO(dlock_lock) third = stage_lock(three, path);
    DLOCK_AUTO(dlock_hold) hold = stage_take(first);
    CHECK(!harness_failed());
    dlock_op *dies = dlock_lock_acquire_start(second, DLOCK_FOREVER);
    AWAIT(keeper_count(path) == 2);
    dlock_op *stays = dlock_lock_acquire_start(third, DLOCK_FOREVER);
    AWAIT(keeper_count(path) == 3);
    dlock_op_free(dies);
    AWAIT(keeper_count(path) == 2);
    CHECK_EQ_INT(dlock_op_wait(stays, 100), DLOCK_EPENDING);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_OK(dlock_op_wait(stays, patience_ms()), NULL);
    DLOCK_AUTO(dlock_hold) taken = dlock_op_take_hold(stays);
    CHECK_EQ_INT(dlock_hold_check(taken), DLOCK_OK);
    dlock_op_free(stays);
}

/* ---- One clock for both ---- */

typedef struct shared {
    char uri[256];
    const char *name;
    _Atomic int64_t held_at;    /* when the holder had it */
    _Atomic int64_t last_sure;  /* the last time it believed so */
    _Atomic int64_t lost_at;    /* the first time it didn't */
    _Atomic int64_t granted_at; /* when somebody else had it */
    _Atomic bool came_back;     /* it believed again after it had not */
} shared;

/* Asks itself again and again, and nobody else. */
static void hold_and_watch(void *arg)
{
    shared *with = arg;
    dlock_client *client = stage_open(with->uri, NULL);
    dlock_lock *lock = client ? stage_lock(client, with->name) : NULL;
    dlock_hold *hold = lock ? stage_take(lock) : NULL;
    if (!hold)
        return;
    with->held_at = now_ns();
    int64_t end = awake_now_ns() + 3 * patience_ms() * STAGE_MS;
    while (awake_now_ns() < end && (!with->granted_at || !with->lost_at)) {
        int64_t now = now_ns(); /* before it asks: what it does, it does after that */
        if (dlock_hold_check(hold) == DLOCK_OK) {
            with->last_sure = now;
            with->came_back = with->came_back || with->lost_at;
        } else if (!with->lost_at) {
            with->lost_at = now_ns();
        }
        nap_ms(1);
    }
    DLOCK_AUTO(dlock_hold) again = NULL;
    CHECK_EQ_INT(dlock_lock_acquire(lock, 0, &again, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
}

/* A holder of whom nothing is heard for twice its session, by @p begin until @p end. */
static void overtake(const char *name, bool by_proxy, void (*begin)(pid_t),
                     void (*end)(pid_t))
{
    shared *with = stage_share(sizeof(*with));
    with->name = name;
    snprintf(with->uri, sizeof(with->uri), "%s",
             by_proxy ? keeper_way_uri(ENDING_MS, "") : keeper_uri(ENDING_MS, ""));
    pid_t pid = stage_fork(hold_and_watch, with);
    AWAIT(with->held_at != 0 && with->last_sure != 0);
    begin(pid);
    int64_t until = now_ns() + 2 * ENDING_MS * STAGE_MS;
    DLOCK_AUTO(dlock_client) client = keeper_client(KEPT_MS);
    DLOCK_AUTO(dlock_lock) lock = stage_lock(client, name);
    DLOCK_AUTO(dlock_hold) hold = stage_take(lock);
    with->granted_at = now_ns();
    CHECK(hold != NULL);
    while (now_ns() < until)
        nap_ms(10);
    end(pid);
    CHECK(stage_join(pid));
    harness_note("lost %lld ms before the next one had it",
                 (long long)((with->granted_at - with->last_sure) / STAGE_MS));
    CHECK_ALWAYS(with->last_sure < with->granted_at);
    CHECK_ALWAYS(!with->came_back);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    stage_unshare(with, sizeof(*with));
}

TEST(who_is_stopped_for_twice_its_session_wakes_up_without_the_lock)
{
    BEGIN();
    overtake("sessions/stopped", false, stage_stop, stage_continue);
}

static void cut_off(pid_t pid)
{
    (void)pid;
    proxy_hole(keeper_way(), PROXY_BOTH);
}

static void let_through(pid_t pid)
{
    (void)pid;
    proxy_pass(keeper_way());
}

TEST(who_is_cut_off_knows_by_its_own_clock_before_anybody_else_has_the_lock)
{
    BEGIN();
    (void)keeper_way();
    overtake("sessions/cut-off", true, cut_off, let_through);
}

TEST(a_short_cut_costs_nobody_the_lock_or_the_place_in_the_line)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) one = keeper_client(KEPT_MS);
    (void)keeper_way();
    DLOCK_AUTO(dlock_client) two = stage_open(keeper_way_uri(KEPT_MS, ""), NULL);
    DLOCK_AUTO(dlock_lock) first = stage_lock(one, "sessions/short");
    DLOCK_AUTO(dlock_lock) second = stage_lock(two, "sessions/short");
    DLOCK_AUTO(dlock_lock) held = stage_lock(two, "sessions/short-held");
    DLOCK_AUTO(dlock_hold) hold = stage_take(first);
    DLOCK_AUTO(dlock_hold) kept = stage_take(held);
    CHECK(!harness_failed());
    dlock_op *op = dlock_lock_acquire_start(second, DLOCK_FOREVER);
    AWAIT(keeper_count("/sessions/short") == 2);
    char before[4096], after[4096];
    CHECK_EQ_INT(
        zookeeper_wire_children(keeper_hand(), "/sessions/short", before, sizeof(before)),
        ZOOKEEPER_OK);
    for (int i = 0; i < 3; i++) {
        int64_t accepted = proxy_get_stats(keeper_way()).accepted;
        proxy_reset(keeper_way());
        AWAIT(proxy_get_stats(keeper_way()).accepted > accepted);
    }
    CHECK_EQ_INT(dlock_op_wait(op, 0), DLOCK_EPENDING);
    CHECK_OK(dlock_hold_verify(kept, NULL), NULL);
    CHECK_EQ_INT(
        zookeeper_wire_children(keeper_hand(), "/sessions/short", after, sizeof(after)),
        ZOOKEEPER_OK);
    CHECK_STR(after, before);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_OK(dlock_op_wait(op, patience_ms()), NULL);
    DLOCK_AUTO(dlock_hold) taken = dlock_op_take_hold(op);
    CHECK_EQ_INT(dlock_hold_check(taken), DLOCK_OK);
    dlock_op_free(op);
}
