/* The multi-lock itself: its members, their order, and its name. */
#include "multi/inner.h"
#include "multi/sum.h"

#include <assert.h>
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
        dlk_label_unref(member->terms.label);
        dlk_name_unref(&member->engine->core, member->name);
        dlk_engine_leave(member->engine, &stay);
        dlk_engine_unref(member->engine);
    }
    free(multi->name);
    free(multi);
}

bool dlk_multi_add(dlk_multi *multi, size_t index, const dlk_member *member)
{
    dlk_stay stay;
    if (!dlk_engine_enter(member->engine, &stay))
        return false;
    multi->members[index] = *member;
    dlk_name_ref(member->name);
    (void)dlk_label_ref(member->terms.label);
    dlk_engine_leave(member->engine, &stay);
    dlk_engine_ref(member->engine);
    return true;
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
    dlk_sum_key keys[DLK_MULTI_MAX];
    for (size_t i = 0; i < multi->count; i++) {
        const dlk_member *member = &multi->members[i];
        keys[i] = (dlk_sum_key){.name = member->name->key.name,
                                .kind = member->name->key.kind,
                                .uri = member->engine->uri};
    }
    for (size_t i = 1; i < multi->count; i++)
        multi->several |= multi->members[i].engine != multi->members[0].engine;
    size_t twice = dlk_sum_order(keys, multi->count, multi->order);
    if (twice < multi->count)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "%s is there twice: it would wait for itself",
                             name_of(&multi->members[twice]));
    return join_names(multi) ? DLOCK_OK : dlk_error_nomem(err);
}
