/*
 * Acquiring. Of all owners of this client that want one name only the first one's wish goes to
 * the server, as the name's `trying` grant; whoever is first when the answer comes gets it. An
 * attempt keeps its number until it is granted or given up, so asking again is always safe.
 */
#include "locks/inner.h"

#include <assert.h>

/* A living grant of this client that excludes the wish: asking the server would be in vain. */
dlk_grant *dlk_name_blocker(const dlk_name *name, const dlk_terms *terms)
{
    if (name->key.kind == DLOCK_SEMAPHORE)
        return NULL;
    DLK_CHAIN_FOR (it, &name->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (dlk_grant_lives(grant) && !(grant->terms.shared && terms->shared))
            return grant;
    }
    return NULL;
}

/* A grant that has to go back first, and can't just now. */
static const dlk_grant *unsent_release(const dlk_name *name)
{
    DLK_CHAIN_FOR (it, &name->grants) {
        const dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (grant->stage == DLK_STAGE_OWED)
            return grant;
    }
    return NULL;
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
    if (name->key.watched && !name->queue.first && name->idlers == 0)
        watch(core, name, false, now);
}

/* ---- the attempt ---- */

static dlk_grant *new_trying(dlk_core *core, dlk_name *name, const dlk_wait *head)
{
    name->trying = dlk_grant_new(core, name, &head->terms, DLK_STAGE_TRIED);
    return name->trying;
}

/* Nobody wants the attempt any more: whatever it got, or may still get, goes back. */
static void abandon(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_name *name = grant->name;
    assert(name->trying == grant);
    name->trying = NULL;
    grant->due_at = DLK_NEVER;
    if (dlk_grant_may_be_there(grant)) {
        dlk_give_back(core, grant, DLK_GRANT_UNWANTED, now);
    } else {
        dlk_grant_step(grant, DLK_GRANT_NOT_THERE);
        dlk_grant_drop(core, grant);
    }
    settle_watch(core, name, now);
}

dlk_grant *dlk_trying_inherit(dlk_core *core, dlk_name *name, int64_t now)
{
    dlk_wait *head = dlk_name_head(name);
    if (!head || head->once || name->trying || dlk_name_blocker(name, &head->terms))
        return NULL;
    dlk_grant *heir = new_trying(core, name, head);
    if (!heir)
        return NULL; /* it will be said when the lock is asked for */
    dlk_grant_step(heir, DLK_GRANT_ACQUIRE_SENT);
    heir->since = now;
    dlk_grant_asked(core, heir, now);
    return heir;
}

void dlk_contend_queued(dlk_core *core, dlk_name *name, int64_t now)
{
    while (!name->trying) {
        dlk_wait *head = dlk_name_head(name);
        if (!head) { /* the last one ended here */
            settle_watch(core, name, now);
            return;
        }
        dlk_grant *blocker = dlk_name_blocker(name, &head->terms);
        if (blocker && dlk_keep_next(core, blocker, head, now))
            continue;
        if (blocker)
            return;
        const dlk_grant *before = core->up ? unsent_release(name) : NULL;
        if (before) {
            /* Our own next acquire goes out behind it; dlk_give_send comes back here. */
            if (!head->once)
                return;
            const dlock_error *why = dlk_grant_why(before);
            dlk_wait_unreached(core, head, DLOCK_EUNAVAIL,
                               why ? dlk_error_copy(why) : NULL);
            continue;
        }
        dlk_grant *grant = new_trying(core, name, head);
        if (grant)
            dlk_trying_send(core, grant, now);
        else
            dlk_wait_fail(core, head, DLOCK_ENOMEM, "no memory for a grant");
    }
}

/* There is no memory for a request. Who only tries hears of it; who waits can wait for memory. */
static void send_later(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_wait *head = dlk_name_head(grant->name);
    if (head && head->once) {
        dlk_wait_fail(core, head, DLOCK_ENOMEM, "no memory for a request");
        abandon(core, grant, now);
        return;
    }
    dlk_grant_ask_later(core, grant, now);
}

/* Why an attempt is asked for, now. */
static const char *why_asked(const dlk_grant *grant)
{
    if (grant->standing == DLK_STANDS_BEHIND)
        return "again: it was another's, and may be free";
    if (grant->standing == DLK_STANDS_UNKNOWN)
        return "again: there was no answer";
    if (grant->standing == DLK_STANDS_REFUSED)
        return "again: the server couldn't just then";
    return grant->retries > 0 ? "again: it wasn't sent" : "for the first one who waits";
}

void dlk_trying_send(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (dlk_grant_takes(grant))
        return;
    DLK_TELL_OF(core, DLK_TELL_WAIT, grant, "asked %s", why_asked(grant));
    dlk_ask *ask = dlk_ask_new(core, DLK_ACQUIRE, grant, core->limits.timeout_ms, now);
    if (!ask) {
        send_later(core, grant, now);
        return;
    }
    dlk_grant_step(grant, DLK_GRANT_ACQUIRE_SENT);
    grant->since = now;
    grant->due_at = DLK_NEVER;
    DLK_POINT("acquire.ask");
    dlk_grant_asked(core, grant, now);
    const dlk_wait *head = dlk_name_head(grant->name);
    ask->once = head && head->once && !grant->was_behind;
    (void)dlk_ask_go(core, ask, now); /* the answer finds its way by itself */
}

/* Of a condition: in its stead another may have been signalled, who saw nobody wait. So it wakes up,
 * though it holds no signal. */
static void wake_in_doubt(dlk_core *core, dlk_grant *grant, dlk_wait *head, int64_t now)
{
    core->stats.spurious_wakes++;
    dlk_wait_fail(core, head, DLOCK_ELOST,
                  "its place in the line may have been signalled");
    abandon(core, grant, now);
}

static void granted(dlk_core *core, dlk_grant *grant, const dlk_ask *ask, int64_t now)
{
    dlk_name *name = grant->name;
    dlk_wait *head = dlk_name_head(name);
    DLK_POINT("acquire.granted");
    if (head) /* the attempt may have been made for another, with another limit */
        grant->terms.max_hold_ms = head->terms.max_hold_ms;
    dlk_grant_lease(core, grant, ask);
    if (!head || dlk_lease_over(&grant->lease, now)) {
        core->stats.late_grants++;
        grant->ambiguous = true; /* it is ours, and unwanted */
        if (head && name->key.kind == DLK_KIND_CONDITION) {
            wake_in_doubt(core, grant, head, now);
            return;
        }
        bool once = head && head->once;
        if (once)
            dlk_wait_fail(core, head, DLOCK_EUNKNOWN,
                          "granted, but the lease was over when we heard of it");
        abandon(core, grant, now);
        return;
    }
    name->trying = NULL;
    dlk_grant_hand_over(core, grant, ask, head, now);
    dlk_grant_owners_waits(core, grant);
    settle_watch(core, name, now);
}

/* The lock is held: those who only try, the first or behind it, have their answer. But of a
 * semaphore fewer permits than these may be free, so whoever wants fewer has to ask, unless
 * others wait before him. */
static void end_tries(dlk_core *core, dlk_name *name, int32_t take)
{
    bool wait_before = false;
    DLK_CHAIN_FOR (it, &name->queue) {
        dlk_wait *wait = DLK_LIST_ITEM(it, dlk_wait, link);
        if (!wait->once)
            wait_before = true;
        else if (wait_before || wait->terms.take >= take)
            dlk_wait_fail(core, wait, DLOCK_EBUSY, "somebody else holds it");
    }
}

static void behind(dlk_core *core, dlk_grant *grant, const dlk_ask *ask, dlk_wait *head,
                   int64_t now)
{
    bool condition = grant->name->key.kind == DLK_KIND_CONDITION;
    bool lost = grant->was_behind && ask->new_place;
    grant->standing = DLK_STANDS_BEHIND;
    core->stats.places_lost += lost;
    grant->was_behind = !ask->no_place;
    grant->retries = 0;
    if (lost && condition) {
        wake_in_doubt(core, grant, head, now);
        return;
    }
    if (!head->behind)
        core->stats.contended++;
    head->behind = true;
    if (condition && grant->was_behind && !head->placed) {
        head->placed = true;
        core->port.placed(core->port.world, head);
    }
    DLK_POINT("acquire.behind");
    end_tries(core, grant->name, grant->terms.take);
    if (head->over) {
        dlk_wait *next = dlk_name_head(grant->name);
        if (!next || !dlk_same_wish(&next->terms, grant)) {
            abandon(core, grant, now);
            return;
        }
    }
    int64_t poll = dlk_rand_jitter(&core->rand, core->limits.poll_ms * DLK_NS_PER_MS, 25);
    grant->due_at = now + poll;
    if (ask->no_place) /* the next head wants one */
        grant->due_at = now;
    grant->due_at = dlk_ask_rest_over(ask, now, grant->due_at);
    DLK_TELL_OF(core, DLK_TELL_WAIT, grant,
                "another has it%s; woken, or asked again in %lld ms",
                !grant->name->key.queues ? ""
                : ask->no_place          ? ", and it has no place in the line"
                                         : ", and it has a place in the line",
                dlk_tell_ms(now, grant->due_at));
    DLK_PROBE2(wait, grant->name->key.name, grant->number);
    watch(core, grant->name, true, now);
}

static void unreached(dlk_core *core, dlk_grant *grant, dlk_ask *ask, dlk_wait *head,
                      int64_t now)
{
    dlk_grant_failed(grant, dlk_ask_error(ask));
    grant->was_behind = grant->name->key.queues && grant->was_behind;
    if (!core->up && dlk_down_for_good(core)) {
        dlk_wait_refused(core, head, dlk_error_copy(core->down));
        abandon(core, grant, now);
        return;
    }
    if (dlk_tries_unreached(core, grant)) {
        abandon(core, grant, now);
        return;
    }
    grant->due_at = dlk_retry_after(core, now, &grant->retries);
    const dlock_error *why = dlk_grant_why(grant);
    DLK_TELL_OF(core, DLK_TELL_WAIT, grant, "no answer (%s); asked again in %lld ms",
                why ? why->text : "the server can't be reached",
                dlk_tell_ms(now, grant->due_at));
}

void dlk_trying_answered(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now)
{
    dlk_name *name = grant->name;
    bool stale = grant->asks == DLK_ASKS_STALE_ACQUIRE;
    dlk_grant_step(grant, DLK_GRANT_ACQUIRE_ANSWERED);
    if (grant->stage != DLK_STAGE_TRIED) {
        dlk_given_up_answered(core, grant, ask, now);
        return;
    }
    dlk_name_ref(name);
    grant->refs++;
    dlk_wait *head = dlk_name_head(name);
    assert(head); /* without one it would have been abandoned */
    switch (ask->reply) {
    case DLK_YES:
        granted(core, grant, ask, now);
        break;
    case DLK_HELD:
        behind(core, grant, ask, head, now);
        break;
    case DLK_UNKNOWN:
        grant->standing = DLK_STANDS_UNKNOWN;
        grant->ambiguous = true;
        unreached(core, grant, ask, head, now);
        if (ask->spent && name->trying == grant) /* the next try is another grant's */
            abandon(core, grant, now);
        break;
    case DLK_REFUSED:
        if (!dlk_passes(ask->error->code)) {
            dlk_wait_refused(core, head, dlk_ask_error(ask));
            abandon(core, grant, now);
            break;
        }
        grant->standing = DLK_STANDS_REFUSED;
        unreached(core, grant, ask, head, now);
        break;
    case DLK_NOT_SENT:
    case DLK_NOT_OURS: /* no answer to an acquire: a backend's bug, treated as nothing done */
    case DLK_PENDING:
        if (grant->standing != DLK_STANDS_UNKNOWN) /* that still isn't answered */
            grant->standing = DLK_STANDS_UNSENT;
        unreached(core, grant, ask, head, now);
        break;
    }
    /* Freed between the server's answer and its arrival here: no other message will come. */
    if (stale && name->trying == grant && grant->standing == DLK_STANDS_BEHIND)
        dlk_trying_send(core, grant, now);
    dlk_grant_schedule(core, grant);
    dlk_contend(core, name, now);
    dlk_grant_unref(core, grant);
    dlk_name_unref(core, name);
}

/* The first connection is there. Tries have waited for it, and now for an answer. */
void dlk_trying_connected(dlk_core *core, dlk_grant *grant, int64_t now)
{
    DLK_CHAIN_FOR (it, &grant->name->queue) {
        dlk_wait *wait = DLK_LIST_ITEM(it, dlk_wait, link);
        if (wait->once)
            dlk_alarm_set(core, &wait->alarm, DLK_NEVER);
    }
    dlk_trying_send(core, grant, now);
}

/* The link went down; with an error that trying again won't mend everybody in the line is told. */
void dlk_trying_link_down(dlk_core *core, dlk_grant *grant, const dlock_error *why,
                          int64_t now)
{
    if (dlk_grant_takes(grant))
        return; /* its own answer follows */
    dlk_name *name = grant->name;
    if (grant->standing == DLK_STANDS_BEHIND)
        grant->standing = DLK_STANDS_UNSENT;
    dlk_name_ref(name);
    if (!dlk_passes(why->code)) {
        abandon(core, grant, now);
        dlk_wait *head;
        while ((head = dlk_name_head(name)))
            dlk_wait_refused(core, head, dlk_error_copy(why));
        settle_watch(core, name, now);
    } else if (dlk_tries_unreached(core, grant)) {
        abandon(core, grant, now);
        dlk_contend(core, name, now);
    }
    dlk_name_unref(core, name);
}

/* ---- the owner's side ---- */

/* The grant, held or lost, of which this owner has not released every hold. */
static dlk_grant *owned(const dlk_name *name, uint64_t owner)
{
    DLK_CHAIN_FOR (it, &name->grants) {
        dlk_grant *grant = DLK_LIST_ITEM(it, dlk_grant, link);
        if (grant->hold_count > 0 && grant->owner == owner)
            return grant;
    }
    return NULL;
}

/* Is it answered, in whichever way, without asking the service? */
static bool is_answered_here(dlk_core *core, dlk_wait *wait, int64_t now)
{
    dlk_name *name = wait->name;
    if (core->closed) {
        dlk_wait_fail(core, wait, DLOCK_ECLOSED, "the client is closed");
        return true;
    }
    if (name->twin && dlk_name_has_rival(core, name, now)) {
        dlk_wait_fail(core, wait, DLOCK_ECONFLICT,
                      "another handle of this client uses this name with another layout, "
                      "fairness or "
                      "number of permits");
        return true;
    }
    dlk_grant *own = dlk_owner_is_thread(wait->owner) ? owned(name, wait->owner) : NULL;
    if (own) {
        if (dlk_grant_settle(core, own, now))
            dlk_grant_enter_again(core, wait, own);
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
    if (!name->trying && !name->queue.first)
        return false;
    if (dlk_turn_comes(core, name, wait))
        return false;
    if (core->up || dlk_connecting(core))
        dlk_wait_fail(core, wait, DLOCK_EBUSY,
                      "another owner of this client waits for it");
    else
        dlk_wait_unreached(core, wait, DLOCK_EUNAVAIL, NULL);
    return true;
}

void dlk_acquire_start(dlk_core *core, dlk_wait *wait, int64_t deadline, int64_t now)
{
    dlk_name *name = wait->name;
    DLK_PROBE2(acquire_start, wait->name->key.name, wait);
    dlk_wait_begin(core, wait, now);
    if (wait->over)
        return;
    dlk_name_ref(name);
    if (!is_answered_here(core, wait, now) && dlk_is_in_order(core, wait, now)) {
        wait->label = dlk_label_ref(wait->terms.label);
        dlk_chain_append(&name->queue, &wait->link);
        dlk_contend(core, name, now);
        if (!wait->over && wait->once && dlk_connecting(core))
            deadline = dlk_clock_after(now, core->limits.connect_ms);
        if (!wait->over && (!wait->once || dlk_connecting(core)))
            dlk_alarm_set(core, &wait->alarm, deadline);
    }
    /* While anybody waits, the grant that is tried, held or given back keeps the name. */
    dlk_name_unref(core, name);
}

/* As dlk_wait_give_up() has it, or with this text. */
static void leave_line(dlk_core *core, dlk_wait *wait, dlock_err code, const char *text,
                       int64_t now)
{
    dlk_name *name = wait->name;
    dlk_name_ref(name);
    bool first = dlk_name_head(name) == wait;
    if (text)
        dlk_wait_fail(core, wait, code, text);
    else
        dlk_wait_give_up(core, wait, code, now);
    dlk_wait *next = dlk_name_head(name);
    dlk_grant *trying = name->trying;
    /* The attempt goes on for the next one, unless that wants something else. */
    if (first && trying && (!next || !dlk_same_wish(&next->terms, trying)))
        abandon(core, trying, now);
    settle_watch(core, name, now);
    dlk_contend(core, name, now);
    dlk_name_unref(core, name);
}

void dlk_acquire_cancel(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now)
{
    if (wait->over)
        return;
    if (wait->importing)
        dlk_import_cancel(core, wait, code, now);
    else
        leave_line(core, wait, code, NULL, now);
}

void dlk_acquire_break(dlk_core *core, dlk_wait *wait, const char *text, int64_t now)
{
    leave_line(core, wait, DLOCK_EDEADLK, text, now);
}
