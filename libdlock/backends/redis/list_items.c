/* What a list has found; see the header. */
#include "backends/redis/list_items.h"

#include "util/grow.h"

#include <stdlib.h>
#include <string.h>

bool dlk_redis_items_keep(dlk_redis_items *all, const dlk_redis_held *one, bool named)
{
    dlk_redis_found *items =
        dlk_grow(all->items, all->count, &all->capacity, sizeof(*items));
    if (!items)
        return false;
    all->items = items;
    dlk_redis_found *into = &all->items[all->count];
    *into = (dlk_redis_found){.name = strdup(one->name),
                              .owner = strdup(one->owner),
                              .client = strdup(one->client),
                              .left = one->left,
                              .taken = one->taken,
                              .named = named};
    all->count++; /* also when a copy failed: dlk_redis_items_free frees it */
    return into->name && into->owner && into->client;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const dlk_redis_found *)a)->name, ((const dlk_redis_found *)b)->name);
}

void dlk_redis_items_sort(dlk_redis_items *all)
{
    if (all->count == 0)
        return;
    qsort(all->items, all->count, sizeof(*all->items), by_name);
    size_t kept = 1;
    for (size_t i = 1; i < all->count; i++) {
        dlk_redis_found *item = &all->items[i];
        if (strcmp(item->name, all->items[kept - 1].name) != 0)
            all->items[kept++] = *item;
        else
            dlk_redis_found_free(item);
    }
    all->count = kept;
}

dlk_redis_held dlk_redis_held_of(const dlk_redis_found *item)
{
    return (dlk_redis_held){item->name, item->owner, item->client, item->left,
                            item->taken};
}

bool dlk_redis_items_find(const void *all, const char *name, dlk_redis_held *ret)
{
    const dlk_redis_items *in = all;
    const dlk_redis_found key = {.name = (char *)(uintptr_t)name};
    const dlk_redis_found *item =
        in->count > 0 ? bsearch(&key, in->items, in->count, sizeof(*in->items), by_name)
                      : NULL;
    if (item)
        *ret = dlk_redis_held_of(item);
    return item != NULL;
}

void dlk_redis_found_free(dlk_redis_found *item)
{
    free(item->name);
    free(item->owner);
    free(item->client);
}

void dlk_redis_items_free(dlk_redis_items *all)
{
    for (size_t i = 0; i < all->count; i++)
        dlk_redis_found_free(&all->items[i]);
    free(all->items);
}
