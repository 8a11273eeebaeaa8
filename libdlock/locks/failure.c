/* How a wait ends that gets nothing: with which code, which tells apart what the caller can do about
 * it, and with what to read. */
#include "locks/inner.h"

void dlk_wait_fail(dlk_core *core, dlk_wait *wait, dlock_err code, const char *text)
{
    dlk_wait_end(core, wait, code,
                 dlk_error_make(code, "%s: %s", wait->name->key.name, text));
}

/* How a wait ends whose attempt gets no further: what was asked for others isn't its own. */
static dlock_err unreached_code(const dlk_grant *trying, bool head)
{
    return head && dlk_grant_may_be_there(trying) ? DLOCK_EUNKNOWN : DLOCK_EUNAVAIL;
}

static const char *unreached_text(dlock_err code, const dlk_grant *trying)
{
    if (code != DLOCK_EUNKNOWN)
        return "the server can't be reached";
    if (!trying || dlk_grant_may_come(trying))
        return "a request was sent and not answered";
    return "the server can't be reached, and the place in its line has still to be given "
           "back";
}

void dlk_wait_unreached(dlk_core *core, dlk_wait *wait, dlock_err code, dlock_error *why)
{
    if (!why && core->down)
        why = dlk_error_copy(core->down);
    /* Of several servers each has its own answer: what they come to says more than the code. */
    if (why && (why->code == code || why->code == DLOCK_EQUORUM)) {
        dlk_wait_end(core, wait, why->code, why);
        return;
    }
    dlock_error *error = dlk_error_make(code, "%s: %s%s%s", wait->name->key.name,
                                        unreached_text(code, wait->name->trying),
                                        why ? ": " : "", why ? why->text : "");
    dlk_error_clear(&why);
    dlk_wait_end(core, wait, code, error);
}

void dlk_wait_refused(dlk_core *core, dlk_wait *wait, dlock_error *error)
{
    core->stats.refusals++;
    dlock_error *named =
        dlk_error_make(error->code, "%s: %s", wait->name->key.name, error->text);
    if (error->backend)
        dlk_error_backend(&named, error->backend);
    dlk_error_clear(&error);
    dlk_wait_end(core, wait, named->code, named);
}

bool dlk_tries_unreached(dlk_core *core, dlk_grant *grant)
{
    bool was_head = false;
    if (dlk_connecting(core))
        return false;
    dlk_wait *head = dlk_name_head(grant->name);
    DLK_CHAIN_FOR (it, &grant->name->queue) {
        dlk_wait *wait = DLK_LIST_ITEM(it, dlk_wait, link);
        if (!wait->once)
            continue;
        was_head |= wait == head;
        const dlock_error *why = dlk_grant_why(grant);
        dlk_wait_unreached(core, wait, unreached_code(grant, wait == head),
                           why ? dlk_error_copy(why) : NULL);
    }
    return was_head;
}

/* ---- in time, or because its owner wants no more ---- */

/* Which failure a wait that ran out of time has, as dlock_lock_acquire() tells them apart. */
static dlock_err timeout_code(dlk_core *core, const dlk_wait *wait, int64_t now)
{
    const dlk_name *name = wait->name;
    const dlk_grant *trying = name->trying;
    const dlk_wait *first = dlk_name_head(name);
    /* What stands in the first one's way is in everybody's. */
    if (dlk_name_blocker(name, &wait->terms) ||
        (first && dlk_name_blocker(name, &first->terms)))
        return DLOCK_ETIMEDOUT;
    if (!trying)
        return DLOCK_EUNAVAIL;
    bool head = first == wait;
    if (!dlk_grant_takes(trying))
        return trying->standing == DLK_STANDS_BEHIND ? DLOCK_ETIMEDOUT
                                                     : unreached_code(trying, head);
    /* A question that has only just been repeated doesn't make a healthy wait ambiguous. */
    if (trying->was_behind &&
        now < dlk_clock_after(trying->since, core->limits.timeout_ms / 10))
        return DLOCK_ETIMEDOUT;
    if (!head && trying->standing != DLK_STANDS_UNKNOWN)
        return DLOCK_ETIMEDOUT; /* others of this client are before it, and nothing failed */
    return unreached_code(trying, head);
}

void dlk_wait_give_up(dlk_core *core, dlk_wait *wait, dlock_err code, int64_t now)
{
    if (code == DLOCK_ETIMEDOUT) {
        code = timeout_code(core, wait, now);
        core->stats.timeouts++;
        dlk_hist_add(&core->stats.wait[DLK_WAITED_TIMED_OUT], now - wait->began);
    } else if (code == DLOCK_ECANCELED) {
        core->stats.cancels++;
        dlk_hist_add(&core->stats.wait[DLK_WAITED_CANCELLED], now - wait->began);
    }
    const dlock_error *why = dlk_grant_why(wait->name->trying);
    if (code == DLOCK_EUNKNOWN || code == DLOCK_EUNAVAIL)
        dlk_wait_unreached(core, wait, code, why ? dlk_error_copy(why) : NULL);
    else if (code == DLOCK_ETIMEDOUT)
        dlk_wait_fail(core, wait, code, "somebody else held it all the time");
    else
        dlk_wait_fail(core, wait, code,
                      code == DLOCK_ECLOSED ? "the client was closed"
                                            : "the wait was cancelled");
}
