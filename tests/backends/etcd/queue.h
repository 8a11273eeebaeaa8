/* A line of three on one name, of whom the second's lease ends while it waits. */
#ifndef TESTS_BACKENDS_ETCD_QUEUE_H
#define TESTS_BACKENDS_ETCD_QUEUE_H

#include "world.h"

/* Whether the third gets the lock, and the second, whose key is gone, doesn't have it at the same
 * time but gets it behind him. False too after a failed check. */
bool queue_passes_over_the_dead(const char *name);

#endif
