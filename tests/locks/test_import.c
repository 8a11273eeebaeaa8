/* Handing on: what each answer to an import means, whatever has become of who asked for it, and
 * that a grant which is given away is never given back. */
#include "harness/harness.h"
#include "world.h"

#include "util/error.h"

#include <string.h>

#define GIVER "somebody:7"

static dlk_wait a, b, release;

static void start(dlk_wait *wait, int64_t wait_ms)
{
    *wait = (dlk_wait){
        .name = w.name, .owner = dlk_core_new_owner(&w.core), .terms = world_terms()};
    dlk_import_start(&w.core, wait, GIVER, dlk_clock_after(w.now, wait_ms), w.now);
}

/* The request of a wait of 3 s. */
static dlk_ask *begin(void)
{
    world_open();
    start(&a, 3000);
    return world_asked(DLK_IMPORT);
}

static void end(void)
{
    dlk_core_close(&w.core, w.now);
    if (release.name)
        dlk_release_detach(&w.core, &release, DLOCK_ECANCELED, w.now);
    dlk_wait *const waits[] = {&a, &b, &release};
    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
        world_forget(waits[i]);
        *waits[i] = (dlk_wait){0};
    }
    world_close();
}

static bool lives(const dlk_wait *wait)
{
    return wait->over && wait->code == DLOCK_OK &&
           dlk_grant_settle(&w.core, wait->grant, w.now);
}

/* The one that the core gives back now, or 0. */
static uint64_t given_back(void)
{
    const dlk_ask *give = world_asked(DLK_RELEASE);
    return give ? give->number : 0;
}

/* ---- What each answer means ---- */

TEST(an_import_names_the_giver_and_is_granted_with_validity_from_before_the_request)
{
    dlk_ask *ask = begin();
    CHECK(ask && ask->number != 0 && strcmp(ask->text, GIVER) == 0);
    CHECK_EQ_INT(ask->ttl_ms, 10000);
    world_move(300);
    world_answer(DLK_IMPORT, DLK_YES);
    CHECK(lives(&a));
    CHECK_EQ_INT(a.grant->token, 1);
    CHECK_EQ_INT(a.grant->lease.ends_at - w.now, (10000 - 100 - 2 - 300) * MS);
    world_release(&release, a.hold);
    CHECK(given_back() == a.grant->number);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    end();
}

TEST(what_was_imported_is_renewed_and_lost_as_any_grant)
{
    (void)begin();
    world_answer(DLK_IMPORT, DLK_YES);
    world_move(4000);
    CHECK(world_asked(DLK_RENEW) && world_asked(DLK_RENEW)->number == a.grant->number);
    world_answer(DLK_RENEW, DLK_NOT_OURS);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    end();
}

TEST(a_ticket_that_the_server_doesnt_know_is_not_held_and_nothing_is_given_back)
{
    static const dlk_reply replies[] = {DLK_NOT_OURS, DLK_HELD};
    for (int i = 0; i < 2; i++) {
        (void)begin();
        world_answer(DLK_IMPORT, replies[i]);
        CHECK(a.over && a.code == DLOCK_ENOTHELD && a.error && !a.hold);
        CHECK_EQ_INT(w.releases, 0);
        CHECK_EQ_INT(w.live_grants, 0);
        end();
    }
}

TEST(an_unanswered_import_is_repeated_under_its_number)
{
    uint64_t number = begin()->number;
    world_answer(DLK_IMPORT, DLK_UNKNOWN);
    CHECK(!a.over);
    world_move(200);
    dlk_ask *again = world_asked(DLK_IMPORT);
    CHECK(again && again->number == number && strcmp(again->text, GIVER) == 0);
    world_answer(DLK_IMPORT, DLK_YES);
    CHECK(lives(&a) && a.grant->number == number);
    end();
}

/* A service that says no more than whose it is may have set the lease for the first of them. */
TEST(a_lease_that_no_answer_vouches_for_is_counted_from_the_first_request)
{
    (void)begin();
    world_answer(DLK_IMPORT, DLK_UNKNOWN);
    world_move(2000);
    CHECK(world_asked(DLK_IMPORT) != NULL);
    w.found = true;
    world_answer(DLK_IMPORT, DLK_YES);
    CHECK(lives(&a));
    CHECK_EQ_INT(a.grant->lease.ends_at - w.now, (10000 - 100 - 2 - 2000) * MS);
    end();
}

TEST(a_first_request_that_the_server_refused_begins_no_lease)
{
    (void)begin();
    world_refuse(DLK_IMPORT, DLOCK_EUNAVAIL);
    world_move(2000);
    int64_t asked = world_asked(DLK_IMPORT)->since;
    w.found = true;
    world_answer(DLK_IMPORT, DLK_YES);
    CHECK(lives(&a));
    CHECK_EQ_INT(a.grant->lease.ends_at, asked + (10000 - 100 - 2) * MS);
    end();
}

TEST(an_import_whose_undoing_may_come_late_is_unknown_and_given_back)
{
    uint64_t number = begin()->number;
    world_asked(DLK_IMPORT)->spent = true;
    world_answer(DLK_IMPORT, DLK_UNKNOWN);
    CHECK_EQ_INT(a.code, DLOCK_EUNKNOWN);
    CHECK(given_back() == number);
    world_move(200);
    CHECK(!world_asked(DLK_IMPORT));
    end();
}

/* The server knows a number that has imported already, so "no" is the truth about both. */
TEST(a_repeat_that_the_server_denies_means_that_neither_was_done)
{
    (void)begin();
    world_answer(DLK_IMPORT, DLK_UNKNOWN);
    world_move(200);
    world_answer(DLK_IMPORT, DLK_NOT_OURS);
    CHECK_EQ_INT(a.code, DLOCK_ENOTHELD);
    CHECK_EQ_INT(w.releases, 0);
    end();
}

TEST(a_definite_refusal_ends_it_and_one_for_now_does_not)
{
    (void)begin();
    world_refuse(DLK_IMPORT, DLOCK_EUNAVAIL);
    CHECK(!a.over);
    world_move(200);
    world_refuse(DLK_IMPORT, DLOCK_EACCES);
    CHECK(a.over && a.code == DLOCK_EACCES && dlock_error_code(a.error) == DLOCK_EACCES);
    CHECK_EQ_INT(w.releases, 0);
    end();
}

TEST(a_refusal_after_an_unanswered_import_gives_back_what_that_may_have_got)
{
    uint64_t number = begin()->number;
    world_answer(DLK_IMPORT, DLK_UNKNOWN);
    world_move(200);
    world_refuse(DLK_IMPORT, DLOCK_ECONFLICT);
    CHECK_EQ_INT(a.code, DLOCK_ECONFLICT);
    CHECK(given_back() == number);
    end();
}

TEST(what_comes_after_the_lease_is_unknown_and_given_back)
{
    world_open();
    start(&a, 60000);
    uint64_t number = world_asked(DLK_IMPORT)->number;
    world_move(9999);
    world_answer(DLK_IMPORT, DLK_YES);
    CHECK(a.over && a.code == DLOCK_EUNKNOWN && !a.hold);
    CHECK(given_back() == number);
    end();
}

/* ---- Given up meanwhile ---- */

static uint64_t give_up(int how)
{
    uint64_t number = begin()->number;
    if (how == 0)
        dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    else if (how == 1)
        world_move(3001);
    else
        dlk_core_close(&w.core, w.now);
    return number;
}

TEST(whoever_gives_up_is_told_at_once_and_the_number_is_given_back)
{
    static const dlock_err codes[] = {DLOCK_ECANCELED, DLOCK_EUNKNOWN, DLOCK_ECLOSED};
    static const dlk_reply late[] = {DLK_YES, DLK_NOT_OURS, DLK_UNKNOWN};
    static const char *const texts[] = {"n: the import was cancelled",
                                        "n: sent, and not answered",
                                        "n: the client was closed"};
    for (int how = 0; how < 3; how++)
        for (int i = 0; i < 3; i++) {
            uint64_t number = give_up(how);
            CHECK(a.over && a.code == codes[how] && a.error && !a.hold);
            CHECK_STR(a.error->text, texts[how]);
            CHECK(given_back() == number); /* behind the request, which it undoes */
            world_answer(DLK_IMPORT, late[i]);
            CHECK(!a.hold);
            world_answer(DLK_RELEASE, late[i] == DLK_YES ? DLK_YES : DLK_NOT_OURS);
            if (how < 2) {
                world_move(3000); /* once more, if the request may still be under way */
                CHECK((given_back() == number) == (late[i] == DLK_UNKNOWN));
            }
            end();
        }
}

TEST(a_cancel_after_the_import_changes_nothing)
{
    (void)begin();
    world_answer(DLK_IMPORT, DLK_YES);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK(lives(&a));
    CHECK_EQ_INT(w.releases, 0);
    end();
}

TEST(an_import_of_a_closed_client_is_refused)
{
    world_open();
    dlk_core_close(&w.core, w.now);
    start(&a, 1000);
    CHECK(a.over && a.code == DLOCK_ECLOSED && a.error);
    CHECK(world_asked(DLK_IMPORT) == NULL);
    end();
}

/* ---- The link ---- */

TEST(without_a_link_it_waits_and_goes_out_with_the_link)
{
    world_open();
    world_cut();
    start(&a, 3000);
    CHECK(!a.over && world_asked(DLK_IMPORT) == NULL);
    world_move(1000);
    world_back();
    CHECK(world_asked(DLK_IMPORT) != NULL);
    world_answer(DLK_IMPORT, DLK_YES);
    CHECK(lives(&a));
    end();
}

TEST(without_a_link_to_the_end_it_is_unavailable_and_leaves_nothing)
{
    world_open();
    world_cut();
    start(&a, 500);
    world_move(501);
    CHECK_EQ_INT(a.code, DLOCK_EUNAVAIL);
    CHECK_EQ_INT(w.live_grants, 0);
    world_back();
    CHECK_EQ_INT(w.releases, 0);
    end();
}

TEST(a_cut_makes_it_unknown_and_the_same_number_asks_again)
{
    uint64_t number = begin()->number;
    world_cut();
    CHECK(!a.over);
    world_move(500);
    world_back();
    CHECK(world_asked(DLK_IMPORT) && world_asked(DLK_IMPORT)->number == number);
    world_cut();
    world_move(3000);
    CHECK_EQ_INT(a.code, DLOCK_EUNKNOWN);
    world_back();
    CHECK(given_back() == number);
    end();
}

TEST(a_link_that_is_down_for_good_ends_it_with_the_reason)
{
    static const bool asked[] = {false, true};
    for (int i = 0; i < 2; i++) {
        world_open();
        dlock_error *why = dlk_error_make(DLOCK_EACCES, "no right");
        if (!asked[i])
            world_cut();
        start(&a, 3000);
        if (asked[i])
            world_answer(DLK_IMPORT, DLK_UNKNOWN);
        dlk_core_link(&w.core, false, why, w.now);
        CHECK(a.over && a.code == DLOCK_EACCES);
        CHECK_EQ_INT(w.live_grants, asked[i]);
        dlk_error_clear(&why);
        end();
    }
}

TEST(an_import_is_no_contender_and_blocks_none)
{
    (void)begin();
    world_acquire(&b, 2, 60000);
    CHECK(world_asked(DLK_ACQUIRE) != NULL);
    world_held(500);
    world_answer(DLK_IMPORT, DLK_YES);
    CHECK(lives(&a) && !b.over);
    world_release(&release, a.hold);
    world_answer(DLK_RELEASE, DLK_YES);
    dlk_core_notified(&w.core, &w.name->key, w.now);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(lives(&b));
    end();
}

/* ---- Giving away ---- */

static void hold_it(void)
{
    world_open();
    w.name->key.hands_on = true;
    world_acquire(&a, 1, 5000);
    world_answer(DLK_ACQUIRE, DLK_YES);
}

TEST(an_exported_grant_is_released_here_and_stays_at_the_server)
{
    hold_it();
    CHECK_EQ_INT(dlk_export(&w.core, a.hold, w.now), DLOCK_OK);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_RELEASED);
    CHECK_EQ_INT(dlk_export(&w.core, a.hold, w.now), DLOCK_ENOTHELD);
    world_release(&release, a.hold);
    CHECK_EQ_INT(release.code, DLOCK_ENOTHELD);
    world_move(20000);
    CHECK_EQ_INT(w.releases, 0);
    CHECK_EQ_INT(w.renewals, 0);
    CHECK_EQ_INT(w.states[DLOCK_LOST], 0);
    dlk_core_close(&w.core, w.now);
    CHECK_EQ_INT(w.releases, 0);
    end();
}

TEST(a_renewal_under_way_brings_an_exported_grant_neither_back_nor_to_a_loss)
{
    static const dlk_reply replies[] = {DLK_YES, DLK_NOT_OURS, DLK_UNKNOWN};
    for (int i = 0; i < 3; i++) {
        hold_it();
        world_move(4000);
        CHECK(world_asked(DLK_RENEW) != NULL);
        CHECK_EQ_INT(dlk_export(&w.core, a.hold, w.now), DLOCK_OK);
        CHECK_EQ_INT(dlk_core_next(&w.core),
                     DLK_NEVER); /* nobody minds its lease any more */
        world_answer(DLK_RENEW, replies[i]);
        CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_RELEASED);
        world_move(20000);
        CHECK_EQ_INT(w.renewals, 1);
        CHECK_EQ_INT(w.releases, 0);
        CHECK_EQ_INT(w.states[DLOCK_LOST], 0);
        end();
    }
}

TEST(who_waits_here_asks_when_the_grant_was_given_away)
{
    hold_it();
    world_acquire(&b, 2, 60000);
    CHECK(world_asked(DLK_ACQUIRE) == NULL);
    CHECK_EQ_INT(dlk_export(&w.core, a.hold, w.now), DLOCK_OK);
    CHECK(world_asked(DLK_ACQUIRE) != NULL);
    world_held(9000);
    CHECK(!b.over);
    end();
}

TEST(what_cant_be_given_away_stays_as_it_is)
{
    hold_it();
    w.name->key.hands_on = false;
    CHECK_EQ_INT(dlk_export(&w.core, a.hold, w.now), DLOCK_ENOTSUP);
    w.name->key.hands_on = true;
    world_acquire(&b, 1, 0); /* once more by the same thread */
    CHECK_EQ_INT(dlk_export(&w.core, a.hold, w.now), DLOCK_EBUSY);
    CHECK(lives(&a));
    world_release(&release, b.hold);
    world_move(4000);
    world_answer(DLK_RENEW, DLK_NOT_OURS);
    CHECK_EQ_INT(dlk_export(&w.core, a.hold, w.now), DLOCK_ELOST);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_LOST);
    end();
}

/* ---- Where the service has to be told ---- */

static void hold_and_export(void)
{
    hold_it();
    w.name->key.told_exports = true;
    (void)dlk_export(&w.core, a.hold, w.now);
}

TEST(an_export_that_is_told_is_no_release_and_no_loss)
{
    hold_and_export();
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_RELEASED);
    const dlk_ask *told = world_asked(DLK_RELEASE);
    CHECK(told && told->exported && told->number == a.grant->number && !told->next);
    CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 1); /* so a close waits for it */
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 0);
    world_move(20000);
    CHECK_EQ_INT(w.releases, 1);
    CHECK_EQ_INT(w.states[DLOCK_LOST], 0);
    end();
    hold_it(); /* what is released is given back as ever */
    w.name->key.told_exports = true;
    world_release(&release, a.hold);
    CHECK(world_asked(DLK_RELEASE) && !world_asked(DLK_RELEASE)->exported);
    end();
}

TEST(an_export_is_told_again_until_the_service_has_heard_it)
{
    static const dlk_reply silent[] = {DLK_UNKNOWN, DLK_NOT_SENT};
    for (int i = 0; i < 2; i++) {
        hold_and_export();
        world_answer(DLK_RELEASE, silent[i]);
        world_move(200);
        CHECK(world_asked(DLK_RELEASE) && world_asked(DLK_RELEASE)->exported);
        world_cut();
        world_back();
        CHECK(world_asked(DLK_RELEASE) && world_asked(DLK_RELEASE)->exported);
        world_answer(DLK_RELEASE, DLK_NOT_OURS); /* imported meanwhile */
        CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 0);
        CHECK_EQ_INT(w.states[DLOCK_LOST], 0);
        end();
    }
}

TEST(who_waits_here_asks_behind_an_export_that_is_told_and_goes_along_with_none)
{
    hold_it();
    w.name->key.told_exports = w.name->key.passes = true;
    world_acquire(&b, 2, 60000);
    CHECK_EQ_INT(dlk_export(&w.core, a.hold, w.now), DLOCK_OK);
    CHECK(world_asked(DLK_RELEASE) && world_asked(DLK_RELEASE)->next == 0);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK(world_asked(DLK_ACQUIRE) != NULL);
    world_held(9000);
    CHECK(!b.over);
    end();
}
