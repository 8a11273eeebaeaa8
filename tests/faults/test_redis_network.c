/* The ways in which a network and its limits fail (reliability.md N1-N6 and N23), before a real
 * server: every call ends by its deadline, the lock is kept where that is possible and LOST in time
 * where it isn't, and all goes on when the network does. */
#include "held.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TIMEOUT_MS = 300, CONNECT_MS = 500 };

/* A hold behind the proxy. */
static bool set_up(const char *ttl)
{
    return held_set_up(NULL, ttl, "5", "50");
}

/* A lease that the machine can keep while connections fail: only a fault that lasts takes it. */
static bool set_up_to_keep(void)
{
    return set_up(getenv("DLK_TEST_SLOW") ? "8000" : "3000");
}

static bool is_unanswered(dlock_err code)
{
    return code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN;
}

static void check_calls_end(void)
{
    dlock_lock *other = stage_lock(client, "other");
    dlock_hold *none = NULL;
    dlock_info *info = NULL;
    int64_t began = awake_now_ns();
    CHECK(is_unanswered(dlock_lock_acquire(other, 0, &none, NULL)));
    CHECK(held_in_time("a single try", began, TIMEOUT_MS));
    began = awake_now_ns();
    CHECK(is_unanswered(dlock_lock_acquire(other, 150, &none, NULL)));
    CHECK(held_in_time("a wait of 150 ms", began, 150));
    began = awake_now_ns();
    CHECK(is_unanswered(dlock_lock_inspect(other, &info, NULL)));
    CHECK(held_in_time("a question", began, TIMEOUT_MS));
    dlock_op *op = dlock_lock_acquire_start(other, DLOCK_FOREVER);
    began = awake_now_ns();
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
    CHECK(held_in_time("cancelling", began, 0));
    dlock_op_free(op);
    dlock_lock_free(other);
}

static void check_open_fails_in_time(void)
{
    dlock_client *another = NULL;
    dlock_error *err = NULL;
    dlock_conf *conf = dlock_conf_new();
    CHECK_OK(dlock_conf_set_int(conf, "client.connect_ms", CONNECT_MS, &err), err);
    CHECK_OK(dlock_conf_set(conf, "client.log_level", "off", &err), err);
    int64_t began = awake_now_ns();
    CHECK_ERR(dlock_client_open(s.proxied, conf, &another, &err), DLOCK_EUNAVAIL, err);
    CHECK(held_in_time("opening", began, CONNECT_MS));
    harness_note("%s", dlock_error_text(err));
    CHECK(dlock_error_retriable(err));
    dlock_error_free(err);
    dlock_conf_free(conf);
}

/* Renewals don't arrive any more, or their answers don't. */
static void check_lost_and_back(void)
{
    check_calls_end();
    AWAIT_MS(dlock_hold_check(hold) == DLOCK_ELOST, ttl_ms + stage_slack_ms());
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    dlock_hold_free(hold);
    proxy_pass(s.way);
    hold = stage_take(lock);
    CHECK(hold != NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
}

/* Renewed once more, and ours. */
static void check_kept(void)
{
    int64_t renewals = api_stat(client, "renewals");
    AWAIT(api_stat(client, "renewals") >= renewals + 1 ||
          dlock_hold_check(hold) != DLOCK_OK);
    CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    CHECK_OK(dlock_hold_verify(hold, NULL), NULL);
    CHECK_EQ_INT(api_stat(client, "losses"), 0);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
}

TEST(N1_refused_connections_are_told_at_once_and_cost_no_more_than_the_lease)
{
    if (!set_up("1000"))
        return;
    proxy_refuse(s.way);
    proxy_reset(s.way);
    check_open_fails_in_time();
    if (!harness_failed())
        check_lost_and_back();
    if (!harness_failed())
        held_tear_down();
}

TEST(N1_refused_for_less_than_the_lease_the_lock_is_kept)
{
    if (!set_up_to_keep())
        return;
    proxy_refuse(s.way);
    proxy_reset(s.way);
    AWAIT(api_stat(client, "connected") == 0);
    nap_ms(ttl_ms / 5);
    proxy_pass(s.way);
    check_kept();
    if (!harness_failed())
        held_tear_down();
}

TEST(N2_a_reset_costs_a_connection_and_no_lock)
{
    if (!set_up_to_keep())
        return;
    for (int i = 1; i <= 5; i++) {
        proxy_reset(s.way);
        AWAIT(api_stat(client, "reconnects") >= i && api_stat(client, "connected"));
        CHECK_EQ_INT(dlock_hold_check(hold), DLOCK_OK);
    }
    check_kept();
    if (!harness_failed())
        held_tear_down();
}

/* Nobody says that the connections are dead: the silence has to be noticed. */
TEST(N3_half_open_connections_are_noticed_and_the_lock_is_kept)
{
    if (!set_up_to_keep())
        return;
    proxy_half_open(s.way);
    check_kept();
    if (harness_failed())
        return;
    CHECK(api_stat(client, "reconnects") > 0);
    held_tear_down();
}

TEST(N3_a_waiter_on_half_open_connections_gets_the_lock_all_the_same)
{
    if (!set_up_to_keep())
        return;
    dlock_client *direct = held_open(s.uri, "20000", "5", "50");
    CHECK(direct != NULL);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_hold_free(hold);
    dlock_lock *theirs = stage_lock(direct, "L");
    dlock_hold *held = stage_take(theirs);
    CHECK(held != NULL);
    dlock_op *op = dlock_lock_acquire_start(lock, patience_ms());
    AWAIT(proxy_requests(s.way, "SUBSCRIBE") > 0);
    proxy_half_open(s.way);
    CHECK_OK(dlock_hold_release(held, NULL), NULL);
    CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
    CHECK_ERR(dlock_op_result(op), DLOCK_OK, dlock_op_error(op));
    hold = dlock_op_take_hold(op);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    dlock_op_free(op);
    dlock_hold_free(held);
    dlock_lock_free(theirs);
    dlock_client_free(direct);
    held_tear_down();
}

TEST(N4_a_black_hole_ends_every_call_in_time)
{
    if (!set_up("1000"))
        return;
    proxy_hole(s.way, PROXY_BOTH);
    check_open_fails_in_time();
    if (!harness_failed())
        check_lost_and_back();
    if (!harness_failed())
        held_tear_down();
}

/* The kernel accepts, until its backlog is full and even SYNs are lost. */
TEST(N4_a_server_that_accepts_nobody_ends_every_call_in_time)
{
    if (!set_up("1000"))
        return;
    proxy_ignore(s.way);
    proxy_reset(s.way);
    for (int i = 0; i < 4 && !harness_failed(); i++)
        check_open_fails_in_time();
    if (!harness_failed())
        check_lost_and_back();
    if (!harness_failed())
        held_tear_down();
}

TEST(N5_slow_and_sliced_to_single_bytes_everything_works)
{
    enum { ROUNDS = 10 };
    if (!set_up_to_keep())
        return;
    proxy_slice(s.way, PROXY_BOTH, 1, 0);
    proxy_latency(s.way, PROXY_BOTH, 5, 4);
    proxy_reset(s.way); /* the greeting comes in slices, too */
    dlock_lock *other = stage_lock(client, "other");
    for (int i = 0; i < ROUNDS; i++) {
        dlock_hold *one = stage_take(other);
        CHECK(one != NULL);
        CHECK_OK(dlock_hold_verify(one, NULL), NULL);
        CHECK_OK(dlock_hold_release(one, NULL), NULL);
        dlock_hold_free(one);
    }
    dlock_lock_free(other);
    check_kept();
    if (!harness_failed())
        held_tear_down();
}

/* An answer that has begun is no answer: bytes that trickle in must not move the deadline. */
TEST(N5_an_answer_that_trickles_in_is_none_by_the_deadline)
{
    if (!set_up("1000"))
        return;
    proxy_slice(s.way, PROXY_DOWN, 1, 400000);
    check_lost_and_back();
    if (!harness_failed())
        held_tear_down();
}

TEST(N6_requests_that_do_not_arrive_while_answers_would)
{
    if (!set_up("1000"))
        return;
    proxy_hole(s.way, PROXY_UP);
    check_lost_and_back();
    if (!harness_failed())
        held_tear_down();
}

TEST(N6_answers_that_do_not_arrive_while_requests_do)
{
    if (!set_up("1000"))
        return;
    proxy_hole(s.way, PROXY_DOWN);
    check_lost_and_back();
    if (!harness_failed())
        held_tear_down();
}

/* The server says goodbye on one half of the connection, or sees the client say it. */
TEST(N6_half_closed_connections_are_replaced_and_the_lock_is_kept)
{
    if (!set_up_to_keep())
        return;
    proxy_half_close(s.way, PROXY_UP);
    AWAIT(api_stat(client, "reconnects") == 1 && api_stat(client, "connected"));
    proxy_half_close(s.way, PROXY_DOWN);
    AWAIT(api_stat(client, "reconnects") == 2 && api_stat(client, "connected"));
    check_kept();
    if (!harness_failed())
        held_tear_down();
}

/* ---- Limits ---- */

TEST(N23_with_the_servers_connections_used_up_holds_are_kept_and_newcomers_told)
{
    if (!set_up_to_keep())
        return;
    /* The test's own connection and the holder's. */
    CHECK_STR(redis_server_call(&s.server, "CONFIG SET maxclients 2"), "OK");
    dlock_client *another = NULL;
    dlock_error *err = NULL;
    dlock_conf *conf = dlock_conf_new();
    CHECK_OK(dlock_conf_set(conf, "client.log_level", "off", &err), err);
    CHECK_OK(dlock_conf_set_int(conf, "client.connect_ms", CONNECT_MS, &err), err);
    int64_t began = awake_now_ns();
    CHECK_ERR(dlock_client_open(s.uri, conf, &another, &err), DLOCK_EUNAVAIL, err);
    CHECK(held_in_time("opening", began, CONNECT_MS));
    CHECK_CONTAINS(dlock_error_text(err), "too many clients");
    check_kept();
    if (harness_failed())
        return;
    CHECK_STR(redis_server_call(&s.server, "CONFIG SET maxclients 100"), "OK");
    CHECK_OK(dlock_client_open(s.uri, conf, &another, &err), err);
    dlock_client_free(another);
    dlock_error_free(err);
    dlock_conf_free(conf);
    held_tear_down();
}

static struct rlimit descriptors; /* as they were */
static int fillers[1024], filler_count;

static void use_up_descriptors(void)
{
    int end = 0;
    for (int fd = 0; fd < 1024; fd++)
        end = fcntl(fd, F_GETFD) >= 0 ? fd + 1 : end;
    getrlimit(RLIMIT_NOFILE, &descriptors);
    struct rlimit few = descriptors;
    few.rlim_cur = (rlim_t)end;
    (void)harness_check(__FILE__, __LINE__, setrlimit(RLIMIT_NOFILE, &few) == 0,
                        "a limit of descriptors");
    filler_count = 0;
    while (filler_count < 1024 && (fillers[filler_count] = dup(0)) >= 0)
        filler_count++;
}

static void give_descriptors_back(void)
{
    while (filler_count > 0)
        close(fillers[--filler_count]);
    setrlimit(RLIMIT_NOFILE, &descriptors);
}

TEST(N23_without_descriptors_holds_are_kept_and_openings_say_what_is_missing)
{
    if (!set_up_to_keep())
        return;
    dlock_client *another = NULL;
    dlock_error *err = NULL;
    dlock_conf *conf = dlock_conf_new();
    CHECK_OK(dlock_conf_set(conf, "client.log_level", "off", &err), err);
    use_up_descriptors();
    int64_t began = awake_now_ns();
    dlock_err code = dlock_client_open(s.uri, conf, &another, &err);
    give_descriptors_back();
    CHECK(held_in_time("opening", began, CONNECT_MS));
    harness_note("%s: %s", dlock_errname(code), dlock_error_text(err));
    CHECK(code != DLOCK_OK && another == NULL);
    CHECK_CONTAINS(dlock_error_text(err), "descriptor");
    dlock_error_free(err);
    dlock_conf_free(conf);
    use_up_descriptors();
    check_kept(); /* what is open is enough for it */
    give_descriptors_back();
    if (!harness_failed())
        held_tear_down();
}
