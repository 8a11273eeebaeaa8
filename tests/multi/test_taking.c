/* Taking several locks as one, decided by libdlock/multi/taking.c, in a world where each member may
 * answer anything at any time: every way two and three members can go and many of four, and by
 * seeds up to as many as there may be. DLK_MULTI_RUNS and DLK_MULTI_SEED say how many, and which. */
#include "harness/harness.h"
#include "world.h"

#include <inttypes.h>
#include <stdlib.h>

enum { RUNS = 100000 };

static int64_t number_of(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

static world w;
static world_way way;

static void complain(const char *which, int64_t number)
{
    harness_note("%s %" PRId64 ", %d members, wait %d: %s", which, number, (int)w.count,
                 (int)w.wait_ms, w.wrong);
    harness_note("%s", w.story);
}

/* All runs of so many members; how many. */
static int64_t every_way(size_t count, int64_t wait_ms, world_limits limits)
{
    int64_t runs = 0;
    way = (world_way){0};
    do {
        runs++;
        if (!world_run(&w, &way, count, wait_ms, limits)) {
            complain("run", runs);
            return -1;
        }
    } while (world_next_way(&way));
    return runs;
}

TEST(whatever_up_to_four_members_answer_it_is_all_or_nothing_and_ends_once)
{
    static const int64_t waits[] = {0, 1, 120, 400, DLOCK_FOREVER};
    static const world_limits limits[] = {{3, 2, 1}, {3, 2, 1}, {3, 1, 1}, {1, 1, 1}};
    int64_t all = 0;
    world_events = 0;
    for (size_t count = 1; count <= 4; count++)
        for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
            int64_t runs = every_way(count, waits[i], limits[count - 1]);
            CHECK(runs > 0);
            all += runs;
        }
    harness_note("%" PRId64 " ways, %" PRId64 " actions", all, world_events);
}

TEST(by_any_seed_as_many_members_as_there_may_be_are_all_or_nothing)
{
    static const int64_t waits[] = {0, 1, 120, 400, 4000, DLOCK_FOREVER};
    int64_t runs = number_of("DLK_MULTI_RUNS", RUNS),
            seed = number_of("DLK_MULTI_SEED", 1);
    world_events = 0;
    for (int64_t i = 0; i < runs; i++, seed++) {
        /* Seeds that follow each other are spread, and none is 0. */
        uint64_t spread = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
        way = (world_way){.by_seed = true, .seed = spread};
        size_t few = 1 + (size_t)(spread >> 60) % 8;
        size_t count = i % 16 ? few : 1 + (size_t)(spread >> 40) % DLK_MULTI_MAX;
        if (world_run(&w, &way, count, waits[(spread >> 50) % 6],
                      (world_limits){5, 5, 2}))
            continue;
        complain("seed", seed);
        CHECK(!w.wrong);
    }
    harness_note("%" PRId64 " seeds, %" PRId64 " actions", runs, world_events);
}
