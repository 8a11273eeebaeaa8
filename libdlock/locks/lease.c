/* Sums about one lease; docs/design/0017-leases.md says from when it counts. */
#include "locks/lease.h"

#include "util/clock.h"

static int64_t end_of(int64_t since, int64_t ttl_ms, dlk_margin margin)
{
    int64_t usable_ms = ttl_ms - ttl_ms / 100 * margin.percent - margin.ms;
    return usable_ms > 0 ? dlk_clock_after(since, usable_ms) : since;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void set_end(dlk_lease *lease, int64_t at)
{
    atomic_store_explicit(&lease->ends_at, at, memory_order_release);
}

void dlk_lease_start(dlk_lease *lease, int64_t since, int64_t ttl_ms, dlk_margin margin,
                     int64_t limit)
{
    lease->limit = limit;
    set_end(lease, earlier(end_of(since, ttl_ms, margin), limit));
    lease->suspect_at = dlk_clock_after(since, ttl_ms / 2);
}

void dlk_lease_renew(dlk_lease *lease, int64_t since, int64_t ttl_ms, dlk_margin margin)
{
    int64_t end = earlier(end_of(since, ttl_ms, margin), lease->limit);
    set_end(lease, later(dlk_lease_end(lease), end));
    lease->suspect_at = later(lease->suspect_at, dlk_clock_after(since, ttl_ms / 2));
}

void dlk_lease_asked(dlk_lease *lease, int64_t now, int64_t ttl_ms, int64_t timeout_ms)
{
    lease->forgotten_at = later(
        lease->forgotten_at, dlk_clock_after(dlk_clock_after(now, timeout_ms), ttl_ms));
}
