/* The clients of a table: coming, going, and being woken. */
#include "backends/local/table.h"

#include "util/point.h"

#include <stdio.h>
#include <string.h>

static uint64_t owner_of(const dlk_table *table, const dlk_member *member, uint64_t word)
{
    return (word >> 32 << 32) | (uint64_t)(member - table->members + 1);
}

dlk_member *dlk_member_of(const dlk_table *table, uint64_t owner)
{
    dlk_member *member = dlk_member_at(table, (uint32_t)owner);
    if (!member)
        return NULL;
    uint64_t word = atomic_load_explicit(&member->word, memory_order_relaxed);
    return (uint32_t)word != 0 && word >> 32 == owner >> 32 ? member : NULL;
}

static dlk_member *free_member(dlk_table *table)
{
    for (uint32_t ref = 1; ref <= table->head->member_high; ref++) {
        dlk_member *member = dlk_member_at(table, ref);
        if (!member)
            return NULL;
        if ((uint32_t)member->word == 0)
            return member;
    }
    return dlk_member_at(table, table->head->member_high + 1);
}

uint64_t dlk_member_join(dlk_visit *visit, const dlk_identity *who)
{
    dlk_table *table = visit->table;
    dlk_member *member = free_member(table);
    if (!member)
        return 0;
    uint32_t ref = (uint32_t)(member - table->members) + 1;
    if (table->head->member_high < ref)
        table->head->member_high = ref;
    member->started = who->started;
    (void)snprintf(member->uuid, sizeof(member->uuid), "%s", who->uuid); /* 36, or cut */
    (void)snprintf(member->name, sizeof(member->name), "%s", who->name); /* 128, or cut */
    atomic_store_explicit(&member->asleep, 0, memory_order_relaxed);
    uint64_t generation = (member->word >> 32) + 1;
    if (generation > UINT32_MAX)
        generation = 1;
    DLK_POINT("table.member");
    atomic_store_explicit(&member->word, generation << 32 | who->pid,
                          memory_order_release);
    atomic_fetch_add_explicit(&table->head->registry, 1, memory_order_release);
    return owner_of(table, member, member->word);
}

/* One store voids all that the owner had; the rest of leaving hands it on. */
static bool vanish(dlk_table *table, uint64_t owner)
{
    dlk_member *member = dlk_member_of(table, owner);
    if (!member)
        return false;
    atomic_store_explicit(&member->word, owner >> 32 << 32, memory_order_release);
    atomic_fetch_add_explicit(&table->head->registry, 1, memory_order_release);
    return true;
}

void dlk_member_vanish(dlk_table *table, uint64_t owner)
{
    (void)vanish(table, owner); /* gone already is as good */
}

/* With owner 0: of whoever isn't there any more. */
static bool is_of(const dlk_table *table, uint64_t whose, uint64_t owner)
{
    return owner != 0 ? whose == owner : whose != 0 && !dlk_member_of(table, whose);
}

static void clear_seats(dlk_visit *visit, uint64_t owner)
{
    for (uint32_t ref = 1; ref <= visit->table->head->seat_high; ref++) {
        dlk_seat *seat = dlk_seat_at(visit->table, ref);
        if (!seat) {
            visit->damaged = true;
            return;
        }
        if (!is_of(visit->table, seat->owner, owner) ||
            atomic_load_explicit(&seat->word, memory_order_relaxed) == 0)
            continue;
        if (atomic_load_explicit(&seat->token, memory_order_relaxed) == 0) {
            if (!dlk_row_at(visit->table, seat->row)) {
                visit->damaged = true;
                return;
            }
            dlk_line_remove(visit, seat->row, ref);
            if (visit->damaged)
                return;
        }
        dlk_seat_free(visit, ref);
    }
}

void dlk_member_let_go(dlk_visit *visit, uint64_t owner, int64_t now)
{
    clear_seats(visit, owner);
    for (uint32_t ref = 1; ref <= visit->table->head->row_high && !visit->damaged;
         ref++) {
        dlk_row *row = dlk_row_at(visit->table, ref);
        if (!row)
            visit->damaged = true;
        else if (is_of(visit->table, dlk_row_record(row)->owner, owner))
            dlk_table_evict(visit, ref, now);
    }
}

void dlk_member_bury(dlk_visit *visit, uint64_t owner, int64_t now)
{
    if (!vanish(visit->table, owner))
        return;
    dlk_member_let_go(visit, owner, now);
    /* The dead may have died between handing a lock over and waking the new owner. */
    visit->ring_granted = !DLK_PLANTED(NO_REWAKE);
}

void dlk_member_ring(const dlk_table *table, dlk_member *member)
{
    /* Pairs with the sleeper, who says that it sleeps and then looks at the bell (in the
     * kernel, before it sleeps): one of the two sees the other. */
    atomic_fetch_add(&member->bell, 1);
    if (atomic_load(&member->asleep) != 0)
        dlk_futex_wake(&member->bell, 1, table->shared);
}
