/* The same for every member at once, as an op: it is over when all of them are. */
#include "multi/inner.h"
#include "multi/sum.h"

#include <stdlib.h>

typedef struct dlk_each_part {
    dlk_job job;
    struct dlk_each *of;
    dlock_op *op;
} dlk_each_part;

typedef struct dlk_each {
    dlk_multi_op whole;
    _Atomic size_t pending;
    dlk_each_part parts[DLK_MULTI_MAX];
} dlk_each;

/* Those that were over when it was called off, too: nobody hears of it any more. */
static void finish(dlk_each *each, dlock_err code, dlock_error *error)
{
    dlk_stay stay;
    dlk_compound *whole = &each->whole.compound;
    bool told = true;
    if (dlk_engine_enter(whole->engine, &stay)) {
        told = whole->op->over;
        if (!told)
            dlk_compound_finish(whole, code, error);
        dlk_engine_leave(whole->engine, &stay);
    }
    if (told)
        dlk_error_clear(&error);
    dlk_multi_op_close(&each->whole);
    free(each);
}

/* In the order of releasing, as who waits for a release hears them. */
static void all_done(dlk_each *each)
{
    const dlk_multi *multi = each->whole.multi;
    dlock_err worst = DLOCK_OK;
    dlock_error *error = NULL;
    for (size_t i = multi->count; i-- > 0;) {
        dlock_op *op = each->parts[multi->order[i]].op;
        dlock_err code = dlock_op_result(op);
        if (dlk_sum_worse(worst, code)) {
            worst = code;
            dlk_error_give(&error, dlk_error_copy(dlock_op_error(op)));
        }
        dlock_op_free(op);
    }
    finish(each, worst, error);
}

/* So many less are to come. */
static void some_done(dlk_each *each, size_t count)
{
    if (atomic_fetch_sub_explicit(&each->pending, count, memory_order_acq_rel) == count)
        all_done(each);
}

static void part_done(dlk_job *job)
{
    some_done(DLK_LIST_ITEM(job, dlk_each_part, job)->of, 1);
}

static dlk_each *begin(dlk_multi *multi, dlock_op **ret_op)
{
    dlk_each *each = calloc(1, sizeof(*each));
    if (!each) {
        *ret_op = dlk_op_static(DLOCK_ENOMEM);
        return NULL;
    }
    /* When it is called off the members' go on; there is nobody to hear of it. */
    if (dlk_multi_op_begin(&each->whole, multi, dlk_compound_end_early, ret_op))
        return each;
    free(each);
    return NULL;
}

dlock_op *dlk_multi_each(dlock_hold *hold, dlk_group_start *start, int64_t argument)
{
    dlock_op *op;
    dlk_multi *multi = dlk_multi_hold_of(hold)->multi;
    dlk_each *each = begin(multi, &op);
    size_t count = multi->count;
    /* Without memory for it all is done all the same, a release at least; nobody hears of it. */
    for (size_t i = count; !each && i-- > 0;)
        dlock_op_free(start(dlk_multi_member(hold, multi->order[i]), argument));
    if (!each)
        return op;
    atomic_store(&each->pending, count + 1);
    size_t done = 1; /* and we are no more in the way */
    for (size_t i = count; i-- > 0;) {
        dlk_each_part *part = &each->parts[multi->order[i]];
        *part = (dlk_each_part){.job = {.run = part_done}, .of = each};
        part->op = start(dlk_multi_member(hold, multi->order[i]), argument);
        if (!dlk_op_then(part->op, &part->job))
            done++;
    }
    some_done(each, done);
    return op;
}
