/* What the API tests share: a lock service of their own, short ways to open things, and ways to
 * await instead of to sleep. Which backend is under test says DLK_TEST_BACKEND: mem (default), or
 * another one that world_service.c lists. A test names its locks after itself, so that tests don't
 * meet. */
#ifndef TESTS_API_WORLD_H
#define TESTS_API_WORLD_H

#include "harness/api.h"
#include "harness/awake.h"
#include "harness/fork.h"
#include "harness/harness.h"
#include "harness/time.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* Ends the test as skipped when its backend can't be had here. */
#define BEGIN()                                                                          \
    do {                                                                                 \
        if (!world_ready())                                                              \
            return;                                                                      \
    } while (0)

#define LEAVE_OUT_ON(backend, why)                                                       \
    do {                                                                                 \
        if (world_is(backend))                                                           \
            LEAVE_OUT(why);                                                              \
    } while (0)

/* A layout that lacks a feature says so. */
#define NEED(client, feature, why)                                                       \
    do {                                                                                 \
        if (!api_has((client), (feature)))                                               \
            LEAVE_OUT(why);                                                              \
    } while (0)

/* A service that a program brings with it, beside those that all know: it defines `world_own`. */
typedef struct world_service {
    const char *backend;
    bool (*make)(char *uri, size_t size); /* starts it */
    void (*end)(void);
    bool (*evict)(const char *name); /* as an operator of it does */
} world_service;
extern const world_service *const world_own; /* NULL by default */

bool world_ready(void);
/* Whether its server is installed; else the test is marked as skipped. */
bool world_is_available(void);
bool world_is(const char *backend);
/* A Redis by itself, or behind a Sentinel, or a cluster of one node. */
bool world_is_one_redis(void);
/* Do those who want a lock of this kind stand in a line at the service, which inspect tells of? */
bool world_tells_the_line(dlock_kind kind);
/* Are clients served in the order in which they came? */
bool world_is_fair(void);
const char *world_uri(void);
const char *world_path(void); /* of the file, where it is one */

/* A wait that runs out, in ms. Not too short: a server that hasn't said yet that the lock is held
 * makes another code of it. */
enum { SHORT_MS = 200 };

/* Yours to free; NULL after a failed check. @p settings as "lock.ttl_ms=500 lock.renew=off", or
 * NULL. The clients look by themselves only once a minute, so that a wake-up which gets lost is
 * seen and not made up for. */
dlock_client *world_client(const char *settings);
dlock_client *world_client_of(int64_t ttl_ms, const char *settings);
dlock_lock *world_lock(dlock_client *client, const char *name, const char *settings);
/* What world_lock makes: DLK_TEST_KIND, as "write"; else a mutex. */
dlock_kind world_kind(void);
/* dlock_acquire() for that kind. */
dlock_err world_acquire(dlock_client *client, const char *name, int64_t wait_ms,
                        dlock_hold **ret_hold);
/* Acquires with a generous wait. */
dlock_hold *world_take(dlock_lock *lock);

/* What most tests begin with: two clients, … */
#define TWO_CLIENTS(one, other)                                                          \
    DLOCK_AUTO(dlock_client) one = world_client(NULL);                                   \
    DLOCK_AUTO(dlock_client) other = world_client(NULL)
/* … or a client of these settings (or NULL) and its lock of this name, … */
#define CLIENT_WITH_LOCK(client, lock, name, settings)                                   \
    DLOCK_AUTO(dlock_client) client = world_client(settings);                            \
    DLOCK_AUTO(dlock_lock) lock = world_lock(client, (name), NULL)
/* … and that taken. */
#define CLIENT_WITH_HOLD(client, lock, hold, name, settings)                             \
    CLIENT_WITH_LOCK(client, lock, name, settings);                                      \
    DLOCK_AUTO(dlock_hold) hold = world_take(lock)

/* The op ends in a while, and so. */
#define ENDS(op, code)                                                                   \
    do {                                                                                 \
        CHECK_EQ_INT(dlock_op_wait((op), patience_ms()), DLOCK_OK);                      \
        CHECK_ERR(dlock_op_result(op), (code), dlock_op_error(op));                      \
    } while (0)

/* Whether a client of its own gets the lock at once; it is given back. */
dlock_err world_try(const char *name);
/* Takes the lock away from whoever holds it, as an operator. */
dlock_err world_evict(const char *name);
/* Evicts, and lets @p hold hear of it: it is LOST afterwards. */
bool world_lose(const char *name, dlock_hold *hold);

/* What inspect says of a key; -1 when it doesn't say. */
int64_t world_seen(dlock_lock *lock, const char *key);

/* The next event of this kind, others are dropped; NULL when it doesn't come. */
dlock_event *world_event(dlock_client *client, dlock_what what);
bool world_readable(int fd);

bool world_has_kind(dlock_client *client, const char *kind);
/* The kinds that one waits for while another has it, a reader for a writer. */
enum { WORLD_WAITED = 5 };
extern const struct world_kind {
    dlock_kind kind;
    const char *name, *settings;
} world_waited[WORLD_WAITED];

/* A thread that waits in dlock_lock_acquire. Closes the client if the test ends too early. */
typedef struct world_waiter {
    pthread_t thread;
    dlock_client *client;
    dlock_lock *lock;
    int64_t wait_ms;
    atomic_int tid;
    atomic_bool over;
    bool runs;
    dlock_err code;
    dlock_hold *hold;
    dlock_error *err;
} world_waiter;

#define WAITER(name) world_waiter name __attribute__((cleanup(world_waiter_drop))) = {0}

void world_wait_start(world_waiter *waiter, dlock_client *client, dlock_lock *lock,
                      int64_t wait_ms);
/* Joins it; the hold stays in waiter->hold. */
dlock_err world_wait_end(world_waiter *waiter);
void world_waiter_drop(world_waiter *waiter);
/* Whether that thread of ours sleeps in the kernel. */
bool world_asleep(int tid);

/* Runs @p run in a child process; 0 when no check failed there. world_child_start does not wait. */
int world_child(void (*run)(void *), void *arg);
pid_t world_child_start(void (*run)(void *), void *arg);
/* Waits for it, 0 when it ended well; a child that hangs is killed. */
int world_child_end(pid_t pid);

/* The server under test, for those who mistreat it. */
struct redis_server *world_redis(void);
/* Has the Sentinel call the Redis at this port by that name, too. */
bool world_sentinel_names(const char *service, int port);
struct memcached_server *world_memcached(void);
/* Those of a Redlock or memlock, from 0; any other has one. */
#define WORLD_NODES 3
int world_node_count(void);
struct redis_server *world_node(int index);
struct memcached_server *world_memcached_node(int index);
struct zookeeper_server *world_zookeeper(void);
struct postgres_server *world_postgres(void);
struct etcd_server *world_etcd(void);
/* On ZooKeeper: the node that all locks are below. */
const char *world_root(void);

#endif
