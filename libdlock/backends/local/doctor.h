/* What an operator is told about a table, finding by finding. */
#ifndef DLK_BACKENDS_LOCAL_DOCTOR_H
#define DLK_BACKENDS_LOCAL_DOCTOR_H

#include "backends/local/inner.h"

typedef struct dlk_local_report {
    dlock_info *info;
    int64_t count, verdict;
} dlk_local_report;

/* 0: good to know, 1: a warning, 2: something is wrong. */
__attribute__((format(printf, 4, 5))) void dlk_local_finding(dlk_local_report *to,
                                                             int severity, const char *id,
                                                             const char *format, ...);
/* Of a table that processes share. */
void dlk_local_look_at_file(dlk_local_report *to, const dlk_local *local);

#endif
