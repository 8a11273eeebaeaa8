/* What the fault tests on ZooKeeper have in common: one server for the whole program, a proxy before
 * it where one is wanted, the test's own hand at its nodes. Each test keeps to paths below its own
 * name. */
#ifndef TESTS_FAULTS_ZOOKEEPER_STAGE_H
#define TESTS_FAULTS_ZOOKEEPER_STAGE_H

#include "harness/zookeeper_server.h"
#include "harness/zookeeper_wire.h"
#include "stage.h"

/* A session that a loaded machine keeps, and one that is to end. */
enum { KEPT_MS = 20000, ENDING_MS = 3000 };

/* Ends the test as skipped when there is no server. */
#define BEGIN()                                                                          \
    do {                                                                                 \
        if (!keeper_ready())                                                             \
            return;                                                                      \
    } while (0)

/* Starts it with the first test; what the proxy was told before is forgotten. */
bool keeper_ready(void);
zookeeper_server *keeper_server(void);
/* A hand with a living session. */
zookeeper_wire *keeper_hand(void);
/* A proxy before it, made at the first call. */
proxy_link *keeper_way(void);
/* Their URIs, with that session; @p more: "&key=value" or "". Valid until the next call. */
const char *keeper_uri(int session_ms, const char *more);
const char *keeper_way_uri(int session_ms, const char *more);

dlock_client *keeper_client(int session_ms);
/* What is below a node; -1: there is no such node. */
int keeper_count(const char *path);
/* The one child of a path, with its path; false unless there is just one. */
bool keeper_only_child(const char *path, char *ret, size_t size);
/* Its session; 0 when it has none or isn't there. */
int64_t keeper_owner(const char *path);

#endif
