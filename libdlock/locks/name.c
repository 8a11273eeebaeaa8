/* The names one client uses, by kind and text: a chained hash table that grows. */
#include "locks/inner.h"
#include "util/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_of(dlock_kind kind, const char *name, size_t size)
{
    uint64_t hash = dlk_hash(DLK_HASH_BEGIN ^ (uint64_t)kind, name, size);
    return (uint32_t)(hash ^ hash >> 32);
}

static bool grow(dlk_core *core)
{
    size_t buckets = core->name_buckets ? core->name_buckets * 2 : 64;
    dlk_name **names = calloc(buckets, sizeof(*names));
    if (!names)
        return core->name_buckets != 0; /* long chains are slower, not wrong */
    for (size_t i = 0; i < core->name_buckets; i++) {
        for (dlk_name *name = core->names[i], *next; name; name = next) {
            next = name->next;
            name->next = names[name->hash % buckets];
            names[name->hash % buckets] = name;
        }
    }
    free(core->names);
    core->names = names;
    core->name_buckets = buckets;
    return true;
}

dlk_name *dlk_name_find(dlk_core *core, dlock_kind kind, const char *text, size_t size,
                        dlk_name *after)
{
    if (!core->name_buckets)
        return NULL;
    uint32_t hash = after ? after->hash : hash_of(kind, text, size);
    dlk_name *name = after ? after->next : core->names[hash % core->name_buckets];
    for (; name; name = name->next)
        if (name->hash == hash && name->key.kind == kind && name->key.size == size &&
            memcmp(name->key.name, text, size) == 0)
            return name;
    return NULL;
}

static bool in_use(const dlk_name *name)
{
    if (name->trying || name->queue.first)
        return true;
    DLK_CHAIN_FOR (it, &name->grants)
        if (dlk_grant_lives(DLK_LIST_ITEM(it, dlk_grant, link)))
            return true;
    return false;
}

dlk_name *dlk_name_rival(dlk_core *core, const dlk_name *name)
{
    const dlk_key *key = &name->key;
    dlk_name *other = NULL;
    while ((other = dlk_name_find(core, key->kind, key->name, key->size, other)))
        if (other != name && other->agreed != name->agreed && in_use(other))
            return other;
    return NULL;
}

bool dlk_name_add(dlk_core *core, dlk_name *name)
{
    if (core->name_count >= core->name_buckets && !grow(core))
        return false;
    name->hash = hash_of(name->key.kind, name->key.name, name->key.size);
    name->twin = false;
    dlk_name *other = NULL;
    while ((other = dlk_name_find(core, name->key.kind, name->key.name, name->key.size,
                                  other)))
        name->twin = other->twin = true;
    dlk_name **chain = &core->names[name->hash % core->name_buckets];
    name->next = *chain;
    *chain = name;
    core->name_count++;
    name->refs = 1;
    name->trying = NULL;
    name->queue = name->grants = (dlk_chain){NULL};
    name->idlers = 0;
    return true;
}

void dlk_name_drop(dlk_core *core, dlk_name *name)
{
    assert(name->refs == 0);
    assert(!name->key.watched); /* whoever left the line last has seen to it */
    dlk_name **chain = &core->names[name->hash % core->name_buckets];
    while (*chain != name)
        chain = &(*chain)->next;
    *chain = name->next;
    core->name_count--;
    core->port.free_name(core->port.world, name);
}
