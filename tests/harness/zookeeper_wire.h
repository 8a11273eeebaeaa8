/* The test's own hand at a ZooKeeper: a few requests, one at a time, on a connection of its own,
 * without the C client. Its session isn't kept alive while nothing is asked. */
#ifndef HARNESS_ZOOKEEPER_WIRE_H
#define HARNESS_ZOOKEEPER_WIRE_H

#include "harness/zookeeper_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct zookeeper_wire {
    int fd; /* -1: not connected */
    int port;
    int32_t xid;
    int64_t session;
} zookeeper_wire;

/* What the server answers, of its codes those that tests meet. */
enum zookeeper_code {
    ZOOKEEPER_OK = 0,
    ZOOKEEPER_GONE = -4, /* no answer */
    ZOOKEEPER_NO_NODE = -101,
    ZOOKEEPER_NO_AUTH = -102,
    ZOOKEEPER_NODE_EXISTS = -110,
    ZOOKEEPER_NOT_EMPTY = -111,
};

/* How a node is created. */
enum { ZOOKEEPER_PERSISTENT, ZOOKEEPER_EPHEMERAL, ZOOKEEPER_SEQUENTIAL = 2 };

typedef struct zookeeper_stat {
    int64_t czxid, mzxid, ctime, mtime;
    int32_t version, cversion, aversion;
    int64_t owner; /* the session of an ephemeral one */
    int32_t size, children;
} zookeeper_stat;

/* False after a failed check. */
bool zookeeper_wire_open(zookeeper_wire *wire, int port);
/* Ends its session. */
void zookeeper_wire_close(zookeeper_wire *wire);

/* All answer the server's code. @p made: room for the name it got, or NULL; ACLs: open, but for
 * zookeeper_wire_create_for(), whose node is for @p scheme and @p id alone. */
int zookeeper_wire_create(zookeeper_wire *wire, const char *path, const char *data,
                          int flags, char *made, size_t size);
int zookeeper_wire_create_for(zookeeper_wire *wire, const char *path, const char *scheme,
                              const char *id, int perms);
int zookeeper_wire_delete(zookeeper_wire *wire, const char *path);
/* Their names, with a space behind each, in no order. */
int zookeeper_wire_children(zookeeper_wire *wire, const char *path, char *names,
                            size_t size);
int zookeeper_wire_stat(zookeeper_wire *wire, const char *path, zookeeper_stat *ret);
/* The data, as text. */
int zookeeper_wire_get(zookeeper_wire *wire, const char *path, char *data, size_t size);
int zookeeper_wire_set(zookeeper_wire *wire, const char *path, const char *data);
/* As "user:password". */
int zookeeper_wire_auth(zookeeper_wire *wire, const char *digest);

/* The node and all below it; answers the code of the last step. */
int zookeeper_wire_clear(zookeeper_wire *wire, const char *path);
/* How many children, -1: no such node. */
int zookeeper_wire_count(zookeeper_wire *wire, const char *path);

/* Ends the session of a client in this process, as if its time were over: at once, and its owner
 * hears of it at its next word. */
bool zookeeper_wire_expire(const zookeeper_server *server, int64_t session);

#endif
