/* The multi-lock itself: its members, their order, and taking them in a call that waits. What
 * doesn't wait is in multi_op.c, what it gives in multi_hold.c. */
#include "api/multi_inner.h"

#include "util/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dlk_multi *dlk_multi_new(size_t count)
{
    dlk_multi *multi = calloc(1, sizeof(*multi) + count * sizeof(multi->members[0]));
    if (multi) {
        multi->refs = 1;
        multi->count = count;
    }
    return multi;
}

void dlk_multi_ref(dlk_multi *multi)
{
    atomic_fetch_add_explicit(&multi->refs, 1, memory_order_relaxed);
}

void dlk_multi_unref(dlk_multi *multi)
{
    dlk_stay stay;
    if (atomic_fetch_sub_explicit(&multi->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < multi->count; i++) {
        dlk_member *member = &multi->members[i];
        if (!member->engine || !dlk_engine_enter(member->engine, &stay))
            continue; /* a fork's child leaks it on purpose */
        dlk_lock_unref(member);
        dlk_engine_leave(member->engine, &stay);
        dlk_engine_unref(member->engine);
    }
    free(multi->name);
    free(multi);
}

/* ---- the order ---- */

/* By name first: programs may reach one server under several addresses. */
static int compare(const dlk_member *a, const dlk_member *b)
{
    int by = strcmp(a->name->key.name, b->name->key.name);
    if (by == 0)
        by = (int)a->name->key.kind - (int)b->name->key.kind;
    return by != 0 ? by : strcmp(a->engine->uri, b->engine->uri);
}

static void sort(dlk_multi *multi)
{
    for (size_t i = 0; i < multi->count; i++) {
        size_t at = i;
        for (; at > 0 &&
               compare(&multi->members[i], &multi->members[multi->order[at - 1]]) < 0;
             at--)
            multi->order[at] = multi->order[at - 1];
        multi->order[at] = (unsigned char)i;
    }
}

static const char *name_of(const dlk_member *member)
{
    return member->name->key.name + member->engine->prefix_size;
}

static bool join_names(dlk_multi *multi)
{
    size_t size = 0;
    for (size_t i = 0; i < multi->count; i++)
        size += strlen(name_of(&multi->members[i])) + 1;
    assert(size > 0); /* of no locks none is made */
    char *to = multi->name = malloc(size);
    if (!to)
        return false;
    for (size_t i = 0; i < multi->count; i++) {
        const char *name = name_of(&multi->members[i]);
        size_t length = strlen(name);
        memcpy(to, name, length);
        to += length;
        *to++ = '+';
    }
    to[-1] = '\0';
    return true;
}

dlock_err dlk_multi_finish(dlk_multi *multi, dlock_error **err)
{
    sort(multi);
    for (size_t i = 1; i < multi->count; i++) {
        const dlk_member *member = &multi->members[multi->order[i]];
        if (compare(&multi->members[multi->order[i - 1]], member) == 0)
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "%s is there twice: it would wait for itself",
                                 name_of(member));
    }
    return join_names(multi) ? DLOCK_OK : dlk_error_nomem(err);
}

/* ---- taking them ---- */

void dlk_multi_undo(dlk_multi *multi, dlock_hold **holds)
{
    for (size_t i = multi->count; i-- > 0;) {
        dlock_hold **hold = &holds[multi->order[i]];
        if (DLK_PLANTED(MULTI_KEEPS_MEMBER) && i == 0)
            continue;
        dlock_hold_free(*hold);
        *hold = NULL;
    }
}

/* Who acquires: the calling thread where the member's setting says so, else 0. */
uint64_t dlk_multi_owner(const dlk_member *member, bool blocking)
{
    bool thread = member->owner == DLK_OWNER_THREAD ||
                  (blocking && member->owner == DLK_OWNER_AUTO);
    return thread ? dlk_thread_number() : 0;
}

void dlk_taking_begin(dlk_taking *taking, dlk_multi *multi, int64_t wait_ms)
{
    *taking = (dlk_taking){.multi = multi, .wait_ms = wait_ms};
    taking->until = dlk_clock_after(dlk_clock_now(), wait_ms);
}

int64_t dlk_taking_left(const dlk_taking *taking)
{
    if (taking->wait_ms <= 0)
        return taking->wait_ms; /* once, or for ever */
    int64_t left = taking->until - dlk_clock_now();
    return left > 0 ? (left + DLK_NS_PER_MS - 1) / DLK_NS_PER_MS : 0;
}

/* What a member's answer comes to. No code of dlock_err says it: a member may answer with any of
 * them, ELOST too, and none of its own codes may pass for TOO_LATE, which alone begins anew. */
typedef enum outcome {
    MORE,     /* it is there, and another one is to be asked */
    ALL,      /* all are there */
    TOO_LATE, /* all were, but not at the same time: a lease was over before the last came */
    REFUSED, /* it can't be had, and its code says why */
} outcome;

static outcome outcome_of(const dlk_taking *taking, dlock_err code)
{
    const dlk_multi *multi = taking->multi;
    if (code != DLOCK_OK)
        return REFUSED;
    if (taking->next + 1 < multi->count)
        return MORE;
    for (size_t i = 0; i < multi->count; i++)
        if (dlock_hold_check(taking->holds[i]) != DLOCK_OK)
            return TOO_LATE;
    return ALL;
}

static bool give_whole(dlk_taking *taking, dlock_err *code, dlock_hold **ret,
                       dlock_error **err)
{
    dlock_hold *whole = dlk_multi_hold_new(taking->multi, taking->holds);
    if (whole) {
        *ret = whole;
        return false;
    }
    *code = dlk_error_nomem(err);
    dlk_multi_undo(taking->multi, taking->holds);
    return false;
}

/* Each such round has lasted as long as a lease, so it takes its time, however often. */
static bool begin_anew(dlk_taking *taking, dlock_err *code, dlock_error **err)
{
    dlk_multi_undo(taking->multi, taking->holds);
    taking->next = 0;
    if (dlk_taking_left(taking) != 0)
        return true;
    *code = dlk_error_set(err, DLOCK_ELOST,
                          "a member's lease was over before the last member was granted");
    return false;
}

static bool refused(dlk_taking *taking, const char *member, dlock_err *code,
                    dlock_error **err)
{
    dlk_multi_undo(taking->multi, taking->holds);
    if (*code == DLOCK_EBUSY && taking->wait_ms != 0) /* the last moment is a mere try */
        *code = dlk_error_set(err, DLOCK_ETIMEDOUT, "%s: held to the deadline", member);
    return false;
}

bool dlk_taking_answered(dlk_taking *taking, dlock_hold *got, dlock_err *code,
                         dlock_hold **ret, dlock_error **err)
{
    size_t index = dlk_taking_index(taking);
    taking->holds[index] = got;
    switch (outcome_of(taking, *code)) {
    case MORE:
        taking->next++;
        return true;
    case ALL:
        return give_whole(taking, code, ret, err);
    case TOO_LATE:
        return begin_anew(taking, code, err);
    case REFUSED:
        break;
    }
    return refused(taking, name_of(&taking->multi->members[index]), code, err);
}

dlock_err dlk_multi_acquire(dlk_multi *multi, int64_t wait_ms, dlock_hold **ret,
                            dlock_error **err)
{
    dlk_taking taking;
    dlock_hold *got;
    dlock_err code;
    dlk_taking_begin(&taking, multi, wait_ms);
    do {
        const dlk_member *member = &multi->members[dlk_taking_index(&taking)];
        got = NULL;
        code = dlk_engine_acquire(member->engine, member->name, &member->terms,
                                  dlk_multi_owner(member, true), dlk_taking_left(&taking),
                                  &got, err);
    } while (dlk_taking_answered(&taking, got, &code, ret, err));
    return code == DLOCK_OK ? dlk_error_clear(err) : code;
}
