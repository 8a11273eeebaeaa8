/* A binary heap of deadlines. The nodes lie in the objects that have the deadline; a node knows
 * its place, so a deadline can be moved or taken out without searching. */
#ifndef DLK_UTIL_HEAP_H
#define DLK_UTIL_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dlk_timer {
    int64_t at;
    size_t place; /* index in the heap plus 1; 0 = not in it */
} dlk_timer;

typedef struct dlk_heap {
    dlk_timer **items;
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

/* The earliest timer, or NULL. */
static inline dlk_timer *dlk_heap_first(const dlk_heap *heap)
{
    return heap->count ? heap->items[0] : NULL;
}

#endif
