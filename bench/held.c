/* What does it cost to hold many locks, or to keep them? Takes --count of them, and releases them to be
 * kept if the URI has lock.keep_ms; says "ready", and lets libdlock renew them until a line comes; then
 * says how many were lost. The driver measures from outside. */
#include "dlock_use.h"

#include <stdlib.h>

static dlock_hold *take(dlock_client *client, bench_spot *page, int number)
{
    char name[32];
    dlock_hold *hold = NULL;
    dlock_error *error = NULL;
    (void)snprintf(name, sizeof(name), "held/%d", number);
    if (dlock_acquire(client, name, 10000, &hold, &error) != DLOCK_OK)
        bench_die(name, dlock_error_text(error));
    if (number < BENCH_SPOTS)
        (void)bench_enter(&page[number], number + 1);
    return hold;
}

static void leave(dlock_hold *hold, bench_spot *page, int number)
{
    if (number < BENCH_SPOTS)
        bench_exit(&page[number]);
    bench_release(hold);
}

static int count_of(dlock_client *client, const char *key)
{
    dlock_info *stats = NULL;
    if (dlock_client_stats(client, &stats, NULL) != DLOCK_OK)
        bench_die("stats", "dlock_client_stats failed");
    double count = bench_number(stats, key);
    dlock_info_free(stats);
    return (int)count;
}

/* A client keeps nothing before it can be asked. */
static void begin_to_keep(dlock_client *client, bench_spot *page)
{
    for (int tries = 0; count_of(client, "kept") == 0; tries++) {
        if (tries == 1000)
            bench_die("keep_ms", "nothing is kept");
        leave(take(client, page, 0), page, 0);
    }
}

static int count_lost(dlock_hold *const *holds, int count)
{
    int lost = 0;
    for (int i = 0; i < count; i++)
        lost += dlock_hold_check(holds[i]) != DLOCK_OK;
    return lost;
}

int main(int argc, char **argv)
{
    bench_options options = bench_parse(argc, argv, "", 0);
    bench_spot *page = bench_page(&options);
    dlock_client *client = bench_open(&options);
    bool kept = strstr(options.uri, "lock.keep_ms=") != NULL;
    dlock_hold **holds = calloc((size_t)options.count, sizeof(dlock_hold *));
    if (!holds)
        bench_die("calloc", "no memory");
    if (kept)
        begin_to_keep(client, page);
    for (int i = 0; i < options.count; i++)
        holds[i] = take(client, page, i);
    for (int i = 0; i < options.count && kept; i++)
        leave(holds[i], page, i);
    bench_await_cue();
    int64_t overlaps = 0;
    for (int i = 0; i < BENCH_SPOTS; i++)
        overlaps += atomic_load(&page[i].overlaps);
    (void)printf("{\"held\": %d, \"lost\": %d, \"overlaps\": %d}\n", options.count,
                 kept ? options.count + 1 - count_of(client, "kept") +
                            count_of(client, "kept_lost")
                      : count_lost(holds, options.count),
                 (int)overlaps);
    (void)fflush(stdout);
    return 0; /* the server, and what is in it, is only for this */
}
