/* Killing a victim at every step, and looking what is left; see the header. */
#include "deaths.h"

#include "util/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONGEST 200000 /* instructions: a victim that runs longer hangs */

int deaths_every(void)
{
    const char *text = getenv("DLK_CRASH_EVERY");
    return text && atoi(text) > 0 ? atoi(text) : 1;
}

int deaths_from(void)
{
    const char *text = getenv("DLK_CRASH_FROM");
    return text ? atoi(text) : (int)(time(NULL) % deaths_every()) + 1;
}

/* One processor for the stepper and the stepped: each step is two switches between them. */
static void stay_here(void)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    (void)sched_setaffinity(0, sizeof(here), &here); /* only slower without */
}

static const crash_scene *scene_named(const char *name)
{
    for (size_t i = 0; i < scene_count; i++)
        if (strcmp(scenes[i].name, name) == 0)
            return &scenes[i];
    abort();
}

static bool wrong(crash_tally *tally, step_unit unit, int count, const char *what)
{
    (void)snprintf(tally->fault, sizeof(tally->fault), "killed after %s %d: %s",
                   unit == INSTRUCTIONS ? "instruction" : "change", count, what);
    return false;
}

/* Runs the victim until it has done so many; returns how many it has done. */
static int run_to(step_process *victim, const crash_stage *stage, step_unit unit,
                  int count)
{
    int done = 0;
    if (unit == CHANGES)
        step_watch(victim, stage->table.head, stage->table.size);
    while (done < count && victim->steps < LONGEST && step_once(victim))
        done += unit == INSTRUCTIONS || step_changed(victim);
    if (unit == CHANGES)
        step_unwatch(victim);
    return done;
}

/* Kills a victim there and looks at what it left. *ended: it was at its end before. */
static bool die_at(crash_stage *stage, step_unit unit, int count, crash_tally *tally,
                   bool *ended)
{
    step_process victim;
    if (!stage_victim(stage, &victim))
        return wrong(tally, unit, count,
                     victim.lost ? victim.why : "the waiter doesn't sleep");
    int done = run_to(&victim, stage, unit, count);
    step_kill(&victim);
    *ended = victim.ended;
    if (victim.lost || victim.steps == LONGEST)
        return wrong(tally, unit, done, victim.lost ? victim.why : "it hung");
    int64_t died = dlk_clock_now();
    const char *fault = stage_aftermath(stage);
    int us = (int)((dlk_clock_now() - died) / 1000);
    tally->worst_us = us > tally->worst_us ? us : tally->worst_us;
    tally->steps = victim.steps > tally->steps ? victim.steps : tally->steps;
    if (unit == CHANGES)
        tally->changes = done > tally->changes ? done : tally->changes;
    tally->kills++;
    return fault ? wrong(tally, unit, done, fault) : true;
}

static bool all_deaths(crash_stage *stage, step_unit unit, int first, int stride,
                       crash_tally *tally)
{
    bool ended = false;
    for (int count = first; !ended; count += stride)
        if (!die_at(stage, unit, count, tally, &ended))
            return false;
    return true;
}

bool deaths_in(const char *scene, step_unit unit, crash_tally *tally)
{
    crash_stage stage;
    bool ended;
    stay_here();
    *tally = (crash_tally){0};
    stage_open(&stage, scene_named(scene), scene);
    /* Once to its end, to count what changes; then all the deaths before. */
    bool sound = die_at(&stage, CHANGES, LONGEST, tally, &ended) &&
                 all_deaths(&stage, unit, deaths_from(), deaths_every(), tally);
    stage_close(&stage);
    return sound;
}

/* Deaths in the recovery of a first victim, who died after so many changes. *ended: it was at
 * its end before. */
static bool die_twice(const char *scene, int changes, crash_tally *tally, bool *ended)
{
    crash_stage stage;
    step_process first;
    stage_open(&stage, scene_named(scene), scene);
    bool sound = stage_victim(&stage, &first);
    if (sound)
        (void)run_to(&first, &stage, CHANGES, changes);
    step_kill(&first);
    *ended = first.ended;
    if (!sound || first.lost) {
        (void)wrong(tally, CHANGES, changes, "the first victim is lost");
    } else if (!first.ended) {
        stage_recover(&stage, scene_bury);
        sound = all_deaths(&stage, CHANGES, deaths_from(), deaths_every(), tally);
    }
    stage_close(&stage);
    return sound && !first.lost;
}

bool deaths_recovering(const char *scene, int stride, crash_tally *tally)
{
    bool ended = false;
    stay_here();
    *tally = (crash_tally){0};
    for (int changes = stride / 2 + 1; !ended; changes += stride)
        if (!die_twice(scene, changes, tally, &ended))
            return false;
    return true;
}
