/* Leases on a real memcached whose clock leaves out a second. It shows whole ones, and its timer
 * begins anew with each tick, so ticks come a little later in each second, until one comes so late
 * that it shows the second after the next. By itself that takes half an hour; here a tick that is
 * due late in its second is held up until that second is over. */
#include "api/world.h"
#include "harness/memcached_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LEASE_MS = 1000,    /* whole seconds: rounding adds nothing */
    TICK_FROM_MS = 550, /* ticks come as late in their seconds, … */
    TICK_TO_MS = 960,   /* … and no later */
    BEFORE_MS = 80,     /* so long before a tick the lock is taken */
    MARK_S = 1000000,   /* what is left of an item that lasts so long shows the clock */
};

static int64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* memcached's */
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void wait_until(int64_t ms)
{
    while (clock_ms() < ms)
        nap_ms(1);
}

/* The seconds that the server has counted since it has the mark. */
static int64_t counted(void)
{
    const char *left = strstr(memcached_server_say(world_memcached(), "mg mark t"), " t");
    return left ? MARK_S - atoll(left + 2) : -1;
}

/* False: it didn't within a time in which it has to. */
static bool counts_on(int64_t from)
{
    int64_t end = clock_ms() + 3000;
    while (counted() == from && clock_ms() < end)
        nap_ms(1);
    return counted() != from;
}

/* Starts the server anew. Returns when it has ticked, or -1 when that was no time to begin with. */
static int64_t tick_late_in_its_second(void)
{
    memcached_server_kill(world_memcached());
    int64_t second = clock_ms() / 1000 * 1000;
    wait_until(second + 1000 + TICK_FROM_MS);
    if (!memcached_server_restart(world_memcached()))
        return -1;
    (void)memcached_server_say(world_memcached(), "ms mark 1 T%d\r\nx", MARK_S);
    bool ticks = counts_on(0);
    int64_t now = clock_ms();
    bool late = now % 1000 >= TICK_FROM_MS && now % 1000 <= TICK_TO_MS;
    return ticks && late && counted() == 1 ? now : -1;
}

/* Takes the lock right before the tick after this one, which is held up. NULL when it came out in
 * another way. */
static dlock_hold *take_before_a_skip(dlock_lock *lock, int64_t tick)
{
    dlock_hold *hold = NULL;
    wait_until(tick + 1000 - BEFORE_MS);
    dlock_err code = dlock_lock_acquire(lock, 0, &hold, NULL);
    bool before = code == DLOCK_OK && counted() == 1;
    server_freeze(world_memcached()->pid);
    wait_until((tick / 1000 + 2) * 1000);
    server_thaw(world_memcached()->pid);
    if (before && counts_on(1) && counted() == 3)
        return hold;
    dlock_hold_free(hold);
    return NULL;
}

/* False in *ret_skipped: it didn't come to a second left out. */
static void attempt(dlock_kind kind, const char *settings, bool *ret_skipped)
{
    int64_t tick = tick_late_in_its_second(), end = awake_now_ms() + patience_ms();
    if (tick < 0)
        return;
    DLOCK_AUTO(dlock_conf) lease = api_conf("lock.renew=off");
    DLOCK_AUTO(dlock_client) client = world_client_of(LEASE_MS, settings);
    DLOCK_AUTO(dlock_client) rival = world_client_of(LEASE_MS, settings);
    DLOCK_AUTO(dlock_lock) lock = NULL;
    DLOCK_AUTO(dlock_lock) same = NULL;
    DLOCK_AUTO(dlock_hold) theirs = NULL;
    CHECK_OK(dlock_lock_new(client, kind, "skipped", lease, &lock, NULL), NULL);
    CHECK_OK(dlock_lock_new(rival, kind, "skipped", lease, &same, NULL), NULL);
    DLOCK_AUTO(dlock_hold) hold = take_before_a_skip(lock, tick);
    if (!hold)
        return;
    while (dlock_lock_acquire(same, 0, &theirs, NULL) == DLOCK_EBUSY &&
           awake_now_ms() < end)
        nap_ms(1);
    int64_t left = dlock_hold_remaining_ms(hold);
    CHECK_EQ_INT(left, 0);
    CHECK(theirs);
    *ret_skipped = true;
}

static void nobody_gets_it_early(dlock_kind kind, const char *settings)
{
    bool skipped = false;
    int64_t end = awake_now_ms() + patience_ms();
    while (!skipped && !harness_failed() && awake_now_ms() < end)
        attempt(kind, settings, &skipped);
    CHECK(skipped);
}

TEST(a_mutex_lasts_while_the_server_leaves_out_a_second)
{
    BEGIN();
    nobody_gets_it_early(DLOCK_MUTEX, "memcached.protocol=meta");
}

TEST(so_does_one_by_the_classic_commands)
{
    BEGIN();
    nobody_gets_it_early(DLOCK_MUTEX, "memcached.protocol=classic");
}

TEST(and_a_permit)
{
    BEGIN();
    nobody_gets_it_early(DLOCK_SEMAPHORE, "lock.permits=1");
}
