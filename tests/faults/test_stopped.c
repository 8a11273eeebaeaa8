/* The holder's process is stopped, starved or killed, over a real Redis and over a file: the lock
 * is LOST for it before anybody else gets it, and it learns so without asking anybody. */
#include "harness/server.h"
#include "resource.h"
#include "seeker.h"
#include "stage.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t ttl_ms = 500;
static stage s;
static bool over_redis;
static char dir[64], uri[96];

/* What the holder's process and the test share. */
typedef struct plan {
    char uri[96];
    resource *resource;
    _Atomic bool go, holding, waiting, lost, end;
    _Atomic int64_t asked; /* how long the check took that said ELOST, in ns */
    _Atomic int64_t holds, losses;
    int wait_ms;
} plan;

static plan *shared;
static dlock_client *client;
static dlock_lock *lock;

static dlock_client *open_with(const char *at, const char *timeout_ms)
{
    return stage_open(at, "lock.ttl_ms", "500", "client.timeout_ms", timeout_ms,
                      "client.poll_ms", "200", "client.backoff_min_ms", "5",
                      "client.backoff_max_ms", "50", NULL);
}

static dlock_client *open_one(const char *at)
{
    return open_with(at, "300");
}

static bool set_service(bool redis)
{
    over_redis = redis;
    if (redis) {
        if (!stage_set(&s, NULL))
            return false;
        snprintf(uri, sizeof(uri), "%s", s.uri);
        return true;
    }
    strcpy(dir, "/tmp/dlock-faults-XXXXXX");
    if (!harness_check(__FILE__, __LINE__, harness_mkdtemp(dir) != NULL, "a directory"))
        return false;
    snprintf(uri, sizeof(uri), "file://%s/table", dir);
    stage_note_base_line(&s);
    return true;
}

static bool set_up(bool redis)
{
    if (!set_service(redis))
        return false;
    shared = stage_share(sizeof(*shared));
    memcpy(shared->uri, uri, sizeof(uri));
    shared->resource = resource_new();
    return true;
}

/* After the processes are forked, and before they are told to go. */
static bool open_here(void)
{
    client = open_one(uri);
    if (client)
        lock = stage_lock(client, "L");
    return lock != NULL;
}

static void check_verdict(void)
{
    verdict v = resource_judge(shared->resource, RESOURCE_STATE_KEPT);
    harness_note("%" PRId64 " stays, %" PRId64 " writes, %" PRId64 " refused", v.stays,
                 v.accepted, v.refused);
    CHECK_EQ_INT(v.overlaps, 0);
    CHECK_EQ_INT(v.old_tokens, 0);
    CHECK_EQ_INT(v.lost_updates, 0);
}

static void tear_down(void)
{
    check_verdict();
    dlock_lock_free(lock);
    dlock_client_free(client);
    lock = NULL;
    resource_free(shared->resource);
    stage_unshare(shared, sizeof(*shared));
    if (over_redis) {
        CHECK(stage_clear(&s, ttl_ms));
        return;
    }
    char file[96];
    snprintf(file, sizeof(file), "%s/table", dir);
    (void)unlink(file);
    CHECK_EQ_INT(rmdir(dir), 0); /* so nothing else was left there */
}

/* ---- Stopped while it holds ---- */

/* Holds until it is lost, and then writes what it should not. */
static void run_holder(void *arg)
{
    plan *p = arg;
    while (!atomic_load(&p->go))
        nap_ms(1);
    dlock_client *mine = open_one(p->uri);
    CHECK(mine != NULL);
    dlock_lock *it = stage_lock(mine, "L");
    dlock_hold *hold = stage_take(it);
    CHECK(hold != NULL);
    int64_t token = dlock_hold_token(hold), seen, asked;
    stay *at = resource_enter(p->resource, hold);
    CHECK(resource_look(p->resource, token, &seen));
    atomic_store(&p->holding, true);
    do {
        nap_ms(1);
        asked = now_ns();
    } while (resource_still(at, hold) == DLOCK_OK && !atomic_load(&p->end));
    atomic_store(&p->asked, now_ns() - asked);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
    CHECK(!resource_write(p->resource, token, seen));
    atomic_store(&p->lost, true);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    dlock_hold_free(hold);
    while (!atomic_load(&p->end))
        nap_ms(1);
    hold = stage_take(it); /* and all goes on */
    CHECK(hold != NULL);
    at = resource_enter(p->resource, hold);
    CHECK(resource_look(p->resource, dlock_hold_token(hold), &seen));
    resource_leave(at);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    dlock_lock_free(it);
    dlock_client_free(mine);
}

/* A holder in a process of its own, and a rival here who waits; no process: skipped. */
static void begin_with_a_rival(bool redis, pid_t *ret_pid, seeker *rival)
{
    if (!set_up(redis))
        return;
    *ret_pid = stage_fork(run_holder, shared);
    CHECK(open_here());
    atomic_store(&shared->go, true);
    AWAIT(atomic_load(&shared->holding));
    *rival =
        (seeker){.lock = lock, .resource = shared->resource, .wait_ms = patience_ms()};
    CHECK(seeker_start(rival));
    nap_ms(50);
}

static void stop_a_holder(bool redis)
{
    pid_t pid = -1;
    seeker rival;
    begin_with_a_rival(redis, &pid, &rival);
    if (pid < 0 || harness_failed())
        return;
    stage_stop(pid);
    int64_t stopped = awake_now_ns();
    seeker_join(&rival);
    CHECK_EQ_INT(rival.code, DLOCK_OK);
    CHECK(rival.admitted);
    CHECK((rival.got_at - stopped) / STAGE_MS <= ttl_ms + stage_slack_ms());
    while (awake_now_ns() < stopped + 2 * ttl_ms * STAGE_MS)
        nap_ms(5);
    if (redis)
        server_freeze(s.server.pid); /* nobody is there to be asked */
    stage_continue(pid);
    AWAIT(atomic_load(&shared->lost));
    if (redis)
        server_thaw(s.server.pid);
    harness_note("the check that said so took %" PRId64 " us",
                 atomic_load(&shared->asked) / 1000);
    atomic_store(&shared->end, true);
    CHECK(stage_join(pid));
    tear_down();
}

TEST(a_stopped_holder_knows_at_once_that_it_lost_the_lock_in_redis)
{
    stop_a_holder(true);
}

TEST(a_stopped_holder_knows_at_once_that_it_lost_the_lock_in_a_file)
{
    stop_a_holder(false);
}

/* ---- Stopped while the grant is on its way ---- */

static void run_late(void *arg)
{
    plan *p = arg;
    while (!atomic_load(&p->go))
        nap_ms(1);
    dlock_client *mine =
        open_with(p->uri, "10000"); /* so that the answer isn't too late as such */
    CHECK(mine != NULL);
    dlock_lock *it = stage_lock(mine, "L");
    atomic_store(&p->waiting, true);
    while (!atomic_load(&p->holding))
        nap_ms(1);
    dlock_hold *hold = NULL;
    dlock_err code = dlock_lock_acquire(it, p->wait_ms, &hold, NULL);
    if (code == DLOCK_OK) {
        stay *at = resource_enter(p->resource, hold);
        CHECK_EQ_INT(resource_still(at, hold), DLOCK_OK);
        atomic_fetch_add(&p->holds, 1);
        resource_leave(at);
        CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    } else {
        CHECK(code == DLOCK_ETIMEDOUT || code == DLOCK_EUNKNOWN ||
              code == DLOCK_EUNAVAIL);
    }
    dlock_hold_free(hold);
    dlock_lock_free(it);
    dlock_client_free(mine);
}

/* The answer lies in its socket while the lease runs out and another one takes the lock. */
static void deliver_late(int64_t wait_ms, int64_t holds)
{
    if (!set_up(true))
        return;
    shared->wait_ms = (int)wait_ms;
    pid_t pid = stage_fork(run_late, shared);
    CHECK(open_here());
    atomic_store(&shared->go, true);
    AWAIT(atomic_load(&shared->waiting));
    server_freeze(s.server.pid);
    atomic_store(&shared->holding, true);
    AWAIT(server_has_unread(s.server.port)); /* it has asked */
    stage_stop(pid);
    server_thaw(s.server.pid);
    AWAIT(strcmp(redis_server_call(&s.server, "HLEN L"), "1") == 0);
    dlock_hold *hold = stage_take(lock);
    CHECK(hold != NULL);
    stay *at = resource_enter(shared->resource, hold);
    stage_continue(pid);
    int64_t end = now_ns() + ttl_ms * STAGE_MS;
    while (now_ns() < end) {
        CHECK_EQ_INT(resource_still(at, hold), DLOCK_OK);
        CHECK_EQ_INT(atomic_load(&shared->holds), 0);
        nap_ms(1);
    }
    resource_leave(at);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    CHECK(stage_join(pid));
    CHECK_EQ_INT(atomic_load(&shared->holds), holds);
    tear_down();
}

TEST(a_grant_heard_of_too_late_is_no_grant)
{
    deliver_late(200, 0);
}

TEST(a_grant_heard_of_too_late_is_asked_for_anew)
{
    deliver_late(patience_ms(), 1);
}

/* ---- Killed ---- */

static void kill_a_holder(bool redis)
{
    pid_t pid = -1;
    seeker rival;
    begin_with_a_rival(redis, &pid, &rival);
    if (pid < 0 || harness_failed())
        return;
    kill(pid, SIGKILL);
    int64_t killed = awake_now_ns();
    waitpid(pid, NULL, 0);
    seeker_join(&rival);
    CHECK_EQ_INT(rival.code, DLOCK_OK);
    harness_note("given on after %" PRId64 " ms", (rival.got_at - killed) / STAGE_MS);
    CHECK((rival.got_at - killed) / STAGE_MS <= ttl_ms + stage_slack_ms());
    /* Its stay ended with it. */
    tear_down();
}

TEST(the_lock_of_a_killed_holder_ends_with_its_lease_in_redis)
{
    kill_a_holder(true);
}

/* ---- Starved ---- */

static void run_spinner(void *arg)
{
    plan *p = arg;
    while (!atomic_load(&p->end))
        ;
}

/* Runs when nobody else wants to; takes the lock over and over, keeping it for a third of the ttl. */
static void run_starved(void *arg)
{
    plan *p = arg;
    struct sched_param param = {0};
    while (!atomic_load(&p->go))
        nap_ms(1);
    CHECK_EQ_INT(sched_setscheduler(0, SCHED_IDLE, &param),
                 0); /* the engine's thread, too */
    dlock_client *mine = open_one(p->uri);
    CHECK(mine != NULL);
    dlock_lock *it = stage_lock(mine, "L");
    while (!atomic_load(&p->end)) {
        dlock_hold *hold = NULL;
        if (dlock_lock_acquire(it, 2000, &hold, NULL) != DLOCK_OK)
            continue;
        stay *at = resource_enter(p->resource, hold);
        int64_t token = dlock_hold_token(hold), seen,
                end = now_ns() + ttl_ms / 3 * STAGE_MS;
        bool fresh = resource_look(p->resource, token, &seen);
        while (now_ns() < end)
            if (resource_still(at, hold) != DLOCK_OK)
                break;
        if (fresh)
            (void)resource_write(p->resource, token, seen); /* the judge counts */
        atomic_fetch_add(&p->losses, dlock_hold_check(hold) != DLOCK_OK);
        atomic_fetch_add(&p->holds, 1);
        resource_leave(at);
        (void)dlock_hold_release(hold, NULL); /* ELOST, if it came to that */
        dlock_hold_free(hold);
    }
    dlock_lock_free(it);
    dlock_client_free(mine);
}

static void starve(bool redis)
{
    enum { SPINNERS = 4, STARVED = 2 };
    pid_t pids[SPINNERS + STARVED];
    if (!set_up(redis))
        return;
    for (int i = 0; i < SPINNERS + STARVED; i++)
        pids[i] = stage_fork(i < SPINNERS ? run_spinner : run_starved, shared);
    CHECK(open_here());
    atomic_store(&shared->go, true);
    int64_t end = now_ns() + 4 * ttl_ms * STAGE_MS;
    while (now_ns() < end) {
        dlock_hold *hold = NULL;
        if (dlock_lock_acquire(lock, 2 * ttl_ms, &hold, NULL) != DLOCK_OK)
            continue;
        stay *at = resource_enter(shared->resource, hold);
        nap_ms(5);
        (void)resource_still(at, hold); /* the judge is told */
        resource_leave(at);
        (void)dlock_hold_release(hold, NULL); /* we are a bit starved, too */
        dlock_hold_free(hold);
        nap_ms(20);
    }
    atomic_store(&shared->end, true);
    for (int i = 0; i < SPINNERS + STARVED; i++)
        CHECK(stage_join(pids[i]));
    harness_note("%" PRId64 " holds of the starved, %" PRId64 " of them lost",
                 atomic_load(&shared->holds), atomic_load(&shared->losses));
    tear_down();
}

TEST(starved_holders_keep_the_lock_or_lose_it_first_in_redis)
{
    starve(true);
}

TEST(starved_holders_keep_the_lock_or_lose_it_first_in_a_file)
{
    starve(false);
}
