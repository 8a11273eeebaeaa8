/* A ZooKeeper of our own, one server or three: on free loopback ports, in directories of their
 * own. It dies with the test program. A Java machine needs a second of a processor's time to
 * start, so several tests do well to share one and to keep to paths of their own. */
#ifndef HARNESS_ZOOKEEPER_SERVER_H
#define HARNESS_ZOOKEEPER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { ZOOKEEPER_MEMBERS = 3 };

typedef struct zookeeper_server {
    pid_t pid;
    int port;
    char dir[64];
    char config[1024]; /* further lines of its configuration */
    bool is_member;
    bool borrowed; /* somebody else's, see zookeeper_server_borrow */
} zookeeper_server;

/* Whether the server is installed; when not, the running test is marked as skipped. */
bool zookeeper_server_available(void);

/* Serves when it returns. Sessions may be 100 ms to 60 s long and end at most 500 ms late;
 * containers are collected within 1 s. @p config: further lines for zoo.cfg, which win, or NULL.
 * False after a failed check. */
bool zookeeper_server_start(zookeeper_server *server, const char *config);
/* The one at the port that DLK_TEST_ZOOKEEPER says, to be shared with other programs; it can't be
 * ended, and isn't by zookeeper_server_stop. Where nothing is said, one of our own. */
bool zookeeper_server_borrow(zookeeper_server *server);
/* Ends it and removes its directory; harmless when it isn't running. */
void zookeeper_server_stop(zookeeper_server *server);
/* SIGKILL, and again on the same port: with what it knew, or as new. */
void zookeeper_server_kill(zookeeper_server *server);
bool zookeeper_server_restart(zookeeper_server *server);
bool zookeeper_server_wipe(zookeeper_server *server);
/* SIGSTOP and SIGCONT. */
void zookeeper_server_freeze(zookeeper_server *server);
void zookeeper_server_thaw(zookeeper_server *server);

/* What it answers to one of the four-letter words, valid until the next call on this thread; "" when
 * it doesn't answer. */
const char *zookeeper_server_say(const zookeeper_server *server, const char *word);
/* A number of `mntr`, -1: it isn't there. */
long long zookeeper_server_count(const zookeeper_server *server, const char *key);

/* ---- Three of them ---- */

typedef struct zookeeper_ensemble {
    zookeeper_server members[ZOOKEEPER_MEMBERS];
    char hosts[96]; /* "127.0.0.1:p,127.0.0.1:q,127.0.0.1:r" */
} zookeeper_ensemble;

/* All serve when it returns. */
bool zookeeper_ensemble_start(zookeeper_ensemble *ensemble);
void zookeeper_ensemble_stop(zookeeper_ensemble *ensemble);
/* Its number; waits until there is one. -1 after a failed check. */
int zookeeper_ensemble_leader(const zookeeper_ensemble *ensemble);

#endif
