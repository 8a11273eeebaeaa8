/* Every rule that a table keeps while nobody is inside; see map.h. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

static char fault[256];

static const char *say(const char *what, uint32_t ref)
{
    (void)snprintf(fault, sizeof(fault), "%s (%u)", what, ref);
    return fault;
}

static bool titled(const dlk_row *row)
{
    return (atomic_load(&row->title) & 0xffff) != 0;
}

/* Walks one line and marks its seats. */
static const char *line_fault(const dlk_table *table, uint32_t ref, bool *seated)
{
    const dlk_row *row = &table->rows[ref - 1];
    uint32_t prev = 0;
    uint64_t ticket = 0;
    for (uint32_t at = row->first; at != 0;) {
        const dlk_seat *seat = dlk_seat_at(table, at);
        if (!seat || at > table->head->seat_high)
            return say("a line leads out of the seats", ref);
        if (seated[at - 1])
            return say("a seat is in a line twice", at);
        if (seat->row != ref || seat->prev != prev)
            return say("a seat is in the wrong line", at);
        if (atomic_load(&seat->word) <= ticket)
            return say("a line is not in the order of its tickets", at);
        if (atomic_load(&seat->token) != 0)
            return say("a granted seat is in a line", at);
        seated[at - 1] = true;
        ticket = atomic_load(&seat->word);
        prev = at;
        at = seat->next;
    }
    return row->last == prev ? NULL : say("a line doesn't end where it says", ref);
}

static const char *row_fault(const dlk_table *table, uint32_t ref, bool *seated)
{
    dlk_row *row = &table->rows[ref - 1];
    if (!titled(row))
        return row->first == 0 || dlk_row_record(row).owner == 0
                   ? NULL
                   : say("a row without a name is in use", ref);
    uint32_t at = table->buckets[row->hash & (table->bucket_count - 1)];
    for (uint32_t steps = 0; at != ref; steps++) {
        if (at == 0 || at > table->row_count || steps == table->row_count)
            return say("a row is not in its bucket", ref);
        at = table->rows[at - 1].next;
    }
    const dlk_record record = dlk_row_record(row);
    const dlk_seat *seat = record.ticket ? dlk_seat_at(table, record.seat) : NULL;
    if (seat && atomic_load(&seat->word) == record.ticket) {
        if (atomic_load(&seat->token) != record.token)
            return say("a granted seat doesn't know it", record.seat);
        seated[record.seat - 1] = true;
    }
    return line_fault(table, ref, seated);
}

static const char *seats_fault(const dlk_table *table, bool *seated)
{
    for (uint32_t ref = 1; ref <= table->head->seat_high; ref++)
        if (atomic_load(&table->seats[ref - 1].word) != 0 && !seated[ref - 1])
            return say("a seat is nowhere", ref);
    uint32_t at = table->head->free_seat;
    for (uint32_t steps = 0; at != 0; steps++) {
        if (at > table->seat_count || steps == table->seat_count)
            return say("the free seats don't end", at);
        if (atomic_load(&table->seats[at - 1].word) != 0)
            return say("a free seat is taken", at);
        at = table->seats[at - 1].next;
    }
    return NULL;
}

const char *table_fault(const dlk_table *table)
{
    const dlk_head *head = table->head;
    if (head->row_high > table->row_count || head->seat_high > table->seat_count ||
        head->member_high > table->member_count)
        return say("more is used than there is", 0);
    bool *seated = calloc(table->seat_count, sizeof(*seated));
    const char *found = seated ? NULL : say("no memory", 0);
    for (uint32_t ref = 1; !found && ref <= head->row_high; ref++)
        found = row_fault(table, ref, seated);
    if (!found)
        found = seats_fault(table, seated);
    free(seated);
    return found;
}
