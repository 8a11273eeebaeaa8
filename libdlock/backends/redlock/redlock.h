/* Locks on several Redis servers that know nothing of each other, for most of them:
 * redlock://a,b,c[,d,e][/db]. Locks have the layout of redsync and node-redlock. */
#ifndef DLK_BACKENDS_REDLOCK_REDLOCK_H
#define DLK_BACKENDS_REDLOCK_REDLOCK_H

#include "contract/backend.h"

extern const dlk_backend_type dlk_redlock_backend;
/* memlock://a,b,c, memlocks://a,b,c: the same of memcacheds. */
extern const dlk_backend_type dlk_memlock_backend;

#endif
