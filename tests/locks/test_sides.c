/* Read/write locks: what owners of one client share, in which order they get it, and how a write
 * hold turns into a read hold. The server is the test itself. */
#include "harness/harness.h"
#include "world.h"

#include "util/error.h"

static dlk_wait a, b, c, d, release;

static void begin(void)
{
    world_open();
    w.name->key.kind = DLOCK_WRITE;
}

static void end(void)
{
    dlk_core_close(&w.core, w.now);
    dlk_wait *const waits[] = {&a, &b, &c, &d, &release};
    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
        world_forget(waits[i]);
        *waits[i] = (dlk_wait){0};
    }
    w.name->key.kind = DLOCK_MUTEX;
    world_close();
}

static void want(dlk_wait *wait, uint64_t thread, bool shared, int64_t wait_ms)
{
    dlk_terms terms = world_terms();
    terms.shared = shared;
    world_acquire_terms(wait, thread, wait_ms, terms);
}

#define WANT_READ(wait, thread)  want((wait), (thread), true, 60000)
#define WANT_WRITE(wait, thread) want((wait), (thread), false, 60000)

/* It has what it wanted. */
static bool has(const dlk_wait *wait)
{
    return wait->over && wait->code == DLOCK_OK && dlk_grant_lives(wait->grant);
}

static bool asks_to_read(void)
{
    return world_asked(DLK_ACQUIRE) && world_asked(DLK_ACQUIRE)->shared;
}

static bool asks_to_write(void)
{
    return world_asked(DLK_ACQUIRE) && !world_asked(DLK_ACQUIRE)->shared;
}

static void write_by_a(void)
{
    WANT_WRITE(&a, 1);
    world_answer(DLK_ACQUIRE, DLK_YES);
}

/* As dlock_hold_downgrade does it. */
static void downgrade(dlk_hold *hold)
{
    hold->shared = true;
    hold->grant->write_holds = 0;
    dlk_grant_turn(&w.core, hold->grant, w.now);
}

/* ---- together, and in order ---- */

TEST(readers_of_one_client_hold_together_each_with_a_grant_of_its_own)
{
    begin();
    WANT_READ(&a, 1);
    WANT_READ(&b, 2);
    WANT_READ(&c, 0);
    CHECK(asks_to_read());
    uint64_t first = world_asked(DLK_ACQUIRE)->number;
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&a) && !b.over && asks_to_read());
    CHECK(world_asked(DLK_ACQUIRE)->number != first);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&b) && has(&c) && !world_asked(DLK_ACQUIRE));
    CHECK(a.grant->token < b.grant->token && b.grant->token < c.grant->token);
    world_release(&release, b.hold);
    CHECK(world_asked(DLK_RELEASE)->shared);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    CHECK(has(&a) && has(&c));
    end();
}

TEST(owners_of_both_sides_have_their_turn_in_the_order_in_which_they_came)
{
    begin();
    WANT_READ(&a, 1);
    WANT_WRITE(&b, 2);
    WANT_READ(&c, 3);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&a));
    CHECK(!world_asked(DLK_ACQUIRE)); /* our own reader is in the way: no use to ask */
    CHECK(!c.over); /* nor does a reader pass the writer that came before it */
    world_release(NULL, a.hold);
    CHECK(asks_to_write()); /* behind the release */
    world_answer(DLK_RELEASE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&b) && !c.over && !world_asked(DLK_ACQUIRE));
    world_release(NULL, b.hold);
    CHECK(asks_to_read());
    world_answer(DLK_RELEASE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&c));
    end();
}

TEST(a_writer_waits_until_the_last_reader_of_its_client_has_gone)
{
    begin();
    w.at_once = true;
    WANT_READ(&a, 1);
    WANT_READ(&b, 2);
    CHECK(has(&a) && has(&b));
    WANT_WRITE(&c, 3);
    world_release(NULL, a.hold);
    CHECK(!c.over);
    CHECK_EQ_INT(w.acquires, 2);
    world_release(NULL, b.hold);
    CHECK(has(&c));
    end();
}

TEST(a_try_to_write_is_busy_at_once_while_others_of_the_client_read_and_the_reverse)
{
    begin();
    w.at_once = true;
    WANT_READ(&a, 1);
    want(&b, 2, false, 0);
    CHECK_EQ_INT(b.code, DLOCK_EBUSY);
    want(&c, 3, true, 0);
    CHECK(has(&c)); /* a reader needn't wait */
    world_release(NULL, a.hold);
    world_release(NULL, c.hold);
    world_forget(&b);
    WANT_WRITE(&b, 2);
    want(&d, 3, true, 0);
    CHECK_EQ_INT(d.code, DLOCK_EBUSY);
    end();
}

TEST(tries_to_read_that_come_together_are_answered_one_after_the_other)
{
    begin();
    want(&a, 1, true, 0);
    want(&b, 2, true, 0);
    want(&c, 3, false, 0);
    CHECK_EQ_INT(c.code, DLOCK_EBUSY); /* it would have to wait for them */
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&a) && has(&b));
    world_release(NULL, a.hold);
    world_release(NULL, b.hold);
    world_answer(DLK_RELEASE, DLK_YES);
    world_answer(DLK_RELEASE, DLK_YES);
    world_forget(&a);
    world_forget(&b);
    want(&a, 1, true, 0);
    want(&b, 2, true, 0);
    world_held(5000); /* somebody writes: that is the answer to both */
    CHECK_EQ_INT(a.code, DLOCK_EBUSY);
    CHECK_EQ_INT(b.code, DLOCK_EBUSY);
    end();
}

TEST(a_try_to_read_does_not_overtake_a_writer_who_waits)
{
    begin();
    WANT_READ(&a, 1);
    WANT_WRITE(&b, 2);
    want(&c, 3, true, 0);
    CHECK(c.over && c.code == DLOCK_EBUSY); /* though the request under way is to read */
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&a) && !b.over);
    want(&d, 4, true, 0);
    CHECK(d.over && d.code == DLOCK_EBUSY);
    CHECK_EQ_INT(w.acquires, 1);
    end();
}

TEST(of_tries_whose_answer_is_lost_only_the_first_may_have_got_it)
{
    begin();
    want(&a, 1, true, 0);
    want(&b, 2, true, 0);
    uint64_t number = world_asked(DLK_ACQUIRE)->number;
    world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
    CHECK(a.over && a.code == DLOCK_EUNKNOWN);
    CHECK(b.over && b.code == DLOCK_EUNAVAIL);
    CHECK(world_asked(DLK_RELEASE) && world_asked(DLK_RELEASE)->number == number);
    CHECK_EQ_INT(w.acquires, 1);
    end();
}

/* ---- giving up ---- */

TEST(readers_behind_a_writer_that_gives_up_go_on_without_it)
{
    begin();
    WANT_WRITE(&a, 1);
    world_held(30000); /* others read */
    WANT_READ(&b, 2);
    WANT_READ(&c, 3);
    CHECK(!world_asked(DLK_ACQUIRE));
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(a.code, DLOCK_ECANCELED);
    CHECK(asks_to_read());
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&b) && has(&c));
    CHECK_EQ_INT(w.releases, 0); /* it never had anything */
    end();
}

TEST(a_writer_that_gives_up_unanswered_is_given_back_before_others_read)
{
    begin();
    WANT_WRITE(&a, 1);
    uint64_t number = world_asked(DLK_ACQUIRE)->number;
    WANT_READ(&b, 2);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(world_asked(DLK_RELEASE)->number, number);
    CHECK(!world_asked(DLK_RELEASE)->shared);
    world_answer(DLK_ACQUIRE, DLK_YES); /* it came all the same */
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK(asks_to_read());
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&b));
    end();
}

TEST(a_wait_that_runs_out_behind_the_other_side_says_it_was_held)
{
    begin();
    w.at_once = true;
    WANT_READ(&a, 1);
    want(&b, 2, false, 500);
    want(&c, 3, true, 300); /* behind the writer that waits */
    world_move(400);
    CHECK_EQ_INT(c.code, DLOCK_ETIMEDOUT);
    world_move(200);
    CHECK_EQ_INT(b.code, DLOCK_ETIMEDOUT);
    CHECK(has(&a));
    WANT_READ(&d, 4);
    CHECK(has(&d)); /* nobody waits before it any more */
    end();
}

/* ---- nested ---- */

TEST(reading_under_the_own_write_is_another_hold_of_it)
{
    begin();
    write_by_a();
    WANT_READ(&b, 1);
    CHECK(has(&b));
    CHECK(b.grant == a.grant);
    CHECK_EQ_INT(w.acquires, 1);
    WANT_READ(&c, 2);
    CHECK(!c.over); /* another thread's is not */
    world_release(&release, b.hold);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    CHECK(!a.grant->terms.shared && !c.over);
    CHECK_EQ_INT(w.renewals + w.releases, 0); /* the server hears of none of it */
    end();
}

TEST(writing_under_the_own_read_is_a_deadlock_and_said_to_be_one)
{
    begin();
    w.at_once = true;
    WANT_READ(&a, 1);
    WANT_WRITE(&b, 1);
    CHECK_EQ_INT(b.code, DLOCK_EDEADLK);
    world_release(NULL, a.hold);
    world_forget(&a);
    WANT_WRITE(&a, 1);
    WANT_READ(&c, 1);
    world_release(NULL, a.hold); /* now it only reads */
    WANT_WRITE(&d, 1);
    CHECK_EQ_INT(d.code, DLOCK_EDEADLK);
    end();
}

TEST(reads_nested_by_a_thread_are_holds_of_one_grant)
{
    begin();
    WANT_READ(&a, 1);
    world_answer(DLK_ACQUIRE, DLK_YES);
    WANT_READ(&b, 1);
    CHECK(has(&b) && a.grant == b.grant);
    CHECK_EQ_INT(w.acquires, 1);
    world_release(NULL, a.hold);
    CHECK_EQ_INT(w.releases, 0);
    world_release(NULL, b.hold);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

/* ---- turning ---- */

TEST(a_write_hold_released_over_a_nested_read_turns_the_grant_into_a_read)
{
    begin();
    write_by_a();
    WANT_READ(&b, 1);
    WANT_READ(&c, 2);
    int64_t token = a.grant->token;
    world_release(&release, a.hold);
    CHECK_EQ_INT(release.code, DLOCK_OK); /* here at once */
    CHECK(has(&b) && b.grant->terms.shared);
    CHECK_EQ_INT(b.grant->token, token);
    const dlk_ask *turn = world_asked(DLK_RENEW);
    CHECK(turn && turn->shared);
    CHECK_EQ_INT(turn->number, b.grant->number);
    CHECK(asks_to_read()); /* who waited to read asks, behind it */
    world_answer(DLK_RENEW, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&c));
    CHECK_EQ_INT(w.renewals, 1); /* told once */
    world_release(NULL, b.hold);
    CHECK(world_asked(DLK_RELEASE)->shared);
    end();
}

TEST(a_downgrade_lets_those_in_who_waited_to_read)
{
    begin();
    write_by_a();
    WANT_READ(&b, 2);
    WANT_WRITE(&c, 3);
    downgrade(a.hold);
    CHECK(has(&a));
    CHECK(world_asked(DLK_RENEW)->shared && asks_to_read());
    world_answer(DLK_RENEW, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&b) && !c.over);
    end();
}

TEST(a_turn_during_a_renewal_is_told_right_after_it)
{
    begin();
    write_by_a();
    world_move(4000); /* a third of 10 s */
    const dlk_ask *renewal = world_asked(DLK_RENEW);
    CHECK(renewal && !renewal->shared);
    downgrade(a.hold);
    CHECK_EQ_INT(w.renewals, 1);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(a.grant->turning); /* that answer was about the writer */
    world_move(0);
    CHECK_EQ_INT(w.renewals, 2);
    CHECK(world_asked(DLK_RENEW)->shared);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(!a.grant->turning && has(&a));
    world_move(1000);
    CHECK_EQ_INT(w.renewals, 2);
    end();
}

TEST(a_turn_that_is_not_answered_is_told_again_until_it_is)
{
    begin();
    write_by_a();
    downgrade(a.hold);
    world_cut();
    CHECK(has(&a) && a.grant->turning);
    world_move(1000);
    CHECK(!world_asked(DLK_RENEW)); /* there is nobody to tell */
    world_back();
    world_move(3000);
    CHECK(world_asked(DLK_RENEW)->shared);
    world_refuse(DLK_RENEW, DLOCK_EUNAVAIL);
    CHECK(a.grant->turning);
    world_move(3000);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(!a.grant->turning && has(&a));
    end();
}

/* It asks for what is left, up to a whole ms. */
static void check_rest(const dlk_ask *turn, int64_t ends_at)
{
    CHECK(turn != NULL);
    CHECK_EQ_INT(turn->ttl_ms, (ends_at - turn->since) / DLK_NS_PER_MS + 1);
}

TEST(a_turn_does_not_lengthen_a_lease_that_is_not_renewed)
{
    begin();
    dlk_terms terms = world_terms();
    terms.renewal = DLK_RENEW_OFF;
    world_acquire_terms(&a, 1, 5000, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    int64_t ends_at = a.grant->lease.ends_at;
    world_move(4000);
    downgrade(a.hold);
    check_rest(world_asked(DLK_RENEW), ends_at);
    world_cut();
    world_back();
    world_move(3000); /* once more: still as much as is left */
    check_rest(world_asked(DLK_RENEW), ends_at);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(a.grant->lease.ends_at, ends_at);
    int renewals = w.renewals;
    world_move(6000);
    CHECK_EQ_INT(w.renewals, renewals);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    end();
}

TEST(a_turn_leaves_fed_renewal_to_those_who_feed)
{
    begin();
    dlk_terms terms = world_terms();
    terms.renewal = DLK_RENEW_FED;
    world_acquire_terms(&a, 1, 5000, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    int64_t ends_at = a.grant->lease.ends_at;
    world_move(1000);
    downgrade(a.hold);
    world_refuse(DLK_RENEW, DLOCK_EUNAVAIL);
    world_move(1000);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(a.grant->lease.ends_at, ends_at);
    dlk_grant_feed(&w.core, a.grant, w.now);
    world_move(4000);
    CHECK_EQ_INT(world_asked(DLK_RENEW)->ttl_ms, 10000);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(a.grant->lease.ends_at > ends_at);
    end();
}

TEST(the_server_may_say_to_a_turn_that_it_was_lost)
{
    begin();
    write_by_a();
    WANT_READ(&b, 2);
    downgrade(a.hold);
    world_answer(DLK_RENEW, DLK_NOT_OURS);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    CHECK_EQ_INT(w.releases, 0);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&b));
    world_release(&release, a.hold);
    CHECK_EQ_INT(release.code, DLOCK_ELOST);
    end();
}

TEST(a_lease_that_ends_before_its_turn_is_confirmed_is_lost_and_given_back)
{
    begin();
    write_by_a();
    downgrade(a.hold);
    world_cut();
    world_move(10000);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    world_back();
    const dlk_ask *give = world_asked(DLK_RELEASE);
    CHECK(give && give->shared); /* takes either side */
    CHECK(!world_asked(DLK_RENEW));
    world_answer(DLK_RELEASE, DLK_YES);
    end();
}

TEST(a_release_before_the_turn_is_confirmed_gives_back_whichever_side_it_is)
{
    begin();
    write_by_a();
    uint64_t number = a.grant->number;
    WANT_WRITE(&b, 2);
    downgrade(a.hold);
    world_release(&release, a.hold);
    CHECK(world_asked(DLK_RELEASE)->shared);
    CHECK_EQ_INT(world_asked(DLK_RELEASE)->number, number);
    world_answer(DLK_RENEW, DLK_YES); /* comes too late to matter */
    CHECK(!release.over);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_RELEASED);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(has(&b));
    CHECK_EQ_INT(w.renewals, 1);
    end();
}

TEST(a_close_during_a_turn_gives_the_lock_back)
{
    begin();
    write_by_a();
    downgrade(a.hold);
    dlk_core_close(&w.core, w.now);
    CHECK(world_asked(DLK_RELEASE)->shared);
    CHECK_EQ_INT((int64_t)dlk_core_unconfirmed(&w.core), 1);
    world_answer(DLK_RENEW, DLK_YES);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT((int64_t)dlk_core_unconfirmed(&w.core), 0);
    end();
}

/* ---- requests that the turn overtakes ---- */

/* A node of a cluster sends them on, or a script is asked for again with its text: others of the same
 * grant, asked later, are done first. */
static dlk_query query;

static void ask_about_a(dlk_verb verb)
{
    query = (dlk_query){.ask = {.verb = verb, .ttl_ms = 20000}, .grant = a.grant};
    dlk_query_start(&w.core, &query, dlk_clock_after(w.now, 5000), w.now);
}

/* Of two such requests the one of that side. */
static void answer_side(bool shared, dlk_verb verb, dlk_reply reply)
{
    dlk_list skipped;
    dlk_list_init(&skipped);
    while (world_asked(verb) && world_asked(verb)->shared != shared) {
        dlk_list *link = &world_asked(verb)->link;
        dlk_list_remove(link);
        dlk_list_append(&skipped, link);
    }
    world_answer(verb, reply);
    dlk_list_splice(&skipped, &w.asked);
    dlk_list_splice(&w.asked, &skipped);
}

TEST(what_was_asked_of_the_writer_and_is_done_after_the_turn_is_asked_of_the_reader)
{
    static const dlk_verb verbs[] = {DLK_RENEW, DLK_VERIFY};
    for (int i = 0; i < 4; i++) {
        dlk_verb verb = verbs[i / 2];
        bool told_before = i % 2 == 0;
        begin();
        write_by_a();
        ask_about_a(verb);
        CHECK(!world_asked(verb)->shared);
        downgrade(a.hold);
        if (told_before)
            answer_side(true, DLK_RENEW, DLK_YES);
        answer_side(false, verb, DLK_NOT_OURS);
        CHECK(has(&a) && !dlk_query_is_over(&query));
        if (!told_before)
            answer_side(true, DLK_RENEW, DLK_YES);
        CHECK(world_asked(verb) && world_asked(verb)->shared);
        world_answer(verb, DLK_YES);
        CHECK(dlk_query_is_over(&query) && query.code == DLOCK_OK && has(&a));
        CHECK(dlk_list_empty(&w.asked));
        end();
    }
}

TEST(what_is_asked_of_the_reader_then_may_be_lost_all_the_same)
{
    begin();
    write_by_a();
    ask_about_a(DLK_VERIFY);
    downgrade(a.hold);
    answer_side(false, DLK_VERIFY, DLK_NOT_OURS);
    answer_side(true, DLK_VERIFY, DLK_NOT_OURS);
    CHECK(dlk_query_is_over(&query) && query.code == DLOCK_ELOST);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    dlk_error_clear(&query.error);
    end();
}

/* What extends it has turned it. */
TEST(a_writers_renewal_that_a_readers_extension_overtakes_is_no_loss)
{
    begin();
    write_by_a();
    world_move(4000);
    CHECK(world_asked(DLK_RENEW) && !world_asked(DLK_RENEW)->shared);
    downgrade(a.hold);
    ask_about_a(DLK_RENEW);
    answer_side(true, DLK_RENEW, DLK_YES);
    CHECK(dlk_query_is_over(&query) && query.code == DLOCK_OK);
    world_answer(DLK_RENEW, DLK_NOT_OURS);
    CHECK(has(&a));
    world_move(0);
    CHECK(world_asked(DLK_RENEW) && world_asked(DLK_RENEW)->shared);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(has(&a) && !a.grant->turning);
    end();
}

TEST(whose_time_is_over_is_not_asked_of_the_reader_any_more)
{
    begin();
    write_by_a();
    ask_about_a(DLK_VERIFY);
    downgrade(a.hold);
    answer_side(true, DLK_RENEW, DLK_YES);
    query.deadline = w.now; /* the answer comes right before the alarm */
    world_answer(DLK_VERIFY, DLK_NOT_OURS);
    CHECK(!world_asked(DLK_VERIFY));
    world_move(0);
    CHECK(dlk_query_is_over(&query) && query.code == DLOCK_EUNKNOWN);
    CHECK(has(&a));
    end();
}

/* ---- leases ---- */

TEST(a_reader_renews_as_often_as_others_can_cut_its_lease)
{
    begin();
    w.name->key.shared_cut_ms = 30000;
    dlk_terms terms = world_terms();
    terms.ttl_ms = 600000;
    terms.shared = true;
    world_acquire_terms(&a, 1, 5000, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(12000); /* a third of 30 s, and the jitter */
    CHECK(world_asked(DLK_RENEW) != NULL);
    CHECK_EQ_INT(world_asked(DLK_RENEW)->ttl_ms, 600000);
    world_answer(DLK_RENEW, DLK_YES);
    world_move(12000);
    CHECK_EQ_INT(w.renewals, 2);
    world_answer(DLK_RENEW, DLK_YES);
    world_release(NULL, a.hold);
    world_answer(DLK_RELEASE, DLK_YES);
    terms.shared = false; /* a writer's nobody cuts */
    world_acquire_terms(&b, 2, 5000, terms);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(100000);
    CHECK_EQ_INT(w.renewals, 2);
    end();
}
