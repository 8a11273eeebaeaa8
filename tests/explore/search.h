/*
 * Which schedules there are. One is a list of choices: wherever more than one strand could go on,
 * in the order in which that happens, either the usual one goes on (whoever runs; when that sleeps,
 * the next in the circle) or another one. Only the others are written down: "12E,30B" says that at the
 * 12th such place the engine went on, at the 30th actor B.
 *
 * Taking the turn from one who could go on is a preemption. Schedules are tried in the order of how
 * many they have, so what is found first is short.
 */
#ifndef EXPLORE_SEARCH_H
#define EXPLORE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct search_limits {
    int preemptions; /* at most */
    int turns; /* how often another than the usual one goes on when somebody has gone to sleep */
    bool finely;    /* strands_finely */
    double seconds; /* at most; 0: no limit */
} search_limits;

typedef struct search_sum {
    int64_t schedules;
    int64_t longest; /* places with a choice */
    bool all;        /* it wasn't cut short */
} search_sum;

/* Runs @p execute for each schedule within the limits. */
search_sum search_all(const search_limits *limits, void (*execute)(void));
/* Only this one; false: it can't be read. */
bool search_one(const char *schedule, void (*execute)(void));
/* The one under way, as text. */
const char *search_schedule(void);

/* The execution asks who goes on: one of the bits of @p all. @p stays: the usual one runs. */
int search_choose(unsigned all, int usual, bool stays);

#endif
