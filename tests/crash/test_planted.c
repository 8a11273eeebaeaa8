/* Bugs put back into the table on purpose: stepping through a hand-over must find each. */
#include "deaths.h"

#include "harness/harness.h"
#include "util/point.h"

enum dlk_bug dlk_plant;

static void must_be_caught(enum dlk_bug bug)
{
    crash_tally tally;
    const char *forbidden = step_forbidden();
    if (forbidden)
        SKIP(forbidden);
    stage_patience_ms =
        1000; /* a planted bug needn't get the time that a busy machine does */
    dlk_plant = bug;
    bool sound = deaths_in("release with hand-over", CHANGES, &tally);
    dlk_plant = DLK_BUG_NONE;
    CHECK(!sound);
    harness_note("caught: %s", tally.fault);
}

TEST(a_table_that_is_not_rebuilt_after_a_death_is_caught)
{
    must_be_caught(DLK_BUG_NO_REBUILD);
}

TEST(a_reaper_that_does_not_wake_the_granted_again_is_caught)
{
    must_be_caught(DLK_BUG_NO_REWAKE);
}

TEST(a_change_made_in_place_is_caught)
{
    must_be_caught(DLK_BUG_CHANGE_IN_PLACE);
}
