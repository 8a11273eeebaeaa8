/* A small table in a file with those who use it, put back as it was for every death:
 *
 *     the victim    a child that is stepped and killed
 *     the holder    somebody alive who has the lock, in the scenes in which one does
 *     the waiter    a process that sleeps in the line and must be given the lock
 *     the next      who comes afterwards and must get the lock too
 *
 * The holder and the next are members of the test's own process. Leases are an hour long: what
 * comes only at the end of one never comes. */
#ifndef TESTS_CRASH_STAGE_H
#define TESTS_CRASH_STAGE_H

#include "backends/local/file.h"
#include "backends/local/table.h"
#include "step.h"

#define HOUR (INT64_C(3600) * 1000000000)

typedef struct crash_person {
    uint64_t owner;
    dlk_turn turn;
    uint32_t take; /* of a pool */
} crash_person;

typedef struct crash_stage {
    dlk_file file;
    dlk_table table;
    const struct crash_scene *scene;
    void (*act)(struct crash_stage *stage); /* of the victim */
    crash_person victim, holder, waiter, next;
    crash_person rescuer; /* the victim of the second death, in a recovery */
    crash_person dead;    /* a member whose process has died before, if there is one */
    crash_person giver;   /* whose ticket it is, if there is one */
    int64_t now;          /* of the scene */
    void *image;          /* what the victim finds */
    /* The waiter's process. */
    pid_t waiter_pid;
    int to_waiter, from_waiter;
    char fault[200];
} crash_stage;

/* What the holder has after the victim's death. */
typedef enum crash_holding {
    HOLDS_NOT,
    HOLDS,       /* the lock, and releases it */
    MAYBE_HOLDS, /* unless it was taken away; releases it */
    MAYBE_LEFT,  /* what the giver's ticket brings, if it brings anything; releases it */
    IS_LEFT,     /* the same, and it brings the lock */
    SIGNALS,     /* a condition: the next one signals once more */
    HELD_ONCE, /* its lease is over: the lock goes to the first in line when anybody asks */
} crash_holding;

/* What each takes of a pool; a read/write lock is one of DLK_POOL_ALL permits. The next takes all, so
 * that it finds what leaks. */
typedef struct crash_pool {
    dlock_kind kind; /* 0: a mutex */
    uint32_t permits, victim, holder, waiter;
} crash_pool;

typedef struct crash_scene {
    const char *name;
    void (*set)(crash_stage *stage); /* brings the table to where the victim begins */
    void (*act)(crash_stage *stage); /* in the victim: what it does until it dies */
    bool waits;                      /* the waiter is in the line */
    crash_holding holding;
    crash_pool pool;
} crash_scene;

/* Opens a table in a file of its own and sets the scene. */
void stage_open(crash_stage *stage, const crash_scene *scene, const char *name);
void stage_close(crash_stage *stage);

/* Puts the table back, the waiter to bed, and has the victim at its first instruction. */
bool stage_victim(crash_stage *stage, step_process *victim);
/* After the victim's end: what a living process notices, and what the others then get. NULL, or
 * what went wrong. */
const char *stage_aftermath(crash_stage *stage);
/* The victim is dead: from now on another one finds the table as it was left, and tries to
 * recover it. */
void stage_recover(crash_stage *stage, void (*act)(crash_stage *stage));

/* What people do; DLK_NOTHING when the table was damaged. */
dlk_outcome person_acquire(crash_stage *stage, crash_person *person, const char *lock,
                           int64_t now, int64_t *token);
bool person_release(crash_stage *stage, crash_person *person, const char *lock);
/* The same of a condition's place, whose signal has done its work. */
bool person_use(crash_stage *stage, crash_person *person, const char *lock);
/* Signals one; how many were. */
int64_t person_signal(crash_stage *stage, const char *lock);
bool person_renew(crash_stage *stage, crash_person *person, const char *lock);
bool person_export(crash_stage *stage, crash_person *person, const char *lock);
/* By the ticket of the stage's giver. */
bool person_import(crash_stage *stage, crash_person *person, const char *lock);
/* Another member, of process @p pid. */
crash_person person_join(crash_stage *stage, uint32_t pid);
/* Takes the lock from whoever has it. */
void person_evict(crash_stage *stage, const char *lock);
/* Hands on all that a member had. */
void person_bury(crash_stage *stage, const crash_person *person);
/* The number of a process that is dead. */
pid_t dead_process(void);

#endif
