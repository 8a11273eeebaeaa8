/* A PostgreSQL of our own: a cluster in a temporary directory, with libdlock's schema, on a free loopback port. It
 * dies with the test program. */
#ifndef HARNESS_POSTGRES_SERVER_H
#define HARNESS_POSTGRES_SERVER_H

#include "harness/server.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct postgres_server {
    pid_t pid;
    int port;
    char dir[64];
    char database[32]; /* that is asked; "": postgres */
} postgres_server;

/* Whether it is installed; when not, the running test is marked as skipped. */
bool postgres_server_available(void);

/* False after a failed check. */
bool postgres_server_start(postgres_server *server);
/* Ends it and removes what it had; harmless when it isn't running. */
void postgres_server_stop(postgres_server *server);
/* SIGKILL to all of its processes, and again with what is on its disk, on the same port. */
void postgres_server_kill(postgres_server *server);
bool postgres_server_restart(postgres_server *server);
/* All of its processes stand still when `freeze` returns. */
void postgres_server_freeze(postgres_server *server);
void postgres_server_thaw(postgres_server *server);

/* What a statement answers: values with spaces between them, valid until the next call on this thread;
 * "(failed)". */
const char *postgres_server_ask(const postgres_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What psql says of a file: "" when all went well. */
const char *postgres_server_load(const postgres_server *server, const char *file);
extern const char postgres_server_schema[]; /* libdlock's */

#endif
