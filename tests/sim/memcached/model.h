/*
 * A model of memcached, as far as locks can tell: what the files of this folder share.
 *
 *     client.c    a simulated client's end: driver, what it is asked
 *     server.c    the server's process: its clock of whole seconds, items, commands
 *     rules.c     who holds what, read from the items by the rules of their text and not by the
 *                 library's code; and what must be true of that
 *     trouble.c   what goes wrong with it
 *
 * The connections are those of net.c. The clock ticks about once a second, leaves one out now and
 * then, and doesn't follow the time of day, so an item that is stored for n seconds goes between
 * n - 2 and n of them later. The numbers of stores (cas) count from 1 in each process. A restart is
 * a new process without items.
 */
#ifndef SIM_MEMCACHED_MODEL_H
#define SIM_MEMCACHED_MODEL_H

#include "sim.h"

#include "net.h"

/* ---- server.c ---- */

typedef struct mc_item {
    char *value; /* NULL: there is none; ends with NUL */
    size_t size;
    uint64_t cas;
    int64_t ends; /* with this second; DLK_NEVER */
} mc_item;

void mc_begin(void);
void mc_end(void);
/* The clock, as statistics say it; and what they said when the process began. */
int64_t mc_second(void);
void mc_stop_clock(int64_t until); /* from now on */
int64_t mc_started(void);
/* What stands there now, or NULL. */
const mc_item *mc_item_of(int name);
/* By no command: false, if nothing was there. */
bool mc_drop(int name);
/* Somebody else's add. */
void mc_add(int name, const char *text, int64_t seconds);
/* It ends now, and another begins then, or in the next second. */
void mc_restart(int64_t at, uint64_t numbers); /* so many are taken when we come */
bool mc_is_down(void);
void mc_heal(void);

/* ---- rules.c ---- */

void mc_rules_begin(void);
/* What stands there may have changed. */
void mc_rules_look(int name);
/* Another library's client has stored what stands there; what that has is gone, and may be. */
void mc_rules_foreign(int name);
bool mc_rules_is_foreign(int name);
void mc_rules_forget(int name);
/* An answer must be true: what it says was so at some time since it was asked for. */
void mc_rules_answered(const client *client, const dlk_ask *ask);
int mc_holders(int name, holder ret[MAX_HELD]);

/* ---- trouble.c ---- */

bool mc_fault(fault what, dlk_rand *dice, client *client, int name);

#endif
