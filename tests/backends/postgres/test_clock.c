/* The server's time of day is set back and forth: who holds, who waits, and what is checked. What that does to leases
 * stands in docs/explanation/promises.md. */
#include "harness/api.h"
#include "harness/harness.h"
#include "harness/postgres_server.h"
#include "harness/server_clock.h"
#include "harness/time.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOUR_MS = 3600000, LONG_MS = 60000 };

static postgres_server server;
static server_clock its_clock;

#define BEGIN()                                                                          \
    do {                                                                                 \
        if (!begin())                                                                    \
            return;                                                                      \
    } while (0)

static bool begin(void)
{
    if (!postgres_server_available())
        return false;
    if (!getenv("DLK_CLOCK")) {
        harness_skip("no module that sets a server's clock (DLK_CLOCK)");
        return false;
    }
    bool runs = server_clock_enter(&its_clock) && postgres_server_start(&server);
    server_clock_leave();
    return runs;
}

static void end(void)
{
    postgres_server_stop(&server);
    server_clock_end(&its_clock);
}

static dlock_client *opened(int ttl_ms)
{
    return api_open("postgres://postgres@127.0.0.1:%d/postgres?lock.ttl_ms=%d",
                    server.port, ttl_ms);
}

static const char *ask(const char *statement)
{
    return postgres_server_ask(&server, "%s", statement);
}

/* What is left of the only lease, by the server's clock. */
static int64_t left_ms(void)
{
    return strtoll(
        ask("SELECT (extract(epoch FROM ends - clock_timestamp()) * 1000)::bigint "
            "FROM dlock.holders"),
        NULL, 10);
}

static bool passes(int64_t token)
{
    return strcmp(postgres_server_ask(&server, "SELECT dlock.check('clock', %" PRId64 ")",
                                      token),
                  "(failed)") != 0;
}

/* A holder who hasn't renewed since: its lease is over there, and it doesn't know. */
TEST(put_forward_the_lock_is_the_next_ones_and_the_older_token_is_refused)
{
    BEGIN();
    DLOCK_AUTO(dlock_client) first = opened(LONG_MS);
    DLOCK_AUTO(dlock_client) second = opened(LONG_MS);
    DLOCK_AUTO(dlock_hold) one = NULL;
    DLOCK_AUTO(dlock_hold) other = NULL;
    CHECK_OK(dlock_acquire(first, "clock", 0, &one, NULL), NULL);
    int64_t token = dlock_hold_token(one);
    CHECK(passes(token));
    CHECK_ERR(dlock_acquire(second, "clock", 0, &other, NULL), DLOCK_EBUSY, NULL);
    server_clock_move(&its_clock, LONG_MS + 1);
    CHECK_OK(dlock_acquire(second, "clock", 0, &other, NULL), NULL);
    CHECK_OK(dlock_hold_check(one), NULL); /* by its own clock there is time left */
    CHECK(!passes(token));
    CHECK(dlock_hold_token(other) > token && passes(dlock_hold_token(other)));
    CHECK_ERR(dlock_hold_verify(one, NULL), DLOCK_ELOST, NULL);
    end();
}

/* Nobody gets it before, and its lease there is cut to what it asks for by the second renewal. */
TEST(put_back_a_living_holders_lease_is_cut_and_a_dead_ones_waits_for_a_break)
{
    enum { TTL_MS = 3000 };
    BEGIN();
    DLOCK_AUTO(dlock_client) first = opened(TTL_MS);
    DLOCK_AUTO(dlock_client) second = opened(LONG_MS);
    DLOCK_AUTO(dlock_hold) one = NULL;
    DLOCK_AUTO(dlock_hold) other = NULL;
    DLOCK_AUTO(dlock_lock) lock = NULL;
    CHECK_OK(dlock_acquire(first, "clock", 0, &one, NULL), NULL);
    server_clock_move(&its_clock, -HOUR_MS);
    CHECK(left_ms() > HOUR_MS - LONG_MS);
    CHECK_ERR(dlock_acquire(second, "clock", 0, &other, NULL), DLOCK_EBUSY, NULL);
    AWAIT(left_ms() <= TTL_MS);
    CHECK_OK(dlock_hold_verify(one, NULL), NULL);
    CHECK_OK(dlock_hold_release(one, NULL), NULL);

    CHECK_STR(ask("SELECT reply FROM dlock.acquire('clock', 'mutex', 'dead:1', 1000, "
                  "false, 1, 0, "
                  "true, 1000, false, '', '')"),
              "Y");
    server_clock_move(&its_clock, -HOUR_MS);
    CHECK(left_ms() > HOUR_MS - LONG_MS);
    CHECK_ERR(dlock_acquire(second, "clock", 0, &other, NULL), DLOCK_EBUSY, NULL);
    CHECK_OK(dlock_lock_new(second, DLOCK_MUTEX, "clock", NULL, &lock, NULL), NULL);
    CHECK_OK(dlock_lock_break(lock, NULL, NULL), NULL);
    CHECK_OK(dlock_lock_acquire(lock, LONG_MS, &other, NULL), NULL);
    CHECK(passes(dlock_hold_token(other)));
    end();
}

typedef struct waiter {
    dlock_client *client;
    dlock_err code;
    pthread_t thread;
} waiter;

static void *wait_for_it(void *arg)
{
    waiter *me = arg;
    DLOCK_AUTO(dlock_hold) hold = NULL;
    me->code = dlock_acquire(me->client, "clock", LONG_MS, &hold, NULL);
    return NULL;
}

/* Their places may be over, or last for an hour: they are served all the same, when the holder is done. */
TEST(who_waits_is_served_whichever_way_it_was_put)
{
    enum { WAITERS = 3 };
    static const int jumps_ms[] = {HOUR_MS, -HOUR_MS, 15000, -15000};
    BEGIN();
    DLOCK_AUTO(dlock_client) first = opened(2 * HOUR_MS);
    for (size_t i = 0; i < sizeof(jumps_ms) / sizeof(*jumps_ms); i++) {
        DLOCK_AUTO(dlock_hold) one = NULL;
        waiter waiters[WAITERS];
        CHECK_OK(dlock_acquire(first, "clock", LONG_MS, &one, NULL), NULL);
        for (int k = 0; k < WAITERS; k++) {
            waiters[k].client = opened(LONG_MS);
            CHECK(pthread_create(&waiters[k].thread, NULL, wait_for_it, &waiters[k]) ==
                  0);
        }
        AWAIT(strcmp(ask("SELECT count(*) FROM dlock.line"), "3") == 0);
        server_clock_move(&its_clock, jumps_ms[i]);
        CHECK_OK(dlock_hold_release(one, NULL), NULL);
        for (int k = 0; k < WAITERS; k++) {
            (void)pthread_join(waiters[k].thread, NULL);
            CHECK_ERR(waiters[k].code, DLOCK_OK, NULL);
            dlock_client_free(waiters[k].client);
        }
    }
    end();
}
