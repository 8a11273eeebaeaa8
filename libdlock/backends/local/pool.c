/*
 * Locks that several may hold at a time: read/write locks and semaphores, as one thing. A row is a
 * pool of permits. Of a semaphore each takes as many as it asks for; of a read/write lock a reader
 * takes one and a writer all there are. A condition is a pool without permits: only a signal
 * grants something, one to each.
 *
 * Who has some and who wants some stands in ONE line, by its ticket, and nobody is served before
 * whoever came earlier: so those who have been granted theirs are its beginning. Nothing is kept
 * of a holder but its place. One store each commits: its word, that it is there or gone; its
 * token, that it has its permits; its end; how many it has (a writer that turns into a reader).
 * How many are taken and who is next is derived, and recover.c counts anew.
 */
#include "backends/local/table.h"

#include "util/clock.h"
#include "util/point.h"

bool dlk_pool_is_here(const dlk_section *section, uint32_t row_ref)
{
    const dlk_row *row = dlk_row_at(section->table, row_ref);
    const dlk_line_place *first =
        row ? dlk_line_place_at(section->table, DLK_GET(row->first)) : NULL;
    return first && dlk_is_pooled(dlk_line_place_kind(first));
}

/* A place that a link of the row's line leads to, at the @p steps-th step; NULL: nonsense. */
static dlk_line_place *in_line(dlk_section *section, uint32_t row_ref, uint32_t ref,
                               uint32_t steps)
{
    dlk_line_place *place = dlk_line_place_at(section->table, ref);
    if (place && dlk_line_place_row(place) == row_ref && DLK_GET(place->word) != 0 &&
        dlk_is_pooled(dlk_line_place_kind(place)) && steps <= section->table->place_count)
        return place;
    section->damaged = true;
    return NULL;
}

/* ---- what is derived ---- */

void dlk_pool_add(dlk_section *section, uint32_t row_ref, uint32_t ref)
{
    dlk_pool *pool = dlk_pool_at(section->table, row_ref);
    const dlk_line_place *place = dlk_line_place_at(section->table, ref);
    if (!pool || !place)
        section->damaged = true;
    else if (DLK_GET(place->token) != 0)
        DLK_PUT(pool->taken, DLK_GET(pool->taken) + DLK_GET(place->take));
    else if (DLK_GET(pool->next) == 0)
        DLK_PUT(pool->next, ref);
}

void dlk_pool_subtract(dlk_section *section, uint32_t row_ref, uint32_t ref)
{
    dlk_pool *pool = dlk_pool_at(section->table, row_ref);
    const dlk_line_place *place = dlk_line_place_at(section->table, ref);
    if (!pool || !place)
        section->damaged = true;
    else if (DLK_GET(place->token) != 0)
        DLK_PUT(pool->taken, DLK_GET(pool->taken) - DLK_GET(place->take));
    else if (DLK_GET(pool->next) == ref)
        DLK_PUT(pool->next, DLK_GET(place->next));
}

static bool fits(const dlk_pool *pool, uint32_t take)
{
    return (uint64_t)DLK_GET(pool->taken) + take <= DLK_GET(pool->size);
}

/* ---- giving and taking ---- */

static int64_t end_of(int64_t now, int64_t ttl)
{
    return ttl < INT64_MAX - now ? now + ttl : INT64_MAX;
}

/* The first who waits has its permits: the token commits. False: there is none left to give. */
static bool grant(dlk_section *section, dlk_pool *pool, dlk_line_place *place,
                  int64_t now)
{
    int64_t token = dlk_table_next_token(section);
    if (token == 0)
        return false;
    DLK_PUT(place->since, dlk_date_of(now));
    DLK_PUT_AFTER(place->until, end_of(now, DLK_GET(place->ttl_ms) * DLK_NS_PER_MS));
    DLK_POINT("pool.grant");
    atomic_store_explicit(&place->token, token, memory_order_release);
    DLK_POINT("pool.granted");
    DLK_PUT(pool->taken, DLK_GET(pool->taken) + DLK_GET(place->take));
    DLK_PUT(pool->next, DLK_GET(place->next));
    dlk_section_ring(section, (uint32_t)DLK_GET(place->owner));
    return true;
}

/* The first of those who wait and are still there; those who aren't leave the line. NULL: nobody waits.
 * @p steps counts the places that were looked at. */
static dlk_line_place *first_waiter(dlk_section *section, uint32_t row_ref,
                                    dlk_pool *pool, uint32_t *steps)
{
    uint32_t ref;
    while (!section->damaged && (ref = DLK_GET(pool->next)) != 0) {
        dlk_line_place *place = in_line(section, row_ref, ref, (*steps)++);
        if (!place)
            return NULL;
        if (DLK_GET(place->token) != 0) /* in a table that was damaged */
            DLK_PUT(pool->next, DLK_GET(place->next));
        else if (dlk_member_of(section->table, DLK_GET(place->owner)))
            return place;
        else
            dlk_line_leave(section, ref);
    }
    return NULL;
}

/* Lets in whoever is next and fits, one after the other: neighbours who read come together. Returns
 * the first end of theirs. */
static int64_t admit(dlk_section *section, uint32_t row_ref, dlk_pool *pool, int64_t now)
{
    dlk_line_place *place;
    uint32_t steps = 0;
    int64_t first_end = INT64_MAX;
    while ((place = first_waiter(section, row_ref, pool, &steps)) &&
           fits(pool, DLK_GET(place->take)) && grant(section, pool, place, now)) {
        int64_t until = DLK_GET(place->until);
        first_end = until < first_end ? until : first_end;
    }
    return first_end;
}

/* Signals the first @p count of those who wait, or all there are. Returns how many. */
static int64_t signal_first(dlk_section *section, uint32_t row_ref, dlk_pool *pool,
                            int64_t count, int64_t now)
{
    dlk_line_place *place;
    uint32_t steps = 0;
    int64_t signalled = 0;
    while (signalled < count && (place = first_waiter(section, row_ref, pool, &steps)) &&
           grant(section, pool, place, now))
        signalled++;
    return signalled;
}

/* A signal that wasn't used goes to the next one BEFORE its place goes: a death in between wakes one
 * more than was signalled; the other way round it would wake nobody. */
void dlk_pool_leave(dlk_section *section, uint32_t ref, int64_t now)
{
    const dlk_line_place *place = dlk_line_place_at(section->table, ref);
    uint32_t row_ref = place ? dlk_line_place_row(place) : 0;
    dlk_pool *pool = dlk_pool_at(section->table, row_ref);
    if (!place || !pool) {
        section->damaged = true;
        return;
    }
    if (dlk_line_place_kind(place) == DLK_KIND_CONDITION && DLK_GET(place->token) != 0)
        (void)signal_first(section, row_ref, pool, 1, now); /* else it is lost */
    DLK_POINT("pool.leave");
    if (!section->damaged)
        dlk_line_leave(section, ref);
}

/* Whoever has permits and is dead, or late, loses them. Returns the first end of those who stay. */
static int64_t clear(dlk_section *section, uint32_t row_ref, int64_t now)
{
    const dlk_row *row = dlk_row_at(section->table, row_ref);
    const dlk_line_place *kept = NULL;
    int64_t first_end = INT64_MAX;
    for (uint32_t steps = 0; !section->damaged; steps++) {
        uint32_t ref = kept ? DLK_GET(kept->next) : DLK_GET(row->first);
        const dlk_line_place *place =
            ref != 0 ? in_line(section, row_ref, ref, steps) : NULL;
        if (!place || DLK_GET(place->token) == 0)
            break;
        int64_t until = DLK_GET(place->until);
        if (until <= now || !dlk_member_of(section->table, DLK_GET(place->owner))) {
            dlk_pool_leave(section, ref, now);
            continue;
        }
        kept = place;
        first_end = until < first_end ? until : first_end;
    }
    return first_end;
}

int64_t dlk_pool_settle(dlk_section *section, uint32_t row_ref, int64_t now)
{
    dlk_pool *pool = dlk_pool_at(section->table, row_ref);
    if (!pool) {
        section->damaged = true;
        return now;
    }
    int64_t first_end = clear(section, row_ref, now);
    int64_t let_in = section->damaged ? now : admit(section, row_ref, pool, now);
    return let_in < first_end ? let_in : first_end;
}

void dlk_pool_settle_all(dlk_section *section, int64_t now)
{
    const dlk_table *table = section->table;
    uint32_t used = dlk_table_used(&table->head->row_high, table->row_count);
    for (uint32_t ref = 1; ref <= used && !section->damaged; ref++)
        if (dlk_pool_is_here(section, ref))
            (void)dlk_pool_settle(section, ref, now); /* nobody asks until when */
}

void dlk_pool_drop(dlk_section *section, uint32_t row_ref, uint32_t ref, int64_t now)
{
    dlk_pool *pool = dlk_pool_at(section->table, row_ref);
    if (!pool)
        section->damaged = true;
    else
        dlk_pool_leave(section, ref, now);
    if (!section->damaged)
        (void)admit(section, row_ref, pool, now); /* nobody asks until when */
}

/* ---- signalling ---- */

/* Somebody has the name alone, as a mutex, or is about to have it. */
static bool is_taken_alone(dlk_section *section, uint32_t row_ref, int64_t now)
{
    const dlk_row *row = dlk_row_at(section->table, row_ref);
    dlk_record record;
    bool line = DLK_GET(row->first) != 0 && !dlk_pool_is_here(section, row_ref);
    if (DLK_GET(dlk_row_stored(row)->owner) == 0 && !line)
        return false;
    if (dlk_table_holder(section, row_ref, now, &record))
        return true;
    /* Whose time is over; who waits in a line is served first. */
    dlk_table_evict(section, row_ref, now);
    return dlk_table_holder(section, row_ref, now, &record);
}

int64_t dlk_pool_signal(dlk_section *section, uint32_t row_ref, int64_t count,
                        int64_t now)
{
    dlk_pool *pool = dlk_pool_at(section->table, row_ref);
    const dlk_row *row = dlk_row_at(section->table, row_ref);
    if (!pool || !row)
        return 0; /* nobody has used the name */
    if (is_taken_alone(section, row_ref, now))
        return -1;
    /* What the dead had goes first. */
    (void)dlk_pool_settle(section, row_ref, now); /* nobody asks until when */
    const dlk_line_place *first = dlk_line_place_at(section->table, DLK_GET(row->first));
    if (!first || section->damaged)
        return 0;
    if (dlk_line_place_kind(first) != DLK_KIND_CONDITION)
        return -1;
    return signal_first(section, row_ref, pool, count, now);
}

/* ---- acquire ---- */

/* Whether the pool is one that was asked for. The first who comes makes it. */
static dlk_outcome agree(dlk_section *section, uint32_t row_ref,
                         const dlk_request *request)
{
    const dlk_row *row = dlk_row_at(section->table, row_ref);
    dlk_pool *pool = dlk_pool_at(section->table, row_ref);
    uint32_t first = DLK_GET(row->first);
    bool condition = request->kind == DLK_KIND_CONDITION;
    if (first == 0) {
        if (request->permits == 0 && !condition)
            return DLK_NO_SIZE;
        DLK_PUT(pool->size, request->permits);
        DLK_PUT(pool->taken, 0);
        DLK_PUT(pool->next, 0);
        return DLK_GRANTED;
    }
    const dlk_line_place *place = dlk_line_place_at(section->table, first);
    uint32_t size = DLK_GET(pool->size);
    if (!place || dlk_line_place_kind(place) != request->kind)
        return DLK_OTHER_KIND;
    if (request->permits != 0 && request->permits != size)
        return DLK_OTHER_SIZE;
    return request->take > size && !condition ? DLK_TOO_MANY : DLK_GRANTED;
}

/* It is theirs, and isn't shortened. */
static int64_t prolong(dlk_line_place *place, const dlk_request *request)
{
    int64_t until = DLK_GET(place->until);
    int64_t longer = end_of(request->now, request->ttl);
    if (longer <= until)
        return until;
    DLK_PUT_AFTER(place->until, longer);
    return longer;
}

/* They have a place: it may have been granted, or is now that the line has moved on. */
static dlk_outcome look(dlk_section *section, uint32_t row_ref,
                        const dlk_line_place *place, int64_t now, int64_t *token,
                        int64_t *until)
{
    int64_t first_end = dlk_pool_settle(section, row_ref, now);
    *token = DLK_GET(place->token);
    *until = *token > 0 ? DLK_GET(place->until) : first_end;
    return *token > 0 ? DLK_GRANTED : DLK_QUEUED;
}

/* They have none yet. */
static dlk_outcome come(dlk_section *section, uint32_t row_ref, dlk_pool *pool,
                        const dlk_request *request, dlk_turn *turn, int64_t *token,
                        int64_t *until)
{
    dlk_outcome outcome = DLK_GRANTED;
    *token = 0;
    *until = 0;
    if (DLK_GET(pool->next) != 0 || !fits(pool, request->take))
        *until = dlk_pool_settle(section, row_ref, request->now);
    if (DLK_GET(pool->next) != 0 || !fits(pool, request->take)) {
        if (request->once) {
            dlk_turn_end(section, turn);
            return DLK_QUEUED;
        }
        outcome = DLK_QUEUED;
    } else {
        *token = dlk_table_next_token(section);
        *until = end_of(request->now, request->ttl);
        if (*token == 0)
            return DLK_NO_TOKEN;
    }
    if (section->damaged ||
        !dlk_line_join(section, row_ref, request, turn, *token, *token > 0 ? *until : 0))
        return DLK_NO_PLACE;
    dlk_pool_add(section, row_ref, turn->place);
    return outcome;
}

static dlk_outcome decide(dlk_section *section, uint32_t row_ref, dlk_pool *pool,
                          const dlk_request *request, dlk_turn *turn, int64_t *token,
                          int64_t *until)
{
    if (is_taken_alone(section, row_ref, request->now))
        return DLK_OTHER_KIND;
    dlk_line_place *place = dlk_line_place_of(section->table, turn);
    if (place && DLK_GET(place->token) > 0) {
        if (DLK_GET(place->until) > request->now) {
            *token = DLK_GET(place->token);
            *until = prolong(place, request);
            return DLK_GRANTED;
        }
        /* It ran out unseen, and is worth nothing now. */
        dlk_pool_drop(section, row_ref, turn->place, request->now);
        place = NULL;
    }
    dlk_outcome outcome = agree(section, row_ref, request);
    if (outcome != DLK_GRANTED && !section->damaged) {
        /* Perhaps with the dead only. */
        (void)dlk_pool_settle(section, row_ref, request->now);
        outcome = agree(section, row_ref, request);
    }
    if (outcome == DLK_GRANTED && !section->damaged)
        return place ? look(section, row_ref, place, request->now, token, until)
                     : come(section, row_ref, pool, request, turn, token, until);
    return outcome;
}

dlk_outcome dlk_pool_acquire(dlk_section *section, uint32_t row_ref,
                             const dlk_request *request, dlk_turn *turn, int64_t *token,
                             int64_t *until)
{
    dlk_pool *pool = dlk_pool_at(section->table, row_ref);
    dlk_outcome outcome = DLK_NOTHING;
    if (pool)
        outcome = decide(section, row_ref, pool, request, turn, token, until);
    else
        section->damaged = true;
    if (section->damaged)
        outcome = DLK_NOTHING;
    if (outcome != DLK_GRANTED && outcome != DLK_QUEUED)
        dlk_turn_end(section, turn);
    return outcome;
}

/* ---- having it ---- */

static dlk_line_place *share_of(const dlk_section *section, uint32_t row_ref,
                                const dlk_request *request, const dlk_turn *turn)
{
    dlk_line_place *place = dlk_line_place_of(section->table, turn);
    return place && dlk_line_place_row(place) == row_ref &&
                   DLK_GET(place->owner) == request->owner &&
                   DLK_GET(place->number) == request->number &&
                   DLK_GET(place->token) > 0 && DLK_GET(place->until) > request->now &&
                   DLK_GET(place->take) >= request->take &&
                   dlk_member_of(section->table, request->owner)
               ? place
               : NULL;
}

bool dlk_pool_has(const dlk_section *section, uint32_t row_ref,
                  const dlk_request *request, const dlk_turn *turn)
{
    return share_of(section, row_ref, request, turn) != NULL;
}

bool dlk_pool_renew(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                    const dlk_turn *turn)
{
    dlk_line_place *place = share_of(section, row_ref, request, turn);
    dlk_pool *pool = dlk_pool_at(section->table, row_ref);
    if (!place || !pool)
        return false;
    (void)prolong(place, request); /* nobody asks until when */
    uint32_t more = DLK_GET(place->take) - request->take;
    if (more > 0) {
        DLK_PUT(place->take, request->take);
        DLK_POINT("pool.turned");
        DLK_PUT(pool->taken, DLK_GET(pool->taken) - more);
        (void)admit(section, row_ref, pool, request->now);
    }
    return true;
}
