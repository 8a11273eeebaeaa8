/* What an operator should know about a table: who may write it, how full it is, who blocks it. */
#include "backends/local/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define PATIENCE_MS 50

void dlk_local_finding(dlk_local_report *to, int severity, const char *id,
                       const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* may be cut */
    va_end(args);
    dlk_info_add_text(to->info, id, "findings.%" PRId64 ".id", to->count);
    dlk_info_add_int(to->info, severity, "findings.%" PRId64 ".severity", to->count);
    dlk_info_add_text(to->info, text, "findings.%" PRId64 ".text", to->count);
    to->count++;
    if (severity > to->verdict)
        to->verdict = severity;
}

static void fill(dlk_local_report *to, const char *id, const char *what, int64_t used,
                 int64_t all)
{
    dlk_local_finding(to, used * 10 >= all * 9, id,
                      "%" PRId64 " of %" PRId64 " places for %s are in use", used, all,
                      what);
}

static void count_places(dlk_local_report *to, dlk_table *table, int64_t now)
{
    dlk_section section;
    dlk_record record;
    int64_t locks = 0, places = 0, members = 0;
    if (dlk_table_enter(table, &section, PATIENCE_MS) != DLK_ENTERED) {
        char who[256];
        dlk_table_describe_inside(table, who, sizeof(who));
        dlk_local_finding(to, 2, "stuck", "the table is held by %s", who);
        return;
    }
    uint32_t used = dlk_table_used(&table->head->row_high, table->row_count);
    for (uint32_t ref = 1; ref <= used; ref++)
        locks += DLK_GET(dlk_row_at(table, ref)->first) != 0 ||
                 dlk_table_holder(&section, ref, now, &record);
    used = dlk_table_used(&table->head->place_high, table->place_count);
    for (uint32_t ref = 1; ref <= used; ref++)
        places += DLK_GET(dlk_line_place_at(table, ref)->word) != 0;
    for (uint32_t ref = 1; ref <= table->member_count; ref++)
        members += (uint32_t)DLK_GET(dlk_member_at(table, ref)->word) != 0;
    dlk_table_leave(&section);
    if (section.damaged)
        dlk_local_finding(to, 2, "damaged",
                          "the table is damaged; it is mended when nobody has it open");
    fill(to, "locks", "locks", locks, table->row_count);
    fill(to, "waiters", "waiting or sharing", places, table->place_count);
    fill(to, "clients", "clients", members, table->member_count);
}

void dlk_local_doctor(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_local_report to = {.info = dlk_info_new()};
    if (local->table->shared)
        dlk_local_look_at_file(&to, local);
    count_places(&to, local->table, now);
    dlk_info_add_int(to.info, to.verdict, "verdict");
    dlk_local_tell(ask, to.info);
}
