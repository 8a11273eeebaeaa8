/* A real server that stands still or refuses (reliability.md N9, N13, N16): each kind has its code
 * in time, nothing piles up or storms, holds are kept where the lease allows it, and all goes on
 * when the server does. (N10, flushed scripts, is in test_redis_contention.c.) */
#include "held.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool set_up(const char *config, const char *ttl)
{
    return held_set_up(config, ttl, "20", "100");
}

/* ---- N9: frozen ---- */

typedef struct errand {
    redis_server server; /* with a connection of its own */
    const char *command;
    pthread_t thread;
    _Atomic bool over;
} errand;

static void *run_errand(void *arg)
{
    errand *me = arg;
    redis_server_call(&me->server, "%s", me->command);
    close(me->server.control);
    atomic_store(&me->over, true);
    return NULL;
}

/* A command that answers late, from somebody else. */
static bool begin_errand(errand *me, const char *command)
{
    *me = (errand){.server = s.server, .command = command};
    me->server.control = -1;
    return harness_check(__FILE__, __LINE__,
                         pthread_create(&me->thread, NULL, run_errand, me) == 0,
                         "a thread");
}

/* The server does nothing for longer than the lease, by a command of its own. */
static void stand_still(const char *command)
{
    if (!set_up("enable-debug-command yes", "1000"))
        return;
    errand freezing;
    stage busy = s; /* the base line is that of stage_set */
    int64_t asked = proxy_get_stats(s.way).requests;
    CHECK(begin_errand(&freezing, command));
    /* Threads that want what nobody can give. */
    for (int64_t end = now_ns() + ttl_ms * STAGE_MS; now_ns() < end;) {
        dlock_hold *none = NULL;
        int64_t began = awake_now_ns();
        dlock_lock *other = stage_lock(client, "other");
        dlock_err code = dlock_lock_acquire(other, 100, &none, NULL);
        dlock_lock_free(other);
        if (code == DLOCK_OK) {                   /* it hasn't begun yet */
            (void)dlock_hold_release(none, NULL); /* or just now */
            dlock_hold_free(none);
            continue;
        }
        CHECK(code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL);
        CHECK(held_in_time("it", began, 100));
    }
    AWAIT_MS(dlock_hold_check(hold) == DLOCK_ELOST, ttl_ms);
    asked = proxy_get_stats(s.way).requests - asked;
    stage_note_base_line(&busy);
    harness_note("%" PRId64 " requests, %d threads", asked, busy.threads);
    CHECK(asked < 1000); /* no loop of acquires and releases */
    CHECK(busy.threads < s.threads + 8);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    dlock_hold_free(hold);
    hold = stage_take(lock); /* waits until it moves again */
    CHECK(hold != NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    pthread_join(freezing.thread, NULL);
    held_tear_down();
}

TEST(N9_a_server_that_sleeps_longer_than_the_lease)
{
    stand_still("DEBUG SLEEP 2");
}

TEST(N9_a_server_that_pauses_its_clients_longer_than_the_lease)
{
    stand_still("CLIENT PAUSE 2000 ALL");
}

TEST(N9_a_server_that_pauses_writes_longer_than_the_lease)
{
    stand_still("CLIENT PAUSE 2000 WRITE");
}

TEST(N9_a_pause_that_is_shorter_than_the_lease_costs_nothing)
{
    if (!set_up(NULL, getenv("DLK_TEST_SLOW") ? "8000" : "3000"))
        return;
    for (int i = 0; i < 3; i++) {
        redis_server_call(&s.server, "CLIENT PAUSE 400 ALL");
        int64_t renewals = api_stat(client, "renewals");
        AWAIT(api_stat(client, "renewals") > renewals ||
              dlock_hold_check(hold) != DLOCK_OK);
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    }
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    CHECK_EQ_INT(api_stat(client, "losses"), 0);
    held_tear_down();
}

/* ---- N13: definitely not done ---- */

static dlock_err try_once(dlock_error **err)
{
    dlock_lock *other = stage_lock(client, "other");
    dlock_hold *one = NULL;
    dlock_err code = dlock_lock_acquire(other, 0, &one, err);
    if (one)
        (void)dlock_hold_release(one, NULL); /* what matters is that it was granted */
    dlock_hold_free(one);
    dlock_lock_free(other);
    return code;
}

/* Whether that is what is said of the server now. */
static bool is_said(const char *word)
{
    dlock_error *err = NULL;
    dlock_err code = try_once(&err);
    bool said =
        code == DLOCK_EUNAVAIL && err &&
        (strstr(dlock_error_text(err), word) || strstr(dlock_error_backend(err), word));
    if (code != DLOCK_OK)
        (void)harness_check(__FILE__, __LINE__, code != DLOCK_EBUSY,
                            "not held by others");
    dlock_error_free(err);
    return said;
}

TEST(N13_a_server_that_loads_is_unavailable_and_the_lock_survives_it)
{
    /* A thousand keys, and a millisecond for each when they are loaded. */
    if (!set_up("enable-debug-command yes\nkey-load-delay 1500\n"
                "loading-process-events-interval-bytes 1024\nhz 100",
                "20000"))
        return;
    CHECK_STR(redis_server_call(&s.server, "DEBUG POPULATE 1000 filler 1000"), "OK");
    errand loading;
    CHECK(begin_errand(&loading, "DEBUG RELOAD"));
    AWAIT(is_said("oading") || atomic_load(&loading.over));
    CHECK(!atomic_load(&loading.over));
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    pthread_join(loading.thread, NULL);
    AWAIT(try_once(NULL) == DLOCK_OK);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    redis_server_call(&s.server, "FLUSHALL");
    held_tear_down();
}

TEST(N13_a_replica_without_its_master_is_unavailable_until_it_is_its_own)
{
    if (!set_up("replica-serve-stale-data no", "20000"))
        return;
    CHECK_STR(redis_server_call(&s.server, "REPLICAOF 127.0.0.1 1"), "OK");
    AWAIT(is_said("MASTERDOWN") || is_said("READONLY") || is_said("aster"));
    dlock_error *err = NULL;
    int64_t began = awake_now_ns();
    CHECK_EQ_INT(try_once(&err), DLOCK_EUNAVAIL);
    CHECK(held_in_time("it", began, 300));
    harness_note("%s [%s]", dlock_error_text(err), dlock_error_backend(err));
    dlock_error_free(err);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK); /* its lease goes on */
    CHECK_STR(redis_server_call(&s.server, "REPLICAOF NO ONE"), "OK");
    AWAIT(try_once(NULL) == DLOCK_OK);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    held_tear_down();
}

/* ---- N16: rights ---- */

/* Another connection than that of the user whose rights are changed. */
static bool become_admin(void)
{
    redis_server_call(&s.server, "ACL SETUSER admin on nopass ~* &* +@all");
    return harness_str(__FILE__, __LINE__, "AUTH",
                       redis_server_call(&s.server, "AUTH admin x"), "OK");
}

static bool is_secret(const dlock_error *err)
{
    return !strstr(dlock_error_text(err), "c4nary") &&
           !strstr(dlock_error_backend(err), "c4nary");
}

TEST(N16_a_right_taken_away_is_told_at_once_and_not_stormed_against)
{
    if (!set_up(NULL, "1000") || !become_admin())
        return;
    dlock_error *err = NULL;
    CHECK_STR(redis_server_call(&s.server, "ACL SETUSER default -hset"), "OK");
    int64_t began = awake_now_ns();
    CHECK_EQ_INT(try_once(&err), DLOCK_EACCES);
    CHECK(held_in_time("it", began, 0));
    CHECK(!dlock_error_retriable(err));
    CHECK_CONTAINS(dlock_error_text(err), "other");
    dlock_lock *other = stage_lock(client, "other");
    dlock_hold *none = NULL;
    began = awake_now_ns();
    CHECK_ERR(dlock_lock_acquire(other, DLOCK_FOREVER, &none, &err), DLOCK_EACCES, err);
    CHECK(held_in_time("it", began, 0)); /* waiting won't mend it */
    int64_t requests = proxy_get_stats(s.way).requests;
    nap_ms(500);
    CHECK(proxy_get_stats(s.way).requests - requests < 50);
    CHECK_STR(redis_server_call(&s.server, "EXISTS other"), "0");
    CHECK_STR(redis_server_call(&s.server, "ACL SETUSER default +hset"), "OK");
    CHECK_EQ_INT(try_once(NULL), DLOCK_OK);
    dlock_error_free(err);
    dlock_lock_free(other);
    (void)dlock_hold_release(hold, NULL); /* its renewals may have been refused */
    held_tear_down();
}

TEST(N16_when_scripts_are_forbidden_a_hold_ends_with_its_lease)
{
    if (!set_up(NULL, "1000") || !become_admin())
        return;
    CHECK_STR(redis_server_call(&s.server, "ACL SETUSER default -evalsha -eval"), "OK");
    int64_t requests = proxy_get_stats(s.way).requests;
    AWAIT_MS(dlock_hold_check(hold) == DLOCK_ELOST, ttl_ms + stage_slack_ms());
    requests = proxy_get_stats(s.way).requests - requests;
    harness_note("%" PRId64 " requests", requests);
    CHECK(requests < 100);
    CHECK_EQ_INT(try_once(NULL), DLOCK_EACCES);
    CHECK_STR(redis_server_call(&s.server, "ACL SETUSER default +evalsha +eval"), "OK");
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(try_once(NULL), DLOCK_OK);
    held_tear_down();
}

TEST(N16_a_password_changed_under_a_client_is_told_and_no_secret_with_it)
{
    char uri[96];
    if (!stage_set(&s, NULL) || !stage_put_proxy(&s) || !become_admin())
        return;
    redis_server_call(&s.server, "ACL SETUSER default resetpass >c4nary-old");
    snprintf(uri, sizeof(uri), "redis://:c4nary-old@127.0.0.1:%d", proxy_port(s.way));
    client = held_open(uri, "1000", "20", "100");
    ttl_ms = 1000;
    lock = client ? stage_lock(client, "L") : NULL;
    hold = lock ? stage_take(lock) : NULL;
    CHECK(hold != NULL);
    redis_server_call(&s.server, "ACL SETUSER default resetpass >c4nary-new");
    int64_t accepted = proxy_get_stats(s.way).accepted;
    proxy_reset(s.way);
    dlock_error *err = NULL;
    AWAIT(api_stat(client, "connected") == 0);
    AWAIT(proxy_get_stats(s.way).accepted > accepted + 1);
    dlock_err code = try_once(&err);
    harness_note("%s: %s [%s]", dlock_errname(code), dlock_error_text(err),
                 dlock_error_backend(err));
    CHECK(code == DLOCK_EACCES || code == DLOCK_EUNAVAIL);
    CHECK(is_secret(err));
    nap_ms(500);
    CHECK(proxy_get_stats(s.way).accepted - accepted < 100); /* backs off */
    AWAIT_MS(dlock_hold_check(hold) == DLOCK_ELOST, ttl_ms + stage_slack_ms());
    redis_server_call(&s.server, "ACL SETUSER default resetpass >c4nary-old");
    AWAIT(try_once(NULL) == DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    dlock_error_free(err);
    redis_server_call(&s.server, "ACL SETUSER default nopass");
    held_tear_down();
}
