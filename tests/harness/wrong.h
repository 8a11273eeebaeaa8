/* A server that isn't what it should be: it takes connections, and the test's function does with each
 * what it does wrong. */
#ifndef HARNESS_WRONG_H
#define HARNESS_WRONG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* On the server's thread. False: the connection ends with that; else it stays, and nothing comes. */
typedef bool wrong_meets(const void *user, int fd);

typedef struct wrong {
    wrong_meets *meets;
    const void *user;
    int listener, port;
    pthread_t thread;
    _Atomic bool ending;
} wrong;

/* False, and the test has failed: there is none. */
bool wrong_start(wrong *server, wrong_meets *meets, const void *user);
void wrong_stop(wrong *server);

#endif
