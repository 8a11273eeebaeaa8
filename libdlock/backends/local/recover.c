/*
 * Making a table whole from the words alone: which records count, which places and members are
 * there. It may itself be interrupted by death at any point, and is then simply done again.
 */
#include "backends/local/table.h"

#include "util/point.h"

#define SIZE_MASK UINT64_C(0xffff)

/* 0 of what is no place. */
static uint64_t ticket_in(const dlk_table *table, uint32_t at)
{
    const dlk_line_place *place = dlk_line_place_at(table, DLK_GET(table->scratch[at]));
    return place ? DLK_GET(place->word) : 0;
}

static void swap(const dlk_table *table, uint32_t one, uint32_t other)
{
    uint32_t moved = DLK_GET(table->scratch[one]);
    DLK_PUT(table->scratch[one], DLK_GET(table->scratch[other]));
    DLK_PUT(table->scratch[other], moved);
}

/* The places in scratch as a heap with the highest ticket on top. */
static void sink(const dlk_table *table, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t top = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (ticket_in(table, child) > ticket_in(table, top))
                top = child;
        if (top == at)
            return;
        swap(table, at, top);
        at = top;
    }
}

/* A heap sort: in place, without memory of its own, and never quadratic. */
static void sort_by_ticket(const dlk_table *table, uint32_t count)
{
    for (uint32_t at = count / 2; at-- > 0;)
        sink(table, count, at);
    for (uint32_t left = count; left > 1; left--) {
        swap(table, left - 1, 0);
        sink(table, left - 1, 0);
    }
}

/* What a record says of somebody who is gone, or of a place that isn't its own (any more), may come
 * true again by chance, where the counters were damaged: then another's place would be freed. */
static void forget_strangers(const dlk_table *table, uint32_t ref, dlk_record record)
{
    dlk_row *row = dlk_row_at(table, ref);
    const dlk_line_place *place = dlk_line_place_at(table, record.place);
    if (record.owner != 0 && !dlk_record_is_anyones(table, record.owner)) {
        dlk_row_commit(row, &(dlk_record){.owner = 0});
    } else if (record.ticket != 0 && (!place || DLK_GET(place->word) != record.ticket ||
                                      dlk_line_place_row(place) != ref)) {
        record.ticket = record.place = 0;
        dlk_row_commit(row, &record);
    }
}

static void rebuild_row(dlk_section *section, uint32_t ref)
{
    const dlk_table *table = section->table;
    dlk_row *row = dlk_row_at(table, ref);
    uint64_t size = DLK_GET(row->title) & SIZE_MASK;
    const dlk_record record = dlk_row_record(row);
    dlk_pool *pool = dlk_pool_at(table, ref);
    DLK_PUT(row->first, 0);
    DLK_PUT(row->last, 0);
    DLK_PUT(pool->taken, 0);
    DLK_PUT(pool->next, 0);
    if (size == 0 || size > DLK_TABLE_NAME) {
        if (record.owner != 0)
            dlk_row_commit(row, &(dlk_record){.owner = 0});
        dlk_row_free(section, ref);
        return;
    }
    uint32_t hash = dlk_table_hash(dlk_row_name(table, ref), size);
    _Atomic uint32_t *bucket = &table->buckets[hash & (table->bucket_count - 1)];
    DLK_PUT(row->hash, hash);
    DLK_PUT(row->next, DLK_GET(*bucket));
    DLK_PUT(*bucket, ref);
    if (record.token > DLK_GET(table->head->last_token))
        DLK_PUT(table->head->last_token, record.token);
    forget_strangers(table, ref, record);
}

/* A place of a pool: the truth about itself. */
static void rebuild_share(const dlk_table *table, dlk_line_place *place)
{
    int64_t token = DLK_GET(place->token);
    if (token < 0)
        atomic_store(&place->token, 0);
    else if (token > DLK_GET(table->head->last_token))
        DLK_PUT(table->head->last_token, token);
}

/* A condition's place with a signal stays though its owner is dead: settling its row passes that on. */
static bool is_signalled(const dlk_line_place *place)
{
    return dlk_line_place_kind(place) == DLK_KIND_CONDITION && DLK_GET(place->token) > 0;
}

/* True: the place is in a line. */
static bool rebuild_place(dlk_section *section, uint32_t ref)
{
    const dlk_table *table = section->table;
    dlk_line_place *place = dlk_line_place_at(table, ref);
    const dlk_row *row = dlk_row_at(table, dlk_line_place_row(place));
    uint64_t ticket = DLK_GET(place->word);
    DLK_PUT(place->prev, 0);
    DLK_PUT(place->next, 0);
    bool lives = dlk_member_of(table, DLK_GET(place->owner)) || is_signalled(place);
    if (ticket == 0 || !row || (DLK_GET(row->title) & SIZE_MASK) == 0 ||
        DLK_GET(place->ttl_ms) == 0 || !lives) {
        dlk_line_place_free(section, ref);
        return false;
    }
    if (ticket > DLK_GET(table->head->last_ticket))
        DLK_PUT(table->head->last_ticket, ticket);
    if (dlk_is_pooled(dlk_line_place_kind(place))) {
        rebuild_share(table, place);
        return true;
    }
    const dlk_record record = dlk_row_record(row);
    bool granted = record.ticket == ticket && record.place == ref && record.token > 0;
    if (granted)
        atomic_store(&place->until, record.until);
    atomic_store(&place->token, granted ? record.token : 0);
    return !granted;
}

/* Says so in the table, too. */
static uint32_t clamp(_Atomic uint32_t *high, uint32_t count)
{
    uint32_t used = dlk_table_used(high, count);
    DLK_PUT(*high, used);
    return used;
}

static void rebuild_lines(dlk_section *section, uint32_t places)
{
    const dlk_table *table = section->table;
    uint32_t waiting = 0;
    for (uint32_t ref = places; ref > 0; ref--)
        if (rebuild_place(section, ref))
            DLK_PUT(table->scratch[waiting++], ref);
    sort_by_ticket(table, waiting);
    for (uint32_t i = 0; i < waiting && !section->damaged; i++) {
        uint32_t ref = DLK_GET(table->scratch[i]);
        const dlk_line_place *place = dlk_line_place_at(table, ref);
        uint32_t row_ref = place ? dlk_line_place_row(place) : 0;
        dlk_line_append(section, row_ref, ref);
        if (place && dlk_is_pooled(dlk_line_place_kind(place)))
            dlk_pool_add(section, row_ref, ref);
    }
}

void dlk_table_rebuild(dlk_section *section, int64_t now)
{
    const dlk_table *table = section->table;
    dlk_head *head = table->head;
    const uint32_t rows = clamp(&head->row_high, table->row_count);
    const uint32_t places = clamp(&head->place_high, table->place_count);
    (void)clamp(&head->member_high, table->member_count);
    if (DLK_GET(head->last_token) < 0)
        DLK_PUT(head->last_token, 0);
    for (uint32_t i = 0; i < table->bucket_count; i++)
        DLK_PUT(table->buckets[i], 0);
    DLK_PUT(head->free_row, 0);
    DLK_PUT(head->free_place, 0);
    for (uint32_t ref = rows; ref > 0; ref--)
        rebuild_row(section, ref);
    DLK_POINT("table.rebuild");
    rebuild_lines(section, places);
    for (uint32_t ref = 1; ref <= rows && !section->damaged; ref++)
        dlk_table_settle(section, ref, now);
    section->ring_granted = true;
}
