/* An etcd of our own: on free loopback ports, in a directory of its own. It dies with the test
 * program. */
#ifndef HARNESS_ETCD_SERVER_H
#define HARNESS_ETCD_SERVER_H

#include "harness/server.h" /* freezes it by its pid */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct etcd_server {
    pid_t pid;
    int port, peer_port;
    char dir[64];
    char options[256]; /* further ones, each one word */
    char tls[64];      /* where its certificates are, or "" */
    bool silent;       /* it answers nobody of us */
    bool borrowed;     /* somebody else's, see etcd_server_borrow */
} etcd_server;

/* Whether there is etcd, the one in the path or that which DLK_TEST_ETCD_PROGRAM names; when not, the running
 * test is marked as skipped. */
bool etcd_server_available(void);

/* Serves when it returns. Leases may be as short as 1 s. @p options: further ones, separated by
 * spaces, or NULL. False after a failed check. */
bool etcd_server_start(etcd_server *server, const char *options);
/* As both below, where nobody may ask whether it serves: it is believed to when its log says so. */
bool etcd_server_start_silent(etcd_server *server, const char *options);
bool etcd_server_restart_silent(etcd_server *server);
/* The same by TLS, with the certificates in @p dir (harness/certificates.h). */
bool etcd_server_start_tls(etcd_server *server, const char *dir, const char *options);
/* The one at the port that DLK_TEST_ETCD says, to be shared with other programs; it isn't ended by
 * etcd_server_stop. Where nothing is said, one of our own. */
bool etcd_server_borrow(etcd_server *server);
/* Ends it and removes its directory; harmless when it isn't running. */
void etcd_server_stop(etcd_server *server);
/* SIGKILL, and again on the same port with all it knew. */
void etcd_server_kill(etcd_server *server);
bool etcd_server_restart(etcd_server *server);

/* What its gateway answers to this, valid until the next call on this thread; "" when it doesn't
 * answer. Not by TLS. */
const char *etcd_server_say(const etcd_server *server, const char *path,
                            const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The keys there are that begin so, as text with spaces between; a '\0' in one is shown as '!'. */
const char *etcd_server_keys(const etcd_server *server, const char *prefix);
/* Puts, or deletes all that begin so; an authentication token isn't sent. */
bool etcd_server_put(const etcd_server *server, const char *key, const char *value);
bool etcd_server_delete(const etcd_server *server, const char *prefix);

#endif
