/* Open turns of a mutex that is handed over: now and then it is put up for all. Where it matters how
 * long one lasts, the server's clock stands still, and the test moves it. */
#include "handover.h"
#include "harness/server_clock.h"

#define MARK     "dlock_open:{L}"
#define GRACE_MS 5 /* those of scripts/open_turn.lua */
#define REST_MS  100

static server_clock its_clock;

#define SETUP_WITH_CLOCK()                                                               \
    do {                                                                                 \
        if (!redis_server_available() || !server_clock_start(&its_clock, &server))       \
            return;                                                                      \
        CHECK(open_clients());                                                           \
        server_clock_stop(&its_clock);                                                   \
    } while (0)

static void teardown_with_clock(void)
{
    teardown();
    server_clock_end(&its_clock);
}

/* Hands it on to the seven that follow: the next time is due to be an open turn. */
static bool pass_seven_times(uint64_t first)
{
    for (uint64_t i = first; i < first + 7; i++)
        if (pass(A, i, i + 1).next_reply != DLK_YES)
            return false;
    return true;
}

/* As a turn has left it. */
static void set_mark(const char *text)
{
    redis_server_call(&server, "SET " MARK " \"%s\" PX %d", text, GRACE_MS + REST_MS);
}

TEST(every_eighth_hand_over_is_put_up_for_all_when_others_listen)
{
    SETUP();
    CHECK(listens(A) && listens(C)); /* C is not in the line: it might be Redisson */
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    int before = A->w.notices;
    CHECK(pass_seven_times(1));
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
    SETUP_WITH_CLOCK();
    CHECK(listens(A) && listens(B) && listens(C));
    for (int round = 0; round < 2; round++) {
        uint64_t base = 20 * (uint64_t)round + 1;
        CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, base), DLK_YES);
        CHECK(pass_seven_times(base));
        int before = A->w.notices;
        CHECK_EQ_INT(pass(A, base + 7, base + 8).next_reply, DLK_HELD);
        ROUNDS_UNTIL(&A->w, A->w.notices > before);
        dlk_ask ask = world_make(&A->w, DLK_ACQUIRE, A->key, base + 8);
        world_ask(&A->w, &ask);
        CHECK_EQ_INT(world_await(&A->w, &ask), DLK_HELD);
        CHECK_EQ_INT(ask.wait_ms, GRACE_MS);
        CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, base + 9),
                     DLK_HELD); /* nobody of ours comes in */
        CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
        if (round == 0) {
            server_clock_move(&its_clock, GRACE_MS); /* it is over, in vain */
        } else {
            before = A->w.notices;
            redis_server_call(&server, "PUBLISH " CHANNEL " 0"); /* others have had it */
            ROUNDS_UNTIL(&A->w, A->w.notices > before);
        }
        CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, base + 8), DLK_YES);
        CHECK_EQ_INT(do_it(B, DLK_RELEASE, base + 9), DLK_YES);
        CHECK_EQ_INT(do_it(A, DLK_RELEASE, base + 8), DLK_YES);
        CHECK_EQ_INT(number_from("EXISTS " MARK), round == 0);
        server_clock_move(&its_clock, REST_MS + 1); /* a key is still there at its end */
        CHECK(nothing_is_left());
    }
    teardown_with_clock();
}

TEST(no_turn_is_open_when_all_who_listen_are_in_the_line_or_the_last_was_in_vain)
{
    SETUP_WITH_CLOCK();
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
    set_mark("in vain");
    for (uint64_t i = 40; i < 60; i++) {
        redis_server_call(&server, "DEL " QUEUE);
        CHECK_EQ_INT(pass(A, i, i + 1).next_reply, DLK_YES);
    }
    teardown_with_clock();
}

/* ---- A clock that is set back makes a mark last longer ---- */

static const struct {
    const char *mark;
    int64_t back_ms;
} set_back[] = {{"", 1000}, {"", 3600000}, {"in vain", 1000}, {"in vain", 3600000}};
enum { SET_BACKS = sizeof(set_back) / sizeof(set_back[0]) };

TEST(a_mark_that_a_clock_set_back_made_last_holds_nobody_back)
{
    SETUP_WITH_CLOCK();
    for (size_t i = 0; i < SET_BACKS; i++) {
        set_mark(set_back[i].mark);
        server_clock_move(&its_clock, -set_back[i].back_ms);
        CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 2 * i + 1), DLK_YES);
        CHECK_EQ_INT(do_it(B, DLK_RELEASE, 2 * i + 1), DLK_YES);
        CHECK(nothing_is_left());
    }
    teardown_with_clock();
}

/* Within one client no acquire comes by that would take it away. */
TEST(a_mark_that_a_clock_set_back_made_last_keeps_no_turn_from_being_open)
{
    SETUP_WITH_CLOCK();
    CHECK(listens(A) && listens(C)); /* C is not in the line: it might be Redisson */
    for (size_t i = 0; i < SET_BACKS; i++) {
        uint64_t base = 20 * (uint64_t)i + 1;
        CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, base), DLK_YES);
        CHECK(pass_seven_times(base));
        set_mark(set_back[i].mark);
        server_clock_move(&its_clock, -set_back[i].back_ms);
        CHECK_EQ_INT(pass(A, base + 7, base + 8).next_reply, DLK_HELD);
        CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
        CHECK_STR(redis_server_call(&server, "PTTL " MARK), "105");
        CHECK_EQ_INT(do_it(A, DLK_RELEASE, base + 8), DLK_YES);
        server_clock_move(&its_clock, GRACE_MS + REST_MS + 1);
        CHECK(nothing_is_left());
    }
    teardown_with_clock();
}
