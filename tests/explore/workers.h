/* Pieces of work, each done in a process of its own, as many at a time as there are processors that this
 * one may run on. A piece that crashes or is killed is one that has failed. */
#ifndef EXPLORE_WORKERS_H
#define EXPLORE_WORKERS_H

#include <stdbool.h>

/* Does work(0) to work(count - 1), whose result is how that process exits. Calls @p over for each, here
 * and in their order, when what it has written to stdout stands there; @p fine: it has exited with 0. */
void workers_run(int count, int (*work)(int piece), void (*over)(int piece, bool fine));

#endif
