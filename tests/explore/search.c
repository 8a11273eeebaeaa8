/* Going through schedules; see the header. Each is made of a shorter one that has been run, by one
 * more departure behind its last; so none comes twice, and only those of one more are waiting. */
#include "search.h"

#include "strand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_DEPARTURES 16
#define MAX_PLACES     20000

static const char letters[] = "MABCEFGHS";

typedef struct departure {
    uint16_t place;
    uint8_t to;
} departure;

typedef struct schedule {
    uint8_t count, preemptions, turns;
    departure all[MAX_DEPARTURES];
} schedule;

/* A place of the execution under way that has a choice. */
typedef struct place {
    uint16_t others; /* who else could go on */
    bool stays;
} place;

static schedule current;
static int next_departure, places;
static bool finely;
static place seen[MAX_PLACES];

typedef struct heap {
    schedule *all;
    size_t count, room;
} pile;

/* By how many preemptions they have. */
static pile waiting[MAX_DEPARTURES + 1];

int search_choose(unsigned all, int usual, bool stays)
{
    unsigned others = all & ~(1U << usual);
    if (!others)
        return usual;
    if (places >= MAX_PLACES)
        explore_fail("more than %d places with a choice", MAX_PLACES);
    int here = places++;
    seen[here] = (place){.others = (uint16_t)others, .stays = stays};
    if (next_departure >= current.count || current.all[next_departure].place != here)
        return usual;
    int to = current.all[next_departure++].to;
    if (!(others & 1U << to))
        explore_fail("the schedule doesn't fit: %c can't go on there", letters[to]);
    return to;
}

const char *search_schedule(void)
{
    static char text[MAX_DEPARTURES * 8];
    size_t used = finely ? 1 : 0;
    text[0] = 'f';
    text[used] = '\0';
    for (int i = 0; i < current.count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d%c", i ? "," : "",
                                 current.all[i].place, letters[current.all[i].to]);
    return text[0] ? text : "-";
}

static void put(const schedule *one)
{
    pile *to = &waiting[one->preemptions];
    if (to->count == to->room) {
        to->room = to->room ? to->room * 2 : 1024;
        schedule *more = realloc(to->all, to->room * sizeof(*more));
        if (!more) {
            (void)fprintf(stderr, "out of memory\n");
            exit(2);
        }
        to->all = more;
    }
    to->all[to->count++] = *one;
}

/* All that are one departure longer than the one just run. */
static void put_longer(const search_limits *limits)
{
    int from = current.count ? current.all[current.count - 1].place + 1 : 0;
    if (current.count == MAX_DEPARTURES)
        return;
    for (int at = from; at < places; at++) {
        schedule longer = current;
        if (seen[at].stays)
            longer.preemptions++;
        else
            longer.turns++;
        if (longer.preemptions > limits->preemptions || longer.turns > limits->turns)
            continue;
        longer.count++;
        for (int to = 0; to <= SERVICE; to++) {
            if (!(seen[at].others & 1U << to))
                continue;
            longer.all[longer.count - 1] =
                (departure){.place = (uint16_t)at, .to = (uint8_t)to};
            put(&longer);
        }
    }
}

static void run(void (*execute)(void))
{
    next_departure = places = 0;
    execute();
    if (next_departure < current.count)
        explore_fail("the schedule doesn't fit: it is longer than the execution");
}

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

search_sum search_all(const search_limits *limits, void (*execute)(void))
{
    search_sum sum = {.all = true};
    finely = limits->finely;
    double until = seconds() + limits->seconds;
    current = (schedule){0};
    put(&current);
    for (int level = 0; level <= limits->preemptions; level++) {
        while (waiting[level].count > 0) {
            if (limits->seconds > 0 && sum.schedules % 64 == 0 && seconds() > until) {
                sum.all = false;
                return sum;
            }
            current = waiting[level].all[--waiting[level].count];
            run(execute);
            sum.schedules++;
            if (places > sum.longest)
                sum.longest = places;
            put_longer(limits);
        }
        free(waiting[level].all);
        waiting[level] = (pile){0};
    }
    return sum;
}

bool search_one(const char *text, void (*execute)(void))
{
    current = (schedule){0};
    if (strcmp(text, "-") == 0)
        text = "";
    while (*text) {
        char *end;
        long at = strtol(text, &end, 10);
        const char *to = end > text && *end ? strchr(letters, *end) : NULL;
        if (!to || at < 0 || at >= MAX_PLACES || current.count == MAX_DEPARTURES)
            return false;
        current.all[current.count++] =
            (departure){.place = (uint16_t)at, .to = (uint8_t)(to - letters)};
        text = end + 1;
        if (*text == ',')
            text++;
    }
    run(execute);
    return true;
}
