/* Death after every single instruction of what is done to a table in a file; of its recovery,
 * after each step that changed something, which is where it could matter. */
#include "deaths.h"

#include "harness/harness.h"

static int kills;

static void report(const char *name, const crash_tally *tally)
{
    harness_note("%s: %d kills in %d instructions, of which %d change something; the "
                 "slowest aftermath took %d us",
                 name, tally->kills, tally->steps, tally->changes, tally->worst_us);
    kills += tally->kills;
}

/* ---- every operation ---- */

static void die_in(const char *name, step_unit unit)
{
    crash_tally tally;
    const char *forbidden = step_forbidden();
    if (forbidden)
        SKIP(forbidden);
    (void)deaths_in(name, unit, &tally);
    CHECK_STR(tally.fault, "");
    report(name, &tally);
}

TEST(a_death_in_an_acquire_loses_nothing)
{
    die_in("acquire", INSTRUCTIONS);
}

TEST(a_death_in_an_acquire_that_takes_another_s_place_loses_nothing)
{
    die_in("acquire in a full table", INSTRUCTIONS);
}

TEST(a_death_in_an_acquire_that_ends_a_lease_hands_the_lock_on)
{
    die_in("acquire after a lease", INSTRUCTIONS);
}

TEST(a_death_in_an_enqueue_keeps_the_line)
{
    die_in("enqueue", INSTRUCTIONS);
}

TEST(a_death_in_a_renewal_hands_the_lock_on)
{
    die_in("renew", INSTRUCTIONS);
}

TEST(a_death_in_a_release_frees_the_lock)
{
    die_in("release", INSTRUCTIONS);
}

TEST(a_death_in_a_hand_over_hands_the_lock_over)
{
    die_in("release with hand-over", INSTRUCTIONS);
}

TEST(a_death_in_the_next_hand_over_hands_the_lock_over)
{
    die_in("release of what was handed over", INSTRUCTIONS);
}

TEST(a_death_in_a_cancel_keeps_the_line)
{
    die_in("cancel", INSTRUCTIONS);
}

TEST(a_death_in_a_break_hands_the_lock_on_or_leaves_it)
{
    die_in("break", INSTRUCTIONS);
}

TEST(a_death_in_an_export_hands_the_lock_on_or_leaves_it_to_the_ticket)
{
    die_in("export", INSTRUCTIONS);
    die_in("export of what was handed over", INSTRUCTIONS);
}

TEST(a_death_in_an_import_hands_the_lock_on_or_leaves_it_to_the_ticket)
{
    die_in("import", INSTRUCTIONS);
}

TEST(a_death_in_a_close_after_an_export_leaves_the_lock_to_the_ticket)
{
    die_in("go of the giver", INSTRUCTIONS);
}

TEST(a_death_in_an_open_that_buries_the_dead_hands_the_lock_on)
{
    die_in("come", CHANGES);
}

TEST(a_death_in_a_close_hands_the_lock_on)
{
    die_in("go", INSTRUCTIONS);
}

TEST(a_death_in_burying_the_dead_hands_the_lock_on)
{
    die_in("bury", INSTRUCTIONS);
}

/* ---- what several hold at a time ---- */

TEST(a_death_in_taking_a_share_loses_nothing)
{
    die_in("read", INSTRUCTIONS);
    die_in("write", INSTRUCTIONS);
    die_in("take of permits", INSTRUCTIONS);
}

TEST(a_death_in_queueing_for_a_share_keeps_the_line)
{
    die_in("read behind a writer", INSTRUCTIONS);
    die_in("read after a lease", INSTRUCTIONS);
    die_in("cancel of a writer", INSTRUCTIONS);
}

TEST(a_death_in_a_renewal_of_a_share_hands_it_on)
{
    die_in("renew of a reader", INSTRUCTIONS);
    die_in("turn into a reader", INSTRUCTIONS);
}

TEST(a_death_in_a_release_of_a_share_lets_all_in_whose_turn_it_is)
{
    die_in("release of the last reader", INSTRUCTIONS);
    die_in("release to two readers", INSTRUCTIONS);
    die_in("release of permits", INSTRUCTIONS);
}

TEST(a_death_among_the_coming_and_going_hands_a_share_on)
{
    die_in("come to readers", CHANGES);
    die_in("go of a reader", INSTRUCTIONS);
    die_in("bury a writer", INSTRUCTIONS);
    die_in("bury permits", INSTRUCTIONS);
}

/* ---- signals ---- */

TEST(a_death_in_the_line_of_a_condition_keeps_the_line)
{
    die_in("wait for a signal", INSTRUCTIONS);
    die_in("cancel before a signal", INSTRUCTIONS);
}

TEST(a_death_in_a_signal_leaves_the_line_fit_for_the_next)
{
    die_in("signal", INSTRUCTIONS);
    die_in("signal behind a dead one", INSTRUCTIONS);
    die_in("use of a signal", INSTRUCTIONS);
}

TEST(a_death_before_a_signal_was_used_loses_no_signal)
{
    die_in("pass on of a signal", INSTRUCTIONS);
    die_in("renew of a signal", INSTRUCTIONS);
    die_in("wait behind a late signal", INSTRUCTIONS);
}

TEST(a_death_among_the_coming_and_going_loses_no_signal)
{
    die_in("go of a signalled one", INSTRUCTIONS);
    die_in("come to a signalled dead one", CHANGES);
    die_in("bury a signalled one", INSTRUCTIONS);
}

/* ---- the recovery ---- */

static void die_recovering(const char *name, int stride)
{
    crash_tally tally;
    const char *forbidden = step_forbidden();
    if (forbidden)
        SKIP(forbidden);
    (void)deaths_recovering(name, stride, &tally);
    CHECK_STR(tally.fault, "");
    report(name, &tally);
}

/* How many first deaths are passed over: all the time of the short run is for a few. */
static int thinned(int stride)
{
    return deaths_every() > 1 ? stride * 3 : stride;
}

TEST(a_death_in_the_recovery_of_an_acquire_loses_nothing)
{
    die_recovering("acquire", thinned(4));
}

TEST(a_death_in_the_recovery_of_an_enqueue_keeps_the_line)
{
    die_recovering("enqueue", thinned(4));
}

TEST(a_death_in_the_recovery_of_a_hand_over_hands_the_lock_over)
{
    die_recovering("release with hand-over", thinned(2));
}

TEST(a_death_in_the_recovery_of_a_cancel_keeps_the_line)
{
    die_recovering("cancel", thinned(4));
}

TEST(a_death_in_the_recovery_of_a_hand_off_leaves_the_lock_to_the_ticket_or_the_next)
{
    die_recovering("export of what was handed over", thinned(4));
    die_recovering("import", thinned(4));
}

TEST(a_death_in_the_recovery_of_a_pool_loses_nobody)
{
    die_recovering("read behind a writer", thinned(4));
    die_recovering("release to two readers", thinned(2));
    die_recovering("turn into a reader", thinned(2));
    die_recovering("release of permits", thinned(4));
}

TEST(a_death_in_the_recovery_of_a_condition_loses_no_signal)
{
    die_recovering("signal", thinned(4));
    die_recovering("pass on of a signal", thinned(2));
    die_recovering("go of a signalled one", thinned(2));
}

TEST(kill_points_were_found)
{
    CHECK(kills > 0 || step_forbidden());
    harness_note("%d kill points in all", kills);
}
