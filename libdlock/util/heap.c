/* A binary heap of deadlines; see the header. */
#include "util/heap.h"

#include <assert.h>
#include <stdlib.h>

void dlk_heap_free(dlk_heap *heap)
{
    free(heap->items);
    *heap = (dlk_heap){0};
}

bool dlk_heap_grow(dlk_heap *heap, size_t count)
{
    size_t capacity = heap->capacity ? heap->capacity : 16;
    while (capacity < count)
        capacity *= 2;
    dlk_timer **items = realloc(heap->items, capacity * sizeof(*items));
    if (!items)
        return false;
    heap->items = items;
    heap->capacity = capacity;
    return true;
}

static void put(dlk_heap *heap, size_t at, dlk_timer *timer)
{
    heap->items[at] = timer;
    timer->place = at + 1;
}

static void sift_up(dlk_heap *heap, size_t at, dlk_timer *timer)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (heap->items[parent]->at <= timer->at)
            break;
        put(heap, at, heap->items[parent]);
        at = parent;
    }
    put(heap, at, timer);
}

static void sift_down(dlk_heap *heap, size_t at, dlk_timer *timer)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heap->items[child + 1]->at < heap->items[child]->at)
            child++;
        if (timer->at <= heap->items[child]->at)
            break;
        put(heap, at, heap->items[child]);
        at = child;
    }
    put(heap, at, timer);
}

void dlk_heap_set(dlk_heap *heap, dlk_timer *timer, int64_t at)
{
    if (!timer->place) {
        assert(heap->count < heap->capacity);
        timer->at = at;
        sift_up(heap, heap->count++, timer);
        return;
    }
    int64_t before = timer->at;
    timer->at = at;
    if (at < before)
        sift_up(heap, timer->place - 1, timer);
    else
        sift_down(heap, timer->place - 1, timer);
}

void dlk_heap_remove(dlk_heap *heap, dlk_timer *timer)
{
    if (!timer->place)
        return;
    size_t at = timer->place - 1;
    timer->place = 0;
    dlk_timer *last = heap->items[--heap->count];
    if (last == timer)
        return;
    if (last->at < timer->at)
        sift_up(heap, at, last);
    else
        sift_down(heap, at, last);
}
