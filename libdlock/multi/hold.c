/* The hold of a multi-lock: what its members say, put together. */
#include "multi/inner.h"
#include "multi/sum.h"

#include "util/clock.h"

#include <stdlib.h>

static const dlk_group_hold_type hold_type;

static void unref(dlk_multi_hold *whole)
{
    if (atomic_fetch_sub_explicit(&whole->refs, 1, memory_order_acq_rel) != 1)
        return;
    dlk_engine *engine = whole->hold.engine;
    dlk_multi_unref(whole->multi);
    free(whole);
    dlk_engine_unref(engine);
}

dlk_multi_hold *dlk_multi_hold_new(dlk_multi *multi)
{
    dlk_multi_hold *whole =
        calloc(1, sizeof(*whole) + multi->count * sizeof(whole->members[0]));
    if (!whole)
        return NULL;
    whole->refs = 1;
    whole->multi = multi;
    dlk_multi_ref(multi);
    whole->reported = DLOCK_HELD;
    whole->hold.engine = multi->members[0].engine;
    dlk_engine_ref(whole->hold.engine);
    dlk_hold_more_init(&whole->more, &whole->hold);
    whole->more.group = &hold_type;
    whole->more.group_name = multi->name;
    return whole;
}

dlock_hold **dlk_multi_hold_place(dlk_multi_hold *whole, size_t index)
{
    return &whole->members[index].hold;
}

void dlk_multi_hold_drop_member(dlk_multi_hold *whole, size_t index)
{
    dlock_hold_free(whole->members[index].hold);
    whole->members[index].hold = NULL;
}

dlock_hold *dlk_multi_hold_give(dlk_multi_hold *whole)
{
    return &whole->hold;
}

void dlk_multi_hold_discard(dlk_multi_hold *whole)
{
    unref(whole);
}

/* ---- asked without I/O ---- */

/* By its holder, or because its client, the first member's, was closed: that is final. */
static bool is_released(const dlk_multi_hold *whole)
{
    return atomic_load_explicit(&whole->released, memory_order_acquire) ||
           atomic_load_explicit(&whole->members[0].hold->hold.released,
                                memory_order_acquire);
}

static dlock_err check(const dlock_hold *hold, int64_t *left_ns)
{
    const dlk_multi_hold *whole = dlk_multi_hold_of(hold);
    int64_t left_ms[DLK_MULTI_MAX];
    dlock_err worst = DLOCK_OK;
    *left_ns = 0;
    if (dlk_engine_forked(hold->engine))
        return DLOCK_EFORKED;
    if (is_released(whole))
        return DLOCK_ENOTHELD;
    for (size_t i = 0; i < whole->multi->count; i++) {
        dlock_err code = dlock_hold_check(whole->members[i].hold);
        if (dlk_sum_worse(worst, code))
            worst = code;
        left_ms[i] = dlock_hold_remaining_ms(whole->members[i].hold);
    }
    if (worst == DLOCK_OK)
        *left_ns = dlk_sum_least(left_ms, whole->multi->count) * DLK_NS_PER_MS;
    return worst;
}

static dlock_state state(const dlock_hold *hold)
{
    const dlk_multi_hold *whole = dlk_multi_hold_of(hold);
    dlock_state states[DLK_MULTI_MAX];
    int64_t left;
    dlock_err code = check(hold, &left);
    if (code != DLOCK_OK)
        return code == DLOCK_ENOTHELD ? DLOCK_RELEASED : DLOCK_LOST;
    for (size_t i = 0; i < whole->multi->count; i++)
        states[i] = dlock_hold_state(whole->members[i].hold);
    return dlk_sum_state(states, whole->multi->count);
}

static int64_t ttl_ms(const dlock_hold *hold)
{
    const dlk_multi_hold *whole = dlk_multi_hold_of(hold);
    int64_t ttls[DLK_MULTI_MAX];
    for (size_t i = 0; i < whole->multi->count; i++)
        ttls[i] = dlock_hold_ttl_ms(whole->members[i].hold);
    return dlk_sum_least(ttls, whole->multi->count);
}

static dlock_err feed(dlock_hold *hold)
{
    const dlk_multi_hold *whole = dlk_multi_hold_of(hold);
    dlock_err code = DLOCK_OK;
    for (size_t i = 0; i < whole->multi->count && code == DLOCK_OK; i++)
        code = dlock_hold_feed(whole->members[i].hold);
    return code;
}

/* ---- events ---- */

static void keep(dlk_hold_watch *watch)
{
    dlk_multi_hold *whole = DLK_LIST_ITEM(watch, dlk_member_hold, watch)->of;
    atomic_fetch_add_explicit(&whole->refs, 1, memory_order_relaxed);
}

/* The members' states as they are, without what checking them would do. */
static dlock_state state_now(const dlk_multi_hold *whole)
{
    dlock_state states[DLK_MULTI_MAX];
    for (size_t i = 0; i < whole->multi->count; i++)
        states[i] = dlk_grant_state(whole->members[i].hold->hold.grant);
    return dlk_sum_state(states, whole->multi->count);
}

static void report(dlk_multi_hold *whole, bool revoked)
{
    dlk_engine *engine = whole->hold.engine;
    dlk_hold_more *more = &whole->more;
    dlk_sum_news news = dlk_sum_tell(whole->reported, state_now(whole), revoked);
    whole->reported = news.state;
    if (!more->slot.armed)
        return;
    if (news.revoked)
        more->revoke_news = true;
    if (news.changed && news.state == DLOCK_LOST)
        more->lost_news = true;
    else if (news.changed)
        more->state_news =
            news.state == DLOCK_HELD ? DLOCK_EVENT_HELD : DLOCK_EVENT_SUSPECT;
    if (news.revoked || news.changed)
        dlk_event_push(engine, &more->slot);
}

static void member_changed(dlk_job *job)
{
    dlk_stay stay;
    dlk_member_hold *mine = DLK_LIST_ITEM(job, dlk_member_hold, watch.job);
    dlk_multi_hold *whole = mine->of;
    dlk_engine *theirs = whole->multi->members[mine - whole->members].engine;
    bool revoked = false;
    if (dlk_engine_enter(theirs, &stay)) {
        mine->watch.queued = false; /* what changes from now on is told anew */
        revoked = mine->watch.revoked;
        mine->watch.revoked = false;
        dlk_engine_leave(theirs, &stay);
    }
    if (dlk_engine_enter(whole->hold.engine, &stay)) {
        if (!whole->freed && !is_released(whole))
            report(whole, revoked);
        dlk_engine_leave(whole->hold.engine, &stay);
    }
    unref(whole);
}

/* Listens to a member; false without memory. */
static bool listen_to(dlk_multi_hold *whole, size_t index)
{
    dlk_stay stay;
    dlk_member_hold *mine = &whole->members[index];
    dlock_hold *member = mine->hold;
    if (!dlk_engine_enter(member->engine, &stay))
        return true; /* in a fork's child nobody ever hears of anything */
    dlk_hold_more *more = dlk_hold_need(member);
    if (more && !mine->of) { /* once: its job may still be queued from an earlier time */
        mine->watch = (dlk_hold_watch){.job = {.run = member_changed}, .keep = keep};
        mine->of = whole;
    }
    if (more)
        more->watch = &mine->watch;
    if (more)
        dlk_event_listen(member->engine, more);
    dlk_engine_send(member->engine);
    dlk_engine_leave(member->engine, &stay);
    return more != NULL;
}

static void listen_no_more(dlk_multi_hold *whole)
{
    dlk_stay stay;
    for (size_t i = 0; i < whole->multi->count; i++) {
        dlock_hold *member = whole->members[i].hold;
        if (!dlk_engine_enter(member->engine, &stay))
            return;
        if (member->more)
            member->more->watch = NULL;
        dlk_engine_leave(member->engine, &stay);
    }
}

/* From here on nothing is reported, whatever happens. */
static void disarm(dlk_multi_hold *whole)
{
    dlk_stay stay;
    if (!dlk_engine_enter(whole->hold.engine, &stay))
        return;
    whole->more.lost_news = false;
    dlk_event_withdraw(whole->hold.engine, &whole->more.slot);
    dlk_engine_leave(whole->hold.engine, &stay);
}

static dlock_err notify(dlock_hold *hold, uint64_t tag)
{
    dlk_stay stay;
    dlk_multi_hold *whole = dlk_multi_hold_of(hold);
    int64_t left;
    if (!dlk_engine_enter(hold->engine, &stay))
        return DLOCK_EFORKED;
    whole->more.slot.tag = tag;
    whole->more.slot.armed = true;
    whole->listens = true;
    dlk_engine_leave(hold->engine, &stay);
    for (size_t i = 0; i < whole->multi->count; i++) {
        if (listen_to(whole, i))
            continue;
        listen_no_more(whole);
        disarm(whole);
        return DLOCK_ENOMEM;
    }
    /* What happened before we listened is seen here, and then no event comes. */
    dlock_err code = check(hold, &left);
    if (code != DLOCK_OK && dlk_engine_enter(hold->engine, &stay)) {
        whole->reported = DLOCK_LOST;
        dlk_engine_leave(hold->engine, &stay);
        disarm(whole);
    }
    return code;
}

/* ---- the end ---- */

/* True for the first who releases it. */
static bool begin_release(dlk_multi_hold *whole)
{
    return !atomic_exchange_explicit(&whole->released, true, memory_order_acq_rel);
}

static dlock_err release(dlock_hold *hold, dlock_error **err)
{
    dlk_multi_hold *whole = dlk_multi_hold_of(hold);
    dlock_err worst = DLOCK_OK;
    if (dlk_engine_forked(hold->engine))
        return dlk_error_set(err, DLOCK_EFORKED,
                             "the hold belongs to the parent process");
    if (!begin_release(whole))
        return dlk_error_set(err, DLOCK_ENOTHELD, "this hold was released before");
    for (size_t i = whole->multi->count; i-- > 0;) {
        dlock_error *error = NULL;
        dlock_err code =
            dlk_engine_release(whole->members[whole->multi->order[i]].hold, &error);
        if (dlk_sum_worse(worst, code)) {
            worst = code;
            dlk_error_give(err, error);
        } else {
            dlk_error_clear(&error);
        }
    }
    return worst == DLOCK_OK ? dlk_error_clear(err) : worst;
}

static dlock_op *release_member(dlock_hold *member, int64_t unused)
{
    (void)unused;
    return dlock_hold_release_start(member);
}

static dlock_op *release_start(dlock_hold *hold)
{
    if (dlk_engine_forked(hold->engine))
        return dlk_op_static(DLOCK_EFORKED);
    if (!begin_release(dlk_multi_hold_of(hold)))
        return dlk_op_answered(hold->engine, DLOCK_ENOTHELD,
                               "this hold was released before");
    return dlk_multi_each(hold, release_member, 0);
}

static void free_hold(dlock_hold *hold)
{
    dlk_stay stay;
    dlk_multi_hold *whole = dlk_multi_hold_of(hold);
    if (whole->listens)
        listen_no_more(whole);
    if (whole->listens && dlk_engine_enter(hold->engine, &stay)) {
        whole->freed = true; /* a job that is still queued leaves the members alone */
        dlk_event_withdraw(hold->engine, &whole->more.slot);
        dlk_engine_leave(hold->engine, &stay);
    }
    for (size_t i = whole->multi->count; i-- > 0;)
        dlk_multi_hold_drop_member(whole, whole->multi->order[i]);
    unref(whole);
}

static const dlk_group_hold_type hold_type = {
    .check = check,
    .state = state,
    .ttl_ms = ttl_ms,
    .member = dlk_multi_member,
    .feed = feed,
    .notify = notify,
    .release = release,
    .release_start = release_start,
    .free = free_hold,
    .each = dlk_multi_each,
};
