/* A backend that is a node of another: a server of a Redis Cluster, one of a Redlock. */
#ifndef DLK_CONTRACT_NODE_H
#define DLK_CONTRACT_NODE_H

#include "contract/backend.h"

/* A node's host, which gives what that of the whole gives and logs there; what the node tells
 * besides is still to be filled in. */
dlk_host dlk_node_host(dlk_host *whole);
/* What it has counted since, counts for the whole. */
void dlk_node_count(dlk_host *node);

#endif
