/*
 * Holding: a grant's lease, its renewal, and its loss. HELD ⇄ SUSPECT → LOST, or RELEASED. LOST is
 * decided by the clock, or by the server's word; no event and no answer brings a grant back.
 */
#include "locks/inner.h"

#include <assert.h>

static void set_state(dlk_grant *grant, dlock_state state)
{
    atomic_store_explicit(&grant->state, (int)state, memory_order_release);
}

static void publish_end(dlk_grant *grant)
{
    atomic_store_explicit(&grant->ends_at, grant->lease.ends_at, memory_order_release);
}

/* ---- the memory of a grant ---- */

void dlk_grant_destroy(dlk_core *core, dlk_grant *grant)
{
    assert(grant->refs == 0);
    dlk_ask *const asks[] = {&grant->take, &grant->give, &grant->keep};
    for (int i = 0; i < 3; i++)
        if (asks[i]->error)
            dlk_error_clear(&asks[i]->error);
    dlk_name *name = grant->name;
    core->port.free_grant(core->port.world, grant);
    dlk_name_unref(core, name);
}

void dlk_grant_drop(dlk_core *core, dlk_grant *grant)
{
    bool giving = grant->giving != DLK_GIVE_NOT && grant->giving != DLK_GIVE_DONE;
    if (dlk_list_empty(&grant->link) || grant->name->trying == grant ||
        dlk_grant_lives(grant) || grant->hold_count > 0 || grant->taking ||
        grant->keeping || giving)
        return;
    dlk_list_remove(&grant->link);
    dlk_list_remove(&grant->all);
    dlk_alarm_unreserve(core, &grant->alarm);
    dlk_grant_unref(core, grant);
}

/* ---- what comes next ---- */

static bool may_renew(const dlk_core *core, const dlk_grant *grant)
{
    if (grant->keeping || !core->up || grant->terms.renewal == DLK_RENEW_OFF)
        return false;
    if (grant->terms.renewal == DLK_RENEW_FED && !grant->fed)
        return false;
    return grant->lease.ends_at < grant->lease.limit;
}

void dlk_grant_schedule(dlk_core *core, dlk_grant *grant)
{
    if (dlk_list_empty(&grant->link))
        return;
    int64_t at = DLK_NEVER;
    if (dlk_grant_lives(grant)) {
        at = grant->lease.ends_at;
        if (dlk_grant_state(grant) == DLOCK_HELD &&
            grant->terms.renewal != DLK_RENEW_OFF && grant->lease.suspect_at < at)
            at = grant->lease.suspect_at;
        if (may_renew(core, grant) && grant->renew_at < at)
            at = grant->renew_at;
    }
    bool asking = grant->name->trying == grant && !grant->taking;
    bool giving = grant->giving == DLK_GIVE_WANTED || grant->giving == DLK_GIVE_CONFIRM;
    if ((asking || giving) && grant->retry_at < at)
        at = grant->retry_at;
    dlk_alarm_set(core, &grant->alarm, at);
}

/* ---- renewing ---- */

static void plan_renewal(dlk_core *core, dlk_grant *grant, int64_t since)
{
    int64_t third = grant->terms.ttl_ms * DLK_NS_PER_MS / 3;
    grant->renew_at = since + dlk_rand_jitter(&core->rand, third, 10);
}

/* How long to wait for the answer: as long as any command, but never so long that a lost one
 * leaves no time for another try. */
static int64_t patience_ms(const dlk_core *core, const dlk_grant *grant, int64_t now)
{
    int64_t half = (grant->lease.ends_at - now) / 2 / DLK_NS_PER_MS;
    int64_t least = 50;
    if (half < least)
        half = least;
    return half < core->limits.timeout_ms ? half : core->limits.timeout_ms;
}

static void renew(dlk_core *core, dlk_grant *grant, int64_t now)
{
    grant->keeping = true;
    grant->fed = false;
    int64_t ttl = grant->terms.ttl_ms;
    dlk_lease_asked(&grant->lease, now, ttl, core->limits.timeout_ms);
    if (dlk_ask_send(core, &grant->keep, DLK_RENEW, grant, ttl,
                     dlk_clock_after(now, patience_ms(core, grant, now)), now))
        dlk_grant_keep_answered(core, grant, now);
}

void dlk_grant_renewed(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now)
{
    dlk_lease_renew(&grant->lease, ask->since, ask->ttl_ms, core->limits.margin);
    publish_end(grant);
    plan_renewal(core, grant, ask->since);
    grant->retries = 0;
    core->stats.renewals++;
    if (dlk_grant_state(grant) == DLOCK_SUSPECT && now < grant->lease.suspect_at) {
        set_state(grant, DLOCK_HELD);
        core->port.changed(core->port.world, grant);
    }
}

void dlk_grant_keep_answered(dlk_core *core, dlk_grant *grant, int64_t now)
{
    grant->keeping = false;
    if (!dlk_grant_lives(grant) || !dlk_grant_settle(core, grant, now)) {
        dlk_grant_drop(core, grant);
        return;
    }
    switch (grant->keep.reply) {
    case DLK_YES:
        dlk_grant_renewed(core, grant, &grant->keep, now);
        break;
    case DLK_NOT_OURS:
        dlk_grant_lose(core, grant, true, now);
        return;
    case DLK_REFUSED:
        core->port.log(core->port.world, DLOCK_LOG_WARN, "%s: not renewed: %s",
                       grant->name->key.name, grant->keep.error->text);
        __attribute__((fallthrough));
    case DLK_NOT_SENT:
    case DLK_UNKNOWN:
    case DLK_HELD:
    case DLK_PENDING:
        core->stats.renewals_failed++;
        grant->fed = true; /* what was fed for is still to be done */
        grant->renew_at = dlk_retry_after(core, now, &grant->retries);
        break;
    }
    dlk_grant_schedule(core, grant);
}

void dlk_grant_feed(dlk_core *core, dlk_grant *grant, int64_t now)
{
    grant->fed = true;
    if (dlk_grant_settle(core, grant, now) && may_renew(core, grant) &&
        now >= grant->renew_at)
        renew(core, grant, now);
    dlk_grant_schedule(core, grant);
}

/* ---- beginning and end ---- */

void dlk_grant_begin(dlk_core *core, dlk_grant *grant, int64_t now)
{
    grant->granted_at = now;
    grant->retries = 0;
    core->stats.grants++;
    publish_end(grant);
    set_state(grant, DLOCK_HELD);
    plan_renewal(core, grant, grant->lease.since);
    dlk_grant_schedule(core, grant);
}

void dlk_grant_lose(dlk_core *core, dlk_grant *grant, bool by_server, int64_t now)
{
    dlk_name *name = grant->name;
    dlk_name_ref(name);
    set_state(grant, DLOCK_LOST);
    core->stats.losses++;
    dlk_hist_add(&core->stats.hold, now - grant->granted_at);
    core->port.log(core->port.world, DLOCK_LOG_WARN, "%s: lost: %s", name->key.name,
                   by_server ? "the server says somebody else has it, or nobody"
                             : "its validity is over");
    core->port.changed(core->port.world, grant);
    /* By time alone it may still be ours at the server, where it would keep others waiting. */
    if (by_server && !grant->ambiguous)
        grant->giving = DLK_GIVE_DONE;
    else
        dlk_give_back(core, grant, now);
    dlk_contend(core, name, now);
    dlk_grant_schedule(core, grant);
    dlk_name_unref(core, name);
}

bool dlk_grant_settle(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (!dlk_grant_lives(grant))
        return false;
    if (!dlk_lease_over(&grant->lease, now))
        return true;
    dlk_grant_lose(core, grant, false, now);
    return false;
}

void dlk_grant_alarm(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_name *name = grant->name;
    dlk_name_ref(name);
    grant->refs++;
    if (dlk_grant_settle(core, grant, now)) {
        if (now >= grant->lease.suspect_at && dlk_grant_state(grant) == DLOCK_HELD &&
            grant->terms.renewal != DLK_RENEW_OFF) {
            set_state(grant, DLOCK_SUSPECT);
            core->stats.suspects++;
            core->port.changed(core->port.world, grant);
        }
        if (now >= grant->renew_at && may_renew(core, grant))
            renew(core, grant, now);
    }
    if (now >= grant->retry_at) {
        if (name->trying == grant)
            dlk_trying_send(core, grant, now);
        else if (grant->giving == DLK_GIVE_WANTED || grant->giving == DLK_GIVE_CONFIRM)
            dlk_give_send(core, grant, now);
        dlk_contend(core, name, now);
    }
    dlk_grant_schedule(core, grant);
    dlk_grant_unref(core, grant);
    dlk_name_unref(core, name);
}
