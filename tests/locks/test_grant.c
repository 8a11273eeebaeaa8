/* Every branch of a lease's sums and of a grant's life that the tests of whole lives pass by. */
#include "harness/harness.h"
#include "locks/lease.h"
#include "world.h"

#include "util/kind.h"

static dlk_wait a, b, release;

static bool hold_with(dlk_terms terms)
{
    world_acquire_terms(&a, 1, 0, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    return a.over && a.code == DLOCK_OK;
}

static bool hold(void)
{
    return hold_with(world_terms());
}

static dlk_terms brief(int64_t ttl_ms)
{
    dlk_terms terms = world_terms();
    terms.ttl_ms = ttl_ms;
    return terms;
}

static void end(void)
{
    world_end((dlk_wait *[]){&a, &b, &release, NULL});
}

/* ---- sums ---- */

TEST(a_lease_shorter_than_its_margin_is_never_valid)
{
    dlk_lease lease = {0};
    dlk_lease_start(&lease, 5 * MS, 2, (dlk_margin){1, 2}, DLK_NEVER);
    CHECK_EQ_INT(lease.ends_at, 5 * MS);
    CHECK(dlk_lease_over(&lease, 5 * MS));
    CHECK(!dlk_lease_over(&lease, 5 * MS - 1));
    dlk_lease_start(&lease, 5 * MS, 3, (dlk_margin){1, 2}, DLK_NEVER);
    CHECK_EQ_INT(lease.ends_at, 6 * MS); /* the first that is */
}

TEST(a_limit_ends_a_lease_and_no_renewal_passes_it)
{
    dlk_lease lease = {0};
    dlk_lease_start(&lease, 0, 1000, (dlk_margin){0, 0}, 1500 * MS);
    CHECK_EQ_INT(lease.ends_at, 1000 * MS);
    dlk_lease_renew(&lease, 800 * MS, 1000, (dlk_margin){0, 0});
    CHECK_EQ_INT(lease.ends_at, 1500 * MS);
    dlk_lease_start(&lease, 0, 1000, (dlk_margin){0, 0}, 300 * MS);
    CHECK_EQ_INT(lease.ends_at, 300 * MS);
}

TEST(a_renewal_never_shortens_a_lease)
{
    dlk_lease lease = {0};
    dlk_lease_start(&lease, 100 * MS, 1000, (dlk_margin){0, 0}, DLK_NEVER);
    dlk_lease_renew(&lease, 50 * MS, 500,
                    (dlk_margin){0, 0}); /* an answer out of order */
    CHECK_EQ_INT(lease.ends_at, 1100 * MS);
    CHECK_EQ_INT(lease.suspect_at, 600 * MS);
}

TEST(a_lease_is_forgotten_when_the_last_request_for_it_would_be)
{
    dlk_lease lease = {0};
    dlk_lease_asked(&lease, 100 * MS, 1000, 300);
    CHECK_EQ_INT(lease.forgotten_at, 1400 * MS);
    dlk_lease_asked(&lease, 200 * MS, 100, 300); /* asks for less */
    CHECK_EQ_INT(lease.forgotten_at, 1400 * MS);
}

/* ---- whatever a service says ---- */

static const int64_t spans[] = {INT64_MIN,     -2,       -1, 0, 1, DLK_NEVER,
                                INT64_MAX - 1, INT64_MAX};

/* The sums of locks/ trap in this program where they overflow. */
TEST(a_rest_of_any_length_is_waited_for_and_the_lock_asked_for_again_by_the_poll)
{
    for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++) {
        world_open();
        world_acquire(&a, 1, 3600000);
        world_held(spans[i]);
        CHECK(world_asked(DLK_ACQUIRE) == NULL);
        world_move(w.core.limits.poll_ms * 5 / 4 + 1);
        CHECK(world_asked(DLK_ACQUIRE) != NULL);
        world_answer(DLK_ACQUIRE, DLK_YES);
        CHECK(a.over && a.code == DLOCK_OK);
        end();
    }
}

TEST(a_renewal_that_grants_a_lease_of_any_length_ends_in_a_held_or_a_lost_lock)
{
    for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++) {
        world_open();
        CHECK(hold());
        world_move(world_terms().ttl_ms / 2);
        dlk_ask *ask = world_asked(DLK_RENEW);
        CHECK(ask != NULL);
        ask->ttl_ms = spans[i];
        world_answer(DLK_RENEW, DLK_YES);
        CHECK(dlk_lease_end(&a.hold->grant->lease) <= DLK_NEVER);
        world_move(1);
        end();
    }
}

TEST(a_grant_that_comes_without_a_token_has_none)
{
    world_open();
    w.tokenless = true;
    CHECK(hold());
    CHECK_EQ_INT(a.hold->token, 0);
    end();
}

TEST(who_waits_at_a_condition_wakes_up_when_what_was_granted_is_over_already)
{
    dlk_terms terms = world_terms();
    world_open();
    w.name->key.kind = DLK_KIND_CONDITION;
    terms.ttl_ms = 1000;
    world_acquire_terms(&a, 1, 60000, terms);
    world_move(2000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.over);
    CHECK_EQ_INT(a.code, DLOCK_ELOST);
    CHECK_EQ_INT(w.core.stats.spurious_wakes, 1);
    end();
}

/* ---- when what is due ---- */

TEST(a_renewed_lease_is_in_doubt_when_half_of_it_is_over_and_not_before)
{
    world_open();
    CHECK(hold());
    world_move(3700);
    CHECK(world_asked(DLK_RENEW) != NULL);
    int64_t since = world_asked(DLK_RENEW)->since;
    world_answer(DLK_RENEW, DLK_YES);
    world_move((since - w.now) / MS + 4999); /* the next one gets no answer */
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_HELD);
    world_move(1);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_SUSPECT);
    end();
}

TEST(a_grant_whose_limit_comes_before_half_its_lease_is_lost_there_without_suspicion)
{
    dlk_terms terms = world_terms();
    world_open();
    terms.max_hold_ms = 2000;
    CHECK(hold_with(terms));
    CHECK_EQ_INT(dlk_core_next(&w.core), a.grant->lease.ends_at);
    world_move(2000);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    CHECK_EQ_INT(w.states[DLOCK_SUSPECT], 0);
    CHECK_EQ_INT(w.renewals, 0);
    end();
}

TEST(a_renewal_that_would_come_after_the_end_is_not_waited_for)
{
    world_open();
    CHECK(hold());
    world_move(3700);
    /* So many failures that the next try would be seconds later than the end. */
    a.grant->retries = 20;
    w.core.limits.backoff_max_ms = 100000;
    world_answer(DLK_RENEW, DLK_UNKNOWN);
    CHECK(a.grant->due_at > a.grant->lease.ends_at);
    world_move(6400);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    end();
}

TEST(a_renewal_is_given_up_early_enough_for_another_but_not_at_once)
{
    world_open();
    CHECK(hold_with(brief(10000)));
    world_move(3700);
    dlk_ask *asked = world_asked(DLK_RENEW);
    CHECK(asked != NULL);
    CHECK_EQ_INT(asked->deadline - asked->since, 3000 * MS);
    end();

    world_open();
    CHECK(hold_with(brief(3000)));
    world_move(1200);
    asked = world_asked(DLK_RENEW);
    CHECK(asked != NULL);
    CHECK(asked->deadline - asked->since < 1500 * MS);
    end();

    world_open();
    CHECK(hold_with(brief(120)));
    world_move(50);
    asked = world_asked(DLK_RENEW);
    CHECK(asked != NULL);
    CHECK_EQ_INT(asked->deadline - asked->since, 50 * MS);
    end();
}

/* ---- answers to renewals ---- */

TEST(a_renewal_that_took_half_a_lease_leaves_the_grant_suspect)
{
    world_open();
    CHECK(hold());
    world_move(3700);
    world_move(
        5000); /* asked for at a third, answered at 8.7 s: half of it is over again */
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_SUSPECT);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_SUSPECT);
    CHECK_EQ_INT(w.states[DLOCK_HELD], 0);
    /* The next one is due at once, and in time. */
    world_move(0);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_HELD);
    end();
}

/* A time-out and a lease after the last request for it. */
TEST(a_renewal_says_how_long_the_lease_can_be_and_brings_along_what_was_longer)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(4000);
    dlk_ask *renewal = world_asked(DLK_RENEW);
    CHECK(renewal != NULL);
    CHECK_EQ_INT(renewal->most_ms, 10000 + 3000);
    CHECK_EQ_INT(renewal->overlong, 0);
    renewal->overlong = 4711;
    world_answer(DLK_RENEW, DLK_YES);
    world_move(4000);
    renewal = world_asked(DLK_RENEW);
    CHECK(renewal != NULL);
    CHECK_EQ_INT(renewal->overlong, 4711);
    world_answer(DLK_RENEW, DLK_UNKNOWN); /* it may have been cut: the server will say */
    world_move(200);
    renewal = world_asked(DLK_RENEW);
    CHECK(renewal != NULL);
    CHECK_EQ_INT(renewal->overlong, 4711);
    renewal->overlong = 0;
    world_answer(DLK_RENEW, DLK_YES);
    world_move(4000);
    CHECK(world_asked(DLK_RENEW) != NULL);
    CHECK_EQ_INT(world_asked(DLK_RENEW)->overlong, 0);
    end();
}

TEST(a_renewal_that_no_answer_vouches_for_lengthens_nothing)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    int64_t ends_at = a.grant->lease.ends_at;
    world_move(4000);
    w.found = true;
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(a.grant->lease.ends_at, ends_at);
    end();
}

TEST(a_refused_renewal_is_logged_and_tried_again)
{
    world_open();
    CHECK(hold());
    world_move(3700);
    world_refuse(DLK_RENEW, DLOCK_EACCES);
    CHECK_EQ_INT(w.logged, 1);
    CHECK_EQ_INT(w.core.stats.renewals_failed, 1);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_HELD);
    world_move(200);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(w.core.stats.renewals, 1);
    end();
}

TEST(a_renewal_that_succeeds_makes_the_next_failure_a_first_one)
{
    world_open();
    CHECK(hold_with(brief(60000)));
    world_move(22000);
    for (int i = 0; i < 5; i++) { /* 50, 100, 200, 400, 800 ms, give or take a third */
        world_answer(DLK_RENEW, DLK_UNKNOWN);
        world_move(1100);
    }
    world_answer(DLK_RENEW, DLK_YES);
    world_move(22000);
    world_answer(DLK_RENEW, DLK_UNKNOWN);
    CHECK(a.grant->due_at - w.now < 2 * w.core.limits.backoff_min_ms * MS);
    end();
}

TEST(a_grant_that_was_tried_for_often_makes_the_next_failure_a_first_one)
{
    world_open();
    world_acquire(&a, 1, 60000);
    for (int i = 0; i < 6; i++) {
        world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
        world_move(3000);
    }
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.over && a.code == DLOCK_OK);
    world_move(3700);
    world_answer(DLK_RENEW, DLK_UNKNOWN);
    CHECK(dlk_core_next(&w.core) - w.now <= 50 * MS * 4 / 3);
    end();
}

TEST(a_renewal_may_be_answered_in_the_call_that_asks)
{
    world_open();
    w.at_once = true;
    world_acquire(&a, 1, 0);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    world_move(3700);
    CHECK_EQ_INT(w.core.stats.renewals, 1);
    CHECK(a.grant->lease.ends_at > w.now + 9000 * MS);
    end();
}

TEST(a_grant_that_was_released_while_it_was_renewed_goes_with_the_last_answer)
{
    world_open();
    CHECK(hold());
    world_move(3700);
    CHECK(world_asked(DLK_RENEW) != NULL);
    world_release(&release, a.hold);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    CHECK(w.name->grants.first);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(!w.name->grants.first);
    CHECK_EQ_INT(w.core.stats.renewals, 0);
    end();
}

TEST(a_lost_grant_that_may_still_be_asked_for_is_given_back_too)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_cut(); /* this request may arrive yet */
    world_back();
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    world_move(3700);
    world_answer(DLK_RENEW, DLK_NOT_OURS);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    CHECK_EQ_INT(w.releases, 1);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    CHECK(world_asked(DLK_RELEASE) == NULL);
    world_move(1100); /* and once more, when it has surely arrived */
    CHECK(world_asked(DLK_RELEASE) != NULL);
    end();
}

/* ---- feeding ---- */

static dlk_terms fed(void)
{
    dlk_terms terms = world_terms();
    terms.renewal = DLK_RENEW_FED;
    return terms;
}

TEST(feeding_what_is_lost_changes_nothing)
{
    world_open();
    CHECK(hold_with(fed()));
    w.now += 10000 * MS; /* nobody ticked: stopped, or suspended */
    dlk_grant_feed(&w.core, a.grant, w.now);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    CHECK_EQ_INT(w.renewals, 0);
    end();
}

TEST(feeding_without_a_link_renews_when_it_is_back)
{
    world_open();
    CHECK(hold_with(fed()));
    world_move(3700);
    world_cut();
    dlk_grant_feed(&w.core, a.grant, w.now);
    CHECK_EQ_INT(w.renewals, 0);
    world_back();
    CHECK_EQ_INT(w.renewals, 1);
    end();
}

/* What was fed for is done at last, however the request for it ends, and only that. */
TEST(a_fed_renewal_that_fails_is_tried_again_without_being_fed_again)
{
    for (int refused = 0; refused < 2; refused++) {
        world_open();
        CHECK(hold_with(fed()));
        dlk_grant_feed(&w.core, a.grant, w.now);
        world_move(3700);
        CHECK_EQ_INT(w.renewals, 1);
        if (refused)
            world_refuse(DLK_RENEW, DLOCK_EUNAVAIL);
        else
            world_answer(DLK_RENEW, DLK_UNKNOWN);
        world_move(100);
        CHECK_EQ_INT(w.renewals, 2);
        world_answer(DLK_RENEW, DLK_YES);
        world_move(5500);
        CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_SUSPECT);
        CHECK_EQ_INT(w.renewals, 2);
        end();
    }
}

/* ---- the link comes back ---- */

TEST(a_link_that_comes_back_finds_nothing_due_in_a_young_grant)
{
    world_open();
    CHECK(hold());
    world_move(1000);
    world_cut();
    world_back();
    CHECK_EQ_INT(w.renewals, 0);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_HELD);
    end();
}

TEST(a_link_that_comes_back_neither_renews_nor_suspects_what_is_not_renewed)
{
    dlk_terms terms = world_terms();
    world_open();
    terms.renewal = DLK_RENEW_OFF;
    CHECK(hold_with(terms));
    world_move(7000);
    world_cut();
    world_back();
    CHECK_EQ_INT(w.renewals, 0);
    CHECK_EQ_INT(w.states[DLOCK_SUSPECT], 0);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_HELD);
    end();
}
