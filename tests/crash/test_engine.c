/* Death after every single instruction that the whole library spends in the table, between the
 * door and the way out of it, while a program calls acquire and release; and who comes next is a
 * client of the whole library too, which nobody tells of the death. Built with DLK_POINTS. */
#include "deaths.h"
#include "heir.h"

#include "check.h"
#include "client.h"
#include "harness/harness.h"
#include "util/clock.h"
#include "util/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void (*dlk_point_hook)(const char *name);

/* What the heir does before and after the death. */
typedef enum crash_legacy {
    COMES_AFTER, /* asks when the victim is dead */
    WAITS,       /* is in the line of the victim's lock */
    HOLDS_IT,    /* has the lock, gives it up when the victim is dead, and asks again */
} crash_legacy;

typedef struct crash_call {
    void (*prepare)(void);
    void (*call)(void);
    crash_legacy legacy;
} crash_call;

typedef struct crash_set {
    const crash_call *call;
    dlock_kind kind; /* of the victim's lock */
    const char *uri;
    dlk_file file;
    dlk_table table; /* only looked at */
    crash_heir heir;
} crash_set;

static crash_tally tally;

/* ---- in the victim ---- */

static dlock_lock *lock;
static dlock_hold *hold;
static _Thread_local bool armed; /* the engine's thread goes in and out unseen */

static void at_point(const char *name)
{
    if (!armed)
        return;
    if (strcmp(name, "table.door") == 0) {
        step_begin();
    } else if (strcmp(name, "table.left") == 0) {
        armed = false;
        step_end();
    }
}

static void take(void)
{
    if (dlock_lock_acquire(lock, DLOCK_FOREVER, &hold, NULL) != DLOCK_OK)
        _exit(4);
}

static void give(void)
{
    if (dlock_hold_release(hold, NULL) != DLOCK_OK)
        _exit(5);
}

static void live(void *arg)
{
    const crash_set *set = arg;
    step_offer();
    lock = heir_lock(set->uri, set->kind);
    if (set->call->prepare)
        set->call->prepare();
    dlk_point_hook = at_point;
    armed = true;
    set->call->call();
}

/* ---- around it ---- */

static bool heir_is_ready(crash_set *set)
{
    return set->call->legacy != HOLDS_IT ||
           (heir_ask(&set->heir, HEIR_ACQUIRE) && heir_succeeds(&set->heir));
}

static bool heir_sleeps(crash_set *set)
{
    return set->call->legacy != WAITS || (heir_ask(&set->heir, HEIR_ACQUIRE) &&
                                          heir_is_in_line(&set->heir, &set->table));
}

static const char *heir_inherits(crash_set *set)
{
    crash_heir *next = &set->heir;
    if (set->call->legacy == HOLDS_IT &&
        !(heir_ask(next, HEIR_RELEASE) && heir_succeeds(next)))
        return "the holder can't release";
    if (set->call->legacy != WAITS && !heir_ask(next, HEIR_ACQUIRE))
        return "the next is gone";
    if (!heir_succeeds(next))
        return "the next doesn't get the lock";
    return NULL;
}

static const char *table_is_sound(crash_set *set)
{
    dlk_section section;
    dlk_watch_reap(&set->table); /* if the heir had no reason to */
    if (dlk_table_enter(&set->table, &section, 2000) != DLK_ENTERED)
        return "the table can't be entered";
    const char *fault =
        section.damaged ? "the table is damaged" : table_fault(&set->table);
    for (uint32_t ref = 1; !fault && ref <= set->table.place_count; ref++)
        if (atomic_load(&set->table.places[ref - 1].word) != 0)
            fault = "a place is still taken";
    for (uint32_t ref = 1; !fault && ref <= set->table.row_count; ref++)
        if (dlk_row_record(&set->table.rows[ref - 1]).owner != 0)
            fault = "the lock still has an owner";
    dlk_table_leave(&section);
    return fault;
}

/* Kills a victim after so many instructions. False: something is wrong, or it had ended. */
static bool die_at(crash_set *set, int count)
{
    step_process victim;
    const char *fault = heir_is_ready(set) ? NULL : "the holder isn't ready";
    bool begun = !fault && step_fork(&victim, live, set);
    if (!fault && !begun)
        fault = victim.why;
    if (!fault && !heir_sleeps(set))
        fault = "the next isn't in the line";
    while (!fault && victim.steps < count && step_once(&victim))
        continue;
    bool ended = begun && victim.ended;
    if (begun && victim.lost)
        fault = victim.why;
    if (begun)
        step_kill(&victim);
    int64_t died = dlk_clock_now();
    if (!fault)
        fault = heir_inherits(set);
    int us = (int)((dlk_clock_now() - died) / 1000);
    if (!fault && !(heir_ask(&set->heir, HEIR_RELEASE) && heir_succeeds(&set->heir)))
        fault = "the next can't release the lock";
    if (!fault)
        fault = table_is_sound(set);
    if (fault)
        (void)snprintf(tally.fault, sizeof(tally.fault),
                       "killed after instruction %d: %s", count, fault);
    tally.kills++;
    tally.worst_us = us > tally.worst_us ? us : tally.worst_us;
    if (begun && victim.steps > tally.steps)
        tally.steps = victim.steps;
    return !fault && !ended;
}

static void die_with(const char *name, const crash_call *call, dlock_kind kind,
                     dlock_kind heirs)
{
    crash_set set = {.call = call, .kind = kind};
    dlk_file_wish wish = {.slots = 16, .mode = 0600, .wait_ms = 2000};
    tally = (crash_tally){0};
    wish.path = strdup(temp_path(name));
    set.uri = temp_uri(name);
    CHECK(wish.path);
    CHECK_EQ_INT(dlk_file_open(&set.file, &set.table, &wish, NULL), DLOCK_OK);
    free((char *)(uintptr_t)wish.path);
    heir_start(&set.heir, set.uri, heirs);
    for (int count = deaths_from(); die_at(&set, count); count += deaths_every())
        continue;
    heir_end(&set.heir);
    dlk_file_close(&set.file, &set.table);
    CHECK_STR(tally.fault, "");
    harness_note("%s: %d kills in %d instructions; the next had the lock after %d us at "
                 "the latest",
                 name, tally.kills, tally.steps, tally.worst_us);
    CHECK(tally.kills > 1);
}

/* With locks of each form: a mutex, the sides of a read/write lock, a semaphore of one. */
static void die_everywhere(const char *name, const crash_call *call)
{
    char shared[64], permits[64];
    const char *forbidden = step_forbidden();
    if (forbidden)
        SKIP(forbidden);
    (void)snprintf(shared, sizeof(shared), "%s of a reader", name);
    (void)snprintf(permits, sizeof(permits), "%s of a permit", name);
    die_with(name, call, DLOCK_MUTEX, DLOCK_MUTEX);
    die_with(shared, call, DLOCK_READ, DLOCK_WRITE);
    die_with(permits, call, DLOCK_SEMAPHORE, DLOCK_SEMAPHORE);
}

TEST(a_program_killed_in_an_acquire_leaves_the_lock_to_the_next)
{
    die_everywhere("acquire", &(crash_call){.call = take, .legacy = COMES_AFTER});
}

TEST(a_program_killed_in_queueing_up_keeps_nobody_waiting)
{
    die_everywhere("enqueue", &(crash_call){.call = take, .legacy = HOLDS_IT});
}

TEST(a_program_killed_in_a_release_leaves_the_lock_to_the_next)
{
    die_everywhere("release", &(crash_call){take, give, COMES_AFTER});
}

TEST(a_program_killed_in_a_hand_over_hands_the_lock_to_who_waits)
{
    die_everywhere("hand-over", &(crash_call){take, give, WAITS});
}
