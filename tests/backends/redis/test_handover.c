/* Hand-over decided by the server, step by step: two or three clients, driven by hand, and what
 * lies on the server after each. Open turns are in test_open_turn.c. */
#include "handover.h"

#include <string.h>

/* ---- To the next owner of the same client ---- */

TEST(a_release_passes_the_lock_to_the_next_of_its_client_in_one_step)
{
    SETUP();
    int64_t first;
    CHECK_EQ_INT(world_do(&A->w, DLK_ACQUIRE, A->key, 1, &first), DLK_YES);
    redis_server_call(&server, "PEXPIRE L 5000");
    int64_t commands = A->w.host.commands;
    dlk_ask ask = pass(A, 1, 2);
    CHECK_EQ_INT(ask.reply, DLK_YES);
    CHECK_EQ_INT(ask.next_reply, DLK_YES);
    CHECK(ask.token > first);
    CHECK_EQ_INT(A->w.host.commands - commands, 1);
    CHECK_STR(redis_server_call(&server, "HGETALL L"),
              strcat(strcpy((char[100]){0}, owner(A, 2)), " 1"));
    CHECK(number_from("PTTL L") > 8000);
    CHECK_EQ_INT(number_from("GET redisson_lock_token:{L}"), ask.token);
    CHECK_EQ_INT(do_it(A, DLK_VERIFY, 2), DLK_YES);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_NOT_OURS); /* repeated */
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 2), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

TEST(a_lease_of_the_next_is_its_own)
{
    SETUP();
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    dlk_ask ask = world_make(&A->w, DLK_RELEASE, A->key, 1);
    ask.next = 2;
    ask.ttl_ms = 60000;
    world_ask(&A->w, &ask);
    CHECK_EQ_INT(world_await(&A->w, &ask), DLK_YES);
    CHECK(number_from("PTTL L") > 55000);
    teardown();
}

/* ---- To the first in the line ---- */

TEST(who_waits_stands_in_the_line_once_and_has_the_lock_after_its_claim)
{
    SETUP();
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK(listens(B));
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK(line_is(owner(B, 5), ""));
    CHECK(number_from("PTTL " QUEUE) > 5000);
    int before = B->w.notices;
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK_STR(holder(), owner(B, 5)); /* reserved … */
    int64_t token = number_from("GET redisson_lock_token:{L}"), claimed;
    CHECK(line_is("", ""));
    ROUNDS_UNTIL(&B->w, B->w.notices > before); /* … told … */
    CHECK_EQ_INT(world_do(&B->w, DLK_ACQUIRE, B->key, 5, &claimed), DLK_YES);
    CHECK(number_from("PTTL L") > 8000); /* … and its own for the whole lease */
    CHECK_EQ_INT(claimed, token);
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

TEST(nobody_stands_in_the_line_before_its_client_is_heard_or_when_it_only_tries)
{
    SETUP();
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK(line_is("", ""));
    CHECK(listens(B));
    dlk_ask once = world_make(&B->w, DLK_ACQUIRE, B->key, 6);
    once.once = true;
    world_ask(&B->w, &once);
    CHECK_EQ_INT(world_await(&B->w, &once), DLK_HELD);
    CHECK(line_is("", ""));
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

TEST(the_line_is_first_come_first_served)
{
    SETUP();
    CHECK(listens(B) && listens(C));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 7), DLK_HELD);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 7), DLK_HELD); /* keeps its place */
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK_STR(holder(), owner(C, 7));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 2), DLK_HELD); /* no barging in */
    CHECK_EQ_INT(do_it(C, DLK_RELEASE, 7), DLK_YES);  /* unclaimed, it goes on */
    CHECK_STR(holder(), owner(B, 5));
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

TEST(a_client_has_the_lock_four_times_in_a_row_when_others_are_in_the_line)
{
    SETUP();
    CHECK(listens(A) && listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    for (uint64_t i = 1; i < 4; i++)
        CHECK_EQ_INT(pass(A, i, i + 1).next_reply, DLK_YES);
    dlk_ask last = pass(A, 4, 5);
    CHECK_EQ_INT(last.reply, DLK_YES);
    CHECK_EQ_INT(last.next_reply,
                 DLK_HELD); /* it stands in the line now, by the same step */
    CHECK_STR(holder(), owner(B, 5));
    CHECK(line_is(owner(A, 5), ""));
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_YES);
    CHECK_STR(holder(), owner(A, 5));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 5), DLK_YES);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 5), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

TEST(a_run_goes_on_when_the_line_holds_only_the_dead)
{
    SETUP();
    CHECK(listens(A) && listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    redis_server_call(&server,
                      "LPUSH " QUEUE " no-owner 00000000-dead-4000-8000-000000000000:9");
    close_client(B);
    for (uint64_t i = 1; i < 5; i++)
        CHECK_EQ_INT(pass(A, i, i + 1).next_reply, DLK_YES);
    CHECK(line_is("", ""));
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 5), DLK_YES);
    CHECK(nothing_is_left());
    CHECK(open_client(B, "true"));
    teardown();
}

TEST(the_dead_are_passed_over_for_the_next_that_listens)
{
    SETUP();
    CHECK(listens(B) && listens(C));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 7), DLK_HELD);
    close_client(B);
    int before = C->w.notices;
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK_STR(holder(), owner(C, 7));
    ROUNDS_UNTIL(&C->w, C->w.notices > before);
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 7), DLK_YES);
    CHECK_EQ_INT(do_it(C, DLK_RELEASE, 7), DLK_YES);
    CHECK(nothing_is_left());
    CHECK(open_client(B, "true"));
    teardown();
}

TEST(a_place_is_given_up_and_with_it_what_was_reserved_for_it)
{
    SETUP();
    CHECK(listens(B) && listens(C));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_YES);
    CHECK(line_is("", ""));
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_NOT_OURS); /* repeated */
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 6), DLK_HELD);
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 7), DLK_HELD);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK_STR(holder(), owner(B, 6));
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 6), DLK_YES);
    CHECK_STR(holder(), owner(C, 7));
    CHECK_EQ_INT(do_it(C, DLK_RELEASE, 7), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

TEST(a_claim_that_comes_too_late_is_refused_and_stands_in_the_line_again)
{
    claim_ms = "500";
    SETUP();
    claim_ms = "60000";
    CHECK(listens(B) && listens(C));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK(number_from("PTTL L") <= 500);
    ROUNDS_UNTIL(&A->w, number_from("EXISTS L") == 0); /* the reservation lapses */
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 7), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK(line_is(owner(B, 5), ""));
    CHECK_EQ_INT(do_it(C, DLK_RELEASE, 7), DLK_YES);
    CHECK_STR(holder(), owner(B, 5));
    teardown();
}

/* ---- A free lock with a line: after an open turn, an expired lease, a break ---- */

TEST(who_finds_the_lock_free_and_a_line_serves_the_first_in_it)
{
    SETUP();
    CHECK(listens(B) && listens(C));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    redis_server_call(&server, "DEL L");
    int before = B->w.notices;
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 7), DLK_HELD);
    CHECK_STR(holder(), owner(B, 5));
    CHECK(line_is(owner(C, 7), ""));
    ROUNDS_UNTIL(&B->w, B->w.notices > before);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_YES);
    redis_server_call(&server, "DEL L");
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 7), DLK_YES); /* the first in the line itself */
    CHECK(line_is("", ""));
    CHECK_EQ_INT(do_it(C, DLK_RELEASE, 7), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

/* ---- Messages ---- */

TEST(a_message_for_whom_nobody_waits_any_more_tells_nobody)
{
    SETUP();
    CHECK(listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    int before = B->w.notices;
    static const struct {
        bool ours;
        /* '~' stands for a space, which separates the words of a call */
        const char *rest;
    } said[] = {{true, ":4~1~" CHANNEL},
                {true, ":5~1~elsewhere"},
                {true, ":5~1"},
                {true, ":5"},
                {true, ":x~1~" CHANNEL},
                {true, ""},
                {true, ":99999999999999999999~1~" CHANNEL},
                {false, ":5~1~" CHANNEL}};
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
        redis_server_call(
            &server,
            "EVAL return(redis.call('publish',KEYS[1],(ARGV[1]:gsub('~','\\32')))) 1 "
            "dlock_client:%s %s%s",
            B->w.uuid, said[i].ours ? B->w.uuid : "11111111-2222-3333-4444-555555555555",
            said[i].rest);
    world_spin(&B->w, 50);
    CHECK_EQ_INT(B->w.notices, before);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    ROUNDS_UNTIL(&B->w, B->w.notices > before);
    teardown();
}

TEST(a_message_that_comes_before_the_watch_is_told_with_it)
{
    SETUP();
    CHECK(listens(B));
    world_watch(&B->w, B->key, false); /* the subscription stands yet a while */
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    int before = B->w.notices;
    world_watch(&B->w, B->key, true);
    world_spin(&B->w, 20);
    CHECK_EQ_INT(B->w.notices, before); /* nothing to look at again for */
    world_watch(&B->w, B->key, false);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    world_spin(&B->w, 20);
    CHECK_EQ_INT(B->w.notices, before);
    world_watch(&B->w, B->key, true);
    ROUNDS_UNTIL(&B->w, B->w.notices > before);
    teardown();
}

TEST(after_a_cut_of_its_messages_a_waiter_asks_again_and_has_a_place_again)
{
    SETUP();
    CHECK(listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    int before = B->w.notices;
    redis_server_call(&server, "CLIENT KILL TYPE pubsub");
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES); /* B is deaf: passed over */
    CHECK(line_is("", ""));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 2), DLK_YES);
    ROUNDS_UNTIL(&B->w, B->w.notices > before);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK(line_is(owner(B, 5), ""));
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 2), DLK_YES);
    CHECK_STR(holder(), owner(B, 5));
    teardown();
}

/* ---- Beside others ---- */

TEST(a_client_without_hand_over_is_a_plain_peer)
{
    SETUP();
    close_client(C);
    CHECK(open_client(C, "false"));
    CHECK(listens(B));
    CHECK(!C->key->passes && !C->key->queues && B->key->passes && B->key->queues);
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    int before = B->w.notices;
    CHECK_EQ_INT(do_it(C, DLK_RELEASE, 1), DLK_YES);
    ROUNDS_UNTIL(&B->w, B->w.notices > before);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_YES);
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 2), DLK_HELD);
    CHECK(line_is("", ""));
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_YES);
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, 2), DLK_YES);
    CHECK_EQ_INT(do_it(C, DLK_RELEASE, 2), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

TEST(two_locks_have_two_lines)
{
    SETUP();
    dlk_key *other = world_key(&B->w, "M");
    CHECK(listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    redis_server_call(&server, "HSET M 11111111-2222-3333-4444-555555555555:1 1");
    CHECK_EQ_INT(world_do(&B->w, DLK_ACQUIRE, other, 6, NULL), DLK_HELD);
    CHECK(line_is(owner(B, 5), ""));
    CHECK_STR(redis_server_call(&server, "LRANGE dlock_queue:{M} 0 -1"), owner(B, 6));
    B->w.noticed = NULL;
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    ROUNDS_UNTIL(&B->w, B->w.noticed != NULL);
    CHECK(B->w.noticed == B->key);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_YES);
    world_forget(&B->w, other);
    teardown();
}

TEST(scripts_that_are_flushed_change_nothing)
{
    SETUP();
    CHECK(listens(B));
    redis_server_call(&server, "SCRIPT FLUSH");
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    redis_server_call(&server, "SCRIPT FLUSH");
    CHECK_EQ_INT(pass(A, 1, 2).next_reply, DLK_YES);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 2), DLK_YES);
    CHECK_STR(holder(), owner(B, 5));
    teardown();
}

TEST(what_is_no_line_or_no_counter_is_told_and_the_lock_is_released_all_the_same)
{
    SETUP();
    CHECK(listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    redis_server_call(&server, "SET " QUEUE " mine");
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_REFUSED);
    CHECK_EQ_INT(B->w.code, DLOCK_ECONFLICT);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
    CHECK_STR(redis_server_call(&server, "GET " QUEUE), "mine");
    redis_server_call(&server, "DEL " QUEUE);
    static const char *const spoilt[] = {"SET redisson_lock_token:{L} x",
                                         "RPUSH redisson_lock_token:{L} x"};
    for (uint64_t i = 0; i < 2; i++) {
        redis_server_call(&server, "DEL redisson_lock_token:{L}");
        CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 10 + i), DLK_YES);
        CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 20 + i), DLK_HELD);
        redis_server_call(&server, "DEL redisson_lock_token:{L}");
        redis_server_call(&server, "%s", spoilt[i]);
        CHECK_EQ_INT(pass(A, 10 + i, 30 + i).reply, DLK_YES);
        CHECK_STR(redis_server_call(&server, "EXISTS L"), "0");
        redis_server_call(&server, "DEL " QUEUE);
    }
    teardown();
}

TEST(a_lock_is_given_back_also_where_the_server_has_no_memory_left)
{
    SETUP();
    CHECK(listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    redis_server_call(&server, "CONFIG SET maxmemory 1");
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK_STR(holder(), owner(B, 5));
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}
