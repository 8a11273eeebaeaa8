/* The backend for a single Redis server: redis://[user:password@]host[:port][/db] and
 * redis+unix:///path. How locks lie there says redis.layout; layout.h has what each needs. */
#ifndef DLK_BACKENDS_REDIS_REDIS_H
#define DLK_BACKENDS_REDIS_REDIS_H

#include "contract/backend.h"

extern const dlk_backend_type dlk_redis_backend;
/* The same for the master that sentinels name: redis+sentinel://host1,host2,host3/service. */
extern const dlk_backend_type dlk_sentinel_backend;
/* Several masters that share the keys among themselves: redis+cluster://host1,host2 (cluster.c). */
extern const dlk_backend_type dlk_cluster_backend;

#define DLK_REDIS_PORT 6379

/* The same as one node of a Redlock: @p uri names one host; with redlock.fencing its grants say
 * what their token would be, which the Redlock decides. */
dlock_err dlk_redis_open_node(dlk_host *host, const dlk_uri *uri,
                              const dlk_settings *settings, dlk_backend **ret,
                              dlock_error **err);

#endif
