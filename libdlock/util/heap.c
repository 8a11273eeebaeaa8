/* A heap of deadlines; see the header. */
#include "util/heap.h"

#include <assert.h>
#include <stdlib.h>

/* Four children lie in one cache line, and there are half as many levels as with two. */
#define CHILDREN 4

void dlk_heap_free(dlk_heap *heap)
{
    free(heap->items);
    *heap = (dlk_heap){0};
}

bool dlk_heap_grow(dlk_heap *heap, size_t count)
{
    size_t capacity = heap->capacity ? heap->capacity : 16;
    if (count > DLK_HEAP_MAX)
        return false;
    while (capacity < count)
        capacity *= 2;
    dlk_heap_item *items = realloc(heap->items, capacity * sizeof(*items));
    if (!items)
        return false;
    heap->items = items;
    heap->capacity = capacity;
    return true;
}

static void put(dlk_heap *heap, size_t at, dlk_heap_item item)
{
    heap->items[at] = item;
    item.timer->place = ((uint32_t)at + 1) & DLK_HEAP_MAX;
}

static void sift_up(dlk_heap *heap, size_t at, dlk_heap_item item)
{
    while (at > 0) {
        size_t parent = (at - 1) / CHILDREN;
        if (heap->items[parent].at <= item.at)
            break;
        put(heap, at, heap->items[parent]);
        at = parent;
    }
    put(heap, at, item);
}

/* The earliest of the children from @p first on. */
static size_t earliest(const dlk_heap *heap, size_t first)
{
    size_t end = first + CHILDREN < heap->count ? first + CHILDREN : heap->count;
    size_t found = first;
    for (size_t i = first + 1; i < end; i++)
        if (heap->items[i].at < heap->items[found].at)
            found = i;
    return found;
}

static void sift_down(dlk_heap *heap, size_t at, dlk_heap_item item)
{
    for (;;) {
        size_t child = CHILDREN * at + 1;
        if (child >= heap->count)
            break;
        child = earliest(heap, child);
        if (item.at <= heap->items[child].at)
            break;
        put(heap, at, heap->items[child]);
        at = child;
    }
    put(heap, at, item);
}

void dlk_heap_set(dlk_heap *heap, dlk_timer *timer, int64_t at)
{
    const dlk_heap_item item = {at, timer};
    if (!timer->place) {
        assert(heap->count < heap->capacity);
        sift_up(heap, heap->count++, item);
        return;
    }
    size_t place = timer->place - 1;
    if (at < heap->items[place].at)
        sift_up(heap, place, item);
    else
        sift_down(heap, place, item);
}

void dlk_heap_remove(dlk_heap *heap, dlk_timer *timer)
{
    if (!timer->place)
        return;
    size_t place = timer->place - 1;
    int64_t at = heap->items[place].at;
    timer->place = 0;
    const dlk_heap_item last = heap->items[--heap->count];
    if (last.timer == timer)
        return;
    if (last.at < at)
        sift_up(heap, place, last);
    else
        sift_down(heap, place, last);
}
