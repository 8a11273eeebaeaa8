/*
 * Who has a lock, who is next, and what an acquire, renewal or release makes of it.
 *
 * The order of stores is the whole point: read each function as if the process could die between
 * any two of them, and the next one had only the words to go by (see layout.h).
 */
#include "backends/local/table.h"

#include "util/point.h"

#include <string.h>

dlk_record *dlk_row_record(dlk_row *row)
{
    return &row->record[atomic_load_explicit(&row->word, memory_order_relaxed) & 1];
}

void dlk_row_commit(dlk_row *row, const dlk_record *record)
{
    uint64_t word = atomic_load_explicit(&row->word, memory_order_relaxed) + 1;
    if (DLK_PLANTED(CHANGE_IN_PLACE))
        word--;
    row->record[word & 1] = *record;
    DLK_POINT("table.record");
    atomic_store_explicit(&row->word, word, memory_order_release);
    DLK_POINT("table.commit");
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

const dlk_record *dlk_table_holder(const dlk_visit *visit, uint32_t ref, int64_t now)
{
    dlk_row *row = dlk_row_at(visit->table, ref);
    const dlk_record *record = row ? dlk_row_record(row) : NULL;
    return record && valid(visit->table, record, now) ? record : NULL;
}

/* ---- the line of a lock: derived, so the order of stores doesn't matter ---- */

void dlk_line_append(dlk_visit *visit, uint32_t row_ref, uint32_t ref)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    dlk_seat *seat = dlk_seat_at(visit->table, ref);
    dlk_seat *last = dlk_seat_at(visit->table, row->last);
    if (row->last != 0 && !last)
        visit->damaged = true;
    seat->prev = row->last;
    seat->next = 0;
    if (last)
        last->next = ref;
    else
        row->first = ref;
    row->last = ref;
}

void dlk_line_remove(dlk_visit *visit, uint32_t row_ref, uint32_t ref)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    dlk_seat *seat = dlk_seat_at(visit->table, ref);
    dlk_seat *prev = dlk_seat_at(visit->table, seat->prev);
    dlk_seat *next = dlk_seat_at(visit->table, seat->next);
    if ((prev ? prev->next : row->first) != ref ||
        (next ? next->prev : row->last) != ref) {
        visit->damaged = true;
        return;
    }
    if (prev)
        prev->next = seat->next;
    else
        row->first = seat->next;
    if (next)
        next->prev = seat->prev;
    else
        row->last = seat->prev;
    seat->prev = seat->next = 0;
}

/* The first in the line who is still there; those who aren't leave it. 0: nobody waits. */
static uint32_t first_in_line(dlk_visit *visit, uint32_t row_ref)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    while (row->first != 0 && !visit->damaged) {
        uint32_t ref = row->first;
        dlk_seat *seat = dlk_seat_at(visit->table, ref);
        if (!seat || seat->row != row_ref || atomic_load(&seat->word) == 0) {
            visit->damaged = true;
            return 0;
        }
        if (dlk_member_of(visit->table, seat->owner))
            return ref;
        dlk_line_remove(visit, row_ref, ref);
        dlk_seat_free(visit, ref);
    }
    return 0;
}

/* ---- giving and taking ---- */

/* The next token, or 0 when there is none. A death after it wastes one, which nobody minds. */
static int64_t next_token(dlk_visit *visit)
{
    dlk_head *head = visit->table->head;
    int64_t last = atomic_load_explicit(&head->last_token, memory_order_relaxed);
    if (last < 0)
        visit->damaged = true;
    if (last < 0 || last == INT64_MAX)
        return 0;
    atomic_store_explicit(&head->last_token, last + 1, memory_order_relaxed);
    return last + 1;
}

/* The seat of a grant goes before the grant does. The other way round a death in between would
 * leave a seat that no record names, and that means: in the line. */
static void free_granted_seat(dlk_visit *visit, const dlk_record *record)
{
    dlk_seat *seat = record->ticket ? dlk_seat_at(visit->table, record->seat) : NULL;
    if (seat && atomic_load_explicit(&seat->word, memory_order_relaxed) == record->ticket)
        dlk_seat_free(visit, record->seat);
}

/* The first in the line gets the lock: one commit, whatever else it entails is derived. False:
 * there is no token left to give, or the table is damaged. */
static bool hand_over(dlk_visit *visit, uint32_t row_ref, uint32_t seat_ref, int64_t now)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    dlk_seat *seat = dlk_seat_at(visit->table, seat_ref);
    if (seat->ttl <= 0) {
        visit->damaged = true;
        return false;
    }
    int64_t token = next_token(visit);
    if (token == 0)
        return false;
    dlk_record record = {
        .owner = seat->owner,
        .number = seat->number,
        .token = token,
        .until = seat->ttl < INT64_MAX - now ? now + seat->ttl : INT64_MAX,
        .ticket = atomic_load_explicit(&seat->word, memory_order_relaxed),
        .seat = seat_ref,
        .kind = seat->kind,
    };
    dlk_line_remove(visit, row_ref, seat_ref);
    if (visit->damaged)
        return false;
    free_granted_seat(visit, dlk_row_record(row));
    atomic_store_explicit(&seat->until, record.until, memory_order_relaxed);
    dlk_row_commit(row, &record);
    atomic_store_explicit(&seat->token, token, memory_order_release);
    dlk_visit_ring(visit, (uint32_t)record.owner);
    return true;
}

static void vacate(dlk_visit *visit, dlk_row *row)
{
    const dlk_record *record = dlk_row_record(row);
    if (record->owner == 0)
        return;
    free_granted_seat(visit, record);
    dlk_row_commit(row, &(dlk_record){.owner = 0});
}

static void hand_on(dlk_visit *visit, uint32_t row_ref, int64_t now)
{
    uint32_t first = first_in_line(visit, row_ref);
    if (visit->damaged || (first != 0 && hand_over(visit, row_ref, first, now)))
        return;
    if (!visit->damaged)
        vacate(visit, dlk_row_at(visit->table, row_ref));
}

void dlk_table_settle(dlk_visit *visit, uint32_t row_ref, int64_t now)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    if (row->first != 0 && !valid(visit->table, dlk_row_record(row), now))
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
    free_granted_seat(visit, dlk_row_record(row));
    dlk_row_commit(row, &(dlk_record){
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
    uint32_t ref = dlk_seat_take(visit);
    dlk_seat *seat = dlk_seat_at(visit->table, ref);
    if (!seat)
        return false;
    atomic_store_explicit(&seat->owner, claim->owner, memory_order_relaxed);
    seat->number = claim->number;
    seat->ttl = claim->ttl;
    seat->row = row_ref;
    seat->kind = claim->kind;
    atomic_store_explicit(&seat->token, 0, memory_order_relaxed);
    dlk_line_append(visit, row_ref, ref);
    *turn = (dlk_turn){.seat = ref, .ticket = ++head->last_ticket};
    DLK_POINT("table.seat");
    atomic_store_explicit(&seat->word, turn->ticket, memory_order_release);
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

/* Nobody has the lock: it goes to the claimant, unless somebody is ahead. */
static dlk_outcome take_or_wait(dlk_visit *visit, uint32_t row_ref,
                                const dlk_claim *claim, dlk_turn *turn, int64_t *token,
                                int64_t *until)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    /* A grant of theirs that ran out unseen left a seat behind, which is worth nothing now. */
    if (is_of(dlk_row_record(row), claim))
        vacate(visit, row);
    bool seated = seat_of(visit->table, turn) != NULL;
    uint32_t first = first_in_line(visit, row_ref);
    if (visit->damaged)
        return DLK_NOTHING;
    if (first == 0 || (seated && first == turn->seat)) {
        if (seated) {
            dlk_line_remove(visit, row_ref, turn->seat);
            dlk_seat_free(visit, turn->seat);
        }
        return take(visit, row, claim, token, until);
    }
    if (!hand_over(visit, row_ref, first, claim->now))
        return visit->damaged ? DLK_NOTHING : DLK_NO_TOKEN;
    *until = dlk_row_record(row)->until;
    if (!seated && !sit_down(visit, row_ref, claim, turn))
        return DLK_NO_SEAT;
    return DLK_QUEUED;
}

dlk_outcome dlk_table_acquire(dlk_visit *visit, uint32_t row_ref, const dlk_claim *claim,
                              dlk_turn *turn, int64_t *token, int64_t *until)
{
    dlk_row *row = dlk_row_at(visit->table, row_ref);
    dlk_record *record = dlk_row_record(row);
    if (!valid(visit->table, record, claim->now))
        return take_or_wait(visit, row_ref, claim, turn, token, until);
    if (record->kind != claim->kind)
        return DLK_OTHER_KIND;
    if (is_of(record, claim)) {
        (void)dlk_table_renew(visit, row_ref,
                              claim); /* it is theirs, as we have just seen */
        record = dlk_row_record(row);
        *token = record->token;
        *until = record->until;
        return DLK_GRANTED;
    }
    *until = record->until;
    if (!seat_of(visit->table, turn) && !sit_down(visit, row_ref, claim, turn))
        return DLK_NO_SEAT;
    return DLK_QUEUED;
}

void dlk_table_publish(dlk_visit *visit, uint32_t row_ref, int64_t token,
                       const char *text)
{
    dlk_notice *notice = &visit->table->notices[row_ref - 1];
    size_t size = strnlen(text, DLK_TABLE_NAME);
    atomic_store_explicit(&notice->token, 0, memory_order_release);
    notice->size = (uint32_t)size;
    memcpy(notice->text, text, size);
    atomic_store_explicit(&notice->token, token, memory_order_release);
}

bool dlk_table_published(const dlk_visit *visit, uint32_t row_ref, int64_t token,
                         char *ret)
{
    const dlk_notice *notice = &visit->table->notices[row_ref - 1];
    uint32_t size = notice->size; /* anybody may write it meanwhile: read once */
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
    dlk_record record = *dlk_row_record(row);
    if (!valid(visit->table, &record, claim->now) || !is_of(&record, claim))
        return false;
    if (claim->now + claim->ttl > record.until) {
        record.until = claim->now + claim->ttl;
        dlk_row_commit(row, &record);
    }
    return true;
}

bool dlk_table_release(dlk_visit *visit, uint32_t row_ref, const dlk_claim *claim,
                       dlk_turn *turn)
{
    const dlk_record *record = dlk_row_record(dlk_row_at(visit->table, row_ref));
    if (is_of(record, claim)) {
        hand_on(visit, row_ref, claim->now);
        return true;
    }
    dlk_seat *seat = seat_of(visit->table, turn);
    if (!seat)
        return false;
    if (seat->row != row_ref || seat->owner != claim->owner ||
        seat->number != claim->number) {
        visit->damaged = true;
        return false;
    }
    dlk_line_remove(visit, row_ref, turn->seat);
    dlk_seat_free(visit, turn->seat);
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
