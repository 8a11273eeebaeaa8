/*
 * Handing on: a grant is exported here and imported by another client, which makes it its own
 * under a number and a token of its own. An import is an attempt beside the line: whoever waits
 * for the name waits for the exported grant, and must not keep it from changing hands.
 */
#include "locks/inner.h"

#include <stdlib.h>
#include <string.h>

/* ---- giving away ---- */

dlock_err dlk_export(dlk_core *core, dlk_hold *hold, int64_t now)
{
    dlk_grant *grant = hold->grant;
    dlk_name *name = grant->name;
    if (atomic_load_explicit(&hold->released, memory_order_relaxed))
        return DLOCK_ENOTHELD;
    if (!dlk_grant_settle(core, grant, now))
        return DLOCK_ELOST;
    if (!name->key.hands_on)
        return DLOCK_ENOTSUP;
    if (grant->hold_count > 1)
        return DLOCK_EBUSY;
    dlk_name_ref(name);
    dlk_grant_remove_hold(grant, hold);
    dlk_order_gave(core, grant);
    atomic_store_explicit(&hold->released, true, memory_order_release);
    atomic_store(&grant->state, DLOCK_RELEASED);
    core->stats.releases++;
    dlk_hist_add(&core->stats.hold, now - grant->since);
    DLK_TELL_OF(core, DLK_TELL_LOCK, grant, "handed on after %lld ms",
                dlk_tell_ms(grant->since, now));
    if (name->key.told_exports) {
        grant->exported = true;
        dlk_give_back(core, grant, DLK_GRANT_RELEASED, now);
    } else { /* it isn't ours to give back any more */
        dlk_grant_step(grant, DLK_GRANT_EXPORTED);
        grant->due_at = DLK_NEVER;
        dlk_grant_schedule(core, grant);
        dlk_grant_drop(core, grant);
    }
    dlk_contend(core, name, now);
    dlk_name_unref(core, name);
    return DLOCK_OK;
}

/* ---- taking over ---- */

static void end_wait(dlk_core *core, dlk_grant *grant, dlock_err code, dlock_error *error)
{
    dlk_wait *wait = grant->waiter;
    grant->waiter = NULL;
    grant->due_at = DLK_NEVER;
    dlk_wait_end(core, wait, code, error);
}

static void end_with(dlk_core *core, dlk_grant *grant, dlock_err code, const char *text)
{
    end_wait(core, grant, code,
             dlk_error_make(code, "%s: %s", grant->name->key.name, text));
}

/* Nobody waits for it any more. */
static void abandon(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (dlk_grant_may_come(grant)) {
        dlk_give_back(core, grant, DLK_GRANT_UNWANTED, now);
        return;
    }
    dlk_grant_step(grant, DLK_GRANT_NOT_THERE);
    dlk_grant_drop(core, grant);
}

void dlk_import_start(dlk_core *core, dlk_wait *wait, const char *giver, int64_t deadline,
                      int64_t now)
{
    dlk_name *name = wait->name;
    DLK_PROBE2(acquire_start, wait->name->key.name, wait);
    dlk_wait_begin(core, wait, now);
    wait->importing = true;
    if (wait->over)
        return;
    dlk_grant *grant =
        core->closed ? NULL : dlk_grant_new(core, name, &wait->terms, DLK_STAGE_IMPORTED);
    char *text = grant && dlk_grant_need_more(grant) ? strdup(giver) : NULL;
    if (!text) {
        if (grant)
            abandon(core, grant, now);
        dlock_err code = core->closed ? DLOCK_ECLOSED : DLOCK_ENOMEM;
        dlk_wait_end(core, wait, code,
                     dlk_error_make(code, "%s: %s", name->key.name,
                                    core->closed ? "the client is closed"
                                                 : "no memory for a grant"));
        return;
    }
    grant->more->giver = text;
    grant->waiter = wait;
    wait->grant = grant;
    grant->refs++;
    dlk_alarm_set(core, &wait->alarm, deadline);
    dlk_import_send(core, grant, now);
    dlk_grant_unref(core, grant);
}

void dlk_import_send(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (dlk_grant_takes(grant))
        return;
    dlk_ask *ask = dlk_ask_new(core, DLK_IMPORT, grant, core->limits.timeout_ms, now);
    if (!ask) {
        dlk_grant_ask_later(core, grant, now);
        return;
    }
    dlk_grant_step(grant, DLK_GRANT_IMPORT_SENT);
    grant->due_at = DLK_NEVER;
    dlk_grant_asked(core, grant, now);
    ask->text = grant->more->giver;
    (void)dlk_ask_go(core, ask, now); /* the answer finds its way by itself */
}

static void imported(dlk_core *core, dlk_grant *grant, const dlk_ask *ask, int64_t now)
{
    dlk_wait *wait = grant->waiter;
    dlk_grant_lease(core, grant, ask);
    if (dlk_lease_over(&grant->lease, now)) {
        grant->ambiguous = true; /* it is ours, and of no use */
        end_with(core, grant, DLOCK_EUNKNOWN,
                 "imported, but the lease was over when we heard of it");
        abandon(core, grant, now);
        return;
    }
    grant->waiter = NULL;
    dlk_grant_hand_over(core, grant, ask, wait, now);
}

static void try_again(dlk_core *core, dlk_grant *grant, int64_t now)
{
    if (!core->up && dlk_down_for_good(core)) {
        dlock_error *error = dlk_error_copy(core->down);
        end_wait(core, grant, error->code, error);
        abandon(core, grant, now);
        return;
    }
    grant->due_at = dlk_retry_after(core, now, &grant->retries);
}

void dlk_import_answered(dlk_core *core, dlk_grant *grant, dlk_ask *ask, int64_t now)
{
    dlk_grant_step(grant, DLK_GRANT_IMPORT_ANSWERED);
    dlk_reply reply = ask->reply;
    if (grant->stage != DLK_STAGE_IMPORTED) {
        dlk_given_up_answered(core, grant, ask, now);
        return;
    }
    grant->ambiguous |= reply == DLK_UNKNOWN;
    grant->refs++;
    bool final = reply == DLK_REFUSED && ask->error->code != DLOCK_EUNAVAIL;
    if (reply == DLK_YES) {
        imported(core, grant, ask, now);
    } else if (reply == DLK_NOT_OURS || reply == DLK_HELD) {
        grant->ambiguous = false; /* had an earlier try been done, it would be ours */
        end_with(core, grant, DLOCK_ENOTHELD,
                 "the ticket was used before, its lease is over, or nobody gave it out");
        abandon(core, grant, now);
    } else if (final) {
        dlock_error *error = dlk_ask_error(ask);
        end_wait(core, grant, error->code, error);
        abandon(core, grant, now);
    } else if (ask->spent) {
        end_with(core, grant, DLOCK_EUNKNOWN, "it may have been given back");
        abandon(core, grant, now);
    } else {
        try_again(core, grant, now);
    }
    dlk_grant_schedule(core, grant);
    dlk_grant_unref(core, grant);
}

void dlk_import_cancel(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now)
{
    dlk_grant *grant = wait->grant;
    if (code == DLOCK_ETIMEDOUT)
        code = dlk_grant_may_come(grant) ? DLOCK_EUNKNOWN : DLOCK_EUNAVAIL;
    grant->refs++;
    end_with(core, grant, code,
             code == DLOCK_EUNKNOWN   ? "sent, and not answered"
             : code == DLOCK_EUNAVAIL ? "the server can't be reached"
             : code == DLOCK_ECLOSED  ? "the client was closed"
                                      : "the import was cancelled");
    abandon(core, grant, now);
    dlk_grant_unref(core, grant);
}
