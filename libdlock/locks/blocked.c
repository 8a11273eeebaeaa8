/* Whom of this client a wait waits for: the holds that have to go before it can be granted, as they are at
 * this moment. */
#include "locks/inner.h"

/* The first one's wish is the server's to grant, so whoever stands further behind waits for all that one of
 * those before him waits for. Does one of them, himself among them, shut readers out? */
static bool waits_for_readers(const dlk_wait *wait)
{
    if (!wait->terms.shared)
        return true;
    DLK_CHAIN_FOR (it, &wait->name->queue) {
        const dlk_wait *before = DLK_LIST_ITEM(it, dlk_wait, link);
        if (before == wait)
            break;
        if (!before->terms.shared)
            return true;
    }
    return false;
}

static bool is_in_the_way(const dlk_grant *grant, bool readers_too, int64_t now)
{
    return grant->hold_count > 0 && dlk_owner_is_thread(grant->owner) &&
           dlk_grant_lives(grant) && !dlk_lease_over(&grant->lease, now) &&
           (readers_too || !grant->terms.shared);
}

bool dlk_wait_finds_blockers(const dlk_wait *wait, int64_t now, dlk_blocker_fn *found,
                             void *user)
{
    if (wait->over || wait->releasing || wait->importing ||
        wait->name->key.kind == DLOCK_SEMAPHORE)
        return false;
    bool readers_too = waits_for_readers(wait);
    DLK_CHAIN_FOR (it, &wait->name->grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (is_in_the_way(grant, readers_too, now) && found(user, grant->owner))
            return true;
    }
    return false;
}
