/*
 * Which row is a lock's, and which places are free. A row keeps its name when the lock is free,
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

static uint32_t *bucket_of(const dlk_table *table, uint32_t hash)
{
    return &table->buckets[hash & (table->bucket_count - 1)];
}

static bool has_name(const dlk_table *table, uint32_t ref, const char *name, size_t size)
{
    uint64_t title =
        atomic_load_explicit(&dlk_row_at(table, ref)->title, memory_order_relaxed);
    return (title & SIZE_MASK) == size &&
           memcmp(dlk_row_name(table, ref), name, size) == 0;
}

uint32_t dlk_table_find(dlk_visit *visit, const char *name, size_t size, uint32_t hash)
{
    const dlk_table *table = visit->table;
    uint32_t ref = *bucket_of(table, hash);
    for (uint32_t steps = 0; ref != 0; steps++) {
        const dlk_row *row = dlk_row_at(table, ref);
        if (!row || steps == table->row_count) {
            visit->damaged = true;
            return 0;
        }
        if (row->hash == hash && has_name(table, ref, name, size))
            return ref;
        ref = row->next;
    }
    return 0;
}

static void unchain(dlk_visit *visit, uint32_t ref)
{
    const dlk_table *table = visit->table;
    dlk_row *row = &table->rows[ref - 1];
    uint32_t *link = bucket_of(table, row->hash);
    for (uint32_t steps = 0; *link != ref; steps++) {
        dlk_row *before = dlk_row_at(table, *link);
        if (!before || steps == table->row_count) {
            visit->damaged = true;
            return;
        }
        link = &before->next;
    }
    *link = row->next;
}

/* Takes the name away; what had found the row by it doesn't know it any more. */
static void untitle(dlk_row *row)
{
    uint64_t title = atomic_load_explicit(&row->title, memory_order_relaxed);
    atomic_store_explicit(&row->title, (title & ~SIZE_MASK) + SIZE_MASK + 1,
                          memory_order_release);
}

void dlk_row_free(dlk_visit *visit, uint32_t ref)
{
    dlk_head *head = visit->table->head;
    dlk_row *row = &visit->table->rows[ref - 1];
    untitle(row);
    row->next = head->free_row;
    head->free_row = ref;
}

/* A row that has a name and no use for it: nobody holds the lock, nobody waits. */
static uint32_t sweep(dlk_visit *visit, int64_t now)
{
    const dlk_table *table = visit->table;
    dlk_head *head = table->head;
    for (uint32_t steps = 0; steps < table->row_count; steps++) {
        uint32_t ref = head->sweep % table->row_count + 1;
        head->sweep = ref;
        dlk_row *row = &table->rows[ref - 1];
        if (row->first != 0 || dlk_table_holder(visit, ref, now))
            continue;
        unchain(visit, ref);
        if (visit->damaged)
            return 0;
        dlk_table_evict(visit, ref, now);
        untitle(row);
        return ref;
    }
    return 0;
}

/* A row behind all that were in use. It is zero, unless `row_high` was damaged. */
static uint32_t first_use(dlk_visit *visit)
{
    uint32_t ref = ++visit->table->head->row_high;
    dlk_row *row = dlk_row_at(visit->table, ref);
    if (dlk_row_record(row)->owner != 0)
        dlk_row_commit(row, &(dlk_record){.owner = 0});
    return ref;
}

static uint32_t take_row(dlk_visit *visit, int64_t now)
{
    dlk_head *head = visit->table->head;
    uint32_t ref = head->free_row;
    if (ref == 0) {
        return head->row_high < visit->table->row_count ? first_use(visit)
                                                        : sweep(visit, now);
    }
    dlk_row *row = dlk_row_at(visit->table, ref);
    if (!row || (row->title & SIZE_MASK) != 0) {
        visit->damaged = true;
        return 0;
    }
    head->free_row = row->next;
    return ref;
}

uint32_t dlk_table_make(dlk_visit *visit, const char *name, size_t size, uint32_t hash,
                        int64_t now)
{
    uint32_t ref = dlk_table_find(visit, name, size, hash);
    if (ref != 0 || visit->damaged)
        return ref;
    ref = take_row(visit, now);
    dlk_row *row = dlk_row_at(visit->table, ref);
    if (!row)
        return 0;
    memcpy(dlk_row_name(visit->table, ref), name, size);
    uint32_t *bucket = bucket_of(visit->table, hash);
    row->hash = hash;
    row->next = *bucket;
    row->first = row->last = 0;
    *bucket = ref;
    DLK_POINT("table.name");
    atomic_store_explicit(&row->title, (row->title & ~SIZE_MASK) | size,
                          memory_order_release);
    return ref;
}

uint32_t dlk_seat_take(dlk_visit *visit)
{
    dlk_head *head = visit->table->head;
    uint32_t ref = head->free_seat;
    if (ref == 0)
        return head->seat_high < visit->table->seat_count ? ++head->seat_high : 0;
    dlk_seat *seat = dlk_seat_at(visit->table, ref);
    if (!seat || atomic_load_explicit(&seat->word, memory_order_relaxed) != 0) {
        visit->damaged = true;
        return 0;
    }
    head->free_seat = seat->next;
    return ref;
}

void dlk_seat_free(dlk_visit *visit, uint32_t ref)
{
    dlk_head *head = visit->table->head;
    dlk_seat *seat = &visit->table->seats[ref - 1];
    atomic_store_explicit(&seat->word, 0, memory_order_release);
    seat->next = head->free_seat;
    head->free_seat = ref;
}
