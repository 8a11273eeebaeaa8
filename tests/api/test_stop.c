/* A holder that is stopped for longer than its lease: it knows at its first look, asks nobody, and
 * commits nothing. */
#include "world.h"

#include "harness/redis_server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL_MS 300

/* Stops once; true when it has. */
static bool await_stop(pid_t pid)
{
    int status = 0;
    int64_t end = now_ms() + patience_ms();
    while (now_ms() < end) {
        if (waitpid(pid, &status, WUNTRACED | WNOHANG) == pid)
            return harness_check(__FILE__, __LINE__, WIFSTOPPED(status),
                                 "WIFSTOPPED(status)");
        nap_ms(1);
    }
    return harness_check(__FILE__, __LINE__, false, "the child stopped");
}

static void wait_out_the_lease(void)
{
    int64_t end = now_ms() + 2 * TTL_MS;
    while (now_ms() < end)
        nap_ms(1);
}

static dlock_client *short_lease(void)
{
    char settings[64];
    snprintf(settings, sizeof(settings), "lock.ttl_ms=%d client.close_ms=100", TTL_MS);
    return world_client(settings);
}

/* ---- the first check ---- */

static void stop_and_look(void *name)
{
    DLOCK_AUTO(dlock_client) client = short_lease();
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    raise(SIGSTOP);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST); /* the very first thing it does */
    CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_LOST);
    fflush(stdout);
    _exit(harness_failed()); /* the server may be away: nothing to wait for */
}

TEST(a_holder_stopped_for_twice_its_ttl_learns_of_the_loss_at_its_first_check)
{
    BEGIN();
    pid_t pid = world_child_start(stop_and_look, (void *)(intptr_t) __func__);
    bool stopped = await_stop(pid);
    wait_out_the_lease();
    kill(pid, SIGCONT);
    CHECK_EQ_INT(world_child_end(pid), 0);
    CHECK(stopped);
}

TEST(that_check_needs_no_round_trip)
{
    BEGIN();
    if (!world_is("redis"))
        LEAVE_OUT("no server to take away");
    pid_t pid = world_child_start(stop_and_look, (void *)(intptr_t) __func__);
    bool stopped = await_stop(pid);
    server_freeze(world_redis()->pid);
    wait_out_the_lease();
    kill(pid, SIGCONT);
    int status = world_child_end(pid);
    server_thaw(world_redis()->pid);
    CHECK(stopped);
    CHECK_EQ_INT(status, 0);
}

/* ---- others meanwhile ---- */

static void stop_and_release(void *name)
{
    DLOCK_AUTO(dlock_client) client = short_lease();
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    raise(SIGSTOP);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
}

TEST(others_get_the_lock_of_a_stopped_holder_when_its_lease_is_over_and_keep_it)
{
    BEGIN();
    LEAVE_OUT_ON("mem", "a table of one process");
    pid_t pid = world_child_start(stop_and_release, (void *)(intptr_t) __func__);
    bool stopped = await_stop(pid);
    CLIENT_WITH_LOCK(client, lock, __func__, NULL);
    DLOCK_AUTO(dlock_hold) hold = stopped ? world_take(lock) : NULL;
    kill(pid, SIGCONT);
    CHECK_EQ_INT(world_child_end(pid), 0);
    CHECK(stopped && hold);
    CHECK_EQ_INT(dlock_hold_verify(hold, NULL),
                 DLOCK_OK); /* that late release hit nobody */
    CHECK_EQ_INT(world_try(__func__), DLOCK_EBUSY);
}

/* ---- guard ---- */

static char trace[8];

static void note(char letter)
{
    size_t used = strlen(trace);
    trace[used] = letter;
    trace[used + 1] = '\0';
}

static dlock_err stop_in_run(void *user)
{
    (void)user;
    note('r');
    raise(SIGSTOP);
    return DLOCK_OK;
}

static dlock_err commit(void *user, int64_t token)
{
    (void)user;
    (void)token;
    note('c');
    return DLOCK_OK;
}

static void undo(void *user)
{
    (void)user;
    note('u');
}

static void lost(void *user)
{
    (void)user;
    note('l');
}

static void stop_in_guard(void *name)
{
    static const dlock_guarded table = {.size = sizeof(table),
                                        .run = stop_in_run,
                                        .commit = commit,
                                        .undo = undo,
                                        .lost = lost};
    DLOCK_AUTO(dlock_error) err = NULL;
    DLOCK_AUTO(dlock_client) client = short_lease();
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, name, NULL);
    DLOCK_AUTO(dlock_hold) hold = world_take(lock);
    CHECK_ERR(dlock_hold_guard(hold, &table, NULL, &err), DLOCK_ELOST, err);
    CHECK_STR(trace, "rul");
}

TEST(a_guard_stopped_between_run_and_commit_undoes_and_never_commits)
{
    BEGIN();
    pid_t pid = world_child_start(stop_in_guard, (void *)(intptr_t) __func__);
    bool stopped = await_stop(pid);
    wait_out_the_lease();
    kill(pid, SIGCONT);
    CHECK_EQ_INT(world_child_end(pid), 0);
    CHECK(stopped);
}

TEST(a_guard_whose_connection_is_cut_undoes_and_never_commits)
{
    BEGIN();
    if (!world_is("redis"))
        LEAVE_OUT("no connection to cut");
    /* The child stops itself in run; meanwhile the server is gone, and comes back empty. */
    pid_t pid = world_child_start(stop_in_guard, (void *)(intptr_t) __func__);
    bool stopped = await_stop(pid);
    redis_server_kill(world_redis());
    wait_out_the_lease();
    kill(pid, SIGCONT);
    int status = world_child_end(pid);
    CHECK(redis_server_restart(world_redis()));
    CHECK(stopped);
    CHECK_EQ_INT(status, 0);
}
