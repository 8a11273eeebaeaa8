/* Was it done or not? Leases are long here, so that what is free soon was given back and has not
 * just run out. */
#include "grid.h"

#include "harness/redis_server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What can happen to one request; the proxy's words. */
static const char *const deeds[] = {"cut-before", "cut-after", "cut-reply", "drop-reply"};
enum { DEEDS = sizeof(deeds) / sizeof(*deeds) };

ROW(A1, an_acquire_unanswered, "an acquire is done, its answer lost")
{
    NEEDS(CAN_CALL, CAN_WIRE);
    DLOCK_AUTO(dlock_client) client = grid_client_at(wire_uri(), NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    for (int i = 0; i < DEEDS; i++) {
        DLOCK_AUTO(dlock_error) err = NULL;
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_hold) none = NULL;
        CHECK(wire("%s 1 %s", deeds[i], service_here()->take));
        CHECK_OK(dlock_lock_acquire(lock, patience_ms(), &hold, &err), err);
        CHECK_EQ_INT(wire_deeds(), 2 * i + 1);
        CHECK_EQ_INT(world_seen(lock, "holders.0.token"), dlock_hold_token(hold));
        CHECK_OK(dlock_hold_verify(hold, &err), err); /* one grant, and it is this one */
        CHECK_OK(dlock_hold_release(hold, &err), err);
        CHECK_EQ_INT(world_try("L"), DLOCK_OK);
        CHECK(wire("%s 1 %s", deeds[i],
                   service_here()->take)); /* who tries once gives it back */
        CHECK_ERR(dlock_lock_acquire(lock, 0, &none, &err), DLOCK_EUNKNOWN, err);
        AWAIT(world_try("L") == DLOCK_OK);
        AWAIT(api_stat(client, "connected") == 1);
    }
    CHECK(grid_settles());
}

static const char zookeepers[] = "nodes and sessions are ZooKeeper's";

ROW(A2, a_node_created_unanswered, "a node was created, the answer lost")
{
    ONLY_FOR("zookeeper", zookeepers);
    grid_shown_by("faults/test_zookeeper_ambiguity.c",
                  "a_create_whose_answer_is_lost_leaves_one_node_and_is_held");
}

ROW(A3, a_node_of_a_dying_session,
    "the node found is that of the previous, dying session")
{
    ONLY_FOR("zookeeper", zookeepers);
    grid_shown_by(
        "faults/test_zookeeper_sessions.c",
        "a_waiter_whose_session_was_ended_waits_on_with_a_node_of_its_new_session");
}

ROW(A4, given_up_between_steps, "an error of another kind between two steps")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    int got = 0;
    for (int i = 0; i < 200;
         i++) { /* the lock is free: the cancel hits any step of taking it */
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
        if (i % 4)
            nap_us(i % 4 * 20);
        dlock_op_cancel(op);
        CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
        dlock_err code = dlock_op_result(op);
        DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
        CHECK(code == DLOCK_OK || code == DLOCK_ECANCELED);
        MUST((hold != NULL) == (code == DLOCK_OK));
        got += hold != NULL;
    }
    harness_note("%d of 200 were granted before they were given up", got);
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    CHECK_EQ_INT(world_try("L"), DLOCK_OK);
    CHECK(grid_settles());
}

ROW(A5, a_release_unanswered, "a release is done, its answer lost")
{
    NEEDS(CAN_CALL, CAN_WIRE);
    DLOCK_AUTO(dlock_client) client = grid_client_at(wire_uri(), NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    for (int i = 0; i < DEEDS; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        CHECK(wire("%s 1 %s", deeds[i], service_here()->give));
        dlock_err code = dlock_hold_release(hold, NULL);
        CHECK(code == DLOCK_OK || code == DLOCK_EUNKNOWN);
        AWAIT(wire_deeds() == i + 1);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ENOTHELD);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
        AWAIT(world_try("L") == DLOCK_OK);
        AWAIT(api_stat(client, "unconfirmed") == 0);
    }
    CHECK(grid_settles());
}

ROW(A6, a_release_that_failed,
    "a release failed: it is repeated, and the lock not held for ever")
{
    NEEDS(CAN_CALL, CAN_SERVER);
    DLOCK_AUTO(dlock_client) client = grid_client_at(world_uri(), "lock.ttl_ms=600000");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    service_here()->freeze();
    int64_t began = now_ms();
    dlock_err code = dlock_hold_release(hold, NULL);
    bool in_time = grid_in_time("the release", began, 400);
    service_here()->thaw();
    CHECK(in_time && (code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL));
    AWAIT(world_try("L") == DLOCK_OK);
    AWAIT(api_stat(client, "unconfirmed") == 0);
    CHECK(grid_settles());
}

ROW(A7, a_release_by_the_wrong_owner,
    "a release after the lease: the next holder keeps the lock")
{
    bool can_pause = !service_here()->lacks[CAN_PROCESSES];
    PARTY(late) = party_new(NULL, "lock.ttl_ms=400 lock.renew=off");
    PARTY(next) = party_new(NULL, "client.poll_ms=50");
    CHECK_EQ_INT(party_take(late, "L", 0), DLOCK_OK);
    if (can_pause)
        party_pause(late);
    CHECK_EQ_INT(party_take(next, "L", patience_ms()), DLOCK_OK);
    if (can_pause)
        party_go_on(late);
    CHECK_EQ_INT(party_give_back(late), DLOCK_ELOST);
    CHECK_EQ_INT(party_still(next), DLOCK_OK);
    CHECK_EQ_INT(world_try("L"), DLOCK_EBUSY);
    MUST(grid_rises(party_token(late), party_token(next)));
    CHECK_EQ_INT(party_give_back(next), DLOCK_OK);
}

/* A step inside the service fails; what had been done before it is not rolled back there. */
static void fail_inside(dlock_lock *lock, const char *ill, const char *well,
                        dlock_err code)
{
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_hold) none = NULL;
    const char *answer = redis_server_call(world_redis(), "%s", ill);
    CHECK(answer[0] != '-');
    CHECK_ERR(dlock_lock_acquire(lock, 0, &none, &err), code, err);
    CHECK_STR(service_here()->leftovers(), "");
    redis_server_call(world_redis(), "%s", well);
    CHECK_OK(dlock_lock_acquire(lock, 0, &none, &err), err);
    CHECK_OK(dlock_hold_release(none, &err), err);
}

static void hammer(void *unused)
{
    (void)unused;
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    for (;;) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        (void)dlock_hold_release(hold, NULL); /* until it is killed */
    }
}

/* Killed wherever it happens to be; tests/crash goes through every instruction. */
static void kill_anywhere(void)
{
    int64_t last = 0;
    for (int i = 0; i < 40; i++) {
        pid_t pid = world_child_start(hammer, NULL);
        nap_us(3000 + i * 137);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        CLIENT_WITH_HOLD(client, lock, hold, "L", NULL);
        MUST(grid_rises(last, dlock_hold_token(hold)));
        last = dlock_hold_token(hold);
        CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
    CHECK(grid_settles());
}

ROW(A8, stopped_half_way, "a change that stops half-way leaves no lock behind")
{
    NEEDS(CAN_CALL, CAN_PROCESSES);
    if (world_is("file")) {
        kill_anywhere();
        grid_shown_by("backends/local/test_death.c",
                      "a_death_at_any_point_loses_nothing");
        return;
    }
    NEEDS(CAN_COUNTER);
    CHECK_STR(redis_server_call(world_redis(), "ACL SETUSER u on nopass ~* &* +@all"),
              "OK");
    DLOCK_AUTO(dlock_client)
    client = grid_client_at(service_uri("u:x@", "127.0.0.1", service_port()), NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    const char *counter = service_here()->counter;
    char ill[128], well[128];
    snprintf(well, sizeof(well), "DEL %s", counter);
    snprintf(ill, sizeof(ill), "RPUSH %s a", counter);
    fail_inside(lock, ill, well, DLOCK_ECONFLICT);
    snprintf(ill, sizeof(ill), "SET %s abc", counter);
    fail_inside(lock, ill, well, DLOCK_ECONFLICT);
    if (grid_layout_is("redisson")) {
        fail_inside(lock, "ACL SETUSER u -pexpire", "ACL SETUSER u +pexpire",
                    DLOCK_EACCES);
        fail_inside(lock, "ACL SETUSER u -hset", "ACL SETUSER u +hset", DLOCK_EACCES);
    }
    fail_inside(lock, "ACL SETUSER u -set", "ACL SETUSER u +set", DLOCK_EACCES);
}

/* ---- Races with the grant ---- */

/* Somebody waits and gives up about when the lock gets free; a little earlier or later each time,
 * so that it ends up around the very moment. */
static void race(bool by_cancel)
{
    enum { ROUNDS = 150 };
    CLIENT_WITH_LOCK(client, lock, "L", NULL);
    CLIENT_WITH_LOCK(other, theirs, "L", NULL);
    int64_t release_us = by_cancel ? 500 : 3000, cancel_us = 300, won = 0;
    for (int i = 0; i < ROUNDS; i++) {
        DLOCK_AUTO(dlock_hold) before = world_take(theirs);
        DLOCK_AUTO(dlock_op)
        op = dlock_lock_acquire_start(lock, by_cancel ? DLOCK_FOREVER : 4);
        nap_us(release_us);
        CHECK_EQ_INT(dlock_hold_release(before, NULL), DLOCK_OK);
        if (by_cancel) {
            nap_us(cancel_us);
            dlock_op_cancel(op);
        }
        CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
        dlock_err code = dlock_op_result(op);
        DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
        CHECK(code == DLOCK_OK ||
              (by_cancel ? code == DLOCK_ECANCELED : grid_timed_out(code)));
        MUST((hold != NULL) == (code == DLOCK_OK)); /* never both, never neither */
        won += hold != NULL;
        int64_t *us = by_cancel ? &cancel_us : &release_us;
        *us += (hold != NULL) == by_cancel ? -50 : 50;
        *us = *us < 0 ? 0 : *us;
        if (hold)
            CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    }
    harness_note("%d of %d were granted", (int)won, ROUNDS);
    /* What was given up last may still be on its way back; what leaked would stay for its lease. */
    int64_t began = now_ms();
    AWAIT(world_try("L") == DLOCK_OK);
    CHECK(grid_in_time("giving back", began, 10000));
    CHECK(grid_settles());
}

ROW(A9, a_time_out_races_with_the_grant, "a wait times out at the moment of the grant")
{
    NEEDS(CAN_CALL);
    race(false);
}

ROW(A10, a_cancel_races_with_the_grant,
    "a waiter is cancelled at the moment of the grant")
{
    NEEDS(CAN_CALL);
    race(true);
}

ROW(A11, told_too_late, "a waiter stands still until long after the lock was its own")
{
    NEEDS(CAN_PROCESSES);
    PARTY(holder) = party_new(NULL, NULL);
    PARTY(waiter) = party_new(NULL, "lock.ttl_ms=500");
    PARTY(rival) = party_new(NULL, "client.poll_ms=50");
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    party_ask(waiter, "L", DLOCK_FOREVER);
    for (int i = 0; i < 100; i++)
        nap_ms(1);
    party_pause(waiter);
    CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
    CHECK_EQ_INT(party_take(rival, "L", patience_ms()), DLOCK_OK);
    party_go_on(waiter);
    for (int i = 0; i < 200; i++) {
        nap_ms(1);
        bool answered =
            party_answered(waiter); /* looked at *before* the rival is asked */
        CHECK_EQ_INT(party_still(rival), DLOCK_OK);
        MUST(!answered); /* whatever it was told meanwhile */
    }
    CHECK_EQ_INT(party_give_back(rival), DLOCK_OK);
    CHECK_EQ_INT(party_answer(waiter), DLOCK_OK);
    MUST(grid_rises(party_token(rival), party_token(waiter)));
    CHECK_EQ_INT(party_still(waiter), DLOCK_OK);
}

ROW(A12, another_connection,
    "the lock is given back over another connection than it was taken")
{
    NEEDS(CAN_WIRE);
    PARTY(holder) = party_new(wire_uri(), NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
        CHECK(wire("reset"));
        CHECK_EQ_INT(party_still(holder), DLOCK_OK);
        CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
        AWAIT(world_try("L") == DLOCK_OK);
    }
}

ROW(A13, cut_off_in_the_line,
    "a waiter is cut off: it is told whether anything may come of it")
{
    NEEDS(CAN_CALL, CAN_WIRE);
    PARTY(holder) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
    DLOCK_AUTO(dlock_client) client = grid_client_at(wire_uri(), NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, "L", NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, 3000);
    AWAIT(api_stat(client, "waits") == 1);
    CHECK(wire("refuse") && wire("reset"));
    AWAIT(api_stat(client, "connected") == 0);
    CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
    dlock_err code = dlock_op_result(op);
    /* It has to be given back exactly when it isn't certain that nothing is there: a place in a line
     * is, and so is what was just asked for. */
    bool left = api_stat(client, "unconfirmed") > 0;
    bool in_line = grid_kind_is("fair") || !service_here()->lacks[CAN_QUEUE];
    CHECK(code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN);
    CHECK_EQ_INT(code == DLOCK_EUNKNOWN, left);
    CHECK(left || !in_line);
    CHECK(wire("pass"));
    CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
    AWAIT(world_try("L") == DLOCK_OK); /* though who was cut off lives on */
    AWAIT(api_stat(client, "unconfirmed") == 0);
    CHECK(grid_settles());
}
