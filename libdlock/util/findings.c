/* Findings of a list; see the header. */
#include "util/findings.h"

#include "util/number.h"

#include <stdarg.h>
#include <stdio.h>

void dlk_find(dlock_info *info, const char *id, dlk_severity severity, const char *format,
              ...)
{
    char text[1024];
    va_list args;
    if (!info)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* what doesn't fit is cut off */
    va_end(args);
    dlk_info_add_text(info, id, "findings.%d.id", info->findings);
    dlk_info_add_int(info, severity, "findings.%d.severity", info->findings);
    dlk_info_add_text(info, text, "findings.%d.text", info->findings);
    info->findings++;
    if ((int)severity > info->worst)
        info->worst = (int)severity;
}

static const char *said(const dlock_info *report, int number, const char *what)
{
    char key[40];
    (void)snprintf(key, sizeof(key), "findings.%d.%s", number, what);
    return dlock_info_get(report, key);
}

void dlk_find_all(dlock_info *info, const dlock_info *report, const char *whom)
{
    const char *id;
    for (int i = 0; report && (id = said(report, i, "id")); i++) {
        const char *severity = said(report, i, "severity"),
                   *text = said(report, i, "text");
        int64_t is =
            dlk_number_or(severity ? severity : "", DLK_FINE, DLK_UNSAFE, DLK_WARNING);
        dlk_find(info, id, (dlk_severity)is, "%s: %s", whom, text ? text : "");
    }
}

void dlk_find_verdict(dlock_info *info)
{
    if (info)
        dlk_info_add_int(info, info->worst, "verdict");
}
