/*
 * Several Redises that know nothing of each other, and the clients of a Redlock on most of them: what
 * the files of this folder share.
 *
 *     client.c    a simulated client's end: libdlock/backends/redlock, each of its nodes a client of
 *                 libdlock/backends/redis with a connection of its own (net.c)
 *     servers.c   the nodes, each a model of Redis (redis_model) with a clock of its own; who holds
 *                 what, read from their keys: whoever has most of them
 *     rules.c     what must be true of that beyond what is asked of all: tokens rise, and nothing is
 *                 left behind on any node
 *     trouble.c   what goes wrong with a node, or with a client's way to one
 *
 * Whatever a node forgets may let two believe that they hold a lock, until the next renewal of the
 * one who was forgotten; in half of the runs none forgets anything.
 */
#ifndef SIM_REDLOCK_MODEL_H
#define SIM_REDLOCK_MODEL_H

#include "backends/redlock/inner.h" /* before ours, whose names its parameters have */

#include "sim.h"

#include "net.h"

/* ---- client.c ---- */
/* The number of the grant that is known by this one on the wire; 0: of none any more. */
uint64_t redlock_number(const client *client, uint64_t known);

/* ---- servers.c ---- */
void redlock_begin(void);
void redlock_end(void);
/* Who has the key there: false, nobody. The number is the wire's. */
bool redlock_key_at(int node, int name, holder *ret);
/* By no command: false, nothing was there. */
bool redlock_delete(int node, int name);
int redlock_holders(int name, holder ret[MAX_HELD]);

/* ---- rules.c ---- */
void redlock_rules_begin(void);
void redlock_told(const actor *me);
void redlock_watchdog(int name);
void redlock_check_rest(void);

/* ---- trouble.c ---- */
bool redlock_fault(fault what, dlk_rand *dice, client *client, int name);
void redlock_heal(void);
void redlock_silence(client *client, bool both_ways);

#endif
