/* A server that says back what it hears, for the tests of the proxy. One thread serves everybody. */
#ifndef TESTS_PROXY_ECHO_H
#define TESTS_PROXY_ECHO_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { ECHO_MAX = 512 };

typedef struct echo {
    int port, listener, wake;
    pthread_t thread;
    int fds[ECHO_MAX];
    bool ended[ECHO_MAX];    /* the other side has said all */
    _Atomic bool keeps_open; /* who hangs up is not hung up on */
    _Atomic bool ending;
    _Atomic int connections, open, hang_ups, resets;
    _Atomic long heard; /* bytes */
    /* Says this to everybody, whatever they say. */
    const char *_Atomic shout;
} echo;

bool echo_start(echo *e);
void echo_stop(echo *e);
/* Says @p text to all who are connected. */
void echo_shout(echo *e, const char *text);

#endif
