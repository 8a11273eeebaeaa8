/* Somebody who wants a lock: a process of its own which speaks the column's binding, or a thread
 * where processes share nothing. It has one client and one hold at most. */
#ifndef CONFORMANCE_PARTY_H
#define CONFORMANCE_PARTY_H

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct party party;

#define PARTY(name) party *name __attribute__((cleanup(party_drop)))

/* @p settings as in world_conf(); @p uri NULL: the service's own. Fails a check and returns a party
 * that refuses everything when it can't be had. */
party *party_new(const char *uri, const char *settings);
/* Ends it: what it holds is given back. */
void party_drop(party **p);

/* Ask, and be told; party_take is both. What the command's exit status can't tell apart comes as
 * the first of: EBUSY, ETIMEDOUT; EUNAVAIL, EUNKNOWN. */
void party_ask(party *p, const char *name, int64_t wait_ms);
bool party_answered(party *p);
dlock_err party_answer(party *p);
dlock_err party_take(party *p, const char *name, int64_t wait_ms);
/* Stops asking; answers what came of it. */
dlock_err party_give_up(party *p);

/* Of the hold. What `still` says, it says without the service. */
dlock_err party_still(party *p);
int64_t party_token(party *p);
dlock_err party_give_back(party *p);
/* It gives its hold back, waits for a signal of that condition, and has the lock again: party_answer,
 * OK or ETIMEDOUT; party_give_up. An agent's, not the command's. */
void party_wait(party *p, const char *condition, int64_t wait_ms);
/* How many it has signalled; -1 after a failed check. */
int64_t party_signal(party *p, const char *condition, int64_t count);

/* Its process; CAN_PROCESSES. */
void party_pause(party *p);
void party_go_on(party *p);
void party_kill(party *p);
pid_t party_pid(party *p);

#endif
