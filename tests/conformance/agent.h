/* A client at the other end of a pipe, for rows that need somebody else. Each binding has one: it
 * answers lines on one descriptor with lines on another, and ends when its input does, giving
 * back what it holds. CODE is a name such as DLOCK_EBUSY, TOKEN and MS are numbers.
 *
 *     take WAIT_MS NAME     CODE TOKEN      (after a wait; meanwhile "give-up" ends it)
 *     still                 CODE REMAINING_MS
 *     give-back             CODE
 *     wait WAIT_MS NAME     CODE TOKEN      gives the lock back, waits for a signal of that condition
 *                                           and has the lock again; as take
 *     signal COUNT NAME     CODE HOW_MANY   those who wait for the condition's
 */
#ifndef CONFORMANCE_AGENT_H
#define CONFORMANCE_AGENT_H

/* The binding to C. Says "DLOCK_OK" first, or why its client can't be opened, and returns then. */
void agent_serve(int in, int out, const char *uri, const char *settings);

#endif
