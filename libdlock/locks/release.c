/*
 * Giving back: by the caller's release, because nobody wants the grant any more, or because it
 * was lost by the clock alone. Repeated until the server has confirmed it or has surely forgotten
 * the lease; the caller waits only as long as it likes.
 */
#include "locks/inner.h"

#include <assert.h>

/* By then a request that was cut off has arrived, or never will. */
#define CONFIRM_AFTER_MS 1000

static void end_release(dlk_core *core, dlk_grant *grant, dlock_err code,
                        const char *text)
{
    dlk_wait *wait = grant->releaser;
    if (!wait) {
        if (code != DLOCK_OK && dlk_grant_state(grant) == DLOCK_RELEASED) {
            core->stats.releases_failed++;
            core->port.log(core->port.world, DLOCK_LOG_WARN, "%s: release: %s",
                           grant->name->key.name, text);
        }
        return;
    }
    grant->releaser = NULL;
    if (code != DLOCK_OK)
        core->stats.releases_failed++;
    dlk_wait_end(core, wait, code,
                 code == DLOCK_OK
                     ? NULL
                     : dlk_error_make(code, "%s: %s", grant->name->key.name, text));
}

void dlk_give_back(dlk_core *core, dlk_grant *grant, int64_t now)
{
    grant->giving = DLK_GIVE_WANTED;
    grant->retries = 0;
    dlk_give_send(core, grant, now);
}

static void give_done(dlk_core *core, dlk_grant *grant, int64_t now)
{
    /* An acquire that got no answer may sit in some buffer yet and take the lock again. */
    if (grant->ambiguous && !grant->given_twice) {
        grant->given_twice = true;
        grant->giving = DLK_GIVE_CONFIRM;
        grant->retry_at = dlk_clock_after(now, CONFIRM_AFTER_MS);
        dlk_grant_schedule(core, grant);
        return;
    }
    grant->giving = DLK_GIVE_DONE;
    dlk_grant_schedule(core, grant);
}

static void give_later(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (now >= grant->lease.forgotten_at) {
        end_release(core, grant, DLOCK_EUNKNOWN,
                    "never confirmed; its lease is over by now");
        grant->giving = DLK_GIVE_DONE;
    } else {
        grant->giving = DLK_GIVE_WANTED;
        grant->retry_at = dlk_retry_after(core, now, &grant->retries);
    }
    dlk_grant_schedule(core, grant);
}

void dlk_give_send(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (!core->up && now < grant->lease.forgotten_at) {
        /* Sent when the link is up; until then only the end of the lease has to be noticed. */
        if (grant->giving != DLK_GIVE_CONFIRM)
            grant->giving = DLK_GIVE_WANTED;
        grant->retry_at = grant->lease.forgotten_at;
        dlk_grant_schedule(core, grant);
        return;
    }
    dlk_name *name = grant->name;
    dlk_name_ref(name);
    grant->giving = DLK_GIVE_SENT;
    grant->retry_at = DLK_NEVER;
    if (dlk_ask_send(core, &grant->give, DLK_RELEASE, grant, grant->terms.ttl_ms,
                     dlk_clock_after(now, core->limits.timeout_ms), now))
        dlk_give_answered(core, grant, now);
    else
        dlk_grant_schedule(core, grant);
    dlk_contend(core, name, now);
    dlk_name_unref(core, name);
}

void dlk_give_answered(dlk_core *core, dlk_grant *grant, int64_t now)
{
    dlk_name *name = grant->name;
    bool repeated = grant->given_before;
    dlk_name_ref(name);
    grant->giving = DLK_GIVE_WANTED;
    switch (grant->give.reply) {
    case DLK_YES:
        if (dlk_lease_over(&grant->lease, now))
            end_release(core, grant, DLOCK_ELOST,
                        "its validity was over before the release was confirmed");
        else
            end_release(core, grant, DLOCK_OK, NULL);
        give_done(core, grant, now);
        break;
    case DLK_NOT_OURS:
        if (repeated)
            end_release(core, grant, DLOCK_OK, NULL);
        else
            end_release(core, grant, DLOCK_ELOST,
                        "the server says it wasn't ours any more");
        give_done(core, grant, now);
        break;
    case DLK_REFUSED:
        if (grant->give.error->code != DLOCK_EUNAVAIL)
            end_release(core, grant, grant->give.error->code, grant->give.error->text);
        give_later(core, grant, now);
        break;
    case DLK_UNKNOWN:
        grant->given_before = true;
        give_later(core, grant, now);
        break;
    case DLK_NOT_SENT:
    case DLK_HELD:
    case DLK_PENDING:
        give_later(core, grant, now);
        break;
    }
    dlk_grant_drop(core, grant);
    dlk_contend(core, name, now);
    dlk_name_unref(core, name);
}

/* ---- the caller's side ---- */

static void begin_wait(dlk_core *core, dlk_wait *wait, dlk_grant *grant, int64_t now)
{
    *wait = (dlk_wait){
        .alarm = {.kind = DLK_ALARM_WAIT},
        .name = grant->name,
        .grant = grant,
        .releasing = true,
        .began = now,
    };
    dlk_list_init(&wait->link);
    /* No memory for an alarm is no reason not to release: then the wait ends with the answer. */
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
    atomic_store(&grant->state, DLOCK_RELEASED);
    core->stats.releases++;
    dlk_hist_add(&core->stats.hold, now - grant->granted_at);
    if (wait && grant->terms.release_async)
        end_wait(core, wait, DLOCK_OK, NULL);
    else
        grant->releaser = wait;
    dlk_give_back(core, grant, now);
    if (grant->releaser == wait && wait && core->alarms.capacity >= core->alarm_users)
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
    atomic_store_explicit(&hold->released, true, memory_order_release);
    dlk_list_remove(&hold->link);
    grant->hold_count--;
    if (!valid) {
        end_wait(core, wait, DLOCK_ELOST, "it was lost before the release");
        dlk_grant_drop(core, grant);
    } else if (grant->hold_count > 0) {
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
    wait->grant->releaser = NULL;
    core->stats.releases_failed++;
    end_wait(core, wait, code,
             code == DLOCK_EUNKNOWN
                 ? "the release isn't confirmed yet; it is repeated until it is"
                 : "stopped waiting for the release; it goes on");
}
