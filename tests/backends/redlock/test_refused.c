/* A node that grants and then refuses: what undoes its grant, and what asks it again. The others are
 * real servers, on which somebody else has the lock. */
#include "harness/scripted.h"
#include "world.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LOADING "-LOADING Redis is loading the dataset in memory\r\n"

static world w;
static scripted node;
static _Atomic bool has_key, refuses_release;
static _Atomic int acquires;

/* Grants what it is asked for first, and never again. Whatever comes at once behind an acquire undoes
 * it, and is refused; a release that comes later by itself isn't. */
static const char *grants_once(const void *user, int connection, int number, char **words,
                               int count)
{
    (void)user, (void)connection, (void)number;
    const char *greeting = scripted_greeting(words, count);
    if (greeting)
        return greeting;
    bool acquire = strcmp(words[0], "SET") == 0;
    if (!acquire && !atomic_exchange(&refuses_release, false)) {
        atomic_store(&has_key, false);
        return ":1\r\n";
    }
    if (!acquire)
        return LOADING;
    bool first = atomic_fetch_add(&acquires, 1) == 0;
    atomic_store(&refuses_release, true);
    if (first)
        atomic_store(&has_key, true);
    return first ? "+OK\r\n" : LOADING;
}

static bool set_nodes(void)
{
    if (!world_set(&w, 2, "") || !scripted_start(&node, grants_once, NULL))
        return false;
    for (int i = 0; i < w.count; i++)
        (void)redis_server_call(&w.node[i], "SET L somebody PX 600000");
    snprintf(w.uri, sizeof(w.uri),
             "redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?lock.ttl_ms=600000&"
             "redis.client_key=false",
             w.node[0].port, w.node[1].port, node.port);
    return true;
}

TEST(a_try_that_a_node_refuses_does_not_make_the_undoing_of_the_one_before_forgotten)
{
    if (!set_nodes()) {
        world_clear(&w);
        return;
    }
    DLOCK_AUTO(dlock_client) client = world_open(&w);
    DLOCK_AUTO(dlock_lock) lock = client ? world_lock(client, "L") : NULL;
    CHECK(lock);
    DLOCK_AUTO(dlock_op) op = dlock_lock_acquire_start(lock, DLOCK_FOREVER);
    AWAIT(atomic_load(&acquires) >=
          2); /* so the node has granted it, and refused it since */
    dlock_op_cancel(op);
    CHECK_EQ_INT(dlock_op_wait(op, DLOCK_FOREVER), DLOCK_OK);
    CHECK_EQ_INT(dlock_op_result(op), DLOCK_ECANCELED);
    AWAIT(!atomic_load(&has_key));
    CHECK_ERR(dlock_client_close(client, NULL), DLOCK_OK, NULL);
    scripted_stop(&node);
    world_clear(&w);
}
