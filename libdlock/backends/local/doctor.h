/* What an operator is told about a table, finding by finding. */
#ifndef DLK_BACKENDS_LOCAL_DOCTOR_H
#define DLK_BACKENDS_LOCAL_DOCTOR_H

#include "backends/local/inner.h"
#include "util/findings.h"

/* Of a table that processes share. */
void dlk_local_look_at_file(dlock_info *to, const dlk_local *local);

#endif
