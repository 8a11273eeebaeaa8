/* What the mutex of a table that processes share is more than one of threads. */
#ifndef DLK_BACKENDS_LOCAL_MUTEX_H
#define DLK_BACKENDS_LOCAL_MUTEX_H

#include "backends/local/table.h"

/* These answer as pthread_mutex_lock does: 0, EOWNERDEAD, EBUSY or ETIMEDOUT … */
int dlk_mutex_share(pthread_mutexattr_t *attributes);
int dlk_mutex_lock_shared(dlk_table *table, int patience);
/* After EOWNERDEAD: all is as it should be again. */
void dlk_mutex_mended(dlk_table *table);

#endif
