/* The backend for ZooKeeper: zookeeper://h1,h2,h3/chroot. Locks lie in the layouts of Curator and
 * kazoo. */
#ifndef DLK_BACKENDS_ZOOKEEPER_ZOOKEEPER_H
#define DLK_BACKENDS_ZOOKEEPER_ZOOKEEPER_H

#include "contract/backend.h"

extern const dlk_backend_type dlk_zk_backend;

#endif
