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

/* Of a pool: who was granted something is the beginning of the line, and it is counted. */
static const char *pool_fault(const dlk_table *table, uint32_t ref)
{
    const dlk_pool *pool = &table->pools[ref - 1];
    uint64_t taken = 0;
    uint32_t next = 0;
    for (uint32_t at = table->rows[ref - 1].first; at != 0;
         at = table->places[at - 1].next) {
        const dlk_line_place *place = &table->places[at - 1];
        if (!dlk_is_pooled(dlk_line_place_kind(place)))
            return say("a line is of two kinds", ref);
        if (atomic_load(&place->token) == 0)
            next = next ? next : at;
        else if (next)
            return say("somebody was served before his turn", at);
        else
            taken += place->take;
    }
    if (taken != pool->taken || next != pool->next)
        return say("a pool has counted wrong", ref);
    bool condition =
        dlk_line_place_kind(&table->places[table->rows[ref - 1].first - 1]) ==
        DLK_KIND_CONDITION;
    if (condition ? pool->size != 0 : taken > pool->size)
        return say("more is taken than there is", ref);
    if (next && taken + table->places[next - 1].take <= pool->size &&
        dlk_member_of(table, table->places[next - 1].owner))
        return say("the next waits for nothing", ref);
    return dlk_row_record(&table->rows[ref - 1]).owner == 0
               ? NULL
               : say("a pool is held as a mutex, too", ref);
}

/* Walks one line and marks its places. */
static const char *line_fault(const dlk_table *table, uint32_t ref, bool *placed)
{
    const dlk_row *row = &table->rows[ref - 1];
    uint32_t prev = 0;
    uint64_t ticket = 0;
    for (uint32_t at = row->first; at != 0;) {
        const dlk_line_place *place = dlk_line_place_at(table, at);
        if (!place || at > table->head->place_high)
            return say("a line leads out of the places", ref);
        if (placed[at - 1])
            return say("a place is in a line twice", at);
        if (dlk_line_place_row(place) != ref || place->prev != prev)
            return say("a place is in the wrong line", at);
        if (atomic_load(&place->word) <= ticket)
            return say("a line is not in the order of its tickets", at);
        if (atomic_load(&place->token) != 0 && !dlk_is_pooled(dlk_line_place_kind(place)))
            return say("a granted place is in a line", at);
        placed[at - 1] = true;
        ticket = atomic_load(&place->word);
        prev = at;
        at = place->next;
    }
    if (row->last != prev)
        return say("a line doesn't end where it says", ref);
    bool pooled = row->first != 0 &&
                  dlk_is_pooled(dlk_line_place_kind(&table->places[row->first - 1]));
    return pooled ? pool_fault(table, ref) : NULL;
}

static const char *row_fault(const dlk_table *table, uint32_t ref, bool *placed)
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
    const dlk_line_place *place =
        record.ticket ? dlk_line_place_at(table, record.place) : NULL;
    if (place && atomic_load(&place->word) == record.ticket) {
        if (atomic_load(&place->token) != record.token)
            return say("a granted place doesn't know it", record.place);
        placed[record.place - 1] = true;
    }
    return line_fault(table, ref, placed);
}

static const char *places_fault(const dlk_table *table, bool *placed)
{
    for (uint32_t ref = 1; ref <= table->head->place_high; ref++)
        if (atomic_load(&table->places[ref - 1].word) != 0 && !placed[ref - 1])
            return say("a place is nowhere", ref);
    uint32_t at = table->head->free_place;
    for (uint32_t steps = 0; at != 0; steps++) {
        if (at > table->place_count || steps == table->place_count)
            return say("the free places don't end", at);
        if (atomic_load(&table->places[at - 1].word) != 0)
            return say("a free place is taken", at);
        at = table->places[at - 1].next;
    }
    return NULL;
}

const char *table_fault(const dlk_table *table)
{
    const dlk_head *head = table->head;
    if (head->row_high > table->row_count || head->place_high > table->place_count ||
        head->member_high > table->member_count)
        return say("more is used than there is", 0);
    bool *placed = calloc(table->place_count, sizeof(*placed));
    const char *found = placed ? NULL : say("no memory", 0);
    for (uint32_t ref = 1; !found && ref <= head->row_high; ref++)
        found = row_fault(table, ref, placed);
    if (!found)
        found = places_fault(table, placed);
    free(placed);
    return found;
}
