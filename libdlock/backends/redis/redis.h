/* The backend for a single Redis server: redis://[user:password@]host[:port][/db] and
 * redis+unix:///path. Locks have the layout of Redisson's RLock and RFencedLock. */
#ifndef DLK_BACKENDS_REDIS_REDIS_H
#define DLK_BACKENDS_REDIS_REDIS_H

#include "backends/backend.h"

extern const dlk_backend_type dlk_redis_backend;

#endif
