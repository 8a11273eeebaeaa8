/* The actors of the scenes in which the program reads from a poller of its own. */
#ifndef EXPLORE_POLLER_H
#define EXPLORE_POLLER_H

void with_a_poller(void);
/* … and the service has hung up on an op that waits behind others, which nobody has read yet; the
 * engine's thread, which has read for it, lies asleep. */
void hung_up_unread(void);

/* Takes the lock a, and gives it back. */
void visit_until_over(void);
/* … or keeps it, and asks for nothing more: whoever drives then does so for nobody. */
void visit_and_rest(void);
/* Asks for the lock a, and looks away: within 50 ms somebody reads for it. */
void leave_it_lying(void);
void visit_once(void);
/* For the op of hung_up_unread(). */
void wait_30_for_it(void);

#endif
