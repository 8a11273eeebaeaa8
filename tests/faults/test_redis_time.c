/* Time runs out because the server, or the way to it, stands still: the lock is LOST here before
 * anybody else can have it, every call ends by its deadline, and afterwards all goes on. */
#include "resource.h"
#include "seeker.h"
#include "stage.h"

#include <inttypes.h>
#include <stdio.h>

static const int64_t ttl_ms = 600;
static stage s;

/* The holder's way leads through the proxy, the rival's doesn't. */
static dlock_client *holder, *rival;
static dlock_lock *held, *wanted;
static dlock_hold *hold;
static resource *shelf;
static stay *at;

static dlock_client *open_one(const char *uri)
{
    return stage_open(uri, "lock.ttl_ms", "600", "client.timeout_ms", "300",
                      "client.connect_ms", "1000", "client.poll_ms", "200",
                      "client.backoff_min_ms", "5", "client.backoff_max_ms", "50",
                      "client.close_ms", "200", NULL);
}

static bool set_up(void)
{
    if (!stage_set(&s, NULL) || !stage_put_proxy(&s))
        return false;
    shelf = resource_new();
    holder = open_one(s.proxied);
    rival = open_one(s.uri);
    if (!holder || !rival)
        return false;
    held = stage_lock(holder, "L");
    wanted = stage_lock(rival, "L");
    hold = stage_take(held);
    if (!hold)
        return false;
    at = resource_enter(shelf, hold);
    return true;
}

static bool tear_down(void)
{
    dlock_hold_free(hold);
    dlock_lock_free(held);
    dlock_lock_free(wanted);
    dlock_client_free(holder);
    dlock_client_free(rival);
    resource_free(shelf);
    hold = NULL;
    return stage_clear(&s, ttl_ms);
}

/* Holds on until the library says that it is over. */
static bool hold_until_lost(int64_t limit_ms)
{
    int64_t end = awake_now_ns() + limit_ms * STAGE_MS;
    while (resource_still(at, hold) == DLOCK_OK && awake_now_ns() < end)
        nap_ms(1);
    return harness_err(__FILE__, __LINE__, "the hold", resource_still(at, hold),
                       DLOCK_ELOST, NULL);
}

/* Keeps it so long, and keeps it. */
static bool hold_on(int64_t ms)
{
    int64_t end = now_ns() + ms * STAGE_MS;
    while (resource_still(at, hold) == DLOCK_OK && now_ns() < end)
        nap_ms(1);
    return harness_err(__FILE__, __LINE__, "the hold", resource_still(at, hold), DLOCK_OK,
                       NULL);
}

static bool in_time(const char *what, int64_t began, int64_t limit_ms)
{
    int64_t took = (awake_now_ns() - began) / STAGE_MS;
    if (took > limit_ms + stage_slack_ms())
        harness_note("%s took %" PRId64 " ms of %" PRId64, what, took, limit_ms);
    return harness_check(__FILE__, __LINE__, took <= limit_ms + stage_slack_ms(), what);
}

/* What a client without an answer can be asked, and how soon it has to say something. */
static void check_calls_end(dlock_client *client)
{
    dlock_lock *other = stage_lock(client, "other");
    dlock_hold *none = NULL;
    int64_t began = awake_now_ns();
    dlock_err code = dlock_lock_acquire(other, 0, &none, NULL);
    CHECK(code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN);
    CHECK(in_time("a single try", began, 300));
    began = awake_now_ns();
    code = dlock_lock_acquire(other, 150, &none, NULL);
    CHECK(code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN);
    CHECK(in_time("a wait of 150 ms", began, 150));
    dlock_op *op = dlock_lock_acquire_start(other, DLOCK_FOREVER);
    CHECK_EQ_INT(dlock_op_wait(op, 20), DLOCK_EPENDING);
    began = awake_now_ns();
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_op_wait(op, patience_ms()), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECANCELED);
    CHECK(in_time("cancelling", began, 0));
    dlock_op_free(op);
    dlock_info *info = NULL;
    began = awake_now_ns();
    code = dlock_lock_inspect(other, &info, NULL);
    CHECK(code == DLOCK_EUNAVAIL || code == DLOCK_EUNKNOWN);
    CHECK(in_time("a question", began, 300));
    dlock_lock_free(other);
}

/* The hold is lost: what that means for who had it. */
static void check_lost_hold(void)
{
    int64_t began = awake_now_ns();
    dlock_hold *none = NULL;
    CHECK_EQ_INT(dlock_hold_remaining_ms(hold), 0);
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_LOST);
    CHECK_EQ_INT(dlock_lock_acquire(held, 1000, &none, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ENOTHELD);
    CHECK(in_time("what needs no server", began, 0));
}

static void check_verdict(void)
{
    verdict v = resource_judge(shelf, RESOURCE_STATE_KEPT);
    CHECK_EQ_INT(v.overlaps, 0);
    CHECK_EQ_INT(v.old_tokens, 0);
    CHECK_EQ_INT(v.lost_updates, 0);
}

/* The rival had the lock; now the old holder wants it again. */
static void check_goes_on(void)
{
    CHECK_EQ_INT(resource_write(shelf, dlock_hold_token(hold), 0), false);
    dlock_hold_free(hold);
    hold = stage_take(held);
    CHECK(hold != NULL);
    at = resource_enter(shelf, hold);
    CHECK_EQ_INT(resource_still(at, hold), DLOCK_OK);
    resource_leave(at);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    check_verdict();
}

TEST(a_server_frozen_for_twice_the_ttl)
{
    if (!set_up())
        return;
    seeker patient = {.lock = wanted, .resource = shelf, .wait_ms = patience_ms()};
    dlock_lock *same = stage_lock(rival, "L2");
    seeker hasty = {.lock = same, .wait_ms = ttl_ms / 2};
    CHECK(seeker_start(&patient));
    CHECK(hold_on(50)); /* by now the patient one waits at the server */
    server_freeze(s.server.pid);
    int64_t frozen = now_ns();
    CHECK(seeker_start(&hasty));
    CHECK(hold_until_lost(ttl_ms + stage_slack_ms()));
    check_lost_hold();
    check_calls_end(holder);
    seeker_join(&hasty);
    CHECK(hasty.code == DLOCK_EUNKNOWN || hasty.code == DLOCK_EUNAVAIL);
    CHECK((hasty.ended - hasty.began) / STAGE_MS <= ttl_ms / 2 + stage_slack_ms());
    while (now_ns() < frozen + 2 * ttl_ms * STAGE_MS)
        nap_ms(10);
    CHECK(!atomic_load(&patient.over));
    server_thaw(s.server.pid);
    seeker_join(&patient);
    CHECK_EQ_INT(patient.code, DLOCK_OK);
    CHECK(patient.admitted);
    check_goes_on();
    dlock_lock_free(same);
    CHECK(!harness_failed() && tear_down());
}

TEST(a_server_frozen_for_a_fifth_of_the_ttl_costs_nothing)
{
    if (!set_up())
        return;
    seeker patient = {.lock = wanted, .resource = shelf, .wait_ms = patience_ms()};
    CHECK(seeker_start(&patient));
    for (int i = 0; i < 4; i++) {
        server_freeze(s.server.pid);
        nap_ms(ttl_ms / 5);
        server_thaw(s.server.pid);
        CHECK(hold_on(ttl_ms / 2));
    }
    CHECK(!atomic_load(&patient.over));
    resource_leave(at);
    CHECK_OK(dlock_hold_release(hold, NULL), NULL);
    seeker_join(&patient);
    CHECK_EQ_INT(patient.code, DLOCK_OK);
    check_verdict();
    CHECK(!harness_failed() && tear_down());
}

/* The holder's connections, old and new, are useless in some way for twice the ttl. */
static void check_way_lost(proxy_way hole)
{
    if (!set_up())
        return;
    seeker patient = {.lock = wanted, .resource = shelf, .wait_ms = patience_ms()};
    CHECK(seeker_start(&patient));
    CHECK(hold_on(ttl_ms)); /* renewed once or twice */
    proxy_hole(s.way, hole);
    int64_t lost_way = now_ns();
    CHECK(hold_until_lost(ttl_ms + stage_slack_ms()));
    check_lost_hold();
    check_calls_end(holder);
    if (harness_failed())
        return;
    AWAIT(atomic_load(&patient.over));
    CHECK_EQ_INT(patient.code, DLOCK_OK);
    CHECK(patient.admitted);
    seeker_join(&patient);
    while (now_ns() < lost_way + 2 * ttl_ms * STAGE_MS)
        nap_ms(10);
    proxy_pass(s.way);
    check_goes_on();
    CHECK(!harness_failed() && tear_down());
}

TEST(connections_that_swallow_everything)
{
    check_way_lost(PROXY_BOTH);
}

TEST(connections_that_bring_no_answers)
{
    check_way_lost(PROXY_DOWN);
}

TEST(a_renewal_answered_late_counts_from_when_it_was_asked_for)
{
    if (!set_up())
        return;
    seeker patient = {.lock = wanted, .resource = shelf, .wait_ms = patience_ms()};
    CHECK(seeker_start(&patient));
    CHECK(hold_on(50)); /* by now the patient one waits at the server */
    proxy_late(s.way);
    int scripts = stage_scripts(&s);
    AWAIT_MS(stage_scripts(&s) > scripts, ttl_ms);
    CHECK(hold_on(ttl_ms / 4)); /* the server has renewed it long since */
    proxy_pass(s.way);
    AWAIT_MS(api_stat(holder, "renewals") > 0, ttl_ms);
    proxy_hole(s.way, PROXY_BOTH);
    CHECK(hold_until_lost(ttl_ms + stage_slack_ms()));
    seeker_join(&patient);
    CHECK_EQ_INT(patient.code, DLOCK_OK);
    CHECK(patient.admitted);
    proxy_pass(s.way);
    CHECK_EQ_INT(dlock_hold_release(hold, NULL), DLOCK_ELOST);
    check_goes_on();
    CHECK(!harness_failed() && tear_down());
}

TEST(connections_cut_every_few_ms_keep_the_lock_or_lose_it_first)
{
    if (!set_up())
        return;
    seeker patient = {.lock = wanted, .resource = shelf, .wait_ms = patience_ms()};
    CHECK(seeker_start(&patient));
    int64_t began = awake_now_ns();
    while (awake_now_ns() < began + 2 * ttl_ms * STAGE_MS) {
        proxy_reset(s.way);
        (void)resource_still(at, hold); /* the judge is told */
        nap_ms(20);
    }
    harness_note("after %d connections: %s, %" PRId64 " renewals",
                 (int)proxy_get_stats(s.way).accepted,
                 dlock_errname(resource_still(at, hold)), api_stat(holder, "renewals"));
    resource_leave(at);
    dlock_err code = dlock_hold_release(hold, NULL);
    CHECK(code == DLOCK_OK || code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL ||
          code == DLOCK_ELOST);
    seeker_join(&patient);
    CHECK_EQ_INT(patient.code, DLOCK_OK);
    check_verdict();
    CHECK(!harness_failed() && tear_down());
}

TEST(closing_a_client_whose_server_is_gone_ends_in_time)
{
    if (!set_up())
        return;
    server_freeze(s.server.pid);
    int64_t began = awake_now_ns();
    CHECK_EQ_INT(dlock_client_close(holder, NULL), DLOCK_EUNKNOWN);
    CHECK(in_time("closing", began, 200)); /* client.close_ms */
    CHECK_EQ_INT(dlock_hold_state(hold), DLOCK_RELEASED);
    resource_leave(at);
    server_thaw(s.server.pid);
    CHECK(!harness_failed() && tear_down());
}
