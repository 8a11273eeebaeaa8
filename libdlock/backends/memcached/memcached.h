/* The backend for memcached: memcached://host[:port]. A lock is one item; see record.h for what is in
 * it, and docs/explanation/memcached.md for what it can promise. */
#ifndef DLK_BACKENDS_MEMCACHED_MEMCACHED_H
#define DLK_BACKENDS_MEMCACHED_MEMCACHED_H

#include "contract/backend.h"

extern const dlk_backend_type dlk_memcached_backend;

#endif
