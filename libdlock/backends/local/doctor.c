/* What an operator should know about a table: who may write it, how full it is, who blocks it. */
#include "backends/local/inner.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/statfs.h>

#define PATIENCE_MS 50
#define TMPFS       0x01021994u
#define FUSE        0x65735546u

typedef struct report {
    dlock_info *info;
    int64_t count, verdict;
} report;

__attribute__((format(printf, 4, 5))) static void
finding(report *to, int severity, const char *id, const char *format, ...)
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

static void fill(report *to, const char *id, const char *what, int64_t used, int64_t all)
{
    finding(to, used * 10 >= all * 9, id,
            "%" PRId64 " of %" PRId64 " places for %s are in use", used, all, what);
}

static void count_places(report *to, dlk_table *table, int64_t now)
{
    dlk_section section;
    dlk_record record;
    int64_t locks = 0, places = 0, members = 0;
    if (dlk_table_enter(table, &section, PATIENCE_MS) != DLK_ENTERED) {
        char who[256];
        dlk_table_describe_inside(table, who, sizeof(who));
        finding(to, 2, "stuck", "the table is held by %s", who);
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
        finding(to, 2, "damaged",
                "the table is damaged; it is mended when nobody has it open");
    fill(to, "locks", "locks", locks, table->row_count);
    fill(to, "waiters", "waiting or sharing", places, table->place_count);
    fill(to, "clients", "clients", members, table->member_count);
}

static void look_at_file(report *to, const dlk_local *local)
{
    struct stat st;
    struct statfs fs;
    if (local->gone)
        finding(to, 2, "gone", "%s", dlock_error_text(local->gone));
    if (fstat(local->file.fd, &st) != 0 || fstatfs(local->file.fd, &fs) != 0) {
        finding(to, 2, "file", "%s can't be looked at", local->file.path);
        return;
    }
    unsigned mode = st.st_mode & 0777;
    finding(to, (mode & 022) != 0, "mode", "%s has mode %04o%s", local->file.path, mode,
            mode & 022
                ? ": whoever may write it can take, break or damage every lock in it"
                : "");
    if ((uint32_t)fs.f_type == TMPFS)
        finding(
            to, 0, "tmpfs",
            "%s lies in memory: a reboot removes it, and its locks are void then anyway",
            local->file.path);
    if ((uint32_t)fs.f_type == FUSE)
        finding(to, 1, "fuse",
                "%s lies on a FUSE file system: locks hold only if no other machine "
                "mounts it",
                local->file.path);
}

void dlk_local_doctor(dlk_local *local, dlk_ask *ask, int64_t now)
{
    report to = {.info = dlk_info_new()};
    if (local->table->shared)
        look_at_file(&to, local);
    count_places(&to, local->table, now);
    dlk_info_add_int(to.info, to.verdict, "verdict");
    dlk_local_tell(ask, to.info);
}
