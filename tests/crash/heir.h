/* A program that comes after another one's death: a process of its own that acquires and releases
 * a lock through the public API when it is told to. */
#ifndef TESTS_CRASH_HEIR_H
#define TESTS_CRASH_HEIR_H

#include "backends/local/table.h"

#include <dlock/dlock.h>

#include <sys/types.h>

typedef struct crash_heir {
    pid_t pid;
    int to, from; /* pipes */
} crash_heir;

typedef enum heir_command {
    HEIR_ACQUIRE = 'a',
    HEIR_RELEASE = 'r',
} heir_command;

/* A lock of a new client, whose lease and polling are so long that they help nobody. */
dlock_lock *heir_lock(const char *uri, dlock_kind kind);

void heir_start(crash_heir *heir, const char *uri, dlock_kind kind);
void heir_end(crash_heir *heir);
bool heir_ask(crash_heir *heir, heir_command command);
/* The answer to what was asked: whether it was done, and in time. */
bool heir_succeeds(crash_heir *heir);
/* Awaits that it sleeps in a line of the table. */
bool heir_is_in_line(const crash_heir *heir, const dlk_table *table);

#endif
