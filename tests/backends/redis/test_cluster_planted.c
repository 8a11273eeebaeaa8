/* The bug that test_cluster.c has to catch, put back on purpose: a renewal that is sent on to
 * another node (MOVED) is taken for done, without asking there whose the lock is. */
#include "harness/harness.h"
#include "harness/redis_topology.h"
#include "util/point.h"

#include <dlock/dlock.h>

#include <stdio.h>

enum dlk_bug dlk_plant;

static redis_cluster cluster;

/* A hold whose key is lost while its slot moves is renewed: what does it hear? */
static dlock_err renew_without_key(const char *name)
{
    char uri[256];
    dlock_client *client = NULL;
    dlock_hold *hold = NULL;
    dlock_err heard = DLOCK_EUSER;
    snprintf(uri, sizeof(uri),
             "%s?lock.ttl_ms=60000&client.timeout_ms=20000&client.connect_ms=30000",
             cluster.uri);
    if (dlock_client_open(uri, NULL, &client, NULL) == DLOCK_OK &&
        dlock_acquire(client, name, 60000, &hold, NULL) == DLOCK_OK) {
        int slot = redis_cluster_slot(&cluster, name);
        int from = redis_cluster_owner(&cluster, 0, slot);
        redis_server_call(&cluster.node[from], "DEL %s", name);
        if (redis_cluster_move(&cluster, slot, (from + 1) % 3))
            heard = dlock_hold_extend(hold, 90000, NULL);
    }
    dlock_hold_free(hold);
    dlock_client_free(client);
    return heard;
}

TEST(a_redirection_that_is_taken_for_an_answer_is_noticed)
{
    if (!redis_server_available())
        return;
    dlock_err as_it_is = DLOCK_EUSER, with_the_bug = DLOCK_EUSER;
    if (redis_cluster_start(&cluster, 3, 0, 0, NULL)) {
        as_it_is = renew_without_key("as-it-is");
        dlk_plant = DLK_BUG_MOVED_IS_HELD;
        with_the_bug = renew_without_key("with-the-bug");
        dlk_plant = DLK_BUG_NONE;
    }
    redis_cluster_stop(&cluster);
    CHECK_EQ_INT(as_it_is, DLOCK_ELOST);
    CHECK_EQ_INT(with_the_bug, DLOCK_OK); /* which test_cluster.c would not accept */
}
