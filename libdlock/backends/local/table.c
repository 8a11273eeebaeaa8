/*
 * Who has a lock, who is next, and what an acquire, renewal or release makes of it.
 *
 * The order of stores is the whole point: read each function as if the process could die between
 * any two of them, and the next one had only the words to go by (see map.h).
 */
#include "backends/local/table.h"

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

void dlk_visit_ring(dlk_visit *visit, uint32_t member)
{
    if (visit->ring_count < sizeof(visit->ring) / sizeof(visit->ring[0]))
        visit->ring[visit->ring_count++] = member;
    else
        visit->ring_granted = true;
}

/* Whether the record is worth something: an owner who is there, in time. */
static bool valid(const dlk_table *table, const dlk_record *record, int64_t now)
{
    return record->owner != 0 && record->until > now &&
           dlk_member_of(table, record->owner);
}

static bool is_of(const dlk_record *record, const dlk_claim *claim)
{
    return record->owner == claim->owner && record->number == claim->number;
}

/* The same of one that is only asked this. */
static bool is_stored_of(const dlk_stored_record *stored, const dlk_claim *claim)
{
    return DLK_GET(stored->owner) == claim->owner &&
           DLK_GET(stored->number) == claim->number;
}

bool dlk_table_holder(const dlk_visit *visit, uint32_t ref, int64_t now, dlk_record *ret)
{
    const dlk_row *row = dlk_row_at(visit->table, ref);
    if (!row)
        return false;
    *ret = dlk_row_record(row);
    return valid(visit->table, ret, now);
}

/* ---- the line of a lock: derived, so the order of stores doesn't matter ---- */

void dlk_line_append(dlk_visit *visit, uint32_t row_ref, uint32_t ref)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    dlk_seat *seat = dlk_seat_at(visit->table, ref);
    if (!row || !seat) {
        visit->damaged = true;
        return;
    }
    uint32_t last_ref = DLK_GET(row->last);
    dlk_seat *last = dlk_seat_at(visit->table, last_ref);
    if (last_ref != 0 && !last)
        visit->damaged = true;
    DLK_PUT(seat->prev, last_ref);
    DLK_PUT(seat->next, 0);
    if (last)
        DLK_PUT(last->next, ref);
    else
        DLK_PUT(row->first, ref);
    DLK_PUT(row->last, ref);
}

void dlk_line_remove(dlk_visit *visit, uint32_t row_ref, uint32_t ref)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    dlk_seat *seat = dlk_seat_at(visit->table, ref);
    if (!row || !seat) {
        visit->damaged = true;
        return;
    }
    uint32_t prev_ref = DLK_GET(seat->prev), next_ref = DLK_GET(seat->next);
    dlk_seat *prev = dlk_seat_at(visit->table, prev_ref);
    dlk_seat *next = dlk_seat_at(visit->table, next_ref);
    _Atomic uint32_t *to_it = prev ? &prev->next : &row->first;
    _Atomic uint32_t *back_to_it = next ? &next->prev : &row->last;
    if (DLK_GET(*to_it) != ref || DLK_GET(*back_to_it) != ref) {
        visit->damaged = true;
        return;
    }
    DLK_PUT(*to_it, next_ref);
    DLK_PUT(*back_to_it, prev_ref);
    DLK_PUT(seat->prev, 0);
    DLK_PUT(seat->next, 0);
}

/* The first in the line who is still there; those who aren't leave it. 0: nobody waits. */
static uint32_t walk_to_first(dlk_visit *visit, const dlk_row *row, uint32_t row_ref)
{
    for (uint32_t steps = 0; !visit->damaged; steps++) {
        uint32_t ref = DLK_GET(row->first);
        if (ref == 0)
            return 0;
        const dlk_seat *seat = dlk_seat_at(visit->table, ref);
        if (!seat || DLK_GET(seat->row) != row_ref || DLK_GET(seat->word) == 0 ||
            steps == visit->table->seat_count) {
            visit->damaged = true;
            return 0;
        }
        if (dlk_member_of(visit->table, DLK_GET(seat->owner)))
            return ref;
        dlk_line_remove(visit, row_ref, ref);
        if (!visit->damaged)
            dlk_seat_free(visit, ref);
    }
    return 0;
}

/* Mostly there is no line. */
static inline uint32_t first_in_line(dlk_visit *visit, const dlk_row *row,
                                     uint32_t row_ref)
{
    return DLK_GET(row->first) == 0 ? 0 : walk_to_first(visit, row, row_ref);
}

/* ---- giving and taking ---- */

/* The next token, or 0 when there is none. A death after it wastes one, which nobody minds. */
static int64_t next_token(dlk_visit *visit)
{
    dlk_head *head = visit->table->head;
    int64_t last = DLK_GET(head->last_token);
    if (last < 0)
        visit->damaged = true;
    if (last < 0 || last == INT64_MAX)
        return 0;
    DLK_PUT(head->last_token, last + 1);
    return last + 1;
}

/* The seat of a grant goes before the grant does. The other way round a death in between would
 * leave a seat that no record names, and that means: in the line. */
static void free_granted_seat(dlk_visit *visit, const dlk_row *row)
{
    const dlk_stored_record *stored = dlk_row_stored(row);
    uint64_t ticket = DLK_GET(stored->ticket);
    if (ticket == 0)
        return;
    uint32_t ref = DLK_GET(stored->seat);
    const dlk_seat *seat = dlk_seat_at(visit->table, ref);
    if (seat && DLK_GET(seat->word) == ticket)
        dlk_seat_free(visit, ref);
}

/* The first in the line gets the lock: one commit, whatever else it entails is derived. False:
 * there is no token left to give, or the table is damaged. */
static bool hand_over(dlk_visit *visit, uint32_t row_ref, uint32_t seat_ref, int64_t now)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    dlk_seat *seat = dlk_seat_at(visit->table, seat_ref);
    int64_t ttl = seat ? DLK_GET(seat->ttl) : 0;
    if (!row || ttl <= 0) {
        visit->damaged = true;
        return false;
    }
    int64_t token = next_token(visit);
    if (token == 0)
        return false;
    const dlk_record record = {
        .owner = DLK_GET(seat->owner),
        .number = DLK_GET(seat->number),
        .token = token,
        .until = ttl < INT64_MAX - now ? now + ttl : INT64_MAX,
        .ticket = DLK_GET(seat->word),
        .seat = seat_ref,
        .kind = DLK_GET(seat->kind),
    };
    dlk_line_remove(visit, row_ref, seat_ref);
    if (visit->damaged)
        return false;
    free_granted_seat(visit, row);
    DLK_PUT(seat->until, record.until);
    commit(row, &record);
    atomic_store_explicit(&seat->token, token, memory_order_release);
    dlk_visit_ring(visit, (uint32_t)record.owner);
    return true;
}

static void vacate(dlk_visit *visit, dlk_row *row)
{
    if (DLK_GET(dlk_row_stored(row)->owner) == 0)
        return;
    free_granted_seat(visit, row);
    commit(row, &(dlk_record){.owner = 0});
}

static void hand_on(dlk_visit *visit, uint32_t row_ref, int64_t now)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    if (!row) {
        visit->damaged = true;
        return;
    }
    uint32_t first = first_in_line(visit, row, row_ref);
    if (visit->damaged || (first != 0 && hand_over(visit, row_ref, first, now)))
        return;
    if (!visit->damaged)
        vacate(visit, row);
}

void dlk_table_settle(dlk_visit *visit, uint32_t row_ref, int64_t now)
{
    const dlk_row *row = dlk_row_at(visit->table, row_ref);
    dlk_record record;
    if (row && DLK_GET(row->first) != 0 &&
        !dlk_table_holder(visit, row_ref, now, &record))
        hand_on(visit, row_ref, now);
}

void dlk_table_evict(dlk_visit *visit, uint32_t row_ref, int64_t now)
{
    hand_on(visit, row_ref, now);
}

static dlk_outcome take(dlk_visit *visit, dlk_row *row, const dlk_claim *claim,
                        int64_t *token, int64_t *until)
{
    *token = next_token(visit);
    if (*token == 0)
        return visit->damaged ? DLK_NOTHING : DLK_NO_TOKEN;
    *until = claim->now + claim->ttl;
    free_granted_seat(visit, row);
    commit(row, &(dlk_record){
                    .owner = claim->owner,
                    .number = claim->number,
                    .token = *token,
                    .until = *until,
                    .kind = claim->kind,
                });
    return DLK_GRANTED;
}

/* A seat at the end of the line. Its word is its commit. */
static bool sit_down(dlk_visit *visit, uint32_t row_ref, const dlk_claim *claim,
                     dlk_turn *turn)
{
    dlk_head *head = visit->table->head;
    uint64_t ticket = DLK_GET(head->last_ticket) + 1;
    uint32_t ref = dlk_seat_take(visit);
    dlk_seat *seat = dlk_seat_at(visit->table, ref);
    if (ticket == 0) /* it takes more than anybody has given out to come here */
        visit->damaged = true;
    if (!seat || visit->damaged)
        return false;
    DLK_PUT(seat->owner, claim->owner);
    DLK_PUT(seat->number, claim->number);
    DLK_PUT(seat->ttl, claim->ttl);
    DLK_PUT(seat->row, row_ref);
    DLK_PUT(seat->kind, claim->kind);
    DLK_PUT(seat->token, 0);
    dlk_line_append(visit, row_ref, ref);
    DLK_PUT(head->last_ticket, ticket);
    *turn = (dlk_turn){.seat = ref, .ticket = ticket};
    DLK_POINT("table.seat");
    atomic_store_explicit(&seat->word, ticket, memory_order_release);
    DLK_POINT("table.seated");
    return true;
}

/* The turn's seat if it is still theirs. */
static dlk_seat *seat_of(const dlk_table *table, const dlk_turn *turn)
{
    dlk_seat *seat = turn->ticket ? dlk_seat_at(table, turn->seat) : NULL;
    return seat && atomic_load_explicit(&seat->word, memory_order_acquire) == turn->ticket
               ? seat
               : NULL;
}

void dlk_turn_end(dlk_visit *visit, dlk_turn *turn)
{
    const dlk_seat *seat = seat_of(visit->table, turn);
    /* A seat that was granted goes with its grant. */
    if (seat && DLK_GET(seat->token) == 0) {
        dlk_line_remove(visit, DLK_GET(seat->row), turn->seat);
        if (!visit->damaged)
            dlk_seat_free(visit, turn->seat);
    }
    *turn = (dlk_turn){.seat = 0};
}

/* Somebody has the lock. Whoever is in its line is of the holder's kind: it may be handed to all of
 * them, so the one way into it compares the kinds first. */
static dlk_outcome wait_behind(dlk_visit *visit, uint32_t row_ref, const dlk_claim *claim,
                               const dlk_record *holder, dlk_turn *turn, int64_t *until)
{
    if (holder->kind != claim->kind)
        return DLK_OTHER_KIND;
    *until = holder->until;
    if (!seat_of(visit->table, turn) && !sit_down(visit, row_ref, claim, turn))
        return visit->damaged ? DLK_NOTHING : DLK_NO_SEAT;
    return DLK_QUEUED;
}

/* Nobody has the lock: it goes to the claimant, unless somebody is ahead. */
static dlk_outcome take_or_wait(dlk_visit *visit, uint32_t row_ref, dlk_row *row,
                                const dlk_claim *claim, dlk_turn *turn, int64_t *token,
                                int64_t *until)
{
    /* A grant of theirs that ran out unseen left a seat behind, which is worth nothing now. */
    if (is_stored_of(dlk_row_stored(row), claim))
        vacate(visit, row);
    bool seated = seat_of(visit->table, turn) != NULL;
    uint32_t first = first_in_line(visit, row, row_ref);
    if (visit->damaged)
        return DLK_NOTHING;
    if (first == 0 || (seated && first == turn->seat)) {
        if (seated)
            dlk_turn_end(visit, turn);
        return visit->damaged ? DLK_NOTHING : take(visit, row, claim, token, until);
    }
    if (!hand_over(visit, row_ref, first, claim->now))
        return visit->damaged ? DLK_NOTHING : DLK_NO_TOKEN;
    const dlk_record holder = dlk_row_record(row);
    return wait_behind(visit, row_ref, claim, &holder, turn, until);
}

/* It is theirs, and isn't shortened. */
static int64_t prolong(dlk_row *row, const dlk_record *record, const dlk_claim *claim)
{
    if (claim->now + claim->ttl <= record->until)
        return record->until;
    dlk_record longer = *record;
    longer.until = claim->now + claim->ttl;
    commit(row, &longer);
    return longer.until;
}

static dlk_outcome decide(dlk_visit *visit, uint32_t row_ref, const dlk_claim *claim,
                          dlk_turn *turn, int64_t *token, int64_t *until)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    if (!row) {
        visit->damaged = true;
        return DLK_NOTHING;
    }
    if (DLK_GET(dlk_row_stored(row)->owner) == 0)
        return take_or_wait(visit, row_ref, row, claim, turn, token, until);
    const dlk_record record = dlk_row_record(row);
    if (!valid(visit->table, &record, claim->now))
        return take_or_wait(visit, row_ref, row, claim, turn, token, until);
    if (is_of(&record, claim) && record.kind == claim->kind) {
        *token = record.token;
        *until = prolong(row, &record, claim);
        return DLK_GRANTED;
    }
    return wait_behind(visit, row_ref, claim, &record, turn, until);
}

dlk_outcome dlk_table_acquire(dlk_visit *visit, uint32_t row_ref, const dlk_claim *claim,
                              dlk_turn *turn, int64_t *token, int64_t *until)
{
    dlk_outcome outcome = decide(visit, row_ref, claim, turn, token, until);
    if (outcome != DLK_QUEUED && turn->ticket != 0)
        dlk_turn_end(visit, turn);
    return outcome;
}

void dlk_table_publish(dlk_visit *visit, uint32_t row_ref, int64_t token,
                       const char *text)
{
    dlk_notice *notice = dlk_row_notice(visit->table, row_ref);
    size_t size = strnlen(text, DLK_TABLE_NAME);
    atomic_store_explicit(&notice->token, 0, memory_order_release);
    DLK_PUT(notice->size, (uint32_t)size);
    memcpy(notice->text, text, size);
    atomic_store_explicit(&notice->token, token, memory_order_release);
}

bool dlk_table_published(const dlk_visit *visit, uint32_t row_ref, int64_t token,
                         char *ret)
{
    const dlk_notice *notice = dlk_row_notice(visit->table, row_ref);
    uint32_t size = DLK_GET(notice->size);
    if (atomic_load_explicit(&notice->token, memory_order_acquire) != token ||
        size == 0 || size > DLK_TABLE_NAME)
        return false;
    memcpy(ret, notice->text, size);
    ret[size] = '\0';
    return true;
}

bool dlk_table_renew(dlk_visit *visit, uint32_t row_ref, const dlk_claim *claim)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    dlk_record record;
    if (!dlk_table_holder(visit, row_ref, claim->now, &record) || !is_of(&record, claim))
        return false;
    (void)prolong(row, &record, claim); /* nobody asks until when */
    return true;
}

bool dlk_table_release(dlk_visit *visit, uint32_t row_ref, const dlk_claim *claim,
                       dlk_turn *turn)
{
    const dlk_row *row = dlk_row_at(visit->table, row_ref);
    if (row && is_stored_of(dlk_row_stored(row), claim)) {
        hand_on(visit, row_ref, claim->now);
        return true;
    }
    const dlk_seat *seat = seat_of(visit->table, turn);
    if (!seat)
        return false;
    if (DLK_GET(seat->row) != row_ref || DLK_GET(seat->owner) != claim->owner ||
        DLK_GET(seat->number) != claim->number) {
        visit->damaged = true;
        return false;
    }
    dlk_turn_end(visit, turn);
    return true;
}

bool dlk_turn_granted(const dlk_table *table, const dlk_turn *turn, int64_t *token,
                      int64_t *until)
{
    const dlk_seat *seat = seat_of(table, turn);
    if (!seat)
        return false;
    *token = atomic_load_explicit(&seat->token, memory_order_acquire);
    *until = atomic_load_explicit(&seat->until, memory_order_acquire);
    /* Read whole only if the seat is still the same one. (No fence: TSan does not know them.) */
    return *token > 0 &&
           atomic_load_explicit(&seat->word, memory_order_relaxed) == turn->ticket;
}

bool dlk_turn_is_seated(const dlk_table *table, const dlk_turn *turn)
{
    return seat_of(table, turn) != NULL;
}
