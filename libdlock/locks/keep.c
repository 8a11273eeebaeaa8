/*
 * Grants that outlive their holds (lock.keep_ms): the next owner of ours has one without a round
 * trip, until somebody else asks for it. Kept is: held, and no hold. docs/design/0029-kept-locks.md
 */
#include "locks/inner.h"

#include <stdlib.h>

void dlk_keep_attend(const dlk_core *core, int by)
{
    if (core->port.attended)
        *core->port.attended += by;
}

bool dlk_keep_add(const dlk_core *core, dlk_grant *grant)
{
    grant->keep = calloc(1, sizeof(*grant->keep));
    if (!grant->keep)
        return false;
    grant->keep->until = DLK_NEVER;
    grant->number |= DLK_KEEPS;
    dlk_keep_attend(core, 1);
    return true;
}

/* ---- what the server says ---- */

void dlk_keep_reserved(const dlk_core *core, dlk_grant *grant, const dlk_ask *ask)
{
    dlk_keep *keep = grant->keep;
    keep->asked |= ask->asked;
    /* A renewal and a verify may be answered in any order: blocks are taken in that of their numbers. */
    if (ask->token > keep->last_token && ask->last_token > 0) {
        keep->next_token = ask->token;
        keep->last_token = ask->last_token;
        keep->full = true;
    }
    int64_t whole = dlk_lease_reach(ask->since, ask->ttl_ms, core->limits.margin);
    if (ask->lasts && whole > keep->whole)
        keep->whole = whole;
}

void dlk_keep_begin(const dlk_core *core, dlk_grant *grant, const dlk_ask *ask,
                    int64_t now)
{
    dlk_keep *keep = grant->keep;
    dlk_keep_reserved(core, grant, ask);
    keep->asked |= ask->verb == DLK_IMPORT; /* who waits has asked whoever gave it away */
    keep->next_token = ask->token + 1;      /* the first one is this hold's */
    keep->full = false;
    keep->run_began = now;
}

/* ---- whether it stays ---- */

/* Its owners have had what is theirs while another waits. */
static bool run_is_over(const dlk_grant *grant, int64_t now)
{
    const dlk_keep *keep = grant->keep;
    return keep->run >= keep->keep_runs ||
           now >= dlk_clock_after(keep->run_began, keep->keep_run_ms);
}

/* Where to count that it has to go back, though this one of ours waits for it, or nobody does; NULL: it
 * hasn't. */
static int64_t *why_back(dlk_core *core, const dlk_grant *grant, const dlk_wait *head,
                         int64_t now)
{
    dlk_stats *stats = &core->stats;
    if (grant->keep->asked && (!head || run_is_over(grant, now)))
        return head ? &stats->kept_run_over : &stats->kept_asked;
    if (grant->name->idlers > 0 && !head) /* nor one of ours who waits until it is free */
        return &stats->kept_asked;
    if (core->closed || dlk_grant_state(grant) != DLOCK_HELD ||
        now >= dlk_keep_ends(grant) || (head && !dlk_same_wish(&head->terms, grant)))
        return &stats->kept_idle;
    return NULL;
}

bool dlk_keep_stays(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_keep *keep = grant->keep;
    /* An attempt beside an imported one stands in the line. */
    if (grant->terms.shared || grant->name->trying || keep->extended)
        return false;
    /* From the first release on, but no longer than any of those who had it would keep it. */
    int64_t until = dlk_clock_after(now, keep->keep_ms);
    if (until < keep->until)
        keep->until = until;
    int64_t *back = why_back(core, grant, dlk_name_head(grant->name), now);
    if (back) {
        ++*back;
        return false;
    }
    core->stats.kept++;
    DLK_TELL_OF(core, DLK_TELL_LOCK, grant, "released after %lld ms, and kept",
                dlk_tell_ms(grant->since, now));
    DLK_PROBE3(released, grant->name->key.name, grant->number, now - grant->since);
    dlk_hist_add(&core->stats.hold, now - grant->since);
    grant->since = now;
    dlk_lease_limit(&grant->lease, keep->whole, DLK_NEVER);
    dlk_grant_schedule(core, grant);
    return true;
}

void dlk_keep_end(dlk_core *core, dlk_grant *grant, int64_t *count, int64_t now)
{
    ++*count;
    DLK_TELL_OF(core, DLK_TELL_LOCK, grant, "goes back after %lld ms of being kept: %s",
                dlk_tell_ms(grant->since, now),
                count == &core->stats.kept_asked      ? "it is asked for"
                : count == &core->stats.kept_run_over ? "its run is over"
                                                      : "its time is over");
    atomic_store(&grant->state, DLOCK_RELEASED);
    core->stats.releases++;
    dlk_give_back(core, grant, DLK_GRANT_RELEASED, now);
}

/* ---- whose it is next ---- */

static void take_up(dlk_core *core, dlk_grant *grant, dlk_hold *hold, dlk_wait *wait,
                    int64_t now)
{
    dlk_keep *keep = grant->keep;
    dlk_grant_set_terms(grant,
                        &wait->terms); /* the label is the same: it was the same wish */
    grant->owner = wait->owner;
    grant->since = now;
    keep->run++;
    if (grant->token > 0)
        grant->token = keep->next_token++;
    keep->full = false;
    int64_t most_ms = wait->terms.max_hold_ms;
    dlk_lease_limit(&grant->lease, keep->whole,
                    most_ms ? dlk_clock_after(now, most_ms) : DLK_NEVER);
    dlk_grant_add_hold(grant, hold);
    dlk_order_took(core, grant, wait);
    core->stats.local_grants++;
    DLK_TELL_OF(core, DLK_TELL_LOCK, grant,
                "granted here, as it was kept, after %lld ms, token %" PRId64,
                dlk_tell_ms(wait->began, now), grant->token);
    dlk_hist_add(&core->stats.wait[DLK_WAITED_GRANTED], now - wait->began);
    dlk_grant_schedule(core, grant);
    wait->grant = grant;
    wait->hold = hold;
    dlk_wait_end(core, wait, DLOCK_OK, NULL);
    dlk_grant_owners_waits(core, grant);
}

static bool has_token(const dlk_grant *grant)
{
    return grant->token == 0 || grant->keep->next_token <= grant->keep->last_token;
}

/* A renewal brings more tokens. True when it has its answer, or can't be sent. */
static bool ask_for_more(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (grant->asks != DLK_ASKS_NOTHING)
        return false;
    grant->refs++;
    dlk_grant_renew(core, grant, now);
    /* Who only tries waits for no second request. */
    if (grant->asks == DLK_ASKS_NOTHING && dlk_grant_is_kept(grant) && !has_token(grant))
        dlk_keep_end(core, grant, &core->stats.kept_idle, now);
    bool over = !dlk_grant_is_kept(grant) || has_token(grant);
    dlk_grant_schedule(core, grant);
    dlk_grant_unref(core, grant);
    return over;
}

bool dlk_keep_next(dlk_core *core, dlk_grant *grant, dlk_wait *head, int64_t now)
{
    if (!dlk_grant_is_kept(grant))
        return false;
    if (!dlk_grant_settle(core, grant, now))
        return true;
    int64_t *back = why_back(core, grant, head, now);
    if (back) {
        dlk_keep_end(core, grant, back, now);
        return true;
    }
    if (!has_token(grant))
        return ask_for_more(core, grant, now);
    dlk_hold *hold = core->port.new_hold(core->port.world);
    if (hold) {
        take_up(core, grant, hold, head, now);
    } else {
        dlk_wait_fail(core, head, DLOCK_ENOMEM, "no memory for a hold");
        dlk_keep_asked(core, grant, now); /* it may have been the last of ours to wait */
    }
    return true;
}

void dlk_keep_answered(dlk_core *core, dlk_grant *grant, int64_t now)
{
    bool waited_for = grant->name->queue.first;
    if (waited_for && !has_token(grant))
        dlk_keep_end(core, grant, &core->stats.kept_idle, now);
    else if (waited_for)
        dlk_contend(core, grant->name, now);
    else if (grant->keep->asked)
        dlk_keep_end(core, grant, &core->stats.kept_asked, now);
}

bool dlk_core_mark_asked(dlk_key *key, uint64_t number)
{
    bool known = false;
    DLK_CHAIN_FOR (it, &DLK_LIST_ITEM(key, dlk_name, key)->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (grant->number != number || !grant->keep)
            continue;
        grant->keep->asked = known = true; /* also before the answer that it is ours */
    }
    return known;
}

void dlk_keep_asked(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (grant->keep && grant->keep->asked && dlk_grant_is_kept(grant) &&
        !grant->name->queue.first)
        dlk_keep_end(core, grant, &core->stats.kept_asked, now);
}

bool dlk_keep_give_up(dlk_core *core, dlk_name *name, int64_t now)
{
    DLK_CHAIN_FOR (it, &name->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (!dlk_grant_is_kept(grant))
            continue;
        dlk_keep_end(core, grant, &core->stats.kept_asked, now);
        return true; /* there is one at most */
    }
    return false;
}
