/* Time, chance and the story of a run. */
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

sim s;

const char *const fault_names[FAULT_COUNT] = {
    "request lost", "reply lost", "request late", "silence", "pause",
    "death",        "freeze",     "restart",      "wipe",    "rollback",
    "refusing",     "no news",    "break",
};

bool chance(int in_thousand)
{
    return dlk_rand_next(&s.rand) % 1000 < (uint64_t)in_thousand;
}

int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)(dlk_rand_next(&s.rand) % (uint64_t)(high - low + 1));
}

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

void tell(const char *format, ...)
{
    char line[160];
    va_list args;
    int head = snprintf(line, sizeof(line), "%10.3f ms  ", (double)s.now / (double)MS);
    va_start(args, format);
    (void)vsnprintf(line + head, sizeof(line) - (size_t)head, format, args);
    va_end(args);
    for (const char *at = line; *at; at++)
        s.totals.hash = (s.totals.hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    s.totals.events++;
    memcpy(s.story[s.story_size++ % STORY], line, sizeof(line));
    if (s.config.verbose)
        puts(line);
}

void violated(const char *format, ...)
{
    if (s.violation[0])
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s.violation, sizeof(s.violation), format, args);
    va_end(args);
    s.violated_at = s.now;
    tell("VIOLATED: %s", s.violation);
}

bool fault_on(fault one)
{
    return !s.ending && (s.config.faults & 1u << one) != 0;
}

void count_fault(fault one, step at)
{
    s.totals.faults[one][at]++;
}

void show_story(FILE *to)
{
    size_t from = s.story_size > STORY ? s.story_size - STORY : 0;
    for (size_t i = from; i < s.story_size; i++)
        (void)fprintf(to, "  %s\n", s.story[i % STORY]);
}
