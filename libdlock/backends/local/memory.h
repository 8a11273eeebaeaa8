/* A table in the private memory of the process, for mem:. */
#ifndef DLK_BACKENDS_LOCAL_MEMORY_H
#define DLK_BACKENDS_LOCAL_MEMORY_H

#include "backends/local/table.h"

dlock_err dlk_memory_open(dlk_table *table, dlock_error **err);
void dlk_memory_close(dlk_table *table);

/* What the counter of a new table starts from: the wall clock in µs, so that tokens go on rising
 * when a table is lost and made anew. */
int64_t dlk_table_first_token(void);

#endif
