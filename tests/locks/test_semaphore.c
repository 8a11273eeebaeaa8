/* Permits: every acquire is a grant of its own, several of one client at a time, of different
 * sizes; the requests still go out one by one, in the order of the owners. */
#include "harness/harness.h"
#include "world.h"

#include <string.h>

static dlk_wait a, b, c, release;

static void begin(void)
{
    world_open();
    w.name->key.kind = DLOCK_SEMAPHORE;
}

static void end(void)
{
    dlk_core_close(&w.core, w.now);
    dlk_wait *const waits[] = {&a, &b, &c, &release};
    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
        world_forget(waits[i]);
        *waits[i] = (dlk_wait){0};
    }
    w.name->key.kind = DLOCK_MUTEX;
    world_close();
}

static void want(dlk_wait *wait, int32_t take, int64_t wait_ms)
{
    dlk_terms terms = world_terms();
    terms.take = take;
    world_acquire_terms(wait, 0, wait_ms, terms);
}

static int32_t asked_for(void)
{
    const dlk_ask *ask = world_asked(DLK_ACQUIRE);
    return ask ? ask->take : 0;
}

TEST(a_client_may_have_several_permits_each_a_grant_of_its_own)
{
    begin();
    want(&a, 1, 1000);
    want(&b, 2, 1000);
    CHECK_EQ_INT(w.acquires, 1); /* the second one's turn comes with the answer */
    uint64_t first = world_asked(DLK_ACQUIRE)->number;
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    CHECK(!b.over);
    CHECK_EQ_INT(w.acquires, 2);
    CHECK_EQ_INT(asked_for(), 2);
    CHECK(world_asked(DLK_ACQUIRE)->number != first);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(b.over && b.code == DLOCK_OK);
    world_release(&release, b.hold);
    CHECK_EQ_INT(world_asked(DLK_RELEASE)->take, 2);
    world_answer(DLK_RELEASE, DLK_YES);
    CHECK_EQ_INT(release.code, DLOCK_OK);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_HELD);
    end();
}

TEST(a_renewal_names_as_many_permits_as_were_taken)
{
    begin();
    want(&a, 3, 1000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_move(4000);
    CHECK(world_asked(DLK_RENEW) != NULL);
    CHECK_EQ_INT(world_asked(DLK_RENEW)->take, 3);
    end();
}

TEST(a_permit_of_ours_blocks_nobody_here)
{
    begin();
    want(&a, 1, 1000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    want(&b, 1, 0); /* the server decides, not we */
    CHECK(!b.over);
    CHECK_EQ_INT(w.acquires, 2);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    end();
}

TEST(tries_at_a_time_are_all_asked_for)
{
    begin();
    want(&a, 1, 0);
    want(&b, 1, 0);
    want(&c, 1, 0);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(a.over && !b.over && !c.over);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(b.over && !c.over);
    world_held(5000);
    CHECK_EQ_INT(a.code, DLOCK_OK);
    CHECK_EQ_INT(b.code, DLOCK_OK);
    CHECK_EQ_INT(c.code, DLOCK_EBUSY);
    end();
}

TEST(a_try_for_as_many_shares_the_answer_and_one_for_fewer_asks_itself)
{
    begin();
    want(&a, 3, 0);
    want(&b, 3, 0);
    want(&c, 2, 0);
    world_held(5000);
    CHECK(a.over && a.code == DLOCK_EBUSY);
    CHECK(b.over && b.code == DLOCK_EBUSY);
    CHECK(!c.over);
    CHECK_EQ_INT(w.acquires, 2);
    CHECK_EQ_INT(asked_for(), 2);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK_EQ_INT(c.code, DLOCK_OK);
    CHECK_EQ_INT(w.releases, 0); /* the refused attempt has nothing to give back */
    end();
}

TEST(nobody_overtakes_an_owner_who_waits_for_more)
{
    begin();
    want(&a, 3, 10000);
    want(&b, 1, 0); /* while the request is under way */
    world_held(5000);
    CHECK(!a.over);
    CHECK(b.over && b.code == DLOCK_EBUSY);
    want(&c, 1, 0); /* and while it waits */
    CHECK(c.over && c.code == DLOCK_EBUSY);
    CHECK_EQ_INT(w.acquires, 1);
    end();
}

TEST(a_message_serves_as_many_as_there_are_permits)
{
    begin();
    want(&a, 1, 10000);
    want(&b, 1, 10000);
    want(&c, 1, 10000);
    world_held(5000);
    CHECK_EQ_INT(w.acquires, 1);
    dlk_core_notified(&w.core, &w.name->key, w.now);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    world_held(5000);
    CHECK(a.over && a.code == DLOCK_OK);
    CHECK(b.over && b.code == DLOCK_OK);
    CHECK(!c.over);
    CHECK_EQ_INT(w.acquires, 4);
    end();
}

TEST(a_cancelled_heads_request_goes_back_when_the_next_one_wants_another_number)
{
    begin();
    want(&a, 3, 10000);
    want(&b, 1, 10000);
    uint64_t number = world_asked(DLK_ACQUIRE)->number;
    dlk_acquire_cancel(&w.core, &a, DLOCK_ECANCELED, w.now);
    CHECK(a.over && a.code == DLOCK_ECANCELED);
    CHECK_EQ_INT(w.releases, 1);
    CHECK_EQ_INT(world_asked(DLK_RELEASE)->take, 3);
    CHECK(world_asked(DLK_RELEASE)->number == number);
    world_answer(DLK_ACQUIRE, DLK_YES); /* it came too late: the release is behind it */
    CHECK(!b.over);
    CHECK_EQ_INT(asked_for(), 1);
    world_answer(DLK_RELEASE, DLK_YES);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(b.over && b.code == DLOCK_OK);
    CHECK(b.grant->number != number);
    end();
}

TEST(a_head_that_waited_in_vain_makes_room_for_a_smaller_wish)
{
    begin();
    want(&a, 3, 2000);
    want(&b, 1, 10000);
    world_held(-1);
    world_move(1500); /* it has asked once more */
    world_held(-1);
    world_move(600);
    CHECK(a.over && a.code == DLOCK_ETIMEDOUT);
    CHECK_EQ_INT(w.releases, 0); /* it was behind: nothing is ours */
    CHECK_EQ_INT(asked_for(), 1);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(b.over && b.code == DLOCK_OK);
    end();
}

TEST(a_refusal_ends_the_wish_it_was_for_and_no_other)
{
    begin();
    want(&a, 9, 10000);
    want(&b, 1, 10000);
    world_refuse(DLK_ACQUIRE, DLOCK_EINVAL); /* more than there are */
    CHECK(a.over && a.code == DLOCK_EINVAL);
    CHECK(!b.over);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(b.over && b.code == DLOCK_OK);
    end();
}

TEST(an_unknown_answer_is_repeated_under_its_number_beside_a_permit_that_is_held)
{
    begin();
    want(&a, 1, 10000);
    world_answer(DLK_ACQUIRE, DLK_YES);
    want(&b, 2, 10000);
    uint64_t number = world_asked(DLK_ACQUIRE)->number;
    world_answer(DLK_ACQUIRE, DLK_UNKNOWN);
    CHECK(!b.over);
    world_move(200);
    CHECK(world_asked(DLK_ACQUIRE) != NULL);
    CHECK(world_asked(DLK_ACQUIRE)->number == number);
    CHECK_EQ_INT(asked_for(), 2);
    world_answer(DLK_ACQUIRE, DLK_YES);
    CHECK(b.over && b.code == DLOCK_OK);
    CHECK_EQ_INT(dlk_grant_state(a.grant), DLOCK_HELD);
    end();
}
