/*
 * One wait for a signal, an op that is made of others: lines up, gives the lock back, is in the line, takes
 * the lock again. Each step goes on by a job when what it has asked for is there.
 *
 * One step runs at a time. What is marked so below is under the engine's mutex, since the caller may call
 * the wait off between any two steps: the caller is told at once, and the next step clears away.
 */
#include "condition/condition.h"

#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>

typedef struct dlk_cond_wait dlk_cond_wait;

/* What came of what was asked last. True: the next step is due; false: a job does that, or it is over and
 * gone. */
typedef bool dlk_cond_step(dlk_cond_wait *it);

struct dlk_cond_wait {
    dlk_compound whole;
    dlk_job job;
    dlk_cond_step *step;
    dlk_name *line; /* referenced: a name for this wait alone */
    /* Referenced: of the lock, as the caller had it; NULL: waits without one … */
    dlk_grant *grant;
    dlk_terms terms; /* … and as it is taken again; the label is referenced */
    uint64_t owner;
    /* which of those who have had this grant, one after the other, the caller is */
    int64_t run;
    dlock_op *lined;       /* in the line, or NULL; changed under the mutex */
    dlock_op *asked;       /* the release, then the acquire, or NULL; the same */
    dlk_op_outcome answer; /* where `asked` was over at once */
    dlock_hold *signal;    /* the place in the line, signalled and not used; or NULL */
    dlock_err code;        /* how the waiting in the line ended: OK, ETIMEDOUT */
};

/* ---- being called off ---- */

static void end_early(dlk_engine *engine, dlock_op *op, dlock_err code)
{
    dlk_cond_wait *it = DLK_LIST_ITEM(op->u.compound.whole, dlk_cond_wait, whole);
    dlk_compound_end_early(engine, op, code);
    if (it->lined)
        dlk_op_request_cancel(it->lined);
    if (it->asked)
        dlk_op_request_cancel(it->asked);
}

/* ---- what is under way ---- */

/* Makes it known to whoever calls the wait off. False in a fork's child. */
static bool set(dlk_cond_wait *it, dlock_op **place, dlock_op *op)
{
    dlk_stay stay;
    if (!dlk_engine_enter(it->whole.engine, &stay))
        return false;
    *place = op;
    if (op && it->whole.op->over)
        dlk_op_request_cancel(op);
    dlk_engine_leave(it->whole.engine, &stay);
    return true;
}

static dlk_op_outcome end_op(dlk_cond_wait *it, dlock_op **place)
{
    dlock_op *op = *place;
    (void)set(it, place, NULL);
    return dlk_op_end(op);
}

/* What came of the release, or of the acquire. */
static dlk_op_outcome answer_of(dlk_cond_wait *it)
{
    dlk_op_outcome answer = it->answer;
    if (it->asked)
        answer = end_op(it, &it->asked);
    it->answer = (dlk_op_outcome){.code = DLOCK_OK};
    return answer;
}

/* ---- the end ---- */

/* Mutex held. */
static void let_go(const dlk_cond_wait *it, dlk_engine *engine)
{
    dlk_label_unref(it->terms.label);
    if (it->grant)
        dlk_grant_unref(&engine->core, it->grant);
    dlk_name_unref(&engine->core, it->line);
}

/* A signal that wasn't used goes on to the next in the line, with the place. */
static bool close_wait(dlk_cond_wait *it)
{
    dlk_stay stay;
    dlk_engine *engine = it->whole.engine;
    dlock_op *lined = it->lined;
    (void)set(it, &it->lined, NULL);
    dlock_op_free(lined);
    dlock_hold_free(it->signal);
    if (dlk_engine_enter(engine, &stay)) {
        let_go(it, engine);
        dlk_engine_leave(engine, &stay);
    }
    dlk_compound_close(&it->whole);
    free(it);
    return false;
}

/* The caller has the lock, if he had one, so the signal has done its work. Mutex held. */
static void use_signal(const dlk_cond_wait *it)
{
    if (!it->signal)
        return;
    dlk_grant *grant = it->signal->hold.grant;
    grant->used = true;
    /* One that is lost by now has gone on to another. */
    it->whole.engine->core.stats.spurious_wakes += !dlk_grant_lives(grant);
}

/* Tells the caller, unless he has been told. @p answer is taken over. */
static bool end_with(dlk_cond_wait *it, dlk_op_outcome answer)
{
    dlk_stay stay;
    dlk_engine *engine = it->whole.engine;
    dlock_op *op = it->whole.op;
    if (dlk_engine_enter(engine, &stay)) {
        if (!op->over) {
            op->hold = answer.hold;
            if (answer.hold || answer.code == DLOCK_OK)
                use_signal(it);
            dlk_compound_finish(&it->whole, answer.code, answer.error);
            answer = (dlk_op_outcome){.code = DLOCK_OK};
        }
        dlk_engine_leave(engine, &stay);
    }
    dlock_hold_free(answer.hold);
    dlk_error_clear(&answer.error);
    return close_wait(it);
}

/* ---- TAKING_AGAIN ---- */

static bool taken(dlk_cond_wait *it)
{
    dlk_op_outcome answer = answer_of(it); /* OK where there was nothing to take */
    if (answer.code != DLOCK_OK)
        return end_with(it, answer);
    answer.code = it->code;
    if (answer.code == DLOCK_ETIMEDOUT)
        answer.error = dlk_error_make(DLOCK_ETIMEDOUT, "%s: not signalled in time",
                                      it->line->key.name + it->whole.engine->prefix_size);
    return end_with(it, answer);
}

static bool take_again(dlk_cond_wait *it)
{
    dlk_engine *engine = it->whole.engine;
    it->step = taken;
    if (!it->grant)
        return true;
    /* The lock was given back with those that the caller holds yet, so it says nothing of any order. */
    dlk_acquirer who = {.owner = it->owner, .together = DLK_UNORDERED};
    dlock_op *op = dlk_engine_acquire_begin(engine, it->grant->name, &it->terms, who,
                                            DLOCK_FOREVER, &it->answer);
    (void)set(it, &it->asked, op);
    return !op || !dlk_op_then(op, &it->job);
}

/* ---- IN_LINE ---- */

static bool signalled(dlk_cond_wait *it)
{
    dlk_op_outcome answer = end_op(it, &it->lined);
    switch ((int)answer.code) {
    case DLOCK_OK:
        it->signal = answer.hold;
        break;
    case DLOCK_ELOST: /* in doubt: as if it were */
        break;
    case DLOCK_ETIMEDOUT:
    case DLOCK_EUNAVAIL: /* nobody was there at the deadline who could have said so */
    case DLOCK_EUNKNOWN:
    case DLOCK_EQUORUM:
        it->code = DLOCK_ETIMEDOUT;
        break;
    default:
        return end_with(it, answer);
    }
    dlk_error_clear(&answer.error);
    return take_again(it);
}

/* ---- GIVING_BACK ---- */

static bool given_back(dlk_cond_wait *it)
{
    dlk_op_outcome answer = answer_of(it);
    if (answer.code == DLOCK_ELOST || answer.code == DLOCK_ENOTHELD)
        return end_with(it, answer);
    dlk_error_clear(
        &answer.error); /* it is given back in the background, if it isn't yet */
    if (!it->lined) {
        it->code = DLOCK_ETIMEDOUT;
        return take_again(it);
    }
    it->step = signalled;
    return !dlk_op_then(it->lined, &it->job);
}

/* Whether the lock can be given back: held once. Mutex held. */
static dlock_err check_grant(dlk_engine *engine, dlk_grant *grant, int64_t run,
                             dlock_error **err)
{
    bool held = dlk_grant_settle(&engine->core, grant, dlk_clock_now());
    if (held && dlk_grant_moved_on(grant, run))
        return dlk_error_set(err, DLOCK_ENOTHELD, "it was released");
    if (held && grant->hold_count == 1)
        return DLOCK_OK;
    if (held)
        return dlk_error_set(err, DLOCK_EBUSY,
                             "it is held %d times over: it wouldn't be free",
                             (int)grant->hold_count);
    if (dlk_grant_state(grant) == DLOCK_LOST)
        return dlk_error_set(err, DLOCK_ELOST, "it was lost");
    return dlk_error_set(err, DLOCK_ENOTHELD, "it was released");
}

/* The caller, who has been told that it is over, keeps the lock. */
static bool give_back(dlk_cond_wait *it)
{
    dlk_stay stay;
    dlk_engine *engine = it->whole.engine;
    dlk_op_outcome failed = {.code = DLOCK_ECANCELED};
    it->step = given_back;
    if (!it->grant)
        return true;
    if (!dlk_engine_enter(engine, &stay))
        return false; /* a fork's child leaks it on purpose */
    if (!it->whole.op->over)
        failed.code = check_grant(engine, it->grant, it->run, &failed.error);
    if (failed.code == DLOCK_OK) /* NULL without memory: then in the background */
        it->asked = dlk_engine_release_start(engine, it->grant->holds);
    dlk_engine_leave(engine, &stay);
    if (failed.code != DLOCK_OK)
        return end_with(it, failed);
    return !it->asked || !dlk_op_then(it->asked, &it->job);
}

/* ---- LINING_UP ---- */

/* Without a signal; EUNKNOWN: asked, and its time was over before the answer came. */
static bool has_run_out(dlock_err code)
{
    return code == DLOCK_ETIMEDOUT || code == DLOCK_EUNKNOWN;
}

static bool lined_up(dlk_cond_wait *it)
{
    dlock_err code = dlock_op_result(it->lined);
    if (code == DLOCK_OK || code == DLOCK_EPENDING || has_run_out(code))
        return give_back(it);
    return end_with(it, end_op(it, &it->lined));
}

static void go_on(dlk_job *job)
{
    dlk_cond_wait *it = DLK_LIST_ITEM(job, dlk_cond_wait, job);
    while (it->step(it))
        ;
}

static dlock_op *line_up(dlk_cond_wait *it, const dlk_terms *terms, int64_t wait_ms)
{
    dlk_op_outcome failed;
    dlock_op *ret = it->whole.op;
    /* Who won't wait at all still lets others have the lock for a moment. */
    dlk_acquirer nobody = {.owner = 0};
    dlock_op *op = dlk_engine_acquire_begin(it->whole.engine, it->line, terms, nobody,
                                            wait_ms ? wait_ms : 1, &failed);
    it->step = lined_up;
    (void)set(it, &it->lined, op);
    if (!op && has_run_out(failed.code)) { /* before it could be waited for */
        dlk_error_clear(&failed.error);
        it->step = give_back;
        go_on(&it->job);
    } else if (!op)
        (void)end_with(it, failed);
    else if (!dlk_op_then_placed(op, &it->job))
        go_on(&it->job);
    return ret;
}

/* ---- the beginning ---- */

/* Mutex held. */
static dlock_err check_hold(dlk_engine *engine, const dlock_hold *hold, dlock_error **err)
{
    dlk_grant *grant = hold->hold.grant;
    dlock_kind kind = grant->name->key.kind;
    if (kind != DLOCK_MUTEX && (kind != DLOCK_WRITE || hold->hold.shared))
        return dlk_error_set(err, DLOCK_ENOTSUP,
                             "only a mutex, or a read/write lock's write side, can be "
                             "given back for a condition");
    if (atomic_load(&hold->hold.released))
        return dlk_error_set(err, DLOCK_ENOTHELD, "this hold was released");
    return check_grant(engine, grant, dlk_grant_run(grant), err);
}

/* Mutex held. */
static dlock_err fill(dlk_cond_wait *it, dlk_engine *engine, const dlk_name *name,
                      const dlock_hold *hold, dlock_error **err)
{
    dlock_err code = hold ? check_hold(engine, hold, err) : DLOCK_OK;
    if (code == DLOCK_OK)
        code = dlk_engine_name_again(engine, name, &it->line, err);
    if (code != DLOCK_OK || !hold)
        return code;
    dlk_grant *grant = it->grant = hold->hold.grant;
    grant->refs++;
    it->run = dlk_grant_run(grant);
    it->terms = dlk_grant_terms_of(grant);
    (void)dlk_label_ref(it->terms.label);
    it->owner = dlk_owner_is_thread(grant->owner) ? grant->owner : 0;
    return DLOCK_OK;
}

dlock_op *dlk_condition_wait_start(dlk_engine *engine, const dlk_name *name,
                                   const dlk_terms *terms, const dlock_hold *hold,
                                   int64_t wait_ms, bool awaited)
{
    dlk_stay stay;
    dlock_error *error = NULL;
    dlock_op *failed = NULL;
    dlk_cond_wait *it = calloc(1, sizeof(*it));
    if (!it)
        return dlk_op_static(DLOCK_ENOMEM);
    it->job = (dlk_job){.run = go_on, .awaited = awaited};
    if (!dlk_engine_enter(engine, &stay)) {
        free(it);
        return dlk_op_static(DLOCK_EFORKED);
    }
    dlock_err code = fill(it, engine, name, hold, &error);
    if (code != DLOCK_OK)
        failed = dlk_op_failed(engine, code, error);
    dlk_engine_leave(engine, &stay);
    if (failed) {
        free(it);
        return failed;
    }
    if (dlk_compound_begin(&it->whole, engine, end_early, &failed))
        return line_up(it, terms, wait_ms);
    if (dlk_engine_enter(engine, &stay)) {
        let_go(it, engine);
        dlk_engine_leave(engine, &stay);
    }
    free(it);
    return failed;
}
