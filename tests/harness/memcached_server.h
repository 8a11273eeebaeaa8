/* A memcached of our own: on a free loopback port. It dies with the test program. */
#ifndef HARNESS_MEMCACHED_SERVER_H
#define HARNESS_MEMCACHED_SERVER_H

#include "harness/server.h" /* freezes it by its pid */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct memcached_server {
    pid_t pid;
    int port;
    int tls_port;      /* 0: it doesn't speak TLS */
    char options[400]; /* further ones, separated by spaces */
    int control;       /* the test's own connection, -1 = none */
} memcached_server;

/* Whether memcached is installed; when not, the running test is marked as skipped. */
bool memcached_server_available(void);

/* @p options: as "-M -m 2", or NULL. False after a failed check. */
bool memcached_server_start(memcached_server *server, const char *options);
/* The same, which on `tls_port` speaks TLS as well: with the certificate @p name of those in the
 * directory @p dir (harness/certificates.h). */
bool memcached_server_start_tls(memcached_server *server, const char *dir,
                                const char *name, const char *options);
/* Ends it; harmless when it isn't running. */
void memcached_server_stop(memcached_server *server);
/* SIGKILL, and again from nothing on the same port. */
void memcached_server_kill(memcached_server *server);
bool memcached_server_restart(memcached_server *server);

/* Says this and \r\n, and returns the whole answer, its lines and data with spaces between them and
 * what ends a list ("END") among them, until the next call on this thread. "(gone)" when the server
 * doesn't answer. */
const char *memcached_server_say(memcached_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What `stats` (or @p of, as "settings") says of this; "" when it doesn't. */
const char *memcached_server_stat(memcached_server *server, const char *of,
                                  const char *name);
/* The keys of all items, with spaces between them, valid until the next call; NULL when it can't be
 * had. */
const char *memcached_server_items(memcached_server *server);
/* The value of a key; "(nil)" when there is none. */
const char *memcached_server_get(memcached_server *server, const char *key);

#endif
