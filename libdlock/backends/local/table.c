/*
 * Who has a lock, who is next, and what an acquire, renewal or release makes of it.
 *
 * The order of stores is the whole point: read each function as if the process could die between
 * any two of them, and the next one had only the words to go by (see map.h).
 */
#include "backends/local/table.h"

#include "util/clock.h"
#include "util/point.h"

#include <string.h>

static inline void commit(dlk_row *row, const dlk_record *record)
{
    uint64_t word = DLK_GET(row->word) + 1;
    memcpy((void *)&row->record[word & 1], record, sizeof(*record));
    DLK_POINT("table.record");
    atomic_store_explicit(&row->word, word, memory_order_release);
    DLK_POINT("table.commit");
}

void dlk_row_commit(dlk_row *row, const dlk_record *record)
{
    commit(row, record);
}

void dlk_section_ring(dlk_section *section, uint32_t member)
{
    if (section->ring_count < sizeof(section->ring) / sizeof(section->ring[0]))
        section->ring[section->ring_count++] = member;
    else
        section->ring_granted = true;
}

/* Whether the record is worth something: an owner who is there, in time. */
static bool valid(const dlk_table *table, const dlk_record *record, int64_t now)
{
    return record->owner != 0 && record->until > now &&
           dlk_record_is_anyones(table, record->owner);
}

/* dlk_record_is_of one that is only asked this. */
static bool is_stored_of(const dlk_stored_record *stored, const dlk_request *request)
{
    return DLK_GET(stored->owner) == request->owner &&
           DLK_GET(stored->number) == request->number;
}

bool dlk_table_holder(const dlk_section *section, uint32_t ref, int64_t now,
                      dlk_record *ret)
{
    const dlk_row *row = dlk_row_at(section->table, ref);
    if (!row)
        return false;
    *ret = dlk_row_record(row);
    return valid(section->table, ret, now);
}

/* ---- giving and taking ---- */

/* Mostly there is no line. */
static inline uint32_t first_in_line(dlk_section *section, const dlk_row *row,
                                     uint32_t row_ref)
{
    return DLK_GET(row->first) == 0 ? 0 : dlk_line_first(section, row, row_ref);
}

/* A death after it wastes one, which nobody minds. */
static inline int64_t next_token(dlk_section *section)
{
    dlk_head *head = section->table->head;
    int64_t last = DLK_GET(head->last_token);
    if (last < 0)
        section->damaged = true;
    if (last < 0 || last == INT64_MAX)
        return 0;
    DLK_PUT(head->last_token, last + 1);
    return last + 1;
}

int64_t dlk_table_next_token(dlk_section *section)
{
    return next_token(section);
}

/* The place of a grant goes before the grant does. The other way round a death in between would
 * leave a place that no record names, and that means: in the line. */
static void free_granted_place(dlk_section *section, const dlk_row *row)
{
    const dlk_stored_record *stored = dlk_row_stored(row);
    uint64_t ticket = DLK_GET(stored->ticket);
    if (ticket == 0)
        return;
    uint32_t ref = ((dlk_at){.word = DLK_GET(stored->at)}).ref;
    const dlk_line_place *place = dlk_line_place_at(section->table, ref);
    if (place && DLK_GET(place->word) == ticket)
        dlk_line_place_free(section, ref);
}

static inline void supersede(dlk_section *section, dlk_row *row, const dlk_record *record)
{
    free_granted_place(section, row);
    commit(row, record);
}

void dlk_row_supersede(dlk_section *section, uint32_t row_ref, const dlk_record *record)
{
    supersede(section, dlk_row_at(section->table, row_ref), record);
}

/* The first in the line gets the lock: one commit, whatever else it entails is derived. False:
 * there is no token left to give, or the table is damaged. */
static bool hand_over(dlk_section *section, uint32_t row_ref, uint32_t place_ref,
                      int64_t now)
{
    dlk_row *row = dlk_row_at(section->table, row_ref);
    dlk_line_place *place = dlk_line_place_at(section->table, place_ref);
    int64_t ttl = place ? DLK_GET(place->ttl_ms) * DLK_NS_PER_MS : 0;
    if (!row || ttl == 0 || dlk_is_pooled(dlk_line_place_kind(place))) {
        section->damaged = true;
        return false;
    }
    int64_t token = next_token(section);
    if (token == 0)
        return false;
    const dlk_record record = {
        .owner = DLK_GET(place->owner),
        .number = DLK_GET(place->number),
        .token = token,
        .until = ttl < INT64_MAX - now ? now + ttl : INT64_MAX,
        .ticket = DLK_GET(place->word),
        .at = dlk_at_of(place_ref, dlk_line_place_kind(place)),
        .since = dlk_date_of(now),
    };
    dlk_line_remove(section, row_ref, place_ref);
    if (section->damaged)
        return false;
    free_granted_place(section, row);
    DLK_PUT_AFTER(place->until, record.until);
    commit(row, &record);
    atomic_store_explicit(&place->token, token, memory_order_release);
    dlk_section_ring(section, (uint32_t)record.owner);
    return true;
}

static void vacate(dlk_section *section, dlk_row *row)
{
    if (DLK_GET(dlk_row_stored(row)->owner) == 0)
        return;
    supersede(section, row, &(dlk_record){.owner = 0});
}

static void hand_on(dlk_section *section, uint32_t row_ref, int64_t now)
{
    dlk_row *row = dlk_row_at(section->table, row_ref);
    if (!row) {
        section->damaged = true;
        return;
    }
    uint32_t first = first_in_line(section, row, row_ref);
    if (section->damaged || (first != 0 && hand_over(section, row_ref, first, now)))
        return;
    if (!section->damaged)
        vacate(section, row);
}

void dlk_table_settle(dlk_section *section, uint32_t row_ref, int64_t now)
{
    const dlk_row *row = dlk_row_at(section->table, row_ref);
    dlk_record record;
    if (!row || DLK_GET(row->first) == 0)
        return;
    if (dlk_pool_is_here(section, row_ref))
        (void)dlk_pool_settle(section, row_ref, now); /* nobody asks until when */
    else if (!dlk_table_holder(section, row_ref, now, &record))
        hand_on(section, row_ref, now);
}

void dlk_table_evict(dlk_section *section, uint32_t row_ref, int64_t now)
{
    hand_on(section, row_ref, now);
}

static dlk_outcome take(dlk_section *section, dlk_row *row, const dlk_request *request,
                        int64_t *token, int64_t *until)
{
    *token = next_token(section);
    if (*token == 0)
        return section->damaged ? DLK_NOTHING : DLK_NO_TOKEN;
    *until = request->now + request->ttl;
    supersede(section, row,
              &(dlk_record){
                  .owner = request->owner,
                  .number = request->number,
                  .token = *token,
                  .until = *until,
                  .at = dlk_at_of(0, request->kind),
                  .since = dlk_date_of(request->now),
              });
    return DLK_GRANTED;
}

/* Somebody has the lock. Whoever is in its line is of the holder's kind: it may be handed to all of
 * them, so the one way into it compares the kinds first. */
static dlk_outcome wait_behind(dlk_section *section, uint32_t row_ref,
                               const dlk_request *request, const dlk_record *holder,
                               dlk_turn *turn, int64_t *until)
{
    if (holder->kind != request->kind)
        return DLK_OTHER_KIND;
    *until = holder->until;
    if (!dlk_line_place_of(section->table, turn) &&
        !dlk_line_join(section, row_ref, request, turn, 0, 0))
        return section->damaged ? DLK_NOTHING : DLK_NO_PLACE;
    return DLK_QUEUED;
}

/* Whether there is a pool in the place of this lock, and somebody has or wants some of it. */
static bool is_pool(dlk_section *section, uint32_t row_ref, const dlk_row *row,
                    int64_t now)
{
    if (!dlk_pool_is_here(section, row_ref))
        return false;
    (void)dlk_pool_settle(section, row_ref, now); /* the dead are nobody */
    return DLK_GET(row->first) != 0;
}

/* Nobody has the lock: it goes to the asker, unless somebody is ahead. */
static dlk_outcome take_or_wait(dlk_section *section, uint32_t row_ref, dlk_row *row,
                                const dlk_request *request, dlk_turn *turn,
                                int64_t *token, int64_t *until)
{
    /* A grant of theirs that ran out unseen left a place behind, which is worth nothing now. */
    if (is_stored_of(dlk_row_stored(row), request))
        vacate(section, row);
    bool placed = dlk_line_place_of(section->table, turn) != NULL;
    uint32_t first = 0;
    if (DLK_GET(row->first) != 0) {
        if (is_pool(section, row_ref, row, request->now))
            return DLK_OTHER_KIND;
        first = first_in_line(section, row, row_ref);
    }
    if (section->damaged)
        return DLK_NOTHING;
    if (first == 0 || (placed && first == turn->place)) {
        if (placed)
            dlk_turn_end(section, turn);
        return section->damaged ? DLK_NOTHING : take(section, row, request, token, until);
    }
    if (!hand_over(section, row_ref, first, request->now))
        return section->damaged ? DLK_NOTHING : DLK_NO_TOKEN;
    const dlk_record holder = dlk_row_record(row);
    return wait_behind(section, row_ref, request, &holder, turn, until);
}

/* It is theirs, and isn't shortened. */
static int64_t prolong(dlk_row *row, const dlk_record *record, const dlk_request *request)
{
    if (request->now + request->ttl <= record->until)
        return record->until;
    dlk_record longer = *record;
    longer.until = request->now + request->ttl;
    commit(row, &longer);
    return longer.until;
}

static dlk_outcome decide(dlk_section *section, uint32_t row_ref,
                          const dlk_request *request, dlk_turn *turn, int64_t *token,
                          int64_t *until)
{
    dlk_row *row = dlk_row_at(section->table, row_ref);
    if (!row) {
        section->damaged = true;
        return DLK_NOTHING;
    }
    if (DLK_GET(dlk_row_stored(row)->owner) == 0)
        return take_or_wait(section, row_ref, row, request, turn, token, until);
    const dlk_record record = dlk_row_record(row);
    if (!valid(section->table, &record, request->now))
        return take_or_wait(section, row_ref, row, request, turn, token, until);
    if (dlk_record_is_of(&record, request) && record.kind == request->kind) {
        *token = record.token;
        *until = prolong(row, &record, request);
        return DLK_GRANTED;
    }
    return wait_behind(section, row_ref, request, &record, turn, until);
}

dlk_outcome dlk_table_acquire(dlk_section *section, uint32_t row_ref,
                              const dlk_request *request, dlk_turn *turn, int64_t *token,
                              int64_t *until)
{
    if (dlk_is_pooled(request->kind))
        return dlk_pool_acquire(section, row_ref, request, turn, token, until);
    dlk_outcome outcome = decide(section, row_ref, request, turn, token, until);
    if (outcome != DLK_QUEUED && turn->ticket != 0)
        dlk_turn_end(section, turn);
    return outcome;
}

bool dlk_table_has(const dlk_section *section, uint32_t row_ref,
                   const dlk_request *request, const dlk_turn *turn)
{
    if (dlk_is_pooled(request->kind))
        return dlk_pool_has(section, row_ref, request, turn);
    dlk_record record;
    return dlk_table_holder(section, row_ref, request->now, &record) &&
           dlk_record_is_of(&record, request);
}

bool dlk_table_renew(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                     const dlk_turn *turn)
{
    if (dlk_is_pooled(request->kind))
        return dlk_pool_renew(section, row_ref, request, turn);
    dlk_row *row = dlk_row_at(section->table, row_ref);
    dlk_record record;
    if (!dlk_table_holder(section, row_ref, request->now, &record) ||
        !dlk_record_is_of(&record, request))
        return false;
    (void)prolong(row, &record, request); /* nobody asks until when */
    return true;
}

bool dlk_table_release(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                       dlk_turn *turn)
{
    const dlk_row *row = dlk_row_at(section->table, row_ref);
    if (row && is_stored_of(dlk_row_stored(row), request)) {
        hand_on(section, row_ref, request->now);
        return true;
    }
    const dlk_line_place *place = dlk_line_place_of(section->table, turn);
    if (!place)
        return false;
    if (dlk_line_place_row(place) != row_ref || DLK_GET(place->owner) != request->owner ||
        DLK_GET(place->number) != request->number) {
        section->damaged = true;
        return false;
    }
    if (request->used)
        dlk_line_leave(section, turn->place);
    else if (dlk_is_pooled(dlk_line_place_kind(place)))
        dlk_pool_drop(section, row_ref, turn->place, request->now);
    dlk_turn_end(section, turn);
    return true;
}
