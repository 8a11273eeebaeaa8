/* What an operator should know about a table: who may write it, how full it is, who blocks it. */
#include "backends/local/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define PATIENCE_MS 50

static void fill(dlock_info *to, const char *id, const char *what, int64_t used,
                 int64_t all)
{
    dlk_find(to, id, used * 10 >= all * 9 ? DLK_WARNING : DLK_FINE,
             "%" PRId64 " of %" PRId64 " places for %s are in use", used, all, what);
}

static void count_places(dlock_info *to, dlk_table *table, int64_t now)
{
    dlk_section section;
    dlk_record record;
    int64_t locks = 0, places = 0, members = 0;
    if (dlk_table_enter(table, &section, PATIENCE_MS) != DLK_ENTERED) {
        char who[256];
        dlk_table_describe_inside(table, who, sizeof(who));
        dlk_find(to, "stuck", DLK_UNSAFE, "the table is held by %s", who);
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
        dlk_find(to, "damaged", DLK_UNSAFE,
                 "the table is damaged; it is mended when nobody has it open");
    fill(to, "locks", "locks", locks, table->row_count);
    fill(to, "waiters", "waiting or sharing", places, table->place_count);
    fill(to, "clients", "clients", members, table->member_count);
}

void dlk_local_doctor(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlock_info *to = dlk_info_new();
    if (local->table->shared)
        dlk_local_look_at_file(to, local);
    count_places(to, local->table, now);
    dlk_find_verdict(to);
    dlk_local_tell(ask, to);
}
