/*
 * The backend of the scenes: "fake://". It speaks to the service (service.h) over the library's own
 * stream (net/stream.h), and its driver sleeps and is woken as in the backends that ship.
 */
#ifndef EXPLORE_BACKEND_H
#define EXPLORE_BACKEND_H

#include <stdint.h>

/* Before each execution. */
void backends_reset(void);
/* Clients that haven't been freed. */
int backends_count(void);
/* This mutex is about to be let go: the engine that it guards has to be as it must. */
void backends_check(const void *mutex);

#endif
