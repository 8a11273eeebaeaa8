/* The guarded operation when the lock is lost between run and commit: what was done is undone and
 * commit is never called; when it is lost within commit, the resource refuses the token. */
#include "resource.h"
#include "seeker.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t ttl_ms = 500;
static stage s;

/* One guarded operation, and how far it is. Shared by the processes. */
typedef struct work {
    char uri[96];
    resource *resource;
    const dlock_hold *hold;
    bool linger_in_commit; /* else in run */
    _Atomic bool lingering, go_on;
    _Atomic int prepared, ran, commits, committed, undone, lost, draft;
    int64_t seen;
    dlock_err code;
    bool ended;
} work;

static dlock_client *open_one(const char *uri)
{
    return stage_open(uri, "lock.ttl_ms", "500", "client.timeout_ms", "200",
                      "client.poll_ms", "200", "client.backoff_min_ms", "5",
                      "client.backoff_max_ms", "50", NULL);
}

/* Until the test says go on; without one, for so long as a run takes. */
static void linger(work *w)
{
    atomic_store(&w->lingering, true);
    int64_t end = now_ns() + patience_ms() * STAGE_MS;
    while (!atomic_load(&w->go_on) && now_ns() < end)
        nap_ms(1);
}

static dlock_err prepare(void *user)
{
    work *w = user;
    atomic_fetch_add(&w->prepared, 1);
    return DLOCK_OK;
}

static dlock_err run(void *user)
{
    work *w = user;
    atomic_fetch_add(&w->ran, 1);
    atomic_store(&w->draft, 1);
    if (!resource_look(w->resource, dlock_hold_token(w->hold), &w->seen))
        return DLOCK_ELOST;
    if (!w->linger_in_commit)
        linger(w);
    return DLOCK_OK;
}

static dlock_err commit(void *user, int64_t token)
{
    work *w = user;
    atomic_fetch_add(&w->commits, 1);
    if (w->linger_in_commit)
        linger(w);
    if (!resource_write(w->resource, token, w->seen))
        return DLOCK_ELOST;
    atomic_fetch_add(&w->committed, 1);
    return DLOCK_OK;
}

static void undo(void *user)
{
    work *w = user;
    atomic_fetch_add(&w->undone, 1);
    atomic_store(&w->draft, 0);
}

static void lose(void *user)
{
    work *w = user;
    atomic_fetch_add(&w->lost, 1);
}

static const dlock_guarded guarded = {
    .size = sizeof(dlock_guarded),
    .prepare = prepare,
    .run = run,
    .commit = commit,
    .undo = undo,
    .lost = lose,
};

static void do_guarded(work *w, dlock_lock *lock)
{
    dlock_hold *hold = stage_take(lock);
    CHECK(hold != NULL);
    w->hold = hold;
    stay *at = resource_enter(w->resource, hold);
    w->code = dlock_hold_guard(hold, &guarded, w, NULL);
    resource_leave(at);
    w->ended = true;
    dlock_err code = dlock_hold_release(hold, NULL);
    CHECK_EQ_INT(code, w->code == DLOCK_ELOST ? DLOCK_ELOST : DLOCK_OK);
    dlock_hold_free(hold);
}

static void check_undone(const work *w, int commits)
{
    CHECK(w->ended);
    CHECK_EQ_INT(w->code, DLOCK_ELOST);
    CHECK_EQ_INT(atomic_load(&w->prepared), 1);
    CHECK_EQ_INT(atomic_load(&w->ran), 1);
    CHECK_EQ_INT(atomic_load(&w->commits), commits);
    CHECK_EQ_INT(atomic_load(&w->committed), 0);
    CHECK_EQ_INT(atomic_load(&w->undone), 1);
    CHECK_EQ_INT(atomic_load(&w->lost), 1);
    CHECK_EQ_INT(atomic_load(&w->draft), 0);
}

static void check_verdict(const resource *r, int64_t accepted, expectation by)
{
    verdict v = resource_judge(r, by);
    CHECK(v.overlaps == 0 || by == RESOURCE_STATE_LOST);
    CHECK_EQ_INT(v.accepted, accepted);
    CHECK_EQ_INT(v.lost_updates, 0);
    CHECK_EQ_INT(v.old_tokens, 0);
}

/* ---- The holder's process is stopped ---- */

static void run_process(void *shared)
{
    work *w = shared;
    dlock_client *client = open_one(w->uri);
    CHECK(client != NULL);
    dlock_lock *lock = stage_lock(client, "L");
    do_guarded(w, lock);
    dlock_lock_free(lock);
    dlock_client_free(client);
}

static void stop_within(const char *uri, bool in_commit)
{
    work *w = stage_share(sizeof(*w));
    snprintf(w->uri, sizeof(w->uri), "%s", uri);
    w->resource = resource_new();
    w->linger_in_commit = in_commit;
    pid_t pid = stage_fork(run_process, w);
    dlock_client *client = open_one(uri);
    CHECK(client != NULL);
    seeker rival = {.lock = stage_lock(client, "L"),
                    .resource = w->resource,
                    .wait_ms = patience_ms()};
    AWAIT(atomic_load(&w->lingering));
    stage_stop(pid);
    int64_t stopped = now_ns();
    CHECK(seeker_start(&rival));
    seeker_join(&rival);
    CHECK_EQ_INT(rival.code, DLOCK_OK);
    CHECK(rival.admitted);
    while (now_ns() < stopped + 2 * ttl_ms * STAGE_MS)
        nap_ms(5);
    atomic_store(&w->go_on, true);
    stage_continue(pid);
    CHECK(stage_join(pid));
    check_undone(w, in_commit);
    check_verdict(w->resource, 1, RESOURCE_STATE_KEPT);
    dlock_lock_free(rival.lock);
    dlock_client_free(client);
    resource_free(w->resource);
    stage_unshare(w, sizeof(*w));
}

static void stop_within_redis(bool in_commit)
{
    if (!stage_set(&s, NULL))
        return;
    stop_within(s.uri, in_commit);
    CHECK(!harness_failed() && stage_clear(&s, ttl_ms));
}

TEST(stopped_between_run_and_commit_it_is_undone_and_never_committed_in_redis)
{
    stop_within_redis(false);
}

TEST(stopped_within_commit_the_resource_refuses_and_it_is_undone)
{
    stop_within_redis(true);
}

TEST(stopped_between_run_and_commit_it_is_undone_and_never_committed_in_a_file)
{
    char dir[] = "/tmp/dlock-faults-XXXXXX", uri[96], file[64];
    CHECK(harness_mkdtemp(dir) != NULL);
    snprintf(uri, sizeof(uri), "file://%s/table", dir);
    snprintf(file, sizeof(file), "%s/table", dir);
    stop_within(uri, false);
    (void)unlink(file); /* a failed test may not have made it */
    CHECK_EQ_INT(rmdir(dir), 0);
}

/* ---- The way to the server is cut ---- */

static void *run_thread(void *arg)
{
    void **with = arg;
    do_guarded(with[0], with[1]);
    return NULL;
}

/* Cut, or swallowed, while it runs, until the lease is over. */
static void cut_within(proxy_way hole)
{
    if (!stage_set(&s, NULL) || !stage_put_proxy(&s))
        return;
    work w = {.resource = resource_new()};
    dlock_client *cut = open_one(s.proxied), *whole = open_one(s.uri);
    CHECK(cut != NULL && whole != NULL);
    dlock_lock *lock = stage_lock(cut, "L");
    seeker rival = {
        .lock = stage_lock(whole, "L"), .resource = w.resource, .wait_ms = patience_ms()};
    void *with[] = {&w, lock};
    pthread_t thread;
    CHECK_EQ_INT(pthread_create(&thread, NULL, run_thread, with), 0);
    AWAIT(atomic_load(&w.lingering));
    proxy_hole(s.way, hole);
    if (hole == PROXY_BOTH)
        proxy_reset(s.way); /* and new ones get nowhere */
    CHECK(seeker_start(&rival));
    AWAIT(dlock_hold_check(w.hold) != DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(w.hold), DLOCK_ELOST);
    seeker_join(&rival);
    CHECK_EQ_INT(rival.code, DLOCK_OK);
    CHECK(rival.admitted);
    atomic_store(&w.go_on, true);
    pthread_join(thread, NULL);
    check_undone(&w, 0);
    check_verdict(w.resource, 1, RESOURCE_STATE_KEPT);
    proxy_pass(s.way);
    dlock_lock_free(lock);
    dlock_lock_free(rival.lock);
    dlock_client_free(cut);
    dlock_client_free(whole);
    resource_free(w.resource);
    CHECK(!harness_failed() && stage_clear(&s, ttl_ms));
}

TEST(cut_off_between_run_and_commit_it_is_undone_and_never_committed)
{
    cut_within(PROXY_BOTH);
}

TEST(unanswered_between_run_and_commit_it_is_undone_and_never_committed)
{
    cut_within(PROXY_DOWN);
}

TEST(a_server_wiped_between_run_and_commit_is_noticed_before_the_commit)
{
    if (!stage_set(&s, NULL))
        return;
    work w = {.resource = resource_new()};
    dlock_client *client = open_one(s.uri);
    CHECK(client != NULL);
    dlock_lock *lock = stage_lock(client, "L");
    void *with[] = {&w, lock};
    pthread_t thread;
    CHECK_EQ_INT(pthread_create(&thread, NULL, run_thread, with), 0);
    AWAIT(atomic_load(&w.lingering));
    redis_server_call(&s.server, "FLUSHALL");
    AWAIT_MS(dlock_hold_check(w.hold) == DLOCK_ELOST, ttl_ms / 3 + stage_slack_ms());
    atomic_store(&w.go_on, true);
    pthread_join(thread, NULL);
    check_undone(&w, 0);
    /* Undisturbed, the same operation succeeds. */
    work again = {.resource = w.resource, .go_on = true};
    do_guarded(&again, lock);
    CHECK_EQ_INT(again.code, DLOCK_OK);
    CHECK_EQ_INT(atomic_load(&again.committed), 1);
    CHECK_EQ_INT(atomic_load(&again.undone) + atomic_load(&again.lost), 0);
    check_verdict(w.resource, 1, RESOURCE_STATE_LOST);
    dlock_lock_free(lock);
    dlock_client_free(client);
    resource_free(w.resource);
    CHECK(!harness_failed() && stage_clear(&s, ttl_ms));
}
