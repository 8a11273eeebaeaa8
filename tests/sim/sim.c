/* Time and chance. */
#include "sim.h"

#include <stdlib.h>

sim s;

/* ---- chance ---- */

/* A number that depends on nothing else: what is drawn here doesn't move with what is drawn
 * elsewhere, so a run with one fault less stays alike for as long as it can. */
uint64_t mix(uint64_t seed, uint64_t a, uint64_t b)
{
    dlk_rand rand = {seed ^ a * UINT64_C(0xd6e8feb86659fd93)};
    rand.state = dlk_rand_next(&rand) ^ b;
    return dlk_rand_next(&rand);
}

bool chance(dlk_rand *rand, int in_thousand)
{
    return dlk_rand_next(rand) % 1000 < (uint64_t)in_thousand;
}

int64_t between(dlk_rand *rand, int64_t low, int64_t high)
{
    return low + (int64_t)(dlk_rand_next(rand) % (uint64_t)(high - low + 1));
}

/* ---- time ---- */

/* The heap orders by time alone; the last bits of a time are the order of making, so that two
 * events never compare equal. A run is shorter than 2^53 ns, and has fewer than 2^10 events at
 * one nanosecond. */
void event_at(event *one, int64_t at, void (*go)(event *), void *of)
{
    if (at < s.now)
        at = s.now;
    if (!dlk_heap_reserve(&s.events, s.events.count + 1))
        abort();
    one->run = go;
    one->of = of;
    one->order = ++s.order;
    one->at = at;
    dlk_heap_set(&s.events, &one->timer, at * 1024 + (int64_t)(one->order % 1024));
}

event *event_new(void)
{
    event *one = calloc(1, sizeof(*one));
    if (!one)
        abort();
    one->loose = true;
    return one;
}

void event_cancel(event *one)
{
    dlk_heap_remove(&s.events, &one->timer);
}

/* Also called from inside an event: when a process stops in the middle of something, the others
 * go on until it does. */
void go_until(int64_t end)
{
    while (!s.violation[0]) {
        const dlk_heap_item *first = dlk_heap_first(&s.events);
        if (!first || first->at / 1024 > end)
            break;
        event *e = DLK_LIST_ITEM(first->timer, event, timer);
        dlk_heap_remove(&s.events, &e->timer);
        if (e->at > s.now)
            s.now = e->at;
        bool loose = e->loose;
        e->run(e);
        if (loose)
            free(e);
    }
    if (s.now < end && !s.violation[0])
        s.now = end;
}

void events_free(void)
{
    for (size_t i = 0; i < s.events.count; i++) {
        event *e = DLK_LIST_ITEM(s.events.items[i].timer, event, timer);
        if (e->loose)
            free(e);
    }
    dlk_heap_free(&s.events);
}
