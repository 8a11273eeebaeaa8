/* How each kind of lock is taken in each layout: one node, or one after the other. */
#ifndef DLK_BACKENDS_ZOOKEEPER_PLAN_H
#define DLK_BACKENDS_ZOOKEEPER_PLAN_H

#include "backends/zookeeper/rules.h"
#include "contract/backend.h"

#define DLK_ZK_STEPS 2
/* Below it lie conditions, apart from the locks, and by the same names. */
#define DLK_ZK_CONDITIONS "/dlock-conditions"
/* Behind the path of a plain node: where those lie who wait for it. */
#define DLK_ZK_BESIDE "-dlock"

enum {
    DLK_ZK_CURATOR,
    DLK_ZK_KAZOO,
    DLK_ZK_BRIDGE,
    DLK_ZK_EXCLUSIVE,
    DLK_ZK_PATTERN,
    DLK_ZK_LAYOUTS
};

typedef struct dlk_zk_plan {
    dlock_kind kind; /* the family */
    bool shared;     /* the read side */
    bool selector;   /* zookeeper.election=selector */
    bool publishes;  /* the node's data is lock.data, for others to read */
    bool tokens;
    int steps;
    struct {
        const dlk_zk_rule *rule;
        const char *below; /* what is put behind the name's path */
        bool passing;      /* only until the next step is done */
    } step[DLK_ZK_STEPS];
} dlk_zk_plan;

/* NULL, and an error, where the layout has none of this kind. */
const dlk_zk_plan *dlk_zk_plan_of(const dlk_settings *settings, dlock_kind kind,
                                  bool shared, dlock_error **err);

#endif
