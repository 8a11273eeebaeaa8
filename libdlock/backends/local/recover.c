/*
 * Making a table whole from the words alone: which records count, which seats and members are
 * there. It may itself be interrupted by death at any point, and is then simply done again.
 */
#include "backends/local/table.h"

#include "util/point.h"

#include <string.h>

#define SIZE_MASK UINT64_C(0xffff)

/* The seats in scratch as a heap with the highest ticket on top. */
static void sink(const dlk_table *table, uint32_t count, uint32_t at)
{
    uint32_t *heap = table->scratch;
    for (;;) {
        uint32_t top = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (dlk_seat_at(table, heap[child])->word >
                dlk_seat_at(table, heap[top])->word)
                top = child;
        if (top == at)
            return;
        uint32_t moved = heap[at];
        heap[at] = heap[top];
        heap[top] = moved;
        at = top;
    }
}

/* A heap sort: in place, without memory of its own, and never quadratic. */
static void sort_by_ticket(const dlk_table *table, uint32_t count)
{
    for (uint32_t at = count / 2; at-- > 0;)
        sink(table, count, at);
    for (uint32_t left = count; left > 1; left--) {
        uint32_t last = table->scratch[left - 1];
        table->scratch[left - 1] = table->scratch[0];
        table->scratch[0] = last;
        sink(table, left - 1, 0);
    }
}

/* What a record says of somebody who is gone, or of a seat that isn't its own (any more), may come
 * true again by chance, where the counters were damaged: then another's seat would be freed. */
static void forget_strangers(const dlk_table *table, uint32_t ref)
{
    dlk_row *row = dlk_row_at(table, ref);
    dlk_record record = *dlk_row_record(row);
    const dlk_seat *seat = dlk_seat_at(table, record.seat);
    if (record.owner != 0 && !dlk_member_of(table, record.owner)) {
        dlk_row_commit(row, &(dlk_record){.owner = 0});
    } else if (record.ticket != 0 &&
               (!seat || seat->word != record.ticket || seat->row != ref)) {
        record.ticket = record.seat = 0;
        dlk_row_commit(row, &record);
    }
}

static void rebuild_row(dlk_visit *visit, uint32_t ref)
{
    const dlk_table *table = visit->table;
    dlk_row *row = &table->rows[ref - 1];
    uint64_t size = row->title & SIZE_MASK;
    row->first = row->last = 0;
    if (size == 0 || size > DLK_TABLE_NAME) {
        if (dlk_row_record(row)->owner != 0)
            dlk_row_commit(row, &(dlk_record){.owner = 0});
        dlk_row_free(visit, ref);
        return;
    }
    row->hash = dlk_table_hash(dlk_row_name(table, ref), size);
    uint32_t *bucket = &table->buckets[row->hash & (table->bucket_count - 1)];
    row->next = *bucket;
    *bucket = ref;
    if (dlk_row_record(row)->token > table->head->last_token)
        table->head->last_token = dlk_row_record(row)->token;
    forget_strangers(table, ref);
}

/* True: the seat is in a line. */
static bool rebuild_seat(dlk_visit *visit, uint32_t ref)
{
    const dlk_table *table = visit->table;
    dlk_seat *seat = &table->seats[ref - 1];
    dlk_row *row = dlk_row_at(table, seat->row);
    seat->prev = seat->next = 0;
    if (seat->word == 0 || !row || (row->title & SIZE_MASK) == 0 || seat->ttl <= 0 ||
        !dlk_member_of(table, seat->owner)) {
        dlk_seat_free(visit, ref);
        return false;
    }
    if (seat->word > table->head->last_ticket)
        table->head->last_ticket = seat->word;
    const dlk_record *record = dlk_row_record(row);
    bool granted =
        record->ticket == seat->word && record->seat == ref && record->token > 0;
    if (granted)
        atomic_store(&seat->until, record->until);
    atomic_store(&seat->token, granted ? record->token : 0);
    return !granted;
}

static void clamp(uint32_t *high, uint32_t count)
{
    if (*high > count)
        *high = count;
}

void dlk_table_rebuild(dlk_visit *visit, int64_t now)
{
    const dlk_table *table = visit->table;
    dlk_head *head = table->head;
    clamp(&head->row_high, table->row_count);
    clamp(&head->seat_high, table->seat_count);
    clamp(&head->member_high, table->member_count);
    if (head->last_token < 0)
        head->last_token = 0;
    memset(table->buckets, 0, sizeof(*table->buckets) * table->bucket_count);
    head->free_row = head->free_seat = 0;
    for (uint32_t ref = head->row_high; ref > 0; ref--)
        rebuild_row(visit, ref);
    DLK_POINT("table.rebuild");
    uint32_t waiting = 0;
    for (uint32_t ref = head->seat_high; ref > 0; ref--)
        if (rebuild_seat(visit, ref))
            table->scratch[waiting++] = ref;
    sort_by_ticket(table, waiting);
    for (uint32_t i = 0; i < waiting; i++)
        dlk_line_append(visit, dlk_seat_at(table, table->scratch[i])->row,
                        table->scratch[i]);
    for (uint32_t ref = 1; ref <= head->row_high && !visit->damaged; ref++)
        dlk_table_settle(visit, ref, now);
    visit->ring_granted = true;
}
