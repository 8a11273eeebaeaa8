/* See the header. */
#include "held.h"

#include <inttypes.h>
#include <stdlib.h>

stage s;
int64_t ttl_ms;
dlock_client *client;
dlock_lock *lock;
dlock_hold *hold;

dlock_client *held_open(const char *uri, const char *ttl, const char *least_ms,
                        const char *most_ms)
{
    return stage_open(uri, "lock.ttl_ms", ttl, "client.timeout_ms", "300",
                      "client.connect_ms", "3000", "client.close_ms", "300",
                      "client.poll_ms", "200", "client.backoff_min_ms", least_ms,
                      "client.backoff_max_ms", most_ms, NULL);
}

bool held_set_up(const char *config, const char *ttl, const char *least_ms,
                 const char *most_ms)
{
    ttl_ms = atoll(ttl);
    if (!stage_set(&s, config) || !stage_put_proxy(&s))
        return false;
    client = held_open(s.proxied, ttl, least_ms, most_ms);
    lock = client ? stage_lock(client, "L") : NULL;
    hold = lock ? stage_take(lock) : NULL;
    return hold != NULL;
}

void held_tear_down(void)
{
    dlock_hold_free(hold);
    dlock_lock_free(lock);
    dlock_client_free(client);
    hold = NULL;
    CHECK(stage_clear(&s, ttl_ms));
}

bool held_in_time(const char *what, int64_t began, int64_t limit_ms)
{
    int64_t took = (awake_now_ns() - began) / STAGE_MS,
            limit = limit_ms + stage_slack_ms();
    if (took > limit)
        harness_note("%s took %" PRId64 " ms of %" PRId64, what, took, limit_ms);
    return harness_check(__FILE__, __LINE__, took <= limit, what);
}
