/* Kept locks step by step: what the server answers to those that keep, whom it tells that another wants the
 * lock, and what lies on it after each step. */
#include "handover.h"

#include <stdio.h>
#include <string.h>

#define KEPT(n) (DLK_KEEPS | (n))
#define COUNTER "redisson_lock_token:{L}"

static dlk_ask ask_for(client *c, dlk_verb verb, uint64_t number)
{
    dlk_ask ask = world_make(&c->w, verb, c->key, number);
    world_ask(&c->w, &ask);
    (void)world_await(&c->w, &ask);
    return ask;
}

static int64_t clock_us(void)
{
    long long seconds = 0, us = 0;
    (void)sscanf(redis_server_call(&server, "TIME"), "%lld %lld", &seconds, &us);
    return seconds * 1000000 + us;
}

static bool is_told(client *c, uint64_t number)
{
    bool told = ROUNDS_REACH(&c->w, c->w.wanted == number) && !strcmp(c->w.lock, "L");
    c->w.wanted = 0;
    return told;
}

/* ---- tokens ---- */

TEST(a_grant_brings_all_numbers_up_to_the_servers_clock_that_nobody_else_was_given)
{
    SETUP();
    CHECK(listens(A));
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_YES);
    int64_t before = number_from("GET " COUNTER);
    dlk_ask ask = ask_for(A, DLK_ACQUIRE, KEPT(1));
    CHECK_EQ_INT(ask.reply, DLK_YES);
    CHECK_EQ_INT(ask.token, before + 1);
    CHECK(ask.last_token > ask.token && ask.last_token <= clock_us());
    CHECK_EQ_INT(number_from("GET " COUNTER), ask.last_token); /* they are reserved */
    CHECK(!ask.asked);
    dlk_ask more = ask_for(A, DLK_RENEW, KEPT(1));
    CHECK_EQ_INT(more.reply, DLK_YES);
    CHECK_EQ_INT(more.token, ask.last_token + 1);
    CHECK(more.last_token > more.token);
    CHECK_EQ_INT(number_from("GET " COUNTER), more.last_token);
    dlk_ask again =
        ask_for(A, DLK_ACQUIRE, KEPT(1)); /* nothing of the first was handed out */
    CHECK_EQ_INT(again.token, more.last_token + 1);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, KEPT(1)), DLK_YES);
    CHECK(nothing_is_left());
    teardown();
}

/* A server that comes back with an older state has given out more than it knows. */
TEST(a_counter_from_before_the_connection_says_nothing_of_what_was_given_since)
{
    SETUP();
    CHECK(listens(A));
    int64_t begun = clock_us();
    redis_server_call(&server, "SET " COUNTER " %lld", (long long)begun - 60000000);
    close_client(A);
    int64_t greeted = clock_us();
    CHECK(open_client(A, "true") && listens(A));
    dlk_ask ask = ask_for(A, DLK_ACQUIRE, KEPT(1));
    CHECK(ask.token > greeted && ask.last_token > ask.token);
    redis_server_call(&server, "SET " COUNTER " 7");
    ask = ask_for(A, DLK_RENEW, KEPT(1));
    CHECK(ask.token > greeted);
    redis_server_call(&server, "DEL " COUNTER);
    int64_t now = clock_us();
    ask = ask_for(A, DLK_RENEW, KEPT(1));
    CHECK(ask.token > now);
    CHECK_EQ_INT(ask.last_token, ask.token);
    teardown();
}

TEST(what_the_counter_holds_doesnt_matter_to_a_renewal)
{
    SETUP();
    CHECK(listens(A));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, KEPT(1)), DLK_YES);
    redis_server_call(&server, "SET " COUNTER " nonsense");
    redis_server_call(&server, "PEXPIRE L 2000");
    dlk_ask ask = ask_for(A, DLK_RENEW, KEPT(1));
    CHECK_EQ_INT(ask.reply, DLK_YES);
    CHECK_EQ_INT(ask.last_token, 0);
    CHECK(number_from("PTTL L") > 8000);
    redis_server_call(&server, "DEL " COUNTER " L");
    redis_server_call(&server, "RPUSH " COUNTER " x");
    CHECK_EQ_INT(do_it(A, DLK_RENEW, KEPT(1)), DLK_NOT_OURS);
    teardown();
}

/* Set back, the clock makes a lease end later than the number is exact that says so. */
TEST(a_lease_without_an_end_is_renewed_and_brings_tokens)
{
    SETUP();
    CHECK(listens(A));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, KEPT(1)), DLK_YES);
    redis_server_call(&server, "PEXPIRE L 9000000000000000");
    dlk_ask ask = world_make(&A->w, DLK_RENEW, A->key, KEPT(1));
    ask.most_ms = 60000;
    world_ask(&A->w, &ask);
    CHECK_EQ_INT(world_await(&A->w, &ask), DLK_YES);
    CHECK(ask.overlong > 9000000000000000);
    CHECK(ask.last_token > 0);
    teardown();
}

/* ---- asking ---- */

TEST(whoever_finds_it_held_by_one_that_keeps_says_so_each_time)
{
    SETUP();
    CHECK(listens(A) && listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, KEPT(1)), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK(is_told(A, KEPT(1)));
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK(is_told(A, KEPT(1)));
    dlk_ask once = world_make(&C->w, DLK_ACQUIRE, C->key, 8);
    once.once = true; /* it may have it the next time */
    world_ask(&C->w, &once);
    CHECK_EQ_INT(world_await(&C->w, &once), DLK_HELD);
    CHECK(is_told(A, KEPT(1)));
    CHECK(ask_for(A, DLK_RENEW, KEPT(1)).asked); /* should it not have heard */
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, KEPT(1)), DLK_YES);
    CHECK_STR(holder(), owner(B, 5));
    teardown();
}

TEST(nobody_is_told_of_a_lock_that_isnt_kept_or_anothers)
{
    SETUP();
    CHECK(listens(A) && listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, 5), DLK_YES);
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, KEPT(3)), DLK_YES);
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, KEPT(4)), DLK_HELD); /* by themselves: they know */
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, KEPT(3)), DLK_YES);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, KEPT(4)), DLK_YES);
    redis_server_call(&server, "HSET L somebody 1"); /* of another library */
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, KEPT(2)), DLK_HELD);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 6), DLK_HELD);
    world_spin(&A->w, 100);
    CHECK_EQ_INT((int64_t)A->w.wanted, 0);
    teardown();
}

TEST(whose_turn_it_is_hears_whether_others_are_behind_him_who_have_asked_already)
{
    SETUP();
    CHECK(listens(A) && listens(B) && listens(C));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, KEPT(1)), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, KEPT(5)), DLK_HELD);
    CHECK_EQ_INT(do_it(C, DLK_ACQUIRE, KEPT(7)), DLK_HELD);
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, KEPT(1)), DLK_YES);
    dlk_ask ask = ask_for(B, DLK_ACQUIRE, KEPT(5));
    CHECK_EQ_INT(ask.reply, DLK_YES);
    CHECK(ask.asked);
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, KEPT(5)), DLK_YES);
    ask = ask_for(C, DLK_ACQUIRE, KEPT(7));
    CHECK_EQ_INT(ask.reply, DLK_YES);
    CHECK(!ask.asked);
    teardown();
}

/* Of one client some handles of a name may be kept and others not: which number is the newer one doesn't go by
 * its size. */
TEST(one_that_isnt_kept_is_told_of_its_turn_after_one_that_is)
{
    SETUP();
    CHECK(listens(A) && listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, 1), DLK_YES);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, KEPT(4)), DLK_HELD); /* given up, and late */
    CHECK_EQ_INT(do_it(B, DLK_RELEASE, KEPT(4)), DLK_YES);
    int before = B->w.notices;
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, 1), DLK_YES);
    CHECK(ROUNDS_REACH(&B->w, B->w.notices > before));
    CHECK_STR(holder(), owner(B, 5));
    teardown();
}

TEST(who_cant_be_told_yet_takes_it_that_he_was)
{
    SETUP();
    CHECK(ask_for(A, DLK_ACQUIRE, KEPT(1)).asked); /* not subscribed */
    CHECK_EQ_INT(do_it(A, DLK_RELEASE, KEPT(1)), DLK_YES);
    CHECK(listens(A));
    CHECK(!ask_for(A, DLK_ACQUIRE, KEPT(2)).asked);
    teardown();
}

/* ---- handing over ---- */

TEST(one_that_was_kept_goes_to_the_line_before_its_own_next_owner)
{
    SETUP();
    CHECK(listens(A) && listens(B));
    CHECK_EQ_INT(do_it(A, DLK_ACQUIRE, KEPT(1)), DLK_YES);
    dlk_ask ask = pass(A, KEPT(1), KEPT(2)); /* nobody is there */
    CHECK_EQ_INT(ask.next_reply, DLK_YES);
    CHECK(ask.token > 0 && ask.last_token >= ask.token && !ask.asked);
    CHECK_EQ_INT(number_from("GET " COUNTER), ask.last_token);
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_HELD);
    ask = pass(A, KEPT(2), KEPT(3));
    CHECK_EQ_INT(ask.reply, DLK_YES);
    CHECK_EQ_INT(ask.next_reply, DLK_HELD);
    CHECK_STR(holder(), owner(B, 5));
    CHECK(line_is(owner(A, KEPT(3)), ""));
    CHECK_EQ_INT(do_it(B, DLK_ACQUIRE, 5), DLK_YES);
    ask = pass(B, 5, 6); /* of one that isn't kept: its run goes first */
    CHECK_EQ_INT(ask.next_reply, DLK_YES);
    CHECK_EQ_INT(ask.last_token, 0);
    teardown();
}

/* Asks of all of them at once, and says by how many commands; 0: one isn't done. */
static int64_t renew_all(dlk_ask *asks, int count)
{
    int64_t commands = A->w.host.commands;
    for (int i = 0; i < count; i++) {
        asks[i].token = asks[i].last_token = 0;
        world_ask(&A->w, &asks[i]);
    }
    bool done = true;
    for (int i = 0; i < count; i++)
        done &= world_await(&A->w, &asks[i]) == DLK_YES;
    return done ? A->w.host.commands - commands : 0;
}

TEST(many_are_renewed_by_one_request_and_those_that_want_tokens_by_another)
{
    SETUP();
    CHECK(listens(A));
    dlk_key *keys[4];
    dlk_ask asks[4];
    for (int i = 0; i < 4; i++) {
        char name[2] = {(char)('a' + i), 0};
        uint64_t number = i % 2 ? KEPT(10 + (uint64_t)i) : 10 + (uint64_t)i;
        keys[i] = world_key(&A->w, name);
        CHECK_EQ_INT(world_do(&A->w, DLK_ACQUIRE, keys[i], number, NULL), DLK_YES);
        asks[i] = world_make(&A->w, DLK_RENEW, keys[i], number);
    }
    (void)renew_all(asks, 4); /* brings the scripts there */
    CHECK_EQ_INT(renew_all(asks, 4), 2);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_INT(asks[i].last_token > 0, i % 2);
        asks[i].refills = false;
    }
    int64_t counter = number_from("GET redisson_lock_token:{b}");
    CHECK_EQ_INT(renew_all(asks, 4), 1);
    CHECK_EQ_INT(asks[1].last_token, 0);
    CHECK_EQ_INT(number_from("GET redisson_lock_token:{b}"), counter);
    for (int i = 0; i < 4; i++)
        world_forget(&A->w, keys[i]);
    teardown();
}
