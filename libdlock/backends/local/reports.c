/* Looking into a table: inspect and list; and break, which goes by what was seen. */
#include "backends/local/inner.h"

#include "util/clock.h"
#include "util/kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OWNER_SIZE 64 /* "<uuid>:<number>" */

static void owner_text(const dlk_table *table, const dlk_record *record,
                       char text[OWNER_SIZE])
{
    const dlk_member *member = dlk_member_of(table, record->owner);
    char uuid[DLK_MEMBER_UUID] = "?";
    if (member)
        dlk_member_uuid(member, uuid);
    (void)snprintf(text, OWNER_SIZE, "%.36s:%" PRIu64, uuid, record->number); /* fits */
}

/* ---- inspect ---- */

typedef struct view {
    bool held;
    dlk_record record;
    char owner[OWNER_SIZE];
    uint32_t pid;
    char client[DLK_MEMBER_NAME];
    int64_t waiters;
    bool publishes;
    char data[DLK_TABLE_NAME + 1];
} view;

/* Copies what is to be told, so that no memory is asked for inside the mutex. */
static void inspect_row(const dlk_local *local, dlk_section *section, uint32_t ref,
                        int64_t now, view *seen)
{
    const dlk_table *table = section->table;
    const dlk_row *row = dlk_row_at(table, ref);
    seen->held = dlk_table_holder(section, ref, now, &seen->record);
    if (seen->held) {
        const dlk_member *member = dlk_member_of(table, seen->record.owner);
        owner_text(table, &seen->record, seen->owner);
        seen->pid = member ? (uint32_t)DLK_GET(member->word) : 0;
        if (member)
            dlk_member_name(member, seen->client);
        seen->publishes =
            dlk_table_published(section, ref, seen->record.token, seen->data);
    }
    const dlk_line_place *place =
        row ? dlk_line_place_at(table, DLK_GET(row->first)) : NULL;
    for (uint32_t steps = 0; place;
         place = dlk_line_place_at(table, DLK_GET(place->next))) {
        if (steps++ == table->place_count) {
            section->damaged = true;
            return;
        }
        uint64_t owner = DLK_GET(place->owner);
        seen->waiters += owner != local->owner && dlk_member_of(table, owner) != NULL;
    }
}

/* A holder who is dead, but hasn't been noticed, is noticed when somebody looks. */
static void notice_deaths(const dlk_local *local)
{
    if (local->table->shared)
        dlk_watch_reap(local->table);
}

void dlk_local_inspect(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    view seen = {.held = false};
    notice_deaths(local);
    if (!dlk_local_enter(local, &section, ask, now))
        return;
    inspect_row(local, &section, dlk_local_row(&section, ask->key), now, &seen);
    if (!dlk_local_leave(local, &section, ask))
        return;
    ask->info = dlk_info_new();
    dlk_info_add_int(ask->info, seen.held, "held");
    bool election =
        seen.held ? seen.record.kind == DLOCK_ELECTION : ask->key->kind == DLOCK_ELECTION;
    dlk_info_add_text(ask->info,
                      dlk_kind_of(election ? DLOCK_ELECTION : DLOCK_MUTEX)->name, "kind");
    if (seen.held) {
        dlk_info_add_text(ask->info, seen.owner, "holders.0.owner");
        dlk_info_add_int(ask->info, seen.record.token, "holders.0.token");
        dlk_info_add_int(ask->info, dlk_clock_ms_until(seen.record.until, now, INT64_MAX),
                         "holders.0.remaining_ms");
        dlk_info_add_int(ask->info, 1, "holders.0.count");
        dlk_info_add_int(ask->info, seen.pid, "holders.0.pid");
        dlk_info_add_text(ask->info, seen.client, "holders.0.client");
        if (seen.publishes)
            dlk_info_add_text(ask->info, seen.data, "holders.0.data");
    }
    dlk_info_add_int(ask->info, seen.waiters, "waiters");
    dlk_info_add_text(ask->info, local->base.type->traits.layout, "layout");
    ask->reply = DLK_YES;
}

/* ---- break ---- */

void dlk_local_break(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    char owner[OWNER_SIZE];
    if (!dlk_local_enter(local, &section, ask, now))
        return;
    uint32_t row = dlk_local_row(&section, ask->key);
    dlk_record record;
    bool meant = dlk_table_holder(&section, row, now, &record);
    if (meant && ask->text) {
        owner_text(local->table, &record, owner);
        meant = strcmp(ask->text, owner) == 0;
    }
    if (meant)
        dlk_table_evict(&section, row, now);
    if (dlk_local_leave(local, &section, ask))
        ask->reply = meant ? DLK_YES : DLK_NOT_OURS;
}

/* ---- list ---- */

typedef struct entry {
    size_t size; /* 0: not in use */
    char name[DLK_TABLE_NAME + 1];
    char owner[OWNER_SIZE];
    int64_t until; /* 0: nobody holds it just now */
} entry;

static void look_at_entry(dlk_section *section, uint32_t ref, int64_t now, entry *found)
{
    const dlk_row *row = dlk_row_at(section->table, ref);
    dlk_record record;
    bool held = dlk_table_holder(section, ref, now, &record);
    size_t size = (size_t)(atomic_load(&row->title) & 0xffff);
    found->size = 0;
    if (size > DLK_TABLE_NAME)
        section->damaged = true;
    if (section->damaged || (DLK_GET(row->first) == 0 && !held))
        return;
    found->size = size;
    memcpy(found->name, dlk_row_name(section->table, ref), size);
    found->name[size] = '\0';
    found->until = held ? record.until : 0;
    if (held)
        owner_text(section->table, &record, found->owner);
}

static void add_entry(dlock_info *info, const entry *found, int64_t number, int64_t now)
{
    dlk_info_add_text(info, found->name, "locks.%" PRId64 ".name", number);
    if (found->until == 0)
        return;
    dlk_info_add_text(info, found->owner, "locks.%" PRId64 ".owner", number);
    dlk_info_add_int(info, dlk_clock_ms_until(found->until, now, INT64_MAX),
                     "locks.%" PRId64 ".remaining_ms", number);
}

void dlk_local_list(dlk_local *local, dlk_ask *ask, int64_t now)
{
    dlk_section section;
    entry found;
    const char *prefix = ask->text ? ask->text : "";
    int64_t count = 0;
    uint32_t high = local->table->row_count;
    notice_deaths(local);
    dlock_info *info = dlk_info_new();
    /* A section for each lock: a long list must not keep everybody out. */
    for (uint32_t ref = 1; ref <= high && count < ask->limit; ref++) {
        if (!dlk_local_enter(local, &section, ask, now))
            break;
        high = dlk_table_used(&local->table->head->row_high, local->table->row_count);
        found.size = 0;
        if (ref <= high)
            look_at_entry(&section, ref, now, &found);
        if (!dlk_local_leave(local, &section, ask))
            break;
        if (found.size > 0 && strncmp(found.name, prefix, strlen(prefix)) == 0)
            add_entry(info, &found, count++, now);
    }
    if (ask->reply != DLK_PENDING) {
        dlk_info_free(info);
        return;
    }
    ask->info = info;
    ask->reply = DLK_YES;
}
