/* Carries out what taking.h decides, each member by an operation of its engine: a call waits for that
 * one by itself, driving the member's engine; an op goes on by a job when it is over.
 *
 * Only one job of an acquire runs at a time. The taking, and the member's operation that is
 * cancelled when it is called off, are under the mutex of the first member's engine, as soon as
 * anybody can call it off; the holds that were taken are the running thread's. No member's engine is
 * entered with that mutex. */
#include "multi/inner.h"

#include "util/clock.h"

#include <stdlib.h>

typedef struct dlk_acquiring {
    dlk_multi *multi;
    dlk_engine *engine;   /* of the first member */
    dlk_taking taking;    /* under the mutex */
    dlk_multi_hold *hold; /* the caller gets it, or it is discarded */
    dlk_closing *closing; /* or NULL */
    size_t member;        /* that is asked … */
    dlock_op *asked;      /* … by this, or NULL; changed under the mutex */
    uint64_t together;    /* dlk_wait.together of all its members */
    dlock_error *error;   /* of the member that can't be had */
    dlock_err called_off; /* a call: why, or DLOCK_OK; under the mutex */
    dlk_multi_op *whole;  /* NULL: a call that waits */
    uint64_t *owners;     /* of an op: who they are was decided when it began */
} dlk_acquiring;

/* They are taken in an order that no two multi-locks contradict; it is no order of the program's. */
static _Atomic uint64_t last_together;

/* ---- being called off ---- */

static void call_off(dlk_acquiring *it)
{
    if (dlk_taking_call_off(&it->taking) && it->asked)
        dlk_op_request_cancel(it->asked);
}

/* A member's client closes, or there is no memory to hear of that. Mutex held. */
static void client_closed(void *user, dlock_err code)
{
    dlk_acquiring *it = user;
    if (it->whole && !it->whole->compound.op->over) {
        it->whole->compound.op->u.compound.end(it->engine, it->whole->compound.op, code);
    } else if (!it->whole && it->taking.state != DLK_TAKING_OVER) {
        it->called_off = code;
        call_off(it);
    }
}

/* False: nobody else knows of it, or this is a fork's child, where there are no others. */
static bool enter(dlk_acquiring *it, dlk_stay *stay)
{
    return (it->whole || it->closing) && dlk_engine_enter(it->engine, stay);
}

/* From here on it is called off when a member's client closes. That of the member which is asked ends
 * the asking, so of a single client there is nothing to hear. */
static void listen(dlk_acquiring *it)
{
    dlk_stay stay;
    if (!it->multi->several || it->closing)
        return;
    it->closing = dlk_closing_listen(it->multi, client_closed, it);
    if (it->closing)
        return;
    bool entered = enter(it, &stay);
    client_closed(it, DLOCK_ENOMEM);
    if (entered)
        dlk_engine_leave(it->engine, &stay);
}

/* ---- the actions ---- */

/* Who acquires: the calling thread where the member's setting says so, else 0. */
static uint64_t owner_of(const dlk_member *member, bool blocking)
{
    bool thread = member->owner == DLK_OWNER_THREAD ||
                  (blocking && member->owner == DLK_OWNER_AUTO);
    return thread ? dlk_thread_number() : 0;
}

/* What is done without waiting. */
static dlock_err look_or_release(dlk_multi_hold *hold, const dlk_taking_action *todo)
{
    if (todo->what == DLK_TAKING_LOOK)
        return dlock_hold_check(*dlk_multi_hold_place(hold, todo->member));
    dlk_multi_hold_drop_member(hold, todo->member);
    return DLOCK_OK;
}

/* NULL where it is decided at once. */
static dlock_op *start(dlk_acquiring *it, const dlk_taking_action *todo,
                       dlk_op_outcome *ret)
{
    const dlk_member *member = &it->multi->members[todo->member];
    dlk_acquirer who = {.owner = it->owners ? it->owners[todo->member]
                                            : owner_of(member, true),
                        .together = it->together};
    it->member = todo->member;
    return dlk_engine_acquire_begin(member->engine, member->name, &member->terms, who,
                                    todo->wait_ms, ret);
}

/* Makes it known to whoever calls it off. */
static void set_asked(dlk_acquiring *it, dlock_op *op)
{
    dlk_stay stay;
    bool entered = enter(it, &stay);
    it->asked = op;
    if (op && it->taking.state == DLK_TAKING_UNWANTED_ASKING)
        dlk_op_request_cancel(op);
    if (entered)
        dlk_engine_leave(it->engine, &stay);
}

/* What came of the asking. */
static dlock_err heard(dlk_acquiring *it, const dlk_op_outcome *outcome)
{
    *dlk_multi_hold_place(it->hold, it->member) = outcome->hold;
    if (outcome->code != DLOCK_OK)
        dlk_error_give(&it->error, outcome->error);
    return outcome->code;
}

static dlock_err answered_by(dlk_acquiring *it, dlock_op *op)
{
    set_asked(it, NULL);
    dlk_op_outcome outcome = dlk_op_end(op);
    return heard(it, &outcome);
}

/* *err has the member's own words. */
static dlock_err explain(const dlk_multi *multi, const dlk_taking_action *end,
                         dlock_error **err)
{
    const dlk_member *member = &multi->members[end->member];
    if (end->code == DLOCK_OK)
        return dlk_error_clear(err);
    switch (end->why) {
    case DLK_TAKING_MEMBER_SAID:
        break;
    case DLK_TAKING_DEADLINE:
        return dlk_error_set(err, end->code, "%s: held to the deadline",
                             member->name->key.name + member->engine->prefix_size);
    case DLK_TAKING_TOO_LATE:
        return dlk_error_set(
            err, end->code,
            "a member's lease was over before the last member was granted");
    }
    return end->code;
}

/* The caller is told with the mutex that decided it: nobody calls it off in between. */
static void tell(dlk_acquiring *it, const dlk_taking_action *end)
{
    (void)explain(it->multi, end, &it->error); /* the code is in `end` */
    if (!it->whole)
        return; /* it is the caller */
    if (end->code == DLOCK_OK) {
        it->whole->compound.op->hold = dlk_multi_hold_give(it->hold);
        it->hold = NULL;
    }
    dlk_compound_finish(&it->whole->compound, end->code, it->error);
    it->error = NULL;
}

/* What is to be done next, now that this came of the last. */
static dlk_taking_action next(dlk_acquiring *it, dlock_err result)
{
    dlk_stay stay;
    bool entered = enter(it, &stay);
    int64_t now = dlk_taking_needs_time(&it->taking, result) ? dlk_clock_now() : 0;
    dlk_taking_action todo = dlk_taking_done(&it->taking, result, now);
    if (todo.what == DLK_TAKING_FINISH && (entered || !it->whole))
        tell(it, &todo);
    if (entered)
        dlk_engine_leave(it->engine, &stay);
    return todo;
}

static void clear(dlk_acquiring *it)
{
    if (it->closing)
        dlk_closing_end(it->closing);
    if (it->hold)
        dlk_multi_hold_discard(it->hold);
    dlk_error_clear(&it->error);
}

/* Fills it; what is to be done first. hold is NULL without memory. */
static dlk_taking_action begin(dlk_acquiring *it, dlk_multi *multi, int64_t wait_ms)
{
    it->multi = multi;
    it->together = atomic_fetch_add(&last_together, 1) + 1;
    it->engine = multi->members[0].engine;
    it->hold = dlk_multi_hold_new(multi);
    return dlk_taking_begin(&it->taking, multi->order, multi->count, wait_ms,
                            dlk_clock_now());
}

/* ---- in a call that waits ---- */

static dlock_err ask(dlk_acquiring *it, const dlk_taking_action *todo)
{
    dlk_op_outcome outcome;
    dlock_op *op = start(it, todo, &outcome);
    if (!op)
        return heard(it, &outcome);
    listen(it);
    set_asked(it, op);
    (void)dlock_op_wait(op, DLOCK_FOREVER); /* it is over afterwards */
    return answered_by(it, op);
}

/* Called off, or what it came to. */
static dlock_err result_of(dlk_acquiring *it, const dlk_taking_action *end,
                           dlock_hold **ret, dlock_error **err)
{
    if (end->what == DLK_TAKING_LEAVE)
        return it->called_off == DLOCK_ENOMEM
                   ? dlk_error_nomem(err)
                   : dlk_error_set(err, it->called_off, "the client was closed");
    if (end->code == DLOCK_OK) {
        *ret = dlk_multi_hold_give(it->hold);
        it->hold = NULL;
        return dlk_error_clear(err);
    }
    dlk_error_give(err, it->error);
    it->error = NULL;
    return end->code;
}

dlock_err dlk_multi_acquire(dlk_multi *multi, int64_t wait_ms, dlock_hold **ret,
                            dlock_error **err)
{
    dlk_acquiring it = {0};
    if (dlk_multi_closes(multi))
        return dlk_error_set(err, DLOCK_ECLOSED, "the client is closed");
    dlk_taking_action todo = begin(&it, multi, wait_ms);
    if (!it.hold)
        return dlk_error_nomem(err);
    while (todo.what != DLK_TAKING_FINISH && todo.what != DLK_TAKING_LEAVE)
        todo = next(&it, todo.what == DLK_TAKING_ASK ? ask(&it, &todo)
                                                     : look_or_release(it.hold, &todo));
    dlock_err code = result_of(&it, &todo, ret, err);
    clear(&it);
    return code;
}

/* ---- as an op ---- */

typedef struct dlk_acquiring_op {
    dlk_multi_op whole;
    dlk_acquiring it;
    dlk_job job;
    uint64_t owners[DLK_MULTI_MAX];
} dlk_acquiring_op;

/* Cancelled, or a client closes: the caller is told now, and what was taken goes back. */
static void end_early(dlk_engine *engine, dlock_op *op, dlock_err code)
{
    dlk_compound_end_early(engine, op, code);
    call_off(&DLK_LIST_ITEM(op->u.compound.whole, dlk_acquiring_op, whole.compound)->it);
}

static void close_op(dlk_acquiring_op *op)
{
    clear(&op->it);
    dlk_multi_op_close(&op->whole);
    free(op);
}

/* Goes on as far as it can without waiting. */
static void go_on(dlk_acquiring_op *op, dlk_taking_action todo)
{
    dlk_acquiring *it = &op->it;
    while (todo.what != DLK_TAKING_FINISH && todo.what != DLK_TAKING_LEAVE) {
        dlk_op_outcome outcome;
        if (todo.what != DLK_TAKING_ASK) {
            todo = next(it, look_or_release(it->hold, &todo));
            continue;
        }
        dlock_op *asked = start(it, &todo, &outcome);
        set_asked(it, asked);
        if (asked && dlk_op_then(asked, &op->job))
            return; /* it may have gone on already, and be over */
        todo = next(it, asked ? answered_by(it, asked) : heard(it, &outcome));
    }
    close_op(op);
}

static void answered(dlk_job *job)
{
    dlk_acquiring_op *op = DLK_LIST_ITEM(job, dlk_acquiring_op, job);
    go_on(op, next(&op->it, answered_by(&op->it, op->it.asked)));
}

/* Who can't hear of clients that close gives up at once; that of the only one ends what it asks. */
dlock_op *dlk_multi_acquire_start(dlk_multi *multi, int64_t wait_ms)
{
    if (dlk_multi_closes(multi))
        return dlk_op_answered(multi->members[0].engine, DLOCK_ECLOSED,
                               "the client is closed");
    dlock_op *ret = dlk_op_static(DLOCK_ENOMEM);
    dlk_acquiring_op *op = calloc(1, sizeof(*op));
    if (!op)
        return ret;
    op->job.run = answered;
    for (size_t i = 0; i < multi->count; i++)
        op->owners[i] = owner_of(&multi->members[i], false);
    op->it.owners = op->owners;
    op->it.whole = &op->whole;
    dlk_taking_action first = begin(&op->it, multi, wait_ms);
    if (op->it.hold && dlk_multi_op_begin(&op->whole, multi, end_early, &ret)) {
        listen(&op->it);
        go_on(op, first);
        return ret;
    }
    clear(&op->it);
    free(op);
    return ret;
}
