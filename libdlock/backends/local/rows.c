/*
 * Which row is a lock's, and which slots are free. A row keeps its name when the lock is free,
 * so that the next acquire finds it where it was; it gets another name only when there is no
 * other row left. All chains here are derived.
 */
#include "backends/local/table.h"

#include "util/point.h"

#include <string.h>

#define SIZE_MASK UINT64_C(0xffff) /* of a title */

uint32_t dlk_table_hash(const char *name, size_t size)
{
    uint32_t hash = UINT32_C(2166136261); /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT32_C(16777619);
    return hash;
}

static _Atomic uint32_t *bucket_of(const dlk_table *table, uint32_t hash)
{
    return &table->buckets[hash & (table->bucket_count - 1)];
}

static bool has_name(const dlk_table *table, uint32_t ref, const char *name, size_t size)
{
    uint64_t title = DLK_GET(dlk_row_at(table, ref)->title);
    return (title & SIZE_MASK) == size &&
           memcmp(dlk_row_name(table, ref), name, size) == 0;
}

uint32_t dlk_table_find(dlk_section *section, const char *name, size_t size,
                        uint32_t hash)
{
    const dlk_table *table = section->table;
    uint32_t ref = DLK_GET(*bucket_of(table, hash));
    for (uint32_t steps = 0; ref != 0; steps++) {
        const dlk_row *row = dlk_row_at(table, ref);
        if (!row || steps == table->row_count) {
            section->damaged = true;
            return 0;
        }
        if (DLK_GET(row->hash) == hash && has_name(table, ref, name, size))
            return ref;
        ref = DLK_GET(row->next);
    }
    return 0;
}

static void unchain(dlk_section *section, uint32_t ref)
{
    const dlk_table *table = section->table;
    const dlk_row *row = dlk_row_at(table, ref);
    _Atomic uint32_t *link = bucket_of(table, DLK_GET(row->hash));
    uint32_t at = DLK_GET(*link);
    for (uint32_t steps = 0; at != ref; steps++) {
        dlk_row *before = dlk_row_at(table, at);
        if (!before || steps == table->row_count) {
            section->damaged = true;
            return;
        }
        link = &before->next;
        at = DLK_GET(*link);
    }
    DLK_PUT(*link, DLK_GET(row->next));
}

/* Takes the name away; what had found the row by it doesn't know it any more. */
static void untitle(dlk_row *row)
{
    uint64_t title = DLK_GET(row->title);
    atomic_store_explicit(&row->title, (title & ~SIZE_MASK) + SIZE_MASK + 1,
                          memory_order_release);
}

void dlk_row_free(dlk_section *section, uint32_t ref)
{
    dlk_head *head = section->table->head;
    dlk_row *row = dlk_row_at(section->table, ref);
    if (!row) {
        section->damaged = true;
        return;
    }
    untitle(row);
    DLK_PUT(row->next, DLK_GET(head->free_row));
    DLK_PUT(head->free_row, ref);
}

/* A row that has a name and no use for it: nobody holds the lock, nobody waits. */
static uint32_t sweep(dlk_section *section, int64_t now)
{
    const dlk_table *table = section->table;
    dlk_head *head = table->head;
    uint32_t ref = DLK_GET(head->sweep);
    dlk_record record;
    for (uint32_t steps = 0; steps < table->row_count; steps++) {
        ref = ref % table->row_count + 1;
        DLK_PUT(head->sweep, ref);
        dlk_row *row = dlk_row_at(table, ref);
        if (dlk_pool_is_here(section, ref)) /* perhaps of those whose time is over */
            (void)dlk_pool_settle(section, ref, now);
        if (DLK_GET(row->first) != 0 || dlk_table_holder(section, ref, now, &record))
            continue;
        unchain(section, ref);
        if (section->damaged)
            return 0;
        dlk_table_evict(section, ref, now);
        untitle(row);
        return ref;
    }
    return 0;
}

/* A row behind the @p used ones. It is zero, unless `row_high` was damaged. */
static uint32_t first_use(dlk_section *section, uint32_t used)
{
    uint32_t ref = used + 1;
    dlk_row *row = dlk_row_at(section->table, ref);
    DLK_PUT(section->table->head->row_high, ref);
    if (dlk_row_record(row).owner != 0)
        dlk_row_commit(row, &(dlk_record){.owner = 0});
    return ref;
}

static uint32_t take_row(dlk_section *section, int64_t now)
{
    const dlk_table *table = section->table;
    dlk_head *head = table->head;
    uint32_t ref = DLK_GET(head->free_row);
    if (ref == 0) {
        uint32_t used = dlk_table_used(&head->row_high, table->row_count);
        return used < table->row_count ? first_use(section, used) : sweep(section, now);
    }
    const dlk_row *row = dlk_row_at(table, ref);
    if (!row || (DLK_GET(row->title) & SIZE_MASK) != 0) {
        section->damaged = true;
        return 0;
    }
    DLK_PUT(head->free_row, DLK_GET(row->next));
    return ref;
}

uint32_t dlk_table_make(dlk_section *section, const char *name, size_t size,
                        uint32_t hash, int64_t now)
{
    uint32_t ref = dlk_table_find(section, name, size, hash);
    if (ref != 0 || section->damaged)
        return ref;
    ref = take_row(section, now);
    dlk_row *row = dlk_row_at(section->table, ref);
    if (!row)
        return 0;
    memcpy(dlk_row_name(section->table, ref), name, size);
    _Atomic uint32_t *bucket = bucket_of(section->table, hash);
    DLK_PUT(row->hash, hash);
    DLK_PUT(row->next, DLK_GET(*bucket));
    DLK_PUT(row->first, 0);
    DLK_PUT(row->last, 0);
    DLK_PUT(*bucket, ref);
    DLK_POINT("table.name");
    atomic_store_explicit(&row->title, (DLK_GET(row->title) & ~SIZE_MASK) | size,
                          memory_order_release);
    return ref;
}

uint32_t dlk_line_place_take(dlk_section *section)
{
    const dlk_table *table = section->table;
    dlk_head *head = table->head;
    uint32_t ref = DLK_GET(head->free_place);
    if (ref == 0) {
        uint32_t used = dlk_table_used(&head->place_high, table->place_count);
        if (used == table->place_count)
            return 0;
        DLK_PUT(head->place_high, used + 1);
        return used + 1;
    }
    const dlk_line_place *place = dlk_line_place_at(table, ref);
    if (!place || DLK_GET(place->word) != 0) {
        section->damaged = true;
        return 0;
    }
    DLK_PUT(head->free_place, DLK_GET(place->next));
    return ref;
}

void dlk_line_place_free(dlk_section *section, uint32_t ref)
{
    dlk_head *head = section->table->head;
    dlk_line_place *place = dlk_line_place_at(section->table, ref);
    if (!place) {
        section->damaged = true;
        return;
    }
    atomic_store_explicit(&place->word, 0, memory_order_release);
    DLK_PUT(place->next, DLK_GET(head->free_place));
    DLK_PUT(head->free_place, ref);
}
