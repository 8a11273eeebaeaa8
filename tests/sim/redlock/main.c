/* Runs of the simulator, as TAP:
 *
 *     sim-redlock [SEEDS [FIRST_SEED]]
 */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim s;
void (*dlk_point_hook)(const char *name);

typedef struct event {
    struct event *next;
    int64_t at;
    void (*run)(void *arg);
    void *arg;
} event;

static event *events; /* in the order of their times */

int64_t sim_random(int64_t below)
{
    return below > 0 ? (int64_t)(dlk_rand_next(&s.rand) % (uint64_t)below) : 0;
}

bool sim_happens(int64_t many)
{
    return sim_random(many) == 0;
}

void sim_break(const char *promise)
{
    if (!s.broken)
        s.broken = promise;
}

void sim_at(int64_t at, void (*run)(void *arg), void *arg)
{
    event *e = malloc(sizeof(*e)), **place = &events;
    if (!e)
        abort();
    while (*place && (*place)->at <= at)
        place = &(*place)->next;
    *e = (event){*place, at, run, arg};
    *place = e;
}

/* ---- what happens to nodes and clients ---- */

static void thaw_up(void *arg)
{
    ((server *)arg)->down = false;
}

/* A minority is away, or forgets, at a time. */
static void strike(void *arg)
{
    (void)arg;
    if (s.calm)
        return;
    for (int i = 0; i < s.servers / 2; i++) {
        server *at = &s.server[sim_random(s.servers)];
        int64_t until = s.now + sim_random(sim_happens(4) ? 3 * SEC : 300 * MS);
        s.faults++;
        if (s.forgets && sim_happens(2))
            *at = (server){.frozen_until = at->frozen_until, .down = at->down};
        else if (sim_happens(2) && at->frozen_until <= s.now)
            at->frozen_until = until; /* and no other: requests wait for it, in order */
    }
    if (sim_happens(3)) {
        server *at = &s.server[sim_random(s.servers)];
        at->down = true; /* with its state: a restart that forgets nothing */
        sim_at(s.now + sim_random(2 * SEC), thaw_up, at);
    }
    if (sim_happens(3))
        s.client[sim_random(CLIENTS)].stopped_until =
            s.now + sim_random(sim_happens(3) ? 5 * SEC : 200 * MS);
    sim_at(s.now + 50 * MS + sim_random(1500 * MS), strike, NULL);
}

static void calm_down(void *arg)
{
    (void)arg;
    s.calm = true;
    for (int i = 0; i < s.servers; i++)
        s.server[i].down = false; /* the frozen thaw, with what waits there */
    for (int i = 0; i < CLIENTS; i++) {
        s.client[i].stopped_until = 0;
        client_wake(&s.client[i], s.now);
    }
}

/* ---- a run ---- */

static bool step(int64_t until)
{
    client *first = &s.client[0];
    for (int i = 1; i < CLIENTS; i++)
        if (s.client[i].wake_at < first->wake_at)
            first = &s.client[i];
    int64_t at = events && events->at <= first->wake_at ? events->at : first->wake_at;
    if (at > until)
        return false;
    s.now = at > s.now ? at : s.now;
    if (events && events->at <= first->wake_at) {
        event *e = events;
        events = e->next;
        e->run(e->arg);
        free(e);
    } else {
        client_run(first);
    }
    return true;
}

static void go_on_until(int64_t until)
{
    while (!s.broken && step(until)) {
    }
    s.now = until > s.now ? until : s.now;
}

static void finish(void)
{
    go_on_until(s.ends_at + 60 * SEC);
    if (!s.broken && !clients_served())
        sim_break("somebody waits for ever");
    if (!s.broken && !clients_rest())
        sim_break("somebody still holds it");
    if (!s.broken && !nodes_keep_nothing())
        sim_break("what was given back still lies on a node");
}

static void run(uint64_t seed)
{
    s = (sim){.seed = seed, .now = 1000 * SEC, .overlap_since = DLK_NEVER};
    s.rand.state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < 8; i++)
        (void)sim_random(2);
    s.fencing = sim_happens(2);
    s.forgets = sim_happens(2);
    s.servers = sim_happens(3) ? 3 : 5;
    /* Two clocks, each 4,000 millionths off at most: within what the margin of 1 % is for. */
    s.fast = (int64_t)(seed % 3 ? 8000 : 0);
    s.ttl_ms = sim_happens(3) ? 300000 : 2000; /* the long one shows what is left lying */
    s.ends_at = s.now + 20 * SEC;
    nodes_reset();
    clients_open();
    sim_at(s.now + SEC, strike, NULL);
    sim_at(s.ends_at, calm_down, NULL);
    go_on_until(s.ends_at);
    finish();
    clients_close();
    while (events) {
        event *e = events;
        events = e->next;
        s.calm = true;
        e->run(e->arg);
        free(e);
    }
    nodes_bury();
}

int main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 200;
    int64_t grants = 0, losses = 0, faults = 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const char *broken = NULL;
    for (uint64_t end = seed + seeds; seed < end && !broken; seed++) {
        run(seed);
        grants += s.grants;
        losses += s.losses;
        faults += s.faults;
        broken = s.broken;
    }
    printf("1..1\n# %" PRId64 " grants, %" PRId64 " lost, %" PRId64 " faults\n", grants,
           losses, faults);
    if (broken)
        printf("# seed %" PRIu64 ", %d nodes, fencing %d, forgetting %d, %" PRId64
               " s: %s\n",
               s.seed, s.servers, s.fencing, s.forgets, (s.now / SEC) - 1000, broken);
    printf("%s 1 - no_seed_breaks_a_promise_of_redlock\n", broken ? "not ok" : "ok");
    return broken != NULL;
}
