/*
 * Acquiring. Of all owners of this client that want one name only the first one's wish goes to
 * the server, as the name's `trying` grant; whoever is first when the answer comes gets it. An
 * attempt keeps its number until it is granted or given up, so asking again is always safe.
 */
#include "locks/inner.h"

#include <assert.h>

static dlk_wait *head_of(const dlk_name *name)
{
    dlk_list *first = dlk_list_first(&name->queue);
    return first ? DLK_LIST_ITEM(first, dlk_wait, link) : NULL;
}

/* The grant whose holder has the lock as far as this client knows. */
static dlk_grant *living(const dlk_name *name)
{
    DLK_LIST_FOR(it, &name->grants)
    {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (dlk_grant_lives(grant))
            return grant;
    }
    return NULL;
}

/* The grant, held or lost, of which this owner has not released every hold. */
static dlk_grant *owned(const dlk_name *name, uint64_t owner)
{
    DLK_LIST_FOR(it, &name->grants)
    {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (grant->hold_count > 0 && grant->owner_is_thread && grant->owner == owner)
            return grant;
    }
    return NULL;
}

static bool release_is_unsent(const dlk_name *name)
{
    DLK_LIST_FOR(it, &name->grants)
    if (DLK_LIST_ITEM(it, dlk_grant, link)->giving == DLK_GIVE_WANTED)
        return true;
    return false;
}

static void watch(dlk_core *core, dlk_name *name, bool on, int64_t now)
{
    if (name->key.watched == on)
        return;
    name->key.watched = on;
    core->port.watch(core->port.world, &name->key, on, now);
}

/* Nobody waits for the name any more: nobody need hear of it. */
static void settle_watch(dlk_core *core, dlk_name *name, int64_t now)
{
    if (name->key.watched && dlk_list_empty(&name->queue) &&
        dlk_list_empty(&name->idlers))
        watch(core, name, false, now);
}

/* ---- results ---- */

static void end_with(dlk_core *core, dlk_wait *wait, dlock_err code, const char *text)
{
    dlk_wait_end(core, wait, code,
                 dlk_error_make(code, "%s: %s", wait->name->key.name, text));
}

/* What the link has to say, as an error of this code. */
static void end_unreached(dlk_core *core, dlk_wait *wait, dlock_err code,
                          dlock_error *why)
{
    if (!why && core->down)
        why = dlk_error_copy(core->down);
    if (why && why->code == code) {
        dlk_wait_end(core, wait, code, why);
        return;
    }
    dlock_error *error =
        dlk_error_make(code, "%s: %s%s%s", wait->name->key.name,
                       code == DLOCK_EUNKNOWN ? "a request was sent and not answered"
                                              : "the server can't be reached",
                       why ? ": " : "", why ? why->text : "");
    dlk_error_clear(&why);
    dlk_wait_end(core, wait, code, error);
}

static void end_refused(dlk_core *core, dlk_wait *wait, dlock_error *error)
{
    core->stats.refusals++;
    dlock_error *named =
        dlk_error_make(error->code, "%s: %s", wait->name->key.name, error->text);
    if (error->backend)
        dlk_error_backend(&named, error->backend);
    dlk_error_clear(&error);
    dlk_wait_end(core, wait, named->code, named);
}

/* Another hold of a grant its owner has. */
static void enter_again(dlk_core *core, dlk_wait *wait, dlk_grant *grant)
{
    if (!wait->terms.reentrant) {
        end_with(core, wait, DLOCK_EDEADLK,
                 "this thread holds it, and lock.reentrant is false");
        return;
    }
    if (grant->hold_count == INT32_MAX) {
        end_with(core, wait, DLOCK_EOVERFLOW, "held 2147483647 times over");
        return;
    }
    dlk_hold *hold = core->port.new_hold(core->port.world);
    if (!hold) {
        end_with(core, wait, DLOCK_ENOMEM, "no memory for a hold");
        return;
    }
    hold->grant = grant;
    grant->refs++;
    grant->hold_count++;
    dlk_list_append(&grant->holds, &hold->link);
    core->stats.reentries++;
    wait->grant = grant;
    wait->hold = hold;
    dlk_wait_end(core, wait, DLOCK_OK, NULL);
}

/* ---- the attempt ---- */

static dlk_grant *new_trying(dlk_core *core, dlk_name *name, const dlk_wait *head)
{
    dlk_hold *first = NULL;
    if (!dlk_alarm_reserve(core))
        return NULL;
    dlk_grant *grant = core->port.new_grant(core->port.world, &first);
    if (!grant) {
        core->alarm_users--;
        return NULL;
    }
    grant->first = first;
    grant->alarm.kind = DLK_ALARM_GRANT;
    grant->name = name;
    dlk_name_ref(name);
    grant->number = ++core->last_number;
    grant->terms = head->terms;
    grant->refs = 1;
    grant->retry_at = DLK_NEVER;
    grant->lease.ends_at = 0;
    dlk_list_init(&grant->holds);
    dlk_list_append(&name->grants, &grant->link);
    dlk_list_append(&core->grants, &grant->all);
    name->trying = grant;
    return grant;
}

/* Nobody wants the attempt any more: whatever it got, or may still get, goes back. */
static void abandon(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_name *name = grant->name;
    assert(name->trying == grant);
    name->trying = NULL;
    grant->retry_at = DLK_NEVER;
    bool in_line = core->limits.queues && grant->was_behind;
    if (grant->taking || grant->ambiguous || in_line)
        dlk_give_back(core, grant, now);
    else
        dlk_grant_drop(core, grant);
    settle_watch(core, name, now);
}

void dlk_contend_queued(dlk_core *core, dlk_name *name, int64_t now)
{
    while (!name->trying) {
        dlk_wait *head = head_of(name);
        if (!head || living(name))
            return;
        if (core->up && release_is_unsent(name)) {
            /* Our own next acquire goes out behind it; dlk_give_send comes back here. */
            if (!head->once)
                return;
            end_unreached(core, head, DLOCK_EUNAVAIL, NULL);
            continue;
        }
        dlk_grant *grant = new_trying(core, name, head);
        if (grant)
            dlk_trying_send(core, grant, now);
        else
            end_with(core, head, DLOCK_ENOMEM, "no memory for a grant");
    }
}

void dlk_trying_send(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (grant->taking)
        return;
    grant->taking = true;
    grant->standing = DLK_STANDS_ASKED;
    grant->heard = false;
    grant->retry_at = DLK_NEVER;
    int64_t timeout = core->limits.timeout_ms;
    dlk_lease_asked(&grant->lease, now, grant->terms.ttl_ms, timeout);
    if (dlk_ask_send(core, &grant->take, DLK_ACQUIRE, grant, grant->terms.ttl_ms,
                     dlk_clock_after(now, timeout), now))
        dlk_trying_answered(core, grant, now);
}

static void grant_others_of(dlk_core *core, dlk_grant *grant)
{
    DLK_LIST_FOR(it, &grant->name->queue)
    {
        dlk_wait *wait = DLK_LIST_ITEM(it, dlk_wait, link);
        if (wait->owner_is_thread && wait->owner == grant->owner)
            enter_again(core, wait, grant);
    }
}

static void granted(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_name *name = grant->name;
    dlk_wait *head = head_of(name);
    const dlk_terms *terms = &grant->terms;
    int64_t since = grant->take.since;
    dlk_lease_start(&grant->lease, since, terms->ttl_ms, core->limits.margin,
                    terms->max_hold_ms ? dlk_clock_after(since, terms->max_hold_ms)
                                       : DLK_NEVER);
    if (!head || dlk_lease_over(&grant->lease, now)) {
        core->stats.late_grants++;
        grant->ambiguous = true; /* it is ours, and unwanted */
        bool once = head && head->once;
        if (once)
            end_with(core, head, DLOCK_EUNKNOWN,
                     "granted, but the lease was over when we heard of it");
        abandon(core, grant, now);
        return;
    }
    name->trying = NULL;
    grant->token = grant->take.token;
    grant->owner = head->owner;
    grant->owner_is_thread = head->owner_is_thread;
    grant->terms = head->terms;

    dlk_hold *hold = grant->first;
    hold->grant = grant;
    grant->refs++;
    grant->hold_count = 1;
    dlk_list_append(&grant->holds, &hold->link);
    dlk_hist_add(&core->stats.wait, now - head->began);
    dlk_grant_begin(core, grant, now);
    head->grant = grant;
    head->hold = hold;
    dlk_wait_end(core, head, DLOCK_OK, NULL);
    if (grant->owner_is_thread)
        grant_others_of(core, grant);
    settle_watch(core, name, now);
}

static void behind(dlk_core *core, dlk_grant *grant, dlk_wait *head, int64_t now)
{
    grant->standing = DLK_STANDS_BEHIND;
    grant->was_behind = true;
    grant->was_unknown = false;
    grant->retries = 0;
    if (!head->behind)
        core->stats.contended++;
    head->behind = true;
    if (head->once) {
        end_with(core, head, DLOCK_EBUSY, "somebody else holds it");
        abandon(core, grant, now);
        return;
    }
    int64_t poll = dlk_rand_jitter(&core->rand, core->limits.poll_ms * DLK_NS_PER_MS, 25);
    int64_t rest = grant->take.wait_ms;
    grant->retry_at = now + poll;
    if (rest >= 0 && dlk_clock_after(now, rest + 1) < grant->retry_at)
        grant->retry_at = dlk_clock_after(now, rest + 1);
    watch(core, grant->name, true, now);
}

static void unreached(dlk_core *core, dlk_grant *grant, dlk_wait *head, dlock_err code,
                      int64_t now)
{
    grant->was_behind = core->limits.queues && grant->was_behind;
    if (!core->up && dlk_down_for_good(core)) {
        end_refused(core, head, dlk_error_copy(core->down));
        abandon(core, grant, now);
        return;
    }
    if (head->once) {
        end_unreached(core, head, code, dlk_ask_error(&grant->take));
        abandon(core, grant, now);
        return;
    }
    grant->retry_at = dlk_retry_after(core, now, &grant->retries);
}

void dlk_trying_answered(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_name *name = grant->name;
    grant->taking = false;
    if (name->trying != grant) { /* given up meanwhile: its release is on the way */
        grant->ambiguous |= grant->take.reply == DLK_UNKNOWN;
        dlk_grant_drop(core, grant);
        return;
    }
    dlk_name_ref(name);
    grant->refs++;
    dlk_wait *head = head_of(name);
    assert(head); /* without one it would have been abandoned */
    switch (grant->take.reply) {
    case DLK_YES:
        granted(core, grant, now);
        break;
    case DLK_HELD:
        behind(core, grant, head, now);
        break;
    case DLK_UNKNOWN:
        grant->standing = DLK_STANDS_UNKNOWN;
        grant->ambiguous = grant->was_unknown = true;
        unreached(core, grant, head, DLOCK_EUNKNOWN, now);
        break;
    case DLK_REFUSED:
        if (grant->take.error->code != DLOCK_EUNAVAIL) {
            end_refused(core, head, dlk_ask_error(&grant->take));
            abandon(core, grant, now);
            break;
        }
        grant->standing = DLK_STANDS_REFUSED;
        grant->was_unknown = false;
        unreached(core, grant, head, DLOCK_EUNAVAIL, now);
        break;
    case DLK_NOT_SENT:
    case DLK_NOT_OURS: /* no answer to an acquire: a backend's bug, treated as nothing done */
    case DLK_PENDING:
        grant->standing = grant->was_unknown ? DLK_STANDS_UNKNOWN : DLK_STANDS_UNSENT;
        unreached(core, grant, head, DLOCK_EUNAVAIL, now);
        break;
    }
    /* Freed between the server's answer and its arrival here: no other message will come. */
    if (grant->heard && name->trying == grant && grant->standing == DLK_STANDS_BEHIND)
        dlk_trying_send(core, grant, now);
    dlk_grant_schedule(core, grant);
    dlk_contend(core, name, now);
    dlk_grant_unref(core, grant);
    dlk_name_unref(core, name);
}

/* The link went down; with an error that trying again won't mend everybody in the line is told. */
void dlk_trying_link_down(dlk_core *core, dlk_grant *grant, const dlock_error *why,
                          int64_t now)
{
    if (grant->taking)
        return; /* its own answer follows */
    dlk_name *name = grant->name;
    if (grant->standing == DLK_STANDS_BEHIND)
        grant->standing = DLK_STANDS_UNSENT;
    if (why->code == DLOCK_EUNAVAIL)
        return;
    dlk_name_ref(name);
    abandon(core, grant, now);
    dlk_wait *head;
    while ((head = head_of(name)))
        end_refused(core, head, dlk_error_copy(why));
    dlk_name_unref(core, name);
}

/* ---- the owner's side ---- */

static bool answered_here(dlk_core *core, dlk_wait *wait, int64_t now)
{
    dlk_name *name = wait->name;
    if (core->closed) {
        end_with(core, wait, DLOCK_ECLOSED, "the client is closed");
        return true;
    }
    if (name->twin && dlk_name_rival(core, name)) {
        end_with(core, wait, DLOCK_ECONFLICT,
                 "another handle of this client uses this name with another layout, "
                 "fairness or "
                 "number of permits");
        return true;
    }
    dlk_grant *own = wait->owner_is_thread ? owned(name, wait->owner) : NULL;
    if (own) {
        if (dlk_grant_settle(core, own, now))
            enter_again(core, wait, own);
        else
            end_with(core, wait, DLOCK_ELOST,
                     "this thread lost it and hasn't released that hold");
        return true;
    }
    if (!wait->once)
        return false;
    dlk_grant *other = living(name);
    if (other && dlk_grant_settle(core, other, now)) {
        end_with(core, wait, DLOCK_EBUSY, "another owner of this client holds it");
        return true;
    }
    if (!name->trying && dlk_list_empty(&name->queue))
        return false;
    if (core->up)
        end_with(core, wait, DLOCK_EBUSY, "another owner of this client waits for it");
    else
        end_unreached(core, wait, DLOCK_EUNAVAIL, NULL);
    return true;
}

void dlk_acquire_start(dlk_core *core, dlk_wait *wait, int64_t deadline, int64_t now)
{
    dlk_name *name = wait->name;
    wait->over = wait->releasing = wait->behind = false;
    wait->grant = NULL;
    wait->hold = NULL;
    wait->error = NULL;
    wait->began = now;
    wait->alarm = (dlk_alarm){.kind = DLK_ALARM_WAIT};
    dlk_list_init(&wait->link);
    if (!dlk_alarm_reserve(core)) {
        core->alarm_users++; /* dlk_wait_end gives it back */
        end_with(core, wait, DLOCK_ENOMEM, "no memory for a wait");
        return;
    }
    dlk_name_ref(name);
    if (!answered_here(core, wait, now)) {
        dlk_list_append(&name->queue, &wait->link);
        dlk_contend(core, name, now);
        if (!wait->over && !wait->once)
            dlk_alarm_set(core, &wait->alarm, deadline);
    }
    /* While anybody waits, the grant that is tried, held or given back keeps the name. */
    dlk_name_unref(core, name);
}

/* Which failure a wait that ran out of time has; design.md "What a wait ends with". */
static dlock_err timeout_code(dlk_core *core, const dlk_wait *wait, int64_t now)
{
    const dlk_name *name = wait->name;
    const dlk_grant *trying = name->trying;
    if (living(name))
        return DLOCK_ETIMEDOUT;
    if (!trying)
        return DLOCK_EUNAVAIL;
    bool head = head_of(name) == wait;
    switch (trying->standing) {
    case DLK_STANDS_BEHIND:
        return DLOCK_ETIMEDOUT;
    case DLK_STANDS_ASKED:
        /* A question that has only just been repeated doesn't make a healthy wait ambiguous. */
        if (trying->was_behind &&
            now < dlk_clock_after(trying->take.since, core->limits.timeout_ms / 10))
            return DLOCK_ETIMEDOUT;
        if (!head && !trying->was_unknown)
            return DLOCK_ETIMEDOUT; /* others of this client are before it, and nothing failed */
        return head ? DLOCK_EUNKNOWN : DLOCK_EUNAVAIL;
    case DLK_STANDS_UNKNOWN:
        return head ? DLOCK_EUNKNOWN : DLOCK_EUNAVAIL;
    case DLK_STANDS_UNSENT:
    case DLK_STANDS_REFUSED:
        return DLOCK_EUNAVAIL;
    }
    return DLOCK_EUNAVAIL;
}

static void end_cancelled(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now)
{
    if (code == DLOCK_ETIMEDOUT) {
        code = timeout_code(core, wait, now);
        core->stats.timeouts++;
    } else if (code == DLOCK_ECANCELED) {
        core->stats.cancels++;
    }
    const dlk_grant *trying = wait->name->trying;
    if (code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL)
        end_unreached(core, wait, code,
                      trying && trying->take.error ? dlk_error_copy(trying->take.error)
                                                   : NULL);
    else if (code == DLOCK_ETIMEDOUT)
        end_with(core, wait, code, "somebody else held it all the time");
    else
        end_with(core, wait, code,
                 code == DLOCK_ECLOSED ? "the client was closed"
                                       : "the wait was cancelled");
}

void dlk_acquire_cancel(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now)
{
    if (wait->over)
        return;
    dlk_name *name = wait->name;
    dlk_name_ref(name);
    bool first = head_of(name) == wait;
    end_cancelled(core, wait, code, now);
    dlk_wait *next = head_of(name);
    dlk_grant *trying = name->trying;
    /* The attempt goes on for the next one, unless that wants another lease. */
    if (first && trying && (!next || next->terms.ttl_ms != trying->terms.ttl_ms))
        abandon(core, trying, now);
    settle_watch(core, name, now);
    dlk_contend(core, name, now);
    dlk_name_unref(core, name);
}
