/* Who waits for whom in a circle, of what clients tell (told.h)? Pure: it is given lines and gives circles.
 *
 * A party is a thread of a client. It is taken to get on by itself unless it waits; whoever waits gets on when what
 * it waits for may be given back by who gets on:
 *
 *  - of a mutex, an election or the write side: when all holders that are told get on, for each has to give back;
 *  - of the read side: when who writes does;
 *  - of a semaphore: when one of its holders does. One is enough, so there is a circle only when all are in it.
 *
 * A holder of whom no thread is known gets on, as does one that isn't told, and a party that waits for several
 * things when it gets one of them. So what is left waits for ever, as far as the lines are true; a circle is made
 * of it by going from each party to one whom it waits for. Lines that are told twice count once more, and change
 * nothing. */
#ifndef DLK_LOCKS_DEADLOCK_H
#define DLK_LOCKS_DEADLOCK_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_deadlock_line {
    const char *client, *name;
    uint64_t thread; /* of that client; 0: not known */
    dlock_kind kind; /* the side of a read/write lock */
    bool waits;      /* for it, else it has it */
    int64_t since;   /* by one clock for all */
} dlk_deadlock_line;

/* The party of line `waits` waits for what that of line `holds` has, which is the next step's. */
typedef struct dlk_deadlock_step {
    size_t waits, holds;
} dlk_deadlock_step;

typedef struct dlk_deadlocks {
    dlk_deadlock_step *steps; /* of one circle behind the other */
    size_t *ends;             /* where the steps of each end */
    size_t count;
    bool *stuck; /* of each line: it is a wait that never ends, in a circle or for one */
} dlk_deadlocks;

/* No party is in two of them. False without memory. To be freed by dlk_deadlocks_free. */
bool dlk_deadlocks_find(const dlk_deadlock_line *lines, size_t count, dlk_deadlocks *ret);
void dlk_deadlocks_free(dlk_deadlocks *all);

static inline size_t dlk_deadlock_begin(const dlk_deadlocks *all, size_t number)
{
    return number == 0 ? 0 : all->ends[number - 1];
}

/* The step of who began to wait last; everybody finds the same. */
size_t dlk_deadlock_youngest(const dlk_deadlock_line *lines, const dlk_deadlocks *all,
                             size_t number);

#endif
