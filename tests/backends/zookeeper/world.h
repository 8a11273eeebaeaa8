/* What the tests of the zookeeper backend share: one server for a whole program, the test's own hand
 * at its nodes, and short ways to open things. A test names its locks after itself. */
#ifndef TESTS_BACKENDS_ZOOKEEPER_WORLD_H
#define TESTS_BACKENDS_ZOOKEEPER_WORLD_H

#include "harness/harness.h"
#include "harness/zookeeper_server.h"
#include "harness/zookeeper_wire.h"

#include <dlock/dlock.h>

#include <stdbool.h>

extern zookeeper_server world_server;
extern zookeeper_wire world_wire;

/* Ends the test as skipped when there is no server. */
#define BEGIN()                                                                          \
    do {                                                                                 \
        if (!world_ready())                                                              \
            return;                                                                      \
    } while (0)

/* Polls until the condition holds; fails the test after a generous time. */
#define AWAIT(condition)                                                                 \
    do {                                                                                 \
        bool await_held = false;                                                         \
        for (int await_i = 0; await_i < world_patience() && !await_held; await_i++) {    \
            await_held = (condition);                                                    \
            if (!await_held)                                                             \
                world_nap();                                                             \
        }                                                                                \
        if (!harness_check(__FILE__, __LINE__, await_held, #condition))                  \
            return;                                                                      \
    } while (0)

bool world_ready(void);
int world_patience(void);
void world_nap(void);

/* "zookeeper://127.0.0.1:port<path>?…&<query>", valid until the next call; sessions of 60 s, and
 * requests that may take their time. */
const char *world_uri(const char *path, const char *query);
/* NULL after a failed check. @p query may be "". */
dlock_client *world_client(const char *query);
/* @p settings: "key=value key=value", or NULL. */
dlock_lock *world_lock(dlock_client *client, dlock_kind kind, const char *name,
                       const char *settings);
/* The same lock for each; NULL and *ret_code after any answer but OK. */
dlock_hold *world_try(dlock_lock *lock, int64_t wait_ms, dlock_err *ret_code);
/* How many children, 0 where there is no such node. */
int world_children(const char *path);
/* Only of the children that contain the text. */
int world_children_with(const char *path, const char *part);
/* The number of a key of `inspect`, or the text's, as text; "" when it isn't there. */
const char *world_inspect(dlock_lock *lock, const char *key);
/* A session's number by the node that it made. */
int64_t world_session_of(const char *path);

#endif
