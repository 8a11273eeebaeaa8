/* Open turns of a mutex that is handed over: now and then it is put up for all. */
#include "handover.h"

#include <string.h>

TEST(every_eighth_hand_over_is_put_up_for_all_when_others_listen)
{
    SETUP();
    CHECK(listens(A) && listens(C)); /* C is not in the line: it might be Redisson */
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    int before = A->w.notices;
    for (uint64_t i = 1; i < 8; i++)
        CHECK_EQ_INT(pass(A, i, i + 1).next_reply, DLK_YES);
    CHECK_EQ_INT(A->w.notices, before);
    dlk_ask open = pass(A, 8, 9);
    CHECK_EQ_INT(open.next_reply, DLK_HELD);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    CHECK(line_is(owner(A, 9), ""));
    ROUNDS_UNTIL(&A->w, A->w.notices > before); /* on Redisson's channel */
    /* A waiter of Redisson's would come now; its script knows no line. */
    redis_server_call(&server, "HSET L 11111111-2222-3333-4444-555555555555:1 1");
    redis_server_call(&server, "PEXPIRE L 30000");
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 9), DLK_HELD);
    redis_server_call(&server, "DEL L");
    before = A->w.notices;
    redis_server_call(&server, "PUBLISH " CHANNEL " 0");
    ROUNDS_UNTIL(&A->w, A->w.notices > before);
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 9), DLK_YES);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 9), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

TEST(the_count_of_hand_overs_goes_from_client_to_client)
{
    SETUP();
    CHECK(listens(A) && listens(B) && listens(C));
    client *mine = A, *other = B;
    CHECK_EQ_INT(do_it(mine, DLK_ACQUIRE, 1), DLK_YES);
    for (uint64_t i = 1; i < 8; i++) {
        int before = other->w.notices;
        CHECK_EQ_INT(do_it(other, DLK_ACQUIRE, i + 1), DLK_HELD);
        CHECK_EQ_INT(do_it(mine, DLK_RELEASE, i), DLK_YES);
        CHECK_STR(holder(), owner(other, i + 1));
        ROUNDS_UNTIL(&other->w, other->w.notices > before);
        CHECK_EQ_INT(do_it(other, DLK_ACQUIRE, i + 1), DLK_YES);
        client *was = mine;
        mine = other;
        other = was;
    }
    CHECK_EQ_INT(do_it(other, DLK_ACQUIRE, 9), DLK_HELD);
    CHECK_EQ_INT(do_it(mine, DLK_RELEASE, 8), DLK_YES);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0"); /* put up, not passed on */
    CHECK(line_is(owner(other, 9), ""));
    teardown();
}

TEST(in_an_open_turn_ours_hold_back_for_a_moment_or_until_others_had_it)
{
    SETUP();
    CHECK(listens(A) && listens(B) && listens(C));
    for (int round = 0; round < 2; round++) {
        uint64_t base = 20 * (uint64_t)round + 1;
        CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, base), DLK_YES);
        for (uint64_t i = base; i < base + 7; i++)
            CHECK_EQ_INT(pass(A, i, i + 1).next_reply, DLK_YES);
        int before = A->w.notices;
        CHECK_EQ_INT(pass(A, base + 7, base + 8).next_reply, DLK_HELD);
        ROUNDS_UNTIL(&A->w, A->w.notices > before);
        /* A long moment. Its own may be over already. */
        redis_server_call(&server, "SET dlock_open:{L} \"\" PX 20000");
        dlk_ask ask = world_make(&A->w, DLK_ACQUIRE, A->key, base + 8);
        world_ask(&A->w, &ask);
        CHECK_EQ_INT(world_await(&A->w, &ask), DLK_HELD);
        CHECK(ask.wait_ms > 10000 && ask.wait_ms < 20000);
        CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, base + 9),
                     DLK_HELD); /* nobody of ours comes in */
        CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
        if (round == 0) {
            redis_server_call(&server,
                              "PEXPIRE dlock_open:{L} 90"); /* it is over, in vain */
        } else {
            before = A->w.notices;
            redis_server_call(&server, "PUBLISH " CHANNEL " 0"); /* others have had it */
            ROUNDS_UNTIL(&A->w, A->w.notices > before);
        }
        CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, base + 8), DLK_YES);
        CHECK_EQ_INT(do_it(B, DLK_RELEASE, base + 9), DLK_YES);
        CHECK_EQ_INT(do_it(A, DLK_RELEASE, base + 8), DLK_YES);
        ROUNDS_UNTIL(&A->w, number_from("EXISTS dlock_open:{L}") == 0);
    }
    CHECK(nothing_is_left());
    teardown();
}

TEST(no_turn_is_open_when_all_who_listen_are_in_the_line_or_the_last_was_in_vain)
{
    SETUP();
    CHECK(listens(A) && listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 100), DLK_HELD);
    for (uint64_t i = 1; i < 40; i++) {
        redis_server_call(&server, "RENAME " QUEUE " out"); /* a run of ours alone */
        redis_server_call(&server,
                          "RPUSH " QUEUE " 00000000-dead-4000-8000-000000000000:9");
        CHECK_EQ_INT(pass(A, i, i + 1).next_reply, DLK_YES);
        redis_server_call(&server, "RENAME out " QUEUE);
    }
    CHECK(listens(C)); /* somebody else, but an open turn has just been in vain */
    redis_server_call(&server, "SET dlock_open:{L} x PX 600000");
    for (uint64_t i = 40; i < 60; i++) {
        redis_server_call(&server, "DEL " QUEUE);
        CHECK_EQ_INT(pass(A, i, i + 1).next_reply, DLK_YES);
    }
    teardown();
}

TEST(a_mark_that_a_clock_set_back_made_last_for_an_hour_holds_nobody_back)
{
    SETUP();
    redis_server_call(&server, "SET dlock_open:{L} \"\" PX 3600000");
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}
