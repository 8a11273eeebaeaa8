/* Curator's mutex, through the public API, against a real server. */
#include "world.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

TEST(a_free_lock_is_granted_with_a_node_of_curators_form)
{
    BEGIN();
    dlock_client *client = world_client("");
    CHECK(client);
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(client, "t/free", 30000, &hold, &err), err);
    CHECK(dlock_hold_token(hold) > 0);
    CHECK(dlock_hold_remaining_ms(hold) > 20000);
    char names[300];
    CHECK_EQ_INT(zookeeper_wire_children(&world_wire, "/t/free", names, sizeof(names)),
                 0);
    CHECK(strncmp(names, "_c_", 3) == 0);
    CHECK_CONTAINS(names, "-lock-0000000000");
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_EQ_INT(world_children("/t/free"), 0);
    dlock_hold_free(hold);
    dlock_client_free(client);
}

TEST(tokens_are_the_nodes_czxids_and_rise)
{
    BEGIN();
    dlock_client *client = world_client("");
    CHECK(client);
    int64_t last = 0;
    for (int i = 0; i < 20; i++) {
        dlock_hold *hold = NULL;
        dlock_error *err = NULL;
        CHECK_OK(dlock_acquire(client, "t/tokens", 30000, &hold, &err), err);
        CHECK_ALWAYS(dlock_hold_token(hold) > last);
        last = dlock_hold_token(hold);
        char names[300], path[400];
        CHECK_EQ_INT(
            zookeeper_wire_children(&world_wire, "/t/tokens", names, sizeof(names)), 0);
        names[strcspn(names, " ")] = '\0';
        snprintf(path, sizeof(path), "/t/tokens/%s", names);
        zookeeper_stat stat;
        CHECK_EQ_INT(zookeeper_wire_stat(&world_wire, path, &stat), 0);
        CHECK_EQ_INT(stat.czxid, last);
        CHECK_OK(dlock_hold_release(hold, &err), err);
        dlock_hold_free(hold);
    }
    dlock_client_free(client);
}

TEST(a_held_lock_is_busy_and_a_try_leaves_nothing)
{
    BEGIN();
    dlock_client *one = world_client(""), *two = world_client("");
    CHECK(one && two);
    dlock_hold *hold = NULL, *none = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(one, "t/busy", 30000, &hold, &err), err);
    CHECK_ERR(dlock_acquire(two, "t/busy", 0, &none, &err), DLOCK_EBUSY, err);
    AWAIT(world_children("/t/busy") == 1);
    CHECK_ERR(dlock_acquire(two, "t/busy", 2000, &none, &err), DLOCK_ETIMEDOUT, err);
    AWAIT(world_children("/t/busy") == 1);
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_client_free(one);
    dlock_client_free(two);
}

typedef struct racer {
    pthread_t thread;
    dlock_client *client;
    int rounds, overlaps, failures;
    int *inside;
} racer;

static void *race(void *arg)
{
    racer *self = arg;
    for (int i = 0; i < self->rounds; i++) {
        dlock_hold *hold = NULL;
        if (dlock_acquire(self->client, "t/race", 120000, &hold, NULL) != DLOCK_OK) {
            self->failures++;
            continue;
        }
        if (__atomic_fetch_add(self->inside, 1, __ATOMIC_SEQ_CST) != 0)
            self->overlaps++;
        __atomic_fetch_sub(self->inside, 1, __ATOMIC_SEQ_CST);
        if (dlock_hold_release(hold, NULL) != DLOCK_OK)
            self->failures++;
        dlock_hold_free(hold);
    }
    return NULL;
}

TEST(of_many_clients_one_at_a_time_is_inside)
{
    BEGIN();
    enum { RACERS = 6 };
    racer racers[RACERS];
    int inside = 0;
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (racer){.client = world_client(""), .rounds = 30, .inside = &inside};
        CHECK(racers[i].client);
    }
    for (int i = 0; i < RACERS; i++)
        CHECK_EQ_INT(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    for (int i = 0; i < RACERS; i++) {
        pthread_join(racers[i].thread, NULL);
        CHECK_ALWAYS(racers[i].overlaps == 0);
        CHECK_EQ_INT(racers[i].failures, 0);
        dlock_client_free(racers[i].client);
    }
    CHECK_EQ_INT(world_children("/t/race"), 0);
}

TEST(a_waiter_is_served_when_the_node_before_it_goes)
{
    BEGIN();
    dlock_client *one = world_client(""), *two = world_client("client.poll_ms=60000");
    CHECK(one && two);
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(one, "t/wait", 30000, &hold, &err), err);
    dlock_lock *lock = world_lock(two, DLOCK_MUTEX, "t/wait", NULL);
    CHECK(lock);
    dlock_op *op = dlock_lock_acquire_start(lock, 60000);
    AWAIT(world_children("/t/wait") == 2);
    CHECK_EQ_INT(dlock_op_wait(op, 100), DLOCK_EPENDING);
    int64_t before = dlock_hold_token(hold);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_hold *next = dlock_op_take_hold(op);
    CHECK_ALWAYS(dlock_hold_token(next) > before);
    dlock_op_free(op);
    dlock_hold_free(hold);
    dlock_hold_free(next);
    dlock_lock_free(lock);
    dlock_client_free(one);
    dlock_client_free(two);
}

TEST(a_waiter_that_is_cancelled_leaves_no_node_and_no_watch)
{
    BEGIN();
    dlock_client *one = world_client(""), *two = world_client("");
    CHECK(one && two);
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(one, "t/cancel", 30000, &hold, &err), err);
    dlock_lock *lock = world_lock(two, DLOCK_MUTEX, "t/cancel", NULL);
    CHECK(lock);
    long long watches = zookeeper_server_count(&world_server, "zk_watch_count");
    dlock_op *op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    AWAIT(zookeeper_server_count(&world_server, "zk_watch_count") == watches + 1);
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECANCELED);
    dlock_op_free(op);
    AWAIT(world_children("/t/cancel") == 1);
    AWAIT(zookeeper_server_count(&world_server, "zk_watch_count") == watches);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_client_free(one);
    dlock_client_free(two);
}

TEST(a_deleted_node_is_a_lost_lock_at_the_next_look)
{
    BEGIN();
    dlock_client *client = world_client("");
    CHECK(client);
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(client, "t/deleted", 30000, &hold, &err), err);
    CHECK_OK(dlock_hold_verify(hold, &err), err);
    CHECK_EQ_INT(zookeeper_wire_clear(&world_wire, "/t/deleted"), 0);
    CHECK_ERR(dlock_hold_verify(hold, &err), DLOCK_ELOST, err);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_LOST);
    CHECK_ERR(dlock_hold_release(hold, &err), DLOCK_ELOST, err);
    dlock_error_free(err);
    dlock_hold_free(hold);
    dlock_client_free(client);
}

TEST(an_expired_session_loses_every_hold_at_once_and_the_client_goes_on)
{
    BEGIN();
    dlock_client *client = world_client("");
    CHECK(client);
    dlock_hold *one = NULL, *two = NULL, *again = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(client, "t/expired", 30000, &one, &err), err);
    CHECK_OK(dlock_acquire(client, "t/expired-too", 30000, &two, &err), err);
    int64_t session = world_session_of("/t/expired");
    CHECK(session != 0);
    CHECK(zookeeper_wire_expire(&world_server, session));
    AWAIT(dlock_hold_check(one) == DLOCK_ELOST && dlock_hold_check(two) == DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_remaining_ms(one), 0);
    CHECK(dlock_hold_token(one) > 0);
    CHECK_ERR(dlock_acquire(client, "t/expired", 30000, &again, &err), DLOCK_ELOST, err);
    CHECK_ERR(dlock_hold_release(one, &err), DLOCK_ELOST, err);
    CHECK_OK(dlock_acquire(client, "t/expired", 20000, &again, &err), err);
    CHECK_ALWAYS(dlock_hold_token(again) > dlock_hold_token(one));
    CHECK(world_session_of("/t/expired") != session);
    CHECK_ERR(dlock_hold_check(one), DLOCK_ENOTHELD, NULL);
    dlock_error_free(err);
    dlock_hold_free(one);
    dlock_hold_free(two);
    dlock_hold_free(again);
    dlock_client_free(client);
}

TEST(an_expired_waiter_goes_to_the_end_of_the_line_and_is_served)
{
    BEGIN();
    dlock_client *one = world_client(""), *two = world_client("");
    CHECK(one && two);
    dlock_hold *hold = NULL;
    dlock_error *err = NULL;
    CHECK_OK(dlock_acquire(one, "t/late", 30000, &hold, &err), err);
    int64_t session = world_session_of("/t/late");
    dlock_lock *lock = world_lock(two, DLOCK_MUTEX, "t/late", NULL);
    CHECK(lock);
    dlock_op *op = dlock_lock_acquire_start(lock, 60000);
    AWAIT(world_children("/t/late") == 2);
    char names[400];
    CHECK_EQ_INT(zookeeper_wire_children(&world_wire, "/t/late", names, sizeof(names)),
                 0);
    int64_t other = 0;
    char *save = NULL;
    for (char *at = strtok_r(names, " ", &save); at; at = strtok_r(NULL, " ", &save)) {
        char path[400];
        zookeeper_stat stat;
        snprintf(path, sizeof(path), "/t/late/%s", at);
        CHECK_EQ_INT(zookeeper_wire_stat(&world_wire, path, &stat), 0);
        if (stat.owner != session)
            other = stat.owner;
    }
    CHECK(other != 0);
    CHECK(zookeeper_wire_expire(&world_server, other));
    AWAIT(world_children_with("/t/late", "0000000002") == 1);
    CHECK_OK(dlock_hold_release(hold, &err), err);
    CHECK_EQ_INT(dlock_op_wait(op, 30000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    dlock_op_free(op);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_client_free(one);
    dlock_client_free(two);
}
