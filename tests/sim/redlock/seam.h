/* Where the simulator ends, for libdlock/backends/redlock, which is compiled as it is with this
 * header put before it: time, sleep, and the backend of one node are the simulator's. */
#ifndef SIM_REDLOCK_SEAM_H
#define SIM_REDLOCK_SEAM_H

#include "backends/redis/redis.h"
#include "util/clock.h"

#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t sim_clock_now(void);
dlock_err sim_open_node(dlk_host *host, const dlk_uri *uri, dlk_backend **ret);
#define dlk_clock_now() sim_clock_now()
#define dlk_redis_open_node(host, uri, settings, ret, err)                               \
    ((void)(settings), (void)(err), sim_open_node((host), (uri), (ret)))

/* Nobody sleeps: the simulator calls when there is something to do. */
static inline long sim_nothing(long number, ...)
{
    return number * 0;
}
#define ppoll(set, count, left, mask)                                                    \
    ((int)sim_nothing(0, (set), (count), (left), (mask)))
#define nanosleep(time, left) ((void)(time), 0)
#define syscall(...)          sim_nothing(__VA_ARGS__)
#define close(fd)             sim_nothing(fd)

#endif
