/*
 * The line of a lock: who waits, and of a pool also who has something, in the order in which they came.
 * Somebody stands there when the place's word says so (see map.h); the links between the places
 * are derived, so the order of their stores doesn't matter.
 */
#include "backends/local/table.h"

#include "util/clock.h"
#include "util/point.h"

/* ---- the links ---- */

void dlk_line_append(dlk_section *section, uint32_t row_ref, uint32_t ref)
{
    dlk_row *row = dlk_row_at(section->table, row_ref);
    dlk_line_place *place = dlk_line_place_at(section->table, ref);
    if (!row || !place) {
        section->damaged = true;
        return;
    }
    uint32_t last_ref = DLK_GET(row->last);
    dlk_line_place *last = dlk_line_place_at(section->table, last_ref);
    if (last_ref != 0 && !last)
        section->damaged = true;
    DLK_PUT(place->prev, last_ref);
    DLK_PUT(place->next, 0);
    if (last)
        DLK_PUT(last->next, ref);
    else
        DLK_PUT(row->first, ref);
    DLK_PUT(row->last, ref);
}

void dlk_line_remove(dlk_section *section, uint32_t row_ref, uint32_t ref)
{
    dlk_row *row = dlk_row_at(section->table, row_ref);
    dlk_line_place *place = dlk_line_place_at(section->table, ref);
    if (!row || !place) {
        section->damaged = true;
        return;
    }
    uint32_t prev_ref = DLK_GET(place->prev), next_ref = DLK_GET(place->next);
    dlk_line_place *prev = dlk_line_place_at(section->table, prev_ref);
    dlk_line_place *next = dlk_line_place_at(section->table, next_ref);
    _Atomic uint32_t *to_it = prev ? &prev->next : &row->first;
    _Atomic uint32_t *back_to_it = next ? &next->prev : &row->last;
    if (DLK_GET(*to_it) != ref || DLK_GET(*back_to_it) != ref) {
        section->damaged = true;
        return;
    }
    DLK_PUT(*to_it, next_ref);
    DLK_PUT(*back_to_it, prev_ref);
    DLK_PUT(place->prev, 0);
    DLK_PUT(place->next, 0);
}

void dlk_line_leave(dlk_section *section, uint32_t ref)
{
    const dlk_line_place *place = dlk_line_place_at(section->table, ref);
    if (!place) {
        section->damaged = true;
        return;
    }
    uint32_t row_ref = dlk_line_place_row(place);
    if (dlk_is_pooled(dlk_line_place_kind(place)))
        dlk_pool_subtract(section, row_ref, ref);
    dlk_line_remove(section, row_ref, ref);
    if (!section->damaged)
        dlk_line_place_free(section, ref);
}

uint32_t dlk_line_first(dlk_section *section, const dlk_row *row, uint32_t row_ref)
{
    for (uint32_t steps = 0; !section->damaged; steps++) {
        uint32_t ref = DLK_GET(row->first);
        if (ref == 0)
            return 0;
        const dlk_line_place *place = dlk_line_place_at(section->table, ref);
        if (!place || dlk_line_place_row(place) != row_ref || DLK_GET(place->word) == 0 ||
            steps == section->table->place_count) {
            section->damaged = true;
            return 0;
        }
        if (dlk_member_of(section->table, DLK_GET(place->owner)))
            return ref;
        dlk_line_leave(section, ref);
    }
    return 0;
}

/* ---- coming ---- */

/* The lease that whoever waits is to have once it is granted. */
static uint32_t ttl_ms_of(const dlk_request *request)
{
    int64_t ms = request->ttl / DLK_NS_PER_MS;
    return ms < 1 ? 1 : ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* When there is none, those of late readers are looked for: nobody else may have had to. */
static uint32_t take_place(dlk_section *section, int64_t now)
{
    uint32_t ref = dlk_line_place_take(section);
    if (ref != 0 || section->damaged)
        return ref;
    dlk_pool_settle_all(section, now);
    return section->damaged ? 0 : dlk_line_place_take(section);
}

/* The place's word is its commit. */
bool dlk_line_join(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                   dlk_turn *turn, int64_t token, int64_t until)
{
    dlk_head *head = section->table->head;
    uint64_t ticket = DLK_GET(head->last_ticket) + 1;
    uint32_t ref = take_place(section, request->now);
    dlk_line_place *place = dlk_line_place_at(section->table, ref);
    if (ticket == 0) /* it takes more than anybody has given out to come here */
        section->damaged = true;
    if (!place || section->damaged)
        return false;
    DLK_PUT(place->owner, request->owner);
    DLK_PUT(place->number, request->number);
    DLK_PUT(place->ttl_ms, ttl_ms_of(request));
    DLK_PUT(place->take, request->take);
    DLK_PUT(place->at, dlk_at_of(row_ref, request->kind).word);
    DLK_PUT(place->since, dlk_date_of(request->now));
    DLK_PUT_AFTER(place->until, until);
    DLK_PUT_AFTER(place->token, token);
    dlk_line_append(section, row_ref, ref);
    DLK_PUT(head->last_ticket, ticket);
    *turn = (dlk_turn){.place = ref, .ticket = ticket};
    DLK_POINT("table.place");
    atomic_store_explicit(&place->word, ticket, memory_order_release);
    DLK_POINT("table.placed");
    return true;
}

/* ---- a turn: a place as its owner remembers it ---- */

void dlk_turn_end(dlk_section *section, dlk_turn *turn)
{
    const dlk_line_place *place = dlk_line_place_of(section->table, turn);
    /* A place that was granted goes with its grant. */
    if (place && DLK_GET(place->token) == 0)
        dlk_line_leave(section, turn->place);
    *turn = (dlk_turn){.place = 0};
}

bool dlk_turn_granted(const dlk_table *table, const dlk_turn *turn, int64_t *token,
                      int64_t *until)
{
    const dlk_line_place *place = dlk_line_place_of(table, turn);
    if (!place)
        return false;
    *token = atomic_load_explicit(&place->token, memory_order_acquire);
    *until = atomic_load_explicit(&place->until, memory_order_acquire);
    /* Read whole only if the place is still the same one. (No fence: TSan does not know them.) */
    return *token > 0 &&
           atomic_load_explicit(&place->word, memory_order_relaxed) == turn->ticket;
}

bool dlk_turn_has_place(const dlk_table *table, const dlk_turn *turn)
{
    return dlk_line_place_of(table, turn) != NULL;
}
