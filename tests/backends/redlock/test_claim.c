/* Claims alone: what a repetition of a number goes by, when requests of the older attempt may yet
 * be carried out. */
#include "harness/harness.h"

#include "backends/redlock/inner.h"
#include "util/clock.h"

#include <string.h>

#define NUMBER 22
#define TTL_MS 2000

static dlk_redlock redlock;
static dlk_redlock_key key;

/* One whose key lies nowhere known, and whose release by node 1 was lost track of. */
static dlk_redlock_claim *late_claim(void)
{
    redlock = (dlk_redlock){.timeout_ns = 500 * DLK_NS_PER_MS,
                            .owed_at = DLK_NEVER,
                            .sweep_at = DLK_NEVER,
                            .last_alias = DLK_REDLOCK_ALIASES};
    key.refs = 1;
    dlk_redlock_claim *claim = dlk_claim_get(&redlock, &key, NUMBER);
    if (!claim)
        return NULL;
    dlk_claim_extend(&redlock, claim, TTL_MS, 0);
    claim->giving = true;
    claim->there = claim->late = dlk_node_bit(1);
    return claim;
}

/* The same on three nodes, of which two are most. */
static dlk_redlock_claim *late_claim_of_three(void)
{
    dlk_redlock_claim *claim = late_claim();
    redlock.count = 3;
    redlock.quorum = 2;
    return claim;
}

static uint64_t wire_of(uint64_t number)
{
    const dlk_redlock_claim *claim = dlk_claim_get(&redlock, &key, number);
    return claim ? claim->wire : 0;
}

TEST(a_repetition_behind_the_end_of_the_leases_is_out_of_the_reach_of_a_late_release)
{
    CHECK(late_claim());
    (void)dlk_claims_tick(&redlock, 60 * DLK_NS_PER_SEC);
    CHECK(redlock.claim_count == 0);
    CHECK(wire_of(NUMBER) > DLK_REDLOCK_ALIASES);
    CHECK(!dlk_number_keeps(wire_of(NUMBER)));
    CHECK(wire_of(NUMBER + 1) == NUMBER + 1);
    dlk_claims_free(&redlock);
}

TEST(a_repetition_behind_confirmed_releases_is_out_of_the_reach_of_a_late_one)
{
    dlk_redlock_claim *claim = late_claim();
    CHECK(claim);
    for (int64_t at = 0; redlock.claim_count; at += DLK_NS_PER_SEC) {
        CHECK(at < 60 * DLK_NS_PER_SEC);
        claim->rounds++;
        claim->releases++;
        dlk_claim_given(&redlock, claim, true, at);
        dlk_claim_let_go(&redlock, claim);
    }
    CHECK(wire_of(NUMBER) > DLK_REDLOCK_ALIASES);
    dlk_claims_free(&redlock);
}

TEST(a_repetition_while_a_round_still_keeps_the_old_claim_is_out_of_reach_too)
{
    dlk_redlock_claim *claim = late_claim();
    CHECK(claim);
    claim->rounds++; /* so it outlives its leases */
    (void)dlk_claims_tick(&redlock, 60 * DLK_NS_PER_SEC);
    CHECK(redlock.claim_count == 1);
    CHECK(wire_of(NUMBER) > DLK_REDLOCK_ALIASES);
    dlk_claims_free(&redlock);
}

TEST(a_number_of_which_nothing_is_late_is_repeated_as_it_is)
{
    dlk_redlock_claim *claim = late_claim();
    CHECK(claim);
    claim->late = 0;
    (void)dlk_claims_tick(&redlock, 60 * DLK_NS_PER_SEC);
    CHECK(redlock.claim_count == 0);
    CHECK(wire_of(NUMBER) == NUMBER);
    dlk_claims_free(&redlock);
}

/* Of three nodes two have to know nothing of it before nobody is kept out. */
TEST(closing_waits_for_what_may_be_at_most_nodes_and_for_no_acquire_that_never_left)
{
    dlk_redlock_claim *claim = late_claim_of_three();
    CHECK(claim);
    claim->there = (dlk_nodes)(dlk_node_bit(0) | dlk_node_bit(1));
    claim->taking[0] = claim->taking[1] = 1;
    CHECK_EQ_INT(dlk_claims_unsettled(&redlock), DLK_UNSETTLED_BLOCKING);
    claim->taking[0] = 0; /* it was not sent: nothing is owed for it */
    CHECK_EQ_INT(dlk_claims_unsettled(&redlock), DLK_UNSETTLED_HARMLESS);
    claim->owed = dlk_node_bit(2); /* it got no answer there */
    CHECK_EQ_INT(dlk_claims_unsettled(&redlock), DLK_UNSETTLED_BLOCKING);
    claim->giving = false; /* it is wanted */
    CHECK_EQ_INT(dlk_claims_unsettled(&redlock), DLK_SETTLED);
    dlk_claims_free(&redlock);
}

/* What keeps nobody out is waited for as long as it can be got, but not from nodes that are gone. */
TEST(closing_waits_for_no_node_that_was_lost_and_could_not_be_reached_again)
{
    dlk_redlock_claim *claim = late_claim_of_three();
    CHECK(claim);
    claim->owed = dlk_node_bit(1);
    redlock.nodes[1].down = true;
    CHECK_EQ_INT(dlk_claims_unsettled(&redlock), DLK_UNSETTLED_HARMLESS);
    redlock.nodes[1].away = true;
    CHECK_EQ_INT(dlk_claims_unsettled(&redlock), DLK_SETTLED);
    redlock.nodes[1].away = false;
    claim->owed = 0; /* given back, though an older request may yet be carried out */
    CHECK_EQ_INT(dlk_claims_unsettled(&redlock), DLK_SETTLED);
    dlk_claims_free(&redlock);
}

TEST(a_node_that_is_back_is_asked_at_once_for_what_it_owes)
{
    dlk_redlock_claim *claim = late_claim_of_three();
    CHECK(claim);
    dlk_claim_put_off(&redlock, claim, 0);
    dlk_claims_node_back(&redlock, 1);
    /* It was given back there once: what may come later is asked for a while apart. */
    CHECK(claim->retry_at > 0);
    claim->owed = dlk_node_bit(1);
    dlk_claims_node_back(&redlock, 0);
    CHECK(claim->retry_at > 0);
    dlk_claims_node_back(&redlock, 1);
    CHECK_EQ_INT(claim->retry_at, 0);
    CHECK_EQ_INT(redlock.owed_at, 0);
    dlk_claims_free(&redlock);
}

/* ---- beside a node that hangs ---- */

static int asked[DLK_REDLOCK_MAX];

static void count_ask(dlk_backend *backend, dlk_ask *ask, int64_t now)
{
    (void)now;
    for (int i = 0; i < redlock.count; i++)
        if (redlock.nodes[i].backend == backend && ask->verb == DLK_RELEASE)
            asked[i]++;
    ask->reply = DLK_PENDING;
}

static const dlk_backend_type fake_type = {.name = "fake", .ask = count_ask};

TEST(a_node_that_is_back_is_asked_though_another_one_s_answer_is_waited_for)
{
    static dlk_backend fakes[3] = {
        {.type = &fake_type}, {.type = &fake_type}, {.type = &fake_type}};
    dlk_redlock_claim *claim = late_claim_of_three();
    CHECK(claim);
    dlk_list_init(&redlock.rounds);
    dlk_list_init(&redlock.loose);
    dlk_list_init(&redlock.spare);
    redlock.base.host = &redlock.nodes[0].host; /* asked for its random numbers at most */
    memset(asked, 0, sizeof(asked));
    for (int i = 0; i < 3; i++) {
        redlock.nodes[i].backend = &fakes[i];
        redlock.nodes[i].up = true;
    }
    claim->late = 0;
    claim->there = claim->owed = (dlk_nodes)(dlk_node_bit(0) | dlk_node_bit(1));
    dlk_round_undo(&redlock, claim, 0);
    CHECK(asked[0] == 1 && asked[1] == 1 && asked[2] == 0);
    /* The connection of node 0 breaks over it, and is had again; node 1 says nothing. */
    dlk_redlock_round *round =
        DLK_LIST_ITEM(dlk_list_first(&redlock.loose), dlk_redlock_round, link);
    round->asks[0].reply = DLK_UNKNOWN;
    dlk_redlock_answered(&redlock, 0, &round->asks[0]);
    (void)dlk_claims_tick(&redlock, DLK_NS_PER_MS);
    CHECK(asked[0] == 1);
    dlk_claims_node_back(&redlock, 0);
    (void)dlk_claims_tick(&redlock, 2 * DLK_NS_PER_MS);
    CHECK(asked[0] == 2 && asked[1] == 1);
    (void)dlk_claims_tick(&redlock, 3 * DLK_NS_PER_MS);
    CHECK(asked[0] == 2 && asked[1] == 1); /* once */
    dlk_rounds_free(&redlock);
    dlk_claims_free(&redlock);
}

TEST(claims_that_end_one_shortly_after_the_other_are_not_looked_at_each_time)
{
    enum { MANY = 100 };
    redlock = (dlk_redlock){.owed_at = DLK_NEVER, .sweep_at = DLK_NEVER};
    key.refs = 1;
    for (int i = 0; i < MANY; i++) {
        dlk_redlock_claim *claim = dlk_claim_get(&redlock, &key, (uint64_t)i + 1);
        CHECK(claim);
        dlk_claim_extend(&redlock, claim, TTL_MS + i, 0);
    }
    int ticks = 0;
    for (int64_t at = TTL_MS * DLK_NS_PER_MS; redlock.claim_count; ticks++) {
        CHECK(ticks < MANY / 10 && at < 60 * DLK_NS_PER_SEC);
        at = dlk_claims_tick(&redlock, at);
    }
    dlk_claims_free(&redlock);
}
