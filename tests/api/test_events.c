/* The event queue and its descriptor: what comes, to whom, in which order, and what can't be lost. */
#include "world.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DONES 200

TEST(the_descriptor_is_readable_exactly_while_there_is_an_event)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    int fd = dlock_client_event_fd(client);
    CHECK(fd >= 0);
    CHECK_EQ_INT(dlock_client_event_fd(client), fd);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK(dlock_client_next_event(client) == NULL);
    CHECK(!world_readable(fd));
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_notify(op, 7), DLOCK_EPENDING);
    CHECK(!world_readable(fd));
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    AWAIT(world_readable(fd));
    CHECK(world_readable(fd)); /* level-triggered: still so */
    DLOCK_AUTO(dlock_event) event = dlock_client_next_event(client);
    CHECK_EQ_INT(dlock_event_what(event), DLOCK_EVENT_DONE);
    CHECK(!world_readable(fd));
    CHECK(dlock_client_next_event(client) == NULL);
}

TEST(done_carries_tag_code_and_token_and_comes_exactly_once)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    DLOCK_AUTO(dlock_op) loser = dlock_lock_acquire_start(lock, SHORT_MS);
    CHECK_EQ_INT(dlock_op_notify(loser, UINT64_MAX), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_op_notify(op, 41), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_op_notify(op, 42), DLOCK_EPENDING); /* asked twice, told once */
    DLOCK_AUTO(dlock_event) bad = world_event(client, DLOCK_EVENT_DONE);
    CHECK_EQ_INT(dlock_event_code(bad), DLOCK_ETIMEDOUT);
    CHECK(dlock_event_tag(bad) == UINT64_MAX);
    CHECK_EQ_INT(dlock_event_token(bad), 0);
    CHECK(dlock_event_text(bad) != NULL);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_event) good = world_event(client, DLOCK_EVENT_DONE);
    CHECK_EQ_INT(dlock_event_code(good), DLOCK_OK);
    CHECK_EQ_INT(dlock_event_tag(good), 42);
    DLOCK_AUTO(dlock_hold) got = dlock_op_take_hold(op);
    CHECK_EQ_INT(dlock_event_token(good), dlock_hold_token(got));
    CHECK_EQ_INT(dlock_op_notify(op, 43),
                 DLOCK_OK); /* finished: look now, no event comes */
    CHECK(dlock_client_next_event(client) == NULL);
}

TEST(what_is_not_asked_for_is_not_announced)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, "client.log_level=off");
    CHECK(dlock_client_event_fd(client) >= 0);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
    DLOCK_AUTO(dlock_hold) hold = dlock_op_take_hold(op);
    CHECK(world_lose(__func__, hold));
    CHECK(dlock_client_next_event(client) == NULL);
}

TEST(each_armed_hold_of_a_lost_grant_gets_its_own_event)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, one, __func__, "client.prefix=p:");
    DLOCK_AUTO(dlock_hold) two = world_take(lock);
    DLOCK_AUTO(dlock_hold) unarmed = world_take(lock);
    CHECK_EQ_INT(dlock_hold_notify(one, 1), DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_notify(two, 2), DLOCK_OK);
    char name[256];
    snprintf(name, sizeof(name), "p:%s", __func__);
    CHECK(world_lose(name, unarmed));
    uint64_t tags = 0;
    for (int i = 0; i < 2; i++) {
        DLOCK_AUTO(dlock_event) event = world_event(client, DLOCK_EVENT_LOST);
        CHECK_EQ_INT(dlock_event_code(event), DLOCK_ELOST);
        CHECK_EQ_INT(dlock_event_token(event), dlock_hold_token(one));
        CHECK_STR(dlock_event_text(event), __func__); /* the name as the caller gave it */
        tags = tags * 10 + dlock_event_tag(event);
    }
    CHECK(tags == 12 || tags == 21);
    CHECK(dlock_client_next_event(client) == NULL);
    CHECK_EQ_INT(dlock_hold_notify(one, 3), DLOCK_ELOST); /* over: no event comes */
    CHECK_EQ_INT(dlock_hold_release(two, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_notify(two, 3), DLOCK_ENOTHELD);
    CHECK(dlock_client_next_event(client) == NULL);
}

/* A lease that isn't fed is suspect at its half, or LOST where the machine slept through that;
 * feeding it brings it back. */
static dlock_hold *make_suspect(dlock_lock *lock, uint64_t tag)
{
    dlock_hold *hold = world_take(lock);
    if (dlock_hold_notify(hold, tag) != DLOCK_OK)
        harness_check(__FILE__, __LINE__, false, "armed");
    while (!harness_failed() && dlock_hold_state(hold) == DLOCK_HELD)
        nap_ms(1);
    return hold;
}

static void is_announced(const char *name, int64_t ttl_ms)
{
    DLOCK_AUTO(dlock_client) client = world_client_of(ttl_ms, "lock.renew=fed");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = make_suspect(lock, 5);
    if (dlock_hold_check(hold) != DLOCK_OK)
        TOO_SLOW();
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_SUSPECT); /* and still ours */
    DLOCK_AUTO(dlock_event) suspect = dlock_client_next_event(client);
    CHECK_EQ_INT(dlock_event_what(suspect), DLOCK_EVENT_SUSPECT);
    CHECK_EQ_INT(dlock_event_tag(suspect), 5);
    CHECK_EQ_INT(dlock_event_token(suspect), dlock_hold_token(hold));
    CHECK_EQ_INT(dlock_hold_feed(hold), DLOCK_OK);
    DLOCK_AUTO(dlock_event) held = world_event(client, DLOCK_EVENT_HELD);
    CHECK_EQ_INT(dlock_event_tag(held), 5);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_HELD);
}

TEST(an_unrenewed_hold_is_announced_as_suspect_and_when_renewed_as_held)
{
    BEGIN();
    WITH_LEASE_FROM(2000, is_announced);
}

static void gives_way(const char *name, int64_t ttl_ms)
{
    DLOCK_AUTO(dlock_client) client = world_client_of(ttl_ms, "lock.renew=fed");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = make_suspect(lock, 6);
    if (dlock_hold_feed(hold) != DLOCK_OK)
        TOO_SLOW();
    AWAIT(dlock_hold_state(hold) != DLOCK_SUSPECT);
    if (dlock_hold_check(hold) != DLOCK_OK)
        TOO_SLOW();
    DLOCK_AUTO(dlock_event) held = dlock_client_next_event(client);
    CHECK_EQ_INT(dlock_event_what(held), DLOCK_EVENT_HELD);
    CHECK(dlock_client_next_event(client) == NULL);
    while (dlock_hold_state(hold) == DLOCK_HELD)
        nap_ms(1);
    if (dlock_hold_check(hold) != DLOCK_OK)
        TOO_SLOW();
    CHECK(world_lose(name, hold));
    DLOCK_AUTO(dlock_event) lost = dlock_client_next_event(client);
    CHECK_EQ_INT(dlock_event_what(lost), DLOCK_EVENT_LOST);
    CHECK(dlock_client_next_event(client) == NULL);
}

TEST(an_unfetched_suspect_gives_way_to_the_newest_state)
{
    BEGIN();
    WITH_LEASE_FROM(1000, gives_way);
}

TEST(a_free_withdraws_what_was_not_fetched)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, "client.log_level=off");
    int fd = dlock_client_event_fd(client);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_EQ_INT(dlock_hold_notify(hold, 1), DLOCK_OK);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_notify(op, 2), DLOCK_EPENDING);
    CHECK(world_lose(__func__, hold));
    AWAIT(dlock_op_result(op) == DLOCK_OK);
    CHECK(world_readable(fd));
    dlock_op_free(op);
    op = NULL;
    CHECK(world_readable(fd)); /* the loss is still there */
    dlock_hold_free(hold);
    hold = NULL;
    CHECK(!world_readable(fd));
    CHECK(dlock_client_next_event(client) == NULL);
}

TEST(log_lines_are_events_from_the_first_look_at_the_descriptor_on)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client(NULL);
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, "lock.owner=none");
    DLOCK_AUTO(dlock_hold) one = world_take(lock);
    CHECK(world_lose(__func__, one));
    CHECK(dlock_client_next_event(client) == NULL);
    CHECK(dlock_client_event_fd(client) >= 0);
    DLOCK_AUTO(dlock_hold) two = world_take(lock);
    CHECK(world_lose(__func__, two));
    DLOCK_AUTO(dlock_event) line = world_event(client, DLOCK_EVENT_LOG);
    CHECK_CONTAINS(dlock_event_text(line), __func__);
    CHECK_CONTAINS(dlock_event_text(line), "lost");
    CHECK_EQ_INT(dlock_event_tag(line), 0);
}

static void overflows(const char *prefix, int64_t ttl_ms)
{
    DLOCK_AUTO(dlock_client)
    client = world_client_of(ttl_ms, "client.events=16 lock.owner=none lock.renew=off");
    CHECK(dlock_client_event_fd(client) >= 0);
    dlock_hold *holds[40];
    char name[32];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "%.16s-%d", prefix, i);
        CHECK_EQ_INT(dlock_acquire(client, name, patience_ms(), &holds[i], NULL),
                     DLOCK_OK);
        if (dlock_hold_notify(holds[i], (uint64_t)i + 1) == DLOCK_OK)
            continue;
        for (int k = 0; k <= i; k++)
            dlock_hold_free(holds[k]);
        TOO_SLOW();
    }
    AWAIT(api_stat(client, "losses") == 40);
    int lost = 0, logs = 0, told = 0;
    for (dlock_event *event; (event = dlock_client_next_event(client));
         dlock_event_free(event)) {
        lost += dlock_event_what(event) == DLOCK_EVENT_LOST;
        logs += dlock_event_what(event) == DLOCK_EVENT_LOG;
        told += dlock_event_what(event) == DLOCK_EVENT_OVERFLOW;
    }
    CHECK_EQ_INT(lost, 40);
    CHECK(logs > 0 && logs <= 16);
    CHECK_EQ_INT(told, 1);
    CHECK(!world_readable(dlock_client_event_fd(client)));
    for (int i = 0; i < 40; i++)
        dlock_hold_free(holds[i]);
}

TEST(only_log_lines_overflow_and_that_is_told)
{
    BEGIN();
    WITH_LEASE_FROM(100, overflows);
}

TEST(log_lines_that_are_fetched_make_room_for_others)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = world_client("client.events=16");
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, __func__, "lock.owner=none");
    CHECK(dlock_client_event_fd(client) >= 0);
    for (int i = 0; i < 40; i++) {
        DLOCK_AUTO(dlock_hold) hold = world_take(lock);
        CHECK(world_lose(__func__, hold));
        DLOCK_AUTO(dlock_event) line = world_event(client, DLOCK_EVENT_LOG);
        CHECK_CONTAINS(dlock_event_text(line), "lost");
        dlock_event *more;
        while ((more = dlock_client_next_event(client))) {
            CHECK_EQ_INT(dlock_event_what(more), DLOCK_EVENT_LOG);
            dlock_event_free(more);
        }
    }
}

static void close_and_read(dlock_client *client, dlock_op *op)
{
    CHECK_EQ_INT(dlock_op_notify(op, 9), DLOCK_EPENDING);
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_event) done = world_event(client, DLOCK_EVENT_DONE);
    CHECK_EQ_INT(dlock_event_tag(done), 9);
    CHECK_EQ_INT(dlock_event_code(done), DLOCK_ECLOSED);
    DLOCK_AUTO(dlock_event) closed = world_event(client, DLOCK_EVENT_CLOSED);
    CHECK(closed != NULL);
    CHECK(dlock_client_next_event(client) == NULL);
    CHECK(dlock_client_next_event(client) == NULL);
}

TEST(closed_is_the_last_event_after_those_of_the_waits_it_ended)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    int copy = dup(dlock_client_event_fd(client));
    close_and_read(client, op);
    CHECK_EQ_INT(dlock_client_event_fd(client), -1);
    CHECK(!world_readable(copy));
    close(copy);
}

TEST(closed_is_the_last_event_after_log_lines_too)
{
    BEGIN();
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    int fd = dlock_client_event_fd(client);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK(world_lose(__func__, hold));
    AWAIT(world_readable(fd));
    CHECK_EQ_INT(dlock_client_close(client, NULL), DLOCK_OK);
    DLOCK_AUTO(dlock_event) line = dlock_client_next_event(client);
    CHECK_EQ_INT(dlock_event_what(line), DLOCK_EVENT_LOG);
    DLOCK_AUTO(dlock_event) closed = world_event(client, DLOCK_EVENT_CLOSED);
    CHECK(closed != NULL);
    CHECK(dlock_client_next_event(client) == NULL);
}

TEST(the_queue_works_without_the_descriptor)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    close_and_read(client, op);
}

static atomic_int fetched[DONES];
static atomic_int fetched_in_all;

static void *consume(void *client)
{
    int64_t end = now_ms() + patience_ms();
    while (fetched_in_all < DONES && now_ms() < end) {
        dlock_event *event = dlock_client_next_event(client);
        if (event && dlock_event_tag(event) < DONES) {
            fetched[dlock_event_tag(event)]++;
            fetched_in_all++;
        }
        dlock_event_free(event);
    }
    return NULL;
}

TEST(consumers_share_one_stream_and_each_event_is_given_once)
{
    BEGIN();
    CLIENT_WITH_HOLD(client, lock, hold, __func__, NULL);
    dlock_op *ops[DONES];
    pthread_t threads[3];
    for (uint64_t i = 0; i < DONES; i++) {
        ops[i] = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
        CHECK_EQ_INT(dlock_op_notify(ops[i], i), DLOCK_EPENDING);
    }
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, consume, client) == 0);
    for (int i = 0; i < DONES; i++)
        dlock_op_cancel(ops[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < DONES; i++) {
        CHECK_EQ_INT(fetched[i], 1);
        dlock_op_free(ops[i]);
    }
}

TEST(no_client_and_no_event_are_survived)
{
    CHECK_EQ_INT(dlock_client_event_fd(NULL), -1);
    CHECK(dlock_client_next_event(NULL) == NULL);
    CHECK_EQ_INT(dlock_event_tag(NULL), 0);
    CHECK_EQ_INT(dlock_event_token(NULL), 0);
    CHECK_STR(dlock_event_text(NULL), "");
    dlock_event_free(NULL);
}
