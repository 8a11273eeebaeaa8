/*
 * A lock service: one table of locks by name, with leases by the virtual clock, and a line for each
 * condition, in which leases don't end. It takes turns with the
 * strands, and answers one request in each. A scene can have it answer later or not at all, hang up,
 * or say that somebody else holds a lock.
 */
#ifndef EXPLORE_SERVICE_H
#define EXPLORE_SERVICE_H

#include "locks/ask.h"

#include <stdbool.h>
#include <stdint.h>

#define NAME_SIZE 8

/* On the wire. */
typedef struct request {
    uint64_t sequence, number;
    int64_t ttl_ms;
    dlk_verb verb;
    bool condition, used;
    int64_t limit; /* of a signal */
    char name[NAME_SIZE];
} request;

typedef struct answer {
    uint64_t sequence; /* 0: `name` is free */
    int64_t token, wait_ms;
    dlk_reply reply;
    bool lasts; /* the lease counts from this request */
    bool new_place;
    int64_t signalled;
    char name[NAME_SIZE];
} answer;

/* Before each execution. */
void service_reset(void);
/* Answers only so many more requests; -1: all. */
void service_answers(int count);
/* From now on each request is answered so much later. */
void service_delay(int64_t ns);
/* Somebody else has it until then. */
void service_give_away(const char *name, int64_t until);
/* Hangs up on everybody. */
void service_cut(void);
/* Forgets those of a condition's line whom it has signalled. */
void service_forget_signalled(const char *name);
/* Whether somebody holds it. */
bool service_is_taken(const char *name);

#endif
