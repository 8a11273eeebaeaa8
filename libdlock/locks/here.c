/* How an acquire is answered here, without the service: another hold of what the owner has, and whether the
 * answer to a try is known already. */
#include "locks/inner.h"

#include <stdlib.h>

/* May several of this wish have the lock at a time? */
static bool is_shared(const dlk_name *name, const dlk_terms *terms)
{
    return terms->shared || name->key.kind == DLOCK_SEMAPHORE;
}

bool dlk_is_against_order(dlk_core *core, dlk_wait *wait, int64_t now)
{
    if (wait->once || wait->together == DLK_UNORDERED ||
        !dlk_owner_is_thread(wait->owner))
        return false; /* who doesn't wait is in nobody's way */
    char *why = core->port.order->asked(core->port.world, wait, now);
    if (!why)
        return false;
    dlk_wait_fail(core, wait, DLOCK_EDEADLK, why);
    free(why);
    return true;
}

void dlk_grant_enter_again(dlk_core *core, dlk_wait *wait, dlk_grant *grant)
{
    if (grant->terms.shared && !wait->terms.shared) {
        dlk_wait_fail(core, wait, DLOCK_EDEADLK,
                      "this thread holds the read side, which its write would wait for");
        return;
    }
    if (!wait->terms.reentrant) {
        dlk_wait_fail(core, wait, DLOCK_EDEADLK,
                      "this thread holds it, and lock.reentrant is false");
        return;
    }
    if (grant->hold_count == INT32_MAX) {
        dlk_wait_fail(core, wait, DLOCK_EOVERFLOW, "held 2147483647 times over");
        return;
    }
    dlk_hold *hold = core->port.new_hold(core->port.world);
    if (!hold) {
        dlk_wait_fail(core, wait, DLOCK_ENOMEM, "no memory for a hold");
        return;
    }
    hold->shared = wait->terms.shared;
    dlk_grant_add_hold(grant, hold);
    core->stats.reentries++;
    DLK_TELL_OF(core, DLK_TELL_LOCK, grant,
                "granted here, as its owner has it: %d times, token %" PRId64,
                (int)grant->hold_count, grant->token);
    wait->grant = grant;
    wait->hold = hold;
    dlk_wait_end(core, wait, DLOCK_OK, NULL);
}

void dlk_grant_enter_waits(dlk_core *core, dlk_grant *grant)
{
    DLK_CHAIN_FOR (it, &grant->name->queue) {
        dlk_wait *wait = DLK_LIST_ITEM(it, dlk_wait, link);
        if (wait->owner == grant->owner)
            dlk_grant_enter_again(core, wait, grant);
    }
}

bool dlk_turn_comes(const dlk_core *core, const dlk_name *name, const dlk_wait *wait)
{
    if (!is_shared(name, &wait->terms) || !name->trying)
        return false;
    if (!dlk_grant_takes(name->trying) && !dlk_connecting(core))
        return false;
    DLK_CHAIN_FOR (it, &name->queue)
        if (!is_shared(name, &DLK_LIST_ITEM(it, dlk_wait, link)->terms))
            return false;
    return true;
}

bool dlk_name_has_rival(dlk_core *core, const dlk_name *name, int64_t now)
{
    dlk_name *rival;
    while ((rival = dlk_name_rival(core, name)))
        if (!dlk_keep_give_up(core, rival, now))
            return true;
    return false;
}
