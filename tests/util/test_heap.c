/* The heap of deadlines, against an array that is searched: whatever is set, moved and taken out, the
 * first is the earliest, each timer knows its place, and without memory nothing changes. */
#include "harness/harness.h"
#include "util/heap.h"
#include "util/rand.h"

#include <string.h>

#define MANY  200
#define STEPS 20000

static bool none_left;

/* Linked in place of realloc. */
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return none_left ? NULL : __real_realloc(old, size);
}

static dlk_timer timers[MANY];
static int64_t dates[MANY]; /* -1: not set */

static void begin(void)
{
    none_left = false;
    memset(timers, 0, sizeof(timers));
    for (int i = 0; i < MANY; i++)
        dates[i] = -1;
}

static int64_t earliest(void)
{
    int64_t found = -1;
    for (int i = 0; i < MANY; i++)
        if (dates[i] >= 0 && (found < 0 || dates[i] < found))
            found = dates[i];
    return found;
}

static bool same(const dlk_heap *heap)
{
    size_t set = 0;
    for (int i = 0; i < MANY; i++) {
        uint32_t place = timers[i].place;
        set += dates[i] >= 0;
        if ((place != 0) != (dates[i] >= 0) || place > heap->count ||
            (place && (heap->items[place - 1].timer != &timers[i] ||
                       heap->items[place - 1].at != dates[i])))
            return false;
    }
    const dlk_heap_item *first = dlk_heap_first(heap);
    return set == heap->count && (first ? first->at : -1) == earliest();
}

static void step(dlk_heap *heap, dlk_rand *dice)
{
    int i = (int)(dlk_rand_next(dice) % MANY);
    if (dlk_rand_next(dice) % 3 == 0) {
        dlk_heap_remove(heap, &timers[i]); /* harmless when it isn't in */
        dates[i] = -1;
        return;
    }
    dates[i] = (int64_t)(dlk_rand_next(dice) % 64); /* many are equal */
    dlk_heap_set(heap, &timers[i], dates[i]);
}

TEST(the_first_is_the_earliest_whatever_is_set_moved_and_taken_out)
{
    dlk_heap heap = {0};
    dlk_rand dice = {.state = 7};
    begin();
    CHECK(dlk_heap_reserve(&heap, MANY));
    bool fine = true;
    for (int i = 0; i < STEPS && fine; i++) {
        step(&heap, &dice);
        fine = same(&heap);
        if (!fine)
            harness_note("step %d", i);
    }
    dlk_heap_free(&heap);
    CHECK(fine);
}

TEST(all_come_out_in_order)
{
    dlk_heap heap = {0};
    dlk_rand dice = {.state = 11};
    begin();
    CHECK(dlk_heap_reserve(&heap, MANY));
    for (int i = 0; i < MANY; i++)
        dlk_heap_set(&heap, &timers[i], (int64_t)(dlk_rand_next(&dice) % 1000));
    int64_t before = 0;
    bool rises = true;
    while (dlk_heap_first(&heap)) {
        int64_t at = dlk_heap_first(&heap)->at;
        rises &= at >= before;
        before = at;
        dlk_heap_remove(&heap, dlk_heap_first(&heap)->timer);
    }
    CHECK_EQ_INT(heap.count, 0);
    dlk_heap_free(&heap);
    CHECK(rises);
}

TEST(without_memory_it_stays_as_it_is)
{
    dlk_heap heap = {0};
    begin();
    none_left = true;
    CHECK(!dlk_heap_reserve(&heap, 1));
    CHECK(!dlk_heap_first(&heap));
    none_left = false;
    CHECK(dlk_heap_reserve(&heap, 1));
    size_t room = heap.capacity;
    CHECK(room >= 1 && room < MANY);
    for (size_t i = 0; i < room; i++) {
        dates[i] = (int64_t)(room - i);
        dlk_heap_set(&heap, &timers[i], dates[i]);
    }
    none_left = true;
    CHECK(dlk_heap_reserve(&heap, room));
    CHECK(!dlk_heap_reserve(&heap, room + 1));
    CHECK(
        !dlk_heap_reserve(&heap, (size_t)UINT32_MAX + 1)); /* no place has that number */
    none_left = false;
    CHECK_EQ_INT(heap.capacity, room);
    CHECK(same(&heap));
    CHECK(dlk_heap_reserve(&heap, MANY));
    CHECK(same(&heap)); /* growing moves nothing */
    dlk_heap_free(&heap);
    CHECK(!dlk_heap_first(&heap));
}
