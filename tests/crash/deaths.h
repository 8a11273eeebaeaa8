/* Killing a victim at every step of a scene and looking what is left.
 *
 * DLK_CRASH_EVERY=n in the environment kills after every n-th instruction only, beginning with
 * another one at each start; what went wrong after one is repeated with DLK_CRASH_FROM=k. */
#ifndef TESTS_CRASH_DEATHS_H
#define TESTS_CRASH_DEATHS_H

#include "scenes.h"

/* What the victim has to do once more before it is killed. */
typedef enum step_unit {
    INSTRUCTIONS,
    CHANGES, /* instructions that changed the table or the list of robust mutexes, and system
              * calls: where a death can make a difference */
} step_unit;

typedef struct crash_tally {
    int kills, steps, changes; /* the longest run's steps and changes */
    int worst_us;              /* from a death to the last of its consequences */
    char fault[256];           /* of the last death; empty: all are sound */
} crash_tally;

int deaths_every(void);
int deaths_from(void);

/* Every death in the scene. False, and tally.fault, at the first that leaves something wrong. */
bool deaths_in(const char *scene, step_unit unit, crash_tally *tally);
/* Every death of who recovers what a first victim left: all changes, first deaths after each
 * @p stride-th change of the scene. */
bool deaths_recovering(const char *scene, int stride, crash_tally *tally);

#endif
