/* What an operator is told of a service, finding by finding, and the verdict: `findings.N.…` of a list. */
#ifndef DLK_UTIL_FINDINGS_H
#define DLK_UTIL_FINDINGS_H

#include "util/info.h"

typedef enum dlk_severity {
    DLK_FINE, /* good to know */
    DLK_WARNING,
    DLK_UNSAFE, /* something is wrong */
} dlk_severity;

/* One more, under a name that doesn't change. */
void dlk_find(dlock_info *info, const char *id, dlk_severity severity, const char *format,
              ...) __attribute__((format(printf, 4, 5)));
/* All of @p report, which may be NULL, each with whom it is about before its text. */
void dlk_find_all(dlock_info *info, const dlock_info *report, const char *whom);
/* The worst of them, as the list's `verdict`. */
void dlk_find_verdict(dlock_info *info);

#endif
