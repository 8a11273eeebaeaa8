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
    uint32_t used = dlk_table_used(&table->head->member_high, table->member_count);
    for (uint32_t ref = 1; ref <= used; ref++) {
        dlk_member *member = dlk_member_at(table, ref);
        if ((uint32_t)DLK_GET(member->word) == 0)
            return member;
    }
    return dlk_member_at(table, used + 1);
}

uint64_t dlk_member_join(dlk_section *section, const dlk_identity *who)
{
    dlk_table *table = section->table;
    dlk_member *member = free_member(table);
    if (!member)
        return 0;
    uint32_t ref = (uint32_t)(member - table->members) + 1;
    if (DLK_GET(table->head->member_high) < ref)
        DLK_PUT(table->head->member_high, ref);
    DLK_PUT(member->started, who->started);
    (void)snprintf(member->uuid, sizeof(member->uuid), "%s", who->uuid); /* 36, or cut */
    (void)snprintf(member->name, sizeof(member->name), "%s", who->name); /* 128, or cut */
    DLK_PUT(member->asleep, 0);
    DLK_PUT(member->listens, 0);
    uint64_t generation = (DLK_GET(member->word) >> 32) + 1;
    if (generation > UINT32_MAX)
        generation = 1;
    uint64_t word = generation << 32 | who->pid;
    DLK_POINT("table.member");
    atomic_store_explicit(&member->word, word, memory_order_release);
    atomic_fetch_add_explicit(&table->head->registry, 1, memory_order_release);
    return owner_of(table, member, word);
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
    return owner != 0 ? whose == owner
                      : whose != 0 && !dlk_record_is_anyones(table, whose);
}

static void clear_places(dlk_section *section, uint64_t owner, int64_t now)
{
    const dlk_table *table = section->table;
    uint32_t used = dlk_table_used(&table->head->place_high, table->place_count);
    for (uint32_t ref = 1; ref <= used; ref++) {
        const dlk_line_place *place = dlk_line_place_at(table, ref);
        if (!is_of(table, DLK_GET(place->owner), owner) || DLK_GET(place->word) == 0)
            continue;
        if (dlk_is_pooled(dlk_line_place_kind(place)))
            dlk_pool_leave(section, ref, now);
        else if (DLK_GET(place->token) == 0)
            dlk_line_leave(section, ref);
        else
            dlk_line_place_free(section, ref); /* its lock is handed on behind it */
        if (section->damaged)
            return;
    }
}

void dlk_member_let_go(dlk_section *section, uint64_t owner, int64_t now)
{
    const dlk_table *table = section->table;
    uint32_t used = dlk_table_used(&table->head->row_high, table->row_count);
    clear_places(section, owner, now);
    for (uint32_t ref = 1; ref <= used && !section->damaged; ref++)
        if (is_of(table, dlk_row_record(dlk_row_at(table, ref)).owner, owner))
            dlk_table_evict(section, ref, now);
        else if (dlk_pool_is_here(section, ref))
            (void)dlk_pool_settle(section, ref, now); /* nobody asks until when */
}

void dlk_member_bury(dlk_section *section, uint64_t owner, int64_t now)
{
    if (!vanish(section->table, owner))
        return;
    dlk_member_let_go(section, owner, now);
    /* The dead may have died between handing a lock over and waking the new owner. */
    section->ring_granted = true;
}

void dlk_member_name(const dlk_member *member, char ret[DLK_MEMBER_NAME])
{
    memcpy(ret, member->name, DLK_MEMBER_NAME - 1);
    ret[DLK_MEMBER_NAME - 1] = '\0';
}

void dlk_member_uuid(const dlk_member *member, char ret[DLK_MEMBER_UUID])
{
    memcpy(ret, member->uuid, DLK_MEMBER_UUID - 1);
    ret[DLK_MEMBER_UUID - 1] = '\0';
}

void dlk_member_ring(const dlk_table *table, dlk_member *member)
{
    /* Pairs with the sleeper, who says that it sleeps and then looks at the bell (in the
     * kernel, before it sleeps): one of the two sees the other. */
    atomic_fetch_add(&member->bell, 1);
    if (atomic_load(&member->asleep) != 0)
        dlk_futex_wake(&member->bell, 1, table->shared);
}
