/*
 * What an engine, its thread and those who wait in it can be, and what each can become next: one table
 * for each. They change by dlk_…_becomes of engine.h alone, with the mutex held, and a step that isn't
 * in the table is an assertion's failure. docs/design/0025-states.md says why what stays a flag does.
 */
#ifndef DLK_ENGINE_STATES_H
#define DLK_ENGINE_STATES_H

#include "locks/states.h"

typedef enum dlk_life {
    DLK_LIFE_NEW,
    DLK_LIFE_OPEN,
    DLK_LIFE_CLOSING,
    DLK_LIFE_CLOSED
} dlk_life;

/* Who is the driver: inside the backend's arm → sleep → process. */
typedef enum dlk_driven {
    DLK_DRIVEN_NOT = 0,   /* so it is true while anybody is */
    DLK_DRIVEN_BY_CALLER, /* who waits in a call */
    DLK_DRIVEN_BY_THREAD, /* the engine's; also while it lets the woken ask */
    DLK_DRIVEN_BY_VISITOR,
    /* … who has read, and has the mutex until all is digested: it fetches what is announced */
    DLK_DRIVEN_TO_BE_FETCHED,
} dlk_driven;

/* The engine's thread. */
typedef enum dlk_thread_state {
    DLK_THREAD_NONE, /* not started, or joined */
    DLK_THREAD_AWAKE,
    DLK_THREAD_ASLEEP, /* until engine->asleep_until, at the bell or as the driver */
    DLK_THREAD_CALLED, /* … and on its way: nobody else need call it */
} dlk_thread_state;

/* Who waits in a call. */
typedef enum dlk_sleeper_state {
    DLK_SLEEPER_AWAKE,
    DLK_SLEEPER_DRIVES,
    DLK_SLEEPER_PARKED, /* in engine->sleepers */
    DLK_SLEEPER_CALLED, /* … and somebody is going to wake it, who touches it once more */
} dlk_sleeper_state;

/* What each can become next, as sets. */
static const uint8_t dlk_life_next[] = {
    [DLK_LIFE_NEW] = DLK_IN(DLK_LIFE_OPEN) | DLK_IN(DLK_LIFE_CLOSING),
    [DLK_LIFE_OPEN] = DLK_IN(DLK_LIFE_CLOSING),
    [DLK_LIFE_CLOSING] = DLK_IN(DLK_LIFE_CLOSED),
    [DLK_LIFE_CLOSED] = 0,
};
static const uint8_t dlk_driven_next[] = {
    [DLK_DRIVEN_NOT] = DLK_IN(DLK_DRIVEN_BY_CALLER) | DLK_IN(DLK_DRIVEN_BY_THREAD) |
                       DLK_IN(DLK_DRIVEN_BY_VISITOR),
    [DLK_DRIVEN_BY_CALLER] = DLK_IN(DLK_DRIVEN_NOT),
    [DLK_DRIVEN_BY_THREAD] = DLK_IN(DLK_DRIVEN_NOT),
    [DLK_DRIVEN_BY_VISITOR] = DLK_IN(DLK_DRIVEN_TO_BE_FETCHED),
    [DLK_DRIVEN_TO_BE_FETCHED] = DLK_IN(DLK_DRIVEN_NOT),
};
static const uint8_t dlk_thread_next[] = {
    [DLK_THREAD_NONE] = DLK_IN(DLK_THREAD_AWAKE),
    [DLK_THREAD_AWAKE] = DLK_IN(DLK_THREAD_ASLEEP) | DLK_IN(DLK_THREAD_NONE),
    [DLK_THREAD_ASLEEP] = DLK_IN(DLK_THREAD_CALLED) | DLK_IN(DLK_THREAD_AWAKE),
    [DLK_THREAD_CALLED] = DLK_IN(DLK_THREAD_AWAKE),
};
static const uint8_t dlk_sleeper_next[] = {
    [DLK_SLEEPER_AWAKE] = DLK_IN(DLK_SLEEPER_DRIVES) | DLK_IN(DLK_SLEEPER_PARKED),
    [DLK_SLEEPER_DRIVES] = DLK_IN(DLK_SLEEPER_AWAKE),
    [DLK_SLEEPER_PARKED] = DLK_IN(DLK_SLEEPER_CALLED) | DLK_IN(DLK_SLEEPER_AWAKE),
    [DLK_SLEEPER_CALLED] = DLK_IN(DLK_SLEEPER_AWAKE),
};

#endif
