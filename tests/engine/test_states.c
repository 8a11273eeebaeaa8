/* The tables of engine/states.h: all that is can come to its end, and a step that no table has ends
 * the program. */
#include "engine/engine.h"
#include "harness/fork.h"
#include "harness/harness.h"

/* Whether one state can become another, by as many steps as there are states. */
static bool comes_to(const uint8_t *next, unsigned from, unsigned to, unsigned states)
{
    unsigned reached = DLK_IN(from);
    for (unsigned step = 0; step < states; step++)
        for (unsigned at = 0; at < states; at++)
            if (reached & DLK_IN(at))
                reached |= next[at];
    return (reached & DLK_IN(to)) != 0;
}

#define ALL_COME_TO(table, end)                                                          \
    do {                                                                                 \
        for (unsigned at = 0; at < sizeof(table); at++)                                  \
            CHECK(comes_to(table, at, end, sizeof(table)));                              \
    } while (0)

TEST(all_comes_to_its_end)
{
    ALL_COME_TO(dlk_life_next, DLK_LIFE_CLOSED);
    ALL_COME_TO(dlk_driven_next, DLK_DRIVEN_NOT);
    ALL_COME_TO(dlk_thread_next, DLK_THREAD_NONE);
    ALL_COME_TO(dlk_sleeper_next, DLK_SLEEPER_AWAKE);
}

TEST(a_closed_engine_stays_closed)
{
    CHECK_EQ_INT(dlk_life_next[DLK_LIFE_CLOSED], 0);
    CHECK(
        !comes_to(dlk_life_next, DLK_LIFE_CLOSING, DLK_LIFE_OPEN, sizeof(dlk_life_next)));
}

/* ---- what can't be ---- */

static dlk_engine engine;
static dlk_sleeper sleeper;

static void open_what_is_closed(void)
{
    engine.life = DLK_LIFE_CLOSED;
    dlk_life_becomes(&engine, DLK_LIFE_OPEN);
}

static void drive_beside_another(void)
{
    engine.driven = DLK_DRIVEN_BY_CALLER;
    dlk_driven_becomes(&engine, DLK_DRIVEN_BY_THREAD);
}

static void call_who_is_awake(void)
{
    engine.thread_state = DLK_THREAD_AWAKE;
    dlk_thread_becomes(&engine, DLK_THREAD_CALLED);
}

static void park_the_driver(void)
{
    sleeper.state = DLK_SLEEPER_DRIVES;
    dlk_sleeper_becomes(&sleeper, DLK_SLEEPER_PARKED);
}

static void park_who_is_awake(void)
{
    sleeper.state = DLK_SLEEPER_AWAKE;
    dlk_sleeper_becomes(&sleeper, DLK_SLEEPER_PARKED);
}

TEST(an_impossible_step_ends_the_program)
{
    CHECK(harness_aborts(open_what_is_closed));
    CHECK(harness_aborts(drive_beside_another));
    CHECK(harness_aborts(call_who_is_awake));
    CHECK(harness_aborts(park_the_driver));
    CHECK(!harness_aborts(park_who_is_awake));
}

/* ---- what must hold when the mutex is let go ---- */

static void make_idle(void)
{
    engine = (dlk_engine){.life = DLK_LIFE_OPEN, .thread_state = DLK_THREAD_ASLEEP};
    dlk_list_init(&engine.sleepers);
    dlk_list_init(&engine.waking);
    dlk_sleeper_init(&sleeper);
}

TEST(what_doesnt_go_together_isnt_sound)
{
    make_idle();
    CHECK(dlk_engine_is_sound(&engine));
    engine.visit_missed = true; /* nobody drives who could have been missed */
    CHECK(!dlk_engine_is_sound(&engine));
    engine.driven = DLK_DRIVEN_BY_VISITOR;
    CHECK(dlk_engine_is_sound(&engine));
    engine.life = DLK_LIFE_CLOSED;
    CHECK(!dlk_engine_is_sound(&engine));

    make_idle();
    engine.thread_state = DLK_THREAD_NONE;
    CHECK(!dlk_engine_is_sound(&engine));

    make_idle();
    dlk_list_append(&engine.sleepers, &sleeper.link);
    CHECK(!dlk_engine_is_sound(&engine));
    sleeper.state = DLK_SLEEPER_PARKED;
    CHECK(dlk_engine_is_sound(&engine));
    engine.appointed = &sleeper; /* and nobody has told it */
    CHECK(!dlk_engine_is_sound(&engine));
    sleeper.state = DLK_SLEEPER_CALLED;
    CHECK(dlk_engine_is_sound(&engine));

    make_idle();
    dlk_list_append(&engine.waking, &sleeper.waking);
    CHECK(!dlk_engine_is_sound(&engine));
}
