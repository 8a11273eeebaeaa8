/* A Redis of our own: on a free loopback port, in a directory of its own, nothing saved. It dies
 * with the test program. */
#ifndef HARNESS_REDIS_SERVER_H
#define HARNESS_REDIS_SERVER_H

#include "harness/server.h" /* freezes it by its pid */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct redis_server {
    pid_t pid;
    int port;
    char dir[64];
    char path[80];     /* of its Unix socket */
    char config[1024]; /* further lines of its configuration */
    bool sentinel;     /* it is one, no Redis */
    int tls_port;      /* 0: none */
    char tls[64];      /* where its certificates are */
    int control;       /* the test's own connection, -1 = none */
} redis_server;

/* Whether redis-server is installed; when not, the running test is marked as skipped. */
bool redis_server_available(void);

/* @p config: further lines for redis.conf, or NULL; may begin with the port. False after a failed
 * check. */
bool redis_server_start(redis_server *server, const char *config);
/* The same with a port for TLS beside the plain one, by the certificates in @p dir (harness/
 * certificates.h); it asks for none of its clients'. */
bool redis_server_start_tls(redis_server *server, const char *dir, const char *config);
/* A Sentinel; @p config says what it watches. */
bool redis_server_start_sentinel(redis_server *server, const char *config);
/* A free port on 127.0.0.1 that the system gives to no connection by itself. */
int redis_server_free_port(void);
/* Ends it in good order, removes its directory; harmless when it isn't running. */
void redis_server_stop(redis_server *server);
/* SIGKILL, and again from nothing on the same port. */
void redis_server_kill(redis_server *server);
bool redis_server_restart(redis_server *server);

/* Runs a command, its words separated by spaces, and returns the answer as text until the next
 * call on this thread: elements of arrays separated by spaces, nil as "(nil)", an error with its
 * '-'. "(gone)" when the server doesn't answer. */
const char *redis_server_call(redis_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
