/* Entering and leaving a table. Where processes share it, its mutex is of another kind:
 * mutex_shared.c. */
#include "backends/local/mutex.h"

#include "util/clock.h"
#include "util/point.h"

#include <errno.h>
#include <string.h>

dlock_err dlk_table_make_mutex(dlk_table *table)
{
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0)
        return DLOCK_ENOMEM;
    memset(table->head->room, 0, sizeof(table->head->room));
    int rc = 0;
    if (table->shared)
        rc = dlk_mutex_share(&attributes);
    if (rc == 0)
        rc = pthread_mutex_init(&table->head->mutex, &attributes);
    (void)pthread_mutexattr_destroy(&attributes); /* frees nothing on Linux, can't fail */
    return rc == 0 ? DLOCK_OK : DLOCK_ENOMEM;
}

dlk_entry dlk_table_enter(dlk_table *table, dlk_section *section, int patience)
{
    *section = (dlk_section){.table = table};
    DLK_POINT("table.door");
    int rc = table->shared ? dlk_mutex_lock_shared(table, patience)
                           : pthread_mutex_lock(&table->head->mutex);
    if (rc == EBUSY || rc == ETIMEDOUT)
        return DLK_ENTRY_BUSY;
    if (rc != 0 && rc != EOWNERDEAD)
        return DLK_ENTRY_BROKEN;
    if (table->shared)
        atomic_store_explicit(&table->head->inside, table->pid, memory_order_relaxed);
    DLK_POINT("table.enter");
    if (rc == EOWNERDEAD) {
        DLK_POINT("table.recover");
        /* The mutex last: should we die in the rebuild, the next one rebuilds. */
        dlk_table_rebuild(section, dlk_clock_now());
        dlk_mutex_mended(table);
    }
    return DLK_ENTERED;
}

/* Everybody with a grant that may not have been seen: after a death, which may have come between
 * the grant and the wake. */
static void ring_granted(dlk_table *table)
{
    uint32_t used = dlk_table_used(&table->head->place_high, table->place_count);
    for (uint32_t ref = 1; ref <= used; ref++) {
        const dlk_line_place *place = dlk_line_place_at(table, ref);
        if (atomic_load(&place->word) == 0 || atomic_load(&place->token) == 0)
            continue;
        dlk_member *member = dlk_member_of(table, DLK_GET(place->owner));
        if (member)
            dlk_member_ring(table, member);
    }
}

void dlk_table_leave(dlk_section *section)
{
    dlk_table *table = section->table;
    DLK_POINT("table.leave");
    if (table->shared)
        atomic_store_explicit(&table->head->inside, 0, memory_order_relaxed);
    (void)pthread_mutex_unlock(&table->head->mutex); /* it is ours */
    DLK_POINT("table.wake");
    for (unsigned i = 0; i < section->ring_count; i++) {
        dlk_member *member = dlk_member_at(table, section->ring[i]);
        if (member)
            dlk_member_ring(table, member);
    }
    if (section->ring_granted)
        ring_granted(table);
    DLK_POINT("table.left");
}
