/* The servers' state; between ensemble.c and trouble.c. */
#ifndef SIM_ZOOKEEPER_ENSEMBLE_H
#define SIM_ZOOKEEPER_ENSEMBLE_H

#include "zookeeper/model.h"

#define NO_LEADER (-1)

extern struct zk_ensemble {
    zk_server servers[ZK_SERVERS];
    dlk_list sessions;
    int leader, latest; /* latest: whose tree has all that was ever decided */
    int64_t zxid, last_session;
    event tick, election;
    unsigned ticks;
} zk_ens;

int64_t zk_latest_of(int64_t a, int64_t b);
bool zk_is_alone(int index); /* cut off from the leader */
/* Whatever was decided up to then is applied there. */
void zk_apply_up_to(zk_server *peer, int64_t time);

#endif
