/* What the tests of the etcd backend share: one server for a whole program and short ways to open
 * things. A test names its locks after itself. */
#ifndef TESTS_BACKENDS_ETCD_WORLD_H
#define TESTS_BACKENDS_ETCD_WORLD_H

/* It takes its time to be there again. */
#define AWAIT_LIMIT_MS INT64_C(120000)

#include "harness/api.h"
#include "harness/etcd_server.h"
#include "harness/harness.h"
#include "harness/time.h"

#include <dlock/dlock.h>

#include <stdbool.h>
#include <stdint.h>

extern etcd_server world_server;

/* Ends the test as skipped when there is no server. */
#define BEGIN()                                                                          \
    do {                                                                                 \
        if (!world_ready())                                                              \
            return;                                                                      \
    } while (0)

enum { PATIENCE_MS = 120000 };

bool world_ready(void);

/* Leases of a minute, and requests that may take their time; a wake-up that gets lost isn't made
 * up for by polling. @p query: "&key=value", or "". NULL after a failed check. */
dlock_client *world_client(const char *query);
dlock_client *world_client_at(int port, const char *query);
/* NULL and *ret_code after any answer but OK. */
dlock_hold *world_take(dlock_lock *lock, int64_t wait_ms, dlock_err *ret_code);

/* What most tests begin with. */
#define CLIENT(name, query) DLOCK_AUTO(dlock_client) name = world_client(query)
#define LOCK(name, client, kind, text, settings)                                         \
    DLOCK_AUTO(dlock_lock) name = api_lock(client, kind, text, settings)
#define HOLD(name, lock) DLOCK_AUTO(dlock_hold) name = world_take(lock, PATIENCE_MS, NULL)

/* The number of a key of `inspect`; -1 when it isn't there. */
int64_t world_seen(dlock_lock *lock, const char *key);
/* What a client that can't be opened says; "" when it can. */
const char *world_refusal(const char *uri, dlock_err *ret_code);
/* The lease in the only key that begins so, and which isn't @p but; 0: there is none. */
uint64_t world_lease(const char *prefix, uint64_t but);
/* How many keys begin so. */
int world_keys(const char *prefix);
/* Ends a lease, and with it the keys. */
bool world_revoke(uint64_t lease);
/* What stands behind "name": in what the gateway has said, the first time; "" when it isn't there. */
void world_field(const char *said, const char *name, char *ret, size_t size);

#endif
