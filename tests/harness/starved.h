/* How long the machine let a process of this test wait for a processor, or stand still within the
 * kernel. Under load some may get nothing for a minute, most of all new ones and those that end,
 * while the watchers of harness/awake, which mostly sleep, get their share. */
#ifndef HARNESS_STARVED_H
#define HARNESS_STARVED_H

#include <stdbool.h>
#include <stdint.h>

/* Looks from now on, in a process of its own, at this one, at those that it starts (of each at the
 * first threads), and at the servers whose numbers stand in the environment's DLK_TEST_SERVERS.
 * Before there are threads. */
bool starved_watch(void);
/* At once, at most; and all in all; since the last starved_forget(). 0 while nobody watches. */
int64_t starved_longest_ms(void);
int64_t starved_total_ms(void);
void starved_forget(void);

#endif
