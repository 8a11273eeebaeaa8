/*
 * Holding: a grant's lease, its renewal, and its loss. HELD ⇄ SUSPECT → LOST, or RELEASED. LOST is
 * decided by the clock, or by the server's word; no event and no answer brings a grant back.
 */
#include "locks/inner.h"

#include <assert.h>
#include <stdlib.h>

static void set_state(dlk_grant *grant, dlock_state state)
{
    atomic_store_explicit(&grant->state, (uint8_t)state, memory_order_release);
}

/* ---- sums about a lease; docs/design/0017-leases.md says from when it counts ---- */

int64_t dlk_lease_reach(int64_t since, int64_t ttl_ms, dlk_margin margin)
{
    int64_t usable_ms = ttl_ms - ttl_ms / 100 * margin.percent - margin.ms;
    return usable_ms > 0 ? dlk_clock_after(since, usable_ms) : since;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void set_end(dlk_lease *lease, int64_t at)
{
    atomic_store_explicit(&lease->ends_at, at, memory_order_release);
}

void dlk_lease_limit(dlk_lease *lease, int64_t whole, int64_t limit)
{
    lease->limit = limit;
    set_end(lease, earlier(whole, limit));
}

void dlk_lease_start(dlk_lease *lease, int64_t since, int64_t ttl_ms, dlk_margin margin,
                     int64_t limit)
{
    dlk_lease_limit(lease, dlk_lease_reach(since, ttl_ms, margin), limit);
    lease->suspect_at = dlk_clock_after(since, ttl_ms / 2);
}

void dlk_lease_renew(dlk_lease *lease, int64_t since, int64_t ttl_ms, dlk_margin margin)
{
    int64_t end = earlier(dlk_lease_reach(since, ttl_ms, margin), lease->limit);
    set_end(lease, later(dlk_lease_end(lease), end));
    lease->suspect_at = later(lease->suspect_at, dlk_clock_after(since, ttl_ms / 2));
}

void dlk_lease_asked(dlk_lease *lease, int64_t now, int64_t ttl_ms, int64_t timeout_ms)
{
    lease->forgotten_at = later(
        lease->forgotten_at, dlk_clock_after(dlk_clock_after(now, timeout_ms), ttl_ms));
}

/* ---- the memory of a grant ---- */

dlk_grant *dlk_grant_new(dlk_core *core, dlk_name *name, const dlk_terms *terms,
                         dlk_stage stage)
{
    dlk_hold *first = NULL;
    if (!dlk_alarm_reserve(core))
        return NULL;
    dlk_grant *grant = core->port.new_grant(core->port.world, &first);
    if (!grant) {
        core->alarm_users--;
        return NULL;
    }
    grant->number = ++core->last_number;
    if (terms->keep_ms > 0 && !dlk_keep_add(core, grant)) {
        core->port.free_grant(core->port.world, grant);
        core->alarm_users--;
        return NULL;
    }
    grant->holds = first;
    grant->alarm.timer.kind = DLK_ALARM_GRANT;
    grant->name = name;
    dlk_name_ref(name);
    grant->stage = (uint8_t)stage;
    dlk_grant_set_terms(grant, terms);
    grant->terms.label = terms->label;
    (void)dlk_label_ref(grant->terms.label);
    grant->refs = 1;
    grant->due_at = DLK_NEVER;
    dlk_chain_append(&name->grants, &grant->link);
    dlk_list_append(&core->grants, &grant->all);
    core->grant_count++;
    return grant;
}

dlk_terms dlk_grant_terms_of(const dlk_grant *grant)
{
    const dlk_grant_terms *terms = &grant->terms;
    const dlk_keep *keep = grant->keep;
    return (dlk_terms){.ttl_ms = terms->ttl_ms,
                       .max_hold_ms = terms->max_hold_ms,
                       .keep_ms = keep ? keep->keep_ms : 0,
                       .keep_runs = keep ? keep->keep_runs : 0,
                       .keep_run_ms = keep ? keep->keep_run_ms : 0,
                       .take = terms->take,
                       .renewal = terms->renewal,
                       .shared = terms->shared,
                       .reentrant = terms->reentrant,
                       .release_async = terms->release_async,
                       .label = terms->label};
}

void dlk_grant_set_terms(dlk_grant *grant, const dlk_terms *terms)
{
    grant->terms = (dlk_grant_terms){.ttl_ms = terms->ttl_ms,
                                     .max_hold_ms = terms->max_hold_ms,
                                     .label = grant->terms.label,
                                     .take = terms->take,
                                     .renewal = terms->renewal,
                                     .shared = terms->shared,
                                     .reentrant = terms->reentrant,
                                     .release_async = terms->release_async};
    if (!grant->keep)
        return;
    grant->keep->keep_ms = terms->keep_ms;
    grant->keep->keep_runs = terms->keep_runs;
    grant->keep->keep_run_ms = terms->keep_run_ms;
}

dlk_grant_more *dlk_grant_need_more(dlk_grant *grant)
{
    if (!grant->more)
        grant->more = calloc(1, sizeof(*grant->more));
    return grant->more;
}

static void free_more(dlk_grant_more *more)
{
    dlk_error_clear(&more->why);
    free(more->giver);
    free(more);
}

void dlk_grant_failed(dlk_grant *grant, dlock_error *why)
{
    if (grant->more)
        dlk_error_clear(&grant->more->why);
    if (why && dlk_grant_need_more(grant))
        grant->more->why = why;
    else
        dlk_error_clear(&why);
}

void dlk_grant_destroy(dlk_core *core, dlk_grant *grant)
{
    assert(grant->refs == 0);
    if (grant->more)
        free_more(grant->more);
    if (grant->keep)
        free(grant->keep);
    dlk_label_unref(grant->terms.label);
    dlk_name *name = grant->name;
    core->port.free_grant(core->port.world, grant);
    dlk_name_unref(core, name);
}

void dlk_grant_drop(dlk_core *core, dlk_grant *grant)
{
    assert(grant->name->trying != grant && !dlk_grant_lives(grant));
    if (grant->hold_count > 0 || grant->asks != DLK_ASKS_NOTHING ||
        grant->stage != DLK_STAGE_OVER || dlk_list_empty(&grant->link))
        return;
    dlk_chain_remove(&grant->name->grants, &grant->link);
    dlk_list_remove(&grant->all);
    core->grant_count--;
    if (grant->keep)
        dlk_keep_attend(core, -1);
    dlk_alarm_unreserve(core, &grant->alarm);
    dlk_grant_unref(core, grant);
}

void dlk_grant_add_hold(dlk_grant *grant, dlk_hold *hold)
{
    hold->grant = grant;
    hold->token = grant->token;
    grant->refs++;
    grant->hold_count++;
    grant->write_holds += !hold->shared;
    hold->next = grant->holds;
    grant->holds = hold;
}

void dlk_grant_remove_hold(dlk_grant *grant, dlk_hold *hold)
{
    dlk_hold **at = &grant->holds;
    while (*at != hold)
        at = &(*at)->next;
    *at = hold->next;
    grant->hold_count--;
    grant->write_holds -= !hold->shared;
}

/* ---- what comes next ---- */

static bool may_renew(const dlk_core *core, const dlk_grant *grant)
{
    if (grant->asks != DLK_ASKS_NOTHING || !core->up)
        return false;
    if (grant->turning)
        return true;
    if (grant->terms.renewal == DLK_RENEW_OFF)
        return false;
    if (grant->terms.renewal == DLK_RENEW_FED && !grant->fed)
        return false;
    return dlk_lease_end(&grant->lease) < grant->lease.limit;
}

void dlk_grant_schedule(dlk_core *core, dlk_grant *grant)
{
    if (dlk_list_empty(&grant->link))
        return;
    int64_t at = grant->due_at;
    if (dlk_grant_lives(grant)) {
        at = dlk_lease_end(&grant->lease);
        if (grant->hold_count == 0) /* it is kept */
            at = earlier(at, dlk_keep_ends(grant));
        else if (dlk_grant_state(grant) == DLOCK_HELD &&
                 grant->terms.renewal != DLK_RENEW_OFF && grant->lease.suspect_at < at)
            at = grant->lease.suspect_at;
        if (may_renew(core, grant) && grant->due_at < at)
            at = grant->due_at;
    }
    dlk_alarm_set(core, &grant->alarm, at);
}

void dlk_grant_ask_later(dlk_core *core, dlk_grant *grant, int64_t now)
{
    grant->due_at = dlk_retry_after(core, now, &grant->retries);
    dlk_grant_schedule(core, grant);
}

/* ---- renewing ---- */

/* Renewals fall on a grid, so that those of many locks go out together: a service may carry a
 * hundred in one request. It is so fine that the jitter still spreads them. */
#define RENEWAL_STEPS 32

static void plan_renewal(dlk_core *core, dlk_grant *grant, int64_t since)
{
    int64_t ttl_ms = grant->terms.ttl_ms, cut_ms = grant->name->key.shared_cut_ms;
    if (grant->terms.shared && cut_ms && cut_ms < ttl_ms)
        ttl_ms = cut_ms;
    int64_t third = ttl_ms * DLK_NS_PER_MS / 3, step = third / RENEWAL_STEPS;
    int64_t at = since + dlk_rand_jitter(&core->rand, third, 10);
    /* A service may have given no lease at all. */
    grant->due_at = step > 0 ? at - (at - core->phase) % step : at;
}

/* How long to wait for the answer: as long as any command, but never so long that a lost one
 * leaves no time for another try. */
static int64_t patience_ms(const dlk_core *core, const dlk_grant *grant, int64_t now)
{
    int64_t half = (dlk_lease_end(&grant->lease) - now) / 2 / DLK_NS_PER_MS;
    int64_t least = 50;
    if (half < least)
        half = least;
    return half < core->limits.timeout_ms ? half : core->limits.timeout_ms;
}

static void renew_later(dlk_core *core, dlk_grant *grant, int64_t now)
{
    core->stats.renewals_failed++;
    grant->due_at = dlk_retry_after(core, now, &grant->retries);
    DLK_TELL_OF(
        core, DLK_TELL_RENEW, grant, "not renewed; again in %lld ms, valid for %lld ms",
        dlk_tell_ms(now, grant->due_at), dlk_tell_ms(now, dlk_lease_end(&grant->lease)));
}

void dlk_grant_bound(const dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now)
{
    dlk_lease *lease = &grant->lease;
    dlk_lease_asked(lease, now, ask->ttl_ms, core->limits.timeout_ms);
    ask->most_ms =
        dlk_clock_ms_until(lease->forgotten_at, now, INT64_MAX / DLK_NS_PER_MS);
    ask->overlong = grant->more ? grant->more->overlong : 0;
}

void dlk_grant_renew(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_ask *ask =
        dlk_ask_new(core, DLK_RENEW, grant, patience_ms(core, grant, now), now);
    if (!ask) {
        renew_later(core, grant, now);
        return;
    }
    dlk_grant_step(grant,
                   grant->fed ? DLK_GRANT_FED_RENEWAL_SENT : DLK_GRANT_RENEWAL_SENT);
    if (grant->terms.renewal != DLK_RENEW_AUTO && !grant->fed) /* it only turns */
        ask->ttl_ms = (dlk_lease_end(&grant->lease) - now) / DLK_NS_PER_MS + 1;
    grant->fed = false;
    ask->refills = grant->keep && !grant->keep->full;
    DLK_POINT("renew.ask");
    dlk_grant_bound(core, grant, ask, now);
    (void)dlk_ask_go(core, ask, now); /* the answer finds its way by itself */
}

/* Without memory it is told by the next answer. */
static void note_overlong(dlk_grant *grant, int64_t overlong)
{
    if (grant->more || (overlong && dlk_grant_need_more(grant)))
        grant->more->overlong = overlong;
}

void dlk_grant_renewed(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now)
{
    note_overlong(grant, ask->overlong);
    if (ask->lasts)
        dlk_lease_renew(&grant->lease, ask->since, ask->ttl_ms, core->limits.margin);
    if (grant->keep)
        dlk_keep_reserved(core, grant, ask);
    plan_renewal(core, grant, ask->since);
    if (grant->turning)
        grant->due_at = now;
    grant->retries = 0;
    core->stats.renewals++;
    DLK_TELL_OF(core, DLK_TELL_RENEW, grant,
                "renewed after %lld ms, valid for %lld ms, next in %lld ms",
                dlk_tell_ms(ask->since, now),
                dlk_tell_ms(now, dlk_lease_end(&grant->lease)),
                dlk_tell_ms(now, grant->due_at));
    DLK_PROBE4(renew, grant->name->key.name, grant->number, now - ask->since,
               dlk_lease_end(&grant->lease) - now);
    if (dlk_grant_state(grant) == DLOCK_SUSPECT && now < grant->lease.suspect_at) {
        set_state(grant, DLOCK_HELD);
        core->port.changed(core->port.world, grant);
    }
}

/* No word on whether it is ours: it is, to the end of its lease. */
static void not_renewed(dlk_core *core, dlk_grant *grant, const dlk_ask *ask,
                        bool was_fed, int64_t now)
{
    if (ask->reply == DLK_REFUSED)
        core->port.log(core->port.world, DLOCK_LOG_WARN, "%s: not renewed: %s",
                       grant->name->key.name, ask->error->text);
    grant->fed |= was_fed; /* what was fed for is still to be done */
    renew_later(core, grant, now);
}

/* It is ours still, as far as this says. */
static void take_renewal(dlk_core *core, dlk_grant *grant, dlk_ask *ask, bool was_fed,
                         int64_t now)
{
    if (dlk_ask_is_overtaken(ask, grant)) {
        grant->fed |= was_fed;
        grant->due_at = now;
    } else if (ask->reply == DLK_YES) {
        grant->turning = grant->turning && !ask->shared;
        dlk_grant_renewed(core, grant, ask, now);
    } else {
        not_renewed(core, grant, ask, was_fed, now);
    }
    if (dlk_grant_is_kept(grant))
        dlk_keep_answered(core, grant, now);
    dlk_grant_schedule(core, grant);
}

void dlk_grant_keep_answered(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now)
{
    bool was_fed = grant->asks == DLK_ASKS_FED_RENEWAL;
    dlk_grant_step(grant, DLK_GRANT_RENEWAL_ANSWERED);
    DLK_POINT("renew.answer");
    grant->refs++; /* one that nobody holds may go with this */
    if (!dlk_grant_settle(core, grant, now))
        dlk_grant_drop(core, grant);
    else if (ask->reply == DLK_NOT_OURS && !dlk_ask_is_overtaken(ask, grant))
        dlk_grant_lose(core, grant, DLK_LOSS_DENIED, now);
    else
        take_renewal(core, grant, ask, was_fed, now);
    dlk_grant_unref(core, grant);
}

void dlk_grant_feed(dlk_core *core, dlk_grant *grant, int64_t now)
{
    grant->fed = true;
    if (dlk_grant_settle(core, grant, now) && may_renew(core, grant) &&
        now >= grant->due_at)
        dlk_grant_renew(core, grant, now);
    dlk_grant_schedule(core, grant);
}

void dlk_grant_turn(dlk_core *core, dlk_grant *grant, int64_t now)
{
    grant->terms.shared = true;
    if (grant->more && grant->more->ordered)
        core->port.order->turned(core->port.world, grant);
    grant->turning = true;
    grant->due_at = now;
    if (may_renew(core, grant))
        dlk_grant_renew(core, grant, now);
    dlk_grant_schedule(core, grant);
    dlk_contend(core, grant->name, now); /* those who want to read may */
}

/* ---- beginning and end ---- */

/* Unless one before it may have been carried out, and may be so yet. */
void dlk_grant_asked(const dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (!grant->ambiguous)
        grant->lease.asked_at = now;
    dlk_lease_asked(&grant->lease, now, grant->terms.ttl_ms, core->limits.timeout_ms);
}

void dlk_grant_lease(dlk_core *core, dlk_grant *grant, const dlk_ask *ask)
{
    const dlk_grant_terms *terms = &grant->terms;
    int64_t since = ask->since;
    if (!ask->lasts && grant->lease.asked_at < since)
        since = grant->lease.asked_at;
    if (grant->keep)
        grant->keep->whole = dlk_lease_reach(since, ask->ttl_ms, core->limits.margin);
    dlk_lease_start(&grant->lease, since, ask->ttl_ms, core->limits.margin,
                    terms->max_hold_ms ? dlk_clock_after(since, terms->max_hold_ms)
                                       : DLK_NEVER);
}

static void begin(dlk_core *core, dlk_grant *grant, int64_t since, int64_t now)
{
    grant->since = now;
    grant->retries = 0;
    core->stats.grants++;
    dlk_grant_step(grant, DLK_GRANT_GRANTED);
    set_state(grant, DLOCK_HELD);
    plan_renewal(core, grant, since);
    dlk_grant_schedule(core, grant);
}

void dlk_grant_hand_over(dlk_core *core, dlk_grant *grant, const dlk_ask *ask,
                         dlk_wait *wait, int64_t now)
{
    grant->token = ask->token;
    grant->owner = wait->owner;
    /* Its label is what was asked with: the same text as the wait's. */
    dlk_grant_set_terms(grant, &wait->terms);
    grant->terms.ttl_ms = ask->ttl_ms;
    dlk_hold *hold = grant->holds;
    grant->holds = NULL;
    hold->shared = grant->terms.shared;
    dlk_grant_add_hold(grant, hold);
    dlk_order_took(core, grant, wait);
    if (grant->keep)
        dlk_keep_begin(core, grant, ask, now);
    dlk_hist_add(&core->stats.wait[DLK_WAITED_GRANTED], now - wait->began);
    begin(core, grant, ask->since, now);
    DLK_TELL_OF(core, DLK_TELL_LOCK, grant,
                "granted after %lld ms, token %" PRId64 ", valid for %lld ms",
                dlk_tell_ms(wait->began, now), grant->token,
                dlk_tell_ms(now, dlk_lease_end(&grant->lease)));
    wait->grant = grant;
    wait->hold = hold;
    dlk_wait_end(core, wait, DLOCK_OK, NULL);
}

void dlk_grant_lose(dlk_core *core, dlk_grant *grant, dlk_loss cause, int64_t now)
{
    bool by_server = cause != DLK_LOSS_EXPIRED;
    dlk_name *name = grant->name;
    dlk_name_ref(name);
    grant->refs++;
    bool kept = dlk_grant_is_kept(grant); /* nobody's loss */
    set_state(grant, DLOCK_LOST);
    DLK_TELL_OF(core, DLK_TELL_LOCK, grant, "lost after %lld ms%s: %s",
                dlk_tell_ms(grant->since, now), kept ? ", while it was kept" : "",
                by_server ? "the server says so" : "its validity is over");
    DLK_PROBE4(lost, name->key.name, grant->number, cause, now - grant->since);
    if (kept) {
        core->stats.kept_lost++;
    } else {
        core->stats.losses[cause]++;
        dlk_hist_add(&core->stats.hold, now - grant->since);
        core->port.log(core->port.world, DLOCK_LOG_WARN, "%s: lost: %s", name->key.name,
                       by_server ? "the server says somebody else has it, or nobody"
                                 : "its validity is over");
        core->port.changed(core->port.world, grant);
    }
    /* By time alone it may still be ours at the server, where it would keep others waiting. */
    grant->due_at = DLK_NEVER; /* for a renewal */
    if (by_server && !grant->ambiguous)
        dlk_grant_step(grant, DLK_GRANT_TAKEN_AWAY);
    else
        dlk_give_back(core, grant, DLK_GRANT_EXPIRED, now);
    if (kept)
        dlk_grant_drop(core, grant);
    dlk_contend(core, name, now);
    dlk_grant_schedule(core, grant);
    dlk_grant_unref(core, grant);
    dlk_name_unref(core, name);
}

void dlk_grant_doubt(dlk_core *core, dlk_grant *grant)
{
    if (dlk_grant_state(grant) != DLOCK_HELD || grant->terms.renewal == DLK_RENEW_OFF ||
        dlk_grant_is_kept(grant))
        return;
    set_state(grant, DLOCK_SUSPECT);
    DLK_TELL_OF(core, DLK_TELL_RENEW, grant, "%s",
                "suspect: not renewed for half of its lease");
    core->stats.suspects++;
    core->port.changed(core->port.world, grant);
}

bool dlk_grant_settle(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (!dlk_grant_lives(grant))
        return false;
    if (!dlk_lease_over(&grant->lease, now))
        return true;
    dlk_grant_lose(core, grant, DLK_LOSS_EXPIRED, now);
    return false;
}

void dlk_grant_alarm(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_name *name = grant->name;
    dlk_name_ref(name);
    grant->refs++;
    if (dlk_grant_settle(core, grant, now)) {
        if (now >= grant->lease.suspect_at)
            dlk_grant_doubt(core, grant);
        if (now >= grant->due_at && may_renew(core, grant))
            dlk_grant_renew(core, grant, now);
        if (dlk_grant_is_kept(grant) && now >= dlk_keep_ends(grant))
            dlk_keep_end(core, grant, &core->stats.kept_idle, now);
    }
    if (grant->stage != DLK_STAGE_HELD && now >= grant->due_at) {
        if (grant->stage == DLK_STAGE_TRIED)
            dlk_trying_send(core, grant, now);
        else if (dlk_importer(grant))
            dlk_import_send(core, grant, now);
        else
            dlk_give_send(core, grant, now);
        dlk_contend(core, name, now);
    }
    dlk_grant_schedule(core, grant);
    dlk_grant_unref(core, grant);
    dlk_name_unref(core, name);
}
