/* What a lease is on the server, of every form alike: whatever is told that it has the lock has it
 * for its whole lease from then on, and a clock that is set back makes no lease longer for good. On a
 * real server, whose clock the test sets. */
#include "forms.h"
#include "util/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is left of the lease there. */
static int64_t left(uint64_t number)
{
    char owner[80] = "";
    if (now_is->key) {
        if (now_is->key_of_owner)
            snprintf(owner, sizeof(owner), "%s:%llu", w.uuid, (unsigned long long)number);
        return atoll(redis_server_call(&server, "PTTL %s%s", now_is->key, owner));
    }
    dlk_ask look = ask_of(DLK_INSPECT, 0);
    const char *found = NULL;
    int64_t ms = -1;
    if (carry_out(&look) == DLK_YES)
        found = dlock_info_get(look.info, "holders.0.remaining_ms");
    if (found)
        ms = atoll(found);
    dlk_info_free(look.info);
    return ms;
}

/* The whole lease of a request of that time, by our clock and by the server's. */
static void check_whole(uint64_t number, const dlk_ask *ask, int64_t ttl_ms)
{
    CHECK(ask->lasts);
    int64_t there = left(number);
    int64_t passed = (dlk_clock_now() - ask->since) / DLK_NS_PER_MS;
    if (there < ttl_ms - passed - 1)
        harness_note("%lld ms are left", (long long)there);
    CHECK(there >= ttl_ms - passed - 1);
}

static void check_asked_again(dlk_ask first, uint64_t number)
{
    dlk_ask again = first;
    CHECK_EQ_INT(carry_out(&first), DLK_YES);
    check_whole(number, &first, LEASE_MS);
    server_clock_move(&clock_there,
                      4000); /* its answer was lost, and the next one is late */
    again.since = dlk_clock_now();
    again.deadline = dlk_clock_after(again.since, 20000);
    CHECK_EQ_INT(carry_out(&again), DLK_YES);
    CHECK_EQ_INT(again.token, first.token);
    check_whole(number, &again, LEASE_MS);
}

TEST(an_acquire_that_is_asked_again_has_its_whole_lease)
{
    EACH_FORM (is) {
        if (!set_up(is))
            return;
        check_asked_again(ask_of(DLK_ACQUIRE, 1), 1);
        teardown();
    }
    end();
}

TEST(a_renewal_that_is_asked_again_has_its_whole_lease)
{
    EACH_FORM (is) {
        if (!set_up(is))
            return;
        dlk_ask take = ask_of(DLK_ACQUIRE, 1);
        CHECK_EQ_INT(carry_out(&take), DLK_YES);
        server_clock_move(&clock_there, 4000);
        check_asked_again(ask_of(DLK_RENEW, 1), 1);
        teardown();
    }
    end();
}

TEST(an_import_that_is_asked_again_has_its_whole_lease)
{
    char giver[80];
    EACH_FORM (is) {
        if (!is->hands_on)
            continue;
        if (!set_up(is))
            return;
        dlk_ask take = ask_of(DLK_ACQUIRE, 1), import = ask_of(DLK_IMPORT, 2);
        CHECK_EQ_INT(carry_out(&take), DLK_YES);
        snprintf(giver, sizeof(giver), "%s:1", w.uuid);
        import.text = giver;
        check_asked_again(import, 2);
        teardown();
    }
    end();
}

/* ---- A clock that is set back ---- */

#define HOUR_MS INT64_C(3600000)

/* Answers what the server calls the lease, if it is longer than it can be. */
static int64_t renewed(int64_t ttl_ms, int64_t most_ms, int64_t overlong)
{
    dlk_ask renew = ask_of(DLK_RENEW, 1);
    renew.ttl_ms = ttl_ms;
    renew.most_ms = most_ms;
    renew.overlong = overlong;
    (void)harness_eq_int(__FILE__, __LINE__, "the renewal", carry_out(&renew), DLK_YES);
    check_whole(1, &renew, ttl_ms);
    return renew.overlong;
}

/* Held, and an hour too long. */
static int64_t overlong(void)
{
    dlk_ask take = ask_of(DLK_ACQUIRE, 1);
    bool fine = carry_out(&take) == DLK_YES && renewed(LEASE_MS, MOST_MS, 0) == 0;
    server_clock_move(&clock_there, -HOUR_MS);
    fine = fine && left(1) > HOUR_MS;
    int64_t seen = renewed(LEASE_MS, MOST_MS, 0);
    (void)harness_check(__FILE__, __LINE__, fine && seen > 2, "an hour too long");
    return seen;
}

TEST(a_lease_that_a_clock_set_back_has_made_long_is_cut_by_its_holder)
{
    EACH_FORM (is) {
        if (!set_up(is))
            return;
        server_clock_stop(&clock_there); /* what it finds is what it saw */
        int64_t seen = overlong();
        CHECK_EQ_INT(renewed(LEASE_MS, MOST_MS, seen), 0);
        CHECK(left(1) <= MOST_MS + 1000); /* seconds are rounded up */
        CHECK_EQ_INT(renewed(LEASE_MS, MOST_MS + 1000, 0), 0);
        teardown();
    }
    end();
}

/* The holder believes in the longer one by then, and be it one that the old lease was long enough
 * for. The server's clock stands: else the end that the late one brings along might not be the one
 * it finds, for no other reason than that time has passed between two looks at it. */
TEST(a_renewal_that_comes_late_cuts_no_lease_that_was_asked_for_since)
{
    static const int64_t since[] = {60000, HOUR_MS};
    EACH_FORM (is) {
        for (size_t i = 0; i < sizeof(since) / sizeof(*since); i++) {
            if (!set_up(is))
                return;
            server_clock_stop(&clock_there);
            int64_t seen = overlong();
            (void)renewed(since[i], since[i] + 2 * MOST_MS, seen);
            (void)renewed(LEASE_MS, MOST_MS, seen);
            CHECK(left(1) > since[i] - 1000);
            teardown();
        }
    }
    end();
}

/* Doubles say less of it than Redis does. */
TEST(a_lease_of_any_length_is_cut_and_costs_no_connection)
{
    EACH_FORM (is) {
        const char *hashes[] = {"handover", "mutex", "fair",
                                "string",   "write", "election"};
        bool at_name = false;
        for (size_t i = 0; i < sizeof(hashes) / sizeof(*hashes); i++)
            at_name |= strcmp(is->name, hashes[i]) == 0;
        if (!at_name)
            continue;
        if (!set_up(is))
            return;
        dlk_ask take = ask_of(DLK_ACQUIRE, 1), again = take;
        CHECK_EQ_INT(carry_out(&take), DLK_YES);
        redis_server_call(&server, "PEXPIREAT L 9223372036854775807");
        CHECK_EQ_INT(carry_out(&again), DLK_YES);
        int64_t seen = renewed(LEASE_MS, MOST_MS, 0);
        CHECK(seen > 2);
        CHECK_EQ_INT(renewed(LEASE_MS, MOST_MS, seen), 0);
        CHECK(left(1) <= MOST_MS);
        teardown();
    }
    end();
}

/* Nobody knows what it can be: no request of ours has said. */
TEST(who_doesnt_know_what_a_lease_can_be_leaves_it_as_it_is)
{
    EACH_FORM (is) {
        if (!set_up(is))
            return;
        int64_t seen = overlong();
        CHECK_EQ_INT(renewed(LEASE_MS, 0, seen), 0);
        CHECK(left(1) > MOST_MS + 1000);
        teardown();
    }
    end();
}

static void check_said(dlk_ask *ask, const char *what, const char *with)
{
    CHECK_EQ_INT(carry_out(ask), DLK_YES);
    const char *json = dlock_info_json(ask->info);
    CHECK_CONTAINS(json, what);
    CHECK_CONTAINS(json, with);
    dlk_info_free(ask->info);
}

/* Who comes afterwards, as an operator would, can't have seen it. */
TEST(a_clock_that_was_set_back_is_told_by_inspect_and_doctor)
{
    if (!redis_server_available() || !server_clock_start(&clock_there, &server))
        return;
    if (!set_up(&forms[0]))
        return;
    dlk_ask take = ask_of(DLK_ACQUIRE, 1);
    CHECK_EQ_INT(carry_out(&take), DLK_YES);
    server_clock_move(&clock_there, -HOUR_MS);
    single_disconnect();
    if (!set_up(&forms[0]))
        return;
    dlk_ask look = ask_of(DLK_INSPECT, 0);
    check_said(&look, "clock_back_ms", "remaining_ms");
    dlk_ask doctor = world_make(&w, DLK_DOCTOR, NULL, 0);
    check_said(&doctor, "behind this machine's", "clock");
    server_clock_move(&clock_there, HOUR_MS);
    doctor = world_make(&w, DLK_DOCTOR, NULL, 0);
    check_said(&doctor, "was set forward", "clock");
    teardown();
    end();
}
