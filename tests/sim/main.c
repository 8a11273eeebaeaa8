/* Runs seeds, counts what was covered, and makes the story of a failure as short as it can. */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void add(totals *to, const totals *from)
{
    to->operations += from->operations;
    to->grants += from->grants;
    to->losses += from->losses;
    to->timeouts += from->timeouts;
    to->cancels += from->cancels;
    to->unknowns += from->unknowns;
    to->stale_refused += from->stale_refused;
    to->writes += from->writes;
    to->events += from->events;
    for (int f = 0; f < FAULT_COUNT; f++)
        for (int p = 0; p < STEP_COUNT; p++)
            to->faults[f][p] += from->faults[f][p];
}

static config config_of(uint64_t seed)
{
    dlk_rand rand = {seed};
    return (config){
        .seed = seed,
        .clients = 2 + (int)(dlk_rand_next(&rand) % (MAX_CLIENTS - 1)),
        .actors = 1 + (int)(dlk_rand_next(&rand) % MAX_ACTORS),
        .names = 1 + (int)(dlk_rand_next(&rand) % MAX_NAMES),
        .table = dlk_rand_next(&rand) % 4 == 0,
        .duration = 60 * SEC,
        /* Each run lacks some kinds of faults: what one hides another shows. */
        .faults = (unsigned)(dlk_rand_next(&rand) | dlk_rand_next(&rand)) &
                  ((1u << FAULT_COUNT) - 1),
    };
}

/* Fewer faults, fewer clients, less time, as long as it still fails. */
static config shrink(config failing)
{
    totals ignored;
    for (bool better = true; better;) {
        better = false;
        for (int f = 0; f < FAULT_COUNT; f++) {
            config less = failing;
            less.faults &= ~(1u << f);
            if (less.faults != failing.faults && !run(&less, &ignored))
                failing = less, better = true;
        }
        config less = failing;
        less.clients--;
        if (less.clients >= 2 && !run(&less, &ignored))
            failing = less, better = true;
        less = failing;
        less.actors--;
        if (less.actors >= 1 && !run(&less, &ignored))
            failing = less, better = true;
        less = failing;
        less.names--;
        if (less.names >= 1 && !run(&less, &ignored))
            failing = less, better = true;
        less = failing;
        less.duration = failing.duration * 3 / 4;
        if (less.duration > SEC && !run(&less, &ignored))
            failing = less, better = true;
    }
    return failing;
}

static void show_config(FILE *to, const config *c)
{
    (void)fprintf(to,
                  "seed %" PRIu64
                  ", %s, %d clients of %d callers, %d names, %.1f s, faults 0x%x\n",
                  c->seed, c->table ? "table" : "server", c->clients, c->actors, c->names,
                  (double)c->duration / (double)SEC, c->faults);
}

static void show_failure(config failing)
{
    totals ignored;
    printf("# failed: ");
    show_config(stdout, &failing);
    failing = shrink(failing);
    (void)run(&failing, &ignored);
    printf("# shrunk to: ");
    show_config(stdout, &failing);
    printf("# %s\n# the end of the story:\n", s.violation);
    show_story(stdout);
}

static void show_totals(const totals *t, int64_t runs)
{
    printf("# %" PRId64 " runs: %" PRId64 " requests, %" PRId64 " grants, %" PRId64
           " losses, %" PRId64 " time-outs, %" PRId64 " cancels, %" PRId64
           " unknown; %" PRId64 " writes, %" PRId64 " stale ones refused; %" PRId64
           " events\n",
           runs, t->operations, t->grants, t->losses, t->timeouts, t->cancels,
           t->unknowns, t->writes, t->stale_refused, t->events);
    printf("# %-14s %10s %10s %10s %10s %10s\n", "fault during", "acquire", "renew",
           "release", "cancel", "idle");
    for (int f = 0; f < FAULT_COUNT; f++)
        printf("# %-14s %10" PRId64 " %10" PRId64 " %10" PRId64 " %10" PRId64
               " %10" PRId64 "\n",
               fault_names[f], t->faults[f][0], t->faults[f][1], t->faults[f][2],
               t->faults[f][3], t->faults[f][4]);
}

static bool repeats(uint64_t seed)
{
    config how = config_of(seed);
    totals first, second;
    (void)run(&how, &first);
    (void)run(&how, &second);
    return first.hash == second.hash && first.events == second.events;
}

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* usage: sim [SECONDS [FIRST_SEED]] | sim --seed SEED */
int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) {
        config how = config_of(strtoull(argv[2], NULL, 10));
        totals one = {0};
        how.verbose = true; /* the whole story, and then the shortest */
        if (!run(&how, &one)) {
            how.verbose = false;
            show_failure(how);
            return 1;
        }
        show_totals(&one, 1);
        return 0;
    }
    double end = seconds() + (argc > 1 ? strtod(argv[1], NULL) : 5);
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, seed = first;
    totals all = {0};
    printf("1..2\n");
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    bool fine = true;
    for (; fine && seconds() < end; seed++) {
        config how = config_of(seed);
        totals one = {0};
        fine = run(&how, &one);
        add(&all, &one);
        if (!fine)
            show_failure(how);
    }
    show_totals(&all, (int64_t)(seed - first));
    printf("%s 1 - no_seed_breaks_a_promise\n", fine ? "ok" : "not ok");
    bool same = repeats(first) && repeats(first + 1);
    printf("%s 2 - the_same_seed_is_the_same_run\n", same ? "ok" : "not ok");
    return fine && same ? 0 : 1;
}
