/* What was given up while its request was under way, and is answered after all: whatever has been
 * confirmed before, what the request got goes back. Requests of one grant may go different ways, as
 * when a node of a cluster sends the acquire on and the release has gone to where it is sent. */
#include "harness/harness.h"
#include "util/error.h"
#include "world.h"

#include <string.h>

static dlk_wait a, b;

/* An acquire under way that nobody waits for any more, and its release under way. */
static void give_up(dlk_verb verb)
{
    world_open();
    if (verb == DLK_ACQUIRE) {
        world_acquire(&a, 0, 3000);
        dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    } else {
        a = (dlk_wait){
            .name = w.name, .owner = dlk_core_new_owner(&w.core), .terms = world_terms()};
        dlk_import_start(&w.core, &a, "somebody:7", dlk_clock_after(w.now, 3000), w.now);
        dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    }
}

static bool is_asked_for_both(dlk_verb verb)
{
    return a.over && world_asked(verb) && world_asked(DLK_RELEASE) &&
           world_asked(DLK_RELEASE)->undoes;
}

static void end(void)
{
    world_forget(&a);
    world_forget(&b);
    a = b = (dlk_wait){0};
    world_close();
}

/* Nothing is under way, and nothing comes. */
static bool is_over(void)
{
    int releases = w.releases;
    world_move(60000);
    return dlk_list_empty(&w.asked) && w.releases == releases && w.live_grants == 0;
}

static const dlk_verb both[] = {DLK_ACQUIRE, DLK_IMPORT};

TEST(a_grant_that_comes_after_its_release_was_confirmed_is_given_back)
{
    for (int i = 0; i < 2; i++) {
        give_up(both[i]);
        CHECK(is_asked_for_both(both[i]));
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        CHECK(world_asked(DLK_RELEASE) == NULL);
        CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 1); /* closing waits for it */
        world_answer(both[i], DLK_YES);
        CHECK(world_asked(DLK_RELEASE) != NULL);
        CHECK(!world_asked(DLK_RELEASE)->undoes);
        world_answer(DLK_RELEASE, DLK_YES);
        CHECK_EQ_INT(dlk_core_unconfirmed(&w.core), 0);
        CHECK(is_over());
        end();
    }
}

/* The answers came in another order than that in which both were done. */
TEST(a_grant_that_comes_before_a_release_that_found_nothing_is_given_back)
{
    for (int i = 0; i < 2; i++) {
        give_up(both[i]);
        world_answer(both[i], DLK_YES);
        CHECK_EQ_INT(w.releases, 1);
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        CHECK_EQ_INT(w.releases, 2);
        world_answer(DLK_RELEASE, DLK_YES);
        CHECK(is_over());
        end();
    }
}

TEST(a_grant_whose_release_found_it_is_given_back_once)
{
    for (int i = 0; i < 2; i++) {
        give_up(both[i]);
        world_answer(both[i], DLK_YES);
        world_answer(DLK_RELEASE, DLK_YES);
        CHECK_EQ_INT(w.releases, 1);
        CHECK(is_over());
        end();
    }
}

TEST(a_release_that_follows_the_grant_needs_to_find_nothing)
{
    give_up(DLK_ACQUIRE);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_refuse(DLK_RELEASE, DLOCK_EUNAVAIL);
    world_move(3000);
    CHECK(world_asked(DLK_RELEASE) != NULL); /* it was sent after the grant */
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    CHECK(is_over());
    end();
}

TEST(an_answer_that_is_lost_after_the_release_was_confirmed_needs_as_many_confirmations)
{
    for (int i = 0; i < 2; i++) {
        give_up(both[i]);
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        world_answer(both[i], DLK_UNKNOWN);
        for (int k = 0; k < 3; k++) {
            world_move(k ? 1000 : 0);
            CHECK(world_asked(DLK_RELEASE) != NULL);
            world_answer(DLK_RELEASE, DLK_NOT_OURS);
        }
        CHECK(is_over());
        end();
    }
}

TEST(a_place_in_line_that_comes_after_its_release_was_confirmed_is_given_back)
{
    for (int late = 0; late < 2; late++) {
        world_open();
        w.name->key.queues = true;
        world_acquire(&a, 0, 3000);
        dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
        if (late)
            world_answer(DLK_RELEASE, DLK_NOT_OURS);
        world_held(500);
        if (!late)
            world_answer(DLK_RELEASE, DLK_NOT_OURS);
        CHECK(world_asked(DLK_RELEASE) != NULL);
        world_answer(DLK_RELEASE, DLK_YES);
        CHECK(is_over());
        end();
    }
}

/* Each request has its own reason: what refused the one before says nothing of the one without an answer,
 * which may have got the lock. */
TEST(an_earlier_refusal_is_not_why_a_wait_ends_without_an_answer)
{
    static const dlock_err earlier[] = {DLOCK_EUNAVAIL, DLOCK_EQUORUM};
    for (int i = 0; i < 2; i++) {
        world_open();
        world_acquire(&a, 0, 3000);
        world_refuse(DLK_ACQUIRE, earlier[i]);
        world_move(1000);
        CHECK(world_asked(DLK_ACQUIRE) != NULL);
        world_move(2000);
        CHECK_EQ_INT(a.code, DLOCK_EUNKNOWN);
        CHECK(a.error && !strstr(a.error->text, "refused"));
        world_answer(DLK_ACQUIRE, DLK_NOT_SENT);
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        CHECK(is_over());
        end();
    }
}

/* It was done before the acquire that got the lock: what it has found was the place. */
TEST(a_release_that_may_have_found_only_the_place_in_line_is_not_the_grants)
{
    world_open();
    w.name->key.queues = true;
    world_acquire(&a, 0, 30000);
    world_held(500);
    world_move(600);
    CHECK(world_asked(DLK_ACQUIRE) != NULL);
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK(world_asked(DLK_RELEASE) != NULL);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK(is_over());
    end();
}

TEST(what_was_not_done_needs_no_other_release)
{
    static const dlk_reply replies[] = {DLK_HELD, DLK_NOT_SENT, DLK_NOT_OURS};
    for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++) {
        give_up(DLK_ACQUIRE);
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        world_answer(DLK_ACQUIRE, replies[i]);
        CHECK(is_over());
        end();
    }
    give_up(DLK_ACQUIRE);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    world_refuse(DLK_ACQUIRE, DLOCK_EACCES);
    CHECK(is_over());
    end();
}

TEST(a_grant_that_comes_between_confirmations_goes_back_at_once)
{
    world_open();
    world_acquire(&a, 0, 30000);
    world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
    world_move(3000);
    CHECK(world_asked(DLK_ACQUIRE) != NULL); /* once more, and given up then */
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    CHECK(world_asked(DLK_RELEASE) == NULL);
    world_answer(DLK_ACQUIRE, DLK_YES);
    for (int k = 0; k < 3; k++) {
        world_move(k ? 1000 : 0);
        CHECK(world_asked(DLK_RELEASE) != NULL);
        world_answer(DLK_RELEASE, k ? DLK_NOT_OURS : DLK_YES);
    }
    CHECK(is_over());
    end();
}

/* Whatever the order of the answers, the last release is sent after the last grant, or has found it. */
TEST(our_own_next_acquire_goes_out_behind_the_release_of_a_late_grant)
{
    give_up(DLK_ACQUIRE);
    world_answer(DLK_RELEASE, DLK_NOT_OURS);
    world_acquire(&b, 0, 3000);
    CHECK_EQ_INT(w.acquires, 2);
    world_answer(DLK_ACQUIRE, DLK_YES); /* the first one's */
    CHECK(world_asked(DLK_RELEASE) != NULL);
    world_held(-1);
    world_answer(DLK_RELEASE, DLK_YES);
    world_move(2000); /* it polls */
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    end();
}

/* … and a server that has stood still until the lease was over may have read that answer's request just
 * before it moved again, with the acquire behind it: one more, sent since, has to find nothing. */
TEST(an_answer_that_comes_when_the_lease_is_over_needs_one_more_to_be_believed)
{
    for (int i = 0; i < 2; i++) {
        give_up(both[i]);
        world_answer(both[i], DLK_UNKNOWN);
        CHECK(world_asked(DLK_RELEASE) != NULL);
        world_move(world_terms().ttl_ms + w.core.limits.timeout_ms + 1);
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        CHECK_EQ_INT(w.live_grants, 1);
        world_move(1000);
        CHECK(world_asked(DLK_RELEASE) != NULL);
        world_answer(DLK_RELEASE, DLK_NOT_OURS);
        CHECK(is_over());
        end();
    }
}
