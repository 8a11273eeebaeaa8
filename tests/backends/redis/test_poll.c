/* A program that drives the client from a poller of its own: who reads the answers, and that none is
 * left lying whatever the program does. Through the public API. */
#include "harness/api.h"
#include "harness/awake.h"
#include "harness/harness.h"
#include "harness/redis_server.h"
#include "harness/time.h"

#include <dlock/dlock.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CROWD 64

static redis_server server;

/* Until then the program waits for something: by time, as it is told at once, again and again, while
 * the client reads. */
static int64_t patience_end(void)
{
    return awake_now_ms() + patience_ms();
}

static dlock_client *open_with(const char *query)
{
    return api_open("redis://127.0.0.1:%d?lock.ttl_ms=600000&lock.owner=none&%s",
                    server.port, query);
}

#define SETUP()                                                                          \
    if (!redis_server_available())                                                       \
        return;                                                                          \
    CHECK(redis_server_start(&server, NULL))

static bool readable(int fd, int wait_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, wait_ms) == 1;
}

/* The tag of a DONE among what has come, or 0. */
static uint64_t fetched(dlock_client *client, int *count)
{
    uint64_t tag = 0;
    dlock_event *event;
    while ((event = dlock_client_next_event(client))) {
        if (dlock_event_what(event) == DLOCK_EVENT_DONE) {
            tag = dlock_event_tag(event);
            *count += 1;
        }
        dlock_event_free(event);
    }
    return tag;
}

/* One turn of the program's loop; whether an event was announced by the driving itself, without the
 * descriptor of events. */
static bool turn(dlock_client *client, int fd, int *count)
{
    int before = *count;
    dlock_err code;
    bool raised = false;
    if (!readable(fd, 20))
        return false;
    do {
        code = dlock_client_drive(client);
        raised |= readable(dlock_client_event_fd(client), 0);
        (void)fetched(client, count);
    } while (code == DLOCK_EPENDING);
    return !raised && *count > before;
}

/* Until the program is the one who reads. */
static bool program_reads(dlock_client *client, int fd)
{
    int count = 0;
    int64_t end = patience_end();
    while (awake_now_ms() < end && dlock_client_drive(client) == DLOCK_ENOTSUP)
        (void)turn(client, fd, &count);
    return dlock_client_drive(client) != DLOCK_ENOTSUP;
}

/* Whether it is told, by the descriptor alone, that it isn't any more. */
static bool told_that_the_client_reads(dlock_client *client, int fd, int *count)
{
    int64_t end = patience_end();
    while (awake_now_ms() < end) {
        if (!readable(fd, 20))
            continue;
        (void)fetched(client, count);
        if (dlock_client_drive(client) == DLOCK_ENOTSUP)
            return true;
    }
    return false;
}

/* Takes the lock and gives it back through the loop; how often the program itself read the answer,
 * or -1. */
static int pair(dlock_client *client, dlock_lock *lock, int fd)
{
    int own = 0;
    dlock_hold *hold = NULL;
    for (int i = 0; i < 2; i++) {
        dlock_op *op = hold ? dlock_hold_release_start(hold)
                            : dlock_lock_acquire_start(lock, DLOCK_FOREVER);
        int done = dlock_op_notify(op, 1) == DLOCK_OK;
        int64_t end = patience_end();
        while (awake_now_ms() < end && !done)
            own += turn(client, fd, &done);
        bool fine = done == 1 && dlock_op_result(op) == DLOCK_OK;
        dlock_hold_free(hold);
        hold = dlock_op_take_hold(op);
        dlock_op_free(op);
        if (!fine)
            return -1;
    }
    return own;
}

TEST(the_program_reads_the_answers_that_its_poller_tells_of)
{
    SETUP();
    DLOCK_AUTO(dlock_client) client = open_with("redis.layout=string");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    int fd = dlock_client_poll_fd(client), own = 0;
    CHECK(fd >= 0);
    CHECK_EQ_INT(dlock_client_poll_fd(client), fd);
    CHECK(program_reads(client, fd));
    for (int i = 0; i < 100;
         i++) { /* the client's thread is faster when we are held up */
        int more = pair(client, lock, fd);
        CHECK(more >= 0);
        own += more;
    }
    CHECK(own > 0);
    CHECK(!readable(fd, 0));
    redis_server_stop(&server);
}

TEST(what_the_program_leaves_lying_is_read_for_it)
{
    SETUP();
    DLOCK_AUTO(dlock_client)
    client = open_with("redis.layout=string&client.timeout_ms=600000"); /* not by that */
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    int fd = dlock_client_poll_fd(client), done = 0;
    CHECK(program_reads(client, fd));
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_notify(op, 1), DLOCK_EPENDING);
    for (int64_t end = patience_end(); awake_now_ms() < end && !done;) {
        (void)readable(dlock_client_event_fd(client), 20);
        (void)fetched(client, &done);
    }
    CHECK_EQ_INT(done, 1);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    redis_server_stop(&server);
}

TEST(many_that_are_answered_at_once_are_all_told)
{
    SETUP();
    DLOCK_AUTO(dlock_client) client = open_with("redis.layout=string");
    int fd = dlock_client_poll_fd(client);
    CHECK(program_reads(client, fd));
    dlock_op *ops[CROWD];
    char name[40];
    for (int round = 0; round < 2; round++) {
        int done = 0;
        for (int i = 0; i < CROWD; i++) {
            snprintf(name, sizeof(name), "crowd/%d/%d", round, i);
            DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, name, NULL);
            ops[i] = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
            done += dlock_op_notify(ops[i], (uint64_t)i + 1) == DLOCK_OK;
        }
        for (int64_t end = patience_end(); awake_now_ms() < end && done < CROWD;)
            (void)turn(client, fd, &done);
        CHECK_EQ_INT(done, CROWD);
        for (int i = 0; i < CROWD; i++) {
            CHECK_EQ_INT(dlock_op_result(ops[i]), DLOCK_OK);
            dlock_op_free(ops[i]); /* releases */
        }
    }
    redis_server_stop(&server);
}

#define BURST 8

/* An acquire of so many locks, each in the notation WHAT/NUMBER. */
static void start_all(dlock_client *client, const char *what, dlock_op *ops[], int count)
{
    char name[40];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%s/%d", what, i);
        DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, name, NULL);
        ops[i] = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
        dlock_err code = dlock_op_notify(ops[i], 1);
        (void)harness_check(__FILE__, __LINE__,
                            code == DLOCK_OK || code == DLOCK_EPENDING, "armed");
    }
}

/* Has all that was sent before arrived? The second answer comes behind all that was there to be read
 * at the first. */
static int keys_there(const char *what)
{
    int count = 0;
    for (int round = 0; round < 2; round++) {
        count = 0;
        for (const char *at = redis_server_call(&server, "KEYS %s/*", what);
             (at = strchr(at, '/')); at++)
            count++;
    }
    return count;
}

/* Reads a burst in one visit, and asks for another lock: whether that is still here, to leave with
 * the next visit. The client's thread may have been faster with both. */
static bool waits_for_the_next_visit(dlock_client *client, int fd, int round)
{
    dlock_op *ops[BURST + 1];
    char first[20], more[20];
    int done = 0;
    snprintf(first, sizeof(first), "first%d", round);
    snprintf(more, sizeof(more), "more%d", round);
    start_all(client, first, ops, BURST);
    for (int64_t end = patience_end(); awake_now_ms() < end && keys_there(first) < BURST;)
        (void)fetched(client, &done);
    bool burst = dlock_client_drive(client) == DLOCK_EPENDING;
    start_all(client, more, ops + BURST, 1);
    bool waits = burst && keys_there(more) == 0;
    if (burst)
        (void)dlock_client_drive(client); /* as it says; the ops tell the rest */
    for (int i = 0; i <= BURST; i++) {
        for (int64_t end = patience_end();
             awake_now_ms() < end && dlock_op_result(ops[i]) == DLOCK_EPENDING;)
            (void)turn(client, fd, &done);
        (void)harness_eq_int(__FILE__, __LINE__, "an op", dlock_op_result(ops[i]),
                             DLOCK_OK);
        dlock_op_free(ops[i]); /* releases */
    }
    return waits;
}

TEST(what_is_asked_behind_a_burst_leaves_with_the_next_visit)
{
    SETUP();
    DLOCK_AUTO(dlock_client) client = open_with("redis.layout=string");
    int fd = dlock_client_poll_fd(client), rounds = 0;
    CHECK(program_reads(client, fd));
    while (rounds < 100 && !waits_for_the_next_visit(client, fd, rounds))
        rounds++;
    CHECK(rounds < 100);
    redis_server_stop(&server);
}

TEST(a_new_connection_is_followed)
{
    SETUP();
    DLOCK_AUTO(dlock_client) client = open_with("redis.layout=string");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    int fd = dlock_client_poll_fd(client);
    for (int i = 0; i < 3; i++) {
        CHECK(program_reads(client, fd));
        CHECK(pair(client, lock, fd) >= 0);
        redis_server_kill(&server);
        CHECK(redis_server_restart(&server));
        CHECK(pair(client, lock, fd) >= 0); /* whoever reads */
    }
    redis_server_stop(&server);
}

TEST(where_messages_have_to_be_heard_the_client_reads_and_the_descriptor_tells)
{
    SETUP();
    DLOCK_AUTO(dlock_client) other = open_with("");
    DLOCK_AUTO(dlock_client) client = open_with("");
    DLOCK_AUTO(dlock_lock) theirs = api_lock(other, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_lock) ours = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    int fd = dlock_client_poll_fd(client), done = 0;
    CHECK(program_reads(client, fd));
    CHECK(pair(client, ours, fd) >= 0);
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_lock_acquire(theirs, DLOCK_FOREVER, &hold, NULL), NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(ours, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_notify(op, 9), DLOCK_EPENDING);
    CHECK(told_that_the_client_reads(client, fd, &done));
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    for (int64_t end = patience_end(); awake_now_ms() < end && !done;)
        (void)turn(client, fd, &done);
    CHECK_EQ_INT(done, 1);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_OK);
    redis_server_stop(&server);
}

TEST(calls_that_wait_and_the_programs_poller_get_along)
{
    SETUP();
    DLOCK_AUTO(dlock_client) client = open_with("redis.layout=string");
    DLOCK_AUTO(dlock_lock) lock = api_lock(client, DLOCK_MUTEX, __func__, NULL);
    DLOCK_AUTO(dlock_lock) apart = api_lock(client, DLOCK_MUTEX, "apart", NULL);
    int fd = dlock_client_poll_fd(client);
    CHECK(program_reads(client, fd));
    for (int i = 0; i < 50; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(apart, DLOCK_FOREVER);
        int done = dlock_op_notify(op, 1) == DLOCK_OK;
        CHECK_OK(dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, NULL), NULL);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
        for (int64_t end = patience_end(); awake_now_ms() < end && !done;)
            (void)turn(client, fd, &done);
        CHECK_EQ_INT(done, 1);
    }
    redis_server_stop(&server);
}

TEST(who_has_no_such_descriptor_says_so)
{
    SETUP();
    dlock_client *local = NULL;
    CHECK_OK(dlock_client_open("mem:", NULL, &local, NULL), NULL);
    CHECK_EQ_INT(dlock_client_poll_fd(local), -1);
    CHECK_EQ_INT(dlock_client_drive(local), DLOCK_ENOTSUP);
    dlock_client_free(local);
    CHECK_EQ_INT(dlock_client_poll_fd(NULL), -1);
    CHECK_EQ_INT(dlock_client_drive(NULL), DLOCK_EINVAL);
    DLOCK_AUTO(dlock_client) client = open_with("redis.layout=string");
    CHECK(dlock_client_poll_fd(client) >= 0);
    CHECK_OK(dlock_client_close(client, NULL), NULL);
    CHECK_EQ_INT(dlock_client_poll_fd(client), -1);
    CHECK_EQ_INT(dlock_client_drive(client), DLOCK_ENOTSUP);
    redis_server_stop(&server);
}
