/* A model of the members of a multi-lock, with a clock of its own, around the decisions of
 * libdlock/multi/taking.c: it carries out each action in one of all the ways it can come out, and looks
 * at every next one. */
#ifndef MULTI_WORLD_H
#define MULTI_WORLD_H

#include "multi/taking.h"
#include "util/clock.h"

enum { STORY = 4000, DEPTH = 600 };

/* Where a run went another way than it could have: gone through one by one, or by a seed. */
typedef struct world_way {
    bool by_seed;
    bool telling; /* writes the story, which takes most of the time */
    uint64_t seed;
    int chosen[DEPTH], of[DEPTH], at, length;
} world_way;

/* How bad it may get in one run. */
typedef struct world_limits {
    int late;   /* grants that come when another lease is over */
    int lost;   /* members that are lost at once */
    int pauses; /* between two actions, to the deadline */
} world_limits;

typedef struct world {
    dlk_taking taking;
    dlk_taking_action todo;
    world_way *way;
    world_limits left;
    size_t count;
    uint8_t order[DLK_MULTI_MAX];
    int64_t wait_ms, start, now;

    bool held[DLK_MULTI_MAX], looked[DLK_MULTI_MAX];
    int64_t lease_end[DLK_MULTI_MAX];
    dlock_err refusal; /* of the first that couldn't be had, as it was said */
    bool gave_up;      /* no member is to be asked any more */
    bool anew;         /* one was found lost: all go back before the next is asked */
    bool called_off;
    int told;  /* how often the caller was */
    int quiet; /* actions since time passed, or something was lost */

    char story[STORY];
    size_t story_size;
    const char *wrong; /* or NULL */
} world;

/* One run from the beginning to the end. False: w->wrong says why, and w->story how it came. */
bool world_run(world *w, world_way *way, size_t count, int64_t wait_ms,
               world_limits limits);
/* The next way; false when there is none. */
bool world_next_way(world_way *way);
/* Totals of all runs. */
extern int64_t world_events;

#endif
