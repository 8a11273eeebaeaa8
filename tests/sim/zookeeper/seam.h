/*
 * Where the simulator ends and the kernel would begin, for the client of ZooKeeper. Its code
 * (libdlock/backends/zookeeper, all but library.c) is compiled as it is, with this header put
 * before it. What library.c does is done by wire.c.
 */
#ifndef SIM_ZOOKEEPER_SEAM_H
#define SIM_ZOOKEEPER_SEAM_H

#include "util/clock.h"
#include "util/thread.h"

#include <stdint.h>

int64_t sim_clock_now(void);
#define dlk_clock_now() sim_clock_now()

/* The bell: who sleeps on it isn't called before it has rung. */
void sim_bell_wait(dlk_futex *word);
void sim_bell_wake(dlk_futex *word);
#define dlk_futex_wait(word, seen, until, shared)                                        \
    ((void)(seen), (void)(until), (void)(shared), sim_bell_wait(word))
#define dlk_futex_wake(word, sleepers, shared) ((void)(shared), sim_bell_wake(word))

#endif
