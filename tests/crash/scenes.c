/* What is done to a lock: how the table stands before, and what the victim does. */
#include "scenes.h"

#include "backends/local/inner.h"

#include <stdlib.h>
#include <unistd.h>

static void must(bool held)
{
    if (!held)
        abort(); /* the scene isn't set: nothing that follows would mean anything */
}

static void get(crash_stage *stage, crash_person *person, dlk_outcome expected)
{
    int64_t token;
    must(person_acquire(stage, person, "n", stage->now, &token) == expected);
}

/* ---- before ---- */

static void set_nothing(crash_stage *stage)
{
    (void)stage;
}

static void set_full(crash_stage *stage)
{
    const char *const names[] = {"a", "b", "c", "d"};
    int64_t token;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        must(person_acquire(stage, &stage->next, names[i], stage->now, &token) ==
             DLK_GRANTED);
        must(person_release(stage, &stage->next, names[i]));
    }
}

static void set_victim_holds(crash_stage *stage)
{
    get(stage, &stage->victim, DLK_GRANTED);
}

static void set_victim_holds_waiter_waits(crash_stage *stage)
{
    get(stage, &stage->victim, DLK_GRANTED);
    get(stage, &stage->waiter, DLK_QUEUED);
}

static void set_victim_was_handed_it(crash_stage *stage)
{
    get(stage, &stage->holder, DLK_GRANTED);
    get(stage, &stage->victim, DLK_QUEUED);
    get(stage, &stage->waiter, DLK_QUEUED);
    must(person_release(stage, &stage->holder, "n"));
}

static void set_holder_holds_waiter_waits(crash_stage *stage)
{
    get(stage, &stage->holder, DLK_GRANTED);
    get(stage, &stage->waiter, DLK_QUEUED);
}

static void set_victim_waits_ahead(crash_stage *stage)
{
    get(stage, &stage->holder, DLK_GRANTED);
    get(stage, &stage->victim, DLK_QUEUED);
    get(stage, &stage->waiter, DLK_QUEUED);
}

static void set_victim_will_give(crash_stage *stage)
{
    stage->giver = stage->victim;
    set_victim_holds_waiter_waits(stage);
}

/* What is given away was handed over before: its place goes with it. */
static void set_victim_will_give_what_it_was_handed(crash_stage *stage)
{
    stage->giver = stage->victim;
    set_victim_was_handed_it(stage);
}

static void set_victim_has_given(crash_stage *stage)
{
    set_victim_will_give(stage);
    must(person_export(stage, &stage->victim, "n"));
}

static void set_holder_has_given(crash_stage *stage)
{
    stage->giver = stage->holder;
    set_holder_holds_waiter_waits(stage);
    must(person_export(stage, &stage->holder, "n"));
}

static void set_lease_is_over(crash_stage *stage)
{
    set_holder_holds_waiter_waits(stage);
    stage->now += 2 * HOUR;
}

static void set_somebody_died(crash_stage *stage)
{
    stage->dead = person_join(stage, (uint32_t)dead_process());
    stage->dead.take = stage->scene->pool.victim;
    get(stage, &stage->dead, DLK_GRANTED);
    get(stage, &stage->waiter, DLK_QUEUED);
}

static void set_victim_is_a_stranger(crash_stage *stage)
{
    person_bury(stage, &stage->victim);
    stage->victim = (crash_person){.owner = 0};
    set_somebody_died(stage);
}

/* ---- the same of a pool ---- */

static void set_holder_holds(crash_stage *stage)
{
    get(stage, &stage->holder, DLK_GRANTED);
}

/* By every clock: whoever recovers goes by its own. */
static void set_share_is_over(crash_stage *stage)
{
    set_holder_holds_waiter_waits(stage);
    atomic_store(&dlk_line_place_at(&stage->table, stage->holder.turn.place)->until,
                 stage->now);
}

static void set_both_hold_waiter_waits(crash_stage *stage)
{
    get(stage, &stage->holder, DLK_GRANTED);
    get(stage, &stage->victim, DLK_GRANTED);
    get(stage, &stage->waiter, DLK_QUEUED);
}

static void set_victim_holds_both_wait(crash_stage *stage)
{
    get(stage, &stage->victim, DLK_GRANTED);
    get(stage, &stage->holder, DLK_QUEUED);
    get(stage, &stage->waiter, DLK_QUEUED);
}

/* ---- a condition ---- */

static void set_waiter_waits(crash_stage *stage)
{
    get(stage, &stage->waiter, DLK_QUEUED);
}

static void set_victim_waits_before(crash_stage *stage)
{
    get(stage, &stage->victim, DLK_QUEUED);
    get(stage, &stage->waiter, DLK_QUEUED);
}

static void set_victim_is_signalled(crash_stage *stage)
{
    set_victim_waits_before(stage);
    must(person_signal(stage, "n") == 1);
}

static void set_signal_is_late(crash_stage *stage)
{
    get(stage, &stage->holder, DLK_QUEUED);
    get(stage, &stage->waiter, DLK_QUEUED);
    must(person_signal(stage, "n") == 1);
    atomic_store(&dlk_line_place_at(&stage->table, stage->holder.turn.place)->until,
                 stage->now);
}

static void set_a_dead_one_is_before(crash_stage *stage)
{
    stage->dead = person_join(stage, (uint32_t)dead_process());
    stage->dead.take = 1;
    get(stage, &stage->dead, DLK_QUEUED);
    get(stage, &stage->waiter, DLK_QUEUED);
}

static void set_a_dead_one_is_signalled(crash_stage *stage)
{
    set_a_dead_one_is_before(stage);
    must(person_signal(stage, "n") == 1);
}

static void set_stranger_and_signalled_dead(crash_stage *stage)
{
    person_bury(stage, &stage->victim);
    stage->victim = (crash_person){.owner = 0};
    set_a_dead_one_is_signalled(stage);
}

/* ---- what the victim does ---- */

static void do_acquire(crash_stage *stage)
{
    int64_t token;
    (void)person_acquire(stage, &stage->victim, "n", stage->now, &token);
}

static void do_renew(crash_stage *stage)
{
    (void)person_renew(stage, &stage->victim, "n");
}

static void do_turn(crash_stage *stage)
{
    stage->victim.take = 1;
    (void)person_renew(stage, &stage->victim, "n");
}

static void do_release(crash_stage *stage)
{
    (void)person_release(stage, &stage->victim, "n");
}

static void do_export(crash_stage *stage)
{
    (void)person_export(stage, &stage->victim, "n");
}

static void do_import(crash_stage *stage)
{
    (void)person_import(stage, &stage->victim, "n");
}

static void do_use(crash_stage *stage)
{
    (void)person_use(stage, &stage->victim, "n");
}

static void do_signal(crash_stage *stage)
{
    (void)person_signal(stage, "n");
}

static void do_evict(crash_stage *stage)
{
    person_evict(stage, "n");
}

static void on_link(dlk_host *host, bool up, const dlock_error *error)
{
    (void)host;
    (void)up;
    (void)error;
}

/* A client comes, and buries who died before. */
static void do_come(crash_stage *stage)
{
    dlk_host host = {
        .tell = &dlk_tell_nobody, .link = on_link, .uuid = "u", .name = "test"};
    dlk_local local = {.base.host = &host, .table = &stage->table};
    local.who = (dlk_identity){.pid = stage->table.pid};
    dlk_list_init(&local.turns);
    dlk_list_init(&local.held);
    dlk_local_start(&local.base, stage->now);
}

/* A client goes, as close has it go. */
static void do_go(crash_stage *stage)
{
    dlk_local local = {.table = &stage->table, .owner = stage->victim.owner};
    dlk_list_init(&local.turns);
    dlk_list_init(&local.held);
    dlk_local_stop(&local.base);
}

void scene_bury(crash_stage *stage)
{
    person_bury(stage, &stage->dead);
}

#define ALL DLK_POOL_ALL
#define RW(victim, holder, waiter)                                                       \
    {                                                                                    \
        DLOCK_WRITE, ALL, victim, holder, waiter                                         \
    }
#define SEMAPHORE(victim, holder, waiter)                                                \
    {                                                                                    \
        DLOCK_SEMAPHORE, 3, victim, holder, waiter                                       \
    }

#define CONDITION                                                                        \
    {                                                                                    \
        DLK_KIND_CONDITION, 1, 1, 1, 1                                                   \
    }

const crash_scene scenes[] = {
    {"acquire", set_nothing, do_acquire, .waits = false},
    {"acquire in a full table", set_full, do_acquire, .waits = false},
    {"acquire after a lease", set_lease_is_over, do_acquire, .waits = true,
     .holding = HELD_ONCE},
    {"enqueue", set_holder_holds_waiter_waits, do_acquire, .waits = true,
     .holding = HOLDS},
    {"renew", set_victim_holds_waiter_waits, do_renew, .waits = true},
    {"release", set_victim_holds, do_release, .waits = false},
    {"release with hand-over", set_victim_holds_waiter_waits, do_release, .waits = true},
    {"release of what was handed over", set_victim_was_handed_it, do_release,
     .waits = true},
    {"cancel", set_victim_waits_ahead, do_release, .waits = true, .holding = HOLDS},
    {"break", set_holder_holds_waiter_waits, do_evict, .waits = true,
     .holding = MAYBE_HOLDS},
    {"export", set_victim_will_give, do_export, .waits = true, .holding = MAYBE_LEFT},
    {"export of what was handed over", set_victim_will_give_what_it_was_handed, do_export,
     .waits = true, .holding = MAYBE_LEFT},
    {"import", set_holder_has_given, do_import, .waits = true, .holding = MAYBE_LEFT},
    {"go of the giver", set_victim_has_given, do_go, .waits = true, .holding = IS_LEFT},
    {"come", set_victim_is_a_stranger, do_come, .waits = true},
    {"go", set_victim_holds_waiter_waits, do_go, .waits = true},
    {"bury", set_somebody_died, scene_bury, .waits = true},
    {"read", set_holder_holds, do_acquire, .waits = false, .holding = HOLDS,
     .pool = RW(1, 1, 0)},
    {"write", set_nothing, do_acquire, .waits = false, .pool = RW(ALL, 0, 0)},
    {"read behind a writer", set_holder_holds_waiter_waits, do_acquire, .waits = true,
     .holding = HOLDS, .pool = RW(1, 1, ALL)},
    {"read after a lease", set_share_is_over, do_acquire, .waits = true,
     .holding = HELD_ONCE, .pool = RW(1, 1, ALL)},
    {"renew of a reader", set_victim_holds_waiter_waits, do_renew, .waits = true,
     .pool = RW(1, 0, ALL)},
    {"release of the last reader", set_victim_holds_waiter_waits, do_release,
     .waits = true, .pool = RW(1, 0, ALL)},
    {"release to two readers", set_victim_holds_both_wait, do_release, .waits = true,
     .holding = HOLDS, .pool = RW(ALL, 1, 1)},
    {"turn into a reader", set_victim_holds_both_wait, do_turn, .waits = true,
     .holding = HOLDS, .pool = RW(ALL, 1, 1)},
    {"cancel of a writer", set_victim_waits_ahead, do_release, .waits = true,
     .holding = HOLDS, .pool = RW(ALL, 1, 1)},
    {"come to readers", set_victim_is_a_stranger, do_come, .waits = true,
     .pool = RW(1, 0, ALL)},
    {"go of a reader", set_victim_holds_waiter_waits, do_go, .waits = true,
     .pool = RW(1, 0, ALL)},
    {"bury a writer", set_somebody_died, scene_bury, .waits = true,
     .pool = RW(ALL, 0, 1)},
    {"take of permits", set_holder_holds, do_acquire, .waits = false, .holding = HOLDS,
     .pool = SEMAPHORE(2, 1, 0)},
    {"release of permits", set_both_hold_waiter_waits, do_release, .waits = true,
     .holding = HOLDS, .pool = SEMAPHORE(2, 1, 2)},
    {"bury permits", set_somebody_died, scene_bury, .waits = true,
     .pool = SEMAPHORE(2, 0, 2)},
    {"wait for a signal", set_waiter_waits, do_acquire, .waits = true, .holding = SIGNALS,
     .pool = CONDITION},
    {"cancel before a signal", set_victim_waits_before, do_release, .waits = true,
     .holding = SIGNALS, .pool = CONDITION},
    {"signal", set_waiter_waits, do_signal, .waits = true, .holding = SIGNALS,
     .pool = CONDITION},
    {"signal behind a dead one", set_a_dead_one_is_before, do_signal, .waits = true,
     .holding = SIGNALS, .pool = CONDITION},
    {"use of a signal", set_victim_is_signalled, do_use, .waits = true,
     .holding = SIGNALS, .pool = CONDITION},
    {"pass on of a signal", set_victim_is_signalled, do_release, .waits = true,
     .pool = CONDITION},
    {"renew of a signal", set_victim_is_signalled, do_renew, .waits = true,
     .pool = CONDITION},
    {"wait behind a late signal", set_signal_is_late, do_acquire, .waits = true,
     .holding = HELD_ONCE, .pool = CONDITION},
    {"go of a signalled one", set_victim_is_signalled, do_go, .waits = true,
     .pool = CONDITION},
    {"come to a signalled dead one", set_stranger_and_signalled_dead, do_come,
     .waits = true, .pool = CONDITION},
    {"bury a signalled one", set_a_dead_one_is_signalled, scene_bury, .waits = true,
     .pool = CONDITION},
};

const size_t scene_count = sizeof(scenes) / sizeof(scenes[0]);
