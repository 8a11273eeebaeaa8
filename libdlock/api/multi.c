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
    if (atomic_fetch_sub_explicit(&multi->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < multi->count; i++) {
        dlk_member *member = &multi->members[i];
        if (!member->engine || !dlk_engine_enter(member->engine))
            continue; /* a fork's child leaks it on purpose */
        dlk_name_unref(&member->engine->core, member->name);
        dlk_engine_leave(member->engine);
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

int64_t dlk_multi_time_left(int64_t wait_ms, int64_t until)
{
    if (wait_ms <= 0)
        return wait_ms; /* once, or for ever */
    int64_t left = until - dlk_clock_now();
    return left > 0 ? (left + DLK_NS_PER_MS - 1) / DLK_NS_PER_MS : 0;
}

bool dlk_multi_all_valid(const dlk_multi *multi, dlock_hold *const *holds)
{
    for (size_t i = 0; i < multi->count; i++)
        if (dlock_hold_check(holds[i]) != DLOCK_OK)
            return false;
    return true;
}

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

static dlock_err take_all(dlk_multi *multi, int64_t wait_ms, int64_t until,
                          dlock_hold **holds, dlock_error **err)
{
    for (size_t i = 0; i < multi->count; i++) {
        const dlk_member *member = &multi->members[multi->order[i]];
        dlock_err code = dlk_engine_acquire(
            member->engine, member->name, &member->terms, dlk_multi_owner(member, true),
            dlk_multi_time_left(wait_ms, until), &holds[multi->order[i]], err);
        if (code == DLOCK_EBUSY && wait_ms != 0) /* the last moment is a mere try */
            return dlk_error_set(err, DLOCK_ETIMEDOUT, "%s: held to the deadline",
                                 name_of(member));
        if (code != DLOCK_OK)
            return code;
    }
    return DLOCK_OK;
}

dlock_err dlk_multi_acquire(dlk_multi *multi, int64_t wait_ms, dlock_hold **ret,
                            dlock_error **err)
{
    dlock_hold *holds[DLK_MULTI_MAX] = {NULL};
    int64_t until = dlk_clock_after(dlk_clock_now(), wait_ms);
    dlock_err code;
    do {
        code = take_all(multi, wait_ms, until, holds, err);
        if (code == DLOCK_OK && dlk_multi_all_valid(multi, holds)) {
            *ret = dlk_multi_hold_new(multi, holds);
            if (*ret)
                return dlk_error_clear(err);
            code = dlk_error_nomem(err);
        } else if (code == DLOCK_OK) {
            code = dlk_error_set(err, DLOCK_ELOST, dlk_multi_too_late);
        }
        dlk_multi_undo(multi, holds);
    } while (code == DLOCK_ELOST && wait_ms != 0 &&
             dlk_multi_time_left(wait_ms, until) != 0);
    return code;
}
