/*
 * Giving back: by the caller's release, because nobody wants the grant any more, because it was
 * lost by the clock alone, or, where a service has to know, to a ticket. Repeated until the server has confirmed it or has surely forgotten
 * the lease; the caller waits only as long as it likes.
 */
#include "locks/inner.h"

/* By then a request that was cut off has arrived, or never will. */
#define CONFIRM_AFTER_MS 1000
#define CONFIRMATIONS    3 /* the release itself among them */

static void end_release(dlk_core *core, dlk_grant *grant, dlock_err code,
                        const char *text)
{
    dlk_wait *wait = grant->waiter;
    if (!wait) {
        if (code != DLOCK_OK && dlk_grant_state(grant) == DLOCK_RELEASED) {
            core->stats.releases_failed++;
            core->port.log(core->port.world, DLOCK_LOG_WARN, "%s: release: %s",
                           grant->name->key.name, text);
        }
        return;
    }
    grant->waiter = NULL;
    if (code != DLOCK_OK)
        core->stats.releases_failed++;
    dlk_wait_end(core, wait, code,
                 code == DLOCK_OK
                     ? NULL
                     : dlk_error_make(code, "%s: %s", grant->name->key.name, text));
}

void dlk_give_back(dlk_core *core, dlk_grant *grant, dlk_grant_event event, int64_t now)
{
    dlk_grant_step(grant, event);
    grant->retries = 0;
    dlk_give_send(core, grant, now);
}

/* Whatever was confirmed before: an acquire may be done after the release that should undo it, for
 * they may go different ways, as when a node of a cluster sends the acquire on and the release has
 * gone straight to the other. So what was given up is given back by a release that has found it, or
 * that was sent after the acquire was answered; no earlier one counts. */
void dlk_given_up_answered(dlk_core *core, dlk_grant *grant, const dlk_ask *ask,
                           int64_t now)
{
    bool place = ask->reply == DLK_HELD && grant->name->key.queues && !ask->no_place;
    bool got = ask->reply == DLK_YES || place, may_come = ask->reply == DLK_UNKNOWN;
    bool more = ask->reply == DLK_YES && grant->name->key.queues && grant->was_behind;
    grant->was_behind |= place;
    grant->ambiguous |= may_come;
    if (got || may_come)
        grant->given_back = 0;
    bool settled = grant->stage == DLK_STAGE_OVER || grant->stage == DLK_STAGE_CONFIRMING;
    if (grant->stage == DLK_STAGE_RELEASING && got)
        grant->late = more ? DLK_LATE_GOT_MORE : DLK_LATE_GOT;
    if (settled && (got || may_come))
        dlk_give_back(core, grant, DLK_GRANT_GOT_LATE, now);
    else
        dlk_grant_drop(core, grant);
}

static void give_done(dlk_core *core, dlk_grant *grant, const dlk_ask *ask, int64_t now)
{
    /* An acquire that got no answer may sit in some buffer yet and take the lock again. A server
     * that stood still reads all that waits at once, in any order: only what it answered promptly,
     * several times in a row and a while apart, lets us believe that nothing waits there. One such
     * answer may have been sent for just before it moved again. */
    bool promptly = now < dlk_clock_after(ask->since, CONFIRM_AFTER_MS / 2);
    bool over = grant->given_back > 0 && now >= grant->lease.forgotten_at;
    grant->given_back = (uint8_t)(promptly ? grant->given_back + 1 : 1);
    if (grant->ambiguous && !over && grant->given_back < CONFIRMATIONS) {
        dlk_grant_step(grant, DLK_GRANT_CONFIRM_LATER);
        grant->due_at = dlk_clock_after(now, CONFIRM_AFTER_MS);
        dlk_grant_schedule(core, grant);
        return;
    }
    dlk_grant_step(grant, DLK_GRANT_GIVEN_BACK);
    dlk_grant_schedule(core, grant);
}

/* A place in a line has no lease: only the service can take it away. An acquire that got no answer
 * may have been given one as well. */
static bool may_be_in_line(const dlk_grant *grant)
{
    return grant->name->key.queues && (grant->was_behind || grant->ambiguous) &&
           atomic_load_explicit(&grant->state, memory_order_relaxed) == 0;
}

/* Other holds' renewals keep a session alive, and with it what this one has there. */
static bool outlives_lease(const dlk_core *core, const dlk_grant *grant)
{
    return core->limits.session || may_be_in_line(grant);
}

static void give_later(dlk_core *core, dlk_grant *grant, dlock_error *why, int64_t now)
{
    dlk_grant_failed(grant, why);
    if (now >= grant->lease.forgotten_at && !outlives_lease(core, grant)) {
        end_release(core, grant, DLOCK_EUNKNOWN,
                    "never confirmed; its lease is over by now");
        dlk_grant_step(grant, DLK_GRANT_GIVEN_BACK);
        grant->due_at = DLK_NEVER;
    } else {
        dlk_grant_step(grant, DLK_GRANT_RELEASE_PUT_OFF);
        grant->due_at = dlk_retry_after(core, now, &grant->retries);
    }
    dlk_grant_schedule(core, grant);
}

/* The next one of ours goes along with a lock that is given back for the first time. */
static void name_heir(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now)
{
    if (!grant->name->key.passes || grant->given_before || grant->ambiguous ||
        grant->exported || dlk_grant_state(grant) != DLOCK_RELEASED)
        return;
    dlk_grant *heir = dlk_trying_inherit(core, grant->name, now);
    if (!heir)
        return;
    heir->refs++;
    ask->heir = heir;
    ask->next = heir->number;
    ask->ttl_ms = heir->terms.ttl_ms;
}

/* What the answer to the release says of it: the ask becomes the answer to an acquire. */
static void tell_heir(dlk_core *core, dlk_ask *ask, int64_t now)
{
    dlk_grant *heir = ask->heir;
    dlk_reply released = ask->reply;
    if (!heir)
        return;
    ask->reply = released == DLK_YES ? ask->next_reply : DLK_NOT_SENT;
    if (released == DLK_UNKNOWN)
        ask->reply = DLK_UNKNOWN;
    bool asked = ask->reply != DLK_PENDING && released != DLK_NOT_OURS;
    if (asked || heir->name->trying != heir) {
        dlk_trying_answered(core, heir, ask, now);
    } else { /* nothing was done about it: it has to ask for itself */
        dlk_grant_step(heir, DLK_GRANT_ACQUIRE_ANSWERED);
        dlk_trying_send(core, heir, now);
    }
    dlk_grant_unref(core, heir);
}

void dlk_give_send(dlk_core *core, dlk_grant *grant, int64_t now)
{
    bool stays = outlives_lease(core, grant);
    if (!core->up && (stays || now < grant->lease.forgotten_at)) {
        /* Sent when the link is up; until then only the end of the lease has to be noticed. */
        grant->due_at = stays ? DLK_NEVER : grant->lease.forgotten_at;
        dlk_grant_schedule(core, grant);
        return;
    }
    dlk_ask *ask = dlk_ask_new(core, DLK_RELEASE, grant, core->limits.timeout_ms, now);
    dlk_name *name = grant->name;
    dlk_name_ref(name);
    if (ask) {
        dlk_grant_step(grant, DLK_GRANT_RELEASE_SENT);
        grant->late = DLK_LATE_NOTHING; /* this one comes after it */
        grant->due_at = DLK_NEVER;
        DLK_POINT("release.ask");
        ask->undoes = dlk_grant_takes(grant);
        ask->exported = grant->exported;
        name_heir(core, grant, ask, now);
        if (!dlk_ask_go(core, ask, now))
            dlk_grant_schedule(core, grant);
    } else {
        give_later(core, grant, NULL, now);
        dlk_grant_drop(core, grant);
    }
    dlk_contend(core, name, now);
    dlk_name_unref(core, name);
}

static void tell_answered(const dlk_core *core, const dlk_grant *grant,
                          const dlk_ask *ask, int64_t now)
{
    DLK_TELL_OF(core, DLK_TELL_LOCK, grant, "%s after %lld ms",
                ask->reply == DLK_YES        ? "given back"
                : ask->reply == DLK_NOT_OURS ? "it wasn't ours any more, says the server,"
                                             : "giving it back got no answer",
                dlk_tell_ms(ask->since, now));
}

void dlk_give_answered(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now)
{
    dlk_name *name = grant->name;
    bool repeated = grant->given_before;
    bool missed = (grant->late != DLK_LATE_NOTHING && ask->reply == DLK_NOT_OURS) ||
                  (grant->late == DLK_LATE_GOT_MORE && ask->reply == DLK_YES);
    DLK_POINT("release.answer");
    tell_answered(core, grant, ask, now);
    dlk_name_ref(name);
    dlk_grant_step(grant, DLK_GRANT_RELEASE_ANSWERED);
    grant->refs++;
    switch (ask->reply) {
    case DLK_YES:
        if (dlk_lease_over(&grant->lease, now))
            end_release(core, grant, DLOCK_ELOST,
                        "its validity was over before the release was confirmed");
        else
            end_release(core, grant, DLOCK_OK, NULL);
        give_done(core, grant, ask, now);
        break;
    case DLK_NOT_OURS:
        if (repeated)
            end_release(core, grant, DLOCK_OK, NULL);
        else
            end_release(core, grant, DLOCK_ELOST,
                        "the server says it wasn't ours any more");
        give_done(core, grant, ask, now);
        break;
    case DLK_REFUSED:
        if (!dlk_passes(ask->error->code))
            end_release(core, grant, ask->error->code, ask->error->text);
        give_later(core, grant, dlk_ask_error(ask), now);
        break;
    case DLK_UNKNOWN:
        grant->given_before = true;
        give_later(core, grant, dlk_ask_error(ask), now);
        break;
    case DLK_NOT_SENT:
    case DLK_HELD:
    case DLK_PENDING:
        give_later(core, grant, dlk_ask_error(ask), now);
        break;
    }
    tell_heir(core, ask, now);
    if (missed) {
        grant->given_back = 0;
        dlk_give_back(core, grant, DLK_GRANT_GOT_LATE, now);
    } else {
        dlk_grant_drop(core, grant);
    }
    dlk_contend(core, name, now);
    dlk_grant_unref(core, grant);
    dlk_name_unref(core, name);
}

/* ---- the caller's side ---- */

static void begin_wait(dlk_core *core, dlk_wait *wait, dlk_grant *grant, int64_t now)
{
    *wait = (dlk_wait){
        .alarm = {.timer = {.kind = DLK_ALARM_WAIT}},
        .name = grant->name,
        .grant = grant,
        .releasing = true,
        .began = now,
    };
    dlk_list_init(&wait->link);
    /* No memory for an alarm is no reason not to release: then the wait ends with the answer, or when
     * whoever waits has had enough and detaches it. */
    if (!dlk_alarm_reserve(core))
        core->alarm_users++;
}

static void end_wait(dlk_core *core, dlk_wait *wait, dlock_err code, const char *text)
{
    if (wait)
        dlk_wait_end(core, wait, code,
                     code == DLOCK_OK
                         ? NULL
                         : dlk_error_make(code, "%s: %s", wait->name->key.name, text));
}

static void release_last(dlk_core *core, dlk_grant *grant, dlk_wait *wait,
                         int64_t deadline, int64_t now)
{
    if (grant->keep && dlk_keep_stays(core, grant, now)) {
        end_wait(core, wait, DLOCK_OK, NULL);
        return;
    }
    atomic_store(&grant->state, DLOCK_RELEASED);
    core->stats.releases++;
    dlk_hist_add(&core->stats.hold, now - grant->since);
    DLK_TELL_OF(core, DLK_TELL_LOCK, grant, "released after %lld ms",
                dlk_tell_ms(grant->since, now));
    DLK_PROBE3(released, grant->name->key.name, grant->number, now - grant->since);
    if (wait && grant->terms.release_async)
        end_wait(core, wait, DLOCK_OK, NULL);
    else
        grant->waiter = wait;
    dlk_give_back(core, grant, DLK_GRANT_RELEASED, now);
    if (grant->waiter == wait && wait && core->alarms.capacity >= core->alarm_users)
        dlk_alarm_set(core, &wait->alarm, deadline);
}

void dlk_release_start(dlk_core *core, dlk_hold *hold, dlk_wait *wait, int64_t deadline,
                       int64_t now)
{
    dlk_grant *grant = hold->grant;
    dlk_name *name = grant->name;
    if (wait)
        begin_wait(core, wait, grant, now);
    if (atomic_load_explicit(&hold->released, memory_order_relaxed)) {
        end_wait(core, wait, DLOCK_ENOTHELD, "this hold was released before");
        return;
    }
    dlk_name_ref(name);
    grant->refs++;
    bool valid = dlk_grant_settle(core, grant, now);
    dlk_grant_remove_hold(grant, hold);
    dlk_order_gave(core, grant);
    atomic_store_explicit(&hold->released, true, memory_order_release);
    if (!valid) {
        end_wait(core, wait, DLOCK_ELOST, "it was lost before the release");
        dlk_grant_drop(core, grant);
    } else if (grant->hold_count > 0) {
        DLK_TELL_OF(core, DLK_TELL_LOCK, grant, "released once, %d times to go",
                    (int)grant->hold_count);
        if (name->key.kind == DLOCK_WRITE && !grant->terms.shared &&
            grant->write_holds == 0)
            dlk_grant_turn(core, grant, now);
        end_wait(core, wait, DLOCK_OK, NULL);
    } else {
        release_last(core, grant, wait, deadline, now);
    }
    dlk_contend(core, name, now);
    dlk_grant_unref(core, grant);
    dlk_name_unref(core, name);
}

void dlk_release_detach(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now)
{
    (void)now;
    if (wait->over)
        return;
    wait->grant->waiter = NULL;
    core->stats.releases_failed++;
    end_wait(core, wait, code,
             code == DLOCK_EUNKNOWN
                 ? core->closed
                       ? "the release wasn't confirmed before the client was closed; the "
                         "lock may stay until its lease ends"
                       : "the release isn't confirmed yet; it is repeated until it is"
                 : "stopped waiting for the release; it goes on");
}
