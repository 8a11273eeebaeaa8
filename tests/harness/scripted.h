/* A server that says exactly what a test needs. It takes RESP commands apart; for each of them
 * the test's function decides about the answer. */
#ifndef HARNESS_SCRIPTED_H
#define HARNESS_SCRIPTED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Answers that are none. */
#define SCRIPTED_SILENCE ((const char *)0) /* nothing is said */
#define SCRIPTED_HANG_UP "\001"            /* the connection is closed */

/* The answer to the @p number-th command (from 0) of the @p connection-th connection (from 0).
 * Called on the server's threads. */
typedef const char *scripted_answer(const void *user, int connection, int number,
                                    char **words, int count);

#define SCRIPTED_MAX 64

typedef struct scripted {
    scripted_answer *answer;
    const void *user;
    int port, listener;
    pthread_t acceptor, talkers[SCRIPTED_MAX];
    int fds[SCRIPTED_MAX];
    _Atomic int connections, commands;
    _Atomic int goodbyes, resets; /* how clients have ended theirs: in order, or not */
    _Atomic bool ending;
} scripted;

bool scripted_start(scripted *server, scripted_answer *answer, const void *user);
void scripted_stop(scripted *server);
/* Stops listening, as a server that is gone; connections go on. */
void scripted_deafen(scripted *server);

/* What a Redis says to libdlock's greeting; NULL when the command isn't part of it. */
const char *scripted_greeting(char **words, int count);

#endif
