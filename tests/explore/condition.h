/* The actors of the scenes with a condition. */
#ifndef EXPLORE_CONDITION_H
#define EXPLORE_CONDITION_H

/* The lock a, and a condition beside it. */
void with_a_condition(void);
void free_condition(void);

/* Waits without a limit for what make_ready(), another client, does under the lock before it signals one. */
void wait_until_ready(void);
void make_ready(void);
/* Waits for the signal of signal_and_forget(), another client, after which the service forgets who has it.
 * The lock is somebody else's until after the renewal that tells. */
void wait_beyond_the_signal(void);
void signal_and_forget(void);
/* Waits as well, and is cancelled some time; woken before, it signals the next. */
void wait_and_be_cancelled(void);

#endif
