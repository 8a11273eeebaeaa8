/* The life of a grant from the first request to the last, with a clock that the test moves. */
#include "harness/harness.h"
#include "locks/inner.h"
#include "world.h"

#include "util/error.h"

#include <string.h>

static dlk_wait a, b, c, release;

static bool lives(const dlk_wait *wait)
{
    return dlk_grant_settle(&w.core, wait->grant, w.now);
}

/* a has the lock, asked for at the present. */
static bool hold_by_a(void)
{
    world_acquire(&a, 1, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    return a.over && a.code == DLOCK_OK;
}

static void end(void)
{
    world_end((dlk_wait *[]){&a, &b, &c, &release, NULL});
}

/* ---- granting ---- */

TEST(a_free_lock_is_granted_with_its_token_and_validity_from_before_the_request)
{
    world_open();
    world_acquire(&a, 1, 5000);
    CHECK(!a.over);
    world_move(400);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.over);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    CHECK_EQ_INT(a.grant->token, 1);
    /* 10 s less 1 % and 2 ms, counted from the request, not from the answer */
    CHECK_EQ_INT(a.grant->lease.ends_at - w.now, (10000 - 100 - 2 - 400) * MS);
    end();
}

TEST(a_try_whose_undoing_may_come_late_is_given_back_and_the_next_has_another_number)
{
    world_open();
    world_acquire(&a, 1, 60000);
    dlk_ask *first = world_asked(DLK_ACQUIRE);
    uint64_t number = first->number;
    first->spent = true;
    world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
    dlk_ask *back = world_asked(DLK_RELEASE), *next = world_asked(DLK_ACQUIRE);
    CHECK(!a.over && back && next);
    CHECK(back->number == number && next->number != number);
    CHECK(!next->spent);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.over && a.code == DLOCK_OK && lives(&a));
    end();
}

TEST(a_grant_that_comes_after_its_validity_is_given_back_and_asked_for_anew)
{
    world_open();
    dlk_terms brief = world_terms();
    brief.ttl_ms = 1000;
    world_acquire_terms(&a, 1, 60000, brief);
    uint64_t first = world_asked(DLK_ACQUIRE)->number;
    world_move(1500);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(!a.over);
    CHECK_EQ_INT(w.releases, 1);
    CHECK_EQ_INT(world_asked(DLK_RELEASE)->number, first);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK(world_asked(DLK_ACQUIRE) != NULL);
    CHECK(world_asked(DLK_ACQUIRE)->number != first);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    end();
}

TEST(a_lost_answer_is_asked_for_again_under_the_same_number)
{
    world_open();
    world_acquire(&a, 1, 5000);
    uint64_t number = world_asked(DLK_ACQUIRE)->number;
    world_cut();
    CHECK(!a.over);
    world_move(10);
    world_back();
    CHECK(world_asked(DLK_ACQUIRE) != NULL);
    CHECK_EQ_INT(world_asked(DLK_ACQUIRE)->number, number);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    CHECK_EQ_INT(w.releases, 0);
    end();
}

TEST(validity_counts_from_the_request_that_was_answered)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_cut();
    world_move(700);
    world_back();
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(a.grant->lease.ends_at - w.now, (10000 - 100 - 2) * MS);
    end();
}

/* ---- what a wait ends with ---- */

TEST(a_try_answers_at_once_when_somebody_else_holds_it)
{
    world_open();
    world_acquire(&a, 1, 0);
    world_held(4000);
    CHECK_EQ_INT(a.code, DLOCK_EBUSY);
    CHECK_EQ_INT(w.releases, 0);
    end();
}

TEST(a_try_without_a_connection_is_unavailable_at_once)
{
    world_open();
    world_cut();
    world_acquire(&a, 1, 0);
    CHECK(a.over);
    CHECK_EQ_INT(a.code, DLOCK_EUNAVAIL);
    CHECK_EQ_INT(w.acquires, 0);
    end();
}

TEST(a_try_waits_for_the_first_connection_and_for_no_later_one)
{
    world_open_unconnected();
    world_acquire(&a, 0, 0);
    CHECK(!a.over);
    world_acquire(&b, 0, 0); /* behind another owner of this client, as when connected */
    CHECK_EQ_INT(b.code, DLOCK_EBUSY);
    world_forget(&b);
    world_move(999);
    CHECK(!a.over);
    world_back();
    CHECK_EQ_INT(w.acquires, 1);
    world_move(2000); /* client.connect_ms is for the connection alone */
    CHECK(!a.over);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    world_cut();
    world_acquire(&b, 0, 0);
    CHECK_EQ_INT(b.code, DLOCK_EBUSY);
    end();
}

TEST(a_first_connection_that_fails_ends_the_try_at_once_and_no_wait)
{
    world_open_unconnected();
    world_acquire(&a, 0, 0);
    world_acquire(&b, 0, 5000);
    world_cut();
    CHECK(a.over);
    CHECK_EQ_INT(a.code, DLOCK_EUNAVAIL);
    CHECK(!b.over);
    world_back();
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    end();
}

TEST(a_first_connection_that_is_refused_for_good_says_so_to_the_try)
{
    world_open_unconnected();
    world_acquire(&a, 0, 0);
    dlock_error *why = dlk_error_make(DLOCK_EACCES, "wrong password");
    dlk_core_link(&w.core, false, why, w.now);
    dlk_error_clear(&why);
    CHECK_EQ_INT(a.code, DLOCK_EACCES);
    end();
}

TEST(a_try_waits_no_longer_than_a_connection_may_take)
{
    world_open_unconnected();
    world_acquire(&a, 0, 0);
    world_move(1000);
    CHECK(a.over);
    CHECK_EQ_INT(a.code, DLOCK_EUNAVAIL);
    CHECK_EQ_INT(w.acquires, 0);
    world_back();
    CHECK_EQ_INT(w.acquires + w.releases, 0);
    end();
}

TEST(tries_of_those_who_may_share_wait_for_the_first_connection_together)
{
    dlk_terms reads = world_terms();
    reads.shared = true;
    world_open_unconnected();
    world_acquire_terms(&a, 0, 0, reads);
    world_acquire_terms(&b, 0, 0, reads);
    CHECK(!a.over && !b.over);
    world_back();
    world_move(2000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    end();
}

TEST(a_try_that_is_granted_after_its_lease_is_unknown_and_given_back)
{
    dlk_terms brief = world_terms();
    brief.ttl_ms = 1000;
    world_open();
    world_acquire_terms(&a, 1, 0, brief);
    world_move(1000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.over);
    CHECK_EQ_INT(a.code, DLOCK_EUNKNOWN);
    CHECK_EQ_INT(w.core.stats.late_grants, 1);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(a_try_behind_a_wait_without_a_link_is_unavailable)
{
    world_open();
    world_cut();
    world_acquire(&a, 1, 5000);
    world_acquire(&b, 2, 0);
    CHECK(b.over);
    CHECK_EQ_INT(b.code, DLOCK_EUNAVAIL);
    CHECK(!a.over);
    end();
}

TEST(a_try_whose_answer_is_lost_is_unknown_and_gives_a_late_grant_back)
{
    world_open();
    world_acquire(&a, 1, 0);
    world_cut();
    CHECK_EQ_INT(a.code, DLOCK_EUNKNOWN);
    world_back();
    CHECK(world_asked(DLK_RELEASE) != NULL);
    end();
}

typedef struct ending {
    const char *what;
    int answered; /* 0 not, 1 "held", 2 cut, 3 refused for now */
    dlock_err expected;
} ending;

TEST(what_is_known_of_a_request_is_told_rather_than_what_is_known_of_the_link)
{
    world_open();
    world_acquire(&a, 1, 0);
    world_asked(DLK_ACQUIRE)->error = dlk_error_make(DLOCK_EUNAVAIL, "reset by peer");
    world_cut();
    CHECK_EQ_INT(a.code, DLOCK_EUNKNOWN);
    CHECK_STR(a.error->text, "n: a request was sent and not answered: reset by peer");
    world_acquire(&b, 2, 0);
    CHECK_EQ_INT(b.code, DLOCK_EUNAVAIL);
    CHECK_STR(b.error->text, "cut");
    end();
}

TEST(a_wait_that_runs_out_says_what_was_known_last)
{
    static const ending endings[] = {
        {"never answered", 0, DLOCK_EUNKNOWN},
        {"held by somebody else", 1, DLOCK_ETIMEDOUT},
        {"the answer was lost", 2, DLOCK_EUNKNOWN},
        {"refused for now", 3, DLOCK_EUNAVAIL},
    };
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        world_open();
        world_acquire(&a, 1, 900);
        if (endings[i].answered == 1)
            world_held(60000);
        else if (endings[i].answered == 2)
            world_cut();
        else if (endings[i].answered == 3)
            world_refuse(DLK_ACQUIRE, DLOCK_EUNAVAIL);
        world_move(850);
        CHECK(!a.over);
        while (endings[i].answered == 3 && world_asked(DLK_ACQUIRE))
            world_refuse(DLK_ACQUIRE, DLOCK_EUNAVAIL);
        world_move(60);
        harness_note("%s", endings[i].what);
        CHECK(a.over);
        CHECK_EQ_INT(a.code, endings[i].expected);
        end();
    }
}

/* What came before the end of a wait, as letters: 'h' held, 'u' no answer, 'r' refused for now, and at
 * the end 'c' cut. */
static void live_through(const char *story)
{
    for (const char *what = story; *what; what++) {
        while (*what != 'c' && !world_asked(DLK_ACQUIRE))
            world_move(10);
        if (*what == 'h')
            world_held(-1);
        else if (*what == 'u')
            world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
        else if (*what == 'r')
            world_refuse(DLK_ACQUIRE, DLOCK_EUNAVAIL);
        else
            world_cut();
    }
}

/* Of two waits with the same story, by time and by trying once: "nothing can come of it" is said
 * exactly when nothing is given back. */
TEST(a_wait_that_runs_out_while_it_asks_again_says_that_it_was_held)
{
    static const int64_t asked_ms[] = {299, 300}; /* a tenth of the time-out */
    for (int i = 0; i < 2; i++) {
        world_open();
        world_acquire(&a, 1, 2000);
        world_held(-1);
        w.now += (2000 - asked_ms[i]) * MS;
        dlk_core_notified(&w.core, &w.name->key, w.now);
        CHECK_EQ_INT(w.acquires, 2);
        world_move(asked_ms[i]);
        CHECK(a.over);
        CHECK_EQ_INT(a.code, i == 0 ? DLOCK_ETIMEDOUT : DLOCK_EUNKNOWN);
        end();
    }
}

TEST(a_wait_that_runs_out_behind_others_who_ask_says_that_they_were_before_it)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_acquire(&b, 2, 1000);
    world_move(1000);
    CHECK(b.over && !a.over);
    CHECK_EQ_INT(b.code, DLOCK_ETIMEDOUT);
    end();
}

TEST(a_wait_that_runs_out_behind_one_without_an_answer_says_that_nobody_answers)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_acquire(&b, 2, 1000);
    world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
    world_move(1000); /* asked again long before */
    CHECK_EQ_INT(w.acquires, 2);
    CHECK_EQ_INT(b.code, DLOCK_EUNAVAIL); /* what was asked was not its own */
    end();
}

TEST(a_wait_is_unavailable_only_when_nothing_of_it_has_to_be_given_back)
{
    static const struct {
        const char *story;
        bool queues;
        dlock_err expected;
    } stories[] = {
        {"c", false, DLOCK_EUNKNOWN},   {"r", false, DLOCK_EUNAVAIL},
        {"hc", false, DLOCK_EUNAVAIL},  {"hc", true, DLOCK_EUNKNOWN},
        {"hr", false, DLOCK_EUNAVAIL},  {"hr", true, DLOCK_EUNKNOWN},
        {"hrc", true, DLOCK_EUNKNOWN},  {"ur", false, DLOCK_EUNKNOWN},
        {"uhc", false, DLOCK_EUNKNOWN}, {"urc", true, DLOCK_EUNKNOWN},
        {"uhr", false, DLOCK_EUNKNOWN}, {"rc", true, DLOCK_EUNAVAIL},
    };
    for (size_t i = 0; i < sizeof(stories) / sizeof(*stories); i++) {
        harness_note("%s%s", stories[i].story, stories[i].queues ? ", in a line" : "");
        world_open();
        w.name->key.queues = stories[i].queues;
        world_acquire(&a, 1, 60000);
        live_through(stories[i].story);
        while (strchr(stories[i].story, 'c') == NULL && world_asked(DLK_ACQUIRE))
            world_refuse(DLK_ACQUIRE, DLOCK_EUNAVAIL);
        CHECK(!a.over);
        dlk_acquire_cancel(&w.core, &a, DLOCK_ETIMEDOUT, w.now);
        CHECK_EQ_INT(a.code, stories[i].expected);
        world_back();
        CHECK_EQ_INT(w.releases > 0, a.code == DLOCK_EUNKNOWN);
        end();
    }
}

TEST(a_try_that_is_refused_after_an_unanswered_wait_before_it_is_unavailable_itself)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
    CHECK(!a.over);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    world_acquire(&b, 2, 0);
    world_refuse(DLK_ACQUIRE, DLOCK_EUNAVAIL);
    CHECK(b.over);
    CHECK_EQ_INT(b.code, DLOCK_EUNAVAIL);
    end();
}

TEST(a_definite_refusal_ends_the_wait_at_once)
{
    static const dlock_err final[] = {DLOCK_EACCES, DLOCK_EPROTO, DLOCK_ECONFLICT,
                                      DLOCK_EINVAL, DLOCK_ENOTSUP};
    for (size_t i = 0; i < sizeof(final) / sizeof(*final); i++) {
        world_open();
        world_acquire(&a, 1, DLOCK_FOREVER);
        world_refuse(DLK_ACQUIRE, final[i]);
        CHECK(a.over);
        CHECK_EQ_INT(a.code, final[i]);
        end();
    }
}

TEST(a_link_that_is_down_for_good_fails_those_who_wait_and_those_who_come)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_held(60000);
    dlock_error *why = dlk_error_make(DLOCK_EACCES, "wrong password");
    dlk_core_link(&w.core, false, why, w.now);
    CHECK_EQ_INT(a.code, DLOCK_EACCES);
    CHECK_EQ_INT(w.watches, 0); /* nobody is left to be told */
    world_acquire(&b, 2, DLOCK_FOREVER);
    CHECK(b.over);
    CHECK_EQ_INT(b.code, DLOCK_EACCES);
    dlk_error_clear(&why);
    end();
}

/* ---- what the service does by itself ---- */

TEST(what_the_service_took_away_is_lost_with_its_word_and_nothing_is_given_back)
{
    world_open();
    CHECK(hold_by_a());
    dlk_core_mark_gone(&w.name->key, a.grant->number + 1); /* nobody's */
    dlk_core_notified(&w.core, &w.name->key, w.now);
    CHECK(lives(&a));
    dlk_core_mark_gone(&w.name->key, a.grant->number);
    CHECK(lives(&a));
    dlk_core_notified(&w.core, &w.name->key, w.now);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    CHECK_EQ_INT(w.core.stats.losses[DLK_LOSS_TAKEN], 1);
    CHECK_EQ_INT(w.states[DLOCK_LOST], 1);
    CHECK_EQ_INT(w.releases, 0);
    dlk_core_notified(&w.core, &w.name->key, w.now);
    CHECK_EQ_INT(w.states[DLOCK_LOST], 1);
    end();
}

static void open_session(void)
{
    world_open_with((dlk_limits){.margin = {1, 2},
                                 .timeout_ms = 3000,
                                 .connect_ms = 1000,
                                 .poll_ms = 1000,
                                 .backoff_min_ms = 50,
                                 .backoff_max_ms = 2000,
                                 .session = true});
}

TEST(a_session_without_its_connection_is_suspect_and_renewed_as_soon_as_it_has_one)
{
    open_session();
    CHECK(hold_by_a());
    world_cut();
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_SUSPECT);
    CHECK_EQ_INT(w.renewals, 0);
    world_back();
    CHECK_EQ_INT(w.renewals, 1);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_HELD);
    end();
}

TEST(what_a_session_has_is_given_back_however_long_ago_its_lease_was)
{
    open_session();
    CHECK(hold_by_a());
    world_cut();
    world_release(&release, a.hold);
    world_move(60000);
    world_back();
    CHECK_EQ_INT(w.releases, 1);
    world_answer(DLK_RELEASE, DLK_YES);
    end();
}

/* ---- waiting ---- */

TEST(a_waiter_asks_again_when_notified_and_when_the_holders_lease_is_over)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_held(300);
    CHECK_EQ_INT(w.watches, 1);
    dlk_core_notified(&w.core, &w.name->key, w.now);
    CHECK_EQ_INT(w.acquires, 2);
    world_held(300);
    world_move(299);
    CHECK_EQ_INT(w.acquires, 2);
    world_move(3);
    CHECK_EQ_INT(w.acquires, 3);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    CHECK_EQ_INT(w.watches, 0);
    end();
}

TEST(who_waits_behind_one_that_is_refused_when_it_asks_again_asks_at_once)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_acquire(&b, 2, DLOCK_FOREVER);
    world_held(300);
    w.refused = DLOCK_EACCES;
    world_move(301);
    CHECK_EQ_INT(a.code, DLOCK_EACCES);
    CHECK_EQ_INT(w.acquires, 3);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(b.over && b.code == DLOCK_OK);
    end();
}

TEST(a_holders_lease_that_is_over_now_is_waited_for_no_longer)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_held(0);
    CHECK_EQ_INT(dlk_core_next(&w.core) - w.now, 1 * MS);
    end();
}

TEST(retries_come_later_each_time_up_to_a_limit)
{
    world_open();
    uint8_t retries = 0;
    for (int64_t ms = 50; ms <= 1600; ms *= 2) {
        int64_t after = dlk_retry_after(&w.core, w.now, &retries) - w.now;
        CHECK(after >= ms * MS * 2 / 3 && after <= ms * MS * 4 / 3);
    }
    for (int i = 0; i < 300; i++) { /* they are counted in a byte */
        int64_t after = dlk_retry_after(&w.core, w.now, &retries) - w.now;
        CHECK(after >= 2000 * MS * 2 / 3 && after <= 2000 * MS * 4 / 3);
    }
    end();
}

TEST(with_every_notification_lost_a_waiter_asks_at_least_once_per_poll)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    for (int i = 0; i < 5; i++) {
        world_held(-1);
        int before = w.acquires;
        world_move(1251);
        CHECK_EQ_INT(w.acquires, before + 1);
    }
    end();
}

TEST(owners_of_one_client_are_served_first_come_first_served_by_one_request)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_acquire(&b, 2, DLOCK_FOREVER);
    world_acquire(&c, 3, DLOCK_FOREVER);
    CHECK_EQ_INT(w.acquires, 1);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.over && !b.over && !c.over);
    world_release(&release, a.hold);
    CHECK_EQ_INT(w.acquires, 2); /* behind the release, in one go */
    world_answer(DLK_RELEASE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(b.over && !c.over);
    CHECK(b.grant->token > 0);
    end();
}

/* ---- cancelling, at each step ---- */

TEST(a_wait_cancelled_before_its_answer_gives_a_late_grant_back)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    uint64_t number = world_asked(DLK_ACQUIRE)->number;
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(a.code, DLOCK_ECANCELED);
    CHECK(world_asked(DLK_RELEASE) != NULL);
    CHECK_EQ_INT(world_asked(DLK_RELEASE)->number, number);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.hold == NULL);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(w.live_grants, 0);
    end();
}

TEST(a_wait_cancelled_while_somebody_else_holds_it_leaves_nothing)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_held(5000);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(w.releases, 0);
    CHECK_EQ_INT(w.watches, 0);
    CHECK_EQ_INT(w.live_grants, 0);
    end();
}

TEST(a_place_in_the_servers_line_is_given_back)
{
    world_open();
    w.name->key.queues = true;
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_held(5000);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK(world_asked(DLK_RELEASE) != NULL);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(w.live_grants, 0);
    end();
}

TEST(a_try_asks_for_no_place_and_has_none_to_give_back)
{
    world_open();
    w.name->key.queues = true;
    world_acquire(&a, 1, 0);
    CHECK(world_asked(DLK_ACQUIRE)->once);
    world_asked(DLK_ACQUIRE)->no_place = true;
    world_held(5000);
    CHECK_EQ_INT(a.code, DLOCK_EBUSY);
    CHECK_EQ_INT(w.releases, 0);
    CHECK_EQ_INT(w.live_grants, 0);
    end();
}

TEST(a_place_that_a_try_got_all_the_same_is_given_back)
{
    world_open();
    w.name->key.queues = true;
    world_acquire(&a, 1, 0);
    world_held(5000);
    CHECK_EQ_INT(a.code, DLOCK_EBUSY);
    CHECK(world_asked(DLK_RELEASE) != NULL);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(w.live_grants, 0);
    end();
}

TEST(who_waits_behind_a_try_asks_for_a_place_without_delay)
{
    world_open();
    w.name->key.queues = true;
    world_acquire(&a, 1, 0);
    world_acquire(&b, 2, DLOCK_FOREVER);
    world_asked(DLK_ACQUIRE)->no_place = true;
    world_held(5000);
    CHECK_EQ_INT(a.code, DLOCK_EBUSY);
    world_move(0);
    CHECK_EQ_INT(w.acquires, 2);
    CHECK(!world_asked(DLK_ACQUIRE)->once);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    end();
}

TEST(a_wait_cancelled_during_a_cut_is_given_back_when_the_link_is_up_again)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_cut();
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(a.code, DLOCK_ECANCELED);
    world_move(100);
    world_back();
    CHECK(world_asked(DLK_RELEASE) != NULL);
    /* "Not yours" isn't the end: the lost request may lie in a buffer yet, so twice more. */
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    for (int i = 2; i <= 3; i++) {
        CHECK_EQ_INT(w.live_grants, 1);
        world_move(1000);
        CHECK_EQ_INT(w.releases, i);
        world_answer(DLK_RELEASE, DLK_YES);
    }
    CHECK_EQ_INT(w.live_grants, 0);
    end();
}

/* Of the acquire that got no answer nobody knows whether it got a place in the line, and that has no
 * lease: with nobody behind it, it would stay for ever. */
TEST(a_place_that_may_be_there_is_given_back_after_any_outage)
{
    for (int cut_again = 0; cut_again < 2; cut_again++) {
        world_open();
        w.name->key.queues = true;
        world_acquire(&a, 1, DLOCK_FOREVER);
        int64_t forgotten = world_terms().ttl_ms + w.core.limits.timeout_ms + 1;
        if (cut_again) /* as of a process that was stopped: what it sends is lost once more */
            world_move(forgotten);
        else
            world_cut();
        dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
        if (cut_again)
            world_cut();
        CHECK(world_asked(DLK_RELEASE) == NULL);
        world_move(forgotten);
        CHECK_EQ_INT(w.live_grants, 1);
        world_back();
        CHECK(world_asked(DLK_RELEASE) != NULL);
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        world_move(1000);
        /* The acquire may have come after the first. */
        CHECK(world_asked(DLK_RELEASE) != NULL);
        world_answer(DLK_RELEASE, DLK_YES);
        CHECK_EQ_INT(w.live_grants, 0);
        end();
    }
}

TEST(only_prompt_answers_in_a_row_confirm_a_release_behind_a_lost_acquire)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_cut();
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    world_back();
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    world_move(1000);
    /* The server stood still: what it reads now may be older than what it answers. */
    world_move(600);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    for (int i = 3; i <= 4; i++) {
        CHECK_EQ_INT(w.live_grants, 1);
        world_move(1000);
        CHECK_EQ_INT(w.releases, i);
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
    }
    CHECK_EQ_INT(w.live_grants, 0);
    end();
}

/* … and not only when the lease would be over. */
TEST(a_confirmation_that_came_due_without_a_link_is_asked_for_when_it_is_back)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    world_cut();
    world_move(2000);
    world_back();
    CHECK(world_asked(DLK_RELEASE) != NULL);
    for (int k = 0; k < 2; k++) {
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        world_move(1000);
    }
    CHECK_EQ_INT(w.live_grants, 0);
    end();
}

TEST(an_acquire_whose_answer_is_lost_after_it_was_given_up_needs_as_many)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ_INT(w.live_grants, 1);
        CHECK_EQ_INT(w.releases, i);
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        world_move(1000);
    }
    CHECK_EQ_INT(w.live_grants, 0);
    end();
}

TEST(a_cancelled_heads_request_serves_the_next_in_line)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    world_acquire(&b, 2, DLOCK_FOREVER);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(w.releases, 0);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    CHECK_EQ_INT(b.grant->owner, 2);
    end();
}

/* The attempt was made for another, whose limit says nothing of who is granted the lock. */
TEST(what_a_cancelled_heads_request_gets_has_the_limit_of_who_gets_it)
{
    for (int limited = 0; limited < 2; limited++) {
        world_open();
        dlk_terms brief = world_terms();
        brief.max_hold_ms = 2000;
        world_acquire_terms(&a, 1, DLOCK_FOREVER, limited ? world_terms() : brief);
        world_acquire_terms(&b, 2, DLOCK_FOREVER, limited ? brief : world_terms());
        dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
        world_answer(DLK_ACQUIRE, DLK_YES);
        CHECK_EQ_INT(b.code, DLOCK_OK);
        world_move(2001);
        CHECK_EQ_INT(lives(&b), !limited);
        end();
    }
}

TEST(cancelling_after_the_grant_changes_nothing)
{
    world_open();
    CHECK(hold_by_a());
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    CHECK(lives(&a));
    end();
}

/* ---- owners ---- */

TEST(a_thread_enters_again_without_a_request_and_leaves_in_any_order)
{
    world_open();
    CHECK(hold_by_a());
    world_acquire(&b, 1, 0);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    CHECK(b.grant == a.grant);
    CHECK_EQ_INT(w.acquires, 1);
    world_release(&release, a.hold);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    CHECK_EQ_INT(w.releases, 0);
    CHECK(lives(&b));
    world_release(&release, b.hold);
    CHECK_EQ_INT(w.releases, 1);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    end();
}

TEST(acquires_of_one_thread_that_wait_together_are_granted_together)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_acquire(&b, 1, 5000);
    world_acquire(&c, 2, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.over && a.code == DLOCK_OK);
    CHECK(b.over && b.code == DLOCK_OK && b.grant == a.grant);
    CHECK(!c.over);
    CHECK_EQ_INT(a.grant->hold_count, 2);
    CHECK_EQ_INT(w.acquires, 1);
    end();
}

TEST(a_grant_has_no_more_holds_than_can_be_counted)
{
    world_open();
    CHECK(hold_by_a());
    a.grant->hold_count = INT32_MAX - 1;
    world_acquire(&b, 1, 0);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    world_acquire(&c, 1, 0);
    CHECK_EQ_INT(c.code, DLOCK_EOVERFLOW);
    a.grant->hold_count = 2;
    end();
}

TEST(without_reentry_the_same_thread_is_told_of_its_deadlock)
{
    world_open();
    dlk_terms once = world_terms();
    once.reentrant = false;
    world_acquire_terms(&a, 1, 0, once);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_acquire_terms(&b, 1, DLOCK_FOREVER, once);
    CHECK_EQ_INT(b.code, DLOCK_EDEADLK);
    end();
}

TEST(owners_of_their_own_exclude_each_other)
{
    world_open();
    world_acquire(&a, 0, 0);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_acquire(&b, 0, 0);
    CHECK_EQ_INT(b.code, DLOCK_EBUSY);
    end();
}

/* ---- renewing and losing ---- */

TEST(a_lease_is_renewed_at_a_third_of_it)
{
    world_open();
    CHECK(hold_by_a());
    world_move(2999);
    CHECK_EQ_INT(w.renewals, 0);
    world_move(668);
    CHECK_EQ_INT(w.renewals, 1);
    int64_t sent = w.now;
    sent = world_asked(DLK_RENEW)->since;
    world_move(100);
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(a.grant->lease.ends_at - sent, (10000 - 100 - 2) * MS);
    end();
}

TEST(a_grant_is_suspect_at_half_its_lease_and_held_again_after_a_renewal)
{
    world_open();
    CHECK(hold_by_a());
    world_move(3700);
    world_cut();
    world_move(1300);
    CHECK_EQ_INT(w.states[DLOCK_SUSPECT], 1);
    CHECK(lives(&a));
    world_back();
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(w.states[DLOCK_HELD], 1);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_HELD);
    end();
}

TEST(a_grant_is_lost_by_the_clock_alone_and_then_for_good)
{
    world_open();
    CHECK(hold_by_a());
    world_move(3700);
    CHECK(world_asked(DLK_RENEW) != NULL);
    w.now += 6300 * MS; /* nobody ticks: stopped, or suspended */
    CHECK(!lives(&a));
    CHECK_EQ_INT(w.states[DLOCK_LOST], 1);
    /* The answer that was on its way all the time can't bring it back. */
    world_answer(DLK_RENEW, DLK_YES);
    CHECK(!lives(&a));
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    CHECK_EQ_INT(w.states[DLOCK_LOST], 1);
    end();
}

TEST(an_answer_after_the_end_of_validity_comes_too_late)
{
    world_open();
    CHECK(hold_by_a());
    world_move(3700);
    w.now += 6300 * MS;
    world_answer(DLK_RENEW, DLK_YES);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    end();
}

TEST(a_grant_lost_by_the_clock_is_given_back_so_that_others_need_not_wait)
{
    world_open();
    CHECK(hold_by_a());
    world_cut();
    world_move(9900);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    world_back();
    CHECK(world_asked(DLK_RELEASE) != NULL);
    end();
}

TEST(the_servers_word_that_it_isnt_ours_is_lost_at_once)
{
    world_open();
    CHECK(hold_by_a());
    world_move(3700);
    world_answer(DLK_RENEW, DLK_NOT_OURS);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    CHECK_EQ_INT(w.core.stats.losses[DLK_LOSS_DENIED], 1);
    CHECK_EQ_INT(w.releases, 0);
    end();
}

TEST(a_renewal_without_an_answer_is_tried_again_until_validity_ends)
{
    world_open();
    CHECK(hold_by_a());
    world_move(3700);
    int before = w.renewals;
    for (int i = 0; i < 3; i++) {
        world_answer(DLK_RENEW, DLK_UNKNOWN);
        world_move(400);
    }
    CHECK(w.renewals > before);
    CHECK(lives(&a));
    end();
}

TEST(off_never_renews_never_is_suspect_and_ends_lost)
{
    world_open();
    dlk_terms off = world_terms();
    off.renewal = DLK_RENEW_OFF;
    world_acquire_terms(&a, 1, 0, off);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(9000);
    CHECK_EQ_INT(w.renewals, 0);
    CHECK_EQ_INT(w.states[DLOCK_SUSPECT], 0);
    world_move(1000);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    end();
}

TEST(fed_renews_only_what_was_fed_since)
{
    world_open();
    dlk_terms fed = world_terms();
    fed.renewal = DLK_RENEW_FED;
    world_acquire_terms(&a, 1, 0, fed);
    world_answer(DLK_ACQUIRE, DLK_YES);
    dlk_grant_feed(&w.core, a.grant, w.now);
    world_move(3700);
    CHECK_EQ_INT(w.renewals, 1);
    world_answer(DLK_RENEW, DLK_YES);
    world_move(3900);
    CHECK_EQ_INT(w.renewals, 1);
    dlk_grant_feed(&w.core, a.grant, w.now); /* late, but in time: sent at once */
    CHECK_EQ_INT(w.renewals, 2);
    world_answer(DLK_RENEW, DLK_YES);
    world_move(10000);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    end();
}

TEST(a_renewal_that_was_fed_for_and_failed_is_tried_again_without_more)
{
    world_open();
    dlk_terms fed = world_terms();
    fed.renewal = DLK_RENEW_FED;
    world_acquire_terms(&a, 1, 0, fed);
    world_answer(DLK_ACQUIRE, DLK_YES);
    dlk_grant_feed(&w.core, a.grant, w.now);
    world_move(3700);
    world_answer(DLK_RENEW, DLK_UNKNOWN);
    world_move(100);
    CHECK_EQ_INT(w.renewals, 2);
    world_answer(DLK_RENEW, DLK_YES);
    world_move(6000);
    CHECK_EQ_INT(w.renewals, 2); /* what was fed is used up */
    end();
}

TEST(at_max_hold_the_grant_ends_lost_however_well_it_was_renewed)
{
    world_open();
    dlk_terms brief = world_terms();
    brief.max_hold_ms = 15000;
    world_acquire_terms(&a, 1, 0, brief);
    world_answer(DLK_ACQUIRE, DLK_YES);
    for (int i = 0; i < 14; i++) {
        world_move(1000);
        if (world_asked(DLK_RENEW))
            world_answer(DLK_RENEW, DLK_YES);
        CHECK(lives(&a));
    }
    world_move(1001);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    CHECK_EQ_INT(w.releases, 1);
    end();
}

TEST(a_thread_that_lost_it_must_release_that_hold_before_it_contends_anew)
{
    world_open();
    CHECK(hold_by_a());
    world_move(3700);
    world_answer(DLK_RENEW, DLK_NOT_OURS);
    world_acquire(&b, 1, 0);
    CHECK_EQ_INT(b.code, DLOCK_ELOST);
    world_acquire(&c, 2, 0); /* another thread isn't concerned */
    world_held(100);
    CHECK_EQ_INT(c.code, DLOCK_EBUSY);
    world_release(&release, a.hold);
    CHECK_EQ_INT(release.code, DLOCK_ELOST);
    world_forget(&release);
    world_release(&release, a.hold);
    CHECK_EQ_INT(release.code, DLOCK_ENOTHELD);
    world_forget(&b);
    world_acquire(&b, 1, 0);
    CHECK(world_asked(DLK_ACQUIRE) != NULL);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    end();
}

/* ---- releasing ---- */

TEST(how_long_was_waited_and_held_is_counted)
{
    world_open();
    world_acquire(&a, 1, 5000);
    world_move(400);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(1000);
    world_release(&release, a.hold);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(w.core.stats.wait[DLK_WAITED_GRANTED].count, 1);
    CHECK_EQ_INT(w.core.stats.wait[DLK_WAITED_GRANTED].sum, 400 * MS);
    CHECK_EQ_INT(w.core.stats.hold.count, 1);
    CHECK_EQ_INT(w.core.stats.hold.sum, 1000 * MS);
    CHECK_EQ_INT(w.core.stats.grants, 1);
    CHECK_EQ_INT(w.core.stats.releases, 1);
    CHECK_EQ_INT(w.core.stats.releases_failed, 0);
    end();
}

TEST(requests_are_timed_by_what_they_ask_from_asking_to_their_end)
{
    world_open();
    const dlk_hist *request = w.core.stats.request;
    world_acquire(&a, 1, 60000);
    world_move(300);
    world_asked(DLK_ACQUIRE)->since -= 900 * MS; /* a lease may count from before */
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(request[DLK_ASKED_ACQUIRE].count, 1);
    CHECK_EQ_INT(request[DLK_ASKED_ACQUIRE].sum, 300 * MS);
    CHECK_EQ_INT(w.core.stats.unanswered, 0);
    dlk_grant_renew(&w.core, a.grant, w.now);
    world_move(20);
    world_answer(DLK_RENEW, DLK_UNKNOWN);
    CHECK_EQ_INT(request[DLK_ASKED_RENEWAL].count, 1);
    CHECK_EQ_INT(request[DLK_ASKED_RENEWAL].sum, 20 * MS);
    CHECK_EQ_INT(w.core.stats.unanswered, 1);
    dlk_grant_renew(&w.core, a.grant, w.now);
    CHECK(world_asked(DLK_RENEW) != NULL);
    world_answer(DLK_RENEW, DLK_NOT_SENT);
    CHECK_EQ_INT(request[DLK_ASKED_RENEWAL].count, 1); /* nothing was asked */
    world_release(&release, a.hold);
    world_move(7);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(request[DLK_ASKED_RELEASE].count, 1);
    CHECK_EQ_INT(request[DLK_ASKED_RELEASE].sum, 7 * MS);
    CHECK_EQ_INT(request[DLK_ASKED_OTHER].count, 0);
    end();
}

TEST(a_second_release_is_refused)
{
    world_open();
    CHECK(hold_by_a());
    world_release(&release, a.hold);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    CHECK_EQ_INT(a.grant->token, 1);
    world_release(&release, a.hold);
    CHECK_EQ_INT(release.code, DLOCK_ENOTHELD);
    end();
}

TEST(a_release_that_the_server_denies_was_lost)
{
    world_open();
    CHECK(hold_by_a());
    world_release(&release, a.hold);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    CHECK_EQ_INT(release.code, DLOCK_ELOST);
    end();
}

TEST(a_repeated_release_that_the_server_denies_had_worked)
{
    world_open();
    CHECK(hold_by_a());
    world_release(&release, a.hold);
    world_cut();
    world_move(20);
    world_back();
    CHECK(!release.over);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    end();
}

TEST(an_unanswered_release_is_unknown_to_the_caller_and_repeated_behind)
{
    world_open();
    CHECK(hold_by_a());
    world_release(&release, a.hold);
    world_cut();
    world_move(3001);
    CHECK_EQ_INT(release.code, DLOCK_EUNKNOWN);
    CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 1);
    world_back();
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 0);
    end();
}

TEST(a_release_is_given_up_only_when_the_lease_is_surely_over)
{
    world_open();
    CHECK(hold_by_a());
    world_release(&release, a.hold);
    world_cut();
    world_move(12000);
    CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 1);
    world_move(2000);
    CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 0);
    end();
}

TEST(a_release_that_is_refused_for_good_says_so_and_is_repeated)
{
    world_open();
    CHECK(hold_by_a());
    world_release(&release, a.hold);
    world_refuse(DLK_RELEASE, DLOCK_EUNAVAIL); /* for now */
    CHECK(!release.over);
    world_move(100);
    world_refuse(DLK_RELEASE, DLOCK_EACCES);
    CHECK(release.over);
    CHECK_EQ_INT(release.code, DLOCK_EACCES);
    CHECK_STR(release.error->text, "n: refused");
    CHECK_EQ_INT(w.core.stats.releases_failed, 1);
    world_move(200);
    CHECK_EQ_INT(w.releases, 3);
    end();
}

TEST(who_waits_for_a_release_when_all_ends_is_told_that_it_is_unknown)
{
    world_open();
    CHECK(hold_by_a());
    world_release(&release, a.hold);
    world_cut();
    dlk_core_close(&w.core, w.now);
    CHECK(!release.over);
    CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 1);
    dlk_core_stop(&w.core);
    CHECK(release.over);
    CHECK_EQ_INT(release.code, DLOCK_EUNKNOWN);
    CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 0);
    end();
}

TEST(the_next_acquire_goes_out_behind_an_unsent_release)
{
    world_open();
    CHECK(hold_by_a());
    world_cut();
    world_release(&release, a.hold);
    world_acquire(&b, 1, DLOCK_FOREVER);
    CHECK_EQ_INT(w.acquires, 1);
    world_back();
    CHECK(DLK_LIST_ITEM(dlk_list_first(&w.asked), dlk_ask, link)->verb == DLK_RELEASE);
    world_answer(DLK_RELEASE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    end();
}

TEST(an_asynchronous_release_answers_when_it_is_queued)
{
    world_open();
    dlk_terms async = world_terms();
    async.release_async = true;
    world_acquire_terms(&a, 1, 0, async);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_release(&release, a.hold);
    CHECK(release.over);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    CHECK_EQ_INT(w.core.stats.releases_failed, 1);
    end();
}

TEST(closing_ends_every_wait_and_gives_every_grant_back)
{
    world_open();
    CHECK(hold_by_a());
    world_acquire(&b, 2, DLOCK_FOREVER);
    dlk_core_close(&w.core, w.now);
    CHECK_EQ_INT(b.code, DLOCK_ECLOSED);
    CHECK(atomic_load(&a.hold->released));
    CHECK(world_asked(DLK_RELEASE) != NULL);
    world_acquire(&c, 3, DLOCK_FOREVER);
    CHECK_EQ_INT(c.code, DLOCK_ECLOSED);
    end();
}

TEST(a_notification_that_overtakes_the_answer_held_is_not_lost)
{
    world_open();
    world_acquire(&a, 1, DLOCK_FOREVER);
    dlk_core_notified(&w.core, &w.name->key, w.now);
    CHECK_EQ_INT(w.acquires, 1);
    world_held(60000);
    CHECK_EQ_INT(w.acquires, 2);
    world_held(60000);
    CHECK_EQ_INT(w.acquires, 2);
    end();
}
