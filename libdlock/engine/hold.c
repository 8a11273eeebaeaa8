/* The blocking acquire and release, which need no operation object, and the end of a hold. */
#include "engine/circle.h"
#include "engine/engine.h"

#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* Waits, unless it would wait for itself. Mutex held before and after. */
static void await_grant(dlk_engine *engine, dlk_waiter *waiter, int64_t until)
{
    dlk_sleeper me;
    dlk_blocked blocked;
    bool concerned = dlk_circle_concerns(&waiter->wait);
    if (concerned)
        dlk_circle_begin(engine, &blocked, &waiter->wait);
    dlk_sleeper_init(&me);
    waiter->sleeper = &me;
    dlk_engine_await(engine, &me, &waiter->wait.over, until);
    if (concerned)
        dlk_circle_end(&blocked);
}

dlock_err dlk_engine_acquire(dlk_engine *engine, dlk_name *name, const dlk_terms *terms,
                             uint64_t owner, int64_t wait_ms, dlock_hold **ret,
                             dlock_error **err)
{
    dlk_stay stay;
    dlk_waiter waiter;
    dlk_wait *wait = &waiter.wait;
    waiter.sleeper = NULL; /* until it has to be woken */
    waiter.op = NULL;
    wait->name = name;
    wait->terms = *terms;
    wait->owner = owner;
    wait->together = 0;
    wait->once = wait_ms == 0;
    if (!dlk_engine_enter(engine, &stay))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the client belongs to the parent process");
    int64_t now = dlk_clock_now();
    dlock_err code = dlk_engine_start(engine, now, err);
    if (code != DLOCK_OK) {
        dlk_engine_leave(engine, &stay);
        return code;
    }
    if (!wait->owner)
        wait->owner = dlk_core_new_owner(&engine->core);
    int64_t until = wait->once ? DLK_NEVER : dlk_clock_after(now, wait_ms);
    dlk_acquire_start(&engine->core, wait, until, now);
    dlk_engine_digest(engine, now);
    if (!wait->over)
        await_grant(engine, &waiter, until);
    else
        dlk_engine_send(engine); /* a release that had to go first, for instance */
    if (wait->hold) {
        *ret = DLK_LIST_ITEM(wait->hold, dlock_hold, hold);
        dlk_engine_ref(engine);
    }
    dlk_engine_leave(engine, &stay);
    return wait->code == DLOCK_OK ? dlk_error_clear(err)
                                  : dlk_error_give(err, wait->error);
}

/* Never NULL. */
static dlock_op *start(dlk_engine *engine, dlk_name *name, const dlk_terms *terms,
                       dlk_acquirer who, int64_t wait_ms)
{
    int64_t now = dlk_clock_now();
    dlock_op *op = dlk_op_waiting(engine, now);
    if (op->over)
        return op;
    dlk_wait *wait = &op->u.waiter.wait;
    *wait = (dlk_wait){
        .name = name,
        .terms = *terms,
        .owner = who.owner ? who.owner : dlk_core_new_owner(&engine->core),
        .together = who.together,
    };
    wait->once = wait_ms == 0;
    dlk_acquire_start(&engine->core, wait,
                      wait->once ? DLK_NEVER : dlk_clock_after(now, wait_ms), now);
    dlk_engine_digest(engine, now);
    dlk_engine_send(engine);
    return op;
}

dlock_op *dlk_engine_acquire_start(dlk_engine *engine, dlk_name *name,
                                   const dlk_terms *terms, uint64_t owner,
                                   int64_t wait_ms)
{
    dlk_stay stay;
    if (!dlk_engine_enter(engine, &stay))
        return dlk_op_static(DLOCK_EFORKED);
    dlk_acquirer who = {.owner = owner};
    dlock_op *op = start(engine, name, terms, who, wait_ms);
    dlk_engine_leave(engine, &stay);
    return op;
}

dlock_op *dlk_engine_acquire_begin(dlk_engine *engine, dlk_name *name,
                                   const dlk_terms *terms, dlk_acquirer who,
                                   int64_t wait_ms, dlk_op_outcome *ret)
{
    dlk_stay stay;
    if (!dlk_engine_enter(engine, &stay)) {
        *ret = dlk_op_end(dlk_op_static(DLOCK_EFORKED));
        return NULL;
    }
    dlock_op *op = start(engine, name, terms, who, wait_ms);
    bool over = op->over, referenced = op->engine != NULL;
    if (over)
        *ret = dlk_op_end_inside(op);
    dlk_engine_leave(engine, &stay);
    if (over && referenced)
        dlk_engine_unref(engine);
    return over ? NULL : op;
}

dlock_err dlk_engine_release(dlock_hold *hold, dlock_error **err)
{
    dlk_stay stay;
    dlk_engine *engine = hold->engine;
    dlk_sleeper me;
    dlk_waiter waiter;
    waiter.sleeper = NULL; /* until it has to be woken */
    waiter.op = NULL;
    dlk_wait *wait = &waiter.wait;
    if (!dlk_engine_enter(engine, &stay))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the hold belongs to the parent process");
    int64_t now = dlk_clock_now();
    int64_t until = dlk_clock_after(now, engine->core.limits.timeout_ms);
    dlk_release_start(&engine->core, &hold->hold, wait, until, now);
    dlk_engine_digest(engine, now);
    if (!wait->over) {
        dlk_sleeper_init(&me);
        waiter.sleeper = &me;
        dlk_engine_await(engine, &me, &wait->over, until);
        /* There was no memory for the alarm that ends it on time. It lies on this stack, and its
         * grant is not to know it any more. */
        waiter.sleeper = NULL;
        dlk_release_detach(&engine->core, wait, DLOCK_EUNKNOWN, dlk_clock_now());
    } else {
        dlk_engine_send(engine);
    }
    dlk_engine_leave(engine, &stay);
    return wait->code == DLOCK_OK ? dlk_error_clear(err)
                                  : dlk_error_give(err, wait->error);
}

dlock_op *dlk_engine_release_start(dlk_engine *engine, dlk_hold *hold)
{
    int64_t now = dlk_clock_now();
    dlock_op *op = dlk_op_new(engine, DLK_OP_WAIT);
    if (op)
        op->u.waiter.op = op;
    dlk_release_start(&engine->core, hold, op ? &op->u.waiter.wait : NULL,
                      dlk_clock_after(now, engine->core.limits.timeout_ms), now);
    dlk_engine_digest(engine, now);
    dlk_engine_send(engine);
    return op;
}

const char *dlk_engine_owner(const dlock_hold *hold)
{
    dlk_stay stay;
    dlk_engine *engine = hold->engine;
    if (!dlk_engine_enter(engine, &stay))
        return "";
    /* What is made when it is asked for changes nothing that the caller sees. */
    dlk_hold_more *more = dlk_hold_need((dlock_hold *)hold);
    if (more && !more->owner[0])
        (void)snprintf(more->owner, sizeof(more->owner), "%s:%llu", engine->uuid,
                       (unsigned long long)hold->hold.grant->number); /* it fits */
    dlk_engine_leave(engine, &stay);
    return more ? more->owner : "";
}

void dlk_engine_shed_hold(dlk_engine *engine, dlock_hold *hold)
{
    dlk_hold *first = atomic_load_explicit(&engine->freed, memory_order_relaxed);
    do
        hold->hold.next = first;
    while (!atomic_compare_exchange_weak_explicit(
        &engine->freed, &first, &hold->hold, memory_order_release, memory_order_relaxed));
}

void dlk_engine_clear_freed(dlk_engine *engine)
{
    dlk_hold *hold = atomic_exchange_explicit(&engine->freed, NULL, memory_order_acquire);
    while (hold) {
        dlk_hold *next = hold->next;
        dlk_engine_drop_hold(engine, DLK_LIST_ITEM(hold, dlock_hold, hold));
        hold = next;
    }
}

void dlk_engine_drop_hold(dlk_engine *engine, dlock_hold *hold)
{
    dlk_hold_more *more = hold->more;
    if (more) {
        dlk_event_withdraw(engine, &more->slot);
        engine->attended -= more->listens;
    }
    if (!atomic_load_explicit(&hold->hold.released, memory_order_relaxed)) {
        int64_t now = dlk_clock_now();
        dlk_release_start(&engine->core, &hold->hold, NULL, DLK_NEVER, now);
        dlk_engine_digest(engine, now);
    }
    dlk_grant *grant = hold->hold.grant;
    hold->more = NULL;
    if (more)
        dlk_wipe_free(more->ticket);
    free(more);
    if (hold != &DLK_LIST_ITEM(grant, dlk_grant_box, grant)->hold)
        free(hold);
    dlk_grant_unref(&engine->core, grant);
}
