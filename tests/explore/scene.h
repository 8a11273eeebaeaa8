/* Scenes: a client or two, and two or three actors who do a few things with them. */
#ifndef EXPLORE_SCENE_H
#define EXPLORE_SCENE_H

#include "search.h"

#include <stdbool.h>

typedef struct scene {
    /* what it promises, for the test; the option --scenario takes a part */
    const char *name;
    int takeover; /* in the place of DLK_TAKEOVER */
    void (*set_up)(void);
    void (*actors[3])(void);
    bool at_once; /* and no time passes over it */
    /* Holds, ops and locks that are left are given back before, the client after it. */
    void (*check)(void);
    search_limits limits, proof;
} scene;

extern const scene scenes[];
extern const int scene_count;

/* One execution of the scene. */
void scene_play(const scene *one);

#endif
