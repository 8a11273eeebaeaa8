/* What a list has found: locks that somebody has, by name. */
#ifndef DLK_BACKENDS_REDIS_LIST_ITEMS_H
#define DLK_BACKENDS_REDIS_LIST_ITEMS_H

#include "backends/redis/told_list.h"

typedef struct dlk_redis_found {
    char *name, *owner, *client;
    int64_t left, taken; /* taken: of a semaphore; else 0 */
    bool named;          /* who it is was asked for */
} dlk_redis_found;

typedef struct dlk_redis_items {
    dlk_redis_found *items;
    size_t count, capacity;
} dlk_redis_items;

/* A copy of it, behind the others; false without memory. */
bool dlk_redis_items_keep(dlk_redis_items *all, const dlk_redis_held *one, bool named);
/* By name, each once: SCAN may tell a name twice. */
void dlk_redis_items_sort(dlk_redis_items *all);
/* Of sorted ones: a dlk_redis_held_fn. */
bool dlk_redis_items_find(const void *all, const char *name, dlk_redis_held *ret);
dlk_redis_held dlk_redis_held_of(const dlk_redis_found *item);
void dlk_redis_found_free(dlk_redis_found *item);
void dlk_redis_items_free(dlk_redis_items *all);

#endif
