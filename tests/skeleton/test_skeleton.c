/* What a mutex promises, kept by the skeleton: through dlock.h, as by any other backend. */
#include "server.h"

#include "harness/api.h"
#include "harness/fork.h"
#include "harness/harness.h"
#include "harness/server.h"
#include "harness/time.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 4, TURNS = 25, GENEROUS_MS = 20000, SHORT_MS = 200 };

/* Somebody else's doing. */
static bool forget(const char *key)
{
    return strcmp(skeleton_server_call("forget", key), "YES") == 0;
}

static dlock_client *open_client(const char *parameters)
{
    return api_open("skeleton://127.0.0.1:%d?client.retry_ms=20%s",
                    skeleton_server_port(), parameters);
}

#define BEGIN() CHECK(skeleton_server_start())

struct shared {
    atomic_int inside, refused;
    int count; /* by whoever has the lock */
    int64_t token;
};

static void take_turns(struct shared *shared)
{
    DLOCK_AUTO(dlock_client) client = open_client("");
    for (int i = 0; client && i < TURNS; i++) {
        DLOCK_AUTO(dlock_hold) hold = NULL;
        if (dlock_acquire(client, "turns", GENEROUS_MS, &hold, NULL) != DLOCK_OK ||
            atomic_fetch_add(&shared->inside, 1) != 0 ||
            dlock_hold_token(hold) <= shared->token)
            atomic_fetch_add(&shared->refused, 1);
        shared->count++;
        shared->token = dlock_hold_token(hold);
        atomic_fetch_sub(&shared->inside, 1);
        (void)dlock_hold_release(hold, NULL);
    }
}

TEST(one_process_at_a_time_has_it_and_tokens_rise)
{
    BEGIN();
    if (THREAD_SANITIZER)
        LEAVE_OUT("it can't follow the threads of a fork's child");
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = harness_fork();
        if (pids[i] == 0) {
            take_turns(shared);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++)
        CHECK(pids[i] > 0 && waitpid(pids[i], NULL, 0) == pids[i]);
    CHECK_EQ_INT(shared->refused, 0);
    CHECK_EQ_INT(shared->count, PROCESSES * TURNS);
    (void)munmap(shared, sizeof(*shared));
}

TEST(a_try_is_refused_and_a_wait_ends_in_time)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = open_client("");
    DLOCK_AUTO(dlock_client) other = open_client("");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_OK(dlock_acquire(client, "name", 0, &hold, NULL), NULL);
    CHECK_EQ_INT(dlock_acquire(other, "name", 0, &theirs, NULL), DLOCK_EBUSY);
    int64_t begin = now_ms();
    CHECK_EQ_INT(dlock_acquire(other, "name", SHORT_MS, &theirs, NULL), DLOCK_ETIMEDOUT);
    CHECK(now_ms() - begin >= SHORT_MS - 1);
    CHECK(now_ms() - begin < GENEROUS_MS);
    CHECK_OK(dlock_acquire(other, "another", 0, &theirs, NULL), NULL);
}

TEST(who_waits_gets_it_when_it_is_released)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = open_client("");
    DLOCK_AUTO(dlock_client) other = open_client("");
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_acquire(client, "name", 0, &hold, NULL), NULL);
    CHECK_OK(dlock_lock_new(other, DLOCK_MUTEX, "name", NULL, &lock, NULL), NULL);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, GENEROUS_MS);
    CHECK_EQ_INT(dlock_op_wait(op, SHORT_MS), DLOCK_EPENDING);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_OK(dlock_op_wait(op, GENEROUS_MS), NULL);
    DLOCK_AUTO(dlock_hold) theirs = dlock_op_take_hold(op);
    CHECK(dlock_hold_token(theirs) > dlock_hold_token(hold));
}

TEST(a_lease_is_renewed_as_long_as_it_is_held)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = open_client("&lock.ttl_ms=1000");
    DLOCK_AUTO(dlock_client) other = open_client("");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_OK(dlock_acquire(client, "name", 0, &hold, NULL), NULL);
    CHECK_EQ_INT(dlock_acquire(other, "name", 2500, &theirs, NULL), DLOCK_ETIMEDOUT);
    CHECK_OK(dlock_hold_check(hold), NULL);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
}

TEST(a_key_that_is_gone_is_a_lock_that_is_lost)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = open_client("");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    CHECK_OK(dlock_acquire(client, "name", 0, &hold, NULL), NULL);
    CHECK(forget("name"));
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
}

TEST(a_server_that_is_killed_is_an_error_in_time)
{
    BEGIN();
    DLOCK_AUTO(dlock_client)
    client = open_client("&client.timeout_ms=500&client.close_ms=100");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) more = NULL;
    CHECK_OK(dlock_acquire(client, "name", 0, &hold, NULL), NULL);
    skeleton_server_stop();
    int64_t begin = now_ms();
    dlock_err code = dlock_acquire(client, "another", 1000, &more, NULL);
    CHECK(code == DLOCK_ETIMEDOUT || code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN);
    CHECK(now_ms() - begin < GENEROUS_MS);
}

TEST(a_server_that_stands_still_is_an_error_in_time)
{
    BEGIN();
    DLOCK_AUTO(dlock_client)
    client = open_client("&client.timeout_ms=300&client.close_ms=100");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    server_freeze(skeleton_server_pid());
    int64_t begin = now_ms();
    CHECK(dlock_acquire(client, "name", 1000, &hold, NULL) != DLOCK_OK);
    CHECK(now_ms() - begin < GENEROUS_MS);
    server_thaw(skeleton_server_pid());
    CHECK_OK(dlock_acquire(client, "name", GENEROUS_MS, &hold, NULL), NULL);
}

TEST(closing_gives_back_what_is_held)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = open_client("");
    DLOCK_AUTO(dlock_client) other = open_client("");
    DLOCK_AUTO(dlock_hold) hold = NULL;
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_OK(dlock_acquire(client, "name", 0, &hold, NULL), NULL);
    CHECK_OK(dlock_client_close(client, NULL), NULL);
    CHECK_OK(dlock_acquire(other, "name", 0, &theirs, NULL), NULL);
    skeleton_server_stop();
}

TEST(what_it_has_not_is_refused)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) client = open_client("");
    DLOCK_AUTO(dlock_lock) lock = NULL;
    CHECK_EQ_INT(dlock_lock_new(client, DLOCK_SEMAPHORE, "name", NULL, &lock, NULL),
                 DLOCK_ENOTSUP);
    CHECK_EQ_INT(dlock_lock_new(client, DLOCK_MUTEX, "two words", NULL, &lock, NULL),
                 DLOCK_EINVAL);
    CHECK_EQ_INT(dlock_client_poll_fd(client), -1);
    skeleton_server_stop();
}
