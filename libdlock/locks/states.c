/* What must hold of every grant and query between two calls; tests and the simulator ask. */
#include "locks/inner.h"

/* Who waits for it, and who has it, go with its stage. */
static bool users_are_sound(const dlk_grant *grant)
{
    bool attempt = grant->stage < DLK_STAGE_HELD, held = grant->stage == DLK_STAGE_HELD;
    const dlk_wait *waiter = grant->waiter;
    int state = atomic_load(&grant->state);
    if (dlk_grant_lives(grant) != held || (attempt && state != 0))
        return false;
    if (held && grant->hold_count == 0 &&
        (!grant->keep || grant->keep->until == DLK_NEVER))
        return false;
    if (grant->hold_count > 0 && !held && state != DLOCK_LOST)
        return false;
    if (grant->stage == DLK_STAGE_IMPORTED)
        return waiter && waiter->importing;
    return waiter ? grant->stage > DLK_STAGE_HELD && waiter->releasing : true;
}

/* By itself it sends only what is wanted and isn't under way. */
static bool rest_is_sound(const dlk_grant *grant)
{
    bool rests = grant->due_at >= DLK_NEVER;
    if (grant->stage == DLK_STAGE_HELD)
        return true; /* for a renewal */
    if (grant->stage == DLK_STAGE_RELEASING || grant->stage == DLK_STAGE_OVER)
        return rests;
    return rests || grant->stage > DLK_STAGE_HELD || !dlk_grant_takes(grant);
}

static bool grant_is_sound(const dlk_grant *grant)
{
    bool tried = grant->stage == DLK_STAGE_TRIED;
    if (tried != (grant->name->trying == grant) || (tried && !grant->name->queue.first))
        return false;
    if (grant->standing == DLK_STANDS_UNKNOWN && !grant->ambiguous)
        return false;
    if (grant->turning && !grant->terms.shared)
        return false;
    return dlk_stage_has(grant->stage, grant->asks) && users_are_sound(grant) &&
           rest_is_sound(grant);
}

static bool query_is_sound(const dlk_query *query)
{
    if (query->stage < DLK_QUERY_RESTS || query->stage > DLK_QUERY_OVER_ASKED)
        return false; /* what is over isn't here any more */
    return dlk_query_idles(query) ||
           (query->stage != DLK_QUERY_ASKED_STALE && query->left != DLK_QUERY_LEFT_HELD);
}

bool dlk_core_is_sound(const dlk_core *core)
{
    DLK_LIST_FOR (it, &core->grants)
        if (!grant_is_sound(DLK_LIST_ITEM(it, dlk_grant, all)))
            return false;
    DLK_LIST_FOR (it, &core->queries)
        if (!query_is_sound(DLK_LIST_ITEM(it, dlk_query, all)))
            return false;
    return true;
}
