/* Grants that outlive their holds: who gets them, with which token, and when they go back. */
#include "harness/harness.h"
#include "world.h"

#include "util/clock.h"

static dlk_wait a, b, c, d, release;

static dlk_terms keeping(void)
{
    dlk_terms terms = world_terms();
    terms.keep_ms = 5000;
    terms.keep_runs = 2;
    terms.keep_run_ms = 1000;
    return terms;
}

static void want(dlk_wait *wait, uint64_t thread)
{
    world_acquire_terms(wait, thread, 60000, keeping());
}

/* Thread 1 has had the lock, and it is kept. */
static void open_kept(int64_t block)
{
    world_open();
    w.name->key.passes = w.name->key.queues = true;
    w.block = block;
    want(&a, 1);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_release(&release, a.hold);
}

static void end(void)
{
    if (release.grant) /* it may not be confirmed */
        dlk_release_detach(&w.core, &release, DLOCK_ECANCELED, w.now);
    world_end((dlk_wait *[]){&a, &b, &c, &d, &release, NULL});
}

static bool has_it(const dlk_wait *wait)
{
    return wait->over && wait->code == DLOCK_OK &&
           dlk_grant_settle(&w.core, wait->grant, w.now);
}

/* Takes it without asking anybody, and lets go of it: with which token? 0: that didn't work. */
static int64_t pair(uint64_t thread)
{
    dlk_wait one = {0}, gone = {0};
    want(&one, thread);
    int64_t token = has_it(&one) ? one.hold->token : 0;
    if (token > 0)
        world_release(&gone, one.hold);
    else
        dlk_acquire_cancel(&w.core, &one, DLOCK_ECANCELED, w.now);
    world_forget(&one);
    world_forget(&gone);
    return token;
}

static void ask_for_it(const dlk_wait *holder)
{
    (void)dlk_core_mark_asked(&w.name->key, holder->grant->number);
    dlk_core_notified(&w.core, &w.name->key, w.now);
}

/* ---- Kept, and taken up ---- */

TEST(a_kept_grant_is_taken_up_by_any_owner_without_a_request)
{
    open_kept(100);
    CHECK(release.over && release.code == DLOCK_OK);
    CHECK_EQ_INT(w.releases, 0);
    CHECK_EQ_INT(w.attended, 1);
    int64_t first = a.hold->token, second = pair(2), third = pair(1);
    CHECK(first < second && second < third);
    CHECK_EQ_INT(w.acquires, 1);
    CHECK_EQ_INT(w.releases + w.renewals, 0);
    CHECK_EQ_INT(w.core.stats.local_grants, 2);
    CHECK_EQ_INT(a.hold->token, first); /* readable after the release */
    end();
}

TEST(without_the_setting_a_grant_goes_back_with_its_last_hold)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_release(&release, a.hold);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(who_waits_here_has_it_with_the_release)
{
    open_kept(100);
    want(&b, 2);
    want(&c, 3);
    CHECK(has_it(&b) && !c.over);
    world_forget(&release);
    world_release(&release, b.hold);
    CHECK(has_it(&c));
    CHECK_EQ_INT(w.acquires, 1);
    end();
}

TEST(what_else_its_new_owner_waits_for_are_holds_of_it_too)
{
    open_kept(100);
    want(&b, 2);
    want(&c, 3);
    want(&d, 3);
    world_forget(&release);
    world_release(&release, b.hold);
    CHECK(has_it(&c) && has_it(&d));
    CHECK_EQ_INT(d.hold->token, c.hold->token);
    end();
}

TEST(who_only_tries_takes_it_up_too)
{
    open_kept(100);
    world_acquire_terms(&b, 2, 0, keeping());
    CHECK(has_it(&b));
    world_acquire_terms(&c, 3, 0, keeping());
    CHECK(c.over && c.code == DLOCK_EBUSY);
    end();
}

/* A million of them a second, where nobody else wants it. */
TEST(local_grants_are_counted_for_as_long_as_one_lives)
{
    open_kept(100);
    a.grant->keep->run = INT32_MAX;
    CHECK(pair(2) > 0 && pair(3) > 0);
    ask_for_it(&a);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

/* ---- Tokens ---- */

TEST(a_block_that_is_used_up_costs_one_renewal)
{
    open_kept(2);
    int64_t second = pair(2);
    CHECK_EQ_INT(w.renewals, 0);
    want(&b, 3);
    CHECK(!b.over);
    CHECK_EQ_INT(w.renewals, 1);
    CHECK(dlk_number_keeps(world_asked(DLK_RENEW)->number));
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(has_it(&b));
    CHECK(b.hold->token > second);
    end();
}

TEST(the_server_says_that_it_isnt_ours_when_asked_for_more)
{
    open_kept(1);
    want(&b, 2);
    world_answer(DLK_RENEW, DLK_NOT_OURS);
    CHECK(!b.over);
    CHECK_EQ_INT(w.acquires, 2); /* it asks for itself */
    CHECK_EQ_INT(w.core.stats.losses[DLK_LOSS_EXPIRED], 0);
    CHECK_EQ_INT(w.core.stats.losses[DLK_LOSS_DENIED], 0);
    CHECK_EQ_INT(w.states[DLOCK_LOST], 0); /* nobody's loss */
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has_it(&b));
    end();
}

TEST(no_answer_to_that_gives_it_back)
{
    open_kept(1);
    want(&b, 2);
    world_answer(DLK_RENEW, DLK_UNKNOWN);
    CHECK_EQ_INT(w.releases, 1);
    CHECK(!b.over);
    end();
}

/* What was asked first may be answered last: a renewal and an extension, in a cluster. */
TEST(an_answer_with_older_tokens_brings_none)
{
    open_kept(4);
    int64_t last = pair(2);
    world_move(3700);
    w.last_token = 0;
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(pair(3) > last);
    end();
}

static bool renewal_refills(void)
{
    bool refills = world_asked(DLK_RENEW)->refills;
    world_answer(DLK_RENEW, DLK_YES);
    return refills;
}

TEST(one_that_rests_is_renewed_as_a_held_one_is)
{
    world_open();
    w.block = 4;
    dlk_terms terms = keeping();
    terms.keep_ms = 60000;
    world_acquire_terms(&a, 1, 60000, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_release(&release, a.hold);
    world_move(3700);
    CHECK(renewal_refills()); /* a token was used: the grant's own */
    world_move(3700);
    CHECK(!renewal_refills());
    int64_t first = pair(2);
    CHECK(first > 0 && pair(3) > first);
    world_move(3700);
    CHECK(renewal_refills());
    end();
}

/* ---- Asked for ---- */

TEST(an_idle_one_goes_back_as_soon_as_somebody_asks)
{
    open_kept(100);
    ask_for_it(&a);
    CHECK_EQ_INT(w.releases, 1);
    CHECK_EQ_INT(w.core.stats.kept_asked, 1);
    end();
}

TEST(one_in_use_goes_back_when_it_is_released)
{
    open_kept(100);
    want(&b, 2);
    ask_for_it(&b);
    CHECK_EQ_INT(w.releases, 0);
    world_forget(&release);
    world_release(&release, b.hold);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(while_ours_wait_too_a_run_of_them_comes_first_and_no_more)
{
    open_kept(100);
    want(&b, 2); /* the run: two */
    want(&c, 3);
    want(&d, 4);
    ask_for_it(&b);
    world_forget(&release);
    world_release(&release, b.hold);
    CHECK(has_it(&c));
    world_forget(&release);
    world_release(&release, c.hold);
    CHECK(!d.over);
    CHECK_EQ_INT(w.releases, 1);
    CHECK(world_asked(DLK_RELEASE)->next != 0); /* d goes along */
    CHECK_EQ_INT(w.core.stats.kept_run_over, 1);
    end();
}

TEST(or_as_much_of_it_as_there_is_time_for)
{
    open_kept(100);
    want(&b, 2);
    want(&c, 3);
    ask_for_it(&b);
    world_move(1001);
    world_forget(&release);
    world_release(&release, b.hold);
    CHECK(!c.over);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(who_asks_may_be_heard_before_the_answer_that_it_is_ours)
{
    world_open();
    w.block = 100;
    want(&a, 1);
    (void)dlk_core_mark_asked(&w.name->key, w.name->trying->number);
    dlk_core_notified(&w.core, &w.name->key, w.now);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_release(&release, a.hold);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(those_who_are_in_the_line_already_are_told_with_the_grant)
{
    world_open();
    w.block = 100;
    w.line = true;
    want(&a, 1);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_release(&release, a.hold);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(another_number_is_old_news)
{
    open_kept(100);
    CHECK(!dlk_core_mark_asked(&w.name->key, a.grant->number + 1));
    dlk_core_notified(&w.core, &w.name->key, w.now);
    CHECK_EQ_INT(w.releases, 0);
    end();
}

static void import(dlk_wait *wait, uint64_t thread)
{
    *wait = (dlk_wait){.name = w.name, .owner = thread, .terms = keeping()};
    dlk_import_start(&w.core, wait, "giver:1", dlk_clock_after(w.now, 60000), w.now);
    world_answer(DLK_IMPORT, DLK_YES);
}

/* Those who wait have asked whoever has given it away. */
TEST(one_that_was_imported_goes_back_with_its_last_hold)
{
    world_open();
    w.block = 100;
    import(&a, 1);
    CHECK(has_it(&a));
    world_release(&release, a.hold);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(nothing_is_kept_from_ones_own_place_in_the_line)
{
    world_open();
    w.name->key.queues = true;
    w.block = 100;
    want(&b, 2);
    world_held(5000);
    import(&a, 1);
    CHECK(has_it(&a));
    world_release(&release, a.hold);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

/* ---- How it ends ---- */

TEST(it_goes_back_when_the_time_from_its_first_release_is_over)
{
    open_kept(100);
    world_move(4000);
    if (world_asked(DLK_RENEW))
        world_answer(DLK_RENEW, DLK_YES);
    CHECK(pair(2) > 0);
    CHECK_EQ_INT(w.releases, 0);
    world_move(1000);
    CHECK_EQ_INT(w.releases, 1);
    CHECK_EQ_INT(w.core.stats.kept_idle, 1);
    end();
}

TEST(in_use_it_goes_back_at_the_first_release_after_that)
{
    open_kept(100);
    want(&b, 2);
    world_move(3700);
    world_answer(DLK_RENEW, DLK_YES);
    world_move(1300);
    CHECK_EQ_INT(w.releases, 0);
    CHECK(has_it(&b));
    world_forget(&release);
    world_release(&release, b.hold);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(who_had_it_last_may_have_wished_for_less)
{
    open_kept(100);
    dlk_terms terms = keeping();
    terms.keep_ms = 100;
    world_acquire_terms(&b, 2, 60000, terms);
    CHECK(has_it(&b));
    world_forget(&release);
    world_release(&release, b.hold);
    CHECK_EQ_INT(w.releases, 0);
    world_move(100);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(with_half_its_lease_left_it_goes_back_and_the_server_is_asked)
{
    world_open();
    w.block = 100;
    dlk_terms terms = keeping();
    terms.keep_ms = 60000;
    world_acquire_terms(&a, 1, 60000, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_release(&release, a.hold);
    world_move(4999); /* its renewal gets no answer */
    CHECK_EQ_INT(w.releases, 0);
    world_move(1);
    CHECK_EQ_INT(w.releases, 1);
    CHECK_EQ_INT(w.states[DLOCK_SUSPECT], 0);
    end();
}

TEST(another_wish_gives_it_back_and_asks_for_itself)
{
    open_kept(100);
    dlk_terms terms = keeping();
    terms.ttl_ms = 7000;
    world_acquire_terms(&b, 2, 60000, terms);
    CHECK(!b.over);
    CHECK_EQ_INT(w.releases, 1);
    CHECK(world_asked(DLK_RELEASE)->next != 0);
    end();
}

TEST(closing_the_client_gives_it_back)
{
    open_kept(100);
    dlk_core_close(&w.core, w.now);
    CHECK_EQ_INT(w.releases, 1);
    CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 1);
    end();
}

TEST(the_longest_hold_is_that_of_each_who_takes_it_up)
{
    world_open();
    w.block = 100;
    dlk_terms terms = keeping();
    terms.max_hold_ms = 3000;
    world_acquire_terms(&a, 1, 60000, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(2000);
    world_release(&release, a.hold);
    world_move(500);
    world_acquire_terms(&b, 2, 60000, terms);
    world_move(2900);
    CHECK(has_it(&b));
    world_move(100);
    CHECK(!has_it(&b));
    CHECK_EQ_INT(w.states[DLOCK_LOST], 1);
    end();
}

TEST(one_that_was_found_there_lasts_as_long_as_its_first_request_made_it)
{
    world_open();
    w.block = 100;
    want(&a, 1);
    world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
    world_move(200);
    w.found = true;
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has_it(&a));
    int64_t ends_at = a.grant->lease.ends_at;
    world_release(&release, a.hold);
    CHECK_EQ_INT(a.grant->lease.ends_at, ends_at); /* it is kept */
    want(&b, 2);
    CHECK(has_it(&b));
    CHECK_EQ_INT(b.grant->lease.ends_at, ends_at);
    world_move(3700);
    world_answer(DLK_RENEW, DLK_YES); /* it says no more than whose it is */
    dlk_wait gone = {0};
    world_release(&gone, b.hold);
    CHECK_EQ_INT(b.grant->lease.ends_at, ends_at);
    world_forget(&gone);
    end();
}
