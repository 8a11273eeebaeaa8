/* What of an acquire is answered here, without the service: another hold of what the owner has, and a
 * try whose answer is known already. */
#include "locks/inner.h"

/* May several of this wish have the lock at a time? */
static bool is_shared(const dlk_name *name, const dlk_terms *terms)
{
    return terms->shared || name->key.kind == DLOCK_SEMAPHORE;
}

/* The grant, held or lost, of which this owner has not released every hold. */
static dlk_grant *owned(const dlk_name *name, uint64_t owner)
{
    DLK_LIST_FOR (it, &name->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (grant->hold_count > 0 && grant->owner == owner)
            return grant;
    }
    return NULL;
}

/* Another hold of a grant its owner has; of the read side also in one of the write side. */
static void enter_again(dlk_core *core, dlk_wait *wait, dlk_grant *grant)
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
    wait->grant = grant;
    wait->hold = hold;
    dlk_wait_end(core, wait, DLOCK_OK, NULL);
}

void dlk_grant_enter_waits(dlk_core *core, dlk_grant *grant)
{
    DLK_LIST_FOR (it, &grant->name->queue) {
        dlk_wait *wait = DLK_LIST_ITEM(it, dlk_wait, link);
        if (wait->owner == grant->owner)
            enter_again(core, wait, grant);
    }
}

/* A try behind others that will be answered as soon as they are: none of them excludes it, and
 * the first one's request is under way, or goes out with the first connection. */
static bool turn_comes(const dlk_core *core, const dlk_name *name, const dlk_wait *wait)
{
    if (!is_shared(name, &wait->terms) || !name->trying)
        return false;
    if (!dlk_grant_takes(name->trying) && !dlk_connecting(core))
        return false;
    DLK_LIST_FOR (it, &name->queue)
        if (!is_shared(name, &DLK_LIST_ITEM(it, dlk_wait, link)->terms))
            return false;
    return true;
}

/* Is another name of this text in use? One that is only kept goes back. */
static bool has_rival(dlk_core *core, const dlk_name *name, int64_t now)
{
    dlk_name *rival;
    while ((rival = dlk_name_rival(core, name)))
        if (!dlk_keep_give_up(core, rival, now))
            return true;
    return false;
}

bool dlk_answered_here(dlk_core *core, dlk_wait *wait, int64_t now)
{
    dlk_name *name = wait->name;
    if (core->closed) {
        dlk_wait_fail(core, wait, DLOCK_ECLOSED, "the client is closed");
        return true;
    }
    if (name->twin && has_rival(core, name, now)) {
        dlk_wait_fail(core, wait, DLOCK_ECONFLICT,
                      "another handle of this client uses this name with another layout, "
                      "fairness or "
                      "number of permits");
        return true;
    }
    dlk_grant *own = dlk_owner_is_thread(wait->owner) ? owned(name, wait->owner) : NULL;
    if (own) {
        if (dlk_grant_settle(core, own, now))
            enter_again(core, wait, own);
        else
            dlk_wait_fail(core, wait, DLOCK_ELOST,
                          "this thread lost it and hasn't released that hold");
        return true;
    }
    if (!wait->once)
        return false;
    dlk_grant *other = dlk_name_blocker(name, &wait->terms);
    if (other && !dlk_grant_is_kept(other) && dlk_grant_settle(core, other, now)) {
        dlk_wait_fail(core, wait, DLOCK_EBUSY, "another owner of this client holds it");
        return true;
    }
    if (!name->trying && dlk_list_empty(&name->queue))
        return false;
    if (turn_comes(core, name, wait))
        return false;
    if (core->up || dlk_connecting(core))
        dlk_wait_fail(core, wait, DLOCK_EBUSY,
                      "another owner of this client waits for it");
    else
        dlk_wait_unreached(core, wait, DLOCK_EUNAVAIL, NULL);
    return true;
}
