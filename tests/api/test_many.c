/* A thousand locks held by one client of a Redis: their renewals go out together, and each keeps a
 * fate of its own. */
#include "world.h"

#include "harness/redis_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCKS = 1000 };

typedef struct crowd {
    dlock_client *client;
    dlock_hold *holds[LOCKS];
} crowd;

static void let_go(crowd *c)
{
    for (int i = 0; i < LOCKS; i++)
        dlock_hold_free(c->holds[i]);
    dlock_client_free(c->client);
}

#define CROWD(name) crowd name __attribute__((cleanup(let_go))) = {0}

static bool take_all(crowd *c, const char *name, int64_t ttl_ms)
{
    c->client = world_client_of(ttl_ms, "lock.owner=none");
    dlock_op *ops[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        char text[128];
        snprintf(text, sizeof(text), "%s/%d/%d", name, (int)ttl_ms, i);
        DLOCK_AUTO(dlock_lock) lock = world_lock(c->client, text, NULL);
        ops[i] = dlock_lock_acquire_start(lock, patience_ms());
    }
    bool fine = true;
    for (int i = 0; i < LOCKS; i++) {
        fine = dlock_op_wait(ops[i], patience_ms()) == DLOCK_OK && fine;
        c->holds[i] = dlock_op_take_hold(ops[i]);
        fine = fine && c->holds[i] != NULL;
        dlock_op_free(ops[i]);
    }
    return harness_check(__FILE__, __LINE__, fine, "a thousand locks");
}

static int count_held(const crowd *c)
{
    int held = 0;
    for (int i = 0; i < LOCKS; i++)
        held += dlock_hold_check(c->holds[i]) == DLOCK_OK;
    return held;
}

static bool slept(const crowd *c)
{
    return api_stat(c->client, "suspects") > 0;
}

/* How often a script was run by its digest, on the whole server. */
static int64_t scripts_run(void)
{
    char text[8192];
    snprintf(text, sizeof(text), "%s",
             redis_server_call(world_redis(), "INFO commandstats"));
    const char *at = strstr(text, "cmdstat_evalsha:calls=");
    return at ? atoll(at + strlen("cmdstat_evalsha:calls=")) : 0;
}

static void share(const char *name, int64_t ttl_ms)
{
    CROWD(c);
    if (!take_all(&c, name, ttl_ms))
        return;
    int64_t scripts = scripts_run(), renewals = api_stat(c.client, "renewals");
    AWAIT(api_stat(c.client, "renewals") >= renewals + 3 * LOCKS || slept(&c));
    scripts = scripts_run() - scripts;
    renewals = api_stat(c.client, "renewals") - renewals;
    int held = count_held(&c);
    if (slept(&c))
        TOO_SLOW();
    harness_note("%d renewals in %d scripts", (int)renewals, (int)scripts);
    CHECK_EQ_INT(held, LOCKS);
    CHECK(scripts * 20 <= renewals);
}

TEST(a_thousand_locks_are_renewed_by_a_twentieth_of_as_many_scripts)
{
    BEGIN();
    WITH_LEASE_FROM(2400, share);
}

static void lose_some(const char *name, int64_t ttl_ms)
{
    static const int gone[] = {0, 500, LOCKS - 1};
    CROWD(c);
    if (!take_all(&c, name, ttl_ms))
        return;
    redis_server_call(world_redis(), "DEL %s", dlock_hold_name(c.holds[gone[0]]));
    redis_server_call(world_redis(), "DEL %s", dlock_hold_name(c.holds[gone[1]]));
    redis_server_call(world_redis(), "SET %s text", dlock_hold_name(c.holds[gone[1]]));
    redis_server_call(world_redis(), "DEL %s", dlock_hold_name(c.holds[gone[2]]));
    redis_server_call(world_redis(), "HSET %s somebody:1 1",
                      dlock_hold_name(c.holds[gone[2]]));
    for (int i = 0; i < 3; i++)
        AWAIT(dlock_hold_state(c.holds[gone[i]]) == DLOCK_LOST);
    /* In the midst of it all connections are cut; what is unanswered is asked again. */
    redis_server_call(world_redis(), "CLIENT KILL TYPE normal");
    int64_t renewals = api_stat(c.client, "renewals");
    AWAIT(api_stat(c.client, "renewals") >= renewals + 2 * LOCKS || slept(&c));
    int held = count_held(&c);
    int64_t losses = api_stat(c.client, "losses");
    redis_server_call(world_redis(), "DEL %s %s", dlock_hold_name(c.holds[gone[1]]),
                      dlock_hold_name(c.holds[gone[2]]));
    if (slept(&c))
        TOO_SLOW();
    CHECK_EQ_INT(held, LOCKS - 3);
    CHECK_EQ_INT(losses, 3);
}

TEST(a_lock_that_is_gone_is_lost_alone_and_a_cut_loses_none)
{
    BEGIN();
    WITH_LEASE_FROM(2400, lose_some);
}
