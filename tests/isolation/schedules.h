/* Each schedule: its file in specs/, the races of the catalogue it is for, and what it shows. Read
 * several times with other meanings of SCHEDULE and NOT_YET. */
SCHEDULE(an_acquire_whose_answer_is_lost_is_one_grant, "A1",
         "the answer to an acquire is lost")
NOT_YET("A2 A3", "a node is created, and the answer is lost",
        "ZooKeeper's nodes: issue 6")
SCHEDULE(a_cancel_at_any_point_leaves_nothing, "A4 A10",
         "a wait is cancelled at any point")
SCHEDULE(a_release_whose_answer_is_lost_is_done, "A5", "the answer to a release is lost")
SCHEDULE(a_release_that_is_lost_is_repeated, "A6", "a release doesn't arrive")
SCHEDULE(a_late_release_leaves_the_next_holder_alone, "A7",
         "a release comes after the lease")
SCHEDULE(a_release_out_of_the_past_hits_no_later_grant, "A7",
         "an old release arrives at last")
SCHEDULE(a_script_that_fails_half_way_locks_nothing, "A8", "a script stops half-way")
SCHEDULE(a_deadline_and_a_grant_are_never_both, "A9",
         "time runs out while the grant comes")
SCHEDULE(a_grant_that_lapsed_unseen_is_asked_for_anew, "A11",
         "a lease ends before its owner wakes")
SCHEDULE(a_release_goes_by_owner_and_not_by_connection, "A12",
         "a reconnect while it is held")
SCHEDULE(a_release_before_the_waiter_lies_down_wakes_it, "W1",
         "released before the waiter listens")
SCHEDULE(a_wait_outlives_the_loss_of_its_notification, "W2", "a notification is lost")
SCHEDULE(waiters_of_one_client_do_not_cut_each_other_off, "W3",
         "one waiter leaves, another stays")
SCHEDULE(a_holder_that_falls_silent_is_outwaited, "W4", "a holder dies without a word")
NOT_YET("W5", "a predecessor vanishes", "ZooKeeper's watches: issue 6")
NOT_YET("W6", "reader and writer watch each other",
        "read/write locks are issue 5, ZooKeeper's 6")
SCHEDULE(a_dead_waiter_at_the_head_blocks_nobody, "W7", "the first in the line is dead")
SCHEDULE(a_release_wakes_no_herd, "W8", "many wait for one lock")
NOT_YET("W9", "a parent node is removed", "ZooKeeper's nodes: issue 6")
