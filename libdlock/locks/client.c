/* One client as a whole: its link comes and goes, and it closes. */
#include "locks/inner.h"

/* ---- the link ---- */

/* What was given up goes first, so that our own next acquire finds the lock free; then what we
 * hold; then what we want. */
static void link_up(dlk_core *core, bool first, int64_t now)
{
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        /* A confirmation that came due while there was no link waits for the end of the lease, if
         * for anything. */
        if (grant->stage == DLK_STAGE_OWED ||
            (grant->stage == DLK_STAGE_CONFIRMING &&
             grant->due_at >= grant->lease.forgotten_at))
            dlk_give_send(core, grant, now);
    }
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (!dlk_grant_lives(grant))
            continue;
        if (core->limits.session)
            grant->due_at = now;
        dlk_grant_alarm(core, grant, now);
    }
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        dlk_name *name = grant->name;
        dlk_name_ref(name);
        if (name->trying == grant && first)
            dlk_trying_connected(core, grant, now);
        else if (name->trying == grant)
            dlk_trying_send(core, grant, now);
        else if (dlk_importer(grant))
            dlk_import_send(core, grant, now);
        dlk_contend(core, name, now);
        dlk_name_unref(core, name);
    }
    DLK_LIST_FOR (it, &core->queries)
        dlk_query_send(core, DLK_LIST_ITEM(it, dlk_query, all), now);
}

static void link_down(dlk_core *core, const dlock_error *why, int64_t now)
{
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (grant->name->trying == grant)
            dlk_trying_link_down(core, grant, why, now);
        else if (dlk_importer(grant) && !dlk_grant_takes(grant) && !dlk_passes(why->code))
            dlk_import_send(core, grant, now); /* is told why it can't be */
        else if (core->limits.session)
            dlk_grant_doubt(core, grant);
    }
    DLK_LIST_FOR (it, &core->queries) {
        dlk_query *query = DLK_LIST_ITEM(it, dlk_query, all);
        if (query->stage == DLK_QUERY_RESTS &&
            (query->kind == DLK_QUERY_CONNECT || !dlk_passes(why->code)))
            dlk_query_fail(core, query, dlk_error_copy(why));
    }
}

void dlk_core_link(dlk_core *core, bool up, const dlock_error *why, int64_t now)
{
    dlk_core_tick(core, now);
    bool first = dlk_connecting(core);
    core->up = up;
    dlk_error_clear(&core->down);
    if (up) {
        link_up(core, first, now);
    } else {
        core->down = dlk_error_copy(why);
        link_down(core, why, now);
    }
}

/* ---- the end ---- */

static void close_name(dlk_core *core, dlk_name *name, int64_t now)
{
    dlk_name_ref(name);
    while (name->queue.first)
        dlk_acquire_cancel(core, DLK_LIST_ITEM(name->queue.first, dlk_wait, link),
                           DLOCK_ECLOSED, now);
    dlk_name_unref(core, name);
}

static void close_grant(dlk_core *core, dlk_grant *grant, int64_t now)
{
    bool lives = dlk_grant_lives(grant);
    for (dlk_hold *hold = grant->holds, *next; hold; hold = next) {
        next = hold->next; /* it is its caller's, who frees it, from the next line on */
        atomic_store(&hold->released, true);
    }
    grant->holds = NULL;
    grant->hold_count = grant->write_holds = 0;
    dlk_order_gave(core, grant);
    if (atomic_load(&grant->state) != 0)
        atomic_store(&grant->state, DLOCK_RELEASED);
    if (lives)
        dlk_give_back(core, grant, DLK_GRANT_RELEASED, now);
    else
        dlk_grant_drop(core, grant);
}

void dlk_core_close(dlk_core *core, int64_t now)
{
    if (core->closed)
        return;
    core->closed = true;
    for (size_t i = 0; i < core->name_buckets; i++)
        for (dlk_name *name = core->names[i], *next; name; name = next) {
            next = name->next;
            close_name(core, name, now);
        }
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (dlk_importer(grant))
            dlk_import_cancel(core, grant->waiter, DLOCK_ECLOSED, now);
        else
            close_grant(core, grant, now);
    }
    DLK_LIST_FOR (it, &core->queries)
        dlk_query_cancel(core, DLK_LIST_ITEM(it, dlk_query, all), DLOCK_ECLOSED, now);
}

size_t dlk_core_unconfirmed(const dlk_core *core)
{
    size_t count = 0;
    DLK_LIST_FOR (it, &core->grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        /* An acquire under way may yet get what has been given back before. */
        bool owed = grant->stage == DLK_STAGE_OWED || grant->stage == DLK_STAGE_RELEASING;
        count += owed || (grant->stage > DLK_STAGE_HELD && dlk_grant_takes(grant));
    }
    return count;
}

void dlk_core_stop(dlk_core *core)
{
    core->up = false;
    DLK_LIST_FOR (it, &core->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, all);
        if (grant->waiter)
            dlk_release_detach(core, grant->waiter, DLOCK_EUNKNOWN, 0);
        dlk_grant_step(grant, DLK_GRANT_STOPPED);
        dlk_grant_drop(core, grant);
    }
    DLK_LIST_FOR (it, &core->queries) {
        dlk_query *query = DLK_LIST_ITEM(it, dlk_query, all);
        dlk_query_step(query, DLK_QUERY_STOPPED);
        dlk_query_cancel(core, query, DLOCK_ECLOSED, 0);
    }
}
