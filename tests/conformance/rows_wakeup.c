/* Notifications that get lost, waiters and holders that die. Clients here look by themselves once a
 * minute, so a wake-up that gets lost is seen and not made up for. */
#include "grid.h"

#include "harness/redis_server.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The release comes while this request of the waiter's is under way; what the service says to it is
 * heard too late. */
static void release_within(const char *plan)
{
    DLOCK_AUTO(dlock_client) holder = world_client(NULL);
    DLOCK_AUTO(dlock_client)
    waiter = grid_client_at(wire_uri(), "client.poll_ms=60000 client.timeout_ms=20000");
    DLOCK_AUTO(dlock_lock) lock = world_lock(holder, "L", NULL);
    DLOCK_AUTO(dlock_lock) same = world_lock(waiter, "L", NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    int deeds = wire_deeds();
    CHECK(wire("%s", plan));
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(same, DLOCK_FOREVER);
    AWAIT(wire_deeds() > deeds);
    nap_us(30000); /* so that the service has done it */
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    ENDS(op, DLOCK_OK);
}

ROW(W1, released_before_listening,
    "released between the answer \"held\" and the listening")
{
    NEEDS(CAN_CALL);
    CLIENT_WITH_LOCK(holder, lock, "L", NULL);
    int64_t release_us = 0;
    int rounds = grid_layout_is("string") ? 5 : 60; /* each wait there is a look or two */
    for (int i = 0; i < rounds; i++) {
        DLOCK_AUTO(dlock_client) fresh = world_client(NULL); /* has to begin to listen */
        DLOCK_AUTO(dlock_lock) same = world_lock(fresh, "L", NULL);
        for (int again = 0; again < 3; again++) {
            DLOCK_AUTO(dlock_hold) hold = world_take(lock);
            DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(same, DLOCK_FOREVER);
            nap_us(release_us = (release_us + 37) % 1500);
            CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
            ENDS(op, DLOCK_OK);
            DLOCK_AUTO(dlock_hold) next = dlock_op_take_hold(op);
            CHECK_EQ_INT(dlock_hold_release(next, NULL), DLOCK_OK);
        }
    }
    if (service_here()->lacks[CAN_WIRE] || service_here()->lacks[CAN_MESSAGES])
        return;
    release_within("delay-reply 150 1 EVAL*");     /* "held", the first time */
    release_within("delay-reply 150 1 SUBSCRIBE"); /* it listens, and doesn't know yet */
    release_within("delay-reply 150 2 EVAL*");     /* "held", now that it listens */
}

ROW(W2, a_message_is_lost, "the message is lost, or the connection it should come on")
{
    NEEDS(CAN_MESSAGES);
    PARTY(holder) = party_new(NULL, NULL);
    PARTY(waiter) = party_new(NULL, "client.backoff_max_ms=50");
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
        party_ask(waiter, "L", DLOCK_FOREVER);
        AWAIT(strcmp(redis_server_call(world_redis(), "CLIENT LIST TYPE pubsub"), "") !=
              0);
        redis_server_call(world_redis(), "CLIENT KILL TYPE pubsub");
        CHECK_EQ_INT(party_give_back(holder), DLOCK_OK); /* while nobody listens */
        CHECK_EQ_INT(party_answer(waiter), DLOCK_OK);
        CHECK_EQ_INT(party_give_back(waiter), DLOCK_OK);
    }
    /* And one that is never sent: the wait is bounded by client.poll_ms. */
    PARTY(patient) = party_new(NULL, "client.poll_ms=300");
    CHECK_EQ_INT(party_take(holder, "L", patience_ms()), DLOCK_OK);
    party_ask(patient, "L", DLOCK_FOREVER);
    nap_us(100000);
    int64_t began = now_ms();
    CHECK_STR(redis_server_call(world_redis(), "DEL L"), "1");
    CHECK_EQ_INT(party_answer(patient), DLOCK_OK);
    CHECK(grid_in_time("the next look", began, 375));
}

/* Threads come and go on few names. */
typedef struct visitor {
    dlock_lock *locks[2];
    atomic_int *inside;
    pthread_t thread;
} visitor;

static void *visit(void *arg)
{
    visitor *v = arg;
    for (int i = 0; i < 60; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        dlock_err code =
            dlock_lock_acquire(v->locks[i % 2], i % 3 ? patience_ms() : 1, &hold, NULL);
        if (code != DLOCK_OK) {
            (void)harness_check(__FILE__, __LINE__, i % 3 == 0, "who waits long gets it");
            continue;
        }
        int others = atomic_fetch_add(&v->inside[i % 2], 1);
        if (!harness_check(__FILE__, __LINE__, others == 0, "alone"))
            grid_must();
        atomic_fetch_sub(&v->inside[i % 2], 1);
        (void)dlock_hold_release(hold, NULL); /* the next one gets it or not */
    }
    return NULL;
}

ROW(W3, listeners_come_and_go, "listeners come and go on the same name")
{
    enum { VISITORS = 8 };
    NEEDS(CAN_CALL);
    visitor visitors[VISITORS];
    atomic_int inside[2] = {0};
    TWO_CLIENTS(one, other);
    for (int i = 0; i < VISITORS; i++) {
        dlock_client *client = i % 2 ? one : other;
        visitors[i] = (visitor){.inside = inside};
        visitors[i].locks[0] = world_lock(client, "L", NULL);
        visitors[i].locks[1] = world_lock(client, "M", NULL);
        CHECK_EQ_INT(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    }
    for (int i = 0; i < VISITORS; i++) {
        pthread_join(visitors[i].thread, NULL);
        dlock_lock_free(visitors[i].locks[0]);
        dlock_lock_free(visitors[i].locks[1]);
    }
    CHECK(grid_settles());
}

ROW(W4, a_holder_dies, "the holder dies without a word")
{
    NEEDS(CAN_PROCESSES);
    PARTY(holder) = party_new(NULL, "lock.ttl_ms=1000");
    PARTY(waiter) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    party_ask(waiter, "L", DLOCK_FOREVER);
    nap_us(200000);
    CHECK(!party_answered(waiter));
    int64_t died = now_ms();
    party_kill(holder);
    CHECK_EQ_INT(party_answer(waiter), DLOCK_OK);
    CHECK(grid_in_time("the waiter's turn", died, grid_lease_ms(1000)));
    CHECK(grid_rises(party_token(holder), party_token(waiter)));
}

ROW(W5, a_predecessor_vanishes, "the waiter before one's own vanishes")
{
    ONLY_FOR("zookeeper",
             "predecessors are nodes of ZooKeeper's (W7 is about dead waiters)");
    grid_shown_by("faults/test_zookeeper_sessions.c",
                  "who_waits_behind_a_waiter_that_dies_waits_on_behind_the_next");
}

ROW(W6, readers_and_writers, "readers and writers watch each other")
{
    if (world_kind() != DLOCK_WRITE)
        CANNOT("this kind has no sides (the column of the kind write has)");
    NEEDS(CAN_CALL);
    DLOCK_AUTO(dlock_error) err = NULL;
    TWO_CLIENTS(one, two);
    DLOCK_AUTO(dlock_lock) read = NULL;
    DLOCK_AUTO(dlock_lock) write = world_lock(two, "L", NULL);
    CHECK_OK(dlock_lock_new(one, DLOCK_READ, "L", NULL, &read, &err), err);
    for (int i = 0; i < 20; i++) { /* each waits for the other, in turn */
        DLOCK_AUTO(dlock_hold) reader = world_take(read);
        DLOCK_AUTO(dlock_op) writer = dlock_lock_acquire_start(write, DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_op_wait(writer, 20), DLOCK_EPENDING);
        CHECK_OK(dlock_hold_release(reader, &err), err);
        CHECK_EQ_INT(dlock_op_wait(writer, patience_ms()), DLOCK_OK);
        DLOCK_AUTO(dlock_hold) written = dlock_op_take_hold(writer);
        DLOCK_AUTO(dlock_op) again = dlock_lock_acquire_start(read, DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_op_wait(again, 20), DLOCK_EPENDING);
        if (i % 2)
            CHECK_OK(dlock_hold_downgrade(written, &err), err);
        else
            CHECK_OK(dlock_hold_release(written, &err), err);
        CHECK_EQ_INT(dlock_op_wait(again, patience_ms()), DLOCK_OK);
    }
}

ROW(W7, a_dead_waiter, "a waiter dies, first in the line")
{
    NEEDS(CAN_PROCESSES);
    PARTY(holder) = party_new(NULL, NULL);
    PARTY(first) = party_new(NULL, "lock.ttl_ms=1000");
    PARTY(second) = party_new(NULL, NULL);
    CHECK_EQ_INT(party_take(holder, "L", 0), DLOCK_OK);
    party_ask(first, "L", DLOCK_FOREVER);
    nap_us(150000);
    party_ask(second, "L", DLOCK_FOREVER);
    nap_us(150000);
    party_kill(first);
    int64_t released = now_ms();
    CHECK_EQ_INT(party_give_back(holder), DLOCK_OK);
    CHECK_EQ_INT(party_answer(second), DLOCK_OK);
    /* A fair lock waits for three seconds whether it is there again. */
    int64_t limit = grid_lease_ms(grid_kind_is("fair") ? 4000 : 1000);
    CHECK(grid_in_time("the second one's turn", released, limit));
}

ROW(W8, no_herd, "many waiters: a hand-over costs a few commands, however many wait")
{
    enum { WAITERS = 60 };
    NEEDS(CAN_CALL);
    dlock_op *ops[WAITERS];
    CLIENT_WITH_HOLD(holder, lock, hold, "L", NULL);
    CLIENT_WITH_LOCK(client, same, "L", NULL);
    for (int i = 0; i < WAITERS; i++)
        ops[i] = dlock_lock_acquire_start(same, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(ops[0], 50), DLOCK_EPENDING);
    int64_t before = api_stat(client, "commands");
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ_INT(dlock_op_wait(ops[i], patience_ms()), DLOCK_OK);
        DLOCK_AUTO(dlock_hold) mine = dlock_op_take_hold(ops[i]);
        CHECK_EQ_INT(dlock_hold_release(mine, NULL), DLOCK_OK);
        dlock_op_free(ops[i]);
    }
    int64_t each = (api_stat(client, "commands") - before) / WAITERS;
    harness_note("%d commands a hand-over", (int)each);
    /* Acquire and release, and now and then one that found it held; on each node. */
    CHECK(each <= (service_here()->quorum ? 4 * WORLD_NODES : 4));
}

ROW(W9, a_parent_vanishes, "the parent of a waiter's node is removed meanwhile")
{
    ONLY_FOR("zookeeper", "locks have no parents but in ZooKeeper");
    grid_shown_by("faults/test_zookeeper_limits.c",
                  "a_parent_that_is_collected_is_made_again");
}
