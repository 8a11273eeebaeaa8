/* The tables of states.h: what can come about, that all comes to an end, and that an event which
 * can't be ends the program. */
#include "harness/fork.h"
#include "harness/harness.h"
#include "locks/inner.h"
#include "world.h"

/* ---- the tables ---- */

typedef struct seen {
    bool at[DLK_STAGES][DLK_ASKS];
} seen;

/* All that can come of it, by any events in any order. */
static void follow(seen *all, dlk_stage stage, dlk_asks asks)
{
    if (all->at[stage][asks])
        return;
    all->at[stage][asks] = true;
    for (dlk_grant_event event = 0; event < DLK_GRANT_EVENTS; event++) {
        if (!dlk_grant_may(stage, asks, event))
            continue;
        dlk_grant grant = {.stage = (uint8_t)stage, .asks = (uint8_t)asks};
        dlk_grant_step(&grant, event);
        follow(all, grant.stage, grant.asks);
    }
}

TEST(a_grant_comes_to_what_its_table_says_and_to_nothing_else)
{
    seen all = {0};
    follow(&all, DLK_STAGE_TRIED, DLK_ASKS_NOTHING);
    follow(&all, DLK_STAGE_IMPORTED, DLK_ASKS_NOTHING);
    for (dlk_stage stage = 0; stage < DLK_STAGES; stage++)
        for (dlk_asks asks = 0; asks < DLK_ASKS; asks++)
            CHECK_EQ_INT(all.at[stage][asks], dlk_stage_has(stage, asks));
}

TEST(every_grant_can_be_over_with_nothing_under_way)
{
    for (dlk_stage stage = 0; stage < DLK_STAGES; stage++)
        for (dlk_asks asks = 0; asks < DLK_ASKS; asks++) {
            seen all = {0};
            if (!dlk_stage_has(stage, asks))
                continue;
            follow(&all, stage, asks);
            CHECK(all.at[DLK_STAGE_OVER][DLK_ASKS_NOTHING]);
        }
}

TEST(what_is_given_back_is_never_held_again)
{
    seen all = {0};
    for (dlk_asks asks = 0; asks < DLK_ASKS; asks++)
        follow(&all, DLK_STAGE_OWED, asks);
    for (dlk_asks asks = 0; asks < DLK_ASKS; asks++)
        CHECK(!all.at[DLK_STAGE_HELD][asks] && !all.at[DLK_STAGE_TRIED][asks] &&
              !all.at[DLK_STAGE_IMPORTED][asks]);
}

TEST(every_event_is_possible_somewhere)
{
    for (dlk_grant_event event = 0; event < DLK_GRANT_EVENTS; event++) {
        int places = 0;
        for (dlk_stage stage = 0; stage < DLK_STAGES; stage++)
            for (dlk_asks asks = 0; asks < DLK_ASKS; asks++)
                places += dlk_stage_has(stage, asks) && dlk_grant_may(stage, asks, event);
        CHECK(places > 0);
    }
}

TEST(a_query_has_one_result_and_one_answer_to_each_request)
{
    CHECK(!dlk_query_may(DLK_QUERY_OVER, DLK_QUERY_ENDED));
    CHECK(!dlk_query_may(DLK_QUERY_OVER_ASKED, DLK_QUERY_ENDED));
    CHECK(!dlk_query_may(DLK_QUERY_RESTS, DLK_QUERY_ANSWERED));
    CHECK(!dlk_query_may(DLK_QUERY_OVER, DLK_QUERY_ANSWERED));
    CHECK(!dlk_query_may(DLK_QUERY_ASKED, DLK_QUERY_SENT));
    CHECK(!dlk_query_may(DLK_QUERY_OVER, DLK_QUERY_SENT));
}

/* ---- what can't be ---- */

static dlk_wait a;

static void hold(void)
{
    world_acquire(&a, 1, 0);
    world_answer(DLK_ACQUIRE, DLK_YES);
}

static void ask_again(void)
{
    dlk_grant_step(a.grant, DLK_GRANT_ACQUIRE_SENT);
}

static void send_a_release(void)
{
    dlk_grant_step(a.grant, DLK_GRANT_RELEASE_SENT);
}

/* A backend that answers an acquire twice. */
static void answer_again(void)
{
    dlk_ask *ask = DLK_LIST_ITEM(dlk_list_first(&w.core.spare_asks), dlk_ask, link);
    ask->reply = DLK_YES;
    dlk_core_answered(&w.core, ask, w.now);
}

TEST(an_impossible_event_ends_the_program)
{
    world_open();
    hold();
    CHECK(a.over && a.code == DLOCK_OK);
    CHECK(harness_aborts(ask_again));
    CHECK(harness_aborts(send_a_release));
    CHECK(harness_aborts(answer_again));
    CHECK(dlk_core_is_sound(&w.core));
    world_forget(&a);
    world_close();
}

static dlk_query query;

static void answer_the_query(void)
{
    dlk_core_answered(&w.core, &query.ask, w.now);
}

TEST(a_second_answer_to_a_query_ends_the_program)
{
    world_open();
    query = (dlk_query){.ask = {.verb = DLK_INSPECT}, .name = w.name};
    dlk_list_init(&query.all);
    dlk_query_start(&w.core, &query, dlk_clock_after(w.now, 1000), w.now);
    CHECK(!harness_aborts(answer_the_query));
    world_answer(DLK_INSPECT, DLK_YES);
    CHECK(dlk_query_is_over(&query) && query.code == DLOCK_OK);
    CHECK(harness_aborts(answer_the_query));
    world_close();
}

/* As when there is no memory for its text. */
TEST(a_query_that_fails_before_it_is_begun_is_never_asked)
{
    world_open();
    query =
        (dlk_query){.ask = {.verb = DLK_INSPECT}, .name = w.name, .kind = DLK_QUERY_IDLE};
    dlk_list_init(&query.all);
    dlk_query_cancel(&w.core, &query, DLOCK_ENOMEM, w.now);
    CHECK(dlk_query_is_over(&query) && query.code == DLOCK_ENOMEM);
    dlk_query_start(&w.core, &query, dlk_clock_after(w.now, 1000), w.now);
    CHECK_EQ_INT(query.code, DLOCK_ENOMEM);
    CHECK_EQ_INT(query.stage, DLK_QUERY_OVER);
    CHECK_EQ_INT(w.name->idlers, 0);
    CHECK(dlk_list_empty(&w.core.queries));
    CHECK_EQ_INT(w.queries_freed, 1);
    world_close();
}

TEST(what_a_grant_cannot_be_is_seen)
{
    world_open();
    hold();
    CHECK(dlk_core_is_sound(&w.core));
    a.grant->asks = DLK_ASKS_ACQUIRE; /* of what is held */
    CHECK(!dlk_core_is_sound(&w.core));
    a.grant->asks = DLK_ASKS_NOTHING;
    a.grant->stage = DLK_STAGE_OVER; /* and HELD */
    CHECK(!dlk_core_is_sound(&w.core));
    atomic_store(&a.grant->state, DLOCK_LOST); /* and would send a release */
    CHECK(!dlk_core_is_sound(&w.core));
    int64_t renewed_at = a.grant->due_at;
    a.grant->due_at = DLK_NEVER;
    CHECK(dlk_core_is_sound(&w.core));
    a.grant->due_at = renewed_at;
    atomic_store(&a.grant->state, DLOCK_HELD);
    a.grant->stage = DLK_STAGE_HELD;
    a.grant->waiter = &a; /* for its release, though it is held */
    a.releasing = true;
    CHECK(!dlk_core_is_sound(&w.core));
    a.grant->waiter = NULL;
    a.releasing = false;
    a.grant->turning = true; /* of the write side */
    CHECK(!dlk_core_is_sound(&w.core));
    a.grant->turning = false;
    CHECK(dlk_core_is_sound(&w.core));
    world_forget(&a);
    world_close();
}
