/* What processes share that use one lock together: a resource behind a fence, and what went wrong. */
#ifndef HARNESS_TOGETHER_H
#define HARNESS_TOGETHER_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct together {
    _Atomic int64_t fence; /* the highest token that wrote */
    _Atomic int64_t errors;
    _Atomic bool over;
    char what[256]; /* the first error */
} together;

/* Memory that children will share, of zeros; NULL after a failed check. */
void *together_map(size_t size);
void together_say(together *all, const char *what, dlock_err code,
                  const dlock_error *err);
/* The resource: takes a write only from a token that isn't older than what it has seen. */
bool together_write(together *all, int64_t token);
/* It is over: waits for the processes, and says so where one didn't end well. */
void together_end(together *all, const pid_t *children, int count);

#endif
