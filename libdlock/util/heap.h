/* A heap of deadlines. The nodes lie in the objects that have the deadline; a node knows its place,
 * so a deadline can be moved or taken out without searching. The deadlines stand in the heap: of
 * ten thousand objects hardly one would be in the cache. */
#ifndef DLK_UTIL_HEAP_H
#define DLK_UTIL_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_timer {
    uint32_t place : 30; /* index in the heap plus 1; 0 = not in it */
    uint32_t kind : 2;   /* its owner's: what it lies in */
} dlk_timer;
#define DLK_HEAP_MAX ((UINT32_C(1) << 30) - 1)

typedef struct dlk_heap_item {
    int64_t at;
    dlk_timer *timer;
} dlk_heap_item;

typedef struct dlk_heap {
    dlk_heap_item *items;
    size_t count, capacity;
} dlk_heap;

void dlk_heap_free(dlk_heap *heap);

/* Makes room for @p count timers, so that setting that many can't fail. */
bool dlk_heap_grow(dlk_heap *heap, size_t count);
static inline bool dlk_heap_reserve(dlk_heap *heap, size_t count)
{
    return count <= heap->capacity || dlk_heap_grow(heap, count);
}

/* Puts the timer in, or moves it; room must have been reserved. */
void dlk_heap_set(dlk_heap *heap, dlk_timer *timer, int64_t at);
void dlk_heap_remove(dlk_heap *heap, dlk_timer *timer);

/* The earliest, or NULL. */
static inline const dlk_heap_item *dlk_heap_first(const dlk_heap *heap)
{
    return heap->count ? heap->items : NULL;
}

#endif
