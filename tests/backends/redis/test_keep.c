/* Kept locks (lock.keep_ms) through the public API, against a real server. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/kept.h"
#include "harness/redis_server.h"
#include "harness/time.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static redis_server server;
static dlock_client *keeper, *other;

/* Whoever isn't told within a minute finds out by himself. */
#define QUIET "client.poll_ms=60000&redis.client_key=false"

#define SETUP(query)                                                                     \
    do {                                                                                 \
        if (!redis_server_available())                                                   \
            return;                                                                      \
        CHECK(redis_server_start(&server, NULL));                                        \
        keeper = api_open("redis://127.0.0.1:%d?" QUIET "&%s", server.port, query);      \
        other = api_open("redis://127.0.0.1:%d?" QUIET, server.port);                    \
        CHECK(keeper &&other);                                                           \
    } while (0)

static void teardown(void)
{
    dlock_client_free(keeper);
    dlock_client_free(other);
    redis_server_stop(&server);
}

static bool is_kept(dlock_client *client, dlock_lock *lock)
{
    return kept_begins(client, lock, 5000, 1);
}

TEST(a_kept_lock_is_taken_without_a_request_and_each_time_with_a_larger_token)
{
    SETUP("lock.keep_ms=60000");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL);
    CHECK(api_has(keeper, "keep") && is_kept(keeper, lock));
    int64_t commands = api_stat(keeper, "commands"), last = 0;
    int64_t local = api_stat(keeper, "local_grants");
    for (int i = 0; i < 20; i++) {
        int64_t token = kept_pair(lock, 0);
        CHECK(token > last);
        last = token;
    }
    CHECK_EQ_INT(api_stat(keeper, "local_grants") - local, 20);
    CHECK(api_stat(keeper, "commands") - commands <= 2); /* for more tokens */
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "1");
    dlock_lock_free(lock);
    CHECK_OK(dlock_client_close(keeper, NULL), NULL);
    CHECK_STR(redis_server_call(&server, "EXISTS L"),
              "0"); /* nothing is kept after that */
    teardown();
}

TEST(who_wants_an_idle_one_gets_it_though_it_would_be_kept_for_long)
{
    SETUP("lock.keep_ms=600000&lock.ttl_ms=600000");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL),
               *same = api_lock(other, DLOCK_MUTEX, "L", NULL);
    CHECK(is_kept(keeper, lock));
    int64_t asked = api_stat(keeper, "kept_asked");
    int64_t token = kept_pair(lock, 0), theirs = kept_pair(same, 20000);
    CHECK(theirs > token);
    CHECK_EQ_INT(api_stat(keeper, "kept_asked") - asked, 1);
    CHECK(kept_pair(lock, 20000) > theirs);
    dlock_lock_free(lock);
    dlock_lock_free(same);
    teardown();
}

TEST(who_keeps_it_is_seen_by_its_own_client_and_gives_it_up_when_that_is_asked)
{
    SETUP("lock.keep_ms=600000&lock.ttl_ms=600000");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL),
               *same = api_lock(other, DLOCK_MUTEX, "L", NULL);
    CHECK(is_kept(keeper, lock));
    CHECK(api_seen(lock, "kept_ms")[0]);
    CHECK_STR(api_seen(same, "kept_ms"), "");
    CHECK_STR(api_seen(same, "held"), "1");
    CHECK_OK(dlock_lock_revoke(same, NULL), NULL);
    CHECK(AWAITED(strcmp(api_seen(same, "held"), "0") == 0));
    CHECK_STR(api_seen(lock, "kept_ms"), "");
    dlock_lock_free(lock);
    dlock_lock_free(same);
    teardown();
}

TEST(who_only_tries_an_idle_one_gets_it_soon)
{
    SETUP("lock.keep_ms=600000&lock.ttl_ms=600000");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL),
               *same = api_lock(other, DLOCK_MUTEX, "L", NULL);
    dlock_hold *hold = NULL;
    CHECK(is_kept(keeper, lock));
    CHECK(AWAITED(dlock_lock_acquire(same, 0, &hold, NULL) == DLOCK_OK));
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_lock_free(same);
    teardown();
}

TEST(one_that_is_gone_at_the_server_is_nobodys_loss)
{
    SETUP("lock.keep_ms=600000&lock.ttl_ms=600");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL);
    CHECK(is_kept(keeper, lock));
    int64_t token = kept_pair(lock, 0);
    redis_server_call(&server, "DEL L redisson_lock_token:{L}");
    CHECK(AWAITED(api_stat(keeper, "kept_lost") == 1));
    CHECK_EQ_INT(api_stat(keeper, "losses"), 0);
    CHECK(kept_pair(lock, 5000) > token);
    dlock_lock_free(lock);
    teardown();
}

TEST(after_keep_ms_it_goes_back_by_itself)
{
    SETUP("lock.keep_ms=300");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL);
    CHECK(is_kept(keeper, lock));
    CHECK(AWAITED(strcmp(redis_server_call(&server, "EXISTS L"), "0") == 0));
    CHECK(api_stat(keeper, "kept_idle") >= 1);
    dlock_lock_free(lock);
    teardown();
}

TEST(a_child_has_nothing_of_what_its_parent_keeps)
{
    SETUP("lock.keep_ms=600000");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL);
    CHECK(is_kept(keeper, lock));
    pid_t child = fork();
    if (child == 0) {
        dlock_hold *hold = NULL;
        _exit(dlock_lock_acquire(lock, 0, &hold, NULL) == DLOCK_EFORKED && !hold ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ_INT(status, 0);
    CHECK(kept_pair(lock, 0) > 0);
    dlock_lock_free(lock);
    teardown();
}

/* ---- several threads of two clients ---- */

#define THREADS 4
#define ROUNDS  150

TEST(threads_of_two_clients_that_keep_it_have_it_in_turn_and_none_is_passed_over)
{
    SETUP("lock.keep_ms=600000");
    dlock_client *second =
        api_open("redis://127.0.0.1:%d?" QUIET "&lock.keep_ms=600000", server.port);
    dlock_lock *locks[3] = {api_lock(keeper, DLOCK_MUTEX, "L", NULL),
                            api_lock(second, DLOCK_MUTEX, "L", NULL),
                            api_lock(other, DLOCK_MUTEX, "L", NULL)};
    kept_crowd_seen seen;
    CHECK(kept_crowd(locks, THREADS, ROUNDS, &seen));
    CHECK_EQ_INT(seen.overlaps, 0);
    CHECK_EQ_INT(seen.not_rising, 0);
    harness_note("local grants: %d and %d of %d", (int)api_stat(keeper, "local_grants"),
                 (int)api_stat(second, "local_grants"), THREADS * ROUNDS);
    CHECK(api_stat(keeper, "local_grants") > 0 && api_stat(second, "local_grants") > 0);
    for (int i = 0; i < 3; i++)
        dlock_lock_free(locks[i]);
    dlock_client_free(second);
    teardown();
}

/* ---- whose it is: asked while the server stands still, and answered behind the release ---- */

TEST(a_wait_for_a_signal_never_gives_back_what_the_next_owner_has)
{
    SETUP("lock.keep_ms=600000&lock.ttl_ms=600000&lock.owner=none");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL);
    dlock_cond *cond = NULL;
    CHECK(is_kept(keeper, lock));
    CHECK_OK(dlock_cond_new(keeper, "C", NULL, &cond, NULL), NULL);
    for (int taken_up = 0; taken_up < 2; taken_up++) {
        dlock_hold *one = NULL, *two = NULL;
        CHECK_OK(dlock_lock_acquire(lock, 5000, &one, NULL), NULL);
        server_freeze(server.pid);
        dlock_op *op = dlock_cond_wait_start(cond, one, 60000);
        CHECK_OK(dlock_hold_release(one, NULL), NULL);
        if (taken_up)
            CHECK_OK(dlock_lock_acquire(lock, 0, &two, NULL), NULL);
        server_thaw(server.pid);
        CHECK_EQ_INT(dlock_op_wait(op, 20000), DLOCK_OK);
        CHECK_EQ_INT(dlock_op_result(op), DLOCK_ENOTHELD);
        CHECK(!two || dlock_hold_verify(two, NULL) == DLOCK_OK);
        dlock_op_free(op);
        dlock_hold_free(one);
        dlock_hold_free(two);
    }
    dlock_cond_free(cond);
    dlock_lock_free(lock);
    teardown();
}

TEST(what_is_asked_about_a_hold_says_nothing_of_the_next_ones)
{
    SETUP("lock.keep_ms=600000&lock.ttl_ms=600000&lock.owner=none");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL);
    CHECK(is_kept(keeper, lock));
    dlock_hold *one = NULL, *two = NULL;
    CHECK_OK(dlock_lock_acquire(lock, 5000, &one, NULL), NULL);
    server_freeze(server.pid);
    dlock_op *asked = dlock_hold_verify_start(one);
    CHECK_OK(dlock_hold_release(one, NULL), NULL);
    CHECK_OK(dlock_lock_acquire(lock, 0, &two, NULL), NULL);
    server_thaw(server.pid);
    CHECK_EQ_INT(dlock_op_wait(asked, 20000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(asked), DLOCK_ELOST);
    CHECK_OK(dlock_hold_verify(two, NULL), NULL);
    dlock_op_free(asked);
    dlock_hold_free(one);
    dlock_hold_free(two);
    dlock_lock_free(lock);
    teardown();
}

TEST(one_that_was_extended_goes_back)
{
    SETUP("lock.keep_ms=600000&lock.ttl_ms=5000&lock.owner=none");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL);
    CHECK(is_kept(keeper, lock));
    dlock_hold *one = NULL, *two = NULL;
    CHECK_OK(dlock_lock_acquire(lock, 5000, &one, NULL), NULL);
    CHECK_OK(dlock_hold_extend(one, 3600000, NULL), NULL);
    CHECK_OK(dlock_hold_release(one, NULL), NULL);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    dlock_hold_free(one);
    /* Also while the extension is under way. */
    CHECK_OK(dlock_lock_acquire(lock, 5000, &one, NULL), NULL);
    server_freeze(server.pid);
    dlock_op *longer = dlock_hold_extend_start(one, 3600000),
             *back = dlock_hold_release_start(one);
    server_thaw(server.pid);
    CHECK_EQ_INT(dlock_op_wait(back, 20000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(back), DLOCK_OK);
    CHECK_OK(dlock_lock_acquire(lock, 5000, &two, NULL), NULL);
    CHECK_EQ_INT(dlock_hold_ttl_ms(two), 5000);
    CHECK_EQ_INT(dlock_op_wait(longer, 20000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(longer), DLOCK_ELOST);
    dlock_op_free(longer);
    dlock_op_free(back);
    dlock_hold_free(one);
    dlock_hold_free(two);
    dlock_lock_free(lock);
    teardown();
}

/* ---- what others do ---- */

/* As RFencedLock does, where the counter was lost. */
TEST(behind_a_counter_that_was_begun_anew_no_token_is_smaller_than_one_before)
{
    SETUP("lock.keep_ms=600000&lock.ttl_ms=600000");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL),
               *same = api_lock(other, DLOCK_MUTEX, "L", NULL),
               *warm = api_lock(keeper, DLOCK_MUTEX, "W", NULL);
    CHECK(is_kept(keeper, warm)); /* so it was greeted before the other's token */
    int64_t theirs = kept_pair(same, 5000);
    redis_server_call(&server, "DEL redisson_lock_token:{L}");
    redis_server_call(&server, "INCR redisson_lock_token:{L}");
    CHECK(kept_pair(lock, 5000) > theirs);
    dlock_lock_free(lock);
    dlock_lock_free(same);
    dlock_lock_free(warm);
    teardown();
}

TEST(what_only_its_own_client_keeps_bars_nothing_there)
{
    SETUP("lock.keep_ms=600000&lock.ttl_ms=600000");
    dlock_lock *lock = api_lock(keeper, DLOCK_MUTEX, "L", NULL),
               *fair =
                   api_lock(keeper, DLOCK_MUTEX, "L", "lock.keep_ms=0 lock.fair=true");
    dlock_hold *hold = NULL;
    CHECK(is_kept(keeper, lock));
    CHECK(kept_pair(fair, 5000) > 0); /* another layout of its name */
    CHECK(kept_pair(lock, 5000) > 0);
    CHECK_OK(dlock_lock_wait_idle(lock, 0, NULL), NULL);
    CHECK_OK(dlock_lock_acquire(lock, 5000, &hold, NULL), NULL);
    dlock_op *idle = dlock_lock_wait_idle_start(lock, 20000);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_EQ_INT(dlock_op_wait(idle, 20000), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(idle), DLOCK_OK);
    dlock_op_free(idle);
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_lock_free(fair);
    teardown();
}

TEST(a_lock_made_of_a_closed_client_leaves_nothing_behind)
{
    SETUP("");
    dlock_conf *conf = api_conf("lock.keep_ms=1000");
    dlock_lock *lock = NULL;
    CHECK_OK(dlock_client_close(keeper, NULL), NULL);
    CHECK_OK(dlock_lock_new(keeper, DLOCK_MUTEX, "L", conf, &lock, NULL), NULL);
    dlock_lock_free(lock);
    dlock_conf_free(conf);
    teardown();
}

/* ---- where there are none ---- */

TEST(what_cant_be_kept_says_why)
{
    static const struct {
        const char *uri, *settings, *why;
        dlock_kind kind;
    } cases[] = {
        {"mem:?", "", "mem keeps no locks: there is no round trip to save", DLOCK_MUTEX},
        {"memcached://127.0.0.1:1?", "", "nobody could ask", DLOCK_MUTEX},
        {"redis://127.0.0.1:1?", "lock.fair=true", "redis.layout=redisson", DLOCK_MUTEX},
        {"redis://127.0.0.1:1?", "lock.permits=2", "only mutexes", DLOCK_SEMAPHORE},
        {"redis://127.0.0.1:1?", "", "only mutexes", DLOCK_WRITE},
        {"redis://127.0.0.1:1?redis.layout=string&", "", "redis.layout=redisson",
         DLOCK_MUTEX},
        {"redis://127.0.0.1:1?redis.wait=poll&", "", "redis.wait=pubsub", DLOCK_MUTEX},
        {"redis://127.0.0.1:1?", "lock.renew=off", "lock.renew=auto", DLOCK_MUTEX},
        {"redis://127.0.0.1:1?", "lock.renew=fed", "lock.renew=auto", DLOCK_MUTEX},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char settings[100];
        (void)snprintf(settings, sizeof(settings), "lock.keep_ms=1000 %s",
                       cases[i].settings);
        dlock_client *client = api_open("%sclient.lazy=true", cases[i].uri);
        dlock_conf *conf = api_conf(settings);
        dlock_lock *lock = NULL;
        dlock_error *err = NULL;
        CHECK(client);
        CHECK_EQ_INT(dlock_lock_new(client, cases[i].kind, "L", conf, &lock, &err),
                     DLOCK_ENOTSUP);
        CHECK_CONTAINS(dlock_error_text(err), cases[i].why);
        dlock_error_free(err);
        dlock_conf_free(conf);
        dlock_client_free(client);
    }
}
